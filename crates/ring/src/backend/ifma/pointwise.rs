//! Pointwise kernels. Lengths are multiples of 8; the callers split off tails.

use std::arch::x86_64::*;

use super::lanes::{fetch, load, reduce_once, splat, store, Factor, Lanes, WideLanes};
use crate::backend::Ahead;
use crate::modulus::{Modulus, Shoup};

/// Products of 50-bit factors whose sum stays below 2^104, the range of the two-word reduction.
pub(super) const MAX_LAZY_TERMS: usize = 16;

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
fn factor(w: Shoup) -> Factor {
    Factor {
        w: splat(w.value),
        quotient: splat(w.quotient >> 12),
    }
}

/// # Safety
/// Features detected; equal lengths, multiples of 8 (as for all kernels below).
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn add_assign(m: &Modulus, a: &mut [u64], b: &[u64]) {
    let q = splat(m.value());
    for (x, y) in a.chunks_exact_mut(8).zip(b.chunks_exact(8)) {
        // SAFETY: chunks of 8 words.
        unsafe {
            let s = _mm512_add_epi64(load(x.as_ptr()), load(y.as_ptr()));
            store(x.as_mut_ptr(), reduce_once(s, q));
        }
    }
}

/// # Safety
/// As [`add_assign`].
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn sub_assign(m: &Modulus, a: &mut [u64], b: &[u64]) {
    let q = splat(m.value());
    for (x, y) in a.chunks_exact_mut(8).zip(b.chunks_exact(8)) {
        // SAFETY: chunks of 8 words.
        unsafe {
            let d = _mm512_sub_epi64(load(x.as_ptr()), load(y.as_ptr()));
            // A negative difference is huge as an unsigned word; adding q makes it the smaller.
            store(x.as_mut_ptr(), _mm512_min_epu64(d, _mm512_add_epi64(d, q)));
        }
    }
}

/// # Safety
/// As [`add_assign`].
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn neg_assign(m: &Modulus, a: &mut [u64]) {
    let q = splat(m.value());
    let zero = _mm512_setzero_si512();
    for x in a.chunks_exact_mut(8) {
        // SAFETY: chunks of 8 words.
        unsafe {
            let d = _mm512_sub_epi64(zero, load(x.as_ptr()));
            store(x.as_mut_ptr(), _mm512_min_epu64(d, _mm512_add_epi64(d, q)));
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
fn product(k: Lanes, wide: WideLanes, x: __m512i, y: __m512i) -> __m512i {
    let zero = _mm512_setzero_si512();
    let hi = _mm512_madd52hi_epu64(zero, x, y);
    let lo = _mm512_madd52lo_epu64(zero, x, y);
    wide.reduce_carried(k, hi, lo)
}

/// # Safety
/// As [`add_assign`].
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn mul_assign(m: &Modulus, a: &mut [u64], b: &[u64]) {
    let (k, wide) = (Lanes::new(m), WideLanes::new(m));
    for (x, y) in a.chunks_exact_mut(8).zip(b.chunks_exact(8)) {
        // SAFETY: chunks of 8 words.
        unsafe {
            let p = product(k, wide, load(x.as_ptr()), load(y.as_ptr()));
            store(x.as_mut_ptr(), p);
        }
    }
}

/// # Safety
/// As [`add_assign`].
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn mul(m: &Modulus, out: &mut [u64], a: &[u64], b: &[u64]) {
    let (k, wide) = (Lanes::new(m), WideLanes::new(m));
    for ((o, x), y) in out
        .chunks_exact_mut(8)
        .zip(a.chunks_exact(8))
        .zip(b.chunks_exact(8))
    {
        // SAFETY: chunks of 8 words.
        unsafe {
            let p = product(k, wide, load(x.as_ptr()), load(y.as_ptr()));
            store(o.as_mut_ptr(), p);
        }
    }
}

/// `acc += sum of a_i * b_i`; at most [`MAX_LAZY_TERMS`] terms.
///
/// # Safety
/// Features detected; every factor has at least `acc.len()` words, a multiple of 8.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn dot_add(m: &Modulus, acc: &mut [u64], terms: &[(&[u64], &[u64])]) {
    let (k, wide) = (Lanes::new(m), WideLanes::new(m));
    let wide_len = acc.len() & !15;
    // SAFETY: all operands have the words addressed.
    unsafe {
        for j in (0..wide_len).step_by(16) {
            dot_block::<2>(k, wide, acc.as_mut_ptr(), terms, j);
        }
        if wide_len < acc.len() {
            dot_block::<1>(k, wide, acc.as_mut_ptr(), terms, wide_len);
        }
    }
}

/// `U` registers of [`dot_add`] from word `j` on.
///
/// # Safety
/// All operands have `8 U` words from `j` on.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn dot_block<const U: usize>(
    k: Lanes,
    wide: WideLanes,
    acc: *mut u64,
    terms: &[(&[u64], &[u64])],
    j: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut hi = [_mm512_setzero_si512(); U];
        let mut lo = hi;
        for (u, lo) in lo.iter_mut().enumerate() {
            *lo = load(acc.add(j + 8 * u));
        }
        for (a, b) in terms {
            for u in 0..U {
                let x = load(a.as_ptr().add(j + 8 * u));
                let y = load(b.as_ptr().add(j + 8 * u));
                lo[u] = _mm512_madd52lo_epu64(lo[u], x, y);
                hi[u] = _mm512_madd52hi_epu64(hi[u], x, y);
            }
        }
        for u in 0..U {
            store(acc.add(j + 8 * u), wide.reduce(k, hi[u], lo[u]));
        }
    }
}

