//! Formats of pooling and classifier.

use super::even::FRAC_RANGE;
use super::words::{bits_above, in_range, WORD_BITS};
use super::FormatError;
use crate::fixed::{OUTPUT_BITS, OUTPUT_FRAC};
use crate::FracBits;
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
    type Error = FormatError;

    fn try_from(l: PoolLiteral) -> Result<Self, FormatError> {
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
    pub fn new(literal: PoolLiteral) -> Result<Self, FormatError> {
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
