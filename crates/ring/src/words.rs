//! Buffers of 64-bit words that start at a cache line.

use std::fmt;
use std::ops::{Deref, DerefMut};

use bytemuck::{Pod, Zeroable};
use zeroize::Zeroize;

/// Words of one line.
const LINE: usize = 8;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u64; LINE]);

/// A vector of words whose address is a multiple of 64, so that no register of eight words straddles two cache
/// lines (which costs a tenth of a transform's time). Its length never grows.
#[derive(Clone, Default)]
pub struct Words {
    lines: Vec<Line>,
    len: usize,
}

impl Words {
    /// `len` zeros. Large buffers come from the system untouched.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        Self {
            lines: bytemuck::zeroed_vec(len.div_ceil(LINE)),
            len,
        }
    }

    /// Keeps the first `len` words; no effect if there are fewer.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl From<&[u64]> for Words {
    fn from(words: &[u64]) -> Self {
        let mut out = Self::zeroed(words.len());
        out.copy_from_slice(words);
        out
    }
}

impl Deref for Words {
    type Target = [u64];
    #[inline]
    fn deref(&self) -> &[u64] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }
}

impl DerefMut for Words {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u64] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }
}

impl PartialEq for Words {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Words {}

/// Content is not printed: it may be secret.
impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Words({})", self.len)
    }
}

/// Wipes what [`Words::truncate`] left behind too. The length stays.
impl Zeroize for Words {
    fn zeroize(&mut self) {
        bytemuck::cast_slice_mut::<Line, u64>(&mut self.lines).zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_start_at_a_cache_line_and_are_wiped_behind_the_end() {
        for len in [0, 1, 8, 9, 1000] {
            let mut w = Words::zeroed(len);
            assert_eq!((w.len(), w.as_ptr() as usize % 64), (len, 0));
            assert!(w.iter().all(|&x| x == 0));
            w.fill(7);
            let copy = w.clone();
            assert_eq!(copy.as_ptr() as usize % 64, 0);
            assert_eq!(&copy[..], &vec![7; len][..]);
            w.truncate(len / 2);
            w.truncate(len);
            assert_eq!(w.len(), len / 2);
            w.zeroize();
            let all: &[u64] = bytemuck::cast_slice(&w.lines);
            assert!(all.iter().all(|&x| x == 0));
        }
    }
}