/// `out = sum of terms_i * weights_i`, added to `out` if `ADD`; at most [`MAX_LAZY_TERMS`] terms.
///
/// # Safety
/// Features detected; every term has at least `out.len()` words, a multiple of 8.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn weighted_sum<const ADD: bool>(
    m: &Modulus,
    out: &mut [u64],
    terms: &[&[u64]],
    weights: &[u64],
) {
    let (k, wide) = (Lanes::new(m), WideLanes::new(m));
    let wide_len = out.len() & !31;
    let p = out.as_mut_ptr();
    // SAFETY: all operands have the words addressed.
    unsafe {
        for j in (0..wide_len).step_by(32) {
            weighted_block::<4, ADD>(k, wide, p, terms, weights, j);
        }
        for j in (wide_len..out.len()).step_by(8) {
            weighted_block::<1, ADD>(k, wide, p, terms, weights, j);
        }
    }
}

/// `U` registers of [`weighted_sum`] from word `j` on.
///
/// # Safety
/// All operands have `8 U` words from `j` on.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn weighted_block<const U: usize, const ADD: bool>(
    k: Lanes,
    wide: WideLanes,
    out: *mut u64,
    terms: &[&[u64]],
    weights: &[u64],
    j: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut hi = [_mm512_setzero_si512(); U];
        let mut lo = hi;
        if ADD {
            for (u, lo) in lo.iter_mut().enumerate() {
                *lo = load(out.add(j + 8 * u));
            }
        }
        for (t, &w) in terms.iter().zip(weights) {
            let w = splat(w);
            for u in 0..U {
                let x = load(t.as_ptr().add(j + 8 * u));
                lo[u] = _mm512_madd52lo_epu64(lo[u], x, w);
                hi[u] = _mm512_madd52hi_epu64(hi[u], x, w);
            }
        }
        for u in 0..U {
            store(out.add(j + 8 * u), wide.reduce(k, hi[u], lo[u]));
        }
    }
}

/// `out = sum of terms_i * weights_i`, added to `out` if `ADD`, below 4q; at most [`MAX_LAZY_TERMS`] terms, term i from
/// `i * stride` on.
///
/// # Safety
/// Features detected; every term has at least `out.len()` words, a multiple of 8.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn convert<const ADD: bool>(
    m: &Modulus,
    out: &mut [u64],
    (terms, stride): (&[u64], usize),
    weights: &[u64],
    ahead: &mut Ahead<'_>,
) {
    let (k, wide) = (Lanes::new(m), WideLanes::new(m));
    let wide_len = out.len() & !63;
    let p = out.as_mut_ptr();
    // SAFETY: all operands have the words addressed.
    unsafe {
        for j in (0..wide_len).step_by(64) {
            // Eight targets take twelve terms, for each of which they use 64 words.
            fetch::<12>(ahead);
            convert_block::<8, ADD>(k, wide, p.add(j), terms.as_ptr().add(j), stride, weights);
        }
        for j in (wide_len..out.len()).step_by(8) {
            convert_block::<1, ADD>(k, wide, p.add(j), terms.as_ptr().add(j), stride, weights);
        }
    }
}

