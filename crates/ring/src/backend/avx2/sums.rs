//! Sums of products, with one reduction for several. Lengths are multiples of 4; the callers split off
//! tails.

use std::arch::x86_64::*;

use super::lanes::{load, store, to_double, to_words, Factor, Lanes};
use crate::modulus::Modulus;

/// Products that are added up between reductions. One is at most 3/4 q, so with a reduced start all sums are
/// at most 7 q, and 2^47 more between the two parts of one: below 2^53.
const LAZY_TERMS: usize = 8;

/// Terms of [`weighted_sum`] in one call: their factors are kept on the stack.
pub(super) const MAX_TERMS: usize = 32;

/// Sums of products, each of which comes in two parts.
#[derive(Clone, Copy)]
struct Sum(__m256d);

impl Sum {
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn zero() -> Self {
        Self(_mm256_setzero_pd())
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn add(&mut self, (r, l): (__m256d, __m256d)) {
        // Both partial sums are integers below 2^53.
        self.0 = _mm256_add_pd(_mm256_add_pd(self.0, l), r);
    }

    /// The sum modulo q, at most q/2 + 1 in size.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn reduce(self, k: Lanes) -> __m256d {
        k.reduce(self.0)
    }
}

/// `acc += sum of a_i * b_i`.
///
/// # Safety
/// Features detected; every factor has at least `acc.len()` words, a multiple of 4.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn dot_add(m: &Modulus, acc: &mut [u64], terms: &[(&[u64], &[u64])]) {
    let k = Lanes::new(m);
    let wide_len = acc.len() & !7;
    // SAFETY: all operands have the words addressed.
    unsafe {
        for j in (0..wide_len).step_by(8) {
            dot_block::<2>(k, acc.as_mut_ptr(), terms, j);
        }
        if wide_len < acc.len() {
            dot_block::<1>(k, acc.as_mut_ptr(), terms, wide_len);
        }
    }
}

/// `U` registers of [`dot_add`] from word `j` on.
///
/// # Safety
/// All operands have `4 U` words from `j` on.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn dot_block<const U: usize>(k: Lanes, acc: *mut u64, terms: &[(&[u64], &[u64])], j: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut sums = [Sum::zero(); U];
        for (u, sum) in sums.iter_mut().enumerate() {
            sum.0 = to_double(load(acc.add(j + 4 * u)));
        }
        let mut rest = terms;
        loop {
            let (now, later) = rest.split_at(rest.len().min(LAZY_TERMS));
            for (a, b) in now {
                for (u, sum) in sums.iter_mut().enumerate() {
                    let x = to_double(load(a.as_ptr().add(j + 4 * u)));
                    let y = to_double(load(b.as_ptr().add(j + 4 * u)));
                    sum.add(k.product_parts(x, y));
                }
            }
            if later.is_empty() {
                break;
            }
            sums = sums.map(|sum| Sum(sum.reduce(k)));
            rest = later;
        }
        for (u, sum) in sums.into_iter().enumerate() {
            store(acc.add(j + 4 * u), k.lift_to_words(sum.reduce(k)));
        }
    }
}

/// The weights, centred, and those over q: the first [`MAX_TERMS`].
fn factors(m: &Modulus, weights: &[u64]) -> [(f64, f64); MAX_TERMS] {
    let mut out = [(0.0, 0.0); MAX_TERMS];
    for (f, &w) in out.iter_mut().zip(weights) {
        let centred = m.center(w) as f64;
        *f = (centred, centred / m.value() as f64);
    }
    out
}

/// `out = sum of terms_i * weights_i`, added to `out` if `ADD`; at most [`MAX_TERMS`] terms.
///
/// # Safety
/// Features detected; every term has at least `out.len()` words, a multiple of 4.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn weighted_sum<const ADD: bool>(
    m: &Modulus,
    out: &mut [u64],
    terms: &[&[u64]],
    weights: &[u64],
) {
    let (k, factors) = (Lanes::new(m), factors(m, weights));
    let count = terms.len().min(weights.len()).min(MAX_TERMS);
    let (terms, factors) = (&terms[..count], &factors[..count]);
    let wide_len = out.len() & !15;
    let p = out.as_mut_ptr();
    // SAFETY: all operands have the words addressed.
    unsafe {
        for j in (0..wide_len).step_by(16) {
            weighted_block::<4, ADD>(k, p, terms, factors, j);
        }
        for j in (wide_len..out.len()).step_by(4) {
            weighted_block::<1, ADD>(k, p, terms, factors, j);
        }
    }
}

