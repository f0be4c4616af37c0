//! Reuse of large working buffers: fresh pages from the system cost as much as the arithmetic.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use cipherloom_ring::{Basis, Ntt, Poly, Words};
use rayon::prelude::*;
use zeroize::Zeroize;

/// Buffers that are free. Belongs to one evaluator; holds hardly more than were ever in use at once.
/// They hold parts of ciphertexts only, never secrets.
#[derive(Debug, Default)]
pub(crate) struct ScratchPool {
    free: Mutex<Vec<Words>>,
}

/// `len` words of unspecified content; goes back to its pool when dropped.
#[derive(Debug)]
pub(crate) struct Scratch<'a> {
    pool: &'a ScratchPool,
    data: Words,
    len: usize,
}

impl ScratchPool {
    /// The smallest free buffer that is long enough, or a new one in the place of the longest that is not, unless that has less than
    /// half the length. So each size does not get a buffer of its own; and since buffers are replaced by longer ones only, there
    /// is an end to it.
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
                let longest = free
                    .iter()
                    .enumerate()
                    .filter(|(_, b)| 2 * b.len() >= len)
                    .max_by_key(|(_, b)| b.len())
                    .map(|(i, _)| i);
                // Before the new one is made: both at once would be the peak.
                drop(longest.map(|i| free.swap_remove(i)));
                drop(free);
                Words::zeroed(len)
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

/// Most buffers that the pool of an evaluator keeps.
const MAX_POLYS: usize = 64;
/// Most that the other pools keep.
const FEW_POLYS: usize = 4;

/// Polynomials of dropped ciphertexts, for the next results, at any level: a buffer serves a polynomial of two thirds of its size
/// or more. Belongs to one evaluator and its ciphertexts; or to an encryptor; or, for messages, to the parameters.
#[derive(Debug)]
pub(crate) struct PolyPool {
    free: Mutex<Vec<Words>>,
    /// Most that are kept; the oldest goes first.
    limit: usize,
    /// Whether what comes in is wiped at once.
    wipe: bool,
}

impl Default for PolyPool {
    fn default() -> Self {
        Self::new(MAX_POLYS, false)
    }
}

impl PolyPool {
    fn new(limit: usize, wipe: bool) -> Self {
        Self {
            free: Mutex::default(),
            limit,
            wipe,
        }
    }

    /// Keeps few polynomials, for results that are made and dropped one after the other.
    pub(crate) fn small() -> Self {
        Self::new(FEW_POLYS, false)
    }

    /// As [`PolyPool::small`], for messages: what comes in is wiped at once, whether it is kept or not.
    pub(crate) fn of_messages() -> Self {
        Self::new(FEW_POLYS, true)
    }

    /// Bytes in memory of what is kept.
    pub(crate) fn memory_bytes(&self) -> usize {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.iter().map(|w| 8 * w.capacity()).sum()
    }

    /// A polynomial over `basis` of unspecified content: write every limb.
    pub(crate) fn take(&self, basis: &Basis) -> Poly<Ntt> {
        let need = basis.len() * basis.n();
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let best = free
            .iter()
            .enumerate()
            .filter(|(_, w)| w.capacity() >= need && 2 * w.capacity() <= 3 * need + 16)
            .min_by_key(|(_, w)| w.capacity())
            .map(|(i, _)| i);
        let words = best.map(|i| free.swap_remove(i));
        drop(free);
        words
            .and_then(|w| Poly::recycled(basis, w).ok())
            .unwrap_or_else(|| Poly::zero(basis))
    }

    /// A polynomial whose limb i is what `f(i, limb)` writes, in parallel for long limbs.
    pub(crate) fn build(&self, basis: &Basis, f: impl Fn(usize, &mut [u64]) + Sync) -> Poly<Ntt> {
        let mut out = self.take(basis);
        for_each_chunk(out.data_mut(), basis.n(), basis.n(), f);
        out
    }

    /// A copy.
    pub(crate) fn copy(&self, p: &Poly<Ntt>) -> Poly<Ntt> {
        self.copy_to(p.basis(), p)
    }

    /// A copy of the first limbs, those of `basis`.
    pub(crate) fn copy_to(&self, basis: &Basis, p: &Poly<Ntt>) -> Poly<Ntt> {
        self.build(basis, |i, out| out.copy_from_slice(p.limb(i)))
    }

    pub(crate) fn give(&self, polys: impl IntoIterator<Item = Poly<Ntt>>) {
        for p in polys {
            let mut words = p.into_words();
            if self.wipe {
                words.zeroize();
            }
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            if free.len() >= self.limit {
                free.remove(0);
            }
            free.push(words);
        }
    }
}

/// Shortest limb for which the thread pool is used.
pub(crate) const MIN_PARALLEL_DEGREE: usize = 1 << 13;

/// Calls `f(index, chunk)` for chunks of `len` words, in parallel if limbs have `n` words and that is long.
pub(crate) fn for_each_chunk(
    data: &mut [u64],
    len: usize,
    n: usize,
    f: impl Fn(usize, &mut [u64]) + Sync,
) {
    if data.is_empty() {
        return;
    }
    if n >= MIN_PARALLEL_DEGREE && data.len() > len {
        data.par_chunks_exact_mut(len)
            .enumerate()
            .for_each(|(i, chunk)| f(i, chunk));
    } else {
        data.chunks_exact_mut(len)
            .enumerate()
            .for_each(|(i, chunk)| f(i, chunk));
    }
}

/// A limb, or some limbs, of each of `K` pairs of polynomials.
pub(crate) type Pairs<'a, const K: usize> = [[&'a mut [u64]; 2]; K];

