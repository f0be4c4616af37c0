//! Formats of MMExp, the decay `exp(Δ·A)` with `A` known to the server only.

use super::even::check_common;
use super::words::{bits_above, compare_format, in_range, WORD_BITS};
use super::{CompareFormat, FormatError};
use crate::approx::ExpApprox;
use crate::FracBits;

/// Fraction bits of `z`.
pub const Z_FRAC: u32 = 19;
/// `s = z/2^3`.
pub const S_SHIFT: u32 = 3;
/// Fraction bits of `s` and `s2`.
pub const S_FRAC: u32 = Z_FRAC + S_SHIFT;
/// Fraction bits at which the polynomial is formed.
pub const POLY_FRAC: u32 = 60;
/// Fraction bits of `p` and `p²` in G-D.
pub const POWER_FRAC: u32 = 28;

/// Checked formats of one decay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpConfig {
    approx: ExpApprox,
    frac: FracBits,
    rate_frac: FracBits,
    compare: CompareFormat,
}

impl ExpConfig {
    /// Formats for time steps `|Δ| <= delta_max` at `frac` fraction bits and rates `|A| <= rate_max`.
    ///
    /// # Errors
    /// `Parameter` or `Overflow` when `Δ·A` does not fit.
    pub fn new(
        approx: ExpApprox,
        frac: FracBits,
        kept_frac: u32,
        delta_max: f64,
        rate_max: f64,
    ) -> Result<Self, FormatError> {
        check_common(frac, kept_frac)?;
        let limit = 16f64.exp2();
        in_range(
            "largest time step",
            delta_max,
            1e-9,
            limit,
            "recalibrate the range",
        )?;
        in_range(
            "largest |A|",
            rate_max,
            1e-9,
            limit,
            "check A_log of the checkpoint",
        )?;
        let z_max = delta_max * rate_max;
        // At least 12 fraction bits for A, at most 24.
        let room = WORD_BITS - frac.0 as i32 - bits_above(z_max);
        if room < 12 {
            return Err(FormatError::Overflow {
                what: "time step times A",
                value: z_max,
                bits: bits_above(z_max) + frac.0 as i32 + 12,
                max: WORD_BITS,
                remedy: "recalibrate the range of the time step",
            });
        }
        Ok(Self {
            approx,
            frac,
            rate_frac: FracBits(room.min(24) as u32),
            compare: compare_format("mmexp", z_max - ExpApprox::CUT, kept_frac.min(Z_FRAC - 1))?,
        })
    }

    /// Which graph.
    #[must_use]
    pub fn approx(&self) -> ExpApprox {
        self.approx
    }
    /// Fraction bits of time step and decay.
    #[must_use]
    pub fn frac(&self) -> FracBits {
        self.frac
    }
    /// Fraction bits at which the server encodes `A`.
    #[must_use]
    pub fn rate_frac(&self) -> FracBits {
        self.rate_frac
    }
    /// Format of the comparison with -8.
    #[must_use]
    pub fn compare(&self) -> CompareFormat {
        self.compare
    }

    /// Coefficient `k` in `s = z/8`.
    #[must_use]
    pub fn coeff(&self, k: usize) -> f64 {
        let step = self.approx.input_factor() * f64::from(S_SHIFT).exp2();
        self.approx.coeffs().get(k).copied().unwrap_or(0.0) * step.powi(k as i32)
    }
}
