//! Forward NTT: Cooley-Tukey butterflies, depth first, eight lanes.
//!
//! Blocks larger than the first-level cache are split by one pass of three layers; smaller ones run
//! two layers to a pass; the last four layers run inside two registers.
//!
//! Primes above 2^46: values stay below 4q. Smaller primes (`LAZY`): five instructions a butterfly. The quotient
//! of each twiddle product is taken one too large, so the product v is in [-q, q), and both outputs x + v and x - v move
//! by at most q. The first layer lifts its operands by q for each layer, so that nothing becomes negative; all values stay
//! below 38q < 2^52 and are reduced once. Only the low 52 bits count: the multiplier reads no others, and sums
//! keep them right, so nothing is masked before the end.

use std::arch::x86_64::*;

use super::lanes::{fetch, load, reduce_once, splat, store, Factor, Lanes};
use super::source::{Cut, Source};
use super::twiddles::{spread2, spread4, Twiddles};
use crate::backend::{Ahead, Pieces};
use crate::ntt::NttTable;

/// Words of a block that stays in the first-level cache with its twiddles.
pub(super) const CACHE_BLOCK: usize = 1 << 12;

/// Largest prime size without reductions between layers: operands below 4q and 17 layers give
/// (4 + 2 * 17) 2^46 < 2^52.
pub(super) const LAZY_BITS: u32 = 46;

/// Constants of one transform.
#[derive(Clone, Copy)]
pub(super) struct Context {
    k: Lanes,
    t: Twiddles,
    /// q for each layer: what `LAZY` adds to the operands of the first.
    lift: __m512i,
}

impl Context {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    fn new(table: &NttTable) -> Self {
        let m = table.modulus();
        Self {
            k: Lanes::new(m),
            t: Twiddles::new(table.forward_twiddles()),
            lift: splat(m.value() * u64::from(table.n().trailing_zeros())),
        }
    }

    /// A butterfly of the first layer if `FIRST`, which lifts; an ordinary one if not.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    fn top<const LAZY: bool, const FIRST: bool>(self, x: &mut __m512i, y: &mut __m512i, f: Factor) {
        if LAZY && FIRST {
            *x = _mm512_add_epi64(*x, self.lift);
        }
        butterfly::<LAZY>(self.k, x, y, f);
    }
}

/// `(x + w y, x - w y)`. Results are below 4q if the operands are; with `LAZY` they differ from `x` by q at most.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
fn butterfly<const LAZY: bool>(k: Lanes, x: &mut __m512i, y: &mut __m512i, f: Factor) {
    if LAZY {
        let t = _mm512_madd52hi_epu64(k.one, *y, f.quotient);
        let double = _mm512_add_epi64(*x, *x);
        *x = _mm512_madd52lo_epu64(_mm512_madd52lo_epu64(*x, *y, f.w), t, k.neg_q);
        *y = _mm512_sub_epi64(double, *x);
    } else {
        let u = reduce_once(*x, k.two_q);
        let v = k.mul_lazy(*y, f);
        *x = _mm512_add_epi64(u, v);
        *y = _mm512_sub_epi64(_mm512_add_epi64(u, k.two_q), v);
    }
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
    let c = Context::new(table);
    // SAFETY: the whole array is group 0 of the layer with one group.
    unsafe {
        if table.modulus().bits() <= LAZY_BITS {
            block::<true, true>(c, a.as_mut_ptr(), a.len(), (1, 0), &mut Ahead::new());
        } else {
            block::<false, true>(c, a.as_mut_ptr(), a.len(), (1, 0), &mut Ahead::new());
        }
    }
}

/// The first three layers on the columns of a tile: 8 rows, which lie N/8 apart in the polynomial.
///
/// # Safety
/// Features detected; the length of `tile` is a multiple of 64; N is at least 128; the table holds 52-bit quotients.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn head(table: &NttTable, tile: &mut [u64]) {
    let c = Context::new(table);
    // SAFETY: 8 rows of a multiple of 8 columns; twiddles 1 .. 8 exist.
    unsafe {
        if table.modulus().bits() <= LAZY_BITS {
            let (p, step) = (tile.as_mut_ptr(), tile.len() / 8);
            radix8::<true, true>(c, p, p, step, 1, &mut Ahead::new());
        } else {
            let (p, step) = (tile.as_mut_ptr(), tile.len() / 8);
            radix8::<false, true>(c, p, p, step, 1, &mut Ahead::new());
        }
    }
}

