//! Inverse NTT: Gentleman-Sande butterflies, the forward passes run backwards.
//!
//! Primes above 2^46: values stay below 2q between layers. Smaller primes (`LAZY`): passes take values below 8q; sums
//! double in each layer, products are below 2q again, so only the sum of all operands of a pass is reduced. Nothing exceeds
//! 64q < 2^52; only the low 52 bits count, nothing is masked before the end. The last layer multiplies by 1/N (or another
//! factor) and reduces fully.

use std::arch::x86_64::*;

use super::forward::{CACHE_BLOCK, LAZY_BITS};
use super::lanes::{fetch, load, reduce_once, splat, store, Factor, Lanes};
use super::source::Source;
use super::twiddles::{spread2, spread4, Twiddles};
use crate::backend::Ahead;
use crate::modulus::Shoup;
use crate::ntt::{InverseFactor, NttTable};

/// Constants of one transform.
#[derive(Clone, Copy)]
struct Context {
    k: Lanes,
    t: Twiddles,
    /// q, 2q, 4q, ... 32q: what makes differences of values below them positive.
    q: [__m512i; 6],
    /// Factors of the last layer: c and psi^-brv(1) c.
    last: [Factor; 2],
}

impl Context {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    fn new(table: &NttTable, last: [Shoup; 2]) -> Self {
        let q = table.modulus().value();
        Self {
            k: Lanes::new(table.modulus()),
            t: Twiddles::new(table.inverse_twiddles()),
            q: [0, 1, 2, 3, 4, 5].map(|i| splat(q << i)),
            last: last.map(|s| Factor {
                w: splat(s.value),
                quotient: splat(s.quotient >> 12),
            }),
        }
    }

    /// `(x + y, w (x - y))` for `y < 2^below q`. Without `LAZY` operands and results are below 2q.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    fn butterfly<const LAZY: bool>(
        self,
        below: usize,
        x: &mut __m512i,
        y: &mut __m512i,
        f: Factor,
    ) {
        let k = self.k;
        let sum = _mm512_add_epi64(*x, *y);
        if LAZY {
            let d = _mm512_sub_epi64(_mm512_add_epi64(*x, self.q[below]), *y);
            *x = sum;
            *y = k.mul_unmasked(d, f);
        } else {
            let d = _mm512_sub_epi64(_mm512_add_epi64(*x, k.two_q), *y);
            *x = reduce_once(sum, k.two_q);
            *y = k.mul_lazy(d, f);
        }
    }

    /// A butterfly of the last layer if `LAST`, which uses its own factors; an ordinary one if not.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    fn top<const LAZY: bool, const LAST: bool>(
        self,
        below: usize,
        x: &mut __m512i,
        y: &mut __m512i,
        f: Factor,
    ) {
        if LAST {
            let k = self.k;
            let above = if LAZY { self.q[below] } else { k.two_q };
            let sum = _mm512_add_epi64(*x, *y);
            let d = _mm512_sub_epi64(_mm512_add_epi64(*x, above), *y);
            *x = k.reduce_2q(k.mul_lazy(sum, self.last[0]));
            *y = k.reduce_2q(k.mul_lazy(d, self.last[1]));
        } else {
            self.butterfly::<LAZY>(below, x, y, f);
        }
    }

    /// The sum of all operands of a pass, below 64q, to below 2q if `LAZY`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    fn settle<const LAZY: bool, const LAST: bool>(self, x: __m512i) -> __m512i {
        if LAZY && !LAST {
            let t = _mm512_madd52hi_epu64(_mm512_setzero_si512(), x, self.k.one_quotient);
            _mm512_madd52lo_epu64(x, t, self.k.neg_q)
        } else {
            x
        }
    }
}

/// # Safety
/// Features detected; `a` has `table.n()` elements; the table holds 52-bit quotients.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn transform(table: &NttTable, a: &mut [u64]) {
    let (n_inv, n_inv_w) = table.inverse_last_layer();
    let c = Context::new(table, [n_inv, n_inv_w]);
    // SAFETY: the whole array is group 0 of the layer with one group.
    unsafe {
        if table.modulus().bits() <= LAZY_BITS {
            let p = a.as_mut_ptr();
            block::<true, true>(c, p, p, a.len(), (1, 0), &mut Ahead::new());
        } else {
            let p = a.as_mut_ptr();
            block::<false, true>(c, p, p, a.len(), (1, 0), &mut Ahead::new());
        }
    }
}

/// All layers but the last three of row `s`, from `from` to `p`.
///
/// # Safety
/// Features detected; `p` has `len` = N/8 words, at least 16, and `from` as many, which are those of `p` or others; `s < 8`; the table holds
/// 52-bit quotients.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn tail(
    table: &NttTable,
    s: usize,
    from: *const u64,
    (p, len): (*mut u64, usize),
    ahead: &mut Ahead<'_>,
) {
    let c = Context::new(table, [Shoup::default(); 2]);
    // SAFETY: the row is group s of the layer with 8 groups.
    unsafe {
        if table.modulus().bits() <= LAZY_BITS {
            block::<true, false>(c, from, p, len, (8, s), ahead);
        } else {
            block::<false, false>(c, from, p, len, (8, s), ahead);
        }
    }
}

