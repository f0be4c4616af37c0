//! Sessions with a peer that is gone, silent, of another plan, or talks garbage: each ends soon, with a typed error.

#![allow(clippy::unwrap_used, clippy::panic)]

use cipherloom_bridge::BridgeError;
use cipherloom_ckks::{size, CkksError, CkksParameters, KeyGenerator};
use cipherloom_engine::document::client_input;
use cipherloom_engine::handshake::{
    client_handshake, server_handshake, Binding, SessionId, HELLO_BYTES,
};
use cipherloom_engine::keys::offer_keys;
use cipherloom_engine::keystore::KeyStoreError;
use cipherloom_engine::link::Link;
use cipherloom_engine::{
    run_client, run_server, ClientInput, ClientKeySource, EngineError, Observer, Quiet, ServerSide,
    ServerWeights, SessionOptions,
};
use cipherloom_model::{Calibration, Mamba2, Tokenizer, Truncation};
use cipherloom_mpc::session::OPEN_PAYLOADS;
use cipherloom_mpc::MpcError;
use cipherloom_net::{
    Channel, ChannelConfig, FrameKind, Halves, LinkFault, MemoryTransport, NetError, SendHalf,
    Transport,
};
use cipherloom_nonlinear::NonlinearError;
use cipherloom_plan::{Plan, Request, Ring, Stage, StageKind, OFFLINE_STAGE};
use cipherloom_ring::{SecretPrg, SecretSeed};
use cipherloom_spec::schedule::Carry;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

const LENGTH: usize = 16;
/// Longest wait of the short sessions.
const SHORT: Duration = Duration::from_millis(400);
/// Longest wait of sessions that compute.
const LONG: Duration = Duration::from_secs(60);
/// What a session may take to end after the deadline or after its peer, on a loaded machine.
const SLACK: Duration = Duration::from_secs(10);

struct Setup {
    model: Mamba2,
    plan: Arc<Plan>,
    longer: Arc<Plan>,
    side: ServerSide,
}

fn model_dir() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../models/mamba2-moviedoc"
    ))
}

fn setup() -> Setup {
    let model = Mamba2::load(&model_dir()).unwrap();
    let calibration = Calibration::load(&model_dir(), &model).unwrap();
    let plan = |length| {
        let carry = Carry::Serial;
        let r = Request::for_model("moviedoc", &model, &calibration, length, None, carry).unwrap();
        Arc::new(Plan::build(r).unwrap())
    };
    let (plan, longer) = (plan(LENGTH), plan(2 * LENGTH));
    let weights = Arc::new(ServerWeights::new(&plan, &model, |_, _| {}).unwrap());
    Setup {
        model,
        side: ServerSide::in_memory(Arc::clone(&plan), weights, 8).unwrap(),
        plan,
        longer,
    }
}

fn input(s: &Setup) -> ClientInput {
    let tokenizer = Tokenizer::load(&model_dir(), &s.model.config).unwrap();
    let text = tokenizer
        .encode("very good .", LENGTH, Truncation::Allow)
        .unwrap();
    client_input(&s.model, &text).unwrap()
}

fn source(seed: &SecretSeed) -> ClientKeySource<'_> {
    ClientKeySource { seed, known: None }
}

/// Offers no keys; the server asks for them.
fn offer_nothing(channel: &mut Channel) {
    channel.send(FrameKind::Setup, &[0; 32]).unwrap();
    assert_eq!(channel.recv(FrameKind::Setup, 1).unwrap(), [0]);
}

fn config(deadline: Duration) -> ChannelConfig {
    ChannelConfig {
        deadline,
        ..ChannelConfig::default()
    }
}

/// The link's error, whichever layer hands it on.
fn link(e: &EngineError) -> &NetError {
    match e {
        EngineError::Net(e)
        | EngineError::Mpc(MpcError::Net(e))
        | EngineError::Bridge(BridgeError::Mpc(MpcError::Net(e)))
        | EngineError::Nonlinear(NonlinearError::Mpc(MpcError::Net(e))) => e,
        e => panic!("not an error of the link: {e:?}"),
    }
}

