//! Ranges of named tensors, and their rounding outwards to powers of two.

use crate::error::ModelError;
use crate::json::read_json;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Largest ranges file that is read, in bytes.
const RANGES_LIMIT: u64 = 64 << 20;
/// Magnitudes below this count as 0 when rounding: far below one unit of any fixed-point format here.
const TINY: f64 = 1.0 / (1u64 << 40) as f64;

/// Smallest and largest value of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

impl Range {
    /// Largest magnitude.
    pub fn magnitude(self) -> f64 {
        self.min.abs().max(self.max.abs())
    }

    /// The smallest range that holds both.
    pub fn union(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    /// Both ends moved outwards by the factor `headroom >= 1`, then to powers of two (or 0).
    ///
    /// A positive lower end moves towards 0: `[0.3, 5]` with headroom 1 becomes `[0.25, 8]`.
    pub fn outwards(self, headroom: f64) -> Self {
        Self {
            // Adding 0 turns -0 into 0.
            min: -up(-self.min, headroom) + 0.0,
            max: up(self.max, headroom),
        }
    }

    /// Is each end 0 or plus or minus a power of two?
    pub fn is_power_of_two(self) -> bool {
        [self.min, self.max]
            .into_iter()
            .all(|v| v == 0.0 || (v.is_normal() && v.to_bits() & ((1 << 52) - 1) == 0))
    }
}

/// An upper end moved up by a factor and to a power of two.
fn up(x: f64, headroom: f64) -> f64 {
    if x > 0.0 {
        power_of_two_at_least(x * headroom)
    } else if -x / headroom < TINY {
        0.0
    } else {
        -power_of_two_at_most(-x / headroom)
    }
}

/// Smallest power of two that is at least `x > 0`; at least 2^-40. Infinity stays.
pub fn power_of_two_at_least(x: f64) -> f64 {
    let low = power_of_two_at_most(x);
    if low < x {
        2.0 * low
    } else {
        low
    }
}

/// Largest power of two that is at most `x > 0`; at least 2^-40. Infinity stays.
pub fn power_of_two_at_most(x: f64) -> f64 {
    if !x.is_finite() {
        return x;
    }
    // Clearing the fraction of a normal double leaves its power of two.
    f64::from_bits(x.max(TINY).to_bits() & !((1 << 52) - 1))
}

/// Ranges by tensor name. Serialised as a map.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ranges {
    /// Ranges by name; names as in [`crate::observe`].
    pub by_name: BTreeMap<String, Range>,
}

impl Ranges {
    /// Range of one tensor.
    pub fn of(&self, name: &str) -> Option<Range> {
        self.by_name.get(name).copied()
    }

    /// Widens a range to hold `value`. NaN or an infinity makes it unbounded.
    pub fn include(&mut self, name: &str, value: f64) {
        self.include_all(name, &[value]);
    }

    /// Widens a range to hold all `values`. NaN or an infinity makes it unbounded.
    pub fn include_all(&mut self, name: &str, values: &[f64]) {
        let Some(first) = values.first() else { return };
        let mut r = Range {
            min: *first,
            max: *first,
        };
        let mut finite = true;
        for v in values {
            r.min = r.min.min(*v);
            r.max = r.max.max(*v);
            finite &= v.is_finite();
        }
        if !finite {
            r = Range {
                min: f64::NEG_INFINITY,
                max: f64::INFINITY,
            };
        }
        self.widen(name, r);
    }

    /// Widens one range.
    pub fn widen(&mut self, name: &str, r: Range) {
        match self.by_name.get_mut(name) {
            Some(old) => *old = old.union(r),
            None => {
                self.by_name.insert(name.to_string(), r);
            }
        }
    }

    /// Widens every range by those of `other`.
    pub fn union(mut self, other: &Self) -> Self {
        for (name, r) in &other.by_name {
            self.widen(name, *r);
        }
        self
    }

    /// Reads a file of ranges measured elsewhere, for example on the training set.
    ///
    /// The file is a JSON object of parts. A part is an object from tensor names to `{"min", "max", ...}`
    /// or to one number, the largest magnitude. `residual.emb` and `layer{i}.residual` stand for
    /// `embeddings` and `layer{i}.out`. Names that start with `_` and lists are skipped, except
    /// `_documents`, whose sum is returned.
    ///
    /// # Errors
    /// [`ModelError::RangesFile`] for a tensor that is not in `known`, for numbers that are not finite or
    /// not ordered, and for a file without any tensor.
    pub fn load(path: &Path, known: &[String]) -> Result<(Self, u64), ModelError> {
        let error = |reason: String| ModelError::RangesFile {
            path: path.to_path_buf(),
            reason,
        };
        let value = read_json(path, RANGES_LIMIT)?;
        let Some(parts) = value.as_object() else {
            return Err(error("the top level must be an object".into()));
        };
        let mut out = Self::default();
        let mut documents = 0u64;
        for (part, content) in parts {
            let Some(tensors) = content.as_object() else {
                continue;
            };
            for (name, v) in tensors {
                if name == "_documents" {
                    documents = documents.saturating_add(v.as_u64().unwrap_or(0));
                }
                if name.starts_with('_') || v.is_array() {
                    continue;
                }
                let tensor = alias(name);
                if !known.contains(&tensor) {
                    return Err(error(format!(
                        "`{part}` names the tensor `{name}`, which this model does not have"
                    )));
                }
                let r = parse(v).ok_or_else(|| {
                    error(format!(
                        "`{part}`, `{name}`: needs finite numbers min <= max, or one magnitude"
                    ))
                })?;
                out.widen(&tensor, r);
            }
        }
        if out.by_name.is_empty() {
            return Err(error("no tensor ranges found".into()));
        }
        Ok((out, documents))
    }
}

