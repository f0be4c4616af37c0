//! `audit`: documents exactly, with the surrogate and encrypted, side by side.

use crate::args::AuditArgs;
use crate::error::CliError;
use crate::format::seconds;
use crate::pair::{opened_diff, prepare, Pair};
use crate::progress::Progress;
use crate::shipped::ModelFolder;
use cipherloom_model::forward::label;
use cipherloom_model::{forward, Document, RangeObserver, Surrogate, Truncation};
use serde::Serialize;
use std::time::Instant;

#[derive(Serialize)]
struct Row {
    id: String,
    label: Option<usize>,
    exact: usize,
    surrogate: usize,
    encrypted: usize,
    max_logit_diff_surrogate: Option<f64>,
    max_logit_diff_exact: Option<f64>,
    outside_domain: usize,
    seconds: f64,
}

#[derive(Serialize)]
struct Audit {
    documents: usize,
    length: usize,
    stack: String,
    exact_accuracy: Option<f64>,
    surrogate_accuracy: Option<f64>,
    encrypted_accuracy: Option<f64>,
    encrypted_equals_surrogate: usize,
    encrypted_equals_exact: usize,
    max_logit_diff_surrogate: Option<f64>,
    max_logit_diff_exact: Option<f64>,
    documents_outside_domain: usize,
    seconds: f64,
    rows: Vec<Row>,
}

/// The largest difference of all documents, if their logits were opened.
fn largest(rows: &[Row], of: fn(&Row) -> Option<f64>) -> Option<f64> {
    rows.iter().filter_map(of).reduce(f64::max)
}

/// A difference of logits for people.
fn difference(d: Option<f64>) -> String {
    d.map_or_else(|| "not opened".into(), |d| format!("{d:.5}"))
}

/// Runs the command.
///
/// # Errors
/// Loading, planning and session errors.
pub fn run(args: &AuditArgs) -> Result<(), CliError> {
    let start = Instant::now();
    let mut progress = Progress::new(args.json);
    progress.say("loading");
    let folder = ModelFolder::open(Some(&args.model))?;
    let prepared = prepare(&folder, &args.choices)?;
    let documents = Document::read_all(&args.data, args.limit)?;
    if documents.is_empty() {
        return Err(CliError::Argument {
            argument: "DATA",
            detail: format!("{} holds no document", args.data.display()),
        });
    }
    progress.say("the server encodes its weights");
    let mut pair = Pair::start(&prepared, &folder, documents.len(), "none", None)?;
    let mut rows: Vec<Row> = Vec::with_capacity(documents.len());
    let config = &prepared.model.config;
    for d in &documents {
        let text = prepared
            .tokenizer
            .encode(&d.text, args.choices.length, Truncation::Allow)?;
        let a = pair.classify(&prepared, &text, None, &mut progress)?;
        let mut seen = RangeObserver::new(config.inner(), config.n_groups * config.state_size);
        forward(
            &prepared.model,
            &text.ids,
            text.real,
            &Surrogate::new(&prepared.calibration),
            &mut seen,
        )?;
        rows.push(Row {
            id: d.id.clone(),
            label: d.label,
            exact: label(&a.exact),
            surrogate: label(&a.surrogate),
            encrypted: a.client.label,
            max_logit_diff_surrogate: opened_diff(a.client.logits.as_deref(), &a.surrogate),
            max_logit_diff_exact: opened_diff(a.client.logits.as_deref(), &a.exact),
            outside_domain: prepared
                .calibration
                .outside(&seen.ranges, &prepared.model)
                .len(),
            seconds: a.seconds,
        });
        if !args.json {
            if let Some(r) = rows.last() {
                progress.suspend(|| {
                    println!(
                        "{:<28} exact {} surrogate {} encrypted {}  difference {}  {}",
                        r.id,
                        r.exact,
                        r.surrogate,
                        r.encrypted,
                        difference(r.max_logit_diff_surrogate),
                        seconds(r.seconds)
                    );
                });
            }
        }
    }
    progress.done();
    let accuracy = |f: fn(&Row) -> usize| -> Option<f64> {
        let known: Vec<&Row> = rows.iter().filter(|r| r.label.is_some()).collect();
        let right = known.iter().filter(|r| r.label == Some(f(r))).count();
        (!known.is_empty()).then(|| right as f64 / known.len() as f64)
    };
    let audit = Audit {
        documents: rows.len(),
        length: args.choices.length,
        stack: prepared.calibration.stack.name().to_string(),
        exact_accuracy: accuracy(|r| r.exact),
        surrogate_accuracy: accuracy(|r| r.surrogate),
        encrypted_accuracy: accuracy(|r| r.encrypted),
        encrypted_equals_surrogate: rows.iter().filter(|r| r.encrypted == r.surrogate).count(),
        encrypted_equals_exact: rows.iter().filter(|r| r.encrypted == r.exact).count(),
        max_logit_diff_surrogate: largest(&rows, |r| r.max_logit_diff_surrogate),
        max_logit_diff_exact: largest(&rows, |r| r.max_logit_diff_exact),
        documents_outside_domain: rows.iter().filter(|r| r.outside_domain > 0).count(),
        seconds: start.elapsed().as_secs_f64(),
        rows,
    };
    if args.json {
        let text =
            serde_json::to_string_pretty(&audit).map_err(|e| CliError::Reports(e.to_string()))?;
        println!("{text}");
        return Ok(());
    }
    let percent =
        |v: Option<f64>| v.map_or_else(|| "no labels".into(), |v| format!("{:.1} %", 100.0 * v));
    println!(
        "\n{} documents at {} tokens in {}",
        audit.documents,
        audit.length,
        seconds(audit.seconds)
    );
    println!(
        "accuracy   exact {}  surrogate {}  encrypted {}",
        percent(audit.exact_accuracy),
        percent(audit.surrogate_accuracy),
        percent(audit.encrypted_accuracy)
    );
    println!(
        "encrypted = surrogate on {}, = exact on {} of {}",
        audit.encrypted_equals_surrogate, audit.encrypted_equals_exact, audit.documents
    );
    println!(
        "largest logit difference: from the surrogate {}, from the exact model {}; {} documents leave the calibrated domain",
        difference(audit.max_logit_diff_surrogate),
        difference(audit.max_logit_diff_exact),
        audit.documents_outside_domain
    );
    Ok(())
}
