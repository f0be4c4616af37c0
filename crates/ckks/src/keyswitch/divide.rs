//! Inner products with keys, the division by P (and by the last prime, when a rescale is merged), and what is done with the
//! quotient while its row is cached.

use std::ops::Range;

use cipherloom_ring::{Ahead, Automorphism, Destination, Ntt, Poly, Shoup};

use super::raise::{Decomposed, DigitTerms, DivisionTerms, Group};
use super::{Addend, KeySwitchTables, Operand};
use crate::error::CkksError;
use crate::keys::EvaluationKey;
use crate::scratch::{for_each_chunk, for_each_limb_of, Pairs, PolyPool, Scratch, ScratchPool};

/// Size of a result that is written past the caches.
const STREAM_BYTES: usize = 12 << 20;
/// Digits that one call of the inner-product kernel takes.
const TERMS: usize = 8;
/// Words of both halves of a row that stay in the first-level cache from the inner product to the end.
const PART: usize = 1 << 11;

/// Where the digits come from.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// They are made on the way.
    Fresh(Operand<'a>),
    /// They were made before, for several keys.
    Hoisted(&'a Decomposed<'a>),
}

/// A key, and what becomes of the two quotients (u0, u1) that it gives.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub key: &'a EvaluationKey,
    /// Added before the rescale, if there is one, and before the automorphism.
    pub add: Option<Addend<'a>>,
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

/// What all steps of a switch need.
struct Switch<'a, const K: usize> {
    tables: &'a KeySwitchTables,
    digits: Digits<'a>,
    jobs: [Job<'a>; K],
    level: usize,
    /// Whether q_level is divided by too.
    rescale: bool,
    pool: &'a ScratchPool,
}

