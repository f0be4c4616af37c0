//! A Mamba-2 classifier: weights in `f64`, read from a model folder.

use crate::config::{Mamba2Config, Naming};
use crate::error::{ModelError, Problem};
use crate::matrix::Matrix;
use crate::tensors::TensorFile;
use std::path::Path;

/// Weights of one layer. `H` heads of `P` channels, `E = H·P`, `G` groups of `N` state values, hidden
/// width `D`.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerWeights {
    /// Weight of the norm before the mixer, `[D]`.
    pub norm: Vec<f64>,
    /// Input projection, `[2E + 2GN + H, D]`; rows in the order z, x, B, C, dt.
    pub in_proj: Matrix,
    /// Causal depthwise convolution, `[E + 2GN, K]`; the last tap is the current token.
    pub conv_weight: Matrix,
    /// Its bias, `[E + 2GN]`; zeros when the model has none.
    pub conv_bias: Vec<f64>,
    /// Added to dt before softplus, `[H]`.
    pub dt_bias: Vec<f64>,
    /// Logarithm of the decay rate as stored, `[H]`.
    pub a_log: Vec<f64>,
    /// `A = -exp(A_log)`, `[H]`.
    pub a: Vec<f64>,
    /// Skip factor, `[H]`.
    pub d: Vec<f64>,
    /// Weight of the gated norm, `[E]`.
    pub gated_norm: Vec<f64>,
    /// Output projection, `[D, E]`.
    pub out_proj: Matrix,
}

/// A loaded and checked model.
#[derive(Debug, Clone, PartialEq)]
pub struct Mamba2 {
    /// Shapes and conventions.
    pub config: Mamba2Config,
    /// Embedding table, `[vocab, D]`. Public in this system's privacy model.
    pub embeddings: Matrix,
    /// Layers in order.
    pub layers: Vec<LayerWeights>,
    /// Weight of the final norm, `[D]`.
    pub norm_f: Vec<f64>,
    /// Classification head, `[labels, D]`.
    pub classifier_weight: Matrix,
    /// Its bias, `[labels]`.
    pub classifier_bias: Vec<f64>,
}

impl Mamba2 {
    /// Loads `config.json` and `model.safetensors` from `dir`.
    ///
    /// Memory: eight bytes a weight, and one tensor as stored while it is read.
    ///
    /// # Errors
    /// [`ModelError::Unsupported`] lists every unsupported field, every missing, unexpected or misshapen
    /// tensor, and every tensor with NaN, infinite or absurd (above 2^20) values, all at once.
    /// [`ModelError::Weights`] for a truncated or corrupt file, [`ModelError::Io`] and
    /// [`ModelError::Json`] for unreadable files.
    pub fn load(dir: &Path) -> Result<Self, ModelError> {
        let (config, mut problems) = Mamba2Config::read(dir)?;
        let mut file = TensorFile::open(dir)?;
        let refused = |problems| ModelError::Unsupported {
            path: dir.to_path_buf(),
            problems,
        };
        let Some(config) = config else {
            return Err(refused(problems));
        };
        let embeddings = embedding_name(&config, &file);
        for (name, shape) in tensor_shapes(&config, embeddings) {
            file.expect(&name, &shape, &mut problems);
        }
        file.refuse_the_rest(&mut problems);
        if !problems.is_empty() {
            return Err(refused(problems));
        }
        let model = Self::read(config, embeddings, &mut file, &mut problems)?;
        if !problems.is_empty() {
            return Err(refused(problems));
        }
        Ok(model)
    }

