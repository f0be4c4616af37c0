//! The special FFT of CKKS: between n complex slots and the n complex numbers
//! `m_k + i m_(k+n)` that hold the 2n real coefficients of a polynomial.
//!
//! Slot `j` is the value of the polynomial at `zeta^(5^j)` with `zeta = exp(i pi / N)`, n = N/2
//! (Cheon, Kim, Kim, Song 2017, section 3.2). Because `zeta^(5^j n) = i`, the value of slot `j`
//! is `sum_k (m_k + i m_(k+n)) zeta^(5^j k)`: a complex polynomial of degree n at n points. Splitting it into even
//! and odd powers halves both, as for the usual FFT, with the twiddle `zeta_len^(5^j)` where
//! `zeta_len = exp(2 pi i / (4 len))`.
//!
//! A vector of period m is a polynomial in `X^(n/m)`, so the transform of length m serves it.
//!
//! Layers run two at a time. The layers of blocks of 2, 4 and 8 run on columns of the natural order instead, together
//! with the bit reversal: the 8 elements of one block stand n/8 apart there.

use super::roots::Roots;
use super::{for_each_width, Doubles, Width};
use crate::backend::Backend;

/// Shortest transform whose layers are combined.
const MIN_COMBINED: usize = 64;
/// Elements that are worked on at a time.
const LANES: usize = 8;

type Vector = [f64; LANES];

/// Twiddle factors for every power-of-two length up to `n`. Memory: 16n bytes.
///
/// A buffer of n complex numbers is 2n doubles, the real parts first. Results are the same bits on every processor and system.
#[derive(Debug)]
pub struct SlotFft {
    n: usize,
    width: Width,
    /// The `len/2` twiddles of the layer with blocks of `len` start at index `len/2`, and n later their imaginary parts.
    twiddles: Doubles,
}

impl SlotFft {
    /// Tables for up to `n` slots, a power of two, for the instructions that go with `backend`.
    #[must_use]
    pub fn new(n: usize, backend: &dyn Backend) -> Self {
        Self::with_width(n, Width::of(backend))
    }

    /// As [`SlotFft::new`] for given instructions.
    #[must_use]
    pub fn with_width(n: usize, width: Width) -> Self {
        let mut twiddles = Doubles::zeroed(2 * n);
        let roots = Roots::new(4 * n.max(2));
        let mut len = 2;
        while len <= n {
            let mut power = 1;
            for j in len / 2..len {
                let [re, im] = roots.power(power * (n / len));
                (twiddles[j], twiddles[n + j]) = (re, im);
                power = power * 5 % (4 * len);
            }
            len *= 2;
        }
        Self { n, width, twiddles }
    }

    /// The longest transform.
    #[must_use]
    pub fn max_slots(&self) -> usize {
        self.n
    }

    /// The instructions in use.
    #[must_use]
    pub fn width(&self) -> Width {
        self.width
    }

    /// Coefficients to slots, unnormalised. Both buffers have twice a power of two doubles, at most
    /// twice [`SlotFft::max_slots`] (a programming error otherwise: `out` is left as it is).
    pub fn to_slots(&self, coeffs: &[f64], out: &mut [f64]) {
        if self.fits(coeffs, out) {
            forward(self.width, &self.twiddles, coeffs, out);
        }
    }

    /// Slots to coefficients, unnormalised: undoes [`SlotFft::to_slots`] up to the factor n. Overwrites `slots`.
    /// Lengths as there.
    pub fn to_coeffs(&self, slots: &mut [f64], out: &mut [f64]) {
        if self.fits(slots, out) {
            inverse(self.width, &self.twiddles, slots, out);
        }
    }

    fn fits(&self, a: &[f64], b: &[f64]) -> bool {
        let fits = a.len() == b.len()
            && a.len() >= 2
            && a.len().is_power_of_two()
            && a.len() <= 2 * self.n;
        debug_assert!(fits, "lengths {} and {} of {}", a.len(), b.len(), self.n);
        fits
    }
}

/// Real and imaginary parts of the twiddles of the layer with blocks of `len`.
#[inline(always)]
fn layer(twiddles: &[f64], len: usize) -> (&[f64], &[f64]) {
    let (re, im) = twiddles.split_at(twiddles.len() / 2);
    (&re[len / 2..len], &im[len / 2..len])
}

