//! Plaintext forward pass in `f64`, one code for the exact network and for its surrogate.
//!
//! Semantics of the `Mamba2` mixer of transformers (`torch_forward`), computed as the plain recurrence
//!
//! ```text
//! S_k = a_k S_{k-1} + Δ_k x_k B_k^T,   m_k = S_k C_k,   y_k = m_k + D x_k
//! ```
//!
//! with `a_k = exp(Δ_k A)` a head, then the gated norm (gate first, then norm over the whole inner width)
//! and the output projection. The residual is added after the mixer. Right padding changes nothing for
//! the real tokens, since every operation is causal and the pooling weights of padding are zero.

use crate::config::Mamba2Config;
use crate::error::ModelError;
use crate::mamba2::{LayerWeights, Mamba2};
use crate::matrix::Matrix;
use crate::nonlin::{Nonlin, NormId};
use crate::observe::{Observer, Silent};
use crate::tokenizer::Encoded;
use rayon::prelude::*;

/// Result of one document.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// One value a class.
    pub logits: Vec<f64>,
    /// Pooled hidden state.
    pub pooled: Vec<f64>,
}

impl Output {
    /// Class of the largest logit; the first one among equals.
    pub fn label(&self) -> usize {
        label(&self.logits)
    }
}

/// Index of the largest logit; the first one among equals, 0 for an empty slice.
pub fn label(logits: &[f64]) -> usize {
    let mut best = 0;
    for (i, v) in logits.iter().enumerate() {
        if *v > logits[best] {
            best = i;
        }
    }
    best
}

/// Runs the network on `ids`, of which the first `real` are real tokens.
///
/// Cost: `O(L)` in the sequence length; about 0.1 million multiply-adds a token for the small shipped
/// model. Memory: a few matrices of `L` rows.
///
/// # Errors
/// [`ModelError::RealTokens`] unless `1 <= real <= ids.len()`; [`ModelError::TokenId`] for an id outside
/// the table.
pub fn forward<N: Nonlin + ?Sized, O: Observer>(
    model: &Mamba2,
    ids: &[u32],
    real: usize,
    nonlin: &N,
    observer: &mut O,
) -> Result<Output, ModelError> {
    let c = &model.config;
    if real == 0 || real > ids.len() {
        return Err(ModelError::RealTokens {
            real,
            length: ids.len(),
        });
    }
    let mut h = embed(model, ids)?;
    let mut watch = Watch {
        observer,
        real,
        layer: None,
    };
    watch.tensor("embeddings", &h);
    for (i, layer) in model.layers.iter().enumerate() {
        watch.layer = Some(i);
        let (v, ms) = rms_norm(&h, &layer.norm, c, nonlin, NormId::Pre(i));
        watch.tensor("prenorm_ms", &ms);
        watch.tensor("prenorm_out", &v);
        let out = mixer(c, layer, i, &v, nonlin, &mut watch);
        watch.tensor("mixer_out", &out);
        for (a, b) in h.data.iter_mut().zip(&out.data) {
            *a += b;
        }
        watch.tensor("out", &h);
    }
    watch.layer = None;
    let (last, ms) = rms_norm(&h, &model.norm_f, c, nonlin, NormId::Final);
    watch.tensor("final_norm_ms", &ms);
    watch.tensor("final_norm_out", &last);
    let pooled = pool(&last, &c.pooling.weights(real, ids.len()));
    watch.tensor("pooled", &pooled);
    let mut logits = pooled.times(&model.classifier_weight.transposed());
    for (a, b) in logits.data.iter_mut().zip(&model.classifier_bias) {
        *a += b;
    }
    watch.tensor("logits", &logits);
    Ok(Output {
        logits: logits.data,
        pooled: pooled.data,
    })
}

/// Runs many documents in parallel, without observation. Results are in the order of `documents`.
///
/// # Errors
/// Those of [`forward`].
pub fn forward_all<N: Nonlin + ?Sized>(
    model: &Mamba2,
    documents: &[Encoded],
    nonlin: &N,
) -> Result<Vec<Output>, ModelError> {
    documents
        .par_iter()
        .map(|d| forward(model, &d.ids, d.real, nonlin, &mut Silent))
        .collect()
}