/// The real server against `client`, which returns its channel when it wants to stay connected.
fn serve(s: &Setup, client: impl FnOnce(Channel) -> Option<Channel>) -> EngineError {
    let (a, b) = Channel::memory_pair(config(SHORT)).unwrap();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let start = Instant::now();
            let options = SessionOptions::default();
            let end = run_server(Link::insecure_local(b), &s.side, &options, &mut Quiet);
            (end.err().unwrap(), start.elapsed())
        });
        let held = client(a);
        let (error, took) = server.join().unwrap();
        drop(held);
        assert!(took < SHORT + SLACK, "{took:?}: {error}");
        error
    })
}

/// The real client against a server that is none.
fn visit(s: &Setup, server: impl FnOnce(Channel) -> Option<Channel> + Send) -> EngineError {
    let (a, b) = Channel::memory_pair(config(SHORT)).unwrap();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| server(b));
        let start = Instant::now();
        let seed = SecretSeed::from_os().unwrap();
        let options = SessionOptions::default();
        let error = run_client(
            Link::insecure_local(a),
            &s.plan,
            &source(&seed),
            input(s),
            &options,
            &mut Quiet,
        )
        .err()
        .unwrap();
        let took = start.elapsed();
        drop(server.join().unwrap());
        assert!(took < SHORT + SLACK, "{took:?}: {error}");
        error
    })
}

fn hello(channel: &mut Channel, plan: &Plan) -> Result<SessionId, EngineError> {
    let mut prg = SecretPrg::from_os().unwrap();
    client_handshake(channel, plan, &Binding::insecure_none(), &mut prg)
}

fn send_public_key(channel: &mut Channel, s: &Setup, purpose: &str, id: &SessionId) {
    offer_nothing(channel);
    let params = CkksParameters::new(s.plan.chain(Ring::Projection).clone()).unwrap();
    let keys = KeyGenerator::from_os(&params).unwrap();
    let secret = keys.secret_key().unwrap();
    let public = keys
        .public_key(&secret, id.public_seed(purpose))
        .unwrap()
        .to_bytes();
    channel.send(FrameKind::Setup, &public).unwrap();
}

/// What a client sees of the failed server: its stage and a code.
fn told(channel: &mut Channel) -> (u16, u16) {
    match channel.recv(FrameKind::Setup, 1) {
        Err(NetError::Peer { stage, code }) => (stage, code),
        other => panic!("{other:?}"),
    }
}

fn the_server_meets_bad_clients(s: &Setup) {
    let ring = Ring::Projection.name();
    let chain = s.plan.chain(Ring::Projection);

    // Gone after the handshake.
    let e = serve(s, |mut c| {
        hello(&mut c, &s.plan).unwrap();
        None
    });
    assert!(
        matches!(&e, EngineError::Net(NetError::PeerLost { phase, .. }) if phase == "setup: read"),
        "{e:?}"
    );

    // Never answers.
    let e = serve(s, Some);
    assert!(
        matches!(&e, EngineError::Net(NetError::Timeout { waited, .. }) if *waited >= SHORT),
        "{e:?}"
    );

    // Another plan: both sides say so.
    let e = serve(s, |mut c| {
        let e = hello(&mut c, &s.longer).err().unwrap();
        assert!(
            matches!(&e, EngineError::Mismatch { what: "sequence length", here, peer } if here == "32" && peer == "16"),
            "{e:?}"
        );
        Some(c)
    });
    assert!(
        matches!(&e, EngineError::Mismatch { what: "sequence length", here, peer } if here == "16" && peer == "32"),
        "{e:?}"
    );

    // Another release.
    let e = serve(s, |mut c| {
        let mut hello = [0u8; HELLO_BYTES];
        hello[..5].copy_from_slice(b"CLOOM");
        c.send(FrameKind::Hello, &hello).unwrap();
        c.recv(FrameKind::Hello, HELLO_BYTES).unwrap();
        assert_eq!(told(&mut c), (0, 9));
        Some(c)
    });
    assert!(
        matches!(
            e,
            EngineError::Mismatch {
                what: "protocol version",
                ..
            }
        ),
        "{e:?}"
    );

    // An evaluation key of another length.
    let e = serve(s, |mut c| {
        let id = hello(&mut c, &s.plan).unwrap();
        send_public_key(&mut c, s, ring, &id);
        c.send(FrameKind::Setup, &[0; 1000]).unwrap();
        assert_eq!(told(&mut c), (0, 1));
        Some(c)
    });
    assert!(
        matches!(
            e,
            EngineError::Net(NetError::Length {
                kind: FrameKind::Setup,
                got: 1000,
                ..
            })
        ),
        "{e:?}"
    );

    // A public key whose uniform part the client chose alone.
    let e = serve(s, |mut c| {
        hello(&mut c, &s.plan).unwrap();
        send_public_key(&mut c, s, ring, &SessionId([7; 32]));
        Some(c)
    });
    assert!(
        matches!(
            e,
            EngineError::KeyStore(KeyStoreError::PublicSeed { ring: "projection" })
        ) && e.is_peer(),
        "{e:?}"
    );

    // Garbage of the right length.
    let e = serve(s, |mut c| {
        hello(&mut c, &s.plan).unwrap();
        offer_nothing(&mut c);
        let garbage = vec![0xa5; size::public_key_bytes(chain)];
        c.send(FrameKind::Setup, &garbage).unwrap();
        assert_eq!(told(&mut c), (0, 17));
        Some(c)
    });
    assert!(
        matches!(
            e,
            EngineError::KeyStore(KeyStoreError::Ckks(CkksError::Magic))
        ),
        "{e:?}"
    );
}

