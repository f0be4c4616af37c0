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

use crate::words::{expect, times_real, truncate_to};
use crate::{EvenConfig, EvenKind, NonlinearError};
use cipherloom_mpc::{Domain, Shares};
use cipherloom_spec::formats::even::{S_FRAC_D4, S_FRAC_HIGH};

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
    if cfg.kind() != kind {
        return Err(NonlinearError::Kind {
            op,
            given: cfg.residual().name,
        });
    }
    expect(op, "input", x, x.len(), cfg.frac())?;
    let tau = cfg.residual().tau;
    let bits = dom.less_than(x, &[-tau, tau], cfg.compare())?;
    let [below, not_above] = bits.as_slice() else {
        return Err(NonlinearError::Results {
            op,
            have: bits.len(),
            need: 2,
        });
    };
    // x/2 is the same word with one fraction bit more.
    let half = x.over_pow2(1).raised(cfg.poly_frac() - cfg.frac().0 - 1);
    let p = polynomial(cfg, dom, x)?.plus(&half)?;
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
    Ok(truncate_to(dom, mid, cfg.frac().0)?.plus(top)?)
}

/// `q(s)` at `poly_frac` fraction bits.
fn polynomial<D: Domain>(
    cfg: &EvenConfig,
    dom: &mut D,
    x: &Shares,
) -> Result<Shares, NonlinearError> {
    let total = cfg.poly_frac();
    let xx = dom.square(x)?.over_pow2(2 * cfg.scale_log2());
    let q = match cfg.residual().degree() {
        // No further product follows, so s keeps all its bits.
        2 => times_real(&xx, cfg.coeff(1), total),
        4 => {
            let s = truncate_to(dom, &xx, S_FRAC_D4)?;
            let s2 = dom.square(&s)?;
            times_real(&s, cfg.coeff(1), total).plus(&times_real(&s2, cfg.coeff(2), total))?
        }
        degree => {
            let s = truncate_to(dom, &xx, S_FRAC_HIGH)?;
            let ss = dom.square(&s)?;
            let s2 = truncate_to(dom, &ss, S_FRAC_HIGH)?;
            let inner = total - S_FRAC_HIGH;
            let mut u = times_real(&s, cfg.coeff(3), inner);
            if degree == 8 {
                u = u.plus(&times_real(&s2, cfg.coeff(4), inner))?;
            }
            let u = dom.add_const(&u, cfg.coeff(2));
            dom.product(&s2, &u)?
                .plus(&times_real(&s, cfg.coeff(1), total))?
        }
    };
    Ok(dom.add_const(&q, cfg.coeff(0)))
}
