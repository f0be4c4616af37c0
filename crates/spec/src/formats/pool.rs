//! Formats of pooling and classifier.

use super::even::FRAC_RANGE;
use super::words::{bits_above, ceil_log2, in_range, SPARE_BITS, WORD_BITS};
use super::{CompareFormat, FormatError};
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
    /// Format of comparisons of two rounded logits, for an answer that is the label alone: all fraction bits, so that the
    /// label is exact, and integer bits for four times `logit_max` (each logit has its bias) plus two spare (R16).
    ///
    /// # Errors
    /// `Parameter` when that does not fit the output ring `Z_2^32`: `logit_max` above 2^15.
    pub fn label_format(&self) -> Result<CompareFormat, FormatError> {
        let small = (-20f64).exp2();
        let widest = OUTPUT_BITS as i32 - 1 - OUTPUT_FRAC.0 as i32;
        in_range(
            "logit_max of an answer by label",
            self.literal.logit_max,
            small,
            f64::from(widest - SPARE_BITS - 2).exp2(),
            "scale the classifier, or answer with logits",
        )?;
        let int_bits = ceil_log2(4.0 * self.literal.logit_max) + SPARE_BITS;
        Ok(CompareFormat {
            kept_frac: OUTPUT_FRAC.0,
            int_bits: int_bits.max(0) as u32,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixed::DEFAULT_FRAC;

    #[test]
    fn labels_are_compared_on_as_many_bits_as_the_logits_need() {
        let format = |logit_max: f64| {
            PoolConfig::new(PoolLiteral {
                shape: PoolShape {
                    tokens: 128,
                    width: 64,
                    classes: 2,
                },
                frac: DEFAULT_FRAC,
                hidden_max: 16.0,
                logit_max,
            })
            .and_then(|c| c.label_format())
        };
        // 4 * 16 = 2^6, and two spare bits.
        for (logit_max, int_bits) in [(16.0, 8), (12.5, 8), (0.5, 3), (1e-4, 0), (32_768.0, 19)] {
            let f = format(logit_max).ok();
            assert_eq!(f.map(|f| (f.int_bits, f.kept_frac)), Some((int_bits, 12)));
        }
        // The logits would still fit their ring, their differences not.
        assert!(matches!(
            format(32_769.0),
            Err(FormatError::Parameter { .. })
        ));
    }
}
