//! A whole session: handshake, keys, correlations, stages, end.
//!
//! Frame stages: 0 is the set-up (handshake and keys, once per client key), 1 the offline phase (base OTs), the plan's stages follow
//! with their own numbers.

use crate::client::{ClientFace, ClientTables};
use crate::face::Face;
use crate::handshake::{answer_hello, client_handshake, receive_hello, SessionId};
use crate::keys::{accept_keys, offer_keys};
use crate::keystore::{Fingerprint, KeyList, KeyStore, MemoryKeyStore, StoreLimits};
use crate::link::Link;
use crate::report::{peak_rss_bytes, PartyReport, Seconds, StageReport};
use crate::server::{ServerFace, ServerTables};
use crate::service::ServiceMemory;
use crate::stages::answered;
use crate::walk::{run_stages, tell_traffic, traffic};
use crate::weights::ServerWeights;
use crate::EngineError;
use cipherloom_mpc::rlwe::CrtProducts;
use cipherloom_mpc::{MpcConfig, Party, Session, TwoParty};
use cipherloom_net::{Channel, MessageRecord};
use cipherloom_plan::{Answer, Plan, Stage, OFFLINE_STAGE, SETUP_STAGE};
use cipherloom_ring::{SecretPrg, SecretSeed};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Instant;

/// Progress events of a session.
pub trait Observer {
    /// A phase begins: `setup`, `offline`, `online`.
    fn phase(&mut self, _name: &str) {}
    /// Stage `index` of `total` begins.
    fn stage(&mut self, _stage: &Stage, _index: usize, _total: usize) {}
    /// A stage has ended.
    fn stage_done(&mut self, _report: &StageReport) {}
    /// Bytes of the session so far; called at the end of every phase and stage.
    fn traffic(&mut self, _sent: u64, _received: u64) {}
    /// Something that the session dealt with and goes on, for the log of this party. Holds no secret.
    fn warning(&mut self, _text: &dyn std::fmt::Display) {}
}

/// Sees nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;
impl Observer for Quiet {}

/// Choices of a session that are not in the plan.
#[derive(Debug, Clone, Default)]
pub struct SessionOptions {
    /// Write this party's shares of every stage here (only where one person owns both sides).
    pub dump: Option<PathBuf>,
    /// Remember every message's direction, kind, stage and length.
    pub record_schedule: bool,
    /// Ends the session before its next stage once it is true; the peer is told.
    pub stop: Option<Arc<AtomicBool>>,
}

/// What the client brings: its document, embedded and weighted.
pub struct ClientInput {
    /// Embedded tokens, row-major `[length][hidden]`.
    pub embedded: Vec<f64>,
    /// Pooling weight of each token; zero for padding.
    pub pooling: Vec<f64>,
}

/// What the client gets.
#[derive(Debug, Clone)]
pub struct ClientOutcome {
    /// Index of the largest logit, the lowest among equals.
    pub label: usize,
    /// Logits with 12 fraction bits; nothing when the plan opens the label alone.
    pub logits: Option<Vec<f64>>,
    /// Name of the keys at the server: to be remembered for the next session.
    pub fingerprint: Fingerprint,
    /// The report.
    pub report: PartyReport,
    /// The messages, if they were recorded.
    pub schedule: Vec<MessageRecord>,
}

/// What the server gets: its report, and the messages if they were recorded.
#[derive(Debug, Clone)]
pub struct ServerOutcome {
    /// The report.
    pub report: PartyReport,
    /// The messages, if they were recorded.
    pub schedule: Vec<MessageRecord>,
}

fn mpc_config(plan: &Plan) -> MpcConfig {
    let c = plan.mpc();
    MpcConfig {
        cot_k: c.cot_k,
        cot_batch: c.cot_batch,
        digit_bits: c.digit_bits,
    }
}

fn os_prg() -> Result<SecretPrg, EngineError> {
    SecretPrg::from_os().map_err(|e| {
        EngineError::Mpc(cipherloom_mpc::MpcError::Ring {
            op: "session randomness",
            detail: e.to_string(),
        })
    })
}

/// Passes a result on. Tells the peer first what failed, if it failed and the link still works.
fn told<T>(channel: &mut Channel, result: Result<T, EngineError>) -> Result<T, EngineError> {
    if let Err(e) = &result {
        // The peer may be gone; the error that counts is the one being returned.
        let _ = channel.send_error(e.code());
    }
    result
}

