//! Somebody between client and server, and what a listener sees: identities, the binding of sessions to their connection, and the
//! sizes of records.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use cipherloom_engine::link::Link;
use cipherloom_engine::{
    run_client, run_server, ClientKeySource, ClientOutcome, EngineError, Quiet, SecretSeed,
    ServerOutcome, ServerSide, SessionOptions,
};
use cipherloom_model::Encoded;
use cipherloom_net::tls::RecordSizes;
use cipherloom_net::{
    NetError, RecvHalf, SendHalf, TcpAcceptor, TcpTransport, TlsAcceptor, TlsIdentity,
    TlsTransport, Transport, FRAME_PAYLOAD, HEADER_BYTES,
};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{ServerConfig, ServerConnection};
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use support::{waits, Provider, SHORT_TEXT};

const WAIT: Duration = Duration::from_secs(30);

/// What the honest client makes of a server.
fn visit(p: &Provider, at: SocketAddr) -> EngineError {
    let text = p.encode(SHORT_TEXT);
    p.ask(at, &text, &p.keys("visitor"), waits(30, 30))
        .expect_err("this is no server of ours")
}

/// Shows the provider's certificate and signs with a key of its own.
fn thief(p: &Provider) -> (SocketAddr, JoinHandle<()>) {
    let path = p.dir.path().join("published/server/certificate.pem");
    let pem = std::fs::read(path).unwrap();
    let certificate = CertificateDer::from_pem_slice(&pem).unwrap();
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let der = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let key = ring::sign::any_supported_type(&der).unwrap();
    let certified = CertifiedKey::new(vec![certificate], key);
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![b"cipherloom".to_vec()];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut tcp, _) = listener.accept().unwrap();
        let mut conn = ServerConnection::new(Arc::new(config)).unwrap();
        let _ = conn.complete_io(&mut tcp);
        // Waits until the client leaves.
        let _ = tcp.read(&mut [0; 1]);
    });
    (addr, thread)
}

fn impostors(p: &Provider) {
    // A cipherloom server with a certificate of its own.
    let (identity, _) = TlsIdentity::self_signed(&["localhost"], 2).unwrap();
    let got = identity.fingerprint();
    let tls = TlsAcceptor::new(identity).unwrap();
    let tcp = TcpAcceptor::bind("127.0.0.1:0").unwrap();
    let addr = tcp.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let refused = tls.accept(tcp.accept(WAIT, WAIT).unwrap(), WAIT);
        assert!(refused.is_err(), "the client goes no further");
    });
    let e = visit(p, addr);
    server.join().unwrap();
    match &e {
        EngineError::Net(NetError::PinMismatch { expected, got: g }) => {
            assert_eq!((*expected, *g), (p.pin, got));
        }
        e => panic!("{e}"),
    }
    assert!(e.is_peer());
    // The right certificate without its key.
    let (addr, thread) = thief(p);
    let e = visit(p, addr);
    thread.join().unwrap();
    match &e {
        EngineError::Net(NetError::NotKeyHolder { pin, .. }) => assert_eq!(*pin, p.pin),
        e => panic!("{e}"),
    }
    assert!(e.is_peer());
}

/// Passes frames on, as they are, from one connection into another.
fn pass(mut from: Box<dyn RecvHalf>, mut to: Box<dyn SendHalf>) {
    let mut frame = vec![0; HEADER_BYTES];
    while from.recv_exact(&mut frame, WAIT).is_ok() {
        let left = u32::from_le_bytes([frame[0], frame[1], frame[2], frame[3]]) as usize;
        frame.resize(HEADER_BYTES + left.min(FRAME_PAYLOAD), 0);
        if from.recv_exact(&mut frame[HEADER_BYTES..], WAIT).is_err()
            || to.send(frame.clone(), WAIT).is_err()
        {
            return;
        }
        frame.truncate(HEADER_BYTES);
    }
}

/// A relay that ends TLS on both sides: with a certificate of its own towards the client, as a client towards the server.
struct Middle {
    addr: SocketAddr,
    pin: cipherloom_net::Pin,
    thread: JoinHandle<()>,
}