/// `U` registers of [`convert`].
///
/// # Safety
/// `out` has `8 U` words, as has `terms` from each multiple of `stride` on, as many as there are weights.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn convert_block<const U: usize, const ADD: bool>(
    k: Lanes,
    wide: WideLanes,
    out: *mut u64,
    terms: *const u64,
    stride: usize,
    weights: &[u64],
) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut hi = [_mm512_setzero_si512(); U];
        let mut lo = hi;
        if ADD {
            for (u, lo) in lo.iter_mut().enumerate() {
                *lo = load(out.add(8 * u));
            }
        }
        for (i, &w) in weights.iter().enumerate() {
            let w = splat(w);
            let t = terms.add(i * stride);
            for u in 0..U {
                let x = load(t.add(8 * u));
                lo[u] = _mm512_madd52lo_epu64(lo[u], x, w);
                hi[u] = _mm512_madd52hi_epu64(hi[u], x, w);
            }
        }
        for u in 0..U {
            store(out.add(8 * u), wide.reduce_lazy(k, hi[u], lo[u]));
        }
    }
}

/// `(b, a) = sum of d_i * (b_i, a_i)` for terms `(d_i, b_i, a_i)`, added to what is there if `add`; at most
/// [`MAX_LAZY_TERMS`] terms.
///
/// # Safety
/// Features detected; all operands have at least the words of `out[0]`, a multiple of 8.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn key_products(
    m: &Modulus,
    out: [&mut [u64]; 2],
    terms: &[[&[u64]; 3]],
    add: bool,
) {
    let (k, wide) = (Lanes::new(m), WideLanes::new(m));
    let len = out[0].len();
    let out = out.map(<[u64]>::as_mut_ptr);
    let wide_len = len & !15;
    // SAFETY: all operands have the words addressed.
    unsafe {
        for j in (0..wide_len).step_by(16) {
            key_block::<2>(k, wide, out, terms, add, j);
        }
        if wide_len < len {
            key_block::<1>(k, wide, out, terms, add, wide_len);
        }
    }
}

/// `U` registers of each output of [`key_products`] from word `j` on.
///
/// # Safety
/// All operands have `8 U` words from `j` on.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn key_block<const U: usize>(
    k: Lanes,
    wide: WideLanes,
    out: [*mut u64; 2],
    terms: &[[&[u64]; 3]],
    add: bool,
    j: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut hi = [[_mm512_setzero_si512(); U]; 2];
        let mut lo = hi;
        if add {
            for (lo, out) in lo.iter_mut().zip(out) {
                for (u, lo) in lo.iter_mut().enumerate() {
                    *lo = load(out.add(j + 8 * u));
                }
            }
        }
        for [d, b, a] in terms {
            for u in 0..U {
                let x = load(d.as_ptr().add(j + 8 * u));
                for (half, y) in [b, a].into_iter().enumerate() {
                    let y = load(y.as_ptr().add(j + 8 * u));
                    lo[half][u] = _mm512_madd52lo_epu64(lo[half][u], x, y);
                    hi[half][u] = _mm512_madd52hi_epu64(hi[half][u], x, y);
                }
            }
        }
        for half in 0..2 {
            for u in 0..U {
                let r = wide.reduce(k, hi[half][u], lo[half][u]);
                store(out[half].add(j + 8 * u), r);
            }
        }
    }
}

/// # Safety
/// As [`add_assign`].
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn scalar_mul_assign(m: &Modulus, a: &mut [u64], w: Shoup) {
    let (k, f) = (Lanes::new(m), factor(w));
    for x in a.chunks_exact_mut(8) {
        // SAFETY: chunks of 8 words.
        unsafe {
            let p = k.mul_lazy(load(x.as_ptr()), f);
            store(x.as_mut_ptr(), k.reduce_2q(p));
        }
    }
}

/// # Safety
/// As [`add_assign`].
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn scalar_mul_add(m: &Modulus, acc: &mut [u64], a: &[u64], w: Shoup) {
    let (k, f) = (Lanes::new(m), factor(w));
    for (o, x) in acc.chunks_exact_mut(8).zip(a.chunks_exact(8)) {
        // SAFETY: chunks of 8 words.
        unsafe {
            let p = k.mul_lazy(load(x.as_ptr()), f);
            let s = _mm512_add_epi64(load(o.as_ptr()), p);
            store(o.as_mut_ptr(), k.reduce_4q(s));
        }
    }
}

