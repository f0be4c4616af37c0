//! The rules that keep a calibrated model inside the approximations and the fixed-point format.

use crate::calibration::Norms;
use crate::error::DomainViolation;
use crate::mamba2::Mamba2;
use crate::nonlin::NormId;
use crate::ranges::{Range, Ranges};
use serde::{Deserialize, Serialize};

/// Every value must stay below this before a truncation: 2^24 at 2·19 fraction bits in a 64-bit ring.
pub const FIXED_POINT_LIMIT: f64 = (1u32 << 24) as f64;
/// Logits leave as 12 fraction bits of a 32-bit ring; two bits stay spare.
pub const LOGIT_LIMIT: f64 = (1u32 << 17) as f64;
/// Largest accepted relative error of a reciprocal square root.
pub const NORM_ERROR_LIMIT: f64 = 0.10;
/// Smallest accepted mean of squares: 64 units of a 19-bit fraction, that is 1.6 % resolution.
pub const NORM_MIN: f64 = 1.0 / (1u32 << 13) as f64;
/// Largest accepted argument of the decay's exponential (a surrogate Δ may be slightly negative).
pub const DECAY_ARGUMENT_LIMIT: f64 = 0.25;

/// One rule that was checked, with its outcome in numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The rule.
    pub rule: String,
    /// The tensor that comes closest to its limit.
    pub tensor: String,
    /// Its value.
    pub value: f64,
    /// The limit.
    pub limit: f64,
}

/// Applies every domain rule to rounded ranges and, when there are any, tables. Returns what was checked,
/// and what failed.
pub fn domain_checks(
    model: &Mamba2,
    ranges: &Ranges,
    norms: Option<&Norms>,
) -> (Vec<Check>, Vec<DomainViolation>) {
    let mut rules = Rules::default();
    for (name, r) in &ranges.by_name {
        rules.apply(
            "magnitude before a truncation (F = 19, 64-bit ring)",
            name,
            *r,
            r.magnitude(),
            FIXED_POINT_LIMIT,
            "the fixed-point format would wrap; rescale the weights that produce this tensor",
        );
    }
    let c = &model.config;
    for norm in NormId::all(model.layers.len()) {
        let name = norm.tensor();
        let (Some(r), Some(t)) = (ranges.of(&name), norms.and_then(|n| n.table(norm))) else {
            continue;
        };
        let width = match norm {
            NormId::Gated(_) => c.inner(),
            NormId::Pre(_) | NormId::Final => c.hidden_size,
        };
        rules.apply(
            "sum of squares before its truncation",
            &name,
            r,
            r.max * width as f64,
            FIXED_POINT_LIMIT,
            "the fixed-point format would wrap; rescale the weights that produce this tensor",
        );
        rules.apply(
            "first value of the reciprocal square root",
            &name,
            r,
            t.init_sq[0].max(t.init[0]),
            FIXED_POINT_LIMIT,
            "the table does not fit the fixed-point format",
        );
        rules.apply(
            "relative error of the reciprocal square root",
            &name,
            r,
            t.max_relative_error,
            NORM_ERROR_LIMIT,
            "the range is too wide for eight buckets; choose a stack with two Newton steps (mid, tight)",
        );
        rules.apply(
            "resolution: 2^-13 over the smallest mean of squares",
            &name,
            r,
            NORM_MIN / t.v_min,
            1.0,
            "the smallest mean of squares has too few of the 19 fraction bits",
        );
    }
    for i in 0..model.layers.len() {
        let name = format!("layer{i}.dtA");
        if let Some(r) = ranges.of(&name) {
            rules.apply(
                "argument of the exponential",
                &name,
                r,
                r.max,
                DECAY_ARGUMENT_LIMIT,
                "the decay must not grow: exp is approximated for non-positive arguments",
            );
        }
    }
    if let Some(r) = ranges.of("logits") {
        rules.apply(
            "logits in a 32-bit ring with 12 fraction bits",
            "logits",
            r,
            r.magnitude(),
            LOGIT_LIMIT,
            "the answer would wrap; scale the classifier down",
        );
    }
    (rules.checks, rules.violations)
}

/// Collects, for each rule, the tensor closest to the limit, and all violations.
#[derive(Default)]
struct Rules {
    checks: Vec<Check>,
    violations: Vec<DomainViolation>,
}

impl Rules {
    fn apply(&mut self, rule: &str, tensor: &str, r: Range, value: f64, limit: f64, remedy: &str) {
        // Written so that NaN fails.
        let within = value <= limit && value.is_finite();
        if !within {
            self.violations.push(DomainViolation {
                tensor: tensor.to_string(),
                min: r.min,
                max: r.max,
                reason: format!("{rule}: {value} exceeds {limit}; {remedy}"),
            });
        }
        let check = Check {
            rule: rule.to_string(),
            tensor: tensor.to_string(),
            value,
            limit,
        };
        match self.checks.iter_mut().find(|c| c.rule == rule) {
            Some(old) if value > old.value => *old = check,
            Some(_) => {}
            None => self.checks.push(check),
        }
    }
}
