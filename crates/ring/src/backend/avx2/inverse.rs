//! Inverse NTT: Gentleman-Sande butterflies, the forward passes run backwards.
//!
//! Sizes. A pass of two layers gives sums of four values, sums of two products and products. The first
//! are reduced in every pass, the second only for primes of 49 and 50 bits (`LAZY` if smaller). Then
//! values between passes are below 0.7 q (or 1.2 q if `LAZY`), sums of four below 4 q < 2^52. The last
//! layer multiplies by 1/N and reduces fully.

use std::arch::x86_64::*;

use super::forward::{Twiddles, CACHE_BLOCK};
use super::lanes::{
    factor, fetch, load_transposed, store, store_transposed, to_double, Factor, Lanes,
};
use crate::backend::Ahead;
use crate::modulus::Shoup;
use crate::ntt::{InverseFactor, NttTable};

/// Largest prime size without reductions of sums of two products.
const LAZY_BITS: u32 = 48;

/// Constants of one transform.
#[derive(Clone, Copy)]
struct Context {
    k: Lanes,
    t: Twiddles,
    /// The factors of the last layer: c/N and psi^-brv(1) c/N.
    end: [Factor; 2],
}

/// `(x + y, w (x - y))`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn butterfly(k: Lanes, x: &mut __m256d, y: &mut __m256d, f: Factor) {
    let difference = _mm256_sub_pd(*x, *y);
    *x = _mm256_add_pd(*x, *y);
    *y = k.mul(difference, f);
}

impl Context {
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn new(table: &NttTable, end: [Shoup; 2]) -> Self {
        let m = table.modulus();
        Self {
            k: Lanes::new(m),
            t: Twiddles::new(table.inverse_twiddles()),
            end: [factor(m, end[0].value), factor(m, end[1].value)],
        }
    }

    /// A butterfly of the last layer.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn last(self, x: &mut __m256d, y: &mut __m256d) {
        let difference = _mm256_sub_pd(*x, *y);
        *x = self.k.mul(_mm256_add_pd(*x, *y), self.end[0]);
        *y = self.k.mul(difference, self.end[1]);
    }

    /// Two layers on four registers: factors `f[1]` and `f[2]`, then `f[0]`, or those of the last layer
    /// if `LAST`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn two_layers<const LAZY: bool, const LAST: bool>(self, x: &mut [__m256d; 4], f: [Factor; 3]) {
        let k = self.k;
        let [a, b, c, d] = x;
        butterfly(k, a, b, f[1]);
        butterfly(k, c, d, f[2]);
        if LAST {
            self.last(a, c);
            self.last(b, d);
        } else {
            butterfly(k, a, c, f[0]);
            butterfly(k, b, d, f[0]);
            *a = k.reduce(*a);
            if !LAZY {
                *b = k.reduce(*b);
            }
        }
    }
}

/// Stores a register of values of a pass: words if it is the last one, doubles else.
///
/// # Safety
/// `p` points to 4 writable words.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn put<const LAST: bool>(k: Lanes, p: *mut u64, x: __m256d) {
    // SAFETY: as the caller promises.
    unsafe {
        if LAST {
            store(p, k.lift_to_words(x));
        } else {
            _mm256_storeu_pd(p.cast(), x);
        }
    }
}

/// # Safety
/// Features detected; `a` has `table.n()` elements; the table is that of this backend.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn transform(table: &NttTable, a: &mut [u64]) {
    let (n_inv, n_inv_w) = table.inverse_last_layer();
    let c = Context::new(table, [n_inv, n_inv_w]);
    // SAFETY: the whole array is the group of the last layer.
    unsafe {
        if table.modulus().bits() <= LAZY_BITS {
            whole::<true, true>(c, a, 1, &mut Ahead::new());
        } else {
            whole::<false, true>(c, a, 1, &mut Ahead::new());
        }
    }
}

