//! The pointwise stages of a state-space block: time-step factors, skip and gate.

use crate::words::{area, expect, spread_known, truncate_to};
use crate::{mmexp, mosilu, mosoft, BlockConfig, HeadShape, NonlinearError};
use cipherloom_mpc::{Domain, Party, Shares};

/// What the scan needs: all at `F` fraction bits.
#[derive(Clone, PartialEq, Eq)]
pub struct Factors {
    /// Time steps `Δ`, `[tokens, heads]`.
    pub delta: Shares,
    /// Decays `exp(Δ·A)`, `[tokens, heads]`.
    pub decay: Shares,
    /// Scaled inputs `Δ·x`, `[tokens, heads, head_dim]`.
    pub scaled: Shares,
}

/// `Δ = softplus(dt)`, `a = exp(Δ·A)`, `x̃ = Δ·x`.
///
/// `dt`: `[tokens, heads]` at `F` with its bias already added; `x`: `[tokens, heads, head_dim]` at `F`, after its SiLU;
/// `rates`: `A` of each head (negative), `[heads]`, given by the server only.
///
/// Errors: those of [`mosoft`] and [`mmexp`]; `x̃` adds one unit. **Counts** ([`crate::counts::factors`]): MoSoft and MMExp
/// a head, 1 product and 1 truncation a channel. **Batches**: those of [`mosoft`], [`mmexp`], product, truncation.
///
/// # Errors
/// `Shape`, `Frac`; errors of the domain.
pub fn factors<D: Domain>(
    dom: &mut D,
    dt: &Shares,
    x: &Shares,
    rates: Option<&[f64]>,
    shape: HeadShape,
    cfg: &BlockConfig,
) -> Result<Factors, NonlinearError> {
    let op = "factors";
    let steps = area(op, &[shape.tokens, shape.heads])?;
    expect(op, "time steps", dt, steps, cfg.frac())?;
    expect(
        op,
        "inputs",
        x,
        area(op, &[steps, shape.head_dim])?,
        cfg.frac(),
    )?;
    let delta = mosoft(dom, dt, &cfg.softplus)?;
    let decay = mmexp(dom, &delta, shape.heads, rates, &cfg.exp)?;
    // |Δ·x| was checked against 2^62 when the formats were built.
    let scaled = dom.product(&delta.repeat_each(shape.head_dim), x)?;
    let scaled = truncate_to(dom, &scaled, cfg.frac().0)?;
    Ok(Factors {
        delta,
        decay,
        scaled,
    })
}

/// `y = (m + D·x)·silu(z)`. `m`, `x`, `z`: `[tokens, heads, head_dim]` at `F` (`x` after its SiLU, without `Δ`); `skip`: `D`
/// of each head, `[heads]`, given by the server only. Result: the same shape at `F`.
///
/// The error is that of [`mosilu`] times `|m + D·x|`, plus one unit times `|silu(z)|`, plus one unit.
/// **Counts** ([`crate::counts::gate`]): MoSiLU, and 1 known product, 1 product, 2 truncations an element.
/// **Batches**: those of [`mosilu`]; known product, truncation; product, truncation.
///
/// # Errors
/// `Shape`, `Frac`; errors of the domain.
pub fn gate<D: Domain>(
    dom: &mut D,
    m: &Shares,
    x: &Shares,
    z: &Shares,
    skip: Option<&[f64]>,
    shape: HeadShape,
    cfg: &BlockConfig,
) -> Result<Shares, NonlinearError> {
    let silu_z = mosilu(dom, z, &cfg.silu_gate)?;
    gate_activated(dom, m, x, &silu_z, skip, shape, cfg)
}

/// [`gate`] with `silu(z)` given, for callers that compute it in one batch with other activations.
///
/// **Counts** ([`crate::counts::gate_activated`]): 1 known product, 1 product, 2 truncations an element.
///
/// # Errors
/// `Shape`, `Frac`; errors of the domain.
pub fn gate_activated<D: Domain>(
    dom: &mut D,
    m: &Shares,
    x: &Shares,
    silu_z: &Shares,
    skip: Option<&[f64]>,
    shape: HeadShape,
    cfg: &BlockConfig,
) -> Result<Shares, NonlinearError> {
    let op = "gate";
    let frac = cfg.frac();
    let n = area(op, &[shape.tokens, shape.heads, shape.head_dim])?;
    expect(op, "scan output", m, n, frac)?;
    expect(op, "inputs", x, n, frac)?;
    expect(op, "gate", silu_z, n, frac)?;
    let words = spread_known(
        op,
        "skip weights",
        skip,
        shape.heads,
        frac,
        shape.tokens,
        shape.head_dim,
    )?;
    // m joins at 2F, so that skip and scan output are rounded once.
    let sum = dom
        .product_known(Party::Server, x, words.as_deref(), frac)?
        .plus(&m.raised(frac.0))?;
    let sum = truncate_to(dom, &sum, frac.0)?;
    let y = dom.product(&sum, silu_z)?;
    truncate_to(dom, &y, frac.0)
}