/// An observer with the position in the network.
struct Watch<'a, O: Observer> {
    observer: &'a mut O,
    real: usize,
    layer: Option<usize>,
}

impl<O: Observer> Watch<'_, O> {
    fn name(&self, name: &str) -> String {
        match self.layer {
            Some(i) => format!("layer{i}.{name}"),
            None => name.to_string(),
        }
    }

    fn tensor(&mut self, name: &str, value: &Matrix) {
        if self.observer.active() {
            let name = self.name(name);
            self.observer.tensor(&name, value, self.real);
        }
    }

    fn range(&mut self, name: &str, min: f64, max: f64) {
        if self.observer.active() {
            let name = self.name(name);
            self.observer.range(&name, min, max);
        }
    }
}

/// Rows of the embedding table.
fn embed(model: &Mamba2, ids: &[u32]) -> Result<Matrix, ModelError> {
    let mut h = Matrix::zeros(ids.len(), model.embeddings.cols);
    for (position, id) in ids.iter().enumerate() {
        if *id as usize >= model.embeddings.rows {
            return Err(ModelError::TokenId {
                id: *id,
                position,
                vocab: model.embeddings.rows,
            });
        }
        h.row_mut(position)
            .copy_from_slice(model.embeddings.row(*id as usize));
    }
    Ok(h)
}

/// Weighted RMSNorm of every row, and the means of squares.
fn rms_norm<N: Nonlin + ?Sized>(
    x: &Matrix,
    weight: &[f64],
    c: &Mamba2Config,
    nonlin: &N,
    norm: NormId,
) -> (Matrix, Matrix) {
    let mut out = x.clone();
    let mut ms = Matrix::zeros(x.rows, 1);
    for r in 0..x.rows {
        let row = out.row_mut(r);
        let mean = row.iter().map(|v| v * v).sum::<f64>() / row.len() as f64;
        let inv = nonlin.inv_sqrt(norm, mean + c.layer_norm_epsilon);
        for (v, w) in row.iter_mut().zip(weight) {
            *v *= inv * w;
        }
        ms.data[r] = mean;
    }
    (out, ms)
}

/// One mixer: `[L, D]` to `[L, D]`.
fn mixer<N: Nonlin + ?Sized, O: Observer>(
    c: &Mamba2Config,
    w: &LayerWeights,
    layer: usize,
    v: &Matrix,
    nonlin: &N,
    watch: &mut Watch<'_, O>,
) -> Matrix {
    let (e, conv) = (c.inner(), c.conv_dim());
    let projected = v.times(&w.in_proj.transposed());
    watch.tensor("in_proj_out", &projected);
    let gate = projected.columns(0, e);
    watch.tensor("gate_z", &gate);

    let mut xbc = convolve(&projected.columns(e, e + conv), w);
    watch.tensor("conv_pre_silu", &xbc);
    map(&mut xbc, |x| nonlin.silu(x));
    watch.tensor("conv_out", &xbc);

    let mut dt = projected.columns(e + conv, e + conv + c.num_heads);
    for r in 0..dt.rows {
        for (x, b) in dt.row_mut(r).iter_mut().zip(&w.dt_bias) {
            *x += b;
        }
    }
    watch.tensor("dt_pre_softplus", &dt);
    map(&mut dt, |x| nonlin.softplus(x));
    watch.tensor("dt", &dt);
    let mut decay = dt.clone();
    for r in 0..decay.rows {
        for (x, a) in decay.row_mut(r).iter_mut().zip(&w.a) {
            *x *= a;
        }
    }
    watch.tensor("dtA", &decay);
    map(&mut decay, |z| nonlin.decay(z));
    watch.tensor("decay", &decay);

    let mut y = scan(c, &xbc, &dt, &decay, watch);
    watch.tensor("scan_m", &y);
    for r in 0..y.rows {
        let x = xbc.row(r);
        for (i, v) in y.row_mut(r).iter_mut().enumerate() {
            *v += w.d[i / c.head_dim] * x[i];
        }
    }
    watch.tensor("scan_out", &y);

    let mut silu_gate = gate;
    map(&mut silu_gate, |z| nonlin.silu(z));
    watch.tensor("gate_silu", &silu_gate);
    for (a, g) in y.data.iter_mut().zip(&silu_gate.data) {
        *a *= g;
    }
    watch.tensor("gated", &y);
    let (normed, ms) = rms_norm(&y, &w.gated_norm, c, nonlin, NormId::Gated(layer));
    watch.tensor("gated_norm_ms", &ms);
    watch.tensor("gated_norm_out", &normed);
    normed.times(&w.out_proj.transposed())
}