/// All layers but the last three of row `s`; fetches `ahead` on the way.
///
/// # Safety
/// Features detected; `row` has N/8 words, at least 16; `s < 8`; the table is that of this backend.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn tail(table: &NttTable, s: usize, row: &mut [u64], ahead: &mut Ahead<'_>) {
    let c = Context::new(table, [Shoup::default(); 2]);
    // SAFETY: the row is group s of the layer with 8 groups.
    unsafe {
        if table.modulus().bits() <= LAZY_BITS {
            whole::<true, false>(c, row, 8 + s, ahead);
        } else {
            whole::<false, false>(c, row, 8 + s, ahead);
        }
    }
}

/// The last three layers on the columns of a tile: 8 rows, which lie N/8 apart in the polynomial. The
/// output is reduced and multiplied as `factor` says.
///
/// # Safety
/// Features detected; the length of `tile` is a multiple of 32; N is at least 16; the table is that of
/// this backend.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn head(table: &NttTable, tile: &mut [u64], factor: &InverseFactor) {
    let c = Context::new(table, factor.last);
    let (p, step) = (tile.as_mut_ptr(), tile.len() / 8);
    // SAFETY: 8 rows of a multiple of 4 columns; twiddles 1 .. 8 exist.
    unsafe {
        if table.modulus().bits() <= LAZY_BITS {
            radix8::<true>(c, p, step);
        } else {
            radix8::<false>(c, p, step);
        }
    }
}

/// All layers of the group with twiddle `i`, from words; to words if `LAST`, its last layer being that
/// of the transform.
///
/// # Safety
/// Features detected; the length of `a` is a power of two, at least 16, and `i` times that is below 2N.
#[target_feature(enable = "avx2,fma")]
unsafe fn whole<const LAZY: bool, const LAST: bool>(
    c: Context,
    a: &mut [u64],
    i: usize,
    ahead: &mut Ahead<'_>,
) {
    let (p, len) = (a.as_mut_ptr(), a.len());
    // SAFETY: sub-blocks partition the array; layer indices stay below N.
    unsafe {
        if len == 16 {
            first_two::<LAZY>(c, p, 1, i, ahead);
            radix4::<LAZY, LAST>(c, p, 4, i, ahead);
            return;
        }
        // Before the last pass there is an even number of layers.
        let odd = len.trailing_zeros() % 2 == 1;
        let split = if odd { 2 } else { 4 };
        let part = len / split;
        for s in 0..split {
            block::<LAZY>(c, p.add(s * part), part, split * i + s, ahead);
        }
        if odd {
            radix2::<LAST>(c, p, part, i, ahead);
        } else {
            radix4::<LAZY, LAST>(c, p, part, i, ahead);
        }
    }
}

/// All layers of one group that is not the whole array: `len` values at `p`, twiddle `i`.
///
/// # Safety
/// `p` has `len` words, a power of 4, at least 16; `i * len < 2N`.
#[target_feature(enable = "avx2,fma")]
unsafe fn block<const LAZY: bool>(
    c: Context,
    p: *mut u64,
    len: usize,
    i: usize,
    ahead: &mut Ahead<'_>,
) {
    // SAFETY: sub-blocks partition the block; layer indices stay below N.
    unsafe {
        if len > CACHE_BLOCK {
            for s in 0..4 {
                block::<LAZY>(c, p.add(s * (len / 4)), len / 4, 4 * i + s, ahead);
            }
            radix4::<LAZY, false>(c, p, len / 4, i, ahead);
            return;
        }
        first_two::<LAZY>(c, p, len / 16, i * (len / 16), ahead);
        let (mut size, mut groups) = (4, len / 4);
        while groups > 1 {
            size *= 4;
            groups /= 4;
            for s in 0..groups {
                radix4::<LAZY, false>(c, p.add(s * size), size / 4, i * groups + s, ahead);
            }
        }
    }
}

/// One layer: `2 * step` values at `p`, twiddle `i`.
///
/// # Safety
/// `step` is a multiple of 4, `i < N`.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn radix2<const LAST: bool>(
    c: Context,
    p: *mut u64,
    step: usize,
    i: usize,
    ahead: &mut Ahead<'_>,
) {
    // SAFETY: offsets are below 2 * step.
    unsafe {
        let f = c.t.splat(i);
        for j in (0..step).step_by(4) {
            fetch(ahead);
            let (p0, p1) = (p.add(j), p.add(j + step));
            let (mut x, mut y) = (_mm256_loadu_pd(p0.cast()), _mm256_loadu_pd(p1.cast()));
            if LAST {
                c.last(&mut x, &mut y);
            } else {
                butterfly(c.k, &mut x, &mut y, f);
                x = c.k.reduce(x);
            }
            put::<LAST>(c.k, p0, x);
            put::<LAST>(c.k, p1, y);
        }
    }
}