/// A client that sends its keys and then base OTs that are none: it is told which phase failed and why.
fn the_server_meets_a_bad_opening(s: &Setup) {
    let (mut c, b) = Channel::memory_pair(config(LONG)).unwrap();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let options = SessionOptions::default();
            run_server(Link::insecure_local(b), &s.side, &options, &mut Quiet).err()
        });
        let id = hello(&mut c, &s.plan).unwrap();
        let seed = SecretSeed::from_os().unwrap();
        let offered = offer_keys(&mut c, &s.plan, &id, &seed, None, &mut |_| {}).unwrap();
        assert!(offered.sent_bytes > 0);
        c.set_stage(OFFLINE_STAGE, "offline");
        let [nonce, base, trees] = OPEN_PAYLOADS;
        c.send(FrameKind::Ot, &vec![0; nonce]).unwrap();
        c.recv(FrameKind::Ot, nonce).unwrap();
        c.send(FrameKind::Ot, &vec![0xff; base]).unwrap();
        c.recv(FrameKind::Ot, base).unwrap();
        let told = c.recv(FrameKind::Ot, trees);
        assert!(
            matches!(
                told,
                Err(NetError::Peer {
                    stage: OFFLINE_STAGE,
                    code: 2
                })
            ),
            "{told:?}"
        );
        let e = server.join().unwrap().unwrap();
        assert!(
            matches!(e, EngineError::Mpc(MpcError::Malformed { .. })),
            "{e:?}"
        );
    });
}

fn the_client_meets_bad_servers(s: &Setup) {
    let e = visit(s, Some);
    assert!(
        matches!(e, EngineError::Net(NetError::Timeout { .. })),
        "{e:?}"
    );
    let e = visit(s, |_| None);
    assert!(matches!(link(&e), NetError::PeerLost { .. }), "{e:?}");
    let e = visit(s, |mut c| {
        let plans = [Arc::clone(&s.longer)];
        let mut prg = SecretPrg::from_os().unwrap();
        server_handshake(&mut c, &plans, &Binding::insecure_none(), &mut prg)
            .err()
            .unwrap();
        Some(c)
    });
    assert!(
        matches!(
            e,
            EngineError::Mismatch {
                what: "sequence length",
                ..
            }
        ),
        "{e:?}"
    );
}

/// What happens to the frames that the server sends.
const FINE: u8 = 0;
/// None leaves any more.
const DEAD: u8 = 1;
/// Headers and payloads are noise.
const NOISE: u8 = 2;
/// Headers are right, payloads are all ones.
const ONES: u8 = 3;

struct Faulty {
    inner: MemoryTransport,
    fault: Arc<AtomicU8>,
}

struct FaultySend {
    inner: Option<Box<dyn SendHalf>>,
    fault: Arc<AtomicU8>,
}

