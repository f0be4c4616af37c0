//! `config.json` of a Mamba-2 classifier, in the naming of transformers or of state-spaces.

mod fields;

use crate::error::{ModelError, Problem};
use crate::json::read_json;
use fields::Fields;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// Largest `config.json` that is read, in bytes.
const CONFIG_LIMIT: u64 = 1 << 20;
/// Largest sequence length that a configuration may ask for.
pub const MAX_LENGTH: usize = 1 << 20;

/// How the hidden states of a document become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// Mean over the real tokens.
    Mean,
    /// The last real token.
    Last,
}

impl Pooling {
    /// Weight of each of `length` positions when the first `real` are real tokens. They sum to 1.
    pub fn weights(self, real: usize, length: usize) -> Vec<f64> {
        (0..length)
            .map(|t| match self {
                Self::Mean if t < real => 1.0 / real as f64,
                Self::Last if t + 1 == real => 1.0,
                _ => 0.0,
            })
            .collect()
    }
}

/// Which end of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The beginning.
    Left,
    /// The end.
    Right,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Left => "beginning",
            Self::Right => "end",
        })
    }
}

/// Which project's names a folder uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Naming {
    /// transformers: `hidden_size`, `backbone.embeddings.weight`.
    Transformers,
    /// state-spaces/mamba: `d_model`, `ssm_cfg`, `backbone.embedding.weight`.
    StateSpaces,
}

/// Checked configuration. Every number is within the limits of this crate and consistent with the others.
///
/// The two folders' classification convention (transformers has no such class for Mamba-2): `pooling`,
/// `max_length`, `truncation_side`, `id2label`, and the tensors `classifier.weight` and `.bias`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mamba2Config {
    /// Names used by the folder.
    pub naming: Naming,
    /// Rows of the embedding table.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Inner width over hidden width.
    pub expand: usize,
    /// Number of heads.
    pub num_heads: usize,
    /// Channels of a head.
    pub head_dim: usize,
    /// State values of a channel.
    pub state_size: usize,
    /// Groups that share B and C; divides `num_heads`.
    pub n_groups: usize,
    /// Taps of the causal convolution.
    pub conv_kernel: usize,
    /// Does the convolution have a bias?
    pub use_conv_bias: bool,
    /// Number of layers.
    pub num_hidden_layers: usize,
    /// Added to every mean of squares.
    pub layer_norm_epsilon: f64,
    /// How a document becomes one vector.
    pub pooling: Pooling,
    /// Default sequence length in tokens.
    pub max_length: usize,
    /// Which end of a long text is dropped.
    pub truncation_side: Side,
    /// Id used for right padding. It never reaches the result.
    pub pad_token_id: u32,
    /// Names of the classes, in order of the logits.
    pub labels: Vec<String>,
}

impl Mamba2Config {
    /// Reads and checks `config.json` in `dir`.
    ///
    /// # Errors
    /// [`ModelError::Unsupported`] with every missing, unsupported or contradicting field;
    /// [`ModelError::Io`], [`ModelError::Json`] and the like when the file cannot be read.
    pub fn load(dir: &Path) -> Result<Self, ModelError> {
        let (config, problems) = Self::read(dir)?;
        match config {
            Some(config) if problems.is_empty() => Ok(config),
            _ => Err(ModelError::Unsupported {
                path: dir.to_path_buf(),
                problems,
            }),
        }
    }

    /// Reads the file and collects problems. The configuration is present when its shapes are usable,
    /// so that the caller can go on and list tensor problems too.
    pub(crate) fn read(dir: &Path) -> Result<(Option<Self>, Vec<Problem>), ModelError> {
        let path = dir.join("config.json");
        let value = read_json(&path, CONFIG_LIMIT)?;
        let serde_json::Value::Object(map) = value else {
            return Err(ModelError::Json {
                path,
                reason: "the top level must be an object".into(),
            });
        };
        let mut f = Fields::new(map);
        let naming = if f.has("d_model") || f.has("ssm_cfg") {
            Naming::StateSpaces
        } else {
            Naming::Transformers
        };
        let config = match naming {
            Naming::Transformers => transformers(&mut f),
            Naming::StateSpaces => state_spaces(&mut f),
        };
        if let Some(c) = &config {
            c.check(&mut f);
        }
        Ok((config, f.into_problems()))
    }

    /// Width after the expansion: `num_heads · head_dim`.
    pub fn inner(&self) -> usize {
        self.num_heads * self.head_dim
    }

