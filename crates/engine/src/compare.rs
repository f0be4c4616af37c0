//! `--compare-plain`: joins both parties' local share files and compares every stage with the plaintext surrogate.

use crate::dump::{join, JoinedStage};
use crate::EngineError;
use cipherloom_model::{forward, Encoded, Mamba2, Matrix, Surrogate, Trace};
use cipherloom_plan::Plan;
use serde::Serialize;
use std::path::Path;

/// A stage diverges when a value is off by more than this share of the tensor's largest magnitude (at least of 1).
const TOLERANCE: f64 = 0.01;

/// One tensor of one stage.
#[derive(Debug, Clone, Serialize)]
pub struct StageDiff {
    /// Stage name.
    pub stage: String,
    /// Tensor name.
    pub tensor: String,
    /// Largest absolute difference from the surrogate.
    pub max_diff: f64,
    /// Largest magnitude in the surrogate.
    pub max_abs: f64,
}

/// All stages, and the first that diverges.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// In order.
    pub stages: Vec<StageDiff>,
    /// Name of the first stage beyond the tolerance.
    pub first_divergence: Option<String>,
}

/// The plaintext value of a tensor of shares, row-major.
fn plain(model: &Mamba2, trace: &Trace, layer: Option<usize>, tensor: &str) -> Option<Vec<f64>> {
    let get = |name: &str| -> Option<&Matrix> {
        let full = layer.map_or_else(|| name.to_string(), |l| format!("layer{l}.{name}"));
        trace.tensors.get(&full)
    };
    let inner = model.config.inner();
    let bc = model.config.n_groups * model.config.state_size;
    let columns = |m: &Matrix, from: usize, to: usize| m.columns(from, to).data;
    // Norm weights are folded into the projections: shares hold rows before the weight. `max` below skips NaN.
    let unweighted = |m: &Matrix, w: &[f64]| -> Vec<f64> {
        m.data
            .iter()
            .enumerate()
            .map(|(i, v)| match w.get(i % w.len().max(1)) {
                // A zero weight hides the value: nothing to compare with.
                Some(&w) if w != 0.0 => v / w,
                _ => f64::NAN,
            })
            .collect()
    };
    let weights = layer.and_then(|l| model.layers.get(l));
    Some(match tensor {
        "h" if layer.is_none() => get("embeddings")?.data.clone(),
        "h" => get("out")?.data.clone(),
        "u" => unweighted(get("prenorm_out")?, &weights?.norm),
        "z" => get("gate_z")?.data.clone(),
        "xbc" => get("conv_pre_silu")?.data.clone(),
        "dt" => get("dt_pre_softplus")?.data.clone(),
        "x" => columns(get("conv_out")?, 0, inner),
        "b" => columns(get("conv_out")?, inner, inner + bc),
        "c" => columns(get("conv_out")?, inner + bc, inner + 2 * bc),
        "delta" => get("dt")?.data.clone(),
        "decay" => get("decay")?.data.clone(),
        "dtx" => get("dtx")?.data.clone(),
        "m" => get("scan_m")?.data.clone(),
        "gated" => get("gated")?.data.clone(),
        "y" => unweighted(get("gated_norm_out")?, &weights?.gated_norm),
        "logits" => get("logits")?.data.clone(),
        _ => return None,
    })
}

/// Compares all stages.
///
/// # Errors
/// Missing or malformed share files; model errors.
pub fn compare(
    dir: &Path,
    model: &Mamba2,
    surrogate: &Surrogate,
    plan: &Plan,
    text: &Encoded,
) -> Result<Comparison, EngineError> {
    let mut trace = Trace::default();
    forward(model, &text.ids, text.real, surrogate, &mut trace)?;
    let joined: Vec<JoinedStage> = join(dir, plan.stages())?;
    let mut stages = Vec::new();
    let mut first_divergence = None;
    for s in joined {
        for (tensor, values) in &s.tensors {
            let Some(want) = plain(model, &trace, s.layer, tensor) else {
                continue;
            };
            // Only real tokens: what padding computes is nobody's.
            let rows = text.ids.len();
            let width = if tensor == "logits" {
                want.len()
            } else {
                want.len() / rows.max(1)
            };
            let real = if tensor == "logits" {
                want.len()
            } else {
                text.real * width
            };
            let diff = values
                .iter()
                .zip(&want)
                .take(real)
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f64::max);
            let max_abs = want.iter().take(real).fold(0.0f64, |m, v| m.max(v.abs()));
            if diff > TOLERANCE * max_abs.max(1.0) && first_divergence.is_none() {
                first_divergence = Some(s.stage.clone());
            }
            stages.push(StageDiff {
                stage: s.stage.clone(),
                tensor: tensor.clone(),
                max_diff: diff,
                max_abs,
            });
        }
    }
    Ok(Comparison {
        stages,
        first_divergence,
    })
}
