//! What every server process does before it listens.

use crate::error::CliError;
use cipherloom_engine::bundle::Deployment;
use cipherloom_engine::keystore::{KeyList, KeyStore};
use cipherloom_engine::service::TlsAcceptor;
use cipherloom_engine::{EngineError, ServerSide, ServerWeights};
use cipherloom_model::Mamba2;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// First words of a server process's first line.
pub const LISTENING: &str = "listening on ";

/// Loads model and deployment, checks that they belong together, and encodes the weights.
///
/// # Errors
/// A bad model, deployment or certificate.
pub fn load(
    model: &Path,
    deployment: &Path,
    store: Arc<dyn KeyStore>,
    progress: impl Fn(usize, usize),
) -> Result<(ServerSide, TlsAcceptor), CliError> {
    let model = Mamba2::load(model)?;
    let deployment = Deployment::load(deployment, &model)?;
    // Before the minutes that encoding may take.
    let tls = deployment.acceptor()?;
    if deployment.key_is_exposed() {
        eprintln!(
            "cipherloom: warning: {} can be read by others; chmod 600 it",
            deployment.key.display()
        );
    }
    let weights = ServerWeights::new(&deployment.plan, &model, progress)?;
    let list = KeyList::of(&deployment.plan).map_err(EngineError::from)?;
    let side = ServerSide::new(deployment.plan, Arc::new(weights), list, store)?;
    Ok((side, tls))
}

/// Writes one line to standard output, at once.
///
/// # Errors
/// The system's.
pub fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush())
}
