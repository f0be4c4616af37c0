//! Decomposition: digits of a polynomial, raised to limbs that are not their own.

use std::ops::Range;

use cipherloom_ring::Ahead;

use super::convert::{blocks, Converter};
use super::{KeySwitchTables, Operand};
use crate::scratch::{for_each_chunk, Scratch, ScratchPool};

/// The terms of all digits for base conversion: for each digit its scaled limbs and the quotient behind them, each limb tile after
/// tile.
pub(super) struct DigitTerms<'a> {
    words: Scratch<'a>,
    level: usize,
}

/// The terms of divisions by the same primes: for each prime the scaled limbs of all polynomials that are divided, and the quotients
/// behind them.
pub(super) struct DivisionTerms<'a> {
    pub words: Scratch<'a>,
    pub divisor: &'a super::convert::Divisor,
    /// Polynomials that are divided: two for each key.
    pub count: usize,
}

/// Some limbs of all digits, raised, and of the remainders of all divisions: in tiles, after the outer layers of the forward transform.
/// For each limb one tile of each digit, then one of each remainder.
pub(super) struct Group<'a> {
    words: Scratch<'a>,
    first: usize,
    /// Tiles for each limb.
    width: usize,
    per_tile: usize,
}

/// A polynomial split into digits, each raised to the special primes and q_0 ... q_level: for many keys.
#[derive(Debug)]
pub(crate) struct Decomposed<'a> {
    /// Limb-major: for each limb of the key basis one limb of every digit, in NTT form.
    raised: Scratch<'a>,
    level: usize,
    count: usize,
}

impl Decomposed<'_> {
    pub(super) fn level(&self) -> usize {
        self.level
    }

    /// A row of digit `d` modulo limb `j` of the key basis.
    pub(super) fn row(&self, n: usize, j: usize, d: usize, row: Range<usize>) -> &[u64] {
        let start = (j * self.count + d) * n;
        &self.raised[start + row.start..start + row.end]
    }
}

