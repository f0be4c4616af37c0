//! `calibrate`: ranges, bucket tables and formats, written beside the model.

use crate::args::CalibrateArgs;
use crate::error::CliError;
use crate::pair::stack;
use crate::progress::Progress;
use cipherloom_model::calibrate::{calibrate_documents, CalibrateOptions};

/// Runs the command.
///
/// # Errors
/// Loading errors; a model whose activations leave the domain.
pub fn run(args: &CalibrateArgs) -> Result<(), CliError> {
    let progress = Progress::new(args.json);
    progress.say("running the model on the documents");
    let options = CalibrateOptions {
        stack: stack(&args.stack)?,
        ..CalibrateOptions::default()
    };
    let calibration = calibrate_documents(
        &args.model,
        &args.data,
        args.ranges.as_deref(),
        Some(args.length),
        &options,
    )?;
    calibration.save(&args.model)?;
    progress.done();
    if args.json {
        let text = serde_json::to_string_pretty(&calibration)
            .map_err(|e| CliError::Reports(e.to_string()))?;
        println!("{text}");
        return Ok(());
    }
    println!("wrote {}", args.model.join("calibration.json").display());
    println!(
        "{} documents at {} tokens, stack {}",
        calibration.documents, calibration.length, calibration.stack
    );
    for c in &calibration.checks {
        println!(
            "  {:<60} {:<28} {:.3e} of {:.3e}",
            c.rule, c.tensor, c.value, c.limit
        );
    }
    println!(
        "surrogate against exact: largest logit difference {:.4}, same label on {} of {}",
        calibration.report.max_logit_difference,
        calibration.report.same_label,
        calibration.documents
    );
    Ok(())
}
