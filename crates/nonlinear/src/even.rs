//! MoSiLU and MoSoft: half the input plus an even polynomial inside `[-tau, tau)`, fixed tails outside.
//!
//! Source: FESC ("even residual"). Coefficients: `cipherloom_spec::approx::even`.
//!
//! # Graph
//!
//! With `s = (x/2^e)²`, `2^e` the power of two at or above `tau`, so that `s <= 1` inside and the scaled coefficients
//! `c_k·4^(ek)` stay well above one unit (protocols.md R18):
//!
//! ```text
//! degree 2:      q = c0 + c1 s                                     1 product
//! degree 4:      q = c0 + c1 s + c2 s²                             2 products
//! degree 6, 8:   q = c0 + c1 s + s2·(c2 + c3 s [+ c4 s2]), s2 = s² 3 products (Paterson-Stockmeyer)
//! p   = x/2 + q                              at T = 59 fraction bits
//! out = trunc(mux(p, [-tau <= x < tau])) + mux(x, [x >= tau])
//! ```
//!
//! # Why no word overflows
//!
//! Sums and products are exact modulo 2^64, so only the words that enter a truncation count. Let `|x| < tau`.
//!
//! - `x²` at `2F` fraction bits is below `2^6` (`tau < 8`), so its word is below `2^(2F+6) <= 2^54`.
//! - `s² < 1` at `2·22` fraction bits is below `2^44`.
//! - `|p| < tau + 1 < 8`, so its word is below `2^(59+3) = 2^62`.
//!
//! For `|x| >= tau` these words may wrap; the mux then multiplies `p` by 0, and what is truncated last is 0.
//! `x` itself passes its mux at `F` fraction bits and is not truncated: the upper tail is `x` exactly up to the noise of
//! the truncated zero.

use crate::words::{
    bits_above, compare_format, expect, in_range, times_real, truncate_to, WORD_BITS,
};
use crate::NonlinearError;
use cipherloom_mpc::{CompareFormat, Domain, Shares};
use cipherloom_spec::approx::EvenResidual;
use cipherloom_spec::FracBits;