/// `U` registers of [`weighted_sum`] from word `j` on.
///
/// # Safety
/// All operands have `4 U` words from `j` on.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn weighted_block<const U: usize, const ADD: bool>(
    k: Lanes,
    out: *mut u64,
    terms: &[&[u64]],
    factors: &[(f64, f64)],
    j: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut sums = [Sum::zero(); U];
        if ADD {
            for (u, sum) in sums.iter_mut().enumerate() {
                sum.0 = to_double(load(out.add(j + 4 * u)));
            }
        }
        for (i, (terms, factors)) in terms
            .chunks(LAZY_TERMS)
            .zip(factors.chunks(LAZY_TERMS))
            .enumerate()
        {
            if i > 0 {
                sums = sums.map(|sum| Sum(sum.reduce(k)));
            }
            for (t, (w, quotient)) in terms.iter().zip(factors) {
                let f = Factor {
                    w: _mm256_broadcast_sd(w),
                    quotient: _mm256_broadcast_sd(quotient),
                };
                for (u, sum) in sums.iter_mut().enumerate() {
                    let x = to_double(load(t.as_ptr().add(j + 4 * u)));
                    sum.add(k.mul_parts(x, f));
                }
            }
        }
        for (u, sum) in sums.into_iter().enumerate() {
            store(out.add(j + 4 * u), k.lift_to_words(sum.reduce(k)));
        }
    }
}

/// `out = sum of terms_i * weights_i`, added to `out` if `ADD`, below 2q; at most [`MAX_TERMS`] terms,
/// term i from `i * stride` on.
///
/// # Safety
/// Features detected; the length of `out` is a multiple of 4, and `terms` has as many words from each
/// multiple of `stride` on, for each weight.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn convert<const ADD: bool>(
    m: &Modulus,
    out: &mut [u64],
    terms: &[u64],
    stride: usize,
    weights: &[u64],
) {
    let (k, factors) = (Lanes::new(m), factors(m, weights));
    let factors = &factors[..weights.len().min(MAX_TERMS)];
    let wide_len = out.len() & !15;
    let (p, terms) = (out.as_mut_ptr(), terms.as_ptr());
    // SAFETY: all operands have the words addressed.
    unsafe {
        for j in (0..wide_len).step_by(16) {
            convert_block::<4, ADD>(k, p.add(j), terms.add(j), stride, factors);
        }
        for j in (wide_len..out.len()).step_by(4) {
            convert_block::<1, ADD>(k, p.add(j), terms.add(j), stride, factors);
        }
    }
}

/// `U` registers of [`convert`].
///
/// # Safety
/// `out` has `4 U` words, as has `terms` from each multiple of `stride` on, as many as there are factors.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn convert_block<const U: usize, const ADD: bool>(
    k: Lanes,
    out: *mut u64,
    mut terms: *const u64,
    stride: usize,
    factors: &[(f64, f64)],
) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut sums = [Sum::zero(); U];
        if ADD {
            for (u, sum) in sums.iter_mut().enumerate() {
                sum.0 = k.reduce(to_double(load(out.add(4 * u))));
            }
        }
        for (i, factors) in factors.chunks(LAZY_TERMS).enumerate() {
            if i > 0 {
                sums = sums.map(|sum| Sum(sum.reduce(k)));
            }
            for (w, quotient) in factors {
                let f = Factor {
                    w: _mm256_broadcast_sd(w),
                    quotient: _mm256_broadcast_sd(quotient),
                };
                for (u, sum) in sums.iter_mut().enumerate() {
                    let x = to_double(load(terms.add(4 * u)));
                    sum.add(k.mul_parts(x, f));
                }
                terms = terms.wrapping_add(stride);
            }
        }
        for (u, sum) in sums.into_iter().enumerate() {
            let r = _mm256_add_pd(sum.reduce(k), k.q);
            store(out.add(4 * u), to_words(r));
        }
    }
}

