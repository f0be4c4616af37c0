//! `measure`: this machine's primitive costs.

use crate::args::MeasureArgs;
use crate::error::CliError;

/// Runs the command.
///
/// # Errors
/// Measurement errors.
pub fn run(_args: &MeasureArgs) -> Result<(), CliError> {
    Err(CliError::Argument {
        argument: "measure",
        detail: "is not in this build yet".into(),
    })
}
