//! Measures the ranges of a model and builds its bucket tables.
//!
//! 1. Run the exact network on the documents; unite with ranges measured elsewhere.
//! 2. Build the tables from the means of squares, widened by the margin and rounded outwards.
//! 3. Run the surrogate with these tables; unite its ranges; repeat until no mean of squares leaves
//!    the tables (at most a few rounds, the change is small).
//! 4. Widen by the headroom, round outwards to powers of two, and apply every domain rule.

use crate::calibration::{
    tensor_names, Calibration, Norms, RangeSource, Report, FORMAT, FRAC_BITS, VERSION,
};
use crate::documents::Document;
use crate::domain::domain_checks;
use crate::error::{DomainViolation, ModelError};
use crate::forward::{forward, label, Output};
use crate::mamba2::Mamba2;
use crate::matrix::Matrix;
use crate::nonlin::{Exact, Nonlin, NormId, Surrogate};
use crate::observe::{Observer, RangeObserver};
use crate::ranges::{Range, Ranges};
use crate::tokenizer::{Encoded, Tokenizer, Truncation};
use cipherloom_spec::approx::Stack;
use rayon::prelude::*;
use std::path::Path;

/// Rounds of table building before giving up.
const ROUNDS: usize = 4;

/// Choices of a calibration.
#[derive(Debug, Clone, PartialEq)]
pub struct CalibrateOptions {
    /// The approximations.
    pub stack: Stack,
    /// Factor by which means of squares are widened on both ends before rounding to powers of two.
    pub norm_margin: f64,
    /// Factor by which all other ranges are widened before rounding.
    pub headroom: f64,
    /// Name of the documents, for the record.
    pub name: String,
    /// Ranges measured elsewhere, with where they came from.
    pub ranges: Option<(Ranges, RangeSource)>,
}

impl Default for CalibrateOptions {
    /// Default stack, norm margin 1.25, headroom 2, no other ranges.
    fn default() -> Self {
        Self {
            stack: Stack::default(),
            norm_margin: 1.25,
            headroom: 2.0,
            name: "documents".to_string(),
            ranges: None,
        }
    }
}

/// Calibrates `model` on `documents`, which must all have the same length (padding included: padded
/// positions also occupy slots and shares, so their values count for every range but the norms').
///
/// Cost: a handful of plaintext passes over the documents.
///
/// # Errors
/// [`ModelError::OutOfDomain`] names every tensor and range that leaves the domain of the approximations
/// or of the fixed-point format; [`ModelError::Calibrate`] for unusable options or no documents.
pub fn calibrate(
    model: &Mamba2,
    documents: &[Encoded],
    options: &CalibrateOptions,
) -> Result<Calibration, ModelError> {
    let length = check(documents, options)?;
    let layers = model.layers.len();
    let exact = run(model, documents, &Exact, options.stack)?;
    let mut ranges = exact.ranges.clone();
    let mut range_sources = vec![RangeSource {
        name: options.name.clone(),
        documents: documents.len() as u64,
    }];
    if let Some((other, source)) = &options.ranges {
        ranges = ranges.union(other);
        range_sources.push(source.clone());
    }
    finite(&ranges)?;

    let newton = options.stack.spec().newton;
    let mut round = 0;
    let (norms, surrogate) = loop {
        let norms = Norms::build(layers, newton, |n| {
            norm_range(&ranges, n, model.config.layer_norm_epsilon, options)
        })
        .map_err(|mut violations| {
            // The cause is often another tensor that is too large: list those too.
            let published = widened(&ranges, options);
            violations.extend(domain_checks(model, &published, None).1);
            ModelError::OutOfDomain { violations }
        })?;
        let nonlin = Surrogate::from_parts(
            options.stack.spec(),
            norms.pre.clone(),
            norms.gated.clone(),
            norms.last.clone(),
        );
        let seen = run(model, documents, &nonlin, options.stack)?;
        let wider = ranges.clone().union(&seen.ranges);
        round += 1;
        let clamped = clamped(&seen, &norms, model.config.layer_norm_epsilon);
        finite(&wider)?;
        ranges = wider;
        if clamped == 0 || round == ROUNDS {
            break (norms, seen);
        }
    };
    let clamped = clamped(&surrogate, &norms, model.config.layer_norm_epsilon);

    let rounded = rounded(&ranges, &norms, options);
    let (checks, violations) = domain_checks(model, &rounded, Some(&norms));
    if !violations.is_empty() {
        return Err(ModelError::OutOfDomain { violations });
    }
    if let Some(name) = tensor_names(layers)
        .iter()
        .find(|n| rounded.of(n).is_none())
    {
        return Err(ModelError::Calibrate(format!("no value seen of `{name}`")));
    }
    let pairs = || exact.outputs.iter().zip(&surrogate.outputs);
    Ok(Calibration {
        format: FORMAT.to_string(),
        version: VERSION,
        weights_checksum: format!("{:016x}", model.checksum()),
        stack: options.stack,
        frac_bits: FRAC_BITS,
        length,
        documents: documents.len(),
        range_sources,
        norm_margin: options.norm_margin,
        headroom: options.headroom,
        ranges: rounded,
        norms,
        checks,
        report: Report {
            max_logit_difference: pairs()
                .flat_map(|(a, b)| a.logits.iter().zip(&b.logits))
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f64::max),
            same_label: pairs()
                .filter(|(a, b)| label(&a.logits) == label(&b.logits))
                .count(),
            clamped,
            norm_values: surrogate.norms.iter().map(|(_, v)| v.len() as u64).sum(),
            frozen_steps: exact.frozen_share(),
        },
    })
}