/// `(b, a) = sum of d_i * (b_i, a_i)` for terms `(d_i, b_i, a_i)`, added to what is there if `add`.
///
/// # Safety
/// Features detected; all operands have at least the words of `out[0]`, a multiple of 4.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn key_products(
    m: &Modulus,
    out: [&mut [u64]; 2],
    terms: &[[&[u64]; 3]],
    add: bool,
) {
    let k = Lanes::new(m);
    let len = out[0].len();
    let out = out.map(<[u64]>::as_mut_ptr);
    let wide_len = len & !7;
    // SAFETY: all operands have the words addressed.
    unsafe {
        for j in (0..wide_len).step_by(8) {
            key_block::<2>(k, out, terms, add, j);
        }
        if wide_len < len {
            key_block::<1>(k, out, terms, add, wide_len);
        }
    }
}

/// `U` registers of each output of [`key_products`] from word `j` on.
///
/// # Safety
/// All operands have `4 U` words from `j` on.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn key_block<const U: usize>(
    k: Lanes,
    out: [*mut u64; 2],
    terms: &[[&[u64]; 3]],
    add: bool,
    j: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut sums = [[Sum::zero(); 2]; U];
        if add {
            for (u, sums) in sums.iter_mut().enumerate() {
                for (sum, out) in sums.iter_mut().zip(out) {
                    sum.0 = to_double(load(out.add(j + 4 * u)));
                }
            }
        }
        for (i, chunk) in terms.chunks(LAZY_TERMS).enumerate() {
            if i > 0 {
                sums = sums.map(|s| s.map(|sum| Sum(sum.reduce(k))));
            }
            for [d, b, a] in chunk {
                for (u, sums) in sums.iter_mut().enumerate() {
                    let x = to_double(load(d.as_ptr().add(j + 4 * u)));
                    for (sum, y) in sums.iter_mut().zip([b, a]) {
                        let y = to_double(load(y.as_ptr().add(j + 4 * u)));
                        sum.add(k.product_parts(x, y));
                    }
                }
            }
        }
        for (u, sums) in sums.into_iter().enumerate() {
            for (sum, out) in sums.into_iter().zip(out) {
                store(out.add(j + 4 * u), k.lift_to_words(sum.reduce(k)));
            }
        }
    }
}

/// # Safety
/// Features detected; the length of `out` is a multiple of 4, and `terms` has as many words from each
/// multiple of `stride` on, for each factor.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn rounded_sum(out: &mut [u64], terms: &[u64], stride: usize, factors: &[f64]) {
    let wide_len = out.len() & !15;
    let (p, terms) = (out.as_mut_ptr(), terms.as_ptr());
    // SAFETY: all operands have the words addressed.
    unsafe {
        for j in (0..wide_len).step_by(16) {
            rounded_block::<4>(p.add(j), terms.add(j), stride, factors);
        }
        for j in (wide_len..out.len()).step_by(4) {
            rounded_block::<1>(p.add(j), terms.add(j), stride, factors);
        }
    }
}

/// `U` registers of [`rounded_sum`].
///
/// # Safety
/// `out` has `4 U` words, as has `terms` from each multiple of `stride` on, as many as there are factors.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn rounded_block<const U: usize>(
    out: *mut u64,
    terms: *const u64,
    stride: usize,
    factors: &[f64],
) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut sums = [_mm256_set1_pd(0.5); U];
        for (i, f) in factors.iter().enumerate() {
            let f = _mm256_broadcast_sd(f);
            for (u, sum) in sums.iter_mut().enumerate() {
                let x = to_double(load(terms.add(i * stride + 4 * u)));
                // Not fused: the scalar backend rounds the product too.
                *sum = _mm256_add_pd(*sum, _mm256_mul_pd(x, f));
            }
        }
        for (u, sum) in sums.into_iter().enumerate() {
            let floor = _mm256_cvtepi32_epi64(_mm256_cvttpd_epi32(sum));
            store(out.add(4 * u), floor);
        }
    }
}