/// `(x, y)` to `(x + w y, x - w y)`.
#[inline(always)]
fn forward_one(x: [f64; 2], y: [f64; 2], w: [f64; 2]) -> ([f64; 2], [f64; 2]) {
    let t = [y[0] * w[0] - y[1] * w[1], y[0] * w[1] + y[1] * w[0]];
    ([x[0] + t[0], x[1] + t[1]], [x[0] - t[0], x[1] - t[1]])
}

/// `(x, y)` to `(x + y, (x - y) conj(w))`.
#[inline(always)]
fn inverse_one(x: [f64; 2], y: [f64; 2], w: [f64; 2]) -> ([f64; 2], [f64; 2]) {
    let d = [x[0] - y[0], x[1] - y[1]];
    let t = [d[0] * w[0] + d[1] * w[1], d[1] * w[0] - d[0] * w[1]];
    ([x[0] + y[0], x[1] + y[1]], t)
}

/// Eight butterflies.
#[inline(always)]
fn butterflies<const FORWARD: bool>(x: &mut [Vector; 2], y: &mut [Vector; 2], w: [&Vector; 2]) {
    for l in 0..LANES {
        let one = if FORWARD { forward_one } else { inverse_one };
        let (a, b) = one([x[0][l], x[1][l]], [y[0][l], y[1][l]], [w[0][l], w[1][l]]);
        (x[0][l], x[1][l]) = (a[0], a[1]);
        (y[0][l], y[1][l]) = (b[0], b[1]);
    }
}

fn reversed(i: usize, bits: u32) -> usize {
    i.reverse_bits()
        .checked_shr(usize::BITS - bits)
        .unwrap_or(0)
}

for_each_width! {
    fn forward(twiddles: &[f64], coeffs: &[f64], out: &mut [f64]) {
        let n = out.len() / 2;
        let (cr, ci) = coeffs.split_at(n);
        let (re, im) = out.split_at_mut(n);
        let mut len = 2;
        if n < MIN_COMBINED {
            for i in 0..n {
                let j = reversed(i, n.trailing_zeros());
                (re[j], im[j]) = (cr[i], ci[i]);
            }
        } else {
            forward_columns(twiddles, [cr, ci], [&mut *re, &mut *im]);
            len = 16;
            // An odd number of layers is left: one by itself.
            if n.trailing_zeros().is_multiple_of(2) {
                single::<true>(twiddles, len, re, im);
                len = 32;
            }
            while len < n {
                pair::<true>(twiddles, len, re, im);
                len *= 4;
            }
        }
        while len <= n {
            short::<true>(twiddles, len, re, im);
            len *= 2;
        }
    }
}

for_each_width! {
    fn inverse(twiddles: &[f64], slots: &mut [f64], out: &mut [f64]) {
        let n = out.len() / 2;
        let (re, im) = slots.split_at_mut(n);
        let (or, oi) = out.split_at_mut(n);
        let mut len = n;
        if n < MIN_COMBINED {
            while len >= 2 {
                short::<false>(twiddles, len, re, im);
                len /= 2;
            }
            for i in 0..n {
                let j = reversed(i, n.trailing_zeros());
                (or[j], oi[j]) = (re[i], im[i]);
            }
        } else {
            while len >= 32 {
                pair::<false>(twiddles, len / 2, re, im);
                len /= 4;
            }
            if len == 16 {
                single::<false>(twiddles, len, re, im);
            }
            inverse_columns(twiddles, [re, im], [or, oi]);
        }
    }
}

/// One layer of short blocks, element by element.
#[inline(always)]
fn short<const FORWARD: bool>(twiddles: &[f64], len: usize, re: &mut [f64], im: &mut [f64]) {
    let (wr, wi) = layer(twiddles, len);
    for (re, im) in re.chunks_exact_mut(len).zip(im.chunks_exact_mut(len)) {
        for j in 0..len / 2 {
            let k = j + len / 2;
            let one = if FORWARD { forward_one } else { inverse_one };
            let (a, b) = one([re[j], im[j]], [re[k], im[k]], [wr[j], wi[j]]);
            (re[j], im[j], re[k], im[k]) = (a[0], a[1], b[0], b[1]);
        }
    }
}

