//! The `cipherloom` command.

mod args;
mod commands;
mod error;
mod format;
mod pair;
mod progress;
mod shipped;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Demo(a) => commands::demo::run(&a),
        Command::Plan(a) => commands::plan::run(&a),
        Command::Measure(a) => commands::measure::run(&a),
        Command::Calibrate(a) => commands::calibrate::run(&a),
        Command::Audit(a) => commands::audit::run(&a),
        Command::DemoServer(a) => commands::server::run(&a),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("cipherloom: {e}");
            ExitCode::from(e.exit_code())
        }
    }
}