    /// Channels of the convolution: x, B and C.
    pub fn conv_dim(&self) -> usize {
        self.inner() + 2 * self.n_groups * self.state_size
    }

    /// Rows of the input projection: z, x, B, C, dt.
    pub fn in_proj_rows(&self) -> usize {
        self.inner() + self.conv_dim() + self.num_heads
    }

    /// Group of head `h`.
    pub fn group_of(&self, h: usize) -> usize {
        h / (self.num_heads / self.n_groups)
    }

    /// Number of classes.
    pub fn num_labels(&self) -> usize {
        self.labels.len()
    }

    /// Rules between fields.
    fn check(&self, f: &mut Fields) {
        let inner = self.inner();
        if inner != self.expand * self.hidden_size {
            f.inconsistent(format!(
                "num_heads * head_dim = {} * {} = {inner}, but expand * hidden_size = {} * {} = {}",
                self.num_heads,
                self.head_dim,
                self.expand,
                self.hidden_size,
                self.expand * self.hidden_size
            ));
        }
        if !self.num_heads.is_multiple_of(self.n_groups) {
            f.inconsistent(format!(
                "n_groups = {} does not divide num_heads = {}",
                self.n_groups, self.num_heads
            ));
        }
        if self.naming == Naming::StateSpaces && self.n_groups > 1 {
            f.unsupported(
                "ssm_cfg.ngroups",
                self.n_groups.to_string(),
                "state-spaces normalises each group alone when there is more than one; only 1 is supported",
            );
        }
        if self.pad_token_id as usize >= self.vocab_size {
            f.inconsistent(format!(
                "pad_token_id = {} is outside vocab_size = {}",
                self.pad_token_id, self.vocab_size
            ));
        }
        if !(1e-12..=1e-1).contains(&self.layer_norm_epsilon) {
            f.unsupported(
                "layer_norm_epsilon",
                self.layer_norm_epsilon.to_string(),
                "must be between 1e-12 and 0.1",
            );
        }
    }
}

/// Fields of both namings that belong to the classification convention.
struct Head {
    pooling: Option<Pooling>,
    max_length: Option<usize>,
    truncation_side: Side,
    pad_token_id: u32,
    labels: Vec<String>,
}

fn head(f: &mut Fields) -> Head {
    let pooling = f.word("pooling", &["mean", "last"], None).map(|w| {
        if w == "mean" {
            Pooling::Mean
        } else {
            Pooling::Last
        }
    });
    let side = f.word("truncation_side", &["left", "right"], Some("right"));
    f.word(
        "problem_type",
        &["single_label_classification"],
        Some("single_label_classification"),
    );
    Head {
        pooling,
        max_length: f.size("max_length", 1, MAX_LENGTH, None),
        truncation_side: if side.as_deref() == Some("left") {
            Side::Left
        } else {
            Side::Right
        },
        pad_token_id: f
            .size_or_null("pad_token_id", 0, u32::MAX as usize)
            .unwrap_or(0) as u32,
        labels: f.labels(),
    }
}

/// The naming of transformers.
fn transformers(f: &mut Fields) -> Option<Mamba2Config> {
    f.word("model_type", &["mamba2"], None);
    f.word("hidden_act", &["silu", "swish"], Some("silu"));
    f.flag(
        "use_bias",
        Some(false),
        false,
        "biases of the projections are not supported",
    );
    f.flag("rms_norm", Some(true), true, "only RMSNorm is supported");
    f.infinite_limit("time_step_limit");
    // Read by transformers but without effect on the forward pass, or only on training and caching.
    f.ignore(&[
        "architectures",
        "auto_map",
        "bos_token_id",
        "chunk_size",
        "dtype",
        "eos_token_id",
        "initializer_range",
        "label2id",
        "norm_before_gate",
        "num_labels",
        "output_attentions",
        "output_hidden_states",
        "rescale_prenorm_residual",
        "residual_in_fp32",
        "return_dict",
        "tie_word_embeddings",
        "time_step_floor",
        "time_step_max",
        "time_step_min",
        "time_step_rank",
        "torch_dtype",
        "transformers_version",
        "use_cache",
        "_name_or_path",
        "_attn_implementation_autoset",
    ]);
    let h = head(f);
    let c = (
        f.size("vocab_size", 1, 1 << 20, None),
        f.size("hidden_size", 1, 1 << 16, None),
        f.size("expand", 1, 64, Some(2)),
        f.size("num_heads", 1, 1 << 14, None),
        f.size("head_dim", 1, 1 << 14, None),
        f.size("state_size", 1, 1 << 14, None),
        f.size("n_groups", 1, 1 << 14, None),
        f.size("conv_kernel", 1, 64, Some(4)),
        f.size("num_hidden_layers", 1, 1 << 12, None),
        f.float("layer_norm_epsilon", Some(1e-5)),
        f.bool("use_conv_bias", Some(true)),
    );
    f.refuse_the_rest();
    Some(Mamba2Config {
        naming: Naming::Transformers,
        vocab_size: c.0?,
        hidden_size: c.1?,
        expand: c.2?,
        num_heads: c.3?,
        head_dim: c.4?,
        state_size: c.5?,
        n_groups: c.6?,
        conv_kernel: c.7?,
        num_hidden_layers: c.8?,
        layer_norm_epsilon: c.9?,
        use_conv_bias: c.10?,
        pooling: h.pooling?,
        max_length: h.max_length?,
        truncation_side: h.truncation_side,
        pad_token_id: h.pad_token_id,
        labels: h.labels,
    })
}