/// Calls `f(index, limb of each)` for limbs of `n` words, in parallel if that is long.
pub(crate) fn for_each_limb_of<const K: usize>(
    data: Pairs<'_, K>,
    n: usize,
    f: &(impl Fn(usize, Pairs<'_, K>) + Sync),
) {
    limbs_from(0, data, n, f);
}

fn limbs_from<const K: usize>(
    first: usize,
    mut data: Pairs<'_, K>,
    n: usize,
    f: &(impl Fn(usize, Pairs<'_, K>) + Sync),
) {
    let limbs = data.first().map_or(0, |pair| pair[0].len() / n);
    if limbs <= 1 {
        if limbs == 1 {
            f(first, data);
        }
        return;
    }
    let half = limbs / 2;
    let mut rest: Pairs<'_, K> = std::array::from_fn(|_| [&mut [][..], &mut [][..]]);
    for (data, rest) in data.iter_mut().flatten().zip(rest.iter_mut().flatten()) {
        let (a, b) = std::mem::take(data).split_at_mut(half * n);
        (*data, *rest) = (a, b);
    }
    if n >= MIN_PARALLEL_DEGREE {
        rayon::join(
            || limbs_from(first, data, n, f),
            || limbs_from(first + half, rest, n, f),
        );
    } else {
        limbs_from(first, data, n, f);
        limbs_from(first + half, rest, n, f);
    }
}

/// Runs a task for each limb of `n` words, in parallel if that is long, with something of each thread's own to work in.
pub(crate) fn for_each_limb_with<T: Send, S>(
    limbs: Vec<T>,
    n: usize,
    scratch: impl Fn() -> S + Sync + Send,
    f: impl Fn(&mut S, T) + Sync + Send,
) {
    if n >= MIN_PARALLEL_DEGREE && limbs.len() > 1 {
        limbs.into_par_iter().for_each_init(scratch, f);
    } else {
        let mut scratch = scratch();
        limbs.into_iter().for_each(|limb| f(&mut scratch, limb));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_if_little_of_it_stays_unused() {
        let q = Basis::new(16, &[97, 193]).unwrap();
        let pool = PolyPool::default();
        let one = |i: usize, limb: &mut [u64]| limb.fill(i as u64 + 1);
        let p = pool.build(&q, one);
        let copy = pool.copy(&p);
        assert_eq!(copy, p);
        pool.give(vec![p, copy]);
        // Twice the size that is needed is too much.
        assert_eq!(pool.take(&q.prefix(1).unwrap()).limbs(), 1);
        assert_eq!(pool.free.lock().unwrap().len(), 2);
        let again = pool.take(&q);
        assert_eq!(again.limb(1)[0], 2, "content stays until it is overwritten");
        assert_eq!(pool.free.lock().unwrap().len(), 1);
        let three = Basis::new(16, &[97, 193, 257]).unwrap();
        pool.give(vec![Poly::zero(&three)]);
        drop(pool.take(&q));
        assert_eq!(pool.take(&q).limbs(), 2, "a third of it stays unused");
        assert_eq!(pool.free.lock().unwrap().len(), 0);
        pool.give((0..100).map(|_| Poly::zero(&q)));
        assert_eq!(pool.free.lock().unwrap().len(), MAX_POLYS);
        let messages = PolyPool::of_messages();
        messages.give([messages.build(&q, one)]);
        assert!(messages.take(&q).data().iter().all(|&x| x == 0));
        let small = PolyPool::small();
        small.give((0..10).map(|_| Poly::zero(&q)));
        assert_eq!(small.free.lock().unwrap().len(), FEW_POLYS);
    }

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
        drop((c, d));
        // Of 10, 100 and the new one of 1 word.
        assert_eq!(pool.take(150).len(), 150);
        let lengths = || {
            let mut all: Vec<_> = pool.free.lock().unwrap().iter().map(|b| b.len()).collect();
            all.sort_unstable();
            all
        };
        assert_eq!(lengths(), [1, 10, 150], "100 was replaced");
        assert_eq!(pool.take(400).len(), 400);
        assert_eq!(lengths(), [1, 10, 150, 400], "150 is less than half");
        let (a, b) = (pool.take(400), pool.take(300));
        assert_eq!((a.data.len(), b.data.len()), (400, 300));
        drop((a, b));
        assert_eq!(lengths(), [1, 10, 300, 400]);
    }
}
