//! `serve`: a model's server.

use crate::args::{LogLevel, ServeArgs};
use crate::error::{file_error, CliError};
use crate::format::{bytes, seconds};
use crate::progress::Progress;
use crate::serving::{load, say, LISTENING};
use cipherloom_engine::keystore::{FileKeyStore, StoreLimits};
use cipherloom_engine::link::Waits;
use cipherloom_engine::service::{
    share_one_arena, Limits, MetricsEndpoint, OnEnd, Service, ServiceOptions, SessionEnd,
    SessionResult,
};
use cipherloom_engine::{EngineError, TcpAcceptor};
use serde::Serialize;
use signal_hook::consts::TERM_SIGNALS;
use signal_hook::flag;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;
use tracing_subscriber::filter::LevelFilter;

/// Longest TLS handshake.
const CONNECT_WAIT: Duration = Duration::from_secs(10);
/// Exit code of a second signal.
const INTERRUPTED: i32 = 130;

#[derive(Serialize)]
struct Listening {
    listening: SocketAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<SocketAddr>,
    max_sessions: usize,
    model_bytes: u64,
    session_bytes: u64,
}

/// Runs the command until a signal.
///
/// # Errors
/// A bad model, deployment, certificate or address; limits that let nobody in.
pub fn run(args: &ServeArgs) -> Result<(), CliError> {
    share_one_arena();
    log(args.log);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in TERM_SIGNALS {
        // The second signal ends the process at once, the first one only sets the flag.
        flag::register_conditional_shutdown(*signal, INTERRUPTED, Arc::clone(&stop))
            .and_then(|_| flag::register(*signal, Arc::clone(&stop)))
            .map_err(|e| file_error(Path::new("signal handler"), e))?;
    }
    let keys = args
        .key_store
        .clone()
        .unwrap_or_else(|| args.deployment.join("keys"));
    let limits = StoreLimits {
        max_bytes: args.key_store_size,
        max_entries: args.key_store_clients,
    };
    let (store, warnings) = FileKeyStore::open(&keys, limits).map_err(EngineError::from)?;
    for w in warnings {
        tracing::warn!("{}", w.kind());
    }
    let progress = Progress::new(args.json);
    progress.say("loading the model");
    let (side, tls) = load(&args.model, &args.deployment, Arc::new(store), |i, n| {
        progress.say(format!("encoding the weights, layer {i} of {n}"));
    })?;
    progress.done();
    let memory = side.memory();
    let options = ServiceOptions {
        limits: Limits {
            sessions: args.max_sessions,
            memory: args.max_memory.or_else(three_quarters_of_memory),
        },
        waits: Waits {
            connect: CONNECT_WAIT,
            message: Duration::from_secs(args.message_timeout),
            session: Some(Duration::from_secs(args.timeout)),
        },
        grace: Duration::from_secs(args.grace),
        network: None,
        dump: None,
    };
    let acceptor = TcpAcceptor::bind(args.listen).map_err(|e| {
        // The user's address, not a peer's fault.
        let e = format!("{e}; choose another address with --listen");
        file_error(Path::new(&args.listen.to_string()), e)
    })?;
    let endpoint = args.metrics.map(MetricsEndpoint::bind).transpose()?;
    let json = args.json;
    let on_end: OnEnd = Box::new(move |end| report(end, json));
    let service = Service::new(side, tls, options, on_end)?;
    let listening = Listening {
        listening: acceptor.local_addr().map_err(EngineError::from)?,
        metrics: endpoint.as_ref().and_then(MetricsEndpoint::local_addr),
        max_sessions: service.most(),
        model_bytes: memory.fixed,
        session_bytes: memory.session,
    };
    announce(&listening, args.json)?;
    // The endpoint answers until the last session has ended.
    let ended = AtomicBool::new(false);
    let summary = std::thread::scope(|scope| {
        if let Some(endpoint) = &endpoint {
            scope.spawn(|| endpoint.run(service.metrics(), &ended));
        }
        let summary = service.run(&acceptor, &stop);
        ended.store(true, Ordering::SeqCst);
        summary
    })?;
    tracing::info!(sessions = summary.sessions, "bye");
    Ok(())
}

fn announce(l: &Listening, json: bool) -> Result<(), CliError> {
    let done = if json {
        let line = serde_json::to_string(l).map_err(|e| CliError::Reports(e.to_string()))?;
        say(&line)
    } else {
        say(&format!("{LISTENING}{}", l.listening)).and_then(|()| {
            if let Some(m) = l.metrics {
                say(&format!("metrics on http://{m}/metrics"))?;
            }
            say(&format!(
                "up to {} at a time; {} for the model, {} for each session",
                match l.max_sessions {
                    1 => "1 session".to_owned(),
                    n => format!("{n} sessions"),
                },
                bytes(l.model_bytes),
                bytes(l.session_bytes)
            ))
        })
    };
    done.map_err(|e| file_error(Path::new("standard output"), e))
}

/// One line a session. Nobody reading is no reason to stop serving.
fn report(end: &SessionEnd, json: bool) {
    if json {
        let _ = serde_json::to_string(end).map(|line| say(&line));
    } else if let SessionResult::Answered { report } = &end.result {
        let t = report.traffic;
        let _ = say(&format!(
            "session {}: answered in {} ({} received, {} sent, {})",
            end.session,
            seconds(report.seconds.total),
            bytes(t.client_to_server),
            bytes(t.server_to_client),
            if report.keys_reused {
                "keys known".to_owned()
            } else {
                format!("new keys, {}", bytes(report.setup_bytes))
            }
        ));
    }
}

fn log(level: LogLevel) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    // Another subscriber is there already only where a program embeds this one.
    let _ = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_target(false)
        .with_writer(std::io::stderr)
        .try_init();
}

/// Of the machine, or of the container's limit if that is lower; `None` where the system does not tell.
fn three_quarters_of_memory() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    let machine = kib * 1024;
    // The unit's or container's own group (version 2), and the root that a container sees.
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own
        .lines()
        .find_map(|l| l.strip_prefix("0::"))
        .unwrap_or("/");
    let limits = [
        format!("/sys/fs/cgroup{own}/memory.max"),
        "/sys/fs/cgroup/memory.max".into(),
    ];
    let lowest = limits
        .iter()
        .filter_map(|p| std::fs::read_to_string(p).ok()?.trim().parse::<u64>().ok())
        .fold(machine, u64::min);
    Some(lowest / 4 * 3)
}