/// The last three layers on the columns of a tile: 8 rows, which lie N/8 apart in the polynomial. The output
/// is reduced and multiplied as `factor` says. Reads from `source` and writes `len` words to `p`.
///
/// # Safety
/// Features detected; `len` is a multiple of 64, and `source` and `p` have these words, of one memory or of two; N is at least 128; the table holds 52-bit
/// quotients.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn head(
    table: &NttTable,
    source: impl Source,
    (p, len): (*mut u64, usize),
    factor: &InverseFactor,
) {
    let c = Context::new(table, factor.last);
    let (step, none) = (len / 8, &mut Ahead::new());
    // SAFETY: 8 rows of a multiple of 8 columns; twiddles 1 .. 8 exist.
    unsafe {
        if table.modulus().bits() <= LAZY_BITS {
            radix8::<true, true>(c, source, p, step, 1, none);
        } else {
            radix8::<false, true>(c, source, p, step, 1, none);
        }
    }
}

/// All layers of group `g` of the layer with `m` groups: `len` words from `from` to `p`. `LAST` if that layer is the last of the
/// transform.
///
/// # Safety
/// `p` has `len` words, a power of two, at least 16, and `from` as many, which are those of `p` or others; `m * len = N`, `g < m`.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn block<const LAZY: bool, const LAST: bool>(
    c: Context,
    from: *const u64,
    p: *mut u64,
    len: usize,
    (m, g): (usize, usize),
    ahead: &mut Ahead<'_>,
) {
    // SAFETY: sub-blocks partition the block; layer indices stay below N.
    unsafe {
        if len > CACHE_BLOCK {
            for s in 0..8 {
                let (start, at) = (s * (len / 8), (8 * m, 8 * g + s));
                block::<LAZY, false>(c, from.add(start), p.add(start), len / 8, at, ahead);
            }
            radix8::<LAZY, LAST>(c, p, p, len / 8, m + g, ahead);
            return;
        }
        let mut groups = len / 16;
        if groups == 1 {
            first_four::<LAZY, LAST>(c, from, p, 1, m + g, ahead);
            return;
        }
        first_four::<LAZY, false>(c, from, p, groups, (m + g) * groups, ahead);
        let mut size = 16;
        while groups >= 4 {
            groups /= 4;
            size *= 4;
            if groups == 1 {
                radix4::<LAZY, LAST>(c, p, size / 4, m + g, ahead);
            } else {
                for s in 0..groups {
                    let i = (m + g) * groups + s;
                    radix4::<LAZY, false>(c, p.add(s * size), size / 4, i, ahead);
                }
            }
        }
        if groups == 2 {
            radix2::<LAZY, LAST>(c, p, size, m + g, ahead);
        }
    }
}

/// One layer: `2 * step` words at `p`, twiddle `i`.
///
/// # Safety
/// `step` is a multiple of 8, `i < N`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn radix2<const LAZY: bool, const LAST: bool>(
    c: Context,
    p: *mut u64,
    step: usize,
    i: usize,
    ahead: &mut Ahead<'_>,
) {
    // SAFETY: offsets are below 2 * step.
    unsafe {
        let f = c.t.splat(i);
        for j in (0..step).step_by(8) {
            fetch::<1>(ahead);
            let (p0, p1) = (p.add(j), p.add(j + step));
            let (mut x, mut y) = (load(p0), load(p1));
            c.top::<LAZY, LAST>(3, &mut x, &mut y, f);
            store(p0, c.settle::<LAZY, LAST>(x));
            store(p1, y);
        }
    }
}

/// Two layers: `4 * step` words at `p`, twiddles `2i`, `2i + 1`, then `i`.
///
/// # Safety
/// `step` is a multiple of 8, `2i + 1 < N`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn radix4<const LAZY: bool, const LAST: bool>(
    c: Context,
    p: *mut u64,
    step: usize,
    i: usize,
    ahead: &mut Ahead<'_>,
) {
    // SAFETY: offsets are below 4 * step.
    unsafe {
        let (f0, f1, f2) = (c.t.splat(i), c.t.splat(2 * i), c.t.splat(2 * i + 1));
        for j in (0..step).step_by(8) {
            fetch::<1>(ahead);
            let p0 = p.add(j);
            let (p1, p2, p3) = (p0.add(step), p0.add(2 * step), p0.add(3 * step));
            let (mut a, mut b, mut d, mut e) = (load(p0), load(p1), load(p2), load(p3));
            c.butterfly::<LAZY>(3, &mut a, &mut b, f1);
            c.butterfly::<LAZY>(3, &mut d, &mut e, f2);
            c.top::<LAZY, LAST>(4, &mut a, &mut d, f0);
            c.top::<LAZY, LAST>(1, &mut b, &mut e, f0);
            store(p0, c.settle::<LAZY, LAST>(a));
            store(p1, b);
            store(p2, d);
            store(p3, e);
        }
    }
}