    /// Reads all values; shapes were checked before.
    fn read(
        config: Mamba2Config,
        embeddings: &str,
        file: &mut TensorFile,
        problems: &mut Vec<Problem>,
    ) -> Result<Self, ModelError> {
        let c = &config;
        let mut vector = |name: &str| file.read(name, problems);
        let matrix = |rows: usize, cols: usize, data: Vec<f64>| Matrix { rows, cols, data };
        let mut layers = Vec::new();
        for i in 0..c.num_hidden_layers {
            let p = format!("backbone.layers.{i}.");
            let m = format!("{p}mixer.");
            let a_log = vector(&format!("{m}A_log"))?;
            layers.push(LayerWeights {
                norm: vector(&format!("{p}norm.weight"))?,
                in_proj: matrix(
                    c.in_proj_rows(),
                    c.hidden_size,
                    vector(&format!("{m}in_proj.weight"))?,
                ),
                conv_weight: matrix(
                    c.conv_dim(),
                    c.conv_kernel,
                    vector(&format!("{m}conv1d.weight"))?,
                ),
                conv_bias: if c.use_conv_bias {
                    vector(&format!("{m}conv1d.bias"))?
                } else {
                    vec![0.0; c.conv_dim()]
                },
                dt_bias: vector(&format!("{m}dt_bias"))?,
                a: a_log.iter().map(|x| -x.exp()).collect(),
                a_log,
                d: vector(&format!("{m}D"))?,
                gated_norm: vector(&format!("{m}norm.weight"))?,
                out_proj: matrix(
                    c.hidden_size,
                    c.inner(),
                    vector(&format!("{m}out_proj.weight"))?,
                ),
            });
        }
        let embeddings = matrix(c.vocab_size, c.hidden_size, vector(embeddings)?);
        let norm_f = vector("backbone.norm_f.weight")?;
        let classifier_weight = matrix(c.num_labels(), c.hidden_size, vector("classifier.weight")?);
        let classifier_bias = vector("classifier.bias")?;
        for (i, layer) in layers.iter().enumerate() {
            // exp of a stored logarithm can still overflow what the format holds.
            let bad = |v: &f64| !v.is_finite() || -v > crate::tensors::WEIGHT_LIMIT;
            if let Some(first) = layer.a.iter().position(bad) {
                problems.push(Problem::TooLarge {
                    name: format!("backbone.layers.{i}.mixer.A_log (as exp)"),
                    count: layer.a.iter().filter(|v| bad(v)).count(),
                    first,
                    value: -layer.a[first],
                    limit: crate::tensors::WEIGHT_LIMIT,
                });
            }
        }
        Ok(Self {
            config,
            embeddings,
            layers,
            norm_f,
            classifier_weight,
            classifier_bias,
        })
    }

    /// A 64-bit checksum of shapes and weights (FNV-1a over the bits of every value). It tells whether a
    /// calibration was made for these weights. It is no protection against a deliberate change.
    pub fn checksum(&self) -> u64 {
        let mut h = Fnv::default();
        let c = &self.config;
        for n in [
            c.vocab_size,
            c.hidden_size,
            c.num_heads,
            c.head_dim,
            c.state_size,
        ] {
            h.word(n as u64);
        }
        h.floats(&self.embeddings.data);
        for l in &self.layers {
            for part in [
                &l.norm,
                &l.in_proj.data,
                &l.conv_weight.data,
                &l.conv_bias,
                &l.dt_bias,
                &l.a_log,
                &l.d,
                &l.gated_norm,
                &l.out_proj.data,
            ] {
                h.floats(part);
            }
        }
        h.floats(&self.norm_f);
        h.floats(&self.classifier_weight.data);
        h.floats(&self.classifier_bias);
        h.0
    }
}

/// FNV-1a over 64-bit words.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn word(&mut self, w: u64) {
        for b in w.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn floats(&mut self, values: &[f64]) {
        self.word(values.len() as u64);
        for v in values {
            self.word(v.to_bits());
        }
    }
}

/// Name of the embedding table in this file. transformers accepts the state-spaces name too.
fn embedding_name(config: &Mamba2Config, file: &TensorFile) -> &'static str {
    const TRANSFORMERS: &str = "backbone.embeddings.weight";
    const STATE_SPACES: &str = "backbone.embedding.weight";
    match config.naming {
        Naming::StateSpaces => STATE_SPACES,
        Naming::Transformers if !file.has(TRANSFORMERS) && file.has(STATE_SPACES) => STATE_SPACES,
        Naming::Transformers => TRANSFORMERS,
    }
}

/// Every tensor of the architecture with its shape.
fn tensor_shapes(c: &Mamba2Config, embeddings: &str) -> Vec<(String, Vec<usize>)> {
    let (d, e, h) = (c.hidden_size, c.inner(), c.num_heads);
    let mut out = vec![
        (embeddings.to_string(), vec![c.vocab_size, d]),
        ("backbone.norm_f.weight".to_string(), vec![d]),
        ("classifier.weight".to_string(), vec![c.num_labels(), d]),
        ("classifier.bias".to_string(), vec![c.num_labels()]),
    ];
    for i in 0..c.num_hidden_layers {
        let p = format!("backbone.layers.{i}.");
        let m = format!("{p}mixer.");
        out.push((format!("{p}norm.weight"), vec![d]));
        out.push((format!("{m}in_proj.weight"), vec![c.in_proj_rows(), d]));
        out.push((
            format!("{m}conv1d.weight"),
            vec![c.conv_dim(), 1, c.conv_kernel],
        ));
        if c.use_conv_bias {
            out.push((format!("{m}conv1d.bias"), vec![c.conv_dim()]));
        }
        for name in ["dt_bias", "A_log", "D"] {
            out.push((format!("{m}{name}"), vec![h]));
        }
        out.push((format!("{m}norm.weight"), vec![e]));
        out.push((format!("{m}out_proj.weight"), vec![d, e]));
    }
    out
}
