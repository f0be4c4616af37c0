//! Forward NTT: Cooley-Tukey butterflies, depth first, eight lanes.
//!
//! Blocks larger than the first-level cache are split by one pass of three layers; smaller ones run
//! two layers to a pass; the last four layers run inside two registers. Values stay below 4q, or,
//! for primes below 2^46 (`LAZY`), grow by 2q in each layer, up to 35q < 2^52, and are reduced once.

use std::arch::x86_64::*;

use super::lanes::{load, reduce_once, splat, store, Factor, Lanes};
use crate::ntt::NttTable;

/// Words of a block that stays in the first-level cache with its twiddles.
pub(super) const CACHE_BLOCK: usize = 1 << 12;

/// Twiddle tables as pointers, N words each.
#[derive(Clone, Copy)]
pub(super) struct Twiddles {
    pub w: *const u64,
    pub quotient: *const u64,
}

impl Twiddles {
    pub(super) fn new((w, quotient): (&[u64], &[u64])) -> Self {
        Self {
            w: w.as_ptr(),
            quotient: quotient.as_ptr(),
        }
    }

    /// Entry `i` in all lanes.
    ///
    /// # Safety
    /// `i < N`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    pub(super) unsafe fn splat(self, i: usize) -> Factor {
        // SAFETY: as the caller promises.
        unsafe {
            Factor {
                w: splat(*self.w.add(i)),
                quotient: splat(*self.quotient.add(i)),
            }
        }
    }
}

/// Largest prime size without reductions between layers: (1 + 2 * 17) 2^46 < 2^52.
const LAZY_BITS: u32 = 46;

/// `(x + w y, x - w y)`. Results are below 4q if the operands are; with `LAZY` they are 2q larger
/// than `x` at most.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
fn butterfly<const LAZY: bool>(k: Lanes, x: &mut __m512i, y: &mut __m512i, f: Factor) {
    let u = if LAZY { *x } else { reduce_once(*x, k.two_q) };
    let v = k.mul_lazy(*y, f);
    *x = _mm512_add_epi64(u, v);
    *y = _mm512_sub_epi64(_mm512_add_epi64(u, k.two_q), v);
}

/// The full reduction at the end.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
fn finish<const LAZY: bool>(k: Lanes, x: __m512i) -> __m512i {
    if LAZY {
        let t = _mm512_madd52hi_epu64(_mm512_setzero_si512(), x, k.one_quotient);
        let r = _mm512_and_si512(_mm512_madd52lo_epu64(x, t, k.neg_q), k.mask52);
        k.reduce_2q(r)
    } else {
        k.reduce_4q(x)
    }
}

/// # Safety
/// Features detected; `a` has `table.n()` elements; the table holds 52-bit quotients.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn transform(table: &NttTable, a: &mut [u64]) {
    let k = Lanes::new(table.modulus());
    let t = Twiddles::new(table.forward_twiddles());
    // SAFETY: the whole array is group 0 of the layer with one group.
    unsafe {
        if table.modulus().bits() <= LAZY_BITS {
            block::<true>(k, t, a.as_mut_ptr(), a.len(), 1, 0);
        } else {
            block::<false>(k, t, a.as_mut_ptr(), a.len(), 1, 0);
        }
    }
}

/// All layers of group `g` of the layer with `m` groups: `len` words at `p`.
///
/// # Safety
/// `p` has `len` words, a power of two, at least 16; `m * len = N`, `g < m`.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn block<const LAZY: bool>(
    k: Lanes,
    t: Twiddles,
    p: *mut u64,
    len: usize,
    m: usize,
    g: usize,
) {
    // SAFETY: sub-blocks partition the block; layer indices stay below N.
    unsafe {
        if len > CACHE_BLOCK {
            radix8::<LAZY>(k, t, p, len / 8, m + g);
            for s in 0..8 {
                block::<LAZY>(k, t, p.add(s * (len / 8)), len / 8, 8 * m, 8 * g + s);
            }
            return;
        }
        // Four layers are left to the last pass.
        let mut layers = len.trailing_zeros() - 4;
        let (mut len, mut index, mut groups) = (len, m + g, 1);
        if layers % 2 == 1 {
            radix2::<LAZY>(k, t, p, len / 2, index);
            len /= 2;
            groups *= 2;
            index *= 2;
            layers -= 1;
        }
        while layers > 0 {
            for s in 0..groups {
                radix4::<LAZY>(k, t, p.add(s * len), len / 4, index + s);
            }
            len /= 4;
            groups *= 4;
            index *= 4;
            layers -= 2;
        }
        last_four::<LAZY>(k, t, p, groups, index);
    }
}

