//! Buffers of 64-bit words that start at a cache line.

use std::fmt;
use std::ops::{Deref, DerefMut};

use zeroize::Zeroize;

/// Words of a cache line.
const LINE: usize = 8;

/// A vector of words whose address is a multiple of 64, so that no register of eight words straddles two cache
/// lines (which costs a tenth of a transform's time). Its length never grows.
#[derive(Default)]
pub struct Words {
    /// Never grows, so it never moves.
    data: Vec<u64>,
    /// Words before the first cache line of `data`.
    offset: usize,
    len: usize,
}

impl Words {
    /// `len` zeros. Large buffers come from the system untouched, in huge pages where it has them.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        // An aligned type would do as well, but the allocator then writes the zeros itself, page by page.
        let mut data = vec![0u64; len + LINE - 1];
        let offset = data.as_ptr().align_offset(LINE * size_of::<u64>());
        crate::heap::prefer_huge_pages(&mut data);
        Self {
            data,
            // Where the address is not known the buffer is used as it comes.
            offset: if offset < LINE { offset } else { 0 },
            len,
        }
    }

    /// Words that fit without a new buffer.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.data.len() - self.offset
    }

    /// Changes the length within the capacity; false, and no effect, beyond it. Words that come back hold what they held.
    #[must_use]
    pub fn resize_within(&mut self, len: usize) -> bool {
        let fits = len <= self.capacity();
        if fits {
            self.len = len;
        }
        fits
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

/// The copy has the words up to the length.
impl Clone for Words {
    fn clone(&self) -> Self {
        Self::from(&**self)
    }
}

impl Deref for Words {
    type Target = [u64];
    #[inline]
    fn deref(&self) -> &[u64] {
        &self.data[self.offset..self.offset + self.len]
    }
}

impl DerefMut for Words {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u64] {
        &mut self.data[self.offset..self.offset + self.len]
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
        self.data.as_mut_slice().zeroize();
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
            assert!(w.resize_within(len) && w.len() == len);
            assert!(!w.resize_within(w.capacity() + 1) && w.len() == len);
            w.zeroize();
            assert!(w.data.iter().all(|&x| x == 0));
        }
    }
}
