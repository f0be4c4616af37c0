//! Forward NTT: Cooley-Tukey butterflies, depth first, four lanes of doubles.
//!
//! The first pass turns words into doubles, which stay in memory until the last pass has turned them
//! back. Passes run two layers at a time, the last one inside four registers. More layers in one pass would
//! be chains too long for the processor to run several at a time.
//!
//! Sizes. The input is below 4 q. A product with a twiddle factor is at most `(1/2 + |x| 2^-54) q`, so a
//! butterfly adds little more than q/2 to `x`. For primes below 2^48 (`LAZY`) all values stay below
//! 2^52: 15 q after 17 layers. For larger primes each pass of two layers first reduces its first quarter,
//! which no factor reduces (the first pass of all: everything that no factor reduces at once). Then
//! values stay below 3.2 q between passes and below 3.9 q within them, which 2^52 exceeds.

use std::arch::x86_64::*;

use super::lanes::{fetch, load, load_transposed, store_transposed, to_double, Factor, Lanes};
use crate::backend::Ahead;
use crate::ntt::NttTable;

/// Words of a block that stays in the first-level cache with its twiddles. A power of 4.
pub(super) const CACHE_BLOCK: usize = 1 << 10;

/// Largest prime size without reductions between layers.
const LAZY_BITS: u32 = 48;

/// Twiddle tables as pointers, N doubles each.
#[derive(Clone, Copy)]
pub(super) struct Twiddles {
    w: *const f64,
    quotient: *const f64,
}

impl Twiddles {
    pub(super) fn new((w, quotient): (&[u64], &[u64])) -> Self {
        Self {
            w: w.as_ptr().cast(),
            quotient: quotient.as_ptr().cast(),
        }
    }

    /// Entry `i` in all lanes.
    ///
    /// # Safety
    /// `i < N`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn splat(self, i: usize) -> Factor {
        // SAFETY: as the caller promises.
        unsafe {
            Factor {
                w: _mm256_broadcast_sd(&*self.w.add(i)),
                quotient: _mm256_broadcast_sd(&*self.quotient.add(i)),
            }
        }
    }

    /// Entries `i` to `i + 3`.
    ///
    /// # Safety
    /// `i + 3 < N`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn four(self, i: usize) -> Factor {
        // SAFETY: as the caller promises.
        unsafe {
            Factor {
                w: _mm256_loadu_pd(self.w.add(i)),
                quotient: _mm256_loadu_pd(self.quotient.add(i)),
            }
        }
    }
}

/// `(x + w y, x - w y)`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn butterfly(k: Lanes, x: &mut __m256d, y: &mut __m256d, f: Factor) {
    let v = k.mul(*y, f);
    let u = *x;
    *x = _mm256_add_pd(u, v);
    *y = _mm256_sub_pd(u, v);
}

/// Two layers on four registers.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn two_layers<const LAZY: bool, const FIRST: bool>(k: Lanes, x: &mut [__m256d; 4], f: [Factor; 3]) {
    let [a, b, c, d] = x;
    if !LAZY {
        *a = k.reduce(*a);
        if FIRST {
            *b = k.reduce(*b);
        }
    }
    butterfly(k, a, c, f[0]);
    butterfly(k, b, d, f[0]);
    butterfly(k, a, b, f[1]);
    butterfly(k, c, d, f[2]);
}

/// A register of values of a pass: words if it is the first one, doubles else.
///
/// # Safety
/// `p` points to 4 readable words.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn get<const FIRST: bool>(p: *const u64) -> __m256d {
    // SAFETY: as the caller promises.
    unsafe {
        if FIRST {
            to_double(load(p))
        } else {
            _mm256_loadu_pd(p.cast())
        }
    }
}

/// # Safety
/// Features detected; `a` has `table.n()` elements; the table is that of this backend.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn transform(table: &NttTable, a: &mut [u64]) {
    // SAFETY: the whole array is the group of the first layer.
    unsafe {
        if table.modulus().bits() <= LAZY_BITS {
            whole::<true, true>(table, a, 1, &mut Ahead::new());
        } else {
            whole::<false, true>(table, a, 1, &mut Ahead::new());
        }
    }
}