impl Middle {
    fn start(p: &Provider, server: SocketAddr) -> Self {
        let (identity, _) = TlsIdentity::self_signed(&["localhost"], 2).unwrap();
        let pin = identity.fingerprint();
        let tls = TlsAcceptor::new(identity).unwrap();
        let tcp = TcpAcceptor::bind("127.0.0.1:0").unwrap();
        let addr = tcp.local_addr().unwrap();
        let right = p.pin;
        let thread = std::thread::spawn(move || {
            let client = tls.accept(tcp.accept(WAIT, WAIT).unwrap(), WAIT).unwrap();
            let server = TlsTransport::connect(server, right, WAIT).unwrap();
            let (to_client, from_client) =
                (Box::new(client) as Box<dyn Transport>).split().unwrap();
            let (to_server, from_server) =
                (Box::new(server) as Box<dyn Transport>).split().unwrap();
            std::thread::scope(|s| {
                s.spawn(|| pass(from_client, to_server));
                pass(from_server, to_client);
            });
        });
        Self { addr, pin, thread }
    }
}

/// A client that was made to trust the relay: its session and the server's are bound to different connections.
fn relayed_sessions(p: &Provider) {
    let s = p.start(2, waits(10, 60));
    let seed = SecretSeed::from_os().unwrap();
    let text = p.encode(SHORT_TEXT);
    let session = |addr, pin, known| {
        let link = Link::connect(addr, pin, None, &waits(30, 60)).unwrap();
        let source = ClientKeySource { seed: &seed, known };
        let options = SessionOptions::default();
        let input = p.bundle.input(&text).unwrap();
        run_client(link, &p.bundle.plan, &source, input, &options, &mut Quiet)
    };
    // Straight to the server, to have keys that are known there.
    let straight = session(s.addr, p.pin, None).unwrap();
    p.check(&text, &straight);
    let known = Some(straight.fingerprint);
    let again = session(s.addr, p.pin, known).unwrap();
    assert!(again.report.keys_reused);
    // A client has its answer before the server counts the session.
    s.wait_over(2, WAIT);
    // Through the relay: with keys to send, and with known ones.
    for (i, known) in [None, known].into_iter().enumerate() {
        let over = s.over();
        let middle = Middle::start(p, s.addr);
        let e = session(middle.addr, middle.pin, known).expect_err("no answer through a relay");
        s.wait_over(over + 1, WAIT);
        middle.thread.join().unwrap();
        let failures = s.failures();
        println!("client: {e}; server: {:?}", failures.last());
        assert!(e.is_peer(), "{e}");
        assert_eq!(failures.len(), i + 1);
        let (stage, code, kind) = &failures[i];
        // Nobody got further than the hello: nothing of the text was sent.
        assert_eq!((stage.as_str(), *code, *kind), ("setup", 9, "mismatch"));
        assert!(
            matches!(&e, EngineError::Mismatch { what, .. } if what.contains("relays")),
            "{e}"
        );
    }
    s.at_rest();
    let last = session(s.addr, p.pin, known).unwrap();
    p.check(&text, &last);
}

/// Both ends of one connection.
fn pair(p: &Provider, tls: &TlsAcceptor) -> (TlsTransport, TlsTransport) {
    let tcp = TcpAcceptor::bind("127.0.0.1:0").unwrap();
    let (addr, pin) = (tcp.local_addr().unwrap(), p.pin);
    let client = std::thread::spawn(move || {
        let tcp = TcpTransport::connect(addr, WAIT).unwrap();
        TlsTransport::client(tcp, pin, WAIT).unwrap()
    });
    let server = tls.accept(tcp.accept(WAIT, WAIT).unwrap(), WAIT).unwrap();
    (client.join().unwrap(), server)
}

fn bindings(p: &Provider) {
    let tls = p.tls();
    let links = || {
        let (a, b) = pair(p, &tls);
        let link = |t| Link::over_tls(t, None, &waits(30, 30)).unwrap().binding;
        (link(a), link(b))
    };
    let (first, second) = (links(), links());
    assert_eq!(first.0, first.1, "both ends of a connection agree");
    assert_eq!(second.0, second.1);
    assert_ne!(first.0, second.0, "and no other connection does");
}

