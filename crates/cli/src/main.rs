//! The `cipherloom` command.

mod args;
mod commands;
mod error;
mod format;
mod pair;
mod progress;
mod serving;
mod shipped;
mod text;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Demo(a) => commands::demo::run(&a),
        Command::Publish(a) => commands::publish::run(&a),
        Command::Serve(a) => commands::serve::run(&a),
        Command::Classify(a) => commands::classify::run(&a),
        Command::Plan(a) => commands::plan::run(&a),
        Command::Measure(a) => commands::measure::run(&a),
        Command::Calibrate(a) => commands::calibrate::run(&a),
        Command::Audit(a) => commands::audit::run(&a),
        Command::DemoServer(a) => commands::demo_server::run(&a),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("cipherloom: {e}");
            ExitCode::from(e.exit_code())
        }
    }
}
