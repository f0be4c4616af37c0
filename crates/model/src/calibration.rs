//! What `calibrate` writes beside a model: `calibration.json`.

use crate::domain::{domain_checks, Check};
use crate::error::{DomainViolation, ModelError};
use crate::json::read_json;
use crate::mamba2::Mamba2;
use crate::nonlin::NormId;
use crate::ranges::{Range, Ranges};
use cipherloom_spec::approx::{NeRms, Stack};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Name of the file in a model folder.
pub const CALIBRATION_FILE: &str = "calibration.json";
/// Value of [`Calibration::format`].
pub const FORMAT: &str = "cipherloom-calibration";
/// Value of [`Calibration::version`].
pub const VERSION: u32 = 1;
/// Fraction bits of the fixed-point format that the checks assume.
pub const FRAC_BITS: u32 = 19;
/// Largest calibration file that is read, in bytes.
const LIMIT: u64 = 64 << 20;

/// Bucket tables of all norms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Norms {
    /// Before the mixer, one a layer.
    pub pre: Vec<NeRms>,
    /// The gated norm, one a layer.
    pub gated: Vec<NeRms>,
    /// After the last layer.
    pub last: NeRms,
}

impl Norms {
    /// Table of one norm, if the layer exists.
    pub fn table(&self, norm: NormId) -> Option<&NeRms> {
        match norm {
            NormId::Pre(i) => self.pre.get(i),
            NormId::Gated(i) => self.gated.get(i),
            NormId::Final => Some(&self.last),
        }
    }

    /// Builds all tables from the range of each norm, or lists every norm that has no table.
    pub(crate) fn build(
        layers: usize,
        newton: u32,
        range: impl Fn(NormId) -> Range,
    ) -> Result<Self, Vec<DomainViolation>> {
        let mut violations = Vec::new();
        let mut table = |norm: NormId| {
            let r = range(norm);
            NeRms::new(r.min, r.max, newton)
                .map_err(|e| {
                    violations.push(DomainViolation {
                        tensor: norm.tensor(),
                        min: r.min,
                        max: r.max,
                        reason: e.to_string(),
                    });
                })
                .ok()
        };
        let pre: Vec<_> = (0..layers).filter_map(|i| table(NormId::Pre(i))).collect();
        let gated: Vec<_> = (0..layers)
            .filter_map(|i| table(NormId::Gated(i)))
            .collect();
        match table(NormId::Final) {
            Some(last) if violations.is_empty() => Ok(Self { pre, gated, last }),
            _ => Err(violations),
        }
    }
}

/// Where ranges came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RangeSource {
    /// Name of the data or file.
    pub name: String,
    /// Documents behind it.
    pub documents: u64,
}

/// How the surrogate behaved on the calibration documents. For reading, not for the protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Largest difference of a logit between the surrogate and the exact network.
    pub max_logit_difference: f64,
    /// Documents with the same label.
    pub same_label: usize,
    /// Means of squares (real tokens) outside the bucket tables, which the protocol clamps.
    pub clamped: u64,
    /// Means of squares in all.
    pub norm_values: u64,
    /// A layer a row, a head a column: share of time steps below `-tau` of the softplus, at which the
    /// surrogate sets Δ to 0 and the head keeps its state unchanged.
    pub frozen_steps: Vec<Vec<f64>>,
}

/// Ranges, bucket tables and formats of one model. All ranges are rounded outwards to powers of two,
/// since the plan publishes them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Always [`FORMAT`].
    pub format: String,
    /// Always [`VERSION`].
    pub version: u32,
    /// [`Mamba2::checksum`] of the weights, in hexadecimal.
    pub weights_checksum: String,
    /// The approximations.
    pub stack: Stack,
    /// Fraction bits that the checks assume.
    pub frac_bits: u32,
    /// Sequence length of the measurement.
    pub length: usize,
    /// Documents that were run.
    pub documents: usize,
    /// Where the ranges came from.
    pub range_sources: Vec<RangeSource>,
    /// Factor by which measured means of squares were widened on both ends before rounding.
    pub norm_margin: f64,
    /// Factor by which all other ranges were widened before rounding.
    pub headroom: f64,
    /// Range of every named tensor ([`crate::observe`]).
    pub ranges: Ranges,
    /// Bucket tables.
    pub norms: Norms,
    /// The rules that were checked, all passed.
    pub checks: Vec<Check>,
    /// How the surrogate behaved.
    pub report: Report,
}