/// One layer: `2 * step` words at `p`, twiddle `i`.
///
/// # Safety
/// `step` is a multiple of 8, `i < N`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn radix2<const LAZY: bool>(k: Lanes, t: Twiddles, p: *mut u64, step: usize, i: usize) {
    // SAFETY: offsets are below 2 * step.
    unsafe {
        let f = t.splat(i);
        for j in (0..step).step_by(8) {
            let (p0, p1) = (p.add(j), p.add(j + step));
            let (mut x, mut y) = (load(p0), load(p1));
            butterfly::<LAZY>(k, &mut x, &mut y, f);
            store(p0, x);
            store(p1, y);
        }
    }
}

/// Two layers: `4 * step` words at `p`, twiddles `i`, then `2i`, `2i + 1`.
///
/// # Safety
/// `step` is a multiple of 8, `2i + 1 < N`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn radix4<const LAZY: bool>(k: Lanes, t: Twiddles, p: *mut u64, step: usize, i: usize) {
    // SAFETY: offsets are below 4 * step.
    unsafe {
        let (f0, f1, f2) = (t.splat(i), t.splat(2 * i), t.splat(2 * i + 1));
        for j in (0..step).step_by(8) {
            let p0 = p.add(j);
            let (p1, p2, p3) = (p0.add(step), p0.add(2 * step), p0.add(3 * step));
            let (mut a, mut b, mut c, mut d) = (load(p0), load(p1), load(p2), load(p3));
            butterfly::<LAZY>(k, &mut a, &mut c, f0);
            butterfly::<LAZY>(k, &mut b, &mut d, f0);
            butterfly::<LAZY>(k, &mut a, &mut b, f1);
            butterfly::<LAZY>(k, &mut c, &mut d, f2);
            store(p0, a);
            store(p1, b);
            store(p2, c);
            store(p3, d);
        }
    }
}

/// Three layers: `8 * step` words at `p`, twiddles `i`, `2i..`, `4i..`.
///
/// # Safety
/// `step` is a multiple of 8, `4i + 3 < N`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn radix8<const LAZY: bool>(k: Lanes, t: Twiddles, p: *mut u64, step: usize, i: usize) {
    // SAFETY: offsets are below 8 * step.
    unsafe {
        let f1 = t.splat(i);
        let f2 = [t.splat(2 * i), t.splat(2 * i + 1)];
        let f3 = [
            t.splat(4 * i),
            t.splat(4 * i + 1),
            t.splat(4 * i + 2),
            t.splat(4 * i + 3),
        ];
        for j in (0..step).step_by(8) {
            let at = |s: usize| p.add(j + s * step);
            let (mut a, mut b, mut c, mut d) = (load(at(0)), load(at(1)), load(at(2)), load(at(3)));
            let (mut e, mut f, mut g, mut h) = (load(at(4)), load(at(5)), load(at(6)), load(at(7)));
            butterfly::<LAZY>(k, &mut a, &mut e, f1);
            butterfly::<LAZY>(k, &mut b, &mut f, f1);
            butterfly::<LAZY>(k, &mut c, &mut g, f1);
            butterfly::<LAZY>(k, &mut d, &mut h, f1);
            butterfly::<LAZY>(k, &mut a, &mut c, f2[0]);
            butterfly::<LAZY>(k, &mut b, &mut d, f2[0]);
            butterfly::<LAZY>(k, &mut e, &mut g, f2[1]);
            butterfly::<LAZY>(k, &mut f, &mut h, f2[1]);
            butterfly::<LAZY>(k, &mut a, &mut b, f3[0]);
            butterfly::<LAZY>(k, &mut c, &mut d, f3[1]);
            butterfly::<LAZY>(k, &mut e, &mut f, f3[2]);
            butterfly::<LAZY>(k, &mut g, &mut h, f3[3]);
            store(at(0), a);
            store(at(1), b);
            store(at(2), c);
            store(at(3), d);
            store(at(4), e);
            store(at(5), f);
            store(at(6), g);
            store(at(7), h);
        }
    }
}

