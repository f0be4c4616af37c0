//! Inner products with a key, the division by P (and by the last prime, when a rescale is merged), and what is done with the
//! quotient while its row is cached.

use std::ops::Range;

use cipherloom_ring::{Ntt, Poly};
use rayon::prelude::*;

use super::raise::{Decomposed, DigitTerms, DivisionTerms, Group};
use super::{for_each_chunk, Addend, KeySwitchTables, Operand};
use crate::error::CkksError;
use crate::keys::EvaluationKey;
use crate::scratch::{PolyPool, ScratchPool, MIN_PARALLEL_DEGREE};

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
    /// Index table of an automorphism that comes last.
    pub permutation: Option<&'a [u32]>,
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
        let dropped = self.special + usize::from(output.rescale);
        let last = self.special + level;
        let mut products = pool.take(dropped * 2 * n);
        let (special, rest) = products.split_at_mut(self.special * 2 * n);
        let both = |range: Range<usize>, out: &mut [u64]| {
            let group = self.group(digits.terms(), None, range.clone(), pool);
            let rows = digits.rows(&group);
            for_each_chunk(out, 2 * n, n, |i, out| {
                let j = range.start + i;
                let table = &self.pq.tables()[j];
                let mut scratch = pool.take((key.digits().len() + 1) * t.row);
                let (b, a) = out.split_at_mut(n);
                let each = b.chunks_exact_mut(t.row).zip(a.chunks_exact_mut(t.row));
                for (s, (b, a)) in each.enumerate() {
                    self.inner_row(&rows, level, key, (j, s), &mut scratch, [b, a]);
                    for (half, acc) in [b, a].into_iter().enumerate() {
                        if let (true, Some(add)) = (j == last, &output.add) {
                            let row = s * t.row..(s + 1) * t.row;
                            let p = self.p_mod_q[level];
                            let (m, at) = (table.modulus(), (half, level));
                            let spare = &mut scratch[..t.row];
                            add.add_row_times(backend, m, at, row, p, (acc, spare));
                        }
                        backend.inverse_tail(table, s, acc);
                    }
                }
            });
        };
        for range in self.ranges(0..self.special, level) {
            let words = range.start * 2 * n..range.end * 2 * n;
            both(range, &mut special[words]);
        }
        if output.rescale {
            both(last..last + 1, rest);
        }
        let divisor = if output.rescale {
            &self.down_rescale[level]
        } else {
            &self.down
        };
        let per_half = divisor.converter.terms(&t);
        let mut words = pool.take(2 * per_half * t.count);
        for_each_chunk(&mut words, 2 * per_half, n, |tile, terms| {
            for (half, terms) in terms.chunks_exact_mut(per_half).enumerate() {
                divisor.converter.prepare(backend, &t, terms, |i, out| {
                    let start = (2 * i + half) * n;
                    t.gather_tile(&products[start..start + n], tile, out);
                });
            }
        });
        DivisionTerms {
            words,
            per_tile: 2 * per_half,
            divisor,
        }
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
        for range in self.ranges(0..keep, level) {
            let limbs = self.special + range.start..self.special + range.end;
            let group = self.group(digits.terms(), Some(division), limbs, pool);
            let rows = digits.rows(&group);
            let limb = |i: usize, out: [&mut [u64]; 2]| {
                let i = range.start + i;
                self.finish_limb(
                    &rows,
                    (level, i),
                    key,
                    (division, &group),
                    output,
                    pool,
                    out,
                );
            };
            let words = range.start * n..range.end * n;
            let (o0, o1) = (&mut u0.data_mut()[words.clone()], &mut u1.data_mut()[words]);
            if n >= MIN_PARALLEL_DEGREE && range.len() > 1 {
                o0.par_chunks_exact_mut(n)
                    .zip(o1.par_chunks_exact_mut(n))
                    .enumerate()
                    .for_each(|(i, (o0, o1))| limb(i, [o0, o1]));
            } else {
                o0.chunks_exact_mut(n)
                    .zip(o1.chunks_exact_mut(n))
                    .enumerate()
                    .for_each(|(i, (o0, o1))| limb(i, [o0, o1]));
            }
        }
        Ok([u0, u1])
    }

    /// Limb `i` of both results.
    #[allow(clippy::too_many_arguments)] // The state of one switch; a struct would only rename it.
    fn finish_limb(
        &self,
        rows: &Rows<'_>,
        (level, i): (usize, usize),
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
        let turned = if output.permutation.is_some() {
            2 * n
        } else {
            0
        };
        let mut scratch = pool.take(turned + (digit_count + 3) * t.row);
        let (turned, scratch) = scratch.split_at_mut(turned);
        let (acc, scratch) = scratch.split_at_mut(2 * t.row);
        let [out0, out1] = out;
        let (dst0, dst1) = if output.permutation.is_some() {
            turned.split_at_mut(n)
        } else {
            (&mut *out0, &mut *out1)
        };
        for s in 0..t.rows {
            let row = s * t.row..(s + 1) * t.row;
            let (b, a) = acc.split_at_mut(t.row);
            self.inner_row(rows, level, key, (j, s), scratch, [b, a]);
            for (half, (acc, dst)) in [(b, &mut *dst0), (a, &mut *dst1)].into_iter().enumerate() {
                let dst = &mut dst[row.clone()];
                self.group_row(group, j, remainders + half, s, dst);
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
            }
        }
        if let Some(permutation) = output.permutation {
            backend.permute(out0, &turned[..n], permutation);
            backend.permute(out1, &turned[n..], permutation);
        }
    }

    /// Row `s` of limb `j` of both inner products. `scratch` takes a row for each digit.
    fn inner_row(
        &self,
        rows: &Rows<'_>,
        level: usize,
        key: &EvaluationKey,
        (j, s): (usize, usize),
        scratch: &mut [u64],
        [b, a]: [&mut [u64]; 2],
    ) {
        let (n, t, backend) = (self.q.n(), self.tiling, self.q.backend());
        let m = self.pq.modulus(j);
        let row = s * t.row..(s + 1) * t.row;
        let count = self.digit_count(level);
        if let Rows::Fresh(operand, group) = rows {
            let own = self.own_digit(j);
            for (d, out) in scratch.chunks_exact_mut(t.row).take(count).enumerate() {
                if own != Some(d) {
                    self.group_row(group, j, d, s, out);
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
            let mut terms = [[&[][..]; 3]; TERMS];
            for (i, (term, k)) in terms.iter_mut().zip(keys).enumerate() {
                *term = [
                    digit(chunk * TERMS + i),
                    &k.b().limb(j)[row.clone()],
                    &k.a().limb(j)[row.clone()],
                ];
            }
            backend.key_products(m, [&mut *b, &mut *a], &terms[..keys.len()], chunk > 0);
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
