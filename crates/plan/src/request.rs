//! What a plan is built from: shape, lengths, formats. Everything else follows.

use crate::{ModelShape, PlanError, Pooling};
use cipherloom_model::{Calibration, Mamba2, Mamba2Config, NormId, Pooling as ModelPooling};
use cipherloom_spec::approx::{NeRms, Stack};
use cipherloom_spec::fixed::DEFAULT_FRAC;
use cipherloom_spec::formats::{BlockLiteral, BlockRanges, NormLiteral, PoolLiteral, PoolShape};
use cipherloom_spec::schedule::Carry;
use serde::{Deserialize, Serialize};

/// Fraction bits that comparisons of activations keep.
pub const KEPT_FRAC: u32 = 13;

/// What the client learns at the end of a session. The server learns nothing either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// All logits, rounded to 12 fraction bits.
    Logits,
    /// The index of the largest rounded logit, the lowest among equals, and nothing else.
    Label,
}

impl Answer {
    /// The name used in documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Logits => "logits",
            Self::Label => "label",
        }
    }

    /// Whether a deployment that gives `self` may serve a client that asks for `asked`: the same, or less. The logits
    /// determine the label, never the reverse.
    #[must_use]
    pub fn covers(self, asked: Self) -> bool {
        self == asked || self == Self::Logits
    }
}

/// The free choices of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Dimensions.
    pub shape: ModelShape,
    /// Label names, public.
    pub labels: Vec<String>,
    /// Sequence length L in tokens.
    pub length: usize,
    /// Scan block in tokens; `None` for the largest that fits.
    pub block: Option<usize>,
    /// Carry over scan blocks.
    pub carry: Carry,
    /// Formats and approximations of each block.
    pub blocks: Vec<BlockLiteral>,
    /// The norm after the last block.
    pub final_norm: NormLiteral,
    /// Pooling and classifier.
    pub pool: PoolLiteral,
    /// What the client learns.
    pub answer: Answer,
}

/// The smallest power of two that is at least `x`: what a plan publishes of a range.
fn outwards(x: f64) -> f64 {
    x.max(f64::MIN_POSITIVE).log2().ceil().exp2()
}

impl ModelShape {
    /// The shape of a model's configuration.
    #[must_use]
    pub fn of(name: &str, c: &Mamba2Config) -> Self {
        Self {
            name: name.to_string(),
            vocab: c.vocab_size,
            hidden: c.hidden_size,
            heads: c.num_heads,
            head_dim: c.head_dim,
            state: c.state_size,
            groups: c.n_groups,
            conv: c.conv_kernel,
            layers: c.num_hidden_layers,
            labels: c.num_labels(),
            pooling: match c.pooling {
                ModelPooling::Mean => Pooling::Mean,
                ModelPooling::Last => Pooling::Last,
            },
            eps: c.layer_norm_epsilon,
        }
    }
}

