//! Pooling with the client's weights, the server's classifier, and the faithful cut of the logits.

use crate::words::{area, expect, truncate_to};
use crate::{NonlinearError, PoolConfig, PoolShape};
use cipherloom_mpc::{Domain, Party, Shares};
use cipherloom_spec::fixed::{OUTPUT_BITS, OUTPUT_FRAC};

/// What each party contributes: the client its pooling weights, the server matrix and bias.
#[derive(Clone, Copy, Default)]
pub struct PoolKnown<'a> {
    /// Client: pooling weights `[tokens]`, non-negative with sum 1 (one-hot for the last token), as words at
    /// [`PoolConfig::weight_frac`].
    pub weights: Option<&'a [u64]>,
    /// Server: matrix `[classes, width]`, row-major.
    pub matrix: Option<&'a [f64]>,
    /// Server: bias `[classes]`.
    pub bias: Option<&'a [f64]>,
}

/// Logits `W·(Σ_k w_k h_k) + b`. `h`: `[tokens, width]` at `F`; result: `[classes]` words modulo 2^32 with 12 fraction
/// bits, zero-extended, rounded to nearest by the faithful truncate-and-reduce (protocols.md R4). They may be opened to
/// the client.
///
/// **Error.** Pooled value: one unit of `F` plus the rounding of the weights (`tokens·2^-31·hidden_max` at most); a logit:
/// `‖W‖₁` times that, plus the rounding of `W`, plus `2^-13`.
/// **Counts** ([`crate::counts::pool_and_classify`]): `(tokens + classes)·width` known products, `width` truncations,
/// `classes` faithful truncations. **Batches**: known product; truncation; known product; faithful truncation.
///
/// # Errors
/// `Shape`, `Frac`; `Owner` and transport errors of the domain.
pub fn pool_and_classify<D: Domain>(
    dom: &mut D,
    h: &Shares,
    known: PoolKnown<'_>,
    cfg: &PoolConfig,
) -> Result<Shares, NonlinearError> {
    let op = "pool_and_classify";
    let PoolShape {
        tokens,
        width,
        classes,
    } = cfg.literal().shape;
    let frac = cfg.literal().frac;
    expect(op, "hidden states", h, area(op, &[tokens, width])?, frac)?;
    check(
        op,
        "pooling weights",
        known.weights.map(<[u64]>::len),
        tokens,
    )?;
    check(
        op,
        "classifier matrix",
        known.matrix.map(<[f64]>::len),
        area(op, &[classes, width])?,
    )?;
    check(op, "classifier bias", known.bias.map(<[f64]>::len), classes)?;

    let w: Option<Vec<u64>> = known.weights.map(|w| {
        w.iter()
            .flat_map(|&a| std::iter::repeat_n(a, width))
            .collect()
    });
    let weighted = dom.product_known(Party::Client, h, w.as_deref(), cfg.weight_frac())?;
    let mut pooled = Shares::zeros(width, weighted.frac);
    for row in weighted.v.chunks_exact(width) {
        for (s, a) in pooled.v.iter_mut().zip(row) {
            *s = s.wrapping_add(*a);
        }
    }
    let pooled = truncate_to(dom, &pooled, frac.0)?;

    let copies = Shares {
        v: pooled.v.repeat(classes),
        frac,
    };
    let matrix: Option<Vec<u64>> = known
        .matrix
        .map(|m| m.iter().map(|&v| cfg.matrix_frac().encode(v)).collect());
    let logits = dom
        .product_known(Party::Server, &copies, matrix.as_deref(), cfg.matrix_frac())?
        .sum_groups(width)?;
    let bias: Option<Vec<u64>> = known
        .bias
        .map(|b| b.iter().map(|&v| logits.frac.encode(v)).collect());
    let logits = dom.add_known(Party::Server, &logits, bias.as_deref())?;
    Ok(dom.truncate_reduce_faithful(&logits, logits.frac.0 - OUTPUT_FRAC.0, OUTPUT_BITS)?)
}

fn check(
    op: &'static str,
    what: &'static str,
    have: Option<usize>,
    need: usize,
) -> Result<(), NonlinearError> {
    match have {
        Some(have) if have != need => Err(NonlinearError::Shape {
            op,
            what,
            have,
            need,
        }),
        _ => Ok(()),
    }
}