impl Calibration {
    /// Loads `calibration.json` from a model folder and checks it against `model`: format, version,
    /// weights, stack, completeness, powers of two, tables, and every domain rule again.
    ///
    /// # Errors
    /// [`ModelError::Calibration`] lists everything that is wrong.
    pub fn load(dir: &Path, model: &Mamba2) -> Result<Self, ModelError> {
        Self::load_file(&dir.join(CALIBRATION_FILE), model)
    }

    /// As [`Self::load`], from any file.
    pub fn load_file(path: &Path, model: &Mamba2) -> Result<Self, ModelError> {
        let value = read_json(path, LIMIT)?;
        let c: Self = serde_json::from_value(value).map_err(|e| ModelError::Json {
            path: path.to_path_buf(),
            reason: e.to_string(),
        })?;
        let problems = c.problems(model);
        if problems.is_empty() {
            Ok(c)
        } else {
            Err(ModelError::Calibration {
                path: path.to_path_buf(),
                problems,
            })
        }
    }

    /// Writes the file into a model folder.
    ///
    /// # Errors
    /// [`ModelError::Io`] when the file cannot be written.
    pub fn save(&self, dir: &Path) -> Result<(), ModelError> {
        let path = dir.join(CALIBRATION_FILE);
        let mut text = serde_json::to_string_pretty(self).map_err(|e| ModelError::Json {
            path: path.clone(),
            reason: e.to_string(),
        })?;
        text.push('\n');
        std::fs::write(&path, text).map_err(|source| ModelError::Io { path, source })
    }

    /// The same ranges with another stack. The bucket tables are rebuilt for its Newton steps. The
    /// report and the ranges stay those of the stack that was measured; their headroom covers the
    /// difference between two approximations of the same function.
    ///
    /// # Errors
    /// [`ModelError::OutOfDomain`] when a norm is too inaccurate with the new number of steps.
    pub fn with_stack(&self, stack: Stack, model: &Mamba2) -> Result<Self, ModelError> {
        let mut c = self.clone();
        c.stack = stack;
        let newton = stack.spec().newton;
        c.norms = Norms::build(model.layers.len(), newton, |n| {
            self.norms.table(n).map_or(
                Range {
                    min: f64::NAN,
                    max: f64::NAN,
                },
                |t| Range {
                    min: t.v_min,
                    max: t.v_max,
                },
            )
        })
        .map_err(|violations| ModelError::OutOfDomain { violations })?;
        // A softplus that dips below 0 makes Δ slightly negative, and Δ·A slightly positive.
        let floor = stack.spec().softplus.softplus_lower_bound();
        for (i, layer) in model.layers.iter().enumerate() {
            let steepest = layer.a.iter().fold(0.0f64, |m, a| m.max(a.abs()));
            for (name, value) in [("dt", floor), ("dtA", -floor * steepest)] {
                let r = Range {
                    min: value.min(0.0),
                    max: value.max(0.0),
                };
                c.ranges
                    .widen(&format!("layer{i}.{name}"), r.outwards(self.headroom));
            }
        }
        let (checks, violations) = domain_checks(model, &c.ranges, Some(&c.norms));
        if !violations.is_empty() {
            return Err(ModelError::OutOfDomain { violations });
        }
        c.checks = checks;
        Ok(c)
    }

    /// Tensors of one document that leave the calibrated ranges, for `audit`. `seen` comes from a
    /// [`crate::RangeObserver`] on the surrogate. The protocol neither stops nor tells in such a case: a norm is
    /// clamped, other values stay exact until they reach the limits of the fixed-point format.
    pub fn outside(&self, seen: &Ranges, model: &Mamba2) -> Vec<DomainViolation> {
        let mut out = Vec::new();
        for (name, r) in &seen.by_name {
            let Some(limit) = self.ranges.of(name) else {
                continue;
            };
            // The tables hold the mean of squares plus epsilon.
            let shift = if name.ends_with("_ms") {
                model.config.layer_norm_epsilon
            } else {
                0.0
            };
            let inside = r.min + shift >= limit.min && r.max + shift <= limit.max;
            if !inside {
                out.push(DomainViolation {
                    tensor: name.clone(),
                    min: r.min,
                    max: r.max,
                    reason: format!(
                        "outside the calibrated range [{}, {}]",
                        limit.min, limit.max
                    ),
                });
            }
        }
        out
    }

