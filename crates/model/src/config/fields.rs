//! Typed access to the fields of a JSON object that collects every problem instead of stopping.

use crate::error::Problem;
use crate::json::as_float;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Longest excerpt of a JSON value in a message.
const EXCERPT: usize = 80;
/// Largest number of classes.
const MAX_LABELS: usize = 1 << 12;

/// Fields of one object. Reading a field marks it as known.
pub(super) struct Fields {
    prefix: String,
    map: Map<String, Value>,
    known: BTreeSet<String>,
    problems: Vec<Problem>,
}

impl Fields {
    pub(super) fn new(map: Map<String, Value>) -> Self {
        Self {
            prefix: String::new(),
            map,
            known: BTreeSet::new(),
            problems: Vec::new(),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    /// The object in field `name`; absent counts as empty.
    pub(super) fn nested(&mut self, name: &str) -> Self {
        let map = match self.take(name) {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(m)) => m,
            Some(other) => {
                self.unsupported(name, excerpt(&other), "must be an object");
                Map::new()
            }
        };
        Self {
            prefix: format!("{name}."),
            ..Self::new(map)
        }
    }

    /// Takes over the problems of a nested object.
    pub(super) fn absorb(&mut self, nested: Self) {
        self.problems.extend(nested.problems);
    }

    pub(super) fn inconsistent(&mut self, reason: String) {
        self.problems.push(Problem::Inconsistent { reason });
    }

    pub(super) fn unsupported(&mut self, name: &str, value: String, reason: &str) {
        self.problems.push(Problem::Field {
            field: format!("{}{name}", self.prefix),
            value,
            reason: reason.to_string(),
        });
    }

    fn missing(&mut self, name: &str, expected: &str) {
        self.problems.push(Problem::MissingField {
            field: format!("{}{name}", self.prefix),
            expected: expected.to_string(),
        });
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        self.known.insert(name.to_string());
        self.map.get(name).cloned()
    }

    /// An integer in `[min, max]`.
    pub(super) fn size(
        &mut self,
        name: &str,
        min: usize,
        max: usize,
        default: Option<usize>,
    ) -> Option<usize> {
        let Some(v) = self.take(name) else {
            if default.is_none() {
                self.missing(name, &format!("an integer from {min} to {max}"));
            }
            return default;
        };
        let n = v.as_u64().and_then(|n| usize::try_from(n).ok());
        match n {
            Some(n) if (min..=max).contains(&n) => Some(n),
            _ => {
                let reason = format!("must be an integer from {min} to {max}");
                self.unsupported(name, excerpt(&v), &reason);
                None
            }
        }
    }

    /// An integer in `[min, max]`, or absent or null.
    pub(super) fn size_or_null(&mut self, name: &str, min: usize, max: usize) -> Option<usize> {
        if matches!(self.map.get(name), None | Some(Value::Null)) {
            self.known.insert(name.to_string());
            return None;
        }
        self.size(name, min, max, None)
    }

    /// A finite number.
    pub(super) fn float(&mut self, name: &str, default: Option<f64>) -> Option<f64> {
        let Some(v) = self.take(name) else {
            if default.is_none() {
                self.missing(name, "a number");
            }
            return default;
        };
        match as_float(&v).filter(|x| x.is_finite()) {
            Some(x) => Some(x),
            None => {
                self.unsupported(name, excerpt(&v), "must be a finite number");
                None
            }
        }
    }

    pub(super) fn bool(&mut self, name: &str, default: Option<bool>) -> Option<bool> {
        let Some(v) = self.take(name) else {
            if default.is_none() {
                self.missing(name, "true or false");
            }
            return default;
        };
        if v.as_bool().is_none() {
            self.unsupported(name, excerpt(&v), "must be true or false");
        }
        v.as_bool()
    }

    /// A boolean of which only `supported` is accepted.
    pub(super) fn flag(
        &mut self,
        name: &str,
        default: Option<bool>,
        supported: bool,
        reason: &str,
    ) {
        if self.bool(name, default) == Some(!supported) {
            self.unsupported(name, (!supported).to_string(), reason);
        }
    }

    /// One of a few words.
    pub(super) fn word(
        &mut self,
        name: &str,
        allowed: &[&str],
        default: Option<&str>,
    ) -> Option<String> {
        let expected = format!("one of {}", allowed.join(", "));
        let v = match self.take(name) {
            None | Some(Value::Null) => {
                if default.is_none() {
                    self.missing(name, &expected);
                }
                return default.map(str::to_string);
            }
            Some(v) => v,
        };
        match v.as_str() {
            Some(s) if allowed.contains(&s) => Some(s.to_string()),
            _ => {
                self.unsupported(name, excerpt(&v), &format!("must be {expected}"));
                None
            }
        }
    }

    /// A pair of limits of which only `[<= 0, infinity]`, that is no limit, is accepted.
    pub(super) fn infinite_limit(&mut self, name: &str) {
        let Some(v) = self.take(name) else { return };
        let pair: Vec<Option<f64>> = v
            .as_array()
            .map(|a| a.iter().map(as_float).collect())
            .unwrap_or_default();
        match pair[..] {
            [Some(lo), Some(hi)] if lo <= 0.0 && hi == f64::INFINITY => {}
            _ => self.unsupported(
                name,
                excerpt(&v),
                "only [0.0, Infinity] is supported: the protocol does not clamp the time step",
            ),
        }
    }

    /// A list that must be absent or empty.
    pub(super) fn empty_list(&mut self, name: &str) {
        if let Some(v) = self.take(name) {
            if !(v.is_null() || v.as_array().is_some_and(Vec::is_empty)) {
                self.unsupported(name, excerpt(&v), "attention layers are not supported");
            }
        }
    }

    /// Class names from `id2label`, whose keys must be 0, 1, 2, ...; checked against `num_labels`.
    pub(super) fn labels(&mut self) -> Vec<String> {
        let count = self.map.get("num_labels").and_then(Value::as_u64);
        let Some(v) = self.take("id2label") else {
            self.missing("id2label", "an object from class number to class name");
            return Vec::new();
        };
        let map = v
            .as_object()
            .filter(|m| (1..=MAX_LABELS).contains(&m.len()));
        let labels: Option<Vec<String>> = map.and_then(|m| {
            (0..m.len())
                .map(|i| m.get(&i.to_string())?.as_str().map(str::to_string))
                .collect()
        });
        let Some(labels) = labels else {
            self.unsupported(
                "id2label",
                excerpt(&v),
                "must map \"0\", \"1\", ... without gaps to class names",
            );
            return Vec::new();
        };
        if let Some(n) = count {
            if n != labels.len() as u64 {
                self.inconsistent(format!(
                    "num_labels = {n}, but id2label has {} entries",
                    labels.len()
                ));
            }
        }
        labels
    }

    /// Marks fields as known and without effect.
    pub(super) fn ignore(&mut self, names: &[&str]) {
        self.known.extend(names.iter().map(|n| n.to_string()));
    }

    /// Every field that nobody asked for is a problem: it may change the meaning of the model.
    pub(super) fn refuse_the_rest(&mut self) {
        let unknown: Vec<(String, String)> = self
            .map
            .iter()
            .filter(|(k, _)| !self.known.contains(*k))
            .map(|(k, v)| (k.clone(), excerpt(v)))
            .collect();
        for (k, v) in unknown {
            self.unsupported(
                &k,
                v,
                "unknown field: remove it if it has no effect on the forward pass",
            );
        }
    }
}

/// A short form of a JSON value for a message.
fn excerpt(v: &Value) -> String {
    let text = v.to_string();
    if text.chars().count() <= EXCERPT {
        return text;
    }
    let mut short: String = text.chars().take(EXCERPT).collect();
    short.push_str("...");
    short
}