/// Two layers: `4 * step` values at `p`, twiddles `2i`, `2i + 1`, then `i`.
///
/// # Safety
/// `step` is a multiple of 4, `2i + 1 < N`.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn radix4<const LAZY: bool, const LAST: bool>(
    c: Context,
    p: *mut u64,
    step: usize,
    i: usize,
    ahead: &mut Ahead<'_>,
) {
    // SAFETY: offsets are below 4 * step.
    unsafe {
        let f = [c.t.splat(i), c.t.splat(2 * i), c.t.splat(2 * i + 1)];
        for j in (0..step).step_by(4) {
            fetch(ahead);
            let at = |s: usize| p.add(j + s * step);
            let mut x = [
                _mm256_loadu_pd(at(0).cast()),
                _mm256_loadu_pd(at(1).cast()),
                _mm256_loadu_pd(at(2).cast()),
                _mm256_loadu_pd(at(3).cast()),
            ];
            c.two_layers::<LAZY, LAST>(&mut x, f);
            for (s, v) in x.into_iter().enumerate() {
                put::<LAST>(c.k, at(s), v);
            }
        }
    }
}

/// The last three layers, to words: `8 * step` values at `p`, twiddles 7 to 1.
///
/// # Safety
/// `step` is a multiple of 4, N is at least 8.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn radix8<const LAZY: bool>(ctx: Context, p: *mut u64, step: usize) {
    let (k, t) = (ctx.k, ctx.t);
    // SAFETY: offsets are below 8 * step.
    unsafe {
        for j in (0..step).step_by(4) {
            let at = |s: usize| p.add(j + s * step);
            let get = |s: usize| _mm256_loadu_pd(at(s).cast());
            let [mut a, mut b, mut c, mut d] = [get(0), get(1), get(2), get(3)];
            let [mut e, mut f, mut g, mut h] = [get(4), get(5), get(6), get(7)];
            butterfly(k, &mut a, &mut b, t.splat(4));
            butterfly(k, &mut c, &mut d, t.splat(5));
            butterfly(k, &mut e, &mut f, t.splat(6));
            butterfly(k, &mut g, &mut h, t.splat(7));
            butterfly(k, &mut a, &mut c, t.splat(2));
            butterfly(k, &mut b, &mut d, t.splat(2));
            butterfly(k, &mut e, &mut g, t.splat(3));
            butterfly(k, &mut f, &mut h, t.splat(3));
            if !LAZY {
                // Sums of four: a sum of eight could exceed 2^52.
                a = k.reduce(a);
                e = k.reduce(e);
            }
            ctx.last(&mut a, &mut e);
            ctx.last(&mut b, &mut f);
            ctx.last(&mut c, &mut g);
            ctx.last(&mut d, &mut h);
            for (s, v) in [a, b, c, d, e, f, g, h].into_iter().enumerate() {
                put::<true>(k, at(s), v);
            }
        }
    }
}

/// The first two layers of `count` blocks of 16 words. Block `s` is that of twiddle `i + s` two layers
/// behind.
///
/// # Safety
/// `p` has `16 * count` words; `8 (i + count) <= N`.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn first_two<const LAZY: bool>(
    c: Context,
    p: *mut u64,
    count: usize,
    i: usize,
    ahead: &mut Ahead<'_>,
) {
    for s in 0..count {
        fetch(ahead);
        let g = i + s;
        // SAFETY: 16 words of data; twiddles 8g .. 8g + 8 are within the table.
        unsafe {
            let at = p.add(16 * s);
            // Each four words become a lane.
            let mut x = load_transposed(at).map(|v| to_double(_mm256_castpd_si256(v)));
            let f = [c.t.four(4 * g), c.t.four(8 * g), c.t.four(8 * g + 4)];
            c.two_layers::<LAZY, false>(&mut x, f);
            store_transposed(at, x);
        }
    }
}
