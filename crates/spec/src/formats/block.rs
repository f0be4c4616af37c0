//! Formats of all nonlinear functions of one block, built from its calibrated ranges.

use super::even::{check_common, EvenConfig, EvenKind};
use super::words::{fits, in_range};
use super::{ExpConfig, FormatError, NormConfig, NormLiteral};
use crate::approx::{NeRms, Stack};
use crate::FracBits;
use serde::{Deserialize, Serialize};

/// Shape of `[tokens, heads, head_dim]` tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadShape {
    /// Tokens (rows).
    pub tokens: usize,
    /// Heads.
    pub heads: usize,
    /// Channels of a head.
    pub head_dim: usize,
}

/// Calibrated ranges of one block. All are bounds of absolute values unless said otherwise; a plan rounds them outwards
/// to powers of two, because they are public.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockRanges {
    /// Convolution output before its SiLU.
    pub conv_abs: f64,
    /// Gate `z` before its SiLU.
    pub gate_abs: f64,
    /// Time step `dt` with bias, before softplus.
    pub step_abs: f64,
    /// `A` over all heads.
    pub rate_abs: f64,
    /// `m + D·x`: scan output with skip.
    pub scan_abs: f64,
    /// `mean(h²) + eps` of the pre-norm: lower and upper end.
    pub pre_norm: (f64, f64),
    /// `mean(y²) + eps` of the gated norm: lower and upper end.
    pub gated_norm: (f64, f64),
}

/// What a [`BlockConfig`] is built from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockLiteral {
    /// Approximations.
    pub stack: Stack,
    /// Fraction bits `F` of every stored tensor; 19 by default.
    pub frac: FracBits,
    /// Fraction bits that comparisons of activations keep, 12 or more; 13 by default.
    pub kept_frac: u32,
    /// Width of the residual stream.
    pub model_width: usize,
    /// Width of the inner stream (heads times channels of a head).
    pub inner_width: usize,
    /// `eps` of both norms.
    pub eps: f64,
    /// Calibrated ranges.
    pub ranges: BlockRanges,
}

/// Checked formats of one block. Serialised as its [`BlockLiteral`]; both parties derive the same formats from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "BlockLiteral", into = "BlockLiteral")]
pub struct BlockConfig {
    literal: BlockLiteral,
    /// SiLU on the convolution output (x, B, C).
    pub silu_conv: EvenConfig,
    /// SiLU on the gate.
    pub silu_gate: EvenConfig,
    /// Softplus on the time step.
    pub softplus: EvenConfig,
    /// Decay.
    pub exp: ExpConfig,
    /// Norm before the input projection.
    pub pre_norm: NormConfig,
    /// Norm after the gate.
    pub gated_norm: NormConfig,
}

impl TryFrom<BlockLiteral> for BlockConfig {
    type Error = FormatError;

    fn try_from(l: BlockLiteral) -> Result<Self, FormatError> {
        Self::new(l)
    }
}

impl From<BlockConfig> for BlockLiteral {
    fn from(c: BlockConfig) -> Self {
        c.literal
    }
}

impl BlockConfig {
    /// Derives and checks all formats.
    ///
    /// # Errors
    /// `Parameter` and `Overflow` name the range that does not fit; `Table`, `Thresholds` for the norms.
    pub fn new(literal: BlockLiteral) -> Result<Self, FormatError> {
        let BlockLiteral {
            stack,
            frac,
            kept_frac,
            model_width,
            inner_width,
            eps,
            ranges,
        } = literal;
        check_common(frac, kept_frac)?;
        let spec = stack.spec();
        let recalibrate = "recalibrate the range or lower the fraction bits";
        in_range("scan_abs", ranges.scan_abs, 0.0, 24f64.exp2(), recalibrate)?;
        let silu = |max| EvenConfig::new(EvenKind::Silu, spec.silu, frac, kept_frac, max);
        let silu_conv = silu(ranges.conv_abs)?;
        let silu_gate = silu(ranges.gate_abs)?;
        let softplus = EvenConfig::new(
            EvenKind::Softplus,
            spec.softplus,
            frac,
            kept_frac,
            ranges.step_abs,
        )?;
        // softplus(x) <= max(x, tau) + ln(1 + e^-tau) + error < max(x, tau) + 0.1.
        let delta_max = ranges.step_abs.max(spec.softplus.tau) + 0.1;
        let exp = ExpConfig::new(spec.exp, frac, kept_frac, delta_max, ranges.rate_abs)?;
        // |silu(x)| <= |x| + 0.3 with any of the approximations.
        let double = 2 * frac.0;
        fits(
            "time step times input",
            delta_max * (ranges.conv_abs + 0.3),
            double,
            recalibrate,
        )?;
        fits(
            "scan output with skip",
            ranges.scan_abs,
            double,
            recalibrate,
        )?;
        fits(
            "gated output",
            ranges.scan_abs * (ranges.gate_abs + 0.3),
            double,
            recalibrate,
        )?;
        let norm = |len, (low, high)| {
            NormConfig::new(NormLiteral {
                len,
                eps,
                frac,
                table: NeRms::new(low, high, spec.newton)?,
                clamp: true,
            })
        };
        Ok(Self {
            literal,
            silu_conv,
            silu_gate,
            softplus,
            exp,
            pre_norm: norm(model_width, ranges.pre_norm)?,
            gated_norm: norm(inner_width, ranges.gated_norm)?,
        })
    }

    /// What the formats were built from.
    #[must_use]
    pub fn literal(&self) -> &BlockLiteral {
        &self.literal
    }
    /// Fraction bits `F` of every stored tensor.
    #[must_use]
    pub fn frac(&self) -> FracBits {
        self.literal.frac
    }
}