impl Request {
    /// From a calibrated model. Only ranges rounded outwards to powers of two go into the plan. The answer is the logits.
    ///
    /// # Errors
    /// `Request` when a range is missing from the calibration.
    pub fn for_model(
        name: &str,
        model: &Mamba2,
        calibration: &Calibration,
        length: usize,
        block: Option<usize>,
        carry: Carry,
    ) -> Result<Self, PlanError> {
        let shape = ModelShape::of(name, &model.config);
        let magnitude = |tensor: String| {
            calibration
                .ranges
                .of(&tensor)
                .map(|r| outwards(r.magnitude()))
                .ok_or_else(|| PlanError::Request {
                    field: "calibration",
                    value: tensor,
                    detail: "this tensor has no range; calibrate again".into(),
                })
        };
        let table = |id: NormId| {
            calibration
                .norms
                .table(id)
                .cloned()
                .ok_or_else(|| PlanError::Request {
                    field: "calibration",
                    value: id.tensor(),
                    detail: "this norm has no table; calibrate again".into(),
                })
        };
        let mut blocks = Vec::with_capacity(shape.layers);
        for (i, layer) in model.layers.iter().enumerate() {
            let (pre, gated) = (table(NormId::Pre(i))?, table(NormId::Gated(i))?);
            let mut conv_abs = 0.0f64;
            for part in ["x", "B", "C"] {
                conv_abs = conv_abs.max(magnitude(format!("layer{i}.conv_pre_silu.{part}"))?);
            }
            blocks.push(BlockLiteral {
                stack: calibration.stack,
                frac: DEFAULT_FRAC,
                kept_frac: KEPT_FRAC,
                model_width: shape.hidden,
                inner_width: shape.inner(),
                eps: shape.eps,
                ranges: BlockRanges {
                    conv_abs,
                    gate_abs: magnitude(format!("layer{i}.gate_z"))?,
                    step_abs: magnitude(format!("layer{i}.dt_pre_softplus"))?,
                    rate_abs: outwards(layer.a.iter().fold(0.0, |m: f64, a| m.max(a.abs()))),
                    scan_abs: magnitude(format!("layer{i}.scan_out"))?,
                    pre_norm: (pre.v_min, pre.v_max),
                    gated_norm: (gated.v_min, gated.v_max),
                },
            });
        }
        let last = table(NormId::Final)?;
        let logit_max = magnitude("logits".into())?;
        Ok(Self {
            labels: model.config.labels.clone(),
            length,
            block,
            carry,
            blocks,
            final_norm: NormLiteral {
                len: shape.hidden,
                eps: shape.eps,
                frac: DEFAULT_FRAC,
                table: last,
                clamp: true,
            },
            pool: pool(&shape, length, logit_max),
            answer: Answer::Logits,
            shape,
        })
    }

    /// For a shape alone, with ranges typical of trained checkpoints: for costs and depths, not for a deployment. The
    /// answer is the logits.
    ///
    /// # Errors
    /// `Request` in practice never.
    pub fn for_shape(
        shape: ModelShape,
        length: usize,
        block: Option<usize>,
        carry: Carry,
        stack: Stack,
    ) -> Result<Self, PlanError> {
        let typical = BlockLiteral {
            stack,
            frac: DEFAULT_FRAC,
            kept_frac: KEPT_FRAC,
            model_width: shape.hidden,
            inner_width: shape.inner(),
            eps: shape.eps,
            ranges: BlockRanges {
                conv_abs: 16.0,
                gate_abs: 16.0,
                step_abs: 16.0,
                rate_abs: 16.0,
                scan_abs: 64.0,
                pre_norm: (0.0625, 16.0),
                gated_norm: (0.001_953_125, 8.0),
            },
        };
        let table =
            NeRms::new(0.0625, 16.0, stack.spec().newton).map_err(|e| PlanError::Request {
                field: "final norm",
                value: "0.0625..16".into(),
                detail: e.to_string(),
            })?;
        Ok(Self {
            labels: (0..shape.labels).map(|i| format!("label {i}")).collect(),
            length,
            block,
            carry,
            blocks: vec![typical; shape.layers],
            final_norm: NormLiteral {
                len: shape.hidden,
                eps: shape.eps,
                frac: DEFAULT_FRAC,
                table,
                clamp: true,
            },
            pool: pool(&shape, length, 16.0),
            answer: Answer::Logits,
            shape,
        })
    }
}

fn pool(shape: &ModelShape, length: usize, logit_max: f64) -> PoolLiteral {
    PoolLiteral {
        shape: PoolShape {
            tokens: length,
            width: shape.hidden,
            classes: shape.labels,
        },
        frac: DEFAULT_FRAC,
        // A normalised row has entries of at most sqrt(width), up to the error of the reciprocal root.
        hidden_max: outwards(1.25 * (shape.hidden as f64).sqrt()),
        logit_max,
    }
}
