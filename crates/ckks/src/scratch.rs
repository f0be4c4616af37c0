//! Reuse of large working buffers: fresh pages from the system cost as much as the arithmetic.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

/// Buffers that are free. Belongs to one evaluator; holds as many as were ever in use at once.
/// They hold parts of ciphertexts only, never secrets.
#[derive(Debug, Default)]
pub(crate) struct ScratchPool {
    free: Mutex<Vec<Vec<u64>>>,
}

/// `len` words of unspecified content; goes back to its pool when dropped.
#[derive(Debug)]
pub(crate) struct Scratch<'a> {
    pool: &'a ScratchPool,
    data: Vec<u64>,
    len: usize,
}

impl ScratchPool {
    /// The smallest free buffer that is long enough, or a new one.
    pub(crate) fn take(&self, len: usize) -> Scratch<'_> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let best = free
            .iter()
            .enumerate()
            .filter(|(_, b)| b.len() >= len)
            .min_by_key(|(_, b)| b.len())
            .map(|(i, _)| i);
        let data = match best {
            Some(i) => free.swap_remove(i),
            None => {
                drop(free);
                vec![0; len]
            }
        };
        Scratch {
            pool: self,
            data,
            len,
        }
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        self.pool
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(std::mem::take(&mut self.data));
    }
}

impl Deref for Scratch<'_> {
    type Target = [u64];
    fn deref(&self) -> &[u64] {
        &self.data[..self.len]
    }
}

impl DerefMut for Scratch<'_> {
    fn deref_mut(&mut self) -> &mut [u64] {
        &mut self.data[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_and_the_smallest_that_fits_is_taken() {
        let pool = ScratchPool::default();
        let (a, b) = (pool.take(10), pool.take(100));
        drop((a, b));
        assert_eq!(pool.free.lock().unwrap().len(), 2);
        let c = pool.take(8);
        assert_eq!((c.len(), c.data.len()), (8, 10));
        let d = pool.take(8);
        assert_eq!((d.len(), d.data.len()), (8, 100));
        assert_eq!(pool.take(1).len(), 1);
    }
}
