//! Calibrates a model folder and writes `calibration.json` into it.
//!
//! ```text
//! cargo run --release -p cipherloom-model --example calibrate -- \
//!     models/mamba2-moviedoc documents/documents.jsonl models/mamba2-moviedoc/activation_ranges.json d4
//! ```
//! The ranges file and the stack may be left out; `-` stands for no ranges file.

use cipherloom_model::{calibrate_folder, CalibrateOptions};
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir, data, rest @ ..] = args.as_slice() else {
        return Err("usage: calibrate MODEL DATA.jsonl [RANGES.json|-] [STACK]".into());
    };
    let ranges = rest.first().filter(|r| *r != "-").map(PathBuf::from);
    let mut options = CalibrateOptions::default();
    if let Some(stack) = rest.get(1) {
        options.stack = stack.parse()?;
    }
    let dir = PathBuf::from(dir);
    let c = calibrate_folder(&dir, data.as_ref(), ranges.as_deref(), &options)?;
    c.save(&dir)?;
    println!(
        "stack {}: {} of {} labels as exact, largest logit difference {:.4}, {} of {} norms clamped",
        c.stack,
        c.report.same_label,
        c.documents,
        c.report.max_logit_difference,
        c.report.clamped,
        c.report.norm_values
    );
    Ok(())
}