/// One layer, for blocks of 16 and more.
#[inline(always)]
fn single<const FORWARD: bool>(twiddles: &[f64], len: usize, re: &mut [f64], im: &mut [f64]) {
    let (wr, wi) = layer(twiddles, len);
    let (wr, wi) = (wr.as_chunks().0, wi.as_chunks().0);
    for (re, im) in re.chunks_exact_mut(len).zip(im.chunks_exact_mut(len)) {
        let (re, im) = (re.as_chunks_mut().0, im.as_chunks_mut().0);
        let ((r0, r1), (i0, i1)) = (re.split_at_mut(wr.len()), im.split_at_mut(wr.len()));
        let (r1, i0, i1) = (
            &mut r1[..r0.len()],
            &mut i0[..r0.len()],
            &mut i1[..r0.len()],
        );
        let (wr, wi) = (&wr[..r0.len()], &wi[..r0.len()]);
        for j in 0..r0.len() {
            let (mut x, mut y) = ([r0[j], i0[j]], [r1[j], i1[j]]);
            butterflies::<FORWARD>(&mut x, &mut y, [&wr[j], &wi[j]]);
            ([r0[j], i0[j]], [r1[j], i1[j]]) = (x, y);
        }
    }
}

/// The layers with blocks of `len` and `2 len`, in this order forward and in the other one inverse; `len` is 16 or more.
#[inline(always)]
fn pair<const FORWARD: bool>(twiddles: &[f64], len: usize, re: &mut [f64], im: &mut [f64]) {
    let split = |len| {
        let (r, i) = layer(twiddles, len);
        (r.as_chunks::<LANES>().0, i.as_chunks::<LANES>().0)
    };
    let (first, second) = (split(len), split(2 * len));
    let h = len / 2 / LANES;
    let (ar, ai) = (&first.0[..h], &first.1[..h]);
    let (br, cr) = second.0.split_at(h);
    let (bi, ci) = second.1.split_at(h);
    let (br, cr, bi, ci) = (&br[..h], &cr[..h], &bi[..h], &ci[..h]);
    for (re, im) in re
        .chunks_exact_mut(2 * len)
        .zip(im.chunks_exact_mut(2 * len))
    {
        let (r01, r23) = re.as_chunks_mut().0.split_at_mut(2 * h);
        let ((r0, r1), (r2, r3)) = (r01.split_at_mut(h), r23.split_at_mut(h));
        let (i01, i23) = im.as_chunks_mut().0.split_at_mut(2 * h);
        let ((i0, i1), (i2, i3)) = (i01.split_at_mut(h), i23.split_at_mut(h));
        let (r3, i3) = (&mut r3[..h], &mut i3[..h]);
        for j in 0..h {
            let mut x = [
                [r0[j], i0[j]],
                [r1[j], i1[j]],
                [r2[j], i2[j]],
                [r3[j], i3[j]],
            ];
            let [x0, x1, x2, x3] = &mut x;
            let (a, b, c) = ([&ar[j], &ai[j]], [&br[j], &bi[j]], [&cr[j], &ci[j]]);
            if FORWARD {
                butterflies::<true>(x0, x1, a);
                butterflies::<true>(x2, x3, a);
                butterflies::<true>(x0, x2, b);
                butterflies::<true>(x1, x3, c);
            } else {
                butterflies::<false>(x0, x2, b);
                butterflies::<false>(x1, x3, c);
                butterflies::<false>(x0, x1, a);
                butterflies::<false>(x2, x3, a);
            }
            [
                [r0[j], i0[j]],
                [r1[j], i1[j]],
                [r2[j], i2[j]],
                [r3[j], i3[j]],
            ] = x;
        }
    }
}

/// Element b of a block of 8 stands in this row of the natural order.
const ROWS: [usize; LANES] = [0, 4, 2, 6, 1, 5, 3, 7];

/// The three layers of blocks of 2, 4 and 8 on eight blocks at a time.
#[inline(always)]
fn three_layers<const FORWARD: bool>(twiddles: &[f64], x: &mut [[Vector; 2]; LANES]) {
    let mut one = |len: usize| {
        let (wr, wi) = layer(twiddles, len);
        let h = len / 2;
        for start in (0..LANES).step_by(len) {
            for j in 0..h {
                let (lo, hi) = x.split_at_mut(start + j + h);
                let w = [[wr[j]; LANES], [wi[j]; LANES]];
                butterflies::<FORWARD>(&mut lo[start + j], &mut hi[0], [&w[0], &w[1]]);
            }
        }
    };
    let order = if FORWARD { [2, 4, 8] } else { [8, 4, 2] };
    one(order[0]);
    one(order[1]);
    one(order[2]);
}

