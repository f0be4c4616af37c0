//! A document classified at a server: the client's whole way, from its bundle to the answer.

use crate::bundle::ClientBundle;
use crate::keystore::{ClientKeyFile, KeyList};
use crate::link::{Link, Waits};
use crate::session::{
    run_client, ClientInput, ClientKeySource, ClientOutcome, Observer, SessionOptions,
};
use crate::EngineError;
use cipherloom_model::Encoded;
use cipherloom_net::{LinkProfile, NetError, Pin};
use cipherloom_plan::Plan;

/// Where and how a client connects.
#[derive(Debug, Clone)]
pub struct Server<'a> {
    /// Host and port.
    pub address: &'a str,
    /// SHA-256 of its certificate.
    pub pin: Pin,
    /// How long to wait.
    pub waits: Waits,
    /// Emulated network.
    pub network: Option<LinkProfile>,
}

/// Classifies a tokenized document under `plan`, the bundle's own or its label variant. Uses the keys that `keys` holds for this
/// server, makes them the first time, and remembers that the server has them.
///
/// # Errors
/// Those of the key file, of the connection and of the session; `Refused` when the server takes nobody now.
pub fn classify(
    bundle: &ClientBundle,
    plan: &Plan,
    document: &Encoded,
    server: &Server<'_>,
    keys: &ClientKeyFile,
    options: &SessionOptions,
    observer: &mut dyn Observer,
) -> Result<ClientOutcome, EngineError> {
    let input: ClientInput = bundle.input(document)?;
    let seed = keys.load_or_create()?;
    let list = KeyList::of(plan)?;
    let source = ClientKeySource {
        seed: &seed,
        known: keys.fingerprint(&list, &seed)?,
    };
    observer.phase("connect");
    let link = Link::connect(server.address, server.pin, server.network, &server.waits)
        .map_err(|e| unreachable(e, server.address))?;
    let outcome =
        run_client(link, plan, &source, input, options, observer).map_err(|e| e.explained(plan))?;
    keys.remember(&list, &seed, &outcome.fingerprint)?;
    Ok(outcome)
}

/// Names the address in an error of the TCP connection.
fn unreachable(e: EngineError, address: &str) -> EngineError {
    let at = |phase: String| format!("{phase} to {address}");
    match e {
        EngineError::Net(NetError::Io { phase, detail }) => EngineError::Net(NetError::Io {
            phase: at(phase),
            detail,
        }),
        EngineError::Net(NetError::Timeout { phase, waited }) => {
            EngineError::Net(NetError::Timeout {
                phase: at(phase),
                waited,
            })
        }
        e => e,
    }
}
