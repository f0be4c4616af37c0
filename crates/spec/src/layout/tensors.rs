//! The index maps of the scan packet and of the scan output.

use super::{shape, ScanLayout, SlotMap, ZERO_SLOT};
use crate::SpecError;

/// The tensors of one scan and where they sit.
///
/// Values are row-major: `x` and the output are `[tokens][inner]`, the decay is `[tokens][heads]`, B and C are
/// `[tokens][groups * d_state]`. Segment `s` covers tokens `s T .. (s+1) T` with `T = tokens / S` steps; a tile holds
/// `R` steps. Chunk `k` holds channels `k CH .. (k+1) CH` and lies inside one group.
///
/// - x, decay, output: `slot(i, s, c)` holds step `tile R + i` of segment `s`, channel `c` (protocols 9.5).
/// - B, C: `slot(i, s, c)` holds step `tile R + c / w` of segment `s` (`w = CH / R` replicas), as
///   `B[i] + i B[i+R]` and `C[i] - i C[i+R]`, so that the real part of the product sums both components.
/// - The decay of token 0 reads as zero: the state before it is zero, and a zero decay makes cyclic rotations exact.
/// - Rows past the last step read as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanTensors {
    layout: ScanLayout,
    tokens: usize,
    inner: usize,
    heads: usize,
    groups: usize,
}

impl ScanTensors {
    /// Checks that the tensors fit the layout.
    ///
    /// # Errors
    /// `Shape` naming the numbers when `tokens` is not a positive multiple of the segments, `inner` is not a multiple
    /// of the heads, a group is not a whole number of chunks, or a tensor has 2^32 - 1 values or more.
    pub fn new(
        layout: ScanLayout,
        tokens: usize,
        inner: usize,
        heads: usize,
        groups: usize,
    ) -> Result<Self, SpecError> {
        let s = layout.segments();
        if tokens == 0 || !tokens.is_multiple_of(s) {
            return Err(shape(format!(
                "{tokens} tokens are not a positive multiple of {s} segments; pad the sequence"
            )));
        }
        if heads == 0 || inner == 0 || !inner.is_multiple_of(heads) {
            return Err(shape(format!(
                "{inner} channels do not divide into {heads} heads"
            )));
        }
        if groups == 0
            || !inner.is_multiple_of(groups)
            || !(inner / groups).is_multiple_of(layout.channels())
        {
            return Err(shape(format!(
                "{inner} channels in {groups} groups are not whole chunks of {} channels",
                layout.channels()
            )));
        }
        let widest = groups
            .checked_mul(layout.d_state())
            .map(|v| v.max(inner))
            .and_then(|v| v.checked_mul(tokens));
        if widest.is_none_or(|v| v >= ZERO_SLOT as usize) {
            return Err(shape(format!(
                "{tokens} tokens of {inner} channels or {groups} groups of {} states exceed 2^32 - 1 values",
                layout.d_state()
            )));
        }
        Ok(Self {
            layout,
            tokens,
            inner,
            heads,
            groups,
        })
    }

