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

use crate::complex::Complex64;

/// Twiddle factors for every power-of-two length up to `n`. Memory: 16n bytes.
#[derive(Debug, Clone)]
pub(crate) struct SpecialFft {
    n: usize,
    /// The `len/2` twiddles of the stage with blocks of `len` start at index `len/2 - 1`.
    twiddles: Vec<Complex64>,
}

impl SpecialFft {
    /// Tables for up to `n` slots, a power of two.
    pub(crate) fn new(n: usize) -> Self {
        let mut twiddles = Vec::with_capacity(n.saturating_sub(1));
        let mut len = 2;
        while len <= n {
            let order = 4 * len as u64;
            let mut power = 1u64;
            for _ in 0..len / 2 {
                // The exponent is exact, so each twiddle is off by one rounding only.
                twiddles.push(Complex64::cis(
                    std::f64::consts::TAU * power as f64 / order as f64,
                ));
                power = power * 5 % order;
            }
            len *= 2;
        }
        Self { n, twiddles }
    }

    fn stage(&self, len: usize) -> &[Complex64] {
        &self.twiddles[len / 2 - 1..len - 1]
    }

    /// Coefficients to slots, in place, unnormalised. The length is a power of two, at most `n`.
    pub(crate) fn forward(&self, v: &mut [Complex64]) {
        debug_assert!(v.len().is_power_of_two() && v.len() <= self.n);
        bit_reverse(v);
        let mut len = 2;
        while len <= v.len() {
            let w = self.stage(len);
            for block in v.chunks_exact_mut(len) {
                let (lo, hi) = block.split_at_mut(len / 2);
                for ((x, y), &w) in lo.iter_mut().zip(hi).zip(w) {
                    let (a, b) = (*x, *y * w);
                    *x = a + b;
                    *y = a - b;
                }
            }
            len *= 2;
        }
    }

    /// Slots to coefficients, in place, times `factor` (which includes 1/length).
    pub(crate) fn inverse(&self, v: &mut [Complex64], factor: f64) {
        debug_assert!(v.len().is_power_of_two() && v.len() <= self.n);
        let mut len = v.len();
        while len >= 2 {
            let w = self.stage(len);
            for block in v.chunks_exact_mut(len) {
                let (lo, hi) = block.split_at_mut(len / 2);
                for ((x, y), &w) in lo.iter_mut().zip(hi).zip(w) {
                    let (a, b) = (*x, *y);
                    *x = a + b;
                    *y = (a - b) * w.conj();
                }
            }
            len /= 2;
        }
        bit_reverse(v);
        for x in v {
            *x = x.scaled(factor);
        }
    }
}

fn bit_reverse(v: &mut [Complex64]) {
    let bits = v.len().trailing_zeros();
    if bits == 0 {
        return;
    }
    for i in 0..v.len() {
        let j = i.reverse_bits() >> (usize::BITS - bits);
        if i < j {
            v.swap(i, j);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(n: usize) -> Vec<Complex64> {
        (0..n)
            .map(|k| Complex64::new((k as f64 * 0.7).sin(), (k as f64 * 1.3).cos()))
            .collect()
    }

    #[test]
    fn forward_evaluates_the_polynomial_at_the_powers_of_five() {
        for n in [1usize, 2, 8, 64] {
            let fft = SpecialFft::new(64);
            let coeffs = input(n);
            let mut v = coeffs.clone();
            fft.forward(&mut v);
            let two_n = 4 * n as u64;
            let mut power = 1u64;
            for got in &v {
                // The real polynomial of degree below 2n, term by term.
                let mut want = Complex64::ZERO;
                let at = |e: u64| {
                    Complex64::cis(std::f64::consts::TAU * (e % two_n) as f64 / two_n as f64)
                };
                for (k, c) in coeffs.iter().enumerate() {
                    want += at(power * k as u64).scaled(c.re);
                    want += at(power * (k + n) as u64).scaled(c.im);
                }
                assert!((*got - want).abs() < 1e-12 * n as f64, "{got:?} {want:?}");
                power = power * 5 % two_n;
            }
        }
    }

    #[test]
    fn inverse_undoes_forward() {
        let n = 1 << 12;
        let fft = SpecialFft::new(n);
        let x = input(n);
        let mut v = x.clone();
        fft.forward(&mut v);
        fft.inverse(&mut v, 1.0 / n as f64);
        for (a, b) in v.iter().zip(&x) {
            assert!((*a - *b).abs() < 1e-14);
        }
    }
}
