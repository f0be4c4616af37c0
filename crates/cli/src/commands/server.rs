//! The server process of a demo: serves a number of sessions over loopback, prints one report a line, exits.

use crate::args::DemoServerArgs;
use crate::error::{file_error, CliError};
use crate::pair::{ACCEPT_WAIT, LISTENING};
use cipherloom_engine::{link, run_server, Quiet, ServerSide, ServerWeights, SessionOptions};
use cipherloom_model::Mamba2;
use cipherloom_plan::Plan;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

/// Runs the process.
///
/// # Errors
/// Loading, planning and session errors.
pub fn run(args: &DemoServerArgs) -> Result<(), CliError> {
    let document = std::fs::read(&args.plan).map_err(|e| file_error(&args.plan, e))?;
    let plan = Arc::new(Plan::from_json(&document)?);
    let model = Mamba2::load(&args.model)?;
    let weights = Arc::new(ServerWeights::new(&plan, &model, |_, _| {})?);
    drop(model);
    let side = ServerSide::in_memory(plan, weights, 1)?;
    let network = link::profile(&args.network)?;
    let listener = link::Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let mut out = std::io::stdout();
    let mut say = |line: String| -> Result<(), CliError> {
        writeln!(out, "{line}")
            .and_then(|()| out.flush())
            .map_err(|e| file_error(Path::new("standard output"), e))
    };
    say(format!("{LISTENING}{}", listener.local_addr()?))?;
    let options = SessionOptions {
        dump: args.dump.clone(),
        record_schedule: false,
    };
    for _ in 0..args.sessions {
        let channel = listener.accept(ACCEPT_WAIT, network)?;
        let outcome = run_server(channel, &side, &options, &mut Quiet)?;
        let report = serde_json::to_string(&outcome.report)
            .map_err(|e| CliError::Reports(format!("the report cannot be written: {e}")))?;
        say(report)?;
    }
    Ok(())
}
