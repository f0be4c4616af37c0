//! A server that strangers may connect to: many sessions at once, each bounded in memory and time.
//!
//! Every connection has its own thread from the first byte on, so a slow or hostile client keeps nobody waiting. A
//! connection first proves that it speaks TLS and sends a hello, then asks [`Admission`] for a place; without one it is told
//! `busy` and closed. Of the connections that have no place, the one that waited longest makes room for a new one, so idle
//! connections keep nobody out. A session that ends frees all it held. What is logged of a session is its number, stage and code.

mod admission;
mod http;
mod metrics;
mod one;

pub use admission::{Admission, Limits, NoRoom, Place, ServiceMemory};
pub use http::MetricsEndpoint;
pub use metrics::Metrics;
pub use one::{SessionEnd, SessionResult};

pub use cipherloom_net::TlsAcceptor;
pub use cipherloom_ring::heap::share_one_arena;

use crate::link::Waits;
use crate::session::{ServerSide, SessionOptions};
use crate::EngineError;
use cipherloom_net::{LinkProfile, NetError, TcpAcceptor, TcpCloser, TcpTransport};
use cipherloom_ring::heap;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Connections without a place that may be open at a time: in their TLS handshake, before their hello, or being refused. One more
/// closes the oldest of them.
pub const WAITING_CONNECTIONS: usize = 32;
/// How often the accept loop looks whether it must stop.
const POLL: Duration = Duration::from_millis(100);
/// How long sessions that were told to stop may take to notice, at the end of a stage.
const TOLD_WAIT: Duration = Duration::from_secs(10);
/// Quiet time after a session's end until what it left is given back to the system.
const TIDY_WAIT: Duration = Duration::from_secs(1);
/// How often the certificate's end is looked at.
const CERTIFICATE_LOOK: Duration = Duration::from_secs(24 * 3600);
/// Days before its end from which the log says so.
const CERTIFICATE_DAYS: u64 = 30;
/// Pause after an accept that the system refused, for want of descriptors for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Choices of a service.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// Sessions and memory.
    pub limits: Limits,
    /// How long a session waits, and how long it may take in all.
    pub waits: Waits,
    /// How long running sessions may go on after a stop.
    pub grace: Duration,
    /// Emulated network.
    pub network: Option<LinkProfile>,
    /// Write the server's shares of every stage here: only where one person owns both sides.
    pub dump: Option<PathBuf>,
}

/// Called at the end of every connection that became a session or was refused.
pub type OnEnd = Box<dyn Fn(&SessionEnd) + Send + Sync>;

/// A server of one model.
pub struct Service {
    side: ServerSide,
    tls: TlsAcceptor,
    options: ServiceOptions,
    admission: Arc<Admission>,
    metrics: Arc<Metrics>,
    on_end: OnEnd,
    /// Connections in any state.
    connections: AtomicUsize,
    /// Those without a place, by age.
    waiting: Mutex<BTreeMap<u64, TcpCloser>>,
    /// Number of the next connection.
    next_connection: AtomicU64,
    /// Number of the next session.
    next: AtomicU64,
    /// Sessions that ended.
    ended: AtomicU64,
    /// Sessions end before their next stage.
    force: Arc<AtomicBool>,
    /// New connections are refused.
    stopping: AtomicBool,
}

/// What a service did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Sessions that began.
    pub sessions: u64,
    /// Sessions that were cut off by the stop: told, or still running when the time was up.
    pub cut: usize,
}

/// Takes a connection off the counts, whatever happens.
struct Connection {
    service: Arc<Service>,
    number: u64,
}

