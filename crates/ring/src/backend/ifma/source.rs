//! Where the first pass of a transform reads.

use crate::backend::Pieces;

/// Where the first pass over a block reads: the block itself, or pieces that it is put together from.
pub(super) trait Source: Copy {
    /// Word `j`.
    ///
    /// # Safety
    /// Within the block.
    unsafe fn at(self, j: usize) -> *const u64;

    /// Words from word `j` to word `j + step` in memory, the same for every `j`.
    fn distance(self, step: usize) -> usize;
}

impl Source for *mut u64 {
    #[inline(always)]
    unsafe fn at(self, j: usize) -> *const u64 {
        // SAFETY: as the caller promises.
        unsafe { self.add(j) }
    }

    #[inline(always)]
    fn distance(self, step: usize) -> usize {
        step
    }
}

/// Pieces of `1 << log` words.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    first: *const u64,
    log: u32,
    step: usize,
}

impl Cut {
    pub(super) fn new(pieces: Pieces<'_>) -> Self {
        Self {
            first: pieces.words().as_ptr(),
            log: pieces.len().trailing_zeros(),
            step: pieces.step(),
        }
    }
}

impl Source for Cut {
    #[inline(always)]
    unsafe fn at(self, j: usize) -> *const u64 {
        let (piece, word) = (j >> self.log, j & ((1 << self.log) - 1));
        // SAFETY: as the caller promises.
        unsafe { self.first.add(piece * self.step + word) }
    }

    #[inline(always)]
    fn distance(self, step: usize) -> usize {
        (step >> self.log) * self.step
    }
}