impl SendHalf for FaultySend {
    fn send(&mut self, mut bytes: Vec<u8>, wait: Duration) -> Result<(), LinkFault> {
        match self.fault.load(Ordering::SeqCst) {
            DEAD => self.inner = None,
            NOISE => bytes
                .iter_mut()
                .enumerate()
                .for_each(|(i, b)| *b = (i as u8).wrapping_mul(83) ^ 0xa5),
            ONES => bytes[16..].fill(0xff),
            _ => {}
        }
        self.inner
            .as_mut()
            .ok_or(LinkFault::Lost)?
            .send(bytes, wait)
    }
    fn flush(&mut self, wait: Duration) -> Result<(), LinkFault> {
        self.inner.as_mut().ok_or(LinkFault::Lost)?.flush(wait)
    }
}

impl Transport for Faulty {
    fn split(self: Box<Self>) -> Result<Halves, std::io::Error> {
        let (send, recv) = (Box::new(self.inner) as Box<dyn Transport>).split()?;
        let send = FaultySend {
            inner: Some(send),
            fault: self.fault,
        };
        Ok((Box::new(send), recv))
    }
}

/// Turns the fault on when the server enters a stage.
struct FaultAt {
    kind: StageKind,
    fault: Arc<AtomicU8>,
    value: u8,
}

impl Observer for FaultAt {
    fn stage(&mut self, stage: &Stage, _: usize, _: usize) {
        if stage.kind == self.kind {
            self.fault.store(self.value, Ordering::SeqCst);
        }
    }
}

/// Real sessions whose server fails when it enters the stage.
fn fail_in(s: &Setup, kind: StageKind, value: u8) -> EngineError {
    let (a, b) = MemoryTransport::pair();
    let fault = Arc::new(AtomicU8::new(FINE));
    let faulty = Faulty {
        inner: b,
        fault: Arc::clone(&fault),
    };
    let client = Channel::new(Box::new(a), config(LONG)).unwrap();
    let server = Channel::new(Box::new(faulty), config(LONG)).unwrap();
    let options = SessionOptions::default();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let mut at = FaultAt { kind, fault, value };
            let error = run_server(Link::insecure_local(server), &s.side, &options, &mut at)
                .err()
                .unwrap();
            (error, Instant::now())
        });
        let seed = SecretSeed::from_os().unwrap();
        let error = run_client(
            Link::insecure_local(client),
            &s.plan,
            &source(&seed),
            input(s),
            &options,
            &mut Quiet,
        )
        .err()
        .unwrap();
        let client_end = Instant::now();
        let (server_error, server_end) = server.join().unwrap();
        // Neither waits for a deadline.
        let apart = client_end
            .saturating_duration_since(server_end)
            .max(server_end.saturating_duration_since(client_end));
        assert!(apart < SLACK, "{apart:?}: {error}; {server_error}");
        match link(&server_error) {
            // A server that is about to send sees the end of the stream first.
            NetError::PeerLost { .. } => {}
            // One that waits reads which layer of the client gave up.
            NetError::Peer { code, .. } => assert_eq!(*code, error.code()),
            e => panic!("{e}"),
        }
        error
    })
}

fn the_server_fails_in_the_middle_of_the_stages(s: &Setup) {
    let e = fail_in(s, StageKind::ToShares, DEAD);
    assert!(
        matches!(link(&e), NetError::PeerLost { phase, .. } if phase.contains("to_shares")),
        "{e:?}"
    );
    let e = fail_in(s, StageKind::PreNorm, NOISE);
    assert!(matches!(link(&e), NetError::Version { .. }), "{e:?}");
    let e = fail_in(s, StageKind::ToShares, ONES);
    assert!(
        matches!(
            e,
            EngineError::Bridge(BridgeError::Mpc(MpcError::Malformed { .. }))
        ),
        "{e:?}"
    );
}

#[test]
fn a_bad_peer_ends_a_session_soon_with_a_typed_error() {
    let s = setup();
    the_server_meets_bad_clients(&s);
    the_server_meets_a_bad_opening(&s);
    the_client_meets_bad_servers(&s);
    the_server_fails_in_the_middle_of_the_stages(&s);
}