/// The naming of state-spaces/mamba: top level and `ssm_cfg`.
fn state_spaces(f: &mut Fields) -> Option<Mamba2Config> {
    f.flag("rms_norm", Some(true), true, "only RMSNorm is supported");
    f.size("d_intermediate", 0, 0, Some(0));
    f.empty_list("attn_layer_idx");
    f.ignore(&[
        "architectures",
        "attn_cfg",
        "fused_add_norm",
        "label2id",
        "num_labels",
        "residual_in_fp32",
        "tie_embeddings",
    ]);
    let h = head(f);
    let hidden = f.size("d_model", 1, 1 << 16, None);
    let layers = f.size("n_layer", 1, 1 << 12, None);
    let vocab = f.size("vocab_size", 1, 1 << 20, None);
    // The table is padded to a multiple; 16 is the default of the mamba_ssm release with Mamba-2.
    let multiple = f.size("pad_vocab_size_multiple", 1, 1 << 16, Some(16));
    let epsilon = f.float("norm_epsilon", Some(1e-5));
    let mut s = f.nested("ssm_cfg");
    s.word("layer", &["Mamba2"], None);
    s.flag("rmsnorm", Some(true), true, "the gated norm is needed");
    s.flag(
        "norm_before_gate",
        Some(false),
        false,
        "the gate must come before the norm",
    );
    s.flag(
        "D_has_hdim",
        Some(false),
        false,
        "one D a head is supported",
    );
    s.flag(
        "bias",
        Some(false),
        false,
        "biases of the projections are not supported",
    );
    s.word("activation", &["silu", "swish"], Some("swish"));
    s.infinite_limit("dt_limit");
    s.ignore(&[
        "A_init_range",
        "chunk_size",
        "conv_init",
        "dt_init_floor",
        "dt_max",
        "dt_min",
        "use_mem_eff_path",
    ]);
    let c = (
        s.size("d_state", 1, 1 << 14, Some(128)),
        s.size("d_conv", 1, 64, Some(4)),
        s.size("expand", 1, 64, Some(2)),
        s.size("headdim", 1, 1 << 14, Some(64)),
        s.size("ngroups", 1, 1 << 14, Some(1)),
        s.bool("conv_bias", Some(true)),
    );
    s.refuse_the_rest();
    f.absorb(s);
    f.refuse_the_rest();
    let (hidden, expand, head_dim) = (hidden?, c.2?, c.3?);
    let inner = expand * hidden;
    if !inner.is_multiple_of(head_dim) {
        f.inconsistent(format!(
            "ssm_cfg.headdim = {head_dim} does not divide expand * d_model = {inner}"
        ));
        return None;
    }
    Some(Mamba2Config {
        naming: Naming::StateSpaces,
        vocab_size: vocab?.next_multiple_of(multiple?),
        hidden_size: hidden,
        expand,
        num_heads: inner / head_dim,
        head_dim,
        state_size: c.0?,
        n_groups: c.4?,
        conv_kernel: c.1?,
        use_conv_bias: c.5?,
        num_hidden_layers: layers?,
        layer_norm_epsilon: epsilon?,
        pooling: h.pooling?,
        max_length: h.max_length?,
        truncation_side: h.truncation_side,
        pad_token_id: h.pad_token_id,
        labels: h.labels,
    })
}
