//! What a forward pass can report about its intermediate tensors.
//!
//! Names (`layer{i}.` in front where it belongs to a layer), shapes for `L` tokens:
//!
//! | name | shape | what |
//! |---|---|---|
//! | `embeddings` | L × D | rows of the table |
//! | `prenorm_ms` | L × 1 | mean of squares before the mixer, without epsilon |
//! | `prenorm_out` | L × D | normalised and weighted |
//! | `in_proj_out` | L × (2E+2GN+H) | z, x, B, C, dt before bias |
//! | `gate_z` | L × E | z |
//! | `conv_pre_silu` | L × (E+2GN) | convolution with bias; ranges also as `.x`, `.B`, `.C` |
//! | `conv_out` | L × (E+2GN) | after SiLU: x, B, C |
//! | `dt_pre_softplus` | L × H | dt plus bias |
//! | `dt` | L × H | Δ |
//! | `dtA` | L × H | Δ·A |
//! | `decay` | L × H | a = exp(Δ·A) |
//! | `dtx` | L × E | x̃ = Δ·x |
//! | `ssm_state` | range only | S, all tokens |
//! | `scan_m` | L × E | C·S, before the skip |
//! | `scan_out` | L × E | with D·x |
//! | `gate_silu` | L × E | SiLU(z) |
//! | `gated` | L × E | y·SiLU(z) |
//! | `gated_norm_ms` | L × 1 | mean of squares of `gated` |
//! | `gated_norm_out` | L × E | normalised and weighted |
//! | `mixer_out` | L × D | output projection |
//! | `out` | L × D | residual stream after the layer |
//! | `final_norm_ms`, `final_norm_out` | L × 1, L × D | last norm |
//! | `pooled`, `logits` | 1 × D, 1 × labels | |

use crate::matrix::Matrix;
use crate::ranges::Ranges;
use std::collections::BTreeMap;

/// Receives intermediate tensors. All methods have empty defaults.
pub trait Observer {
    /// Does this observer want anything? When false, names are not even formed.
    fn active(&self) -> bool {
        true
    }
    /// A tensor with one row a token; `real` rows belong to real tokens, the rest to padding.
    fn tensor(&mut self, _name: &str, _value: &Matrix, _real: usize) {}
    /// Range of a tensor that is too large to keep.
    fn range(&mut self, _name: &str, _min: f64, _max: f64) {}
}

/// Observes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn active(&self) -> bool {
        false
    }
}

/// Keeps every tensor.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// Tensors by name.
    pub tensors: BTreeMap<String, Matrix>,
}

impl Observer for Trace {
    fn tensor(&mut self, name: &str, value: &Matrix, _real: usize) {
        self.tensors.insert(name.to_string(), value.clone());
    }
}

/// Keeps the range of every tensor.
///
/// Means of squares (`*_ms`) count real tokens only: padding may be clamped, since it cannot reach the
/// result. All other tensors count padding too, because slots and shares must hold those values.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RangeObserver {
    /// Ranges by name.
    pub ranges: Ranges,
    /// Splits `conv_pre_silu` and `conv_out` into x, B and C: widths of the first two.
    pub split: (usize, usize),
}

impl RangeObserver {
    /// Observer for a model with inner width `inner` and `bc` values of B (and of C) a token.
    pub fn new(inner: usize, bc: usize) -> Self {
        Self {
            ranges: Ranges::default(),
            split: (inner, bc),
        }
    }
}

impl Observer for RangeObserver {
    fn tensor(&mut self, name: &str, value: &Matrix, real: usize) {
        if name.ends_with("_ms") {
            let end = (real * value.cols).min(value.data.len());
            self.ranges.include_all(name, &value.data[..end]);
        } else if name.ends_with("conv_pre_silu") || name.ends_with("conv_out") {
            let (e, n) = self.split;
            for r in 0..value.rows {
                let (x, rest) = value.row(r).split_at(e.min(value.cols));
                let (b, c) = rest.split_at(n.min(rest.len()));
                for (part, values) in [("x", x), ("B", b), ("C", c)] {
                    self.ranges.include_all(&format!("{name}.{part}"), values);
                }
            }
        } else {
            self.ranges.include_all(name, &value.data);
        }
    }

    fn range(&mut self, name: &str, min: f64, max: f64) {
        self.ranges.include(name, min);
        self.ranges.include(name, max);
    }
}
