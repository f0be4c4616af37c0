//! What the tests of the service share: a published model, a service in this process, and its honest client.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cipherloom_engine::bundle::{deploy, ClientBundle, Deployment, IdentitySource};
use cipherloom_engine::keystore::ClientKeyFile;
use cipherloom_engine::link::Waits;
use cipherloom_engine::remote::{classify, Server};
use cipherloom_engine::service::{
    Limits, Service, ServiceOptions, SessionEnd, SessionResult, TlsAcceptor,
};
use cipherloom_engine::{
    ClientOutcome, EngineError, Quiet, ServerSide, ServerWeights, SessionOptions, TcpAcceptor,
};
use cipherloom_model::forward::label;
use cipherloom_model::observe::Silent;
use cipherloom_model::{forward, Calibration, Encoded, Mamba2, Surrogate, Truncation};
use cipherloom_net::Pin;
use cipherloom_plan::{Plan, Request};
use cipherloom_spec::schedule::Carry;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub const LENGTH: usize = 16;
pub const SHORT_TEXT: &str = "very good .";
/// More than any wait of a sound run on a busy machine.
pub const LONG: Duration = Duration::from_secs(120);

pub const fn waits(connect: u64, message: u64) -> Waits {
    Waits {
        connect: Duration::from_secs(connect),
        message: Duration::from_secs(message),
        session: None,
    }
}

/// A published model.
pub struct Provider {
    pub model: Mamba2,
    pub bundle: ClientBundle,
    pub pin: Pin,
    surrogate: Surrogate,
    weights: Arc<ServerWeights>,
    deployment: Deployment,
    pub dir: tempfile::TempDir,
}

impl Provider {
    pub fn new() -> Self {
        let folder = PathBuf::from(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../models/mamba2-moviedoc"
        ));
        let model = Mamba2::load(&folder).unwrap();
        let calibration = Calibration::load(&folder, &model).unwrap();
        let carry = Carry::Serial;
        let request =
            Request::for_model("moviedoc", &model, &calibration, LENGTH, None, carry).unwrap();
        let plan = Plan::build(request).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let source = IdentitySource::SelfSigned {
            names: &["localhost"],
            days: 2,
        };
        let out = dir.path().join("published");
        let done = deploy(&folder, &model, &plan, source, &out).unwrap();
        let weights = Arc::new(ServerWeights::new(&plan, &model, |_, _| {}).unwrap());
        Self {
            bundle: ClientBundle::load(&done.folders.client).unwrap(),
            deployment: Deployment::load(&done.folders.server, &model).unwrap(),
            pin: done.pin,
            surrogate: Surrogate::new(&calibration),
            model,
            weights,
            dir,
        }
    }

    pub fn tls(&self) -> TlsAcceptor {
        self.deployment.acceptor().unwrap()
    }

    pub fn side(&self) -> ServerSide {
        let plan = Arc::clone(&self.bundle.plan);
        ServerSide::in_memory(plan, Arc::clone(&self.weights), 8).unwrap()
    }

    pub fn start(&self, sessions: usize, waits: Waits) -> Running {
        let ends = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&ends);
        let options = ServiceOptions {
            limits: Limits {
                sessions,
                memory: None,
            },
            waits,
            grace: Duration::from_secs(5),
            network: None,
            dump: None,
        };
        let on_end = Box::new(move |e: &SessionEnd| list.lock().unwrap().push(e.clone()));
        let service = Service::new(self.side(), self.tls(), options, on_end).unwrap();
        let acceptor = TcpAcceptor::bind("127.0.0.1:0").unwrap();
        let addr = acceptor.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (running, flag) = (Arc::clone(&service), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            running.run(&acceptor, &flag).unwrap();
        });
        Running {
            addr,
            service,
            ends,
            stop,
            thread: Some(thread),
        }
    }

    pub fn encode(&self, text: &str) -> Encoded {
        self.bundle.encode(text, Truncation::Allow).unwrap()
    }

    /// The key folder of a client.
    pub fn keys(&self, name: &str) -> ClientKeyFile {
        ClientKeyFile::at(&self.dir.path().join(name), &self.pin.bytes()).unwrap()
    }

    /// The honest client.
    pub fn ask(
        &self,
        at: SocketAddr,
        text: &Encoded,
        keys: &ClientKeyFile,
        waits: Waits,
    ) -> Result<ClientOutcome, EngineError> {
        let address = at.to_string();
        let server = Server {
            address: &address,
            pin: self.pin,
            waits,
            network: None,
        };
        let options = SessionOptions::default();
        let plan = &self.bundle.plan;
        classify(
            &self.bundle,
            plan,
            text,
            &server,
            keys,
            &options,
            &mut Quiet,
        )
    }

    /// Holds an answer against the plaintext surrogate.
    pub fn check(&self, text: &Encoded, got: &ClientOutcome) {
        let want = forward(
            &self.model,
            &text.ids,
            text.real,
            &self.surrogate,
            &mut Silent,
        )
        .unwrap();
        let logits = got.logits.as_deref().unwrap();
        assert_eq!(got.label, label(&want.logits));
        let worst = want.logits.iter().zip(logits).map(|(a, b)| (a - b).abs());
        assert!(worst.fold(0.0, f64::max) <= 0.002, "{logits:?}");
    }

    /// The honest client is answered, rightly.
    pub fn answers(&self, at: SocketAddr, keys: &ClientKeyFile) -> ClientOutcome {
        let text = self.encode(SHORT_TEXT);
        let got = self.ask(at, &text, keys, waits(30, 120)).unwrap();
        self.check(&text, &got);
        got
    }
}

/// A service that runs. Stopped when dropped.
pub struct Running {
    pub addr: SocketAddr,
    pub service: Arc<Service>,
    ends: Arc<Mutex<Vec<SessionEnd>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub fn ends(&self) -> Vec<SessionEnd> {
        self.ends.lock().unwrap().clone()
    }

    /// The failed sessions: stage, code, kind.
    pub fn failures(&self) -> Vec<(String, u16, &'static str)> {
        let ends = self.ends();
        let failed = ends.into_iter().filter_map(|e| match e.result {
            SessionResult::Failed {
                stage, code, kind, ..
            } => Some((stage, code, kind)),
            _ => None,
        });
        failed.collect()
    }

    /// Connections that became no session, by reason.
    pub fn refusals(&self, reason: &str) -> u64 {
        let text = self.service.metrics().text();
        let head = format!("cipherloom_refusals_total{{reason=\"{reason}\"}} ");
        let line = text.lines().find_map(|l| l.strip_prefix(&head));
        line.map_or(0, |n| n.parse().unwrap())
    }

    /// Connections that ended: sessions, and those without a TLS handshake or a hello.
    pub fn over(&self) -> u64 {
        self.ends().len() as u64 + self.refusals("handshake") + self.refusals("hello")
    }

    /// Waits until so many connections are over.
    pub fn wait_over(&self, count: u64, limit: Duration) {
        let end = Instant::now() + limit;
        while self.over() < count {
            assert!(Instant::now() < end, "{} of {count} over", self.over());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// No session runs, and none ended in a panic.
    pub fn at_rest(&self) {
        let text = self.service.metrics().text();
        assert!(text.contains("cipherloom_sessions_running 0\n"), "{text}");
        let failures = self.failures();
        assert!(failures.iter().all(|f| f.2 != "panic"), "{failures:?}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let (Some(t), false) = (self.thread.take(), std::thread::panicking()) {
            t.join().unwrap();
        }
    }
}
