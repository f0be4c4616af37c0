//! Formats of MoSiLU and MoSoft: half the input plus an even polynomial.

use super::words::{bits_above, compare_format, in_range, WORD_BITS};
use super::{CompareFormat, FormatError};
use crate::approx::EvenResidual;
use crate::FracBits;

/// Fraction bits of `s` at degree 4: balances the noise of `s` (slope 3.1) with the rounding of `c2`.
pub const S_FRAC_D4: u32 = 20;
/// Fraction bits of `s` and `s2` at degrees 6 and 8.
pub const S_FRAC_HIGH: u32 = 22;
/// Smallest and largest fraction bits of the input.
pub(super) const FRAC_RANGE: (f64, f64) = (14.0, 22.0);

/// Which function an [`EvenConfig`] is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EvenKind {
    /// SiLU.
    Silu,
    /// Softplus.
    Softplus,
}

/// Checked formats of one even-residual function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EvenConfig {
    kind: EvenKind,
    residual: EvenResidual,
    frac: FracBits,
    scale_log2: u32,
    poly_frac: u32,
    compare: CompareFormat,
}

impl EvenConfig {
    /// Formats for inputs with `|x| <= max_abs` at `frac` fraction bits; comparisons keep `kept_frac` of them.
    ///
    /// # Errors
    /// `Degree` for degrees other than 2, 4, 6, 8; `Parameter` or `Overflow` when a range does not fit.
    pub fn new(
        kind: EvenKind,
        residual: EvenResidual,
        frac: FracBits,
        kept_frac: u32,
        max_abs: f64,
    ) -> Result<Self, FormatError> {
        let degree = residual.degree();
        if !matches!(degree, 2 | 4 | 6 | 8) {
            return Err(FormatError::Degree {
                name: residual.name,
                degree,
            });
        }
        check_common(frac, kept_frac)?;
        let max = f64::from(WORD_BITS - frac.0 as i32 - 4).exp2();
        in_range("largest |x|", max_abs, 0.0, max, "recalibrate the range")?;
        in_range("tau", residual.tau, 0.5, 7.0, "use tau = 4 or 6")?;
        let tau = residual.tau;
        let mut scale_log2 = 0;
        while f64::from(scale_log2).exp2() < tau {
            scale_log2 += 1;
        }
        Ok(Self {
            kind,
            residual,
            frac,
            scale_log2,
            poly_frac: (WORD_BITS - bits_above(tau + 1.0)) as u32,
            compare: compare_format(residual.name, max_abs + tau, kept_frac)?,
        })
    }

    /// Which function.
    #[must_use]
    pub fn kind(&self) -> EvenKind {
        self.kind
    }
    /// The approximation.
    #[must_use]
    pub fn residual(&self) -> &EvenResidual {
        &self.residual
    }
    /// Fraction bits of input and output.
    #[must_use]
    pub fn frac(&self) -> FracBits {
        self.frac
    }
    /// Format of the two comparisons.
    #[must_use]
    pub fn compare(&self) -> CompareFormat {
        self.compare
    }
    /// `e`: `s = (x/2^e)²`, the smallest with `2^e >= tau`.
    #[must_use]
    pub fn scale_log2(&self) -> u32 {
        self.scale_log2
    }
    /// Fraction bits at which the polynomial is formed.
    #[must_use]
    pub fn poly_frac(&self) -> u32 {
        self.poly_frac
    }
    /// `c_k·4^(ek)`: the coefficients in `s`. Exact scaling by powers of two.
    #[must_use]
    pub fn coeff(&self, k: usize) -> f64 {
        let c = self.residual.coeffs.get(k).copied().unwrap_or(0.0);
        c * f64::from(2 * self.scale_log2 * k as u32).exp2()
    }
}

/// Checks the fraction bits that all functions of a block share.
pub(super) fn check_common(frac: FracBits, kept_frac: u32) -> Result<(), FormatError> {
    in_range(
        "fraction bits",
        f64::from(frac.0),
        FRAC_RANGE.0,
        FRAC_RANGE.1,
        "use 19",
    )?;
    in_range(
        "fraction bits kept by comparisons",
        f64::from(kept_frac),
        12.0,
        f64::from(frac.0) - 1.0,
        "use 13",
    )?;
    Ok(())
}
