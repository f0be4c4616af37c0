//! Hints about memory that will be read soon.

use std::marker::PhantomData;

/// Words of a cache line.
const LINE: usize = 8;
/// Most regions at a time.
const REGIONS: usize = 48;

/// A region: some lines, then as many again a step further on; or those lines that `indices` name, if there are any.
#[derive(Clone, Copy)]
struct Region<'a> {
    start: *const u64,
    lines: usize,
    step: usize,
    pieces: usize,
    indices: &'a [u32],
}

/// Memory that the caller will read soon. A kernel that computes for long fetches it into the second-level cache on the way,
/// a line at a time, so that the read does not wait: transforms use the arithmetic units, and what follows them the
/// memory. A hint: it changes no result, and a backend may ignore it.
pub struct Ahead<'a> {
    regions: [Region<'a>; REGIONS],
    count: usize,
    /// The region that is being fetched, the next line in it, and what is left of its piece.
    region: usize,
    piece: usize,
    next: *const u64,
    left: usize,
    /// The next lines, counted from `next`, in a region that names them.
    indices: &'a [u32],
    memory: PhantomData<&'a [u64]>,
}

impl std::fmt::Debug for Ahead<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ahead({} regions)", self.count)
    }
}

impl Default for Ahead<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Ahead<'a> {
    /// Nothing to fetch.
    #[must_use]
    pub fn new() -> Self {
        let none = Region {
            start: std::ptr::null(),
            lines: 0,
            step: 0,
            pieces: 0,
            indices: &[],
        };
        Self {
            regions: [none; REGIONS],
            count: 0,
            region: 0,
            piece: 0,
            next: std::ptr::null(),
            left: 0,
            indices: &[],
            memory: PhantomData,
        }
    }

    /// Adds a region. What does not fit is left out.
    pub fn push(&mut self, words: &'a [u64]) {
        self.push_pieces(words, words.len(), words.len().max(1));
    }

    /// Adds the lines `indices`, of 8 words each, counted from an address: for memory that will be written, an address is enough.
    pub fn push_lines(&mut self, start: *const u64, indices: &'a [u32]) {
        self.add(Region {
            start,
            lines: indices.len(),
            step: 0,
            pieces: 1,
            indices,
        });
    }

    /// Adds the lines that some bytes lie in.
    pub fn push_bytes(&mut self, bytes: &'a [u8]) {
        let start = bytes.as_ptr().cast::<u64>();
        self.add(Region {
            start,
            lines: bytes.len().div_ceil(8 * LINE),
            step: 0,
            pieces: 1,
            indices: &[],
        });
    }

    /// Adds pieces of `len` words that start `step` words apart, from the first word on to the end.
    pub fn push_pieces(&mut self, words: &'a [u64], len: usize, step: usize) {
        self.add(Region {
            start: words.as_ptr(),
            lines: len / LINE,
            step,
            pieces: words.len().div_ceil(step.max(1)),
            indices: &[],
        });
    }

    fn add(&mut self, region: Region<'a>) {
        if self.count == REGIONS || region.lines == 0 || region.pieces == 0 {
            return;
        }
        self.regions[self.count] = region;
        self.count += 1;
        if self.left == 0 {
            self.advance();
        }
    }

    /// The next line, if there is one. The address is for fetching only: the last piece of a region may reach beyond it.
    #[inline(always)]
    pub(super) fn line(&mut self) -> Option<*const u64> {
        if self.left == 0 {
            return None;
        }
        let line = match self.indices {
            [] => {
                let line = self.next;
                self.next = line.wrapping_add(LINE);
                line
            }
            [i, rest @ ..] => {
                self.indices = rest;
                self.next.wrapping_add(LINE * *i as usize)
            }
        };
        self.left -= 1;
        if self.left == 0 {
            self.advance();
        }
        Some(line)
    }

    #[cold]
    fn advance(&mut self) {
        if self.region < self.count && self.piece == self.regions[self.region].pieces {
            self.region += 1;
            self.piece = 0;
        }
        if self.region < self.count {
            let r = &self.regions[self.region];
            self.next = r.start.wrapping_add(self.piece * r.step);
            self.left = r.lines;
            self.indices = r.indices;
            self.piece += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_every_piece_comes_once_in_order() {
        let data = vec![0u64; 64];
        let mut ahead = Ahead::new();
        assert!(ahead.line().is_none());
        ahead.push(&data[..16]);
        ahead.push_pieces(&data[8..], 8, 24);
        ahead.push(&[]);
        let got: Vec<usize> = std::iter::from_fn(|| ahead.line())
            .map(|p| (p as usize - data.as_ptr() as usize) / 64)
            .collect();
        assert_eq!(got, [0, 1, 1, 4, 7]);
        ahead.push(&data[32..40]);
        assert_eq!(
            ahead.line().map(|p| p as usize - data.as_ptr() as usize),
            Some(256)
        );
        assert!(ahead.line().is_none());
        let start = data.as_ptr();
        ahead.push_lines(start, &[5, 0, 7]);
        ahead.push(&data[8..16]);
        let got: Vec<usize> = std::iter::from_fn(|| ahead.line())
            .map(|p| (p as usize - start as usize) / 64)
            .collect();
        assert_eq!(got, [5, 0, 7, 1]);
    }
}
