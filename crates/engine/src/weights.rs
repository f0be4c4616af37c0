//! The server's weights, folded and encoded once for all sessions of a plan.
//!
//! Norm weights are folded into the next projection (`W_in diag(norm)`, `W_out diag(gated norm)`, classifier times final norm), so no
//! product on shares is spent on them.

use crate::EngineError;
use cipherloom_ckks::{CkksParameters, EvaluationKeys, Evaluator, Plaintext};
use cipherloom_kernels::{CkksSlots, EncodedConvolution, EncodedMatrix, HeScan};
use cipherloom_model::Mamba2;
use cipherloom_plan::{Plan, Ring};

/// One block's encoded weights and the values that enter shares.
pub struct LayerWeights {
    /// In-projection: z padded, x, B, C, dt.
    pub input: EncodedMatrix<Plaintext>,
    /// Convolution over x, B, C; the identity on dt.
    pub convolution: EncodedConvolution<Plaintext>,
    /// Out-projection.
    pub output: EncodedMatrix<Plaintext>,
    /// `A = -exp(A_log)`, a head.
    pub rates: Vec<f64>,
    /// `D`, a head.
    pub skip: Vec<f64>,
}

/// All weights of a model under one plan.
pub struct ServerWeights {
    /// Blocks.
    pub layers: Vec<LayerWeights>,
    /// The scan's masks; the same for all blocks.
    pub scan: HeScan<Plaintext>,
    /// Classifier times final norm, `[labels][hidden]`.
    pub classifier: Vec<f64>,
    /// Classifier bias.
    pub classifier_bias: Vec<f64>,
}

/// A slot domain without keys: encodes, computes nothing.
fn encoder(plan: &Plan, ring: Ring) -> Result<CkksSlots, EngineError> {
    let params = CkksParameters::new(plan.chain(ring).clone())?;
    let keys = EvaluationKeys::new(&params);
    Ok(CkksSlots::new(Evaluator::new(&params, keys)?))
}

impl ServerWeights {
    /// Folds and encodes. Time and memory grow with the model: about 0.5 MB a diagonal.
    ///
    /// # Errors
    /// `Mismatch` when the model is not the plan's; encoding errors name a weight that does not fit.
    pub fn new(
        plan: &Plan,
        model: &Mamba2,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Self, EngineError> {
        let shape = &plan.request().shape;
        let here = cipherloom_plan::ModelShape::of(&shape.name, &model.config);
        if &here != shape {
            return Err(EngineError::Mismatch {
                what: "model shape",
                here: format!("{here:?}"),
                peer: format!("{shape:?}"),
            });
        }
        let linear = plan.linear();
        let dom = encoder(plan, Ring::Projection)?;
        let top = plan.chain(Ring::Projection).top_level();
        let (inner, conv_dim, heads, taps) =
            (shape.inner(), shape.conv_dim(), shape.heads, shape.conv);
        let z_pad = linear.z_blocks * linear.tokens.segments();
        let mut layers = Vec::with_capacity(model.layers.len());
        for (i, l) in model.layers.iter().enumerate() {
            progress(i, model.layers.len());
            let input = EncodedMatrix::encode(&dom, linear.input, top, |o, c| {
                let row = if o < inner {
                    o
                } else if o < z_pad {
                    return 0.0;
                } else {
                    inner + (o - z_pad)
                };
                l.in_proj.row(row)[c] * l.norm[c]
            })?;
            let convolution = EncodedConvolution::encode(
                &dom,
                linear.convolved,
                taps,
                top - 1,
                |c, k| {
                    if c < conv_dim {
                        l.conv_weight.row(c)[k]
                    } else {
                        // dt passes through: only the current token's tap.
                        f64::from(u8::from(k + 1 == taps))
                    }
                },
                |c| {
                    if c < conv_dim {
                        l.conv_bias[c]
                    } else {
                        l.dt_bias[c - conv_dim]
                    }
                },
            )?;
            let output = EncodedMatrix::encode(&dom, linear.output, top - 1, |o, c| {
                l.out_proj.row(o)[c] * l.gated_norm[c]
            })?;
            let per_head = |v: &[f64]| v.iter().take(heads).copied().collect::<Vec<f64>>();
            layers.push(LayerWeights {
                input,
                convolution,
                output,
                rates: per_head(&l.a),
                skip: per_head(&l.d),
            });
        }
        let scan_dom = encoder(plan, Ring::Scan)?;
        let chain = plan.chain(Ring::Scan);
        let scan = HeScan::new(
            &scan_dom,
            plan.scan().schedule,
            chain.top_level(),
            chain.base_level(),
        )?;
        let hidden = shape.hidden;
        let classifier = (0..shape.labels)
            .flat_map(|o| (0..hidden).map(move |c| (o, c)))
            .map(|(o, c)| model.classifier_weight.row(o)[c] * model.norm_f[c])
            .collect();
        Ok(Self {
            layers,
            scan,
            classifier,
            classifier_bias: model.classifier_bias.clone(),
        })
    }
}