/// The last four layers of `groups` blocks of 16 words, and the full reduction. Block `s` starts
/// with twiddle `i + s`.
///
/// # Safety
/// `p` has `16 * groups` words; `8 (i + groups) <= N`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn last_four<const LAZY: bool>(k: Lanes, t: Twiddles, p: *mut u64, groups: usize, i: usize) {
    // Twiddles to lanes: two, each four times; four, each twice.
    let quads = _mm512_setr_epi64(0, 0, 0, 0, 1, 1, 1, 1);
    let pairs = _mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3);
    // Lanes of the layer with distance 2, and back to natural order at the end.
    let first = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    let second = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    let low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    let high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    for s in 0..groups {
        let g = i + s;
        // SAFETY: 16 words of data; twiddles 8g .. 8g + 8 are within the table.
        unsafe {
            let (p0, p1) = (p.add(16 * s), p.add(16 * s + 8));
            let (mut x, mut y) = (load(p0), load(p1));
            butterfly::<LAZY>(k, &mut x, &mut y, t.splat(g));
            // Distance 4.
            let (mut a, mut b) = (
                _mm512_shuffle_i64x2::<0x44>(x, y),
                _mm512_shuffle_i64x2::<0xee>(x, y),
            );
            let f = Factor {
                w: spread2(t.w.add(2 * g), quads),
                quotient: spread2(t.quotient.add(2 * g), quads),
            };
            butterfly::<LAZY>(k, &mut a, &mut b, f);
            // Distance 2.
            let (mut x, mut y) = (
                _mm512_permutex2var_epi64(a, first, b),
                _mm512_permutex2var_epi64(a, second, b),
            );
            let f = Factor {
                w: spread4(t.w.add(4 * g), pairs),
                quotient: spread4(t.quotient.add(4 * g), pairs),
            };
            butterfly::<LAZY>(k, &mut x, &mut y, f);
            // Distance 1.
            let (mut a, mut b) = (_mm512_unpacklo_epi64(x, y), _mm512_unpackhi_epi64(x, y));
            let f = Factor {
                w: load(t.w.add(8 * g)),
                quotient: load(t.quotient.add(8 * g)),
            };
            butterfly::<LAZY>(k, &mut a, &mut b, f);
            let (a, b) = (finish::<LAZY>(k, a), finish::<LAZY>(k, b));
            store(p0, _mm512_permutex2var_epi64(a, low, b));
            store(p1, _mm512_permutex2var_epi64(a, high, b));
        }
    }
}

/// Two words spread over the lanes by `index`.
///
/// # Safety
/// `p` has 2 words.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn spread2(p: *const u64, index: __m512i) -> __m512i {
    // SAFETY: as the caller promises.
    let pair = unsafe { _mm_loadu_si128(p.cast()) };
    _mm512_permutexvar_epi64(index, _mm512_castsi128_si512(pair))
}

/// Four words spread over the lanes by `index`.
///
/// # Safety
/// `p` has 4 words.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn spread4(p: *const u64, index: __m512i) -> __m512i {
    // SAFETY: as the caller promises.
    let quad = unsafe { _mm256_loadu_si256(p.cast()) };
    _mm512_permutexvar_epi64(index, _mm512_castsi256_si512(quad))
}
