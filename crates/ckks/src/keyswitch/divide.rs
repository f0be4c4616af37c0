//! Inner products with a key, the division by P (and by the last prime, when a rescale is merged), and what is done with the
//! quotient while its row is cached.

use std::ops::Range;

use cipherloom_ring::{Ahead, Automorphism, Ntt, Poly};

use super::raise::{Decomposed, DigitTerms, DivisionTerms, Group};
use super::{Addend, KeySwitchTables, Operand};
use crate::error::CkksError;
use crate::keys::EvaluationKey;
use crate::scratch::{for_each_chunk, for_each_limb_pair, PolyPool, ScratchPool};

/// Size of a result that is written past the caches.
const STREAM_BYTES: usize = 12 << 20;
/// Digits that one call of the inner-product kernel takes.
const TERMS: usize = 8;

/// Where the digits come from.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// They are made on the way.
    Fresh(Operand<'a>),
    /// They were made before, for several keys.
    Hoisted(&'a Decomposed<'a>),
}

/// What becomes of the two quotients (u0, u1).
#[derive(Clone, Copy, Default)]
pub(crate) struct Output<'a> {
    /// Added before the rescale, if there is one, and before the automorphism.
    pub add: Option<Addend<'a>>,
    /// Also divides by q_level, with the same rounding.
    pub rescale: bool,
    /// An automorphism that comes last.
    pub automorphism: Option<&'a Automorphism>,
}

/// Digits as the inner products see them.
enum Digits<'a> {
    Fresh(Operand<'a>, DigitTerms<'a>),
    Hoisted(&'a Decomposed<'a>),
}

/// The digits of some limbs.
enum Rows<'a> {
    Fresh(&'a Operand<'a>, &'a Group<'a>),
    Hoisted(&'a Decomposed<'a>),
}

impl KeySwitchTables {
    /// Switches the key: round((sum of digits times key) / P), finished as `output` says: two polynomials over q_0 ... q_level,
    /// or one limb less after a rescale (the level is at least 1 then).
    pub(crate) fn switch(
        &self,
        source: Source<'_>,
        key: &EvaluationKey,
        output: &Output<'_>,
        pool: &ScratchPool,
        polys: &PolyPool,
    ) -> Result<[Poly<Ntt>; 2], CkksError> {
        let level = match &source {
            Source::Fresh(operand) => operand.level(),
            Source::Hoisted(d) => d.level(),
        };
        key.check_reaches(level)?;
        let digits = match source {
            Source::Fresh(operand) => {
                let terms = self.digit_terms(&operand, pool);
                Digits::Fresh(operand, terms)
            }
            Source::Hoisted(d) => Digits::Hoisted(d),
        };
        let division = self.division_terms(&digits, level, key, output, pool);
        self.quotients(&digits, level, key, &division, output, (pool, polys))
    }

