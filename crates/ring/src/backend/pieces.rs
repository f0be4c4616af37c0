//! Rows that lie in pieces.

/// A row of a polynomial in pieces of `len` words, a power of two from 8 on, which start `step` words apart in `words`, from the first on.
#[derive(Clone, Copy, Debug)]
pub struct Pieces<'a> {
    words: &'a [u64],
    len: usize,
    step: usize,
}

impl<'a> Pieces<'a> {
    /// A row.
    ///
    /// # Panics
    /// If `len` is not a power of two from 8 on, if pieces overlap, or if there is no piece.
    #[must_use]
    pub fn new(words: &'a [u64], len: usize, step: usize) -> Self {
        assert!(
            len >= 8 && len.is_power_of_two() && step >= len && words.len() >= len,
            "pieces of {len} words, {step} apart"
        );
        Self { words, len, step }
    }

    /// Where the pieces lie.
    #[must_use]
    pub fn words(self) -> &'a [u64] {
        self.words
    }

    /// Words of a piece.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // A piece is not empty.
    pub fn len(self) -> usize {
        self.len
    }

    /// Words from the start of a piece to that of the next.
    #[must_use]
    pub fn step(self) -> usize {
        self.step
    }

    /// Whether the pieces have the words of a row of `row` words.
    #[must_use]
    pub fn cover(self, row: usize) -> bool {
        let count = row / self.len;
        let last = count.checked_sub(1).and_then(|c| c.checked_mul(self.step));
        row.is_multiple_of(self.len) && last.is_some_and(|last| last <= self.words.len() - self.len)
    }

    /// Puts the row together in `row`.
    ///
    /// # Panics
    /// If the pieces do not cover the row.
    pub fn copy_to(self, row: &mut [u64]) {
        assert!(self.cover(row.len()), "pieces of a row");
        for (piece, row) in self
            .words
            .chunks(self.step)
            .zip(row.chunks_exact_mut(self.len))
        {
            row.copy_from_slice(&piece[..self.len]);
        }
    }
}
