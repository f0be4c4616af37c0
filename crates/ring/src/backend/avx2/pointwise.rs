//! Pointwise kernels. Lengths are multiples of 4; the callers split off tails.

use std::arch::x86_64::*;

use super::lanes::{factor, load, signed_to_double, store, to_double, Lanes};
use crate::modulus::Modulus;

/// `x + q` where `x` is negative.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn lift_words(x: __m256i, q: __m256i) -> __m256i {
    let negative = _mm256_cmpgt_epi64(_mm256_setzero_si256(), x);
    _mm256_add_epi64(x, _mm256_and_si256(negative, q))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn splat(x: u64) -> __m256i {
    _mm256_set1_epi64x(x as i64)
}

/// # Safety
/// Features detected; equal lengths, multiples of 4 (as for all kernels below).
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn add_assign(m: &Modulus, a: &mut [u64], b: &[u64]) {
    let q = splat(m.value());
    for (x, y) in a.chunks_exact_mut(4).zip(b.chunks_exact(4)) {
        // SAFETY: chunks of 4 words.
        unsafe {
            let s = _mm256_sub_epi64(load(x.as_ptr()), q);
            let s = _mm256_add_epi64(s, load(y.as_ptr()));
            store(x.as_mut_ptr(), lift_words(s, q));
        }
    }
}

/// # Safety
/// As [`add_assign`].
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn sub_assign(m: &Modulus, a: &mut [u64], b: &[u64]) {
    let q = splat(m.value());
    for (x, y) in a.chunks_exact_mut(4).zip(b.chunks_exact(4)) {
        // SAFETY: chunks of 4 words.
        unsafe {
            let d = _mm256_sub_epi64(load(x.as_ptr()), load(y.as_ptr()));
            store(x.as_mut_ptr(), lift_words(d, q));
        }
    }
}

/// # Safety
/// As [`add_assign`].
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn neg_assign(m: &Modulus, a: &mut [u64]) {
    let q = splat(m.value());
    for x in a.chunks_exact_mut(4) {
        // SAFETY: chunks of 4 words.
        unsafe {
            let d = _mm256_sub_epi64(_mm256_setzero_si256(), load(x.as_ptr()));
            store(x.as_mut_ptr(), lift_words(d, q));
        }
    }
}

/// `a * b mod q` of reduced words.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn product(k: Lanes, a: __m256i, b: __m256i) -> __m256i {
    let (r, l) = k.product_parts(to_double(a), to_double(b));
    k.lift_to_words(_mm256_add_pd(r, l))
}

/// # Safety
/// As [`add_assign`].
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn mul_assign(m: &Modulus, a: &mut [u64], b: &[u64]) {
    let k = Lanes::new(m);
    for (x, y) in a.chunks_exact_mut(4).zip(b.chunks_exact(4)) {
        // SAFETY: chunks of 4 words.
        unsafe {
            let p = product(k, load(x.as_ptr()), load(y.as_ptr()));
            store(x.as_mut_ptr(), p);
        }
    }
}

/// # Safety
/// As [`add_assign`].
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn mul(m: &Modulus, out: &mut [u64], a: &[u64], b: &[u64]) {
    let k = Lanes::new(m);
    for ((o, x), y) in out
        .chunks_exact_mut(4)
        .zip(a.chunks_exact(4))
        .zip(b.chunks_exact(4))
    {
        // SAFETY: chunks of 4 words.
        unsafe {
            let p = product(k, load(x.as_ptr()), load(y.as_ptr()));
            store(o.as_mut_ptr(), p);
        }
    }
}

/// # Safety
/// As [`add_assign`].
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn scalar_mul_assign(m: &Modulus, a: &mut [u64], w: u64) {
    let (k, f) = (Lanes::new(m), factor(m, w));
    for x in a.chunks_exact_mut(4) {
        // SAFETY: chunks of 4 words.
        unsafe {
            let p = k.mul(to_double(load(x.as_ptr())), f);
            store(x.as_mut_ptr(), k.lift_to_words(p));
        }
    }
}

/// # Safety
/// As [`add_assign`].
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn scalar_mul_add(m: &Modulus, acc: &mut [u64], a: &[u64], w: u64) {
    let (k, f) = (Lanes::new(m), factor(m, w));
    for (o, x) in acc.chunks_exact_mut(4).zip(a.chunks_exact(4)) {
        // SAFETY: chunks of 4 words.
        unsafe {
            let p = k.mul(to_double(load(x.as_ptr())), f);
            // In (-q, 2q) before the subtraction of q.
            let s = _mm256_add_pd(_mm256_sub_pd(to_double(load(o.as_ptr())), k.q), p);
            store(o.as_mut_ptr(), k.lift_to_words(k.lift(s)));
        }
    }
}