/// Opens the two-party session on the channel.
fn open(
    channel: Channel,
    party: Party,
    id: &SessionId,
    plan: &Plan,
) -> Result<Session, EngineError> {
    Session::try_open(channel, party, &id.0, mpc_config(plan)).or_else(|failure| {
        let mut failure = *failure;
        told(&mut failure.channel, Err(failure.error.into()))
    })
}

/// The client's keys: the seed that they are made from, and the name under which the server may still have them.
pub struct ClientKeySource<'a> {
    /// Key seed.
    pub seed: &'a SecretSeed,
    /// Fingerprint of keys that this server stored.
    pub known: Option<Fingerprint>,
}

/// What a server brings to all its sessions.
pub struct ServerSide {
    /// The plans that are served: one model, one key list. The first one was published.
    pub plans: Vec<Arc<Plan>>,
    /// The encoded weights.
    pub weights: Arc<ServerWeights>,
    /// The plan's keys.
    pub list: Arc<KeyList>,
    /// Clients' keys between sessions.
    pub store: Arc<dyn KeyStore>,
}

impl ServerSide {
    /// Memory of a service of this side, from the plan: what is held once, and what a session adds.
    #[must_use]
    pub fn memory(&self) -> ServiceMemory {
        let each = self.plans.iter().map(|p| ServiceMemory::of(p));
        each.fold(ServiceMemory::default(), ServiceMemory::max)
    }

    /// A side that serves `plan`, and the variant that gives the label alone to clients that ask for it.
    ///
    /// # Errors
    /// `Plan` when the variant cannot be built.
    pub fn new(
        plan: Arc<Plan>,
        weights: Arc<ServerWeights>,
        list: Arc<KeyList>,
        store: Arc<dyn KeyStore>,
    ) -> Result<Self, EngineError> {
        let mut plans = vec![plan];
        // Logits beyond the domain of its comparisons have no label variant; the plan itself is served all the same.
        if let Ok(label) = plans[0].with_answer(Answer::Label) {
            if label.hash() != plans[0].hash() {
                plans.push(Arc::new(label));
            }
        }
        Ok(Self {
            plans,
            weights,
            list,
            store,
        })
    }

    /// A side that keeps its clients' keys in memory, for up to `max_clients` of them.
    ///
    /// # Errors
    /// Parameters that the plan should have refused.
    pub fn in_memory(
        plan: Arc<Plan>,
        weights: Arc<ServerWeights>,
        max_clients: usize,
    ) -> Result<Self, EngineError> {
        let list = KeyList::of(&plan)?;
        let max_bytes = list.memory_bytes().saturating_mul(max_clients as u64);
        let store = MemoryKeyStore::new(StoreLimits {
            max_bytes,
            max_entries: max_clients,
        })?;
        Self::new(plan, weights, list, Arc::new(store))
    }
}

/// Runs the client's side.
///
/// # Errors
/// Every failure of the session, own or the peer's.
pub fn run_client(
    link: Link,
    plan: &Plan,
    source: &ClientKeySource<'_>,
    input: ClientInput,
    options: &SessionOptions,
    observer: &mut dyn Observer,
) -> Result<ClientOutcome, EngineError> {
    let start = Instant::now();
    let Link {
        mut channel,
        binding,
        ..
    } = link;
    if options.record_schedule {
        channel.record_schedule();
    }
    observer.phase("setup");
    channel.set_stage(SETUP_STAGE, "setup");
    let setup = os_prg().and_then(|mut prg| {
        let id = client_handshake(&mut channel, plan, &binding, &mut prg)?;
        let mut tell = |c: &Channel| tell_traffic(c, observer);
        let (seed, known) = (source.seed, source.known);
        let offered = offer_keys(&mut channel, plan, &id, seed, known, &mut tell)?;
        Ok((offered, id))
    });
    let (offered, id) = told(&mut channel, setup)?;
    let setup_seconds = start.elapsed().as_secs_f64();
    tell_traffic(&channel, observer);
    observer.phase("offline");
    channel.set_stage(OFFLINE_STAGE, "offline");
    let offline = Instant::now();
    let (key_bytes, fingerprint) = (offered.sent_bytes, offered.fingerprint);
    let tables = told(&mut channel, ClientTables::new(offered.rings))?;
    let mut session = open(channel, Party::Client, &id, plan)?;
    let products = CrtProducts::client(&mut session, offered.products, offered.product_key);
    let products = told(session.channel(), products.map_err(Into::into))?;
    let two = TwoParty::new(session, Box::new(products));
    let mut face = ClientFace::new(two, tables, input.embedded, input.pooling);
    let offline_seconds = offline.elapsed().as_secs_f64();
    observer.phase("online");
    let online = Instant::now();
    let stages = run_stages(&mut face, plan, options, observer)
        .and_then(|(opened, reports)| Ok((answered(opened)?, reports)));
    let (answer, stages) = told(face.two().session().channel(), stages)?;
    let seconds = Seconds {
        setup: setup_seconds,
        offline: offline_seconds,
        online: online.elapsed().as_secs_f64(),
        total: start.elapsed().as_secs_f64(),
    };
    let (report, schedule) = finish(
        face.into_two(),
        Party::Client,
        plan,
        stages,
        seconds,
        (key_bytes, key_bytes == 0),
    )?;
    Ok(ClientOutcome {
        label: answer.label,
        logits: answer.logits,
        fingerprint,
        report,
        schedule,
    })
}