/// Calibrates the model in `dir` on the documents of a `.jsonl` file, at the model's `max_length`, and
/// writes nothing. Long texts are cut at the model's `truncation_side`.
///
/// `ranges` is a file of ranges measured elsewhere ([`Ranges::load`]), for example on the training set; the
/// result covers both.
///
/// # Errors
/// Those of loading the model, tokenizer and documents, and of [`calibrate`].
pub fn calibrate_folder(
    dir: &Path,
    data: &Path,
    ranges: Option<&Path>,
    options: &CalibrateOptions,
) -> Result<Calibration, ModelError> {
    calibrate_documents(dir, data, ranges, None, options)
}

/// As [`calibrate_folder`], at `length` tokens; `None` for the model's own `max_length`.
///
/// # Errors
/// As [`calibrate_folder`].
pub fn calibrate_documents(
    dir: &Path,
    data: &Path,
    ranges: Option<&Path>,
    length: Option<usize>,
    options: &CalibrateOptions,
) -> Result<Calibration, ModelError> {
    let model = Mamba2::load(dir)?;
    let tokenizer = Tokenizer::load(dir, &model.config)?;
    let length = length.unwrap_or(model.config.max_length);
    let documents = Document::read_all(data, None)?
        .iter()
        .map(|d| tokenizer.encode(&d.text, length, Truncation::Allow))
        .collect::<Result<Vec<_>, _>>()?;
    let mut options = options.clone();
    options.name = file_name(data);
    if let Some(path) = ranges {
        let (other, documents) = Ranges::load(path, &tensor_names(model.layers.len()))?;
        let name = file_name(path);
        options.ranges = Some((other, RangeSource { name, documents }));
    }
    calibrate(&model, &documents, &options)
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Checks the options; returns the common length of the documents.
fn check(documents: &[Encoded], options: &CalibrateOptions) -> Result<usize, ModelError> {
    let Some(first) = documents.first() else {
        return Err(ModelError::Calibrate("no documents".into()));
    };
    let length = first.ids.len();
    if let Some(d) = documents.iter().find(|d| d.ids.len() != length) {
        return Err(ModelError::Calibrate(format!(
            "documents of {length} and of {} tokens: pad all to one length",
            d.ids.len()
        )));
    }
    for (name, v) in [
        ("norm_margin", options.norm_margin),
        ("headroom", options.headroom),
    ] {
        if !(1.0..=1024.0).contains(&v) {
            return Err(ModelError::Calibrate(format!(
                "{name} = {v} must be between 1 and 1024"
            )));
        }
    }
    Ok(length)
}

/// What one pass over all documents saw.
#[derive(Default)]
struct Seen {
    outputs: Vec<Output>,
    ranges: Ranges,
    /// Means of squares of real tokens, by norm tensor.
    norms: Vec<(String, Vec<f64>)>,
    /// By layer: head → steps below -tau; and all steps.
    frozen: Vec<(Vec<u64>, u64)>,
}

impl Seen {
    fn frozen_share(&self) -> Vec<Vec<f64>> {
        self.frozen
            .iter()
            .map(|(heads, all)| {
                heads
                    .iter()
                    // Four digits are enough to read.
                    .map(|n| (*n as f64 / (*all).max(1) as f64 * 1e4).round() / 1e4)
                    .collect()
            })
            .collect()
    }
}

/// Runs all documents in parallel. Minimum and maximum do not depend on the order.
fn run<N: Nonlin>(
    model: &Mamba2,
    documents: &[Encoded],
    nonlin: &N,
    stack: Stack,
) -> Result<Seen, ModelError> {
    let c = &model.config;
    let each: Result<Vec<(Output, Meter)>, ModelError> = documents
        .par_iter()
        .map(|d| {
            let mut meter = Meter {
                ranges: RangeObserver::new(c.inner(), c.n_groups * c.state_size),
                norms: Vec::new(),
                frozen: Vec::new(),
                tau: stack.spec().softplus.tau,
            };
            let out = forward(model, &d.ids, d.real, nonlin, &mut meter)?;
            Ok((out, meter))
        })
        .collect();
    let mut seen = Seen {
        frozen: vec![(vec![0; c.num_heads], 0); c.num_hidden_layers],
        ..Seen::default()
    };
    for (out, meter) in each? {
        seen.outputs.push(out);
        seen.ranges = seen.ranges.union(&meter.ranges.ranges);
        seen.norms.extend(meter.norms);
        for ((heads, all), (h, steps)) in seen.frozen.iter_mut().zip(meter.frozen) {
            heads.iter_mut().zip(h).for_each(|(a, b)| *a += b);
            *all += steps;
        }
    }
    Ok(seen)
}

/// Observer of one document.
struct Meter {
    ranges: RangeObserver,
    norms: Vec<(String, Vec<f64>)>,
    frozen: Vec<(Vec<u64>, u64)>,
    tau: f64,
}

impl Observer for Meter {
    fn tensor(&mut self, name: &str, value: &Matrix, real: usize) {
        self.ranges.tensor(name, value, real);
        if name.ends_with("_ms") {
            self.norms
                .push((name.to_string(), value.data[..real].to_vec()));
        }
        if name.ends_with(".dt_pre_softplus") {
            let heads = (0..value.cols)
                .map(|h| (0..real).filter(|t| value.row(*t)[h] < -self.tau).count() as u64)
                .collect();
            self.frozen.push((heads, real as u64));
        }
    }

    fn range(&mut self, name: &str, min: f64, max: f64) {
        self.ranges.range(name, min, max);
    }
}

/// How many means of squares (plus epsilon) lie outside their table.
fn clamped(seen: &Seen, norms: &Norms, epsilon: f64) -> u64 {
    let tables: Vec<(String, _)> = NormId::all(norms.pre.len())
        .into_iter()
        .filter_map(|n| Some((n.tensor(), norms.table(n)?)))
        .collect();
    seen.norms
        .iter()
        .filter_map(|(name, v)| Some((tables.iter().find(|(n, _)| n == name)?, v)))
        .map(|((_, t), v)| v.iter().filter(|x| !t.contains(**x + epsilon)).count() as u64)
        .sum()
}

/// Table range of one norm: measured, plus epsilon, widened by the margin, rounded outwards.
fn norm_range(ranges: &Ranges, norm: NormId, epsilon: f64, options: &CalibrateOptions) -> Range {
    let r = ranges.of(&norm.tensor()).unwrap_or(Range {
        min: f64::NAN,
        max: f64::NAN,
    });
    let mut v = Range {
        min: r.min + epsilon,
        max: r.max + epsilon,
    }
    .outwards(options.norm_margin);
    if v.min == v.max {
        // A constant power of two: the table needs a width.
        v.max *= 2.0;
    }
    v
}

/// Ranges as published: norms as their tables, all others with headroom.
fn rounded(ranges: &Ranges, norms: &Norms, options: &CalibrateOptions) -> Ranges {
    let mut out = widened(ranges, options);
    for norm in NormId::all(norms.pre.len()) {
        if let Some(t) = norms.table(norm) {
            let r = Range {
                min: t.v_min,
                max: t.v_max,
            };
            out.by_name.insert(norm.tensor(), r);
        }
    }
    out
}

/// All ranges with headroom, rounded outwards.
fn widened(ranges: &Ranges, options: &CalibrateOptions) -> Ranges {
    let mut out = Ranges::default();
    for (name, r) in &ranges.by_name {
        out.widen(name, r.outwards(options.headroom));
    }
    out
}

/// Refuses NaN and infinities, which [`Ranges`] keeps as unbounded ranges.
fn finite(ranges: &Ranges) -> Result<(), ModelError> {
    let violations: Vec<_> = ranges
        .by_name
        .iter()
        .filter(|(_, r)| !r.magnitude().is_finite())
        .map(|(name, _)| violation(ranges, name, "not a number or infinite".into()))
        .collect();
    if violations.is_empty() {
        Ok(())
    } else {
        Err(ModelError::OutOfDomain { violations })
    }
}

fn violation(ranges: &Ranges, tensor: &str, reason: String) -> DomainViolation {
    let r = ranges.of(tensor).unwrap_or(Range {
        min: f64::NAN,
        max: f64::NAN,
    });
    DomainViolation {
        tensor: tensor.to_string(),
        min: r.min,
        max: r.max,
        reason,
    }
}