impl Connection {
    /// It has a place: it is no longer closed to make room.
    fn admitted(&self) {
        self.service.waiting().remove(&self.number);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.admitted();
        self.service.connections.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service {
    /// Joins model, identity and limits.
    ///
    /// # Errors
    /// `NoRoom` when not even one session fits into the memory.
    pub fn new(
        side: ServerSide,
        tls: TlsAcceptor,
        options: ServiceOptions,
        on_end: OnEnd,
    ) -> Result<Arc<Self>, NoRoom> {
        let memory = side.memory();
        Ok(Arc::new(Self {
            admission: Admission::new(memory, options.limits)?,
            metrics: Arc::new(Metrics::new(
                Arc::clone(&side.store),
                tls.validity().not_after,
            )),
            side,
            tls,
            options,
            on_end,
            connections: AtomicUsize::new(0),
            waiting: Mutex::new(BTreeMap::new()),
            next_connection: AtomicU64::new(0),
            next: AtomicU64::new(1),
            ended: AtomicU64::new(0),
            force: Arc::new(AtomicBool::new(false)),
            stopping: AtomicBool::new(false),
        }))
    }

    /// Sessions at a time that both limits allow.
    #[must_use]
    pub fn most(&self) -> usize {
        self.admission.most()
    }

    /// Counts of everything since the start.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Accepts connections until `stop` is true. Then refuses new ones, lets running sessions finish within the grace time, and
    /// tells the others.
    ///
    /// # Errors
    /// None from clients. `Net` when the socket itself fails for good.
    pub fn run(
        self: &Arc<Self>,
        acceptor: &TcpAcceptor,
        stop: &AtomicBool,
    ) -> Result<Summary, EngineError> {
        let mut tidied = self.ended.load(Ordering::SeqCst);
        let mut ended = (tidied, Instant::now());
        let mut look = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            if look <= Instant::now() {
                self.look_at_certificate();
                look += CERTIFICATE_LOOK;
            }
            let now = self.ended.load(Ordering::SeqCst);
            if now != ended.0 {
                ended = (now, Instant::now());
            } else if now != tidied && ended.1.elapsed() > TIDY_WAIT {
                // By now the writer threads of the last session are gone too.
                heap::give_back();
                tidied = now;
            }
            match acceptor.accept(POLL, self.options.waits.message) {
                Ok(tcp) => self.take(tcp),
                Err(NetError::Timeout { .. }) => {}
                Err(e) => {
                    tracing::warn!(kind = EngineError::from(e).kind(), "accept failed");
                    std::thread::sleep(ACCEPT_PAUSE);
                }
            }
        }
        Ok(self.drain(acceptor))
    }

    /// Clients refuse an expired certificate, and the server would not notice.
    fn look_at_certificate(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |d| d.as_secs());
        let end = u64::try_from(self.tls.validity().not_after).unwrap_or(0);
        let days = end.saturating_sub(now) / 86_400;
        if days < CERTIFICATE_DAYS {
            tracing::warn!(days, "the certificate ends soon: publish again");
        }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, TcpCloser>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One connection, in a thread of its own.
    fn take(self: &Arc<Self>, tcp: TcpTransport) {
        let number = self.next_connection.fetch_add(1, Ordering::SeqCst);
        self.connections.fetch_add(1, Ordering::SeqCst);
        let guard = Connection {
            service: Arc::clone(self),
            number,
        };
        let Ok(closer) = tcp.closer() else {
            self.metrics.refused("descriptors");
            return;
        };
        {
            let mut waiting = self.waiting();
            if waiting.len() >= WAITING_CONNECTIONS {
                if let Some((_, oldest)) = waiting.pop_first() {
                    oldest.close();
                    self.metrics.refused("connections");
                }
            }
            waiting.insert(number, closer);
        }
        let spawned = std::thread::Builder::new()
            .name("cipherloom-session".to_owned())
            .spawn(move || guard.service.connection(tcp, &guard));
        if spawned.is_err() {
            // No thread, no session: the client sees a closed connection.
            self.metrics.refused("threads");
            tracing::warn!("no thread for a connection");
        }
    }

    /// What a session is started with.
    fn session_options(&self) -> SessionOptions {
        SessionOptions {
            dump: self.options.dump.clone(),
            record_schedule: false,
            stop: Some(Arc::clone(&self.force)),
        }
    }

    fn drain(self: &Arc<Self>, acceptor: &TcpAcceptor) -> Summary {
        self.stopping.store(true, Ordering::SeqCst);
        tracing::info!(running = self.admission.running(), "stopping");
        let wait = |until: Instant| {
            while self.connections.load(Ordering::SeqCst) > 0 && Instant::now() < until {
                // Who connects now hears that the server is stopping.
                if let Ok(tcp) = acceptor.accept(POLL, TOLD_WAIT) {
                    self.take(tcp);
                }
            }
            self.admission.running()
        };
        let cut = wait(Instant::now() + self.options.grace);
        self.force.store(true, Ordering::SeqCst);
        let left = if cut == 0 {
            0
        } else {
            wait(Instant::now() + TOLD_WAIT)
        };
        tracing::info!(told = cut - left.min(cut), cut = left, "stopped");
        Summary {
            sessions: self.next.load(Ordering::SeqCst) - 1,
            cut,
        }
    }
}