/// The first three layers on the columns of a tile: 8 rows, which lie N/8 apart in the polynomial.
///
/// # Safety
/// Features detected; the length of `tile` is a multiple of 32; N is at least 16; the table is that of
/// this backend.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn head(table: &NttTable, tile: &mut [u64]) {
    let k = Lanes::new(table.modulus());
    let t = Twiddles::new(table.forward_twiddles());
    let (p, step) = (tile.as_mut_ptr(), tile.len() / 8);
    // SAFETY: 8 rows of a multiple of 4 columns; twiddles 1 .. 8 exist.
    unsafe {
        if table.modulus().bits() <= LAZY_BITS {
            radix8::<true>(k, t, p, step);
        } else {
            radix8::<false>(k, t, p, step);
        }
    }
}

/// All layers but the first three of row `s`; fetches `ahead` on the way.
///
/// # Safety
/// Features detected; `row` has N/8 words, at least 16; `s < 8`; the table is that of this backend.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn tail(table: &NttTable, s: usize, row: &mut [u64], ahead: &mut Ahead<'_>) {
    // SAFETY: the row is group s of the layer with 8 groups.
    unsafe {
        if table.modulus().bits() <= LAZY_BITS {
            whole::<true, false>(table, row, 8 + s, ahead);
        } else {
            whole::<false, false>(table, row, 8 + s, ahead);
        }
    }
}

/// All layers of the group with twiddle `i`, from words if `FIRST`.
///
/// # Safety
/// Features detected; the length of `a` is a power of two, at least 16, and `i` times that is below 2N.
#[target_feature(enable = "avx2,fma")]
unsafe fn whole<const LAZY: bool, const FIRST: bool>(
    table: &NttTable,
    a: &mut [u64],
    i: usize,
    ahead: &mut Ahead<'_>,
) {
    let k = Lanes::new(table.modulus());
    let t = Twiddles::new(table.forward_twiddles());
    let (p, len) = (a.as_mut_ptr(), a.len());
    // SAFETY: sub-blocks partition the array; layer indices stay below N.
    unsafe {
        if len == 16 {
            radix4::<LAZY, FIRST>(k, t, p, 4, i, ahead);
            last_two::<LAZY>(k, t, p, 1, i, ahead);
            return;
        }
        // Behind the first pass an even number of layers is left.
        let split = if len.trailing_zeros() % 2 == 1 {
            radix2::<LAZY, FIRST>(k, t, p, len / 2, i, ahead);
            2
        } else {
            radix4::<LAZY, FIRST>(k, t, p, len / 4, i, ahead);
            4
        };
        let len = len / split;
        for s in 0..split {
            block::<LAZY>(k, t, p.add(s * len), len, split * i + s, ahead);
        }
    }
}

/// All layers of one group: `len` doubles at `p`, twiddle `i`.
///
/// # Safety
/// `p` has `len` words, a power of 4, at least 16; `i * len < 2N`.
#[target_feature(enable = "avx2,fma")]
unsafe fn block<const LAZY: bool>(
    k: Lanes,
    t: Twiddles,
    p: *mut u64,
    len: usize,
    i: usize,
    ahead: &mut Ahead<'_>,
) {
    // SAFETY: sub-blocks partition the block; layer indices stay below N.
    unsafe {
        if len > CACHE_BLOCK {
            radix4::<LAZY, false>(k, t, p, len / 4, i, ahead);
            for s in 0..4 {
                block::<LAZY>(k, t, p.add(s * (len / 4)), len / 4, 4 * i + s, ahead);
            }
            return;
        }
        let (mut size, mut groups) = (len, 1);
        while size > 4 {
            for s in 0..groups {
                radix4::<LAZY, false>(k, t, p.add(s * size), size / 4, i * groups + s, ahead);
            }
            size /= 4;
            groups *= 4;
        }
        last_two::<LAZY>(k, t, p, len / 16, i * (len / 16), ahead);
    }
}

/// One layer: `2 * step` values at `p`, twiddle `i`.
///
/// # Safety
/// `step` is a multiple of 4, `i < N`.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn radix2<const LAZY: bool, const FIRST: bool>(
    k: Lanes,
    t: Twiddles,
    p: *mut u64,
    step: usize,
    i: usize,
    ahead: &mut Ahead<'_>,
) {
    // SAFETY: offsets are below 2 * step.
    unsafe {
        let f = t.splat(i);
        for j in (0..step).step_by(4) {
            fetch(ahead);
            let (p0, p1) = (p.add(j), p.add(j + step));
            let (mut x, mut y) = (get::<FIRST>(p0), get::<FIRST>(p1));
            if FIRST && !LAZY {
                x = k.reduce(x);
            }
            butterfly(k, &mut x, &mut y, f);
            _mm256_storeu_pd(p0.cast(), x);
            _mm256_storeu_pd(p1.cast(), y);
        }
    }
}