impl KeySwitchTables {
    /// Inverse transforms and the terms of the digits' conversions.
    pub(super) fn digit_terms<'a>(
        &self,
        source: &Operand<'_>,
        pool: &'a ScratchPool,
    ) -> DigitTerms<'a> {
        let (n, level) = (self.q.n(), source.level());
        let (backend, t) = (self.q.backend(), self.tiling);
        let (stride, of_digit) = (t.stride(), self.alpha + 1);
        let mut words = pool.take((level + 1 + self.digit_count(level)) * stride);
        for_each_chunk(&mut words, stride, n, |chunk, out| {
            let (digit, place) = (chunk / of_digit, chunk % of_digit);
            let i = digit * self.alpha + place;
            if place == self.alpha || i > level {
                return;
            }
            let table = &self.q.tables()[i];
            let mut limb = pool.take(n);
            for (s, out) in limb.chunks_exact_mut(t.row).enumerate() {
                let row = s * t.row..(s + 1) * t.row;
                let mut ahead = Ahead::new();
                if let Some((i, s)) = t.next_row(i, s, level + 1) {
                    source.announce_row(i, s * t.row..(s + 1) * t.row, &mut ahead);
                }
                if let Operand::Poly(p) = source {
                    backend.inverse_tail_from(table, s, &p.limb(i)[row], out, &mut ahead);
                } else {
                    source.write_row(backend, table.modulus(), i, row, out);
                    backend.inverse_tail(table, s, out, &mut ahead);
                }
            }
            let end = ((digit + 1) * self.alpha - 1).min(level);
            self.raise[end].scale_limb(backend, &t, place, &limb, &mut out[..n]);
        });
        let mut rest = &mut words[..];
        for (_, end) in self.digits(level) {
            let converter = &self.raise[end];
            let (own, others) = rest.split_at_mut((converter.len() + 1) * stride);
            rest = others;
            let (scaled, quotients) = own.split_at_mut(converter.len() * stride);
            converter.quotients(backend, &t, scaled, stride, &mut quotients[..n]);
        }
        DigitTerms { words, level }
    }

    /// Raises the digits to the limbs `limbs` of the key basis, and converts the remainders of a division to them.
    pub(super) fn group<'a>(
        &self,
        digits: Option<&DigitTerms<'_>>,
        division: Option<&DivisionTerms<'_>>,
        limbs: Range<usize>,
        pool: &'a ScratchPool,
    ) -> Group<'a> {
        let t = self.tiling;
        let digit_count = digits.map_or(0, |d| self.digit_count(d.level));
        let width = digit_count + division.map_or(0, |d| d.count);
        let per_tile = width * limbs.len() * t.tile;
        let mut words = pool.take(per_tile * t.count);
        let first = limbs.start;
        for_each_chunk(&mut words, per_tile, self.q.n(), |tile, out| {
            if let Some(d) = digits {
                self.raise_tile(d, tile, limbs.clone(), width, out);
            }
            if let Some(d) = division {
                self.remainder_tile(d, tile, limbs.clone(), (width, digit_count), out);
            }
        });
        Group {
            words,
            first,
            width,
            per_tile,
        }
    }

    fn raise_tile(
        &self,
        terms: &DigitTerms<'_>,
        tile: usize,
        limbs: Range<usize>,
        width: usize,
        out: &mut [u64],
    ) {
        let t = self.tiling;
        let stride = t.stride();
        let mut rest = &terms.words[..];
        for (d, (start, end)) in self.digits(terms.level).enumerate() {
            let converter = &self.raise[end];
            let (own, others) = rest.split_at((converter.len() + 1) * stride);
            rest = others;
            let own = (&own[tile * t.tile..], stride);
            // The limbs that are not the digit's own, with their index among the converter's targets.
            let targets = || {
                limbs.clone().filter_map(move |j| {
                    let target = match j.checked_sub(self.special) {
                        Some(i) if i >= start && i <= end => return None,
                        Some(i) if i > end => j - (end + 1 - start),
                        _ => j,
                    };
                    Some((j, target))
                })
            };
            let slot = |j: usize| ((j - limbs.start) * width + d) * t.tile;
            self.convert_tile(converter, own, targets, slot, out);
        }
    }

    fn remainder_tile(
        &self,
        division: &DivisionTerms<'_>,
        tile: usize,
        limbs: Range<usize>,
        (width, after): (usize, usize),
        out: &mut [u64],
    ) {
        let t = self.tiling;
        let (converter, stride) = (&division.divisor.converter, t.stride());
        for poly in 0..division.count {
            let targets = || limbs.clone().map(|j| (j, j - self.special));
            let slot = |j: usize| ((j - limbs.start) * width + after + poly) * t.tile;
            let own = &division.words[poly * stride + tile * t.tile..];
            let own = (own, division.count * stride);
            self.convert_tile(converter, own, targets, slot, out);
        }
    }

    /// Converts a tile to `targets`, limbs with their index among those of the converter, each to its place in `out`, and does the outer
    /// layers of their transforms. Fetches on the way what it needs.
    fn convert_tile<I: Iterator<Item = (usize, usize)>>(
        &self,
        converter: &Converter,
        terms: (&[u64], usize),
        targets: impl Fn() -> I,
        slot: impl Fn(usize) -> usize,
        out: &mut [u64],
    ) {
        let (backend, tile) = (self.q.backend(), self.tiling.tile);
        let mut following = blocks(&self.tiling).skip(1);
        for block in blocks(&self.tiling) {
            let mut ahead = Ahead::new();
            if let Some(block) = following.next() {
                converter.announce(block, terms, &mut ahead);
            }
            for (j, target) in targets() {
                let target = (target, self.pq.modulus(j));
                let out = &mut out[slot(j)..slot(j) + tile];
                converter.convert(backend, target, block, terms, out, &mut ahead);
            }
        }
        for (j, _) in targets() {
            backend.forward_head(&self.pq.tables()[j], &mut out[slot(j)..slot(j) + tile]);
        }
    }

    /// Row `s` of entry `k` of limb `j` of a group, in NTT form. The transform fetches `ahead`.
    pub(super) fn group_row(
        &self,
        group: &Group<'_>,
        (j, k): (usize, usize),
        s: usize,
        out: &mut [u64],
        ahead: &mut Ahead<'_>,
    ) {
        let at = ((j - group.first) * group.width + k) * self.tiling.tile;
        let pieces = self
            .tiling
            .row_pieces(&group.words[at..], group.per_tile, s);
        let table = &self.pq.tables()[j];
        self.q
            .backend()
            .forward_tail_from(table, s, pieces, out, ahead);
    }

    /// Says that entries `entries` of row `s` of limb `j` of a group will be read.
    pub(super) fn announce_group_row<'a>(
        &self,
        group: &'a Group<'_>,
        j: usize,
        entries: impl Iterator<Item = usize>,
        s: usize,
        ahead: &mut Ahead<'a>,
    ) {
        for k in entries {
            let at = ((j - group.first) * group.width + k) * self.tiling.tile;
            self.tiling
                .announce_row(&group.words[at..], group.per_tile, s, ahead);
        }
    }

    /// Splits and raises, for several keys. Cost at L limbs, k special primes, d digits: L inverse
    /// and d (L + k) - L forward NTTs.
    pub(crate) fn decompose<'a>(
        &self,
        source: &Operand<'_>,
        pool: &'a ScratchPool,
    ) -> Decomposed<'a> {
        let (n, level) = (self.q.n(), source.level());
        let (backend, t) = (self.q.backend(), self.tiling);
        let terms = self.digit_terms(source, pool);
        let count = self.digit_count(level);
        let limbs = self.special + level + 1;
        let mut raised = pool.take(limbs * count * n);
        for range in self.ranges(0..limbs) {
            let group = self.group(Some(&terms), None, range.clone(), pool);
            let out = &mut raised[range.start * count * n..range.end * count * n];
            for_each_chunk(out, count * n, n, |i, out| {
                let j = range.start + i;
                let own = self.own_digit(j);
                for (d, out) in out.chunks_exact_mut(n).enumerate() {
                    for (s, out) in out.chunks_exact_mut(t.row).enumerate() {
                        if own == Some(d) {
                            let row = s * t.row..(s + 1) * t.row;
                            let m = self.pq.modulus(j);
                            source.write_row(backend, m, j - self.special, row, out);
                        } else {
                            let mut ahead = Ahead::new();
                            if let Some((_, s)) = t.next_row(0, s, 1) {
                                let entry = std::iter::once(d);
                                self.announce_group_row(&group, j, entry, s, &mut ahead);
                            }
                            self.group_row(&group, (j, d), s, out, &mut ahead);
                        }
                    }
                }
            });
        }
        Decomposed {
            raised,
            level,
            count,
        }
    }
}