/// # Safety
/// As [`add_assign`].
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn sub_scalar_mul(m: &Modulus, a: &mut [u64], b: &[u64], w: u64) {
    let (k, f) = (Lanes::new(m), factor(m, w));
    for (x, y) in a.chunks_exact_mut(4).zip(b.chunks_exact(4)) {
        // SAFETY: chunks of 4 words.
        unsafe {
            let d = _mm256_sub_epi64(load(x.as_ptr()), load(y.as_ptr()));
            let p = k.mul(signed_to_double(d), f);
            store(x.as_mut_ptr(), k.lift_to_words(p));
        }
    }
}

/// # Safety
/// As [`add_assign`].
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn reduce_assign(m: &Modulus, a: &mut [u64]) {
    let (k, f) = (Lanes::new(m), factor(m, m.reduce(1 << 32)));
    let low = splat(u64::from(u32::MAX));
    for x in a.chunks_exact_mut(4) {
        // SAFETY: chunks of 4 words.
        unsafe {
            let v = load(x.as_ptr());
            let hi = k.mul(to_double(_mm256_srli_epi64::<32>(v)), f);
            let sum = _mm256_add_pd(hi, to_double(_mm256_and_si256(v, low)));
            store(x.as_mut_ptr(), k.lift_to_words(k.reduce(sum)));
        }
    }
}

/// The words of `x` in the order of the low 2 bits of 4 indices.
///
/// # Safety
/// `index` points to 4 readable indices.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn reorder(x: __m256i, index: *const u32) -> __m256i {
    // SAFETY: as the caller promises.
    let index = unsafe { _mm256_cvtepu32_epi64(_mm_loadu_si128(index.cast())) };
    // Word i is the pair of half words 2i, 2i + 1; the permutation of 8 half words uses the low 3 bits.
    let even = _mm256_add_epi64(index, index);
    let pairs = _mm256_or_si256(even, _mm256_slli_epi64::<32>(even));
    _mm256_permutevar8x32_epi32(x, _mm256_or_si256(pairs, splat(1 << 32)))
}

/// Within an aligned block of 4 outputs all sources lie in one aligned block of 4 inputs.
///
/// # Safety
/// Features detected; lengths of `out` and `perm` are equal multiples of 4; the block of the first
/// entry of each group lies within `a`.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn permute(out: &mut [u64], a: &[u64], perm: &[u32]) {
    for (o, p) in out.chunks_exact_mut(4).zip(perm.chunks_exact(4)) {
        let block = (p[0] as usize) & !3;
        // SAFETY: 4 words of perm; the block lies within `a`.
        unsafe {
            let x = load(a.as_ptr().add(block));
            store(o.as_mut_ptr(), reorder(x, p.as_ptr()));
        }
    }
}

/// Block i of 8 words of each of `rows` goes to block `blocks[i]` of its output, its words ordered by the low bits of that
/// block of `perm`; `add` joins the first.
///
/// # Safety
/// Features detected; rows (and `add`) have 8 words for each entry of `blocks`, whose entries are blocks of the outputs and of
/// `perm`.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn permute_rows(
    m: &Modulus,
    out: [&mut [u64]; 2],
    rows: [&[u64]; 2],
    add: Option<&[u64]>,
    (blocks, perm): (&[u32], &[u32]),
) {
    let q = splat(m.value());
    let out = out.map(<[u64]>::as_mut_ptr);
    for (i, &to) in blocks.iter().enumerate() {
        for half in [0, 4] {
            let to = 8 * to as usize + half;
            // SAFETY: as the caller promises; the half of the block that is read is 0 or 4.
            unsafe {
                let p = perm.as_ptr().add(to);
                let from = 8 * i + (*p as usize & 4);
                let mut x = rows.map(|r| load(r.as_ptr().add(from)));
                if let Some(a) = add {
                    let sum = _mm256_add_epi64(x[0], load(a.as_ptr().add(from)));
                    x[0] = lift_words(_mm256_sub_epi64(sum, q), q);
                }
                for (x, out) in x.into_iter().zip(out) {
                    store(out.add(to), reorder(x, p));
                }
            }
        }
    }
}