/// Runs the server's side of one session.
///
/// # Errors
/// Every failure of the session, own or the peer's.
pub fn run_server(
    link: Link,
    side: &ServerSide,
    options: &SessionOptions,
    observer: &mut dyn Observer,
) -> Result<ServerOutcome, EngineError> {
    let start = Instant::now();
    let Link {
        mut channel,
        binding,
        hello,
    } = link;
    if options.record_schedule {
        channel.record_schedule();
    }
    observer.phase("setup");
    channel.set_stage(SETUP_STAGE, "setup");
    let setup = os_prg().and_then(|mut prg| {
        let hello = hello.map_or_else(|| receive_hello(&mut channel), Ok)?;
        let (id, plan) = answer_hello(&hello, &mut channel, &side.plans, &binding, &mut prg)?;
        let keys = accept_keys(&mut channel, &side.list, &id, side.store.as_ref())?;
        Ok((keys, id, plan))
    });
    // The lease lives as long as the session: the store does not evict keys in use.
    let (accepted, id, plan) = told(&mut channel, setup)?;
    if let Some(w) = &accepted.warning {
        observer.warning(&w.kind());
    }
    let (lease, reused) = (accepted.keys, accepted.reused);
    let setup_seconds = start.elapsed().as_secs_f64();
    tell_traffic(&channel, observer);
    observer.phase("offline");
    channel.set_stage(OFFLINE_STAGE, "offline");
    let offline = Instant::now();
    let tables = told(&mut channel, ServerTables::new(lease.server_keys()))?;
    let mut session = open(channel, Party::Server, &id, plan)?;
    let params = side.list.products().clone();
    let products = CrtProducts::server(&mut session, params, lease.product_key());
    let products = told(session.channel(), products.map_err(Into::into))?;
    let two = TwoParty::new(session, Box::new(products));
    let mut face = ServerFace::new(two, Arc::clone(plan), Arc::clone(&side.weights), tables);
    let key_bytes = face.key_bytes();
    let offline_seconds = offline.elapsed().as_secs_f64();
    observer.phase("online");
    let online = Instant::now();
    let stages = run_stages(&mut face, plan, options, observer);
    let (_, stages) = told(face.two().session().channel(), stages)?;
    let seconds = Seconds {
        setup: setup_seconds,
        offline: offline_seconds,
        online: online.elapsed().as_secs_f64(),
        total: start.elapsed().as_secs_f64(),
    };
    let (report, schedule) = finish(
        face.into_two(),
        Party::Server,
        plan,
        stages,
        seconds,
        (key_bytes, reused),
    )?;
    drop(lease);
    Ok(ServerOutcome { report, schedule })
}

fn finish(
    two: TwoParty,
    party: Party,
    plan: &Plan,
    stages: Vec<StageReport>,
    seconds: Seconds,
    (key_bytes, keys_reused): (u64, bool),
) -> Result<(PartyReport, Vec<MessageRecord>), EngineError> {
    let session = two.into_session();
    let channel = session.channel_ref();
    let schedule = channel.schedule().to_vec();
    let snapshot = channel.snapshot();
    let setup = snapshot.stage(SETUP_STAGE);
    let mut all = traffic(party, &snapshot.stage(OFFLINE_STAGE));
    for s in &stages {
        all += s.cost.traffic;
    }
    session.finish()?;
    let report = PartyReport {
        party: match party {
            Party::Client => "client".into(),
            Party::Server => "server".into(),
        },
        plan: crate::handshake::hex(&plan.hash()),
        seconds,
        setup_bytes: setup.sent.bytes + setup.received.bytes,
        traffic: all,
        stages,
        peak_rss_bytes: peak_rss_bytes(),
        key_bytes,
        keys_reused,
    };
    Ok((report, schedule))
}