    /// Everything that is wrong with this calibration for `model`.
    fn problems(&self, model: &Mamba2) -> Vec<String> {
        let mut out = Vec::new();
        let mut need = |ok: bool, message: String| {
            if !ok {
                out.push(message);
            }
        };
        need(
            self.format == FORMAT && self.version == VERSION,
            format!(
                "format `{}` version {}, this release reads `{FORMAT}` version {VERSION}: calibrate again",
                self.format, self.version
            ),
        );
        let checksum = format!("{:016x}", model.checksum());
        need(
            self.weights_checksum == checksum,
            format!(
                "made for weights with checksum {}, this model has {checksum}: calibrate again",
                self.weights_checksum
            ),
        );
        need(
            self.frac_bits == FRAC_BITS,
            format!(
                "{} fraction bits, {FRAC_BITS} are supported",
                self.frac_bits
            ),
        );
        need(
            self.documents > 0 && self.length > 0,
            format!("{} documents of length {}", self.documents, self.length),
        );
        for (name, v) in [
            ("norm_margin", self.norm_margin),
            ("headroom", self.headroom),
        ] {
            need(
                (1.0..=1024.0).contains(&v),
                format!("{name} = {v} must be between 1 and 1024"),
            );
        }
        let layers = model.layers.len();
        let (pre, gated) = (self.norms.pre.len(), self.norms.gated.len());
        need(
            pre == layers && gated == layers,
            format!("{pre} and {gated} norm tables for {layers} layers"),
        );
        let newton = self.stack.spec().newton;
        for norm in NormId::all(layers) {
            let Some(t) = self.norms.table(norm) else {
                continue;
            };
            let name = norm.tensor();
            need(
                t.newton == newton,
                format!(
                    "{name}: table with {} Newton steps, stack `{}` has {newton}",
                    t.newton, self.stack
                ),
            );
            if let Some(r) = self.ranges.of(&name) {
                need(
                    t.v_min <= r.min && t.v_max >= r.max,
                    format!(
                        "{name}: table for [{}, {}] does not cover the range [{}, {}]",
                        t.v_min, t.v_max, r.min, r.max
                    ),
                );
            }
        }
        let known = tensor_names(layers);
        for name in &known {
            match self.ranges.of(name) {
                None => need(false, format!("no range for `{name}`")),
                Some(r) => need(
                    r.min <= r.max && r.magnitude().is_finite() && r.is_power_of_two(),
                    format!(
                        "`{name}`: range [{}, {}] must be ordered, finite and of powers of two",
                        r.min, r.max
                    ),
                ),
            }
        }
        for name in self.ranges.by_name.keys() {
            need(
                known.contains(name),
                format!("range for the unknown tensor `{name}`"),
            );
        }
        if out.is_empty() {
            let (_, violations) = domain_checks(model, &self.ranges, Some(&self.norms));
            out.extend(violations.iter().map(ToString::to_string));
        }
        out
    }
}

/// Every tensor that a calibration has a range for.
pub fn tensor_names(layers: usize) -> Vec<String> {
    const LAYER: [&str; 24] = [
        "prenorm_ms",
        "prenorm_out",
        "in_proj_out",
        "gate_z",
        "conv_pre_silu.x",
        "conv_pre_silu.B",
        "conv_pre_silu.C",
        "conv_out.x",
        "conv_out.B",
        "conv_out.C",
        "dt_pre_softplus",
        "dt",
        "dtA",
        "decay",
        "dtx",
        "ssm_state",
        "scan_m",
        "scan_out",
        "gate_silu",
        "gated",
        "gated_norm_ms",
        "gated_norm_out",
        "mixer_out",
        "out",
    ];
    let mut out = vec!["embeddings".to_string()];
    for i in 0..layers {
        out.extend(LAYER.iter().map(|n| format!("layer{i}.{n}")));
    }
    for name in ["final_norm_ms", "final_norm_out", "pooled", "logits"] {
        out.push(name.to_string());
    }
    out
}
