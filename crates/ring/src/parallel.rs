//! Limb-parallel loops, used only where a limb is long enough to pay for a task.

use rayon::prelude::*;

/// Fewest limbs for which the thread pool is used.
const MIN_LIMBS: usize = 4;
/// Shortest limb for which the thread pool is used.
const MIN_DEGREE: usize = 1 << 13;

/// Whether `limbs` limbs of `n` words are worth distributing.
pub(crate) fn pays(n: usize, limbs: usize) -> bool {
    n >= MIN_DEGREE && limbs >= MIN_LIMBS
}

/// Calls `f(limb index, limb)` for every limb of `n` words in `data`.
pub(crate) fn for_each_limb(
    data: &mut [u64],
    n: usize,
    f: impl Fn(usize, &mut [u64]) + Sync + Send,
) {
    if pays(n, data.len() / n) {
        data.par_chunks_exact_mut(n)
            .enumerate()
            .for_each(|(i, limb)| f(i, limb));
    } else {
        data.chunks_exact_mut(n)
            .enumerate()
            .for_each(|(i, limb)| f(i, limb));
    }
}
