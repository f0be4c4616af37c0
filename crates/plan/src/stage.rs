//! Stages and their contracts.

use crate::PlanError;
use cipherloom_spec::cost::{HeCounts, MpcCounts, Traffic};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// How a logical tensor sits where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Row-major `[rows, columns]` words.
    Rows {
        /// Tokens (or 1).
        rows: usize,
        /// Features.
        columns: usize,
    },
    /// Segment-column slots, two token tiles a ciphertext (`spec::projection::TokenLayout`).
    SegmentColumn {
        /// Rows of a segment.
        rows: usize,
        /// Features in the tensor.
        columns: usize,
    },
    /// Compact scan packet and output maps (`spec::layout::ScanLayout`).
    ScanCompact,
    /// One number a label; one number in all for the label itself.
    Labels(usize),
}

/// Where a tensor lives and in which format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Domain {
    /// In the clear at the client.
    Client,
    /// Additive shares modulo `2^bits` with `frac` fraction bits.
    Shares {
        /// Ring width.
        bits: u32,
        /// Fraction bits.
        frac: u32,
    },
    /// CKKS ciphertexts of one ring at one level, at that level's canonical scale.
    Ckks {
        /// Ring name: `projection` or `scan`.
        ring: Ring,
        /// Level.
        level: usize,
    },
}

/// The CKKS rings of a plan; each has its own secret key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ring {
    /// Projections and convolution.
    Projection,
    /// The scan.
    Scan,
}

impl Ring {
    /// The name used in documents and error messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Projection => "projection",
            Self::Scan => "scan",
        }
    }
}

/// One tensor of a contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Tensor name, unique within the layer.
    pub tensor: String,
    /// Layout.
    pub layout: Layout,
    /// Domain.
    pub domain: Domain,
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} in {:?}", self.layout, self.domain)
    }
}

/// What a stage does. The algorithm variant is part of the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageKind {
    /// The client shares its embedded tokens.
    Embed,
    /// Inverse RMS on shares, then the product with the row.
    PreNorm,
    /// Shares to CKKS: the projection input.
    ToCkks,
    /// BSGS projection with plaintext weights.
    InProjection,
    /// Causal depthwise convolution.
    Convolution,
    /// CKKS to shares: z, convolved xBC, dt.
    ToShares,
    /// SiLU, softplus, exp: the factors of the recurrence.
    Factors,
    /// Shares to CKKS: the compact scan packet.
    Packet,
    /// Encrypted prefix scan and contraction.
    ScanContract,
    /// CKKS to shares: the contracted states.
    ScanToShares,
    /// Skip, gate, gated RMS norm on shares.
    Post,
    /// Shares to CKKS: the out-projection input.
    PostToCkks,
    /// BSGS projection with plaintext weights.
    OutProjection,
    /// CKKS to shares, added to the residual stream.
    Residual,
    /// Final norm, pooling, classifier on shares.
    Classify,
    /// The server sends its share of the rounded logits, or of the index of the largest one.
    Output,
}

/// What a stage costs; predicted by the plan, counted by a run, equal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageCost {
    /// Homomorphic operations.
    pub he: HeCounts,
    /// Two-party operations.
    pub mpc: MpcCounts,
    /// Bytes and flights.
    pub traffic: Traffic,
    /// Most ciphertexts alive at once in the stage's kernel.
    pub peak_live_ciphertexts: u64,
}

/// One step of an inference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Position and frame stage number.
    pub id: u16,
    /// Name for people, for example `layer0.scan`.
    pub name: String,
    /// Block number.
    pub layer: Option<usize>,
    /// What it does.
    pub kind: StageKind,
    /// Algorithm variant for people, for example `he_scan(brent-kung, block 128, carry serial)`.
    pub variant: String,
    /// Tensors consumed.
    pub inputs: Vec<Port>,
    /// Tensors produced.
    pub outputs: Vec<Port>,
    /// Levels consumed by the kernel.
    pub depth: usize,
    /// Predicted cost.
    pub cost: StageCost,
    /// log2 of the failure probability of the stage; `-inf` is written as -1074.
    pub failure_log2: f64,
}

/// Checks that every input of every stage equals what an earlier stage of the same layer (or the residual stream) produced.
///
/// # Errors
/// `Contract` naming stage, tensor and both formats.
pub fn check_contracts(stages: &[Stage]) -> Result<(), PlanError> {
    let mut have: BTreeMap<(Option<usize>, String), Port> = BTreeMap::new();
    let mut stream: BTreeMap<String, Port> = BTreeMap::new();
    for s in stages {
        for i in &s.inputs {
            let found = have
                .get(&(s.layer, i.tensor.clone()))
                .or_else(|| stream.get(&i.tensor));
            if found != Some(i) {
                return Err(PlanError::Contract {
                    stage: s.name.clone(),
                    tensor: i.tensor.clone(),
                    want: i.to_string(),
                    have: found.map_or_else(|| "nothing".to_string(), ToString::to_string),
                });
            }
        }
        for o in &s.outputs {
            if o.tensor == "h" || s.layer.is_none() {
                stream.insert(o.tensor.clone(), o.clone());
            } else {
                have.insert((s.layer, o.tensor.clone()), o.clone());
            }
        }
    }
    Ok(())
}