struct Seen {
    client: ClientOutcome,
    server: ServerOutcome,
    client_records: RecordSizes,
    server_records: RecordSizes,
}

fn watched(p: &Provider, side: &ServerSide, text: &Encoded, source: &ClientKeySource<'_>) -> Seen {
    let (mut a, mut b) = pair(p, &p.tls());
    let (seen_a, seen_b) = (a.watch_records(), b.watch_records());
    let options = SessionOptions::default();
    let limits = waits(30, 120);
    let (client, server) = std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let link = Link::over_tls(b, None, &limits).unwrap();
            run_server(link, side, &options, &mut Quiet).unwrap()
        });
        let link = Link::over_tls(a, None, &limits).unwrap();
        let input = p.bundle.input(text).unwrap();
        let client = run_client(link, &p.bundle.plan, source, input, &options, &mut Quiet).unwrap();
        (client, server.join().unwrap())
    });
    Seen {
        client,
        server,
        client_records: settled(&seen_a),
        server_records: settled(&seen_b),
    }
}

/// The sizes once the writer has closed: its last record is the end of the stream.
fn settled(watch: &cipherloom_net::tls::RecordWatch) -> RecordSizes {
    let mut last = watch.sizes();
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let now = watch.sizes();
        if now == last {
            return now;
        }
        last = now;
    }
}

/// The same records in both directions. The last one ends the stream, and a party that has its answer may not read it.
fn same_records(a: &RecordSizes, b: &RecordSizes) {
    let first_difference = |x: &[u32], y: &[u32]| {
        let at = x.iter().zip(y).position(|(x, y)| x != y);
        at.map(|i| (i, x.len(), x[i], y[i]))
    };
    assert_eq!(first_difference(&a.sent, &b.sent), None);
    assert_eq!(a.sent.len(), b.sent.len());
    assert_eq!(first_difference(&a.received, &b.received), None);
    assert!(a.received.len().abs_diff(b.received.len()) <= 1);
}

fn record_sizes(p: &Provider) {
    let side = p.side();
    let seed = SecretSeed::from_os().unwrap();
    let short = p.encode(SHORT_TEXT);
    let full = p.encode(&"a quiet and moving film with a fine cast . ".repeat(9));
    assert!(short.real <= 4 && full.real == full.ids.len(), "{short:?}");
    let first = ClientKeySource {
        seed: &seed,
        known: None,
    };
    let upload = [
        watched(p, &side, &short, &first),
        watched(p, &side, &full, &first),
    ];
    let again = ClientKeySource {
        seed: &seed,
        known: Some(upload[1].client.fingerprint),
    };
    let reuse = [
        watched(p, &side, &short, &again),
        watched(p, &side, &full, &again),
    ];
    for (pair, reused) in [(upload, false), (reuse, true)] {
        let [a, b] = pair;
        p.check(&short, &a.client);
        p.check(&full, &b.client);
        assert_ne!(a.client.logits, b.client.logits);
        assert_eq!(a.server.report.keys_reused, reused);
        assert_eq!(b.server.report.keys_reused, reused);
        assert!(a.client_records.sent.len() > 1000 && a.client_records.received.len() > 1000);
        same_records(&a.client_records, &b.client_records);
        same_records(&a.server_records, &b.server_records);
        // What one side sends is what the other one sees.
        assert!(a
            .client_records
            .sent
            .starts_with(&a.server_records.received));
        assert!(a
            .server_records
            .sent
            .starts_with(&a.client_records.received));
        let bytes = |r: &[u32]| r.iter().map(|&n| u64::from(n)).sum::<u64>();
        assert!(bytes(&a.client_records.sent) > a.client.report.traffic.client_to_server);
    }
}

#[test]
fn nobody_in_between_gets_an_answer_or_learns_from_sizes() {
    let p = Provider::new();
    impostors(&p);
    bindings(&p);
    relayed_sessions(&p);
    record_sizes(&p);
}