impl KeySwitchTables {
    /// Switches one polynomial with `K` keys: round((sum of digits times key) / P) for each, also divided by q_level with the same
    /// rounding if `rescale`, finished as the job says: two polynomials over q_0 ... q_level, or one limb less after a rescale
    /// (the level is at least 1 then). Several keys for one pass over the digits of a hoisted polynomial save reading them.
    pub(crate) fn switch<const K: usize>(
        &self,
        source: Source<'_>,
        rescale: bool,
        jobs: [Job<'_>; K],
        (pool, polys): (&ScratchPool, &PolyPool),
    ) -> Result<[[Poly<Ntt>; 2]; K], CkksError> {
        let level = match &source {
            Source::Fresh(operand) => operand.level(),
            Source::Hoisted(d) => d.level(),
        };
        for job in &jobs {
            job.key.check_reaches(level)?;
        }
        let digits = match source {
            Source::Fresh(operand) => {
                let terms = self.digit_terms(&operand, pool);
                Digits::Fresh(operand, terms)
            }
            Source::Hoisted(d) => Digits::Hoisted(d),
        };
        let switch = Switch {
            tables: self,
            digits,
            jobs,
            level,
            rescale,
            pool,
        };
        let division = switch.division_terms();
        switch.quotients(&division, polys)
    }
}

impl<const K: usize> Switch<'_, K> {
    /// The inner products modulo the primes that are divided by, ready for conversion.
    fn division_terms(&self) -> DivisionTerms<'_> {
        let tables = self.tables;
        let (n, t, backend) = (tables.q.n(), tables.tiling, tables.q.backend());
        let divisor = if self.rescale {
            &tables.down_rescale[self.level]
        } else {
            &tables.down
        };
        let (converter, count) = (&divisor.converter, 2 * K);
        let stride = t.stride();
        let last = tables.special + self.level;
        let mut words = self.pool.take((converter.len() + 1) * count * stride);
        let (scaled, quotients) = words.split_at_mut(converter.len() * count * stride);
        // Limbs `range` of the key basis, whose places among the divided primes start at `place`.
        let limbs = |range: Range<usize>, place: usize, out: &mut [u64]| {
            let group = tables.group(self.digits.terms(), None, range.clone(), self.pool);
            let rows = self.digits.rows(&group);
            for_each_chunk(out, count * stride, n, |i, out| {
                let j = range.start + i;
                let table = &tables.pq.tables()[j];
                let mut products = self.pool.take(count * n);
                let mut digits = self.digit_scratch();
                for s in 0..t.rows {
                    let row = s * t.row..(s + 1) * t.row;
                    for (x, products) in products.chunks_exact_mut(2 * n).enumerate() {
                        let (b, a) = products.split_at_mut(n);
                        let (b, a) = (&mut b[row.clone()], &mut a[row.clone()]);
                        let mut ahead = Ahead::new();
                        if let Some((j, s, x)) = self.next((j, s, x), range.end) {
                            self.announce(&rows, (j, s, x), &mut ahead);
                        }
                        if x == 0 {
                            self.digit_rows(&rows, (j, s), &mut digits, &mut ahead);
                        }
                        self.products(&rows, x, j, row.clone(), &digits, [b, a], false);
                        for (half, acc) in [b, a].into_iter().enumerate() {
                            if let (true, Some(add)) = (j == last, &self.jobs[x].add) {
                                let (m, at) = (table.modulus(), (half, self.level));
                                add.add_row(backend, m, at, row.clone(), acc);
                            }
                            backend.inverse_tail(table, s, acc, &mut ahead);
                        }
                    }
                }
                let each = products.chunks_exact(n).zip(out.chunks_exact_mut(stride));
                for (limb, out) in each {
                    converter.scale_limb(backend, &t, place + i, limb, &mut out[..n]);
                }
            });
        };
        let (special, rest) = scaled.split_at_mut(tables.special * count * stride);
        for range in tables.ranges(0..tables.special) {
            let words = range.start * count * stride..range.end * count * stride;
            limbs(range.clone(), range.start, &mut special[words]);
        }
        if self.rescale {
            limbs(last..last + 1, tables.special, rest);
        }
        for (poly, out) in quotients.chunks_exact_mut(stride).enumerate() {
            let scaled = &scaled[poly * stride..];
            converter.quotients(backend, &t, scaled, count * stride, &mut out[..n]);
        }
        DivisionTerms {
            words,
            divisor,
            count,
        }
    }

    /// The quotients modulo the primes that stay.
    fn quotients(
        &self,
        division: &DivisionTerms<'_>,
        polys: &PolyPool,
    ) -> Result<[[Poly<Ntt>; 2]; K], CkksError> {
        let tables = self.tables;
        let n = tables.q.n();
        let keep = self.level + usize::from(!self.rescale);
        let basis = tables.q.prefix(keep)?;
        let mut out = std::array::from_fn(|_| [polys.take(&basis), polys.take(&basis)]);
        for range in tables.ranges(0..keep) {
            let limbs = tables.special + range.start..tables.special + range.end;
            let group = tables.group(self.digits.terms(), Some(division), limbs, self.pool);
            let rows = self.digits.rows(&group);
            let words = range.start * n..range.end * n;
            let data = out.each_mut().map(|pair: &mut [Poly<Ntt>; 2]| {
                pair.each_mut().map(|p| &mut p.data_mut()[words.clone()])
            });
            for_each_limb_of(data, n, &|i, out| {
                let limb = (range.start + i, range.end);
                self.finish_limb(&rows, limb, division, &group, out);
            });
        }
        Ok(out)
    }

    /// Limb `i` of all results; limbs up to `end` follow.
    fn finish_limb(
        &self,
        rows: &Rows<'_>,
        (i, end): (usize, usize),
        division: &DivisionTerms<'_>,
        group: &Group<'_>,
        mut out: Pairs<'_, K>,
    ) {
        let tables = self.tables;
        let (n, t) = (tables.q.n(), tables.tiling);
        let j = tables.special + i;
        let remainders = match rows {
            Rows::Fresh(..) => tables.digit_count(self.level),
            Rows::Hoisted(_) => 0,
        };
        // A result that the caches do not hold is not worth fetching first.
        let streaming = 2 * (self.level + 1) * n * size_of::<u64>() >= STREAM_BYTES;
        let last_inv = division.divisor.last_inv.get(i);
        let mut digits = self.digit_scratch();
        let mut turned = self.pool.take(2 * t.row);
        for s in 0..t.rows {
            let row = s * t.row..(s + 1) * t.row;
            for (x, (job, out)) in self.jobs.iter().zip(&mut out).enumerate() {
                let mut ahead = Ahead::new();
                if let (false, Some(automorphism)) = (streaming, job.automorphism) {
                    let lines = &automorphism.destinations()[row.start / 8..row.end / 8];
                    for out in out.iter() {
                        ahead.push_lines(out.as_ptr(), lines);
                    }
                }
                if let Some((j, s, x)) = self.next((j, s, x), tables.special + end) {
                    self.announce(rows, (j, s, x), &mut ahead);
                    let both = remainders + 2 * x..remainders + 2 * x + 2;
                    tables.announce_group_row(group, j, both, s, &mut ahead);
                    if let Some(add) = &self.jobs[x].add {
                        let row = s * t.row..(s + 1) * t.row;
                        add.announce_row(j - tables.special, row, &mut ahead);
                    }
                }
                if x == 0 {
                    self.digit_rows(rows, (j, s), &mut digits, &mut ahead);
                }
                let place = (j, remainders + 2 * x);
                let remainders = |out: [&mut [u64]; 2], ahead: &mut Ahead<'_>| {
                    for (half, out) in out.into_iter().enumerate() {
                        tables.group_row(group, (place.0, place.1 + half), s, out, ahead);
                    }
                };
                let Some(automorphism) = job.automorphism else {
                    let [r0, r1] = out.each_mut().map(|o| &mut o[row.clone()]);
                    remainders([&mut *r0, &mut *r1], &mut ahead);
                    self.finish_row(rows, (x, i, s), &digits, last_inv, [r0, r1], |_, _| ());
                    continue;
                };
                let (r0, r1) = turned.split_at_mut(t.row);
                remainders([&mut *r0, &mut *r1], &mut ahead);
                let add = self.joins_last(job).map(|c| c.limb(i));
                self.finish_row(
                    rows,
                    (x, i, s),
                    &digits,
                    last_inv,
                    [r0, r1],
                    |words, parts| {
                        let to = Destination {
                            automorphism,
                            offset: words.start,
                            streaming,
                        };
                        let out = out.each_mut().map(|o| &mut **o);
                        let add = add.map(|c| &c[words]);
                        let m = tables.q.modulus(i);
                        tables.q.backend().permute_rows(m, out, parts, add, to);
                    },
                );
            }
        }
    }

    /// What joins the first result of a job on its way through the automorphism.
    fn joins_last<'b>(&self, job: &Job<'b>) -> Option<&'b Poly<Ntt>> {
        let add = job
            .add
            .filter(|_| job.automorphism.is_some() && !self.rescale);
        add.and_then(|add| add.first_only())
    }

    /// Row `s` of limb `i` of both results of job `x`, before the automorphism. `out` has the remainders. Calls `then` for each part that is ready.
    fn finish_row(
        &self,
        rows: &Rows<'_>,
        (x, i, s): (usize, usize, usize),
        digits: &[u64],
        last_inv: Option<&Shoup>,
        [r0, r1]: [&mut [u64]; 2],
        mut then: impl FnMut(Range<usize>, [&[u64]; 2]),
    ) {
        let tables = self.tables;
        let (backend, m) = (tables.q.backend(), tables.q.modulus(i));
        let job = &self.jobs[x];
        let add = job.add.filter(|_| self.joins_last(job).is_none());
        let parts = r0.chunks_mut(PART).zip(r1.chunks_mut(PART));
        let starts = (s * tables.tiling.row..).step_by(PART);
        for ((r0, r1), start) in parts.zip(starts) {
            let words = start..start + r0.len();
            let j = tables.special + i;
            let sums = [&mut *r0, &mut *r1];
            self.products(rows, x, j, words.clone(), digits, sums, true);
            for (half, r) in [&mut *r0, &mut *r1].into_iter().enumerate() {
                if let Some(add) = &add {
                    add.add_row(backend, m, (half, i), words.clone(), r);
                }
                if let Some(&inv) = last_inv {
                    backend.scalar_mul_assign(m, r, inv);
                }
            }
            then(words, [r0, r1]);
        }
    }

    /// A row for each digit that has none of its own.
    fn digit_scratch(&self) -> Scratch<'_> {
        let rows = match self.digits {
            Digits::Fresh(..) => self.tables.digit_count(self.level),
            Digits::Hoisted(_) => 0,
        };
        self.pool.take(rows * self.tables.tiling.row)
    }

    /// Limb, row and job that follow, below limb `end`.
    fn next(&self, (j, s, x): (usize, usize, usize), end: usize) -> Option<(usize, usize, usize)> {
        if x + 1 < K {
            return Some((j, s, x + 1));
        }
        let (j, s) = self.tables.tiling.next_row(j, s, end)?;
        Some((j, s, 0))
    }

    /// Says that the digits and keys of row `s` of limb `j` will be read for job `x`.
    fn announce<'b>(
        &'b self,
        rows: &Rows<'b>,
        (j, s, x): (usize, usize, usize),
        ahead: &mut Ahead<'b>,
    ) {
        let tables = self.tables;
        let row = s * tables.tiling.row..(s + 1) * tables.tiling.row;
        let count = tables.digit_count(self.level);
        let own = tables.own_digit(j);
        match rows {
            _ if x > 0 => {}
            Rows::Fresh(operand, group) => {
                let entries = (0..count).filter(|&d| own != Some(d));
                tables.announce_group_row(group, j, entries, s, ahead);
                if own.is_some() {
                    operand.announce_row(j - tables.special, row.clone(), ahead);
                }
            }
            Rows::Hoisted(decomposed) => {
                for d in 0..count {
                    ahead.push(decomposed.row(tables.q.n(), j, d, row.clone()));
                }
            }
        }
        for k in &self.jobs[x].key.digits()[..count] {
            for p in [k.b(), k.a()] {
                let packed = p.row(j, row.clone());
                let bytes = packed.len() / 8 * packed.bits() as usize;
                ahead.push_bytes(&packed.bytes()[..bytes]);
            }
        }
    }

    /// Makes row `s` of limb `j` of those digits that have none yet; `out` takes a row for each.
    fn digit_rows(
        &self,
        rows: &Rows<'_>,
        (j, s): (usize, usize),
        out: &mut [u64],
        ahead: &mut Ahead<'_>,
    ) {
        let tables = self.tables;
        let t = tables.tiling;
        let Rows::Fresh(operand, group) = rows else {
            return;
        };
        let own = tables.own_digit(j);
        for (d, out) in out.chunks_exact_mut(t.row).enumerate() {
            if own != Some(d) {
                tables.group_row(group, (j, d), s, out, ahead);
            } else if let Operand::Product(..) = operand {
                let (m, row) = (tables.pq.modulus(j), s * t.row..(s + 1) * t.row);
                operand.write_row(tables.q.backend(), m, j - tables.special, row, out);
            }
        }
    }

    /// Words `words` of limb `j` of both inner products with the key of job `x`, added to what is there if `add`. `digits` has the rows
    /// of [`Switch::digit_rows`].
    #[allow(clippy::too_many_arguments)] // Where, from what, and to what.
    fn products(
        &self,
        rows: &Rows<'_>,
        x: usize,
        j: usize,
        words: Range<usize>,
        digits: &[u64],
        [b, a]: [&mut [u64]; 2],
        add: bool,
    ) {
        let tables = self.tables;
        let (n, t) = (tables.q.n(), tables.tiling);
        let digit = |d: usize| match rows {
            Rows::Fresh(Operand::Poly(p), _) if tables.own_digit(j) == Some(d) => {
                &p.limb(j - tables.special)[words.clone()]
            }
            Rows::Fresh(..) => &digits[d * t.row + words.start % t.row..][..words.len()],
            Rows::Hoisted(decomposed) => decomposed.row(n, j, d, words.clone()),
        };
        let key = &self.jobs[x].key.digits()[..tables.digit_count(self.level)];
        for (chunk, keys) in key.chunks(TERMS).enumerate() {
            let of_key = |i: usize| {
                // Places beyond the last digit are not used.
                let i = i.min(keys.len() - 1);
                let rows = [keys[i].b(), keys[i].a()].map(|p| p.row(j, words.clone()));
                (digit(chunk * TERMS + i), rows)
            };
            let terms: [_; TERMS] = std::array::from_fn(of_key);
            let (m, add) = (tables.pq.modulus(j), add || chunk > 0);
            let sums = [&mut *b, &mut *a];
            tables
                .q
                .backend()
                .key_products_packed(m, sums, &terms[..keys.len()], add);
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