/// Fraction bits of `s` at degree 4: balances the noise of `s` (slope 3.1) with the rounding of `c2`.
const S_FRAC_D4: u32 = 20;
/// Fraction bits of `s` and `s2` at degrees 6 and 8.
const S_FRAC_HIGH: u32 = 22;
/// Smallest and largest fraction bits of the input.
pub(crate) const FRAC_RANGE: (f64, f64) = (14.0, 22.0);

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
    ) -> Result<Self, NonlinearError> {
        let degree = residual.degree();
        if !matches!(degree, 2 | 4 | 6 | 8) {
            return Err(NonlinearError::Degree {
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

    /// `c_k·4^(ek)`: the coefficients in `s`. Exact scaling by powers of two.
    fn coeff(&self, k: usize) -> f64 {
        let c = self.residual.coeffs.get(k).copied().unwrap_or(0.0);
        c * f64::from(2 * self.scale_log2 * k as u32).exp2()
    }

    /// `q(s)` at `poly_frac` fraction bits.
    fn polynomial<D: Domain>(&self, dom: &mut D, x: &Shares) -> Result<Shares, NonlinearError> {
        let total = self.poly_frac;
        let xx = dom.square(x)?.over_pow2(2 * self.scale_log2);
        let q = match self.residual.degree() {
            // No further product follows, so s keeps all its bits.
            2 => times_real(&xx, self.coeff(1), total),
            4 => {
                let s = truncate_to(dom, &xx, S_FRAC_D4)?;
                let s2 = dom.square(&s)?;
                times_real(&s, self.coeff(1), total).plus(&times_real(&s2, self.coeff(2), total))?
            }
            degree => {
                let s = truncate_to(dom, &xx, S_FRAC_HIGH)?;
                let ss = dom.square(&s)?;
                let s2 = truncate_to(dom, &ss, S_FRAC_HIGH)?;
                let inner = total - S_FRAC_HIGH;
                let mut u = times_real(&s, self.coeff(3), inner);
                if degree == 8 {
                    u = u.plus(&times_real(&s2, self.coeff(4), inner))?;
                }
                let u = dom.add_const(&u, self.coeff(2));
                dom.product(&s2, &u)?
                    .plus(&times_real(&s, self.coeff(1), total))?
            }
        };
        Ok(dom.add_const(&q, self.coeff(0)))
    }
}

/// Checks the fraction bits that all functions of a block share.
pub(crate) fn check_common(frac: FracBits, kept_frac: u32) -> Result<(), NonlinearError> {
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

/// `SiLU(x)` by [`EvenConfig`]. Shape `[n]` to `[n]`, fraction bits `F` to `F`.
///
/// **Error.** Against SiLU: `residual.max_error()` (degree 4, tau = 4: 0.07195 at `x = ±4`) plus the fixed-point error.
/// Against the surrogate, away from the thresholds: degrees 2 and 4 at most 2^-17 (4 units), degrees 6
/// and 8 at most 2^-16, random truncation noise included (F = 19). Within `2^-(g+1)` of a threshold either branch may be taken.
///
/// **Counts an element** (see [`crate::counts::even`]): 2 comparisons (one batch, same value), 2 muxes (one batch) and
/// degree 2: 1 square, 1 truncation; degree 4: 2 squares, 2 truncations; degrees 6 and 8: 2 squares, 1 product,
/// 3 truncations.
///
/// **Batches**: comparisons; square, truncation; (square, (truncation, product)); mux; truncation.
///
/// # Errors
/// `Kind` when the formats belong to softplus; `Frac`; errors of the domain.
pub fn mosilu<D: Domain>(
    dom: &mut D,
    x: &Shares,
    cfg: &EvenConfig,
) -> Result<Shares, NonlinearError> {
    even_residual("mosilu", EvenKind::Silu, dom, x, cfg)
}

/// `softplus(x)` by [`EvenConfig`]. Shape `[n]` to `[n]`, fraction bits `F` to `F`.
///
/// **Error.** Against softplus: `residual.max_error()` (degree 4, tau = 4: 0.0182 at `x = ±4`; degree 8, tau = 6: 0.0030)
/// plus the fixed-point error, bounded as in [`mosilu`]. Below `-tau` the result is 0 up to one unit of noise.
///
/// Counts and batches are those of [`mosilu`].
///
/// # Errors
/// `Kind` when the formats belong to SiLU; `Frac`; errors of the domain.
pub fn mosoft<D: Domain>(
    dom: &mut D,
    x: &Shares,
    cfg: &EvenConfig,
) -> Result<Shares, NonlinearError> {
    even_residual("mosoft", EvenKind::Softplus, dom, x, cfg)
}

fn even_residual<D: Domain>(
    op: &'static str,
    kind: EvenKind,
    dom: &mut D,
    x: &Shares,
    cfg: &EvenConfig,
) -> Result<Shares, NonlinearError> {
    if cfg.kind != kind {
        return Err(NonlinearError::Kind {
            op,
            given: cfg.residual.name,
        });
    }
    expect(op, "input", x, x.len(), cfg.frac)?;
    let tau = cfg.residual.tau;
    let bits = dom.less_than(x, &[-tau, tau], cfg.compare)?;
    let [below, not_above] = bits.as_slice() else {
        return Err(NonlinearError::Results {
            op,
            have: bits.len(),
            need: 2,
        });
    };
    // x/2 is the same word with one fraction bit more.
    let half = x.over_pow2(1).raised(cfg.poly_frac - cfg.frac.0 - 1);
    let p = cfg.polynomial(dom, x)?.plus(&half)?;
    // x < -tau implies x < tau, so the exclusive or is "inside".
    let inside = below.xor(not_above)?;
    let above = dom.not(not_above);
    let picked = dom.mux(&[(&inside, &p), (&above, x)])?;
    let [mid, top] = picked.as_slice() else {
        return Err(NonlinearError::Results {
            op,
            have: picked.len(),
            need: 2,
        });
    };
    Ok(truncate_to(dom, mid, cfg.frac.0)?.plus(top)?)
}