#[inline(always)]
fn forward_columns(twiddles: &[f64], from: [&[f64]; 2], to: [&mut [f64]; 2]) {
    let n = from[0].len();
    let rows = n / LANES;
    for k in (0..rows).step_by(LANES) {
        let mut x = [[[0.0; LANES]; 2]; LANES];
        for (x, row) in x.iter_mut().zip(ROWS) {
            for (x, from) in x.iter_mut().zip(from) {
                x.copy_from_slice(&from[row * rows + k..][..LANES]);
            }
        }
        three_layers::<true>(twiddles, &mut x);
        for l in 0..LANES {
            let block = LANES * reversed(k + l, rows.trailing_zeros());
            for part in 0..2 {
                let to = &mut to[part][block..block + LANES];
                for (to, x) in to.iter_mut().zip(&x) {
                    *to = x[part][l];
                }
            }
        }
    }
}

#[inline(always)]
fn inverse_columns(twiddles: &[f64], from: [&mut [f64]; 2], to: [&mut [f64]; 2]) {
    let n = from[0].len();
    let rows = n / LANES;
    for k in (0..rows).step_by(LANES) {
        let mut x = [[[0.0; LANES]; 2]; LANES];
        for l in 0..LANES {
            let block = LANES * reversed(k + l, rows.trailing_zeros());
            for part in 0..2 {
                let from = &from[part][block..block + LANES];
                for (x, &from) in x.iter_mut().zip(from) {
                    x[part][l] = from;
                }
            }
        }
        three_layers::<false>(twiddles, &mut x);
        for (x, row) in x.iter().zip(ROWS) {
            for part in 0..2 {
                to[part][row * rows + k..][..LANES].copy_from_slice(&x[part]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::TAU;

    fn input(n: usize) -> Vec<f64> {
        (0..2 * n).map(|k| (k as f64 * 0.7).sin()).collect()
    }

    /// Layer by layer on bit-reversed input, with nothing combined.
    fn plain(n: usize, coeffs: &[f64]) -> Vec<f64> {
        let fft = SlotFft::with_width(n, Width::PORTABLE);
        let mut out = vec![0.0; 2 * n];
        let (re, im) = out.split_at_mut(n);
        for i in 0..n {
            let j = reversed(i, n.trailing_zeros());
            (re[j], im[j]) = (coeffs[i], coeffs[n + i]);
        }
        let mut len = 2;
        while len <= n {
            short::<true>(&fft.twiddles, len, re, im);
            len *= 2;
        }
        out
    }

    #[test]
    fn forward_evaluates_the_polynomial_at_the_powers_of_five() {
        for width in Width::available() {
            let fft = SlotFft::with_width(128, width);
            for n in [1usize, 2, 8, 32, 64, 128] {
                let coeffs = input(n);
                let mut v = vec![0.0; 2 * n];
                fft.to_slots(&coeffs, &mut v);
                let two_n = 4 * n;
                let mut power = 1usize;
                for j in 0..n {
                    // The real polynomial of degree below 2n, term by term.
                    let mut want = [0.0, 0.0];
                    for (k, c) in coeffs.iter().enumerate() {
                        let angle = TAU * (power * k % two_n) as f64 / two_n as f64;
                        want[0] += c * angle.cos();
                        want[1] += c * angle.sin();
                    }
                    let error = (v[j] - want[0]).hypot(v[n + j] - want[1]);
                    assert!(error < 1e-12 * n as f64, "{n} {j}: {error}");
                    power = power * 5 % two_n;
                }
            }
        }
    }

    #[test]
    fn combined_layers_and_all_instructions_give_the_same_bits() {
        for log_n in 0..=12 {
            let n = 1usize << log_n;
            let coeffs = input(n);
            let want = plain(n, &coeffs);
            let mut first: Option<Vec<f64>> = None;
            for width in Width::available() {
                let fft = SlotFft::with_width(1 << 12, width);
                let mut slots = vec![0.0; 2 * n];
                fft.to_slots(&coeffs, &mut slots);
                assert_eq!(slots, want, "{n} {width:?}");
                let mut back = vec![0.0; 2 * n];
                fft.to_coeffs(&mut slots, &mut back);
                for (b, c) in back.iter().zip(&coeffs) {
                    assert!((b / n as f64 - c).abs() < 1e-14, "{n} {width:?}");
                }
                assert_eq!(first.get_or_insert_with(|| back.clone()), &back);
            }
        }
    }
}
