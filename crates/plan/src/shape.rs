//! Shapes of a Mamba-2 classifier: all that a plan needs to know of a model besides its calibration.

use crate::PlanError;
use serde::{Deserialize, Serialize};

/// How token states become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// Mean over the real tokens.
    Mean,
    /// The last real token.
    Last,
}

/// Dimensions of a Mamba-2 sequence classifier. Sizes in elements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelShape {
    /// Name for people: folder or shape name.
    pub name: String,
    /// Vocabulary size (the embedding table is public).
    pub vocab: usize,
    /// Residual width, `d_model`.
    pub hidden: usize,
    /// Heads H.
    pub heads: usize,
    /// Head width P; the inner width is `E = H * P`.
    pub head_dim: usize,
    /// State size `d_s`.
    pub state: usize,
    /// Groups G that share B and C.
    pub groups: usize,
    /// Taps of the causal depthwise convolution.
    pub conv: usize,
    /// Number of blocks.
    pub layers: usize,
    /// Number of labels.
    pub labels: usize,
    /// Pooling of the classifier.
    pub pooling: Pooling,
    /// Epsilon of every RMS norm.
    pub eps: f64,
}

impl ModelShape {
    /// Inner width `E = heads * head_dim`.
    #[must_use]
    pub fn inner(&self) -> usize {
        self.heads * self.head_dim
    }
    /// Width of the convolved part, `E + 2 G d_s`.
    #[must_use]
    pub fn conv_dim(&self) -> usize {
        self.inner() + 2 * self.groups * self.state
    }
    /// Rows of the in-projection, `2E + 2 G d_s + H` in the order z, x, B, C, dt.
    #[must_use]
    pub fn in_width(&self) -> usize {
        self.inner() + self.conv_dim() + self.heads
    }

    /// A shape known by name.
    ///
    /// # Errors
    /// `UnknownShape` listing the names.
    pub fn named(name: &str) -> Result<Self, PlanError> {
        let full = |name: &str, layers| Self {
            name: name.to_string(),
            vocab: 50_288,
            hidden: 768,
            heads: 24,
            head_dim: 64,
            state: 128,
            groups: 1,
            conv: 4,
            layers,
            labels: 2,
            pooling: Pooling::Mean,
            eps: 1e-5,
        };
        match name {
            "mamba-base" => Ok(full(name, 12)),
            "mamba-130m" => Ok(full(name, 24)),
            "moviedoc" => Ok(Self {
                name: name.to_string(),
                vocab: 4096,
                hidden: 64,
                heads: 8,
                head_dim: 16,
                state: 16,
                groups: 1,
                conv: 4,
                layers: 2,
                labels: 2,
                pooling: Pooling::Mean,
                eps: 1e-5,
            }),
            _ => Err(PlanError::UnknownShape {
                name: name.to_string(),
                known: "mamba-base, mamba-130m, moviedoc",
            }),
        }
    }

    /// Checks what the protocols support.
    ///
    /// # Errors
    /// `Unsupported` naming the field.
    pub fn validate(&self) -> Result<(), PlanError> {
        let bad =
            |field: &'static str, detail: String| Err(PlanError::Unsupported { field, detail });
        for (field, v, max) in [
            ("vocab", self.vocab, 1 << 20),
            ("hidden", self.hidden, 1 << 14),
            ("heads", self.heads, 1 << 10),
            ("head_dim", self.head_dim, 1 << 10),
            ("state", self.state, 1 << 10),
            ("groups", self.groups, 1 << 8),
            ("layers", self.layers, 1 << 9),
            ("labels", self.labels, 1 << 12),
        ] {
            if v == 0 || v > max {
                return bad(field, format!("{v} is outside 1..={max}"));
            }
        }
        if self.groups != 1 {
            return bad(
                "groups",
                format!("{} groups; this release runs one group", self.groups),
            );
        }
        if self.conv < 2 || self.conv > 8 {
            return bad("conv", format!("{} taps; 2 to 8 are supported", self.conv));
        }
        if !self.state.is_multiple_of(2) || !(self.state / 2).is_power_of_two() {
            return bad(
                "state",
                format!("{} is not a power of two of at least 2", self.state),
            );
        }
        if !(self.eps > 0.0 && self.eps < 1e-2) {
            return bad("eps", format!("{} is outside (0, 0.01)", self.eps));
        }
        Ok(())
    }
}