/// Our name of a tensor in a ranges file.
fn alias(name: &str) -> String {
    match name.strip_suffix(".residual") {
        Some(layer) => format!("{layer}.out"),
        None if name == "residual.emb" => "embeddings".to_string(),
        None => name.to_string(),
    }
}

fn parse(v: &Value) -> Option<Range> {
    let r = match v {
        Value::Number(n) => {
            let m = n.as_f64()?.abs();
            Range { min: -m, max: m }
        }
        _ => Range {
            min: v.get("min")?.as_f64()?,
            max: v.get("max")?.as_f64()?,
        },
    };
    (r.min.is_finite() && r.max.is_finite() && r.min <= r.max).then_some(r)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_goes_outwards_to_powers_of_two() {
        let r = |min, max| Range { min, max };
        assert_eq!(r(-3.0, 5.0).outwards(1.0), r(-4.0, 8.0));
        assert_eq!(r(-4.0, 8.0).outwards(1.0), r(-4.0, 8.0));
        assert_eq!(r(0.3, 5.0).outwards(1.0), r(0.25, 8.0));
        assert_eq!(r(-5.0, -0.3).outwards(1.0), r(-8.0, -0.25));
        assert_eq!(r(0.3, 5.0).outwards(2.0), r(0.125, 16.0));
        assert_eq!(r(0.0, 0.0).outwards(2.0), r(0.0, 0.0));
        assert_eq!(r(0.0, 1e-20).outwards(1.0).max, TINY);
        assert_eq!(r(1e-20, 1.0).outwards(1.0).min, 0.0);
        assert_eq!(
            r(f64::NEG_INFINITY, f64::INFINITY).outwards(2.0).max,
            f64::INFINITY
        );
        for x in [1e-9, 0.1, 0.5, 1.0, 1.1, 3.0, 1e6] {
            let (lo, hi) = (power_of_two_at_most(x), power_of_two_at_least(x));
            assert!(lo <= x && x <= hi && hi <= 2.0 * lo);
            assert!(r(lo, hi).is_power_of_two());
        }
        assert!(!r(0.0, 3.0).is_power_of_two());
    }

    #[test]
    fn not_a_number_makes_a_range_unbounded() {
        let mut s = Ranges::default();
        s.include_all("a", &[1.0, f64::NAN, 2.0]);
        assert_eq!(s.of("a").unwrap().max, f64::INFINITY);
        s.include_all("b", &[1.0, -2.0]);
        s.include("b", 0.5);
        assert_eq!(
            s.of("b").unwrap(),
            Range {
                min: -2.0,
                max: 1.0
            }
        );
    }

    #[test]
    fn files_are_checked() {
        let dir = tempfile::tempdir().unwrap();
        let p = dir.path().join("r.json");
        let known = vec!["a".to_string(), "layer0.out".to_string()];
        let load = |text: &str| {
            std::fs::write(&p, text).unwrap();
            Ranges::load(&p, &known)
        };
        let (r, n) = load(
            r#"{"x": {"a": {"min": -1, "max": 2, "q": 0}, "_documents": 5}, "y": {"a": {"min": 0, "max": 3}, "_documents": 2},
                "z": {"layer0.residual": 7.5}, "A": {"layer0": [1, 2]}}"#,
        )
        .unwrap();
        assert_eq!(n, 7);
        assert_eq!(
            r.of("a").unwrap(),
            Range {
                min: -1.0,
                max: 3.0
            }
        );
        assert_eq!(
            r.of("layer0.out").unwrap(),
            Range {
                min: -7.5,
                max: 7.5
            }
        );
        for bad in [
            r#"{"x": {"b": {"min": 0, "max": 1}}}"#,
            r#"{"x": {"a": {"min": 2, "max": 1}}}"#,
            r#"{"x": {"a": {"min": NaN, "max": 1}}}"#,
            r#"{"x": {"a": {"max": 1}}}"#,
            "{}",
            "[]",
        ] {
            assert!(
                matches!(load(bad), Err(ModelError::RangesFile { .. })),
                "{bad}"
            );
        }
    }
}