/// # Safety
/// As [`add_assign`].
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn sub_scalar_mul(m: &Modulus, a: &mut [u64], b: &[u64], w: Shoup) {
    let (k, f) = (Lanes::new(m), factor(w));
    for (x, y) in a.chunks_exact_mut(8).zip(b.chunks_exact(8)) {
        // SAFETY: chunks of 8 words.
        unsafe {
            let d = _mm512_sub_epi64(load(x.as_ptr()), load(y.as_ptr()));
            let p = k.mul_lazy(_mm512_add_epi64(d, k.q), f);
            store(x.as_mut_ptr(), k.reduce_2q(p));
        }
    }
}

/// # Safety
/// As [`add_assign`].
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn reduce_assign(m: &Modulus, a: &mut [u64]) {
    let (k, wide) = (Lanes::new(m), WideLanes::new(m));
    for x in a.chunks_exact_mut(8) {
        // SAFETY: chunks of 8 words.
        unsafe {
            // The bits above 52 become the high word.
            let r = wide.reduce(k, _mm512_setzero_si512(), load(x.as_ptr()));
            store(x.as_mut_ptr(), r);
        }
    }
}

/// # Safety
/// Features detected; every term has at least `out.len()` words, a multiple of 8, from each multiple of `stride` on.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn rounded_sum(out: &mut [u64], terms: &[u64], stride: usize, factors: &[f64]) {
    for (j, o) in out.chunks_exact_mut(8).enumerate() {
        // SAFETY: all operands have 8 words from 8j on.
        unsafe {
            let mut sum = _mm512_set1_pd(0.5);
            for (i, &f) in factors.iter().enumerate() {
                let x = _mm512_cvtepu64_pd(load(terms.as_ptr().add(i * stride + 8 * j)));
                // Not fused: the scalar backend rounds the product too.
                sum = _mm512_add_pd(sum, _mm512_mul_pd(x, _mm512_set1_pd(f)));
            }
            store(o.as_mut_ptr(), _mm512_cvttpd_epu64(sum));
        }
    }
}

/// Within an aligned block of 8 outputs all sources lie in one aligned block of 8 inputs.
///
/// # Safety
/// Features detected; lengths of `out` and `perm` are equal multiples of 8; the block of the first
/// entry of each group lies within `a`.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn permute(out: &mut [u64], a: &[u64], perm: &[u32]) {
    for (o, p) in out.chunks_exact_mut(8).zip(perm.chunks_exact(8)) {
        let block = (p[0] as usize) & !7;
        // SAFETY: 8 words of perm; the block lies within `a`; the permutation uses the low 3 bits.
        unsafe {
            let index = _mm512_cvtepu32_epi64(_mm256_loadu_si256(p.as_ptr().cast()));
            let x = load(a.as_ptr().add(block));
            store(o.as_mut_ptr(), _mm512_permutexvar_epi64(index, x));
        }
    }
}

/// Block i of each of `rows` goes to block `blocks[i]` of its output, its words ordered by the low bits of that block of `perm`;
/// `add` joins the first.
///
/// # Safety
/// Features detected; outputs start at multiples of 64 bytes if `STREAM`; rows (and `add`) have 8 words for each entry of `blocks`,
/// whose entries are blocks of the outputs and of `perm`.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn permute_rows<const STREAM: bool>(
    m: &Modulus,
    out: [&mut [u64]; 2],
    rows: [&[u64]; 2],
    add: Option<&[u64]>,
    (blocks, perm): (&[u32], &[u32]),
) {
    let q = splat(m.value());
    let out = out.map(<[u64]>::as_mut_ptr);
    for (i, &to) in blocks.iter().enumerate() {
        let to = 8 * to as usize;
        // SAFETY: as the caller promises; the permutation uses the low 3 bits.
        unsafe {
            let index = _mm512_cvtepu32_epi64(_mm256_loadu_si256(perm.as_ptr().add(to).cast()));
            let mut x = rows.map(|r| load(r.as_ptr().add(8 * i)));
            if let Some(a) = add {
                x[0] = reduce_once(_mm512_add_epi64(x[0], load(a.as_ptr().add(8 * i))), q);
            }
            for (x, out) in x.into_iter().zip(out) {
                let (x, p) = (_mm512_permutexvar_epi64(index, x), out.add(to));
                if STREAM {
                    _mm512_stream_si512(p.cast(), x);
                } else {
                    store(p, x);
                }
            }
        }
    }
    if STREAM {
        // Stores past the caches are ordered before what follows by a fence only.
        _mm_sfence();
    }
}