/// Causal depthwise convolution with bias. The last tap multiplies the current token.
fn convolve(x: &Matrix, w: &LayerWeights) -> Matrix {
    let taps = w.conv_weight.transposed();
    let k = taps.rows;
    let mut out = Matrix::zeros(x.rows, x.cols);
    for t in 0..x.rows {
        let acc = &mut out.data[t * x.cols..(t + 1) * x.cols];
        acc.copy_from_slice(&w.conv_bias);
        for back in 0..k.min(t + 1) {
            let (src, tap) = (x.row(t - back), taps.row(k - 1 - back));
            for ((a, s), c) in acc.iter_mut().zip(src).zip(tap) {
                *a += s * c;
            }
        }
    }
    out
}

/// The recurrence; returns `m = S·C` for every token, `[L, E]`.
fn scan<O: Observer>(
    c: &Mamba2Config,
    xbc: &Matrix,
    dt: &Matrix,
    decay: &Matrix,
    watch: &mut Watch<'_, O>,
) -> Matrix {
    let (e, n, p) = (c.inner(), c.state_size, c.head_dim);
    let groups = c.n_groups * n;
    let observe = watch.observer.active();
    let mut state = vec![0.0; e * n];
    let mut m = Matrix::zeros(xbc.rows, e);
    let mut dtx = Matrix::zeros(if observe { xbc.rows } else { 0 }, e);
    let (mut min, mut max) = (0.0f64, 0.0f64);
    for t in 0..xbc.rows {
        let (x, bc) = xbc.row(t).split_at(e);
        let (b, cc) = bc.split_at(groups);
        for h in 0..c.num_heads {
            let g = c.group_of(h) * n;
            let (b, cc) = (&b[g..g + n], &cc[g..g + n]);
            let (step, keep) = (dt.row(t)[h], decay.row(t)[h]);
            for i in h * p..(h + 1) * p {
                let u = step * x[i];
                let s = &mut state[i * n..(i + 1) * n];
                let mut sum = 0.0;
                for ((s, b), c) in s.iter_mut().zip(b).zip(cc) {
                    *s = *s * keep + u * b;
                    sum += *s * c;
                }
                m.data[t * e + i] = sum;
                if observe {
                    dtx.data[t * e + i] = u;
                    for v in s.iter() {
                        // A NaN must not vanish in the minimum.
                        if v.is_nan() || *v < min {
                            min = *v;
                        }
                        max = max.max(*v);
                    }
                }
            }
        }
    }
    if observe {
        watch.tensor("dtx", &dtx);
        watch.range("ssm_state", min, max);
    }
    m
}

/// Weighted sum of rows.
fn pool(x: &Matrix, weights: &[f64]) -> Matrix {
    let mut out = Matrix::zeros(1, x.cols);
    for (r, w) in weights.iter().enumerate() {
        // Padding has weight 0; skipping it also keeps an overflow there from becoming NaN here.
        if *w != 0.0 {
            for (a, v) in out.data.iter_mut().zip(x.row(r)) {
                *a += w * v;
            }
        }
    }
    out
}

fn map(x: &mut Matrix, f: impl Fn(f64) -> f64) {
    x.data.iter_mut().for_each(|v| *v = f(*v));
}
