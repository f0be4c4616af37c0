//! MMExp: the decay `exp(Δ·A)` of a state-space layer, for `Δ·A <= 0`, with `A` known to the server only.
//!
//! Source: FESC (degree-4 minimax, cut below -8); graph G-D: a degree-4 polynomial of `z/4`, squared twice.
//! Coefficients: `cipherloom_spec::approx::exp`.
//!
//! # Graph
//!
//! The factors 1/4 of G-D and 1/8 of the scaling cost nothing: they only change how the fraction bits of `z` are read.
//!
//! ```text
//! z  = trunc(Δ·A)                         known product
//! s  = z/8                                in [-1, 0] above the cut; coefficients c_k·(8·input_factor)^k
//! s2 = trunc(s²)                          square
//! p  = c0 + c1 s + s2·(c2 + c3 s + c4 s2) product, at 60 fraction bits
//! D4:   out = trunc(mux(p, [z >= -8]))
//! G-D:  p = trunc(p); r = trunc(p²); out = trunc(mux(r², [z >= -8]))     two squares
//! ```
//!
//! # Why no word overflows
//!
//! For `-8 <= z` (and `z` slightly above 0, which a surrogate softplus can cause): `s² <= 1` at 44 fraction bits;
//! `|p| < 2` at 60 gives `2^61`; `p² < 2` at 56 gives `2^57`, `r² < 2` the same. `z` is not discarded, so the
//! constructor checks `|Δ·A|` at its product's fraction bits. Below the cut the words may wrap, and the mux discards them.

use crate::words::{expect, spread_known, times_real, truncate_to};
use crate::{ExpConfig, NonlinearError};
use cipherloom_mpc::{Domain, Party, Shares};
use cipherloom_spec::approx::ExpApprox;
use cipherloom_spec::formats::exp::{POLY_FRAC, POWER_FRAC, S_FRAC, S_SHIFT, Z_FRAC};

/// The decay `exp(Δ·A)`. `delta`: `[rows, heads]` at `F`; `rates`: `A` of each head, `[heads]`, given by the server only;
/// result `[rows, heads]` at `F`.
///
/// **Domain and error.** `Δ·A <= 0` (slightly positive values are evaluated by the same polynomial); below -8 the result
/// is 0. G-D: at most 3.4e-4 over all `z <= 0` (the cut; 6.0e-5 above it), minimax G-D 8.1e-4, literal D4 0.0204. The
/// fixed-point error against the surrogate is at most 2^-17 for G-D (2^-16 for D4) with random truncation noise, beside
/// `|A|` times the error of `Δ`. The result lies in `[0, 1]` up to 2 units of noise, whose mean is zero.
///
/// **Counts an element** ([`crate::counts::exp`]): 1 known product, 1 comparison, 1 mux, 1 product, and G-D: 3 squares,
/// 5 truncations (5 products in all); D4: 1 square, 3 truncations (3 products in all).
///
/// **Batches**: known product, truncation; comparison; square, truncation; product; (truncation, square) twice for G-D;
/// mux; truncation.
///
/// # Errors
/// `Shape` when the lengths do not fit; `Frac`; errors of the domain.
pub fn mmexp<D: Domain>(
    dom: &mut D,
    delta: &Shares,
    heads: usize,
    rates: Option<&[f64]>,
    cfg: &ExpConfig,
) -> Result<Shares, NonlinearError> {
    let op = "mmexp";
    let rows = delta.len() / heads.max(1);
    expect(op, "time step", delta, rows * heads, cfg.frac())?;
    let words = spread_known(op, "rates", rates, heads, cfg.rate_frac(), rows, 1)?;
    let z = dom.product_known(Party::Server, delta, words.as_deref(), cfg.rate_frac())?;
    let z = truncate_to(dom, &z, Z_FRAC)?;
    let bits = dom.less_than(&z, &[ExpApprox::CUT], cfg.compare())?;
    let [cut] = bits.as_slice() else {
        return Err(NonlinearError::Results {
            op,
            have: bits.len(),
            need: 1,
        });
    };
    let s = z.over_pow2(S_SHIFT);
    let ss = dom.square(&s)?;
    let s2 = truncate_to(dom, &ss, S_FRAC)?;
    let inner = POLY_FRAC - S_FRAC;
    let u = times_real(&s, cfg.coeff(3), inner).plus(&times_real(&s2, cfg.coeff(4), inner))?;
    let u = dom.add_const(&u, cfg.coeff(2));
    let p = dom
        .product(&s2, &u)?
        .plus(&times_real(&s, cfg.coeff(1), POLY_FRAC))?;
    let mut p = dom.add_const(&p, cfg.coeff(0));
    for _ in 0..cfg.approx().squarings() {
        p = truncate_to(dom, &p, POWER_FRAC)?;
        p = dom.square(&p)?;
    }
    let keep = dom.not(cut);
    let picked = dom.mux(&[(&keep, &p)])?;
    let [out] = picked.as_slice() else {
        return Err(NonlinearError::Results {
            op,
            have: picked.len(),
            need: 1,
        });
    };
    truncate_to(dom, out, cfg.frac().0)
}