/// All layers but the first three of row `s`.
///
/// # Safety
/// Features detected; `row` has N/8 words, at least 16; `s < 8`; the table holds 52-bit quotients.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn tail(table: &NttTable, s: usize, row: &mut [u64], ahead: &mut Ahead<'_>) {
    let c = Context::new(table);
    // SAFETY: the row is group s of the layer with 8 groups.
    unsafe {
        if table.modulus().bits() <= LAZY_BITS {
            block::<true, false>(c, row.as_mut_ptr(), row.len(), (8, s), ahead);
        } else {
            block::<false, false>(c, row.as_mut_ptr(), row.len(), (8, s), ahead);
        }
    }
}

/// As [`tail`] for a row in pieces, which are put together in `row`.
///
/// # Safety
/// As [`tail`]; the pieces have a power of two of words, at least 8, and together those of `row`.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn tail_from(
    table: &NttTable,
    s: usize,
    pieces: Pieces<'_>,
    row: &mut [u64],
    ahead: &mut Ahead<'_>,
) {
    let step = row.len() / first_radix(row.len());
    if pieces.len() > step {
        pieces.copy_to(row);
        // SAFETY: as the caller promises.
        return unsafe { tail(table, s, row, ahead) };
    }
    let c = Context::new(table);
    let cut = Cut::new(pieces);
    let (p, len) = (row.as_mut_ptr(), row.len());
    // SAFETY: the row is group s of the layer with 8 groups, and the cut has as many words.
    unsafe {
        if table.modulus().bits() <= LAZY_BITS {
            block_from::<true, false, Cut>(c, cut, p, len, (8, s), ahead);
        } else {
            block_from::<false, false, Cut>(c, cut, p, len, (8, s), ahead);
        }
    }
}

/// Parts of a block that the first pass combines.
fn first_radix(len: usize) -> usize {
    // Four layers are left to the last pass.
    match len.trailing_zeros() - 4 {
        _ if len > CACHE_BLOCK => 8,
        0 => 16,
        layers if layers % 2 == 1 => 2,
        _ => 4,
    }
}

/// All layers of group `g` of the layer with `m` groups: `len` words at `p`. `FIRST` if that layer is the first of the
/// transform.
///
/// # Safety
/// `p` has `len` words, a power of two, at least 16; `m * len = N`, `g < m`.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn block<const LAZY: bool, const FIRST: bool>(
    c: Context,
    p: *mut u64,
    len: usize,
    at: (usize, usize),
    ahead: &mut Ahead<'_>,
) {
    // SAFETY: as the caller promises.
    unsafe { block_from::<LAZY, FIRST, *mut u64>(c, p, p, len, at, ahead) }
}

/// As [`block`]; the first pass reads from `source`, if it does not combine single words.
///
/// # Safety
/// As [`block`]; `source` has as many words, or is `p` if `len` is 16.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn block_from<const LAZY: bool, const FIRST: bool, S: Source>(
    c: Context,
    source: S,
    p: *mut u64,
    len: usize,
    (m, g): (usize, usize),
    ahead: &mut Ahead<'_>,
) {
    let index = m + g;
    let radix = first_radix(len);
    // SAFETY: sub-blocks partition the block; layer indices stay below N.
    unsafe {
        match radix {
            8 => {
                radix8::<LAZY, FIRST>(c, source, p, len / 8, index, ahead);
                for s in 0..8 {
                    let at = (8 * m, 8 * g + s);
                    block::<LAZY, false>(c, p.add(s * (len / 8)), len / 8, at, ahead);
                }
                return;
            }
            4 => radix4::<LAZY, FIRST>(c, source, p, len / 4, index, ahead),
            2 => radix2::<LAZY, FIRST>(c, source, p, len / 2, index, ahead),
            _ => return last_four::<LAZY, FIRST>(c, p, 1, index, ahead),
        }
        let (mut len, mut index, mut groups) = (len / radix, radix * index, radix);
        while len > 16 {
            for s in 0..groups {
                let p = p.add(s * len);
                radix4::<LAZY, false>(c, p, p, len / 4, index + s, ahead);
            }
            (len, index, groups) = (len / 4, 4 * index, 4 * groups);
        }
        last_four::<LAZY, false>(c, p, groups, index, ahead);
    }
}