    /// The slot layout.
    #[must_use]
    pub fn layout(&self) -> ScanLayout {
        self.layout
    }
    /// Tokens, padding included.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.tokens
    }
    /// Channel chunks.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.inner / self.layout.channels()
    }
    /// Groups of B and C.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.groups
    }
    /// The group whose B and C chunk `chunk` uses.
    #[must_use]
    pub fn group_of(&self, chunk: usize) -> usize {
        chunk * self.layout.channels() / (self.inner / self.groups)
    }
    /// Steps of a segment, `T`.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.tokens / self.layout.segments()
    }
    /// Tiles of `R` steps.
    #[must_use]
    pub fn tiles(&self) -> usize {
        self.steps().div_ceil(self.layout.rows())
    }

    /// Map of the input factor `x` (time step times input), indices into `[tokens][inner]`.
    ///
    /// # Errors
    /// `Shape` when the chunk or the tile does not exist.
    pub fn x(&self, chunk: usize, tile: usize) -> Result<SlotMap, SpecError> {
        self.check(chunk, self.chunks(), "chunk", tile)?;
        let base = chunk * self.layout.channels();
        Ok(self.rows_map(tile, |token, c| token * self.inner + base + c))
    }

    /// Map of the decay, indices into `[tokens][heads]`; token 0 reads as zero.
    ///
    /// # Errors
    /// As [`ScanTensors::x`].
    pub fn decay(&self, chunk: usize, tile: usize) -> Result<SlotMap, SpecError> {
        self.check(chunk, self.chunks(), "chunk", tile)?;
        let base = chunk * self.layout.channels();
        let per_head = self.inner / self.heads;
        Ok(self.rows_map(tile, |token, c| match token {
            0 => ZERO_SLOT as usize,
            _ => token * self.heads + (base + c) / per_head,
        }))
    }

    /// Map of the output, indices into `[tokens][inner]`: where each real lane belongs.
    ///
    /// # Errors
    /// As [`ScanTensors::x`].
    pub fn output(&self, chunk: usize, tile: usize) -> Result<SlotMap, SpecError> {
        self.x(chunk, tile)
    }

    /// Map of B for a group, indices into `[tokens][groups * d_state]`.
    ///
    /// # Errors
    /// `Shape` when the group or the tile does not exist.
    pub fn b(&self, group: usize, tile: usize) -> Result<SlotMap, SpecError> {
        self.columns_map(group, tile, false)
    }

    /// Map of C for a group, indices into `[tokens][groups * d_state]`, the imaginary lane negated.
    ///
    /// # Errors
    /// As [`ScanTensors::b`].
    pub fn c(&self, group: usize, tile: usize) -> Result<SlotMap, SpecError> {
        self.columns_map(group, tile, true)
    }

    fn check(&self, index: usize, count: usize, what: &str, tile: usize) -> Result<(), SpecError> {
        if index >= count || tile >= self.tiles() {
            return Err(shape(format!(
                "{what} {index} of {count}, tile {tile} of {} does not exist",
                self.tiles()
            )));
        }
        Ok(())
    }

    fn rows_map(&self, tile: usize, index: impl Fn(usize, usize) -> usize) -> SlotMap {
        let (l, steps) = (self.layout, self.steps());
        let re = (0..l.slots())
            .map(|k| {
                let (i, s, c) = l.place(k);
                let step = tile * l.rows() + i;
                if step < steps {
                    index(s * steps + step, c) as u32
                } else {
                    ZERO_SLOT
                }
            })
            .collect();
        SlotMap {
            re,
            im: Vec::new(),
            negate_im: false,
        }
    }

    fn columns_map(
        &self,
        group: usize,
        tile: usize,
        negate_im: bool,
    ) -> Result<SlotMap, SpecError> {
        self.check(group, self.groups, "group", tile)?;
        let (l, steps, ds) = (self.layout, self.steps(), self.layout.d_state());
        let (mut re, mut im) = (Vec::with_capacity(l.slots()), Vec::with_capacity(l.slots()));
        for k in 0..l.slots() {
            let (i, s, c) = l.place(k);
            let step = tile * l.rows() + c / l.replicas();
            if step < steps {
                let at = (s * steps + step) * self.groups * ds + group * ds + i;
                re.push(at as u32);
                im.push((at + l.rows()) as u32);
            } else {
                re.push(ZERO_SLOT);
                im.push(ZERO_SLOT);
            }
        }
        Ok(SlotMap { re, im, negate_im })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_hold_the_documented_values() {
        // 2 rows, 2 segments, 4 channels; 6 tokens, so 3 steps a segment and 2 tiles; 8 channels in 4 heads, 2 groups.
        let l = ScanLayout::new(2, 2, 4).unwrap();
        let t = ScanTensors::new(l, 6, 8, 4, 2).unwrap();
        assert_eq!((t.chunks(), t.steps(), t.tiles()), (2, 3, 2));
        assert_eq!((t.group_of(0), t.group_of(1)), (0, 1));
        let x = t.x(1, 0).unwrap();
        // row 1, segment 1, channel 2: token 3 + 1 = 4, channel 4 + 2
        assert_eq!(x.re[l.slot(1, 1, 2)], 4 * 8 + 6);
        assert_eq!(t.x(1, 1).unwrap().re[l.slot(1, 0, 0)], ZERO_SLOT);
        let a = t.decay(1, 0).unwrap();
        assert_eq!(a.re[l.slot(0, 0, 3)], ZERO_SLOT);
        assert_eq!(a.re[l.slot(0, 1, 3)], 3 * 4 + 3);
        let b = t.b(1, 0).unwrap();
        // replicas = 2: channel 3 is step 1; segment 1: token 4; group 1 starts at 4; row 1 pairs with 3.
        assert_eq!(b.re[l.slot(1, 1, 3)], 4 * 8 + 4 + 1);
        assert_eq!(b.im[l.slot(1, 1, 3)], 4 * 8 + 4 + 3);
        let c = t.c(1, 0).unwrap();
        assert!(c.negate_im && !b.negate_im && c.re == b.re && c.im == b.im);
        assert!(t.x(2, 0).is_err() && t.x(0, 2).is_err() && t.b(2, 0).is_err());
        assert_eq!(t.output(0, 1).unwrap(), t.x(0, 1).unwrap());
    }

    #[test]
    fn tensors_that_do_not_fit_are_refused() {
        let l = ScanLayout::new(2, 2, 4).unwrap();
        for (tokens, inner, heads, groups) in [
            (0, 8, 4, 1),
            (5, 8, 4, 1),
            (6, 8, 3, 1),
            (6, 8, 0, 1),
            (6, 6, 2, 1),
            (6, 8, 4, 4),
            (6, 8, 4, 0),
            (1 << 30, 8, 4, 1),
        ] {
            let r = ScanTensors::new(l, tokens, inner, heads, groups);
            assert!(r.is_err(), "{tokens} {inner} {heads} {groups}");
        }
    }
}
