//! Pooling with the client's weights, the server's classifier, and the faithful cut of the logits.

use crate::even::FRAC_RANGE;
use crate::words::{area, bits_above, expect, in_range, truncate_to, WORD_BITS};
use crate::NonlinearError;
use cipherloom_mpc::{Domain, Party, Shares};
use cipherloom_spec::fixed::{OUTPUT_BITS, OUTPUT_FRAC};
use cipherloom_spec::FracBits;
use serde::{Deserialize, Serialize};

/// Shape of pooling and classifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolShape {
    /// Tokens `L` (the bucket, padding included).
    pub tokens: usize,
    /// Width of a token.
    pub width: usize,
    /// Classes.
    pub classes: usize,
}

/// What a [`PoolConfig`] is built from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolLiteral {
    /// Shape.
    pub shape: PoolShape,
    /// Fraction bits of the hidden states.
    pub frac: FracBits,
    /// Largest absolute value of a hidden state, hence of a pooled value (weights are non-negative with sum 1).
    pub hidden_max: f64,
    /// Largest absolute value of a logit before its bias, and of the bias.
    pub logit_max: f64,
}

/// Checked formats of pooling and classifier. Serialised as its [`PoolLiteral`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "PoolLiteral", into = "PoolLiteral")]
pub struct PoolConfig {
    literal: PoolLiteral,
    weight_frac: FracBits,
    matrix_frac: FracBits,
}

impl TryFrom<PoolLiteral> for PoolConfig {
    type Error = NonlinearError;

    fn try_from(l: PoolLiteral) -> Result<Self, NonlinearError> {
        Self::new(l)
    }
}

impl From<PoolConfig> for PoolLiteral {
    fn from(c: PoolConfig) -> Self {
        c.literal
    }
}

impl PoolConfig {
    /// Derives the fraction bits of pooling weights (as many as fit, at most 30: the mean over many tokens needs them)
    /// and of the classifier matrix (at most 24).
    ///
    /// # Errors
    /// `Parameter` when fewer than 16 bits are left for either, or a logit would not fit the output ring.
    pub fn new(literal: PoolLiteral) -> Result<Self, NonlinearError> {
        let frac = literal.frac.0 as i32;
        in_range(
            "fraction bits",
            f64::from(frac),
            FRAC_RANGE.0,
            FRAC_RANGE.1,
            "use 19",
        )?;
        let PoolShape {
            tokens,
            width,
            classes,
        } = literal.shape;
        for (what, n) in [("tokens", tokens), ("width", width), ("classes", classes)] {
            in_range(what, n as f64, 1.0, 24f64.exp2(), "check the shape")?;
        }
        let small = (-20f64).exp2();
        let room = f64::from(WORD_BITS - frac - 16 - 1).exp2();
        in_range(
            "hidden_max",
            literal.hidden_max,
            small,
            room,
            "recalibrate the final norm",
        )?;
        // Logit and bias together: one bit more; a signed number of 32 bits with 12 fraction bits.
        let output = f64::from(OUTPUT_BITS - OUTPUT_FRAC.0 - 2).exp2();
        in_range(
            "logit_max",
            literal.logit_max,
            small,
            output,
            "scale the classifier",
        )?;
        let weight_frac = (WORD_BITS - frac - bits_above(literal.hidden_max)).min(30);
        let matrix_frac = (WORD_BITS - frac - bits_above(literal.logit_max) - 1).min(24);
        Ok(Self {
            literal,
            weight_frac: FracBits(weight_frac as u32),
            matrix_frac: FracBits(matrix_frac as u32),
        })
    }
    /// Shape.
    #[must_use]
    pub fn shape(&self) -> PoolShape {
        self.literal.shape
    }
    /// What the formats were built from.
    #[must_use]
    pub fn literal(&self) -> &PoolLiteral {
        &self.literal
    }
    /// Fraction bits of the client's pooling weights.
    #[must_use]
    pub fn weight_frac(&self) -> FracBits {
        self.weight_frac
    }
    /// Fraction bits of the server's matrix.
    #[must_use]
    pub fn matrix_frac(&self) -> FracBits {
        self.matrix_frac
    }
}

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
    } = cfg.literal.shape;
    let frac = cfg.literal.frac;
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
    let weighted = dom.product_known(Party::Client, h, w.as_deref(), cfg.weight_frac)?;
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
        .map(|m| m.iter().map(|&v| cfg.matrix_frac.encode(v)).collect());
    let logits = dom
        .product_known(Party::Server, &copies, matrix.as_deref(), cfg.matrix_frac)?
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