/// Two layers: `4 * step` values at `p`, twiddles `i`, then `2i`, `2i + 1`.
///
/// # Safety
/// `step` is a multiple of 4, `2i + 1 < N`.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn radix4<const LAZY: bool, const FIRST: bool>(
    k: Lanes,
    t: Twiddles,
    p: *mut u64,
    step: usize,
    i: usize,
    ahead: &mut Ahead<'_>,
) {
    // SAFETY: offsets are below 4 * step.
    unsafe {
        let f = [t.splat(i), t.splat(2 * i), t.splat(2 * i + 1)];
        for j in (0..step).step_by(4) {
            fetch(ahead);
            let at = |s: usize| p.add(j + s * step);
            let mut x = [
                get::<FIRST>(at(0)),
                get::<FIRST>(at(1)),
                get::<FIRST>(at(2)),
                get::<FIRST>(at(3)),
            ];
            two_layers::<LAZY, FIRST>(k, &mut x, f);
            for (s, v) in x.into_iter().enumerate() {
                _mm256_storeu_pd(at(s).cast(), v);
            }
        }
    }
}

/// The first three layers, from words: `8 * step` values at `p`, twiddles 1 to 7.
///
/// # Safety
/// `step` is a multiple of 4, N is at least 8.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn radix8<const LAZY: bool>(k: Lanes, t: Twiddles, p: *mut u64, step: usize) {
    // SAFETY: offsets are below 8 * step.
    unsafe {
        for j in (0..step).step_by(4) {
            let at = |s: usize| p.add(j + s * step);
            let [mut a, mut b, mut c, mut d] =
                [at(0), at(1), at(2), at(3)].map(|p| start::<LAZY>(k, p));
            let [mut e, mut f, mut g, mut h] = [at(4), at(5), at(6), at(7)].map(|p| get::<true>(p));
            butterfly(k, &mut a, &mut e, t.splat(1));
            butterfly(k, &mut b, &mut f, t.splat(1));
            butterfly(k, &mut c, &mut g, t.splat(1));
            butterfly(k, &mut d, &mut h, t.splat(1));
            butterfly(k, &mut a, &mut c, t.splat(2));
            butterfly(k, &mut b, &mut d, t.splat(2));
            butterfly(k, &mut e, &mut g, t.splat(3));
            butterfly(k, &mut f, &mut h, t.splat(3));
            butterfly(k, &mut a, &mut b, t.splat(4));
            butterfly(k, &mut c, &mut d, t.splat(5));
            butterfly(k, &mut e, &mut f, t.splat(6));
            butterfly(k, &mut g, &mut h, t.splat(7));
            for (s, v) in [a, b, c, d, e, f, g, h].into_iter().enumerate() {
                _mm256_storeu_pd(at(s).cast(), v);
            }
        }
    }
}

/// Words that no factor reduces, as doubles.
///
/// # Safety
/// `p` points to 4 readable words.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn start<const LAZY: bool>(k: Lanes, p: *const u64) -> __m256d {
    // SAFETY: as the caller promises.
    let x = unsafe { get::<true>(p) };
    if LAZY {
        x
    } else {
        k.reduce(x)
    }
}

/// The last two layers of `count` blocks of 16 values, the full reduction, and back to words. Block `s` is
/// that of twiddle `i + s` two layers before.
///
/// # Safety
/// `p` has `16 * count` words; `8 (i + count) <= N`.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn last_two<const LAZY: bool>(
    k: Lanes,
    t: Twiddles,
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
            // Each four words become a lane. The table of the last layer holds each 8 factors in the order
            // in which they are used here.
            let mut x = load_transposed(at);
            let f = [t.four(4 * g), t.four(8 * g), t.four(8 * g + 4)];
            two_layers::<LAZY, false>(k, &mut x, f);
            let x = x.map(|v| _mm256_castsi256_pd(k.lift_to_words(k.reduce(v))));
            store_transposed(at, x);
        }
    }
}