/// One layer: `2 * step` words from `source` to `p`, twiddle `i`.
///
/// # Safety
/// `source` and `p` have these words; /// `step` is a multiple of 8, `i < N`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn radix2<const LAZY: bool, const FIRST: bool>(
    c: Context,
    source: impl Source,
    p: *mut u64,
    step: usize,
    i: usize,
    ahead: &mut Ahead<'_>,
) {
    // SAFETY: offsets are below 2 * step.
    unsafe {
        let f = c.t.splat(i);
        let distance = source.distance(step);
        for j in (0..step).step_by(8) {
            fetch::<1>(ahead);
            let (p0, p1) = (p.add(j), p.add(j + step));
            let from = source.at(j);
            let (mut x, mut y) = (load(from), load(from.add(distance)));
            c.top::<LAZY, FIRST>(&mut x, &mut y, f);
            store(p0, x);
            store(p1, y);
        }
    }
}

/// Two layers: `4 * step` words from `source` to `p`, twiddles `i`, then `2i`, `2i + 1`.
///
/// # Safety
/// `source` and `p` have these words; /// `step` is a multiple of 8, `2i + 1 < N`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn radix4<const LAZY: bool, const FIRST: bool>(
    ctx: Context,
    source: impl Source,
    p: *mut u64,
    step: usize,
    i: usize,
    ahead: &mut Ahead<'_>,
) {
    let (k, t) = (ctx.k, ctx.t);
    // SAFETY: offsets are below 4 * step.
    unsafe {
        let (f0, f1, f2) = (t.splat(i), t.splat(2 * i), t.splat(2 * i + 1));
        let distance = source.distance(step);
        for j in (0..step).step_by(8) {
            fetch::<1>(ahead);
            let p0 = p.add(j);
            let (p1, p2, p3) = (p0.add(step), p0.add(2 * step), p0.add(3 * step));
            let first = source.at(j);
            let from = |s: usize| load(first.add(s * distance));
            let (mut a, mut b, mut c, mut d) = (from(0), from(1), from(2), from(3));
            ctx.top::<LAZY, FIRST>(&mut a, &mut c, f0);
            ctx.top::<LAZY, FIRST>(&mut b, &mut d, f0);
            butterfly::<LAZY>(k, &mut a, &mut b, f1);
            butterfly::<LAZY>(k, &mut c, &mut d, f2);
            store(p0, a);
            store(p1, b);
            store(p2, c);
            store(p3, d);
        }
    }
}

/// Three layers: `8 * step` words from `source` to `p`, twiddles `i`, `2i..`, `4i..`.
///
/// # Safety
/// `source` and `p` have these words; /// `step` is a multiple of 8, `4i + 3 < N`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
unsafe fn radix8<const LAZY: bool, const FIRST: bool>(
    ctx: Context,
    source: impl Source,
    p: *mut u64,
    step: usize,
    i: usize,
    ahead: &mut Ahead<'_>,
) {
    let (k, t) = (ctx.k, ctx.t);
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
        let distance = source.distance(step);
        for j in (0..step).step_by(8) {
            fetch::<2>(ahead);
            let at = |s: usize| p.add(j + s * step);
            let first = source.at(j);
            let from = |s: usize| load(first.add(s * distance));
            let (mut a, mut b, mut c, mut d) = (from(0), from(1), from(2), from(3));
            let (mut e, mut f, mut g, mut h) = (from(4), from(5), from(6), from(7));
            ctx.top::<LAZY, FIRST>(&mut a, &mut e, f1);
            ctx.top::<LAZY, FIRST>(&mut b, &mut f, f1);
            ctx.top::<LAZY, FIRST>(&mut c, &mut g, f1);
            ctx.top::<LAZY, FIRST>(&mut d, &mut h, f1);
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
unsafe fn last_four<const LAZY: bool, const FIRST: bool>(
    c: Context,
    p: *mut u64,
    groups: usize,
    i: usize,
    ahead: &mut Ahead<'_>,
) {
    let (k, t) = (c.k, c.t);
    // Twiddles to lanes: two, each four times; four, each twice.
    let quads = _mm512_setr_epi64(0, 0, 0, 0, 1, 1, 1, 1);
    let pairs = _mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3);
    // Lanes of the layer with distance 2, and back to natural order at the end.
    let first = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    let second = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    let low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    let high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    for s in 0..groups {
        fetch::<1>(ahead);
        let g = i + s;
        // SAFETY: 16 words of data; twiddles 8g .. 8g + 8 are within the table.
        unsafe {
            let (p0, p1) = (p.add(16 * s), p.add(16 * s + 8));
            let (mut x, mut y) = (load(p0), load(p1));
            c.top::<LAZY, FIRST>(&mut x, &mut y, t.splat(g));
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