/// Three layers: `8 * step` words from `source` to `p`, twiddles `4i..`, `2i..`, `i`.
///
/// # Safety
/// `source` and `p` have these words; /// `step` is a multiple of 8, `4i + 3 < N`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn radix8<const LAZY: bool, const LAST: bool>(
    c: Context,
    source: impl Source,
    p: *mut u64,
    step: usize,
    i: usize,
    ahead: &mut Ahead<'_>,
) {
    // SAFETY: offsets are below 8 * step.
    unsafe {
        let f1 = c.t.splat(i);
        let f2 = [c.t.splat(2 * i), c.t.splat(2 * i + 1)];
        let f3 = [
            c.t.splat(4 * i),
            c.t.splat(4 * i + 1),
            c.t.splat(4 * i + 2),
            c.t.splat(4 * i + 3),
        ];
        let distance = source.distance(step);
        for j in (0..step).step_by(8) {
            fetch::<2>(ahead);
            let at = |s: usize| p.add(j + s * step);
            let first = source.at(j);
            let from = |s: usize| load(first.add(s * distance));
            let (mut x0, mut x1, mut x2, mut x3) = (from(0), from(1), from(2), from(3));
            let (mut x4, mut x5, mut x6, mut x7) = (from(4), from(5), from(6), from(7));
            c.butterfly::<LAZY>(3, &mut x0, &mut x1, f3[0]);
            c.butterfly::<LAZY>(3, &mut x2, &mut x3, f3[1]);
            c.butterfly::<LAZY>(3, &mut x4, &mut x5, f3[2]);
            c.butterfly::<LAZY>(3, &mut x6, &mut x7, f3[3]);
            c.butterfly::<LAZY>(4, &mut x0, &mut x2, f2[0]);
            c.butterfly::<LAZY>(1, &mut x1, &mut x3, f2[0]);
            c.butterfly::<LAZY>(4, &mut x4, &mut x6, f2[1]);
            c.butterfly::<LAZY>(1, &mut x5, &mut x7, f2[1]);
            c.top::<LAZY, LAST>(5, &mut x0, &mut x4, f1);
            c.top::<LAZY, LAST>(2, &mut x1, &mut x5, f1);
            c.top::<LAZY, LAST>(1, &mut x2, &mut x6, f1);
            c.top::<LAZY, LAST>(1, &mut x3, &mut x7, f1);
            store(at(0), c.settle::<LAZY, LAST>(x0));
            store(at(1), x1);
            store(at(2), x2);
            store(at(3), x3);
            store(at(4), x4);
            store(at(5), x5);
            store(at(6), x6);
            store(at(7), x7);
        }
    }
}

/// The first four layers of `groups` blocks of 16 words, from `from` to `p`. Block `s` ends with twiddle `i + s`.
///
/// # Safety
/// `p` and `from` have `16 * groups` words; `8 (i + groups) <= N`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn first_four<const LAZY: bool, const LAST: bool>(
    c: Context,
    from: *const u64,
    p: *mut u64,
    groups: usize,
    i: usize,
    ahead: &mut Ahead<'_>,
) {
    let t = c.t;
    let quads = _mm512_setr_epi64(0, 0, 0, 0, 1, 1, 1, 1);
    let pairs = _mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3);
    let even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
    let odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
    // Both shuffles of the forward pass are their own inverses.
    let first = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    let second = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    for s in 0..groups {
        fetch::<1>(ahead);
        let g = i + s;
        // SAFETY: 16 words of data; twiddles 8g .. 8g + 8 are within the table.
        unsafe {
            let (p0, p1) = (p.add(16 * s), p.add(16 * s + 8));
            let (x, y) = (load(from.add(16 * s)), load(from.add(16 * s + 8)));
            // Distance 1.
            let (mut a, mut b) = (
                _mm512_permutex2var_epi64(x, even, y),
                _mm512_permutex2var_epi64(x, odd, y),
            );
            let f = Factor {
                w: load(t.w.add(8 * g)),
                quotient: load(t.quotient.add(8 * g)),
            };
            c.butterfly::<LAZY>(0, &mut a, &mut b, f);
            // Distance 2.
            let (mut x, mut y) = (_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
            let f = Factor {
                w: spread4(t.w.add(4 * g), pairs),
                quotient: spread4(t.quotient.add(4 * g), pairs),
            };
            c.butterfly::<LAZY>(1, &mut x, &mut y, f);
            // Distance 4.
            let (mut a, mut b) = (
                _mm512_permutex2var_epi64(x, first, y),
                _mm512_permutex2var_epi64(x, second, y),
            );
            let f = Factor {
                w: spread2(t.w.add(2 * g), quads),
                quotient: spread2(t.quotient.add(2 * g), quads),
            };
            c.butterfly::<LAZY>(2, &mut a, &mut b, f);
            // Distance 8.
            let (mut x, mut y) = (
                _mm512_shuffle_i64x2::<0x44>(a, b),
                _mm512_shuffle_i64x2::<0xee>(a, b),
            );
            c.top::<LAZY, LAST>(3, &mut x, &mut y, t.splat(g));
            store(p0, c.settle::<LAZY, LAST>(x));
            store(p1, y);
        }
    }
}
