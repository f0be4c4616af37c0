//! The server process of a demo: the service of `serve` on a loopback port, for a number of sessions. Prints one report a line.

use crate::args::DemoServerArgs;
use crate::error::{file_error, CliError};
use crate::serving::{load, say, LISTENING};
use cipherloom_engine::keystore::{MemoryKeyStore, StoreLimits};
use cipherloom_engine::link::{self, Waits};
use cipherloom_engine::service::{Limits, OnEnd, Service, ServiceOptions};
use cipherloom_engine::{EngineError, TcpAcceptor};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// Runs the process.
///
/// # Errors
/// Loading, planning and session errors.
pub fn run(args: &DemoServerArgs) -> Result<(), CliError> {
    let network = link::profile(&args.network)?;
    // One client: its keys stay in memory.
    let limits = StoreLimits {
        max_bytes: u64::MAX,
        max_entries: 1,
    };
    let store = MemoryKeyStore::new(limits).map_err(EngineError::from)?;
    let (side, tls) = load(&args.model, &args.deployment, Arc::new(store), |_, _| {})?;
    let acceptor =
        TcpAcceptor::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).map_err(EngineError::from)?;
    let options = ServiceOptions {
        limits: Limits {
            sessions: 1,
            memory: None,
        },
        waits: Waits::default(),
        grace: Duration::from_secs(60),
        network,
        dump: args.dump.clone(),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let left = AtomicUsize::new(args.sessions);
    let ended = Arc::clone(&stop);
    let on_end: OnEnd = Box::new(move |end| {
        let line = serde_json::to_string(end).unwrap_or_default();
        // The demo is gone if nobody reads.
        let _ = say(&line);
        if left.fetch_sub(1, Ordering::SeqCst) == 1 {
            ended.store(true, Ordering::SeqCst);
        }
    });
    let service = Service::new(side, tls, options, on_end)?;
    let addr = acceptor.local_addr().map_err(EngineError::from)?;
    say(&format!("{LISTENING}{addr}")).map_err(|e| file_error(Path::new("standard output"), e))?;
    service.run(&acceptor, &stop)?;
    Ok(())
}