    /// The inner products modulo the primes that are divided by, ready for conversion.
    fn division_terms<'a>(
        &'a self,
        digits: &Digits<'_>,
        level: usize,
        key: &EvaluationKey,
        output: &Output<'_>,
        pool: &'a ScratchPool,
    ) -> DivisionTerms<'a> {
        let (n, t, backend) = (self.q.n(), self.tiling, self.q.backend());
        let divisor = if output.rescale {
            &self.down_rescale[level]
        } else {
            &self.down
        };
        let (converter, stride) = (&divisor.converter, t.stride());
        let last = self.special + level;
        let mut words = pool.take((converter.len() + 1) * 2 * stride);
        let (scaled, quotients) = words.split_at_mut(converter.len() * 2 * stride);
        // Limbs `range` of the key basis, whose places among the divided primes start at `place`.
        let both = |range: Range<usize>, place: usize, out: &mut [u64]| {
            let group = self.group(digits.terms(), None, range.clone(), pool);
            let rows = digits.rows(&group);
            for_each_chunk(out, 2 * stride, n, |i, out| {
                let j = range.start + i;
                let table = &self.pq.tables()[j];
                let mut products = pool.take(2 * n);
                let mut scratch = pool.take((key.digits().len() + 1) * t.row);
                let (b, a) = products.split_at_mut(n);
                let each = b.chunks_exact_mut(t.row).zip(a.chunks_exact_mut(t.row));
                for (s, (b, a)) in each.enumerate() {
                    let mut ahead = Ahead::new();
                    if let Some((j, s)) = t.next_row(j, s, range.end) {
                        self.announce_inner_row(&rows, level, key, (j, s), &mut ahead);
                    }
                    self.inner_row(&rows, level, key, (j, s), &mut scratch, [b, a], &mut ahead);
                    for (half, acc) in [b, a].into_iter().enumerate() {
                        if let (true, Some(add)) = (j == last, &output.add) {
                            let row = s * t.row..(s + 1) * t.row;
                            let p = self.p_mod_q[level];
                            let (m, at) = (table.modulus(), (half, level));
                            let spare = &mut scratch[..t.row];
                            add.add_row_times(backend, m, at, row, p, (acc, spare));
                        }
                        backend.inverse_tail(table, s, acc, &mut ahead);
                    }
                }
                for (limb, out) in [b, a].into_iter().zip(out.chunks_exact_mut(stride)) {
                    converter.scale_limb(backend, &t, place + i, limb, &mut out[..n]);
                }
            });
        };
        let (special, rest) = scaled.split_at_mut(self.special * 2 * stride);
        for range in self.ranges(0..self.special) {
            let words = range.start * 2 * stride..range.end * 2 * stride;
            both(range.clone(), range.start, &mut special[words]);
        }
        if output.rescale {
            both(last..last + 1, self.special, rest);
        }
        for (half, out) in quotients.chunks_exact_mut(stride).enumerate() {
            let scaled = &scaled[half * stride..];
            converter.quotients(backend, &t, scaled, 2 * stride, &mut out[..n]);
        }
        DivisionTerms { words, divisor }
    }

    /// The quotients modulo the primes that stay.
    fn quotients(
        &self,
        digits: &Digits<'_>,
        level: usize,
        key: &EvaluationKey,
        division: &DivisionTerms<'_>,
        output: &Output<'_>,
        (pool, polys): (&ScratchPool, &PolyPool),
    ) -> Result<[Poly<Ntt>; 2], CkksError> {
        let n = self.q.n();
        let keep = level + usize::from(!output.rescale);
        let basis = self.q.prefix(keep)?;
        let mut u0 = polys.take(&basis);
        let mut u1 = polys.take(&basis);
        for range in self.ranges(0..keep) {
            let limbs = self.special + range.start..self.special + range.end;
            let group = self.group(digits.terms(), Some(division), limbs, pool);
            let rows = digits.rows(&group);
            let limb = |i: usize, out0: &mut [u64], out1: &mut [u64]| {
                let i = range.start + i;
                self.finish_limb(
                    &rows,
                    (level, i, range.end),
                    key,
                    (division, &group),
                    output,
                    pool,
                    [out0, out1],
                );
            };
            let words = range.start * n..range.end * n;
            let (o0, o1) = (&mut u0.data_mut()[words.clone()], &mut u1.data_mut()[words]);
            for_each_limb_pair(o0, o1, n, limb);
        }
        Ok([u0, u1])
    }

    /// Limb `i` of both results.
    #[allow(clippy::too_many_arguments)] // The state of one switch; a struct would only rename it.
    fn finish_limb(
        &self,
        rows: &Rows<'_>,
        (level, i, end): (usize, usize, usize),
        key: &EvaluationKey,
        (division, group): (&DivisionTerms<'_>, &Group<'_>),
        output: &Output<'_>,
        pool: &ScratchPool,
        out: [&mut [u64]; 2],
    ) {
        let (n, t, backend) = (self.q.n(), self.tiling, self.q.backend());
        let (j, m) = (self.special + i, self.q.modulus(i));
        let digit_count = self.digit_count(level);
        let remainders = match rows {
            Rows::Fresh(..) => digit_count,
            Rows::Hoisted(_) => 0,
        };
        // A result that the caches do not hold is not worth fetching first.
        let streaming = 2 * (level + 1) * n * size_of::<u64>() >= STREAM_BYTES;
        let mut scratch = pool.take((digit_count + 4) * t.row);
        let (turned, scratch) = scratch.split_at_mut(t.row);
        let (acc, scratch) = scratch.split_at_mut(2 * t.row);
        for s in 0..t.rows {
            let row = s * t.row..(s + 1) * t.row;
            let mut ahead = Ahead::new();
            if let (false, Some(automorphism)) = (streaming, output.automorphism) {
                let lines = &automorphism.destinations()[row.start / 8..row.end / 8];
                for out in &out {
                    ahead.push_lines(out.as_ptr(), lines);
                }
            }
            if let Some((i, s)) = t.next_row(i, s, end) {
                let (j, row) = (self.special + i, s * t.row..(s + 1) * t.row);
                self.announce_inner_row(rows, level, key, (j, s), &mut ahead);
                let both = remainders..remainders + 2;
                self.announce_group_row(group, j, both, s, &mut ahead);
                if let Some(add) = &output.add {
                    add.announce_row(i, row, &mut ahead);
                }
            }
            let (b, a) = acc.split_at_mut(t.row);
            self.inner_row(rows, level, key, (j, s), scratch, [b, a], &mut ahead);
            for (half, acc) in [b, a].into_iter().enumerate() {
                let dst = if output.automorphism.is_some() {
                    &mut *turned
                } else {
                    &mut out[half][row.clone()]
                };
                self.group_row(group, (j, remainders + half), s, dst, &mut ahead);
                if let (true, Some(add)) = (output.rescale, &output.add) {
                    let spare = &mut scratch[..t.row];
                    let p = self.p_mod_q[i];
                    add.add_row_times(backend, m, (half, i), row.clone(), p, (acc, spare));
                }
                // (acc - r) / P = (r - acc)(-1/P), which overwrites r.
                backend.sub_scalar_mul(m, dst, acc, division.divisor.neg_inv[i]);
                if let (false, Some(add)) = (output.rescale, &output.add) {
                    add.add_row(backend, m, (half, i), row.clone(), dst);
                }
                if let Some(automorphism) = output.automorphism {
                    backend.permute_row(out[half], turned, row.start, automorphism, streaming);
                }
            }
        }
    }

    /// Says that [`KeySwitchTables::inner_row`] with the same arguments follows.
    fn announce_inner_row<'a>(
        &self,
        rows: &Rows<'a>,
        level: usize,
        key: &'a EvaluationKey,
        (j, s): (usize, usize),
        ahead: &mut Ahead<'a>,
    ) {
        let row = s * self.tiling.row..(s + 1) * self.tiling.row;
        let count = self.digit_count(level);
        let own = self.own_digit(j);
        match rows {
            Rows::Fresh(operand, group) => {
                let entries = (0..count).filter(|&d| own != Some(d));
                self.announce_group_row(group, j, entries, s, ahead);
                if own.is_some() {
                    operand.announce_row(j - self.special, row.clone(), ahead);
                }
            }
            Rows::Hoisted(decomposed) => {
                for d in 0..count {
                    ahead.push(decomposed.row(self.q.n(), j, d, row.clone()));
                }
            }
        }
        for k in &key.digits()[..count] {
            for p in [k.b(), k.a()] {
                let packed = p.row(j, row.clone());
                let bytes = packed.len() / 8 * packed.bits() as usize;
                ahead.push_bytes(&packed.bytes()[..bytes]);
            }
        }
    }

    /// Row `s` of limb `j` of both inner products. `scratch` takes a row for each digit.
    #[allow(clippy::too_many_arguments)] // As for `finish_limb`.
    fn inner_row(
        &self,
        rows: &Rows<'_>,
        level: usize,
        key: &EvaluationKey,
        (j, s): (usize, usize),
        scratch: &mut [u64],
        [b, a]: [&mut [u64]; 2],
        ahead: &mut Ahead<'_>,
    ) {
        let (n, t, backend) = (self.q.n(), self.tiling, self.q.backend());
        let m = self.pq.modulus(j);
        let row = s * t.row..(s + 1) * t.row;
        let count = self.digit_count(level);
        if let Rows::Fresh(operand, group) = rows {
            let own = self.own_digit(j);
            for (d, out) in scratch.chunks_exact_mut(t.row).take(count).enumerate() {
                if own != Some(d) {
                    self.group_row(group, (j, d), s, out, ahead);
                } else if let Operand::Product(..) = operand {
                    operand.write_row(backend, m, j - self.special, row.clone(), out);
                }
            }
        }
        let digit = |d: usize| match rows {
            Rows::Fresh(Operand::Poly(p), _) if self.own_digit(j) == Some(d) => {
                &p.limb(j - self.special)[row.clone()]
            }
            Rows::Fresh(..) => &scratch[d * t.row..(d + 1) * t.row],
            Rows::Hoisted(decomposed) => decomposed.row(n, j, d, row.clone()),
        };
        for (chunk, keys) in key.digits()[..count].chunks(TERMS).enumerate() {
            let of_key = |i: usize| {
                // Places beyond the last digit are not used.
                let i = i.min(keys.len() - 1);
                let rows = [keys[i].b(), keys[i].a()].map(|p| p.row(j, row.clone()));
                (digit(chunk * TERMS + i), rows)
            };
            let terms: [_; TERMS] = std::array::from_fn(of_key);
            backend.key_products_packed(m, [&mut *b, &mut *a], &terms[..keys.len()], chunk > 0);
        }
    }
}

impl<'a> Digits<'a> {
    /// What a group raises.
    fn terms(&self) -> Option<&DigitTerms<'a>> {
        match self {
            Self::Fresh(_, terms) => Some(terms),
            Self::Hoisted(_) => None,
        }
    }

    /// The digits of the limbs of a group.
    fn rows<'b>(&'b self, group: &'b Group<'b>) -> Rows<'b> {
        match self {
            Self::Fresh(operand, _) => Rows::Fresh(operand, group),
            Self::Hoisted(d) => Rows::Hoisted(d),
        }
    }
}
