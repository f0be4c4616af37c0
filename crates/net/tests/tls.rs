//! TLS between two parties, and between one party and somebody else.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use cipherloom_net::{
    Channel, FrameKind, NetError, Pin, SendHalf, TcpTransport, TlsAcceptor, TlsIdentity,
    TlsTransport, TrafficSnapshot, Transport,
};
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use support::{config, Server, WAIT};

fn channels(server: &Server, deadline: Duration) -> (Channel, Channel) {
    let (a, b) = server.pair();
    (
        Channel::new(Box::new(a), config(deadline)).unwrap(),
        Channel::new(Box::new(b), config(deadline)).unwrap(),
    )
}

fn talk(mut a: Channel, mut b: Channel) -> (TrafficSnapshot, TrafficSnapshot) {
    let t = std::thread::spawn(move || {
        assert_eq!(b.recv(FrameKind::Hello, 3).unwrap(), b"abc");
        b.set_stage(1, "one");
        b.send(FrameKind::Ot, &[1; 70_000]).unwrap();
        b.send(FrameKind::Ot, &[]).unwrap();
        assert!(b.recv(FrameKind::Setup, 3 << 20).unwrap() == vec![9; 3 << 20]);
        b.finish().unwrap()
    });
    a.send(FrameKind::Hello, b"abc").unwrap();
    a.set_stage(1, "one");
    assert!(a.recv(FrameKind::Ot, 70_000).unwrap() == [1; 70_000]);
    a.recv(FrameKind::Ot, 0).unwrap();
    a.send(FrameKind::Setup, &vec![9; 3 << 20]).unwrap();
    let counts = a.finish().unwrap();
    (counts, t.join().unwrap())
}

#[test]
fn counts_over_tls_are_those_over_memory() {
    let (a, b) = Channel::memory_pair(config(WAIT)).unwrap();
    let memory = talk(a, b);
    let (a, b) = channels(&Server::new(), WAIT);
    assert_eq!(talk(a, b), memory);
}

#[test]
fn both_parties_send_a_hundred_megabytes_before_either_reads() {
    const N: usize = 100 << 20;
    let (mut a, mut b) = channels(&Server::new(), Duration::from_secs(20));
    let run = |c: &mut Channel, mine: u8, theirs: u8| {
        c.send(FrameKind::Ot, &vec![mine; N]).unwrap();
        let got = c.recv(FrameKind::Ot, N).unwrap();
        assert!(got.iter().all(|&x| x == theirs));
    };
    std::thread::scope(|s| {
        s.spawn(|| run(&mut a, 1, 2));
        s.spawn(|| run(&mut b, 2, 1));
    });
    assert_eq!(a.snapshot().total().flights(), 2);
}

#[test]
fn reads_and_full_queues_have_deadlines() {
    let (mut a, _b) = channels(&Server::new(), Duration::from_millis(150));
    let start = Instant::now();
    let e = a.recv(FrameKind::Ot, 4).unwrap_err();
    assert!(matches!(e, NetError::Timeout { .. }), "{e}");
    assert!(start.elapsed() < Duration::from_secs(2));
    let (mut a, _b) = channels(&Server::new(), Duration::from_millis(150));
    let big = vec![0u8; 140 << 20];
    let e = (0..4)
        .find_map(|_| a.send(FrameKind::Setup, &big).err())
        .unwrap();
    assert!(matches!(e, NetError::Timeout { .. }), "{e}");
}

#[test]
fn a_peer_that_leaves_in_order_is_lost_for_whoever_waits() {
    let server = Server::new();
    for after in [0usize, 7, 16, 20] {
        let (a, b) = server.pair();
        let mut a = Channel::new(Box::new(a), config(WAIT)).unwrap();
        let (mut s, r) = (Box::new(b) as Box<dyn Transport>).split().unwrap();
        // The header of an 8-byte message and some of the payload.
        let mut bytes = vec![8, 0, 0, 0, 5, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
        bytes.extend([0; 8]);
        s.send(bytes[..after].to_vec(), WAIT).unwrap();
        drop((s, r));
        let start = Instant::now();
        let e = a.recv(FrameKind::Ot, 8).unwrap_err();
        assert!(matches!(e, NetError::PeerLost { .. }), "{after}: {e}");
        assert!(start.elapsed() < Duration::from_secs(5));
    }
    let (a, b) = server.pair();
    let mut a = Channel::new(Box::new(a), config(WAIT)).unwrap();
    drop(b);
    let e = (0..2000)
        .find_map(|_| a.send(FrameKind::Ot, &[0; 100_000]).err())
        .unwrap();
    assert!(matches!(e, NetError::PeerLost { .. }), "{e}");
}

#[test]
fn dropping_the_sending_half_leaves_the_other_direction_open() {
    let (a, b) = Server::new().pair();
    let (mut sa, ra) = (Box::new(a) as Box<dyn Transport>).split().unwrap();
    let (sb, mut rb) = (Box::new(b) as Box<dyn Transport>).split().unwrap();
    drop(sb);
    let t = std::thread::spawn(move || {
        let mut got = vec![0; 1 << 20];
        rb.recv_exact(&mut got, WAIT).map(|()| got)
    });
    SendHalf::send(&mut *sa, vec![3; 1 << 20], WAIT).unwrap();
    sa.flush(WAIT).unwrap();
    assert!(t.join().unwrap().unwrap() == vec![3; 1 << 20]);
    drop(ra);
}

#[test]
fn the_exporter_value_is_shared_and_belongs_to_one_connection() {
    let server = Server::new();
    let (a, b) = server.pair();
    let (c, _) = server.pair();
    let value = a.exporter("EXPORTER-test", b"x").unwrap();
    assert_eq!(value, b.exporter("EXPORTER-test", b"x").unwrap());
    assert_eq!(value, a.exporter("EXPORTER-test", b"x").unwrap());
    let others = [
        a.exporter("EXPORTER-test", b"y").unwrap(),
        a.exporter("EXPORTER-other", b"x").unwrap(),
        c.exporter("EXPORTER-test", b"x").unwrap(),
        [0; 32],
    ];
    assert!(!others.contains(&value));
    for len in [0, 250, 300] {
        let e = a.exporter(&"l".repeat(len), b"").unwrap_err();
        assert!(matches!(e, NetError::TlsHandshake { .. }), "{e}");
    }
    a.exporter(&"l".repeat(249), b"").unwrap();
}

// Somebody else in the server's place.

fn key(alg: &'static rcgen::SignatureAlgorithm) -> (KeyPair, Arc<dyn rustls::sign::SigningKey>) {
    let pair = KeyPair::generate_for(alg).unwrap();
    let der = PrivateKeyDer::try_from(pair.serialize_der()).unwrap();
    (pair, ring::sign::any_supported_type(&der).unwrap())
}

fn certificate(key: &KeyPair, from: i32, to: i32) -> CertificateDer<'static> {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(from, 1, 1);
    params.not_after = rcgen::date_time_ymd(to, 1, 1);
    params.self_signed(key).unwrap().der().clone()
}

/// A TLS 1.3 server that is not ours: shows any certificate and signs with any key.
fn impostor(
    certificate: CertificateDer<'static>,
    key: Arc<dyn rustls::sign::SigningKey>,
    protocol: &[u8],
) -> (SocketAddr, JoinHandle<()>) {
    let certified = CertifiedKey::new(vec![certificate], key);
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![protocol.to_vec()];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let t = std::thread::spawn(move || {
        let (mut tcp, _) = listener.accept().unwrap();
        let mut conn = ServerConnection::new(Arc::new(config)).unwrap();
        let _ = conn.complete_io(&mut tcp);
        // Waits until the client leaves.
        let _ = tcp.read(&mut [0; 1]);
    });
    (addr, t)
}

/// What a client with this pin makes of the impostor.
fn visit(at: (SocketAddr, JoinHandle<()>), pin: Pin) -> Result<(), NetError> {
    let r = TlsTransport::connect(at.0, pin, WAIT).map(|_| ());
    at.1.join().unwrap();
    r
}

#[test]
fn the_right_certificate_with_another_key_is_refused() {
    for alg in [&PKCS_ED25519, &PKCS_ECDSA_P256_SHA256] {
        let (pair, signer) = key(alg);
        let cert = certificate(&pair, 2020, 2120);
        let pin = Pin::of_certificate(&cert);
        // The owner of the key is accepted, so what is refused below is the key and nothing else.
        visit(impostor(cert.clone(), signer, b"cipherloom"), pin).unwrap();
        for other in [&PKCS_ED25519, &PKCS_ECDSA_P256_SHA256] {
            let (_, wrong) = key(other);
            match visit(impostor(cert.clone(), wrong, b"cipherloom"), pin) {
                Err(NetError::NotKeyHolder { pin: p, .. }) => assert_eq!(p, pin),
                r => panic!("{r:?}"),
            }
        }
    }
}

#[test]
fn another_certificate_is_refused_whoever_signs() {
    let (pair, signer) = key(&PKCS_ED25519);
    let cert = certificate(&pair, 2020, 2120);
    let got = Pin::of_certificate(&cert);
    let mut bytes = got.bytes();
    bytes[31] ^= 1;
    let expected = Pin::from_bytes(bytes);
    let e = visit(impostor(cert, signer, b"cipherloom"), expected).unwrap_err();
    assert_eq!(e, NetError::PinMismatch { expected, got });
    assert!(e.to_string().contains(&expected.to_string()));
    // Our own server hears of the refusal and goes on.
    let server = Server::new();
    let addr = server.addr();
    let t = std::thread::spawn(move || TlsTransport::connect(addr, expected, WAIT).map(|_| ()));
    let e = server.accept(WAIT).map(|_| ()).unwrap_err();
    match &e {
        NetError::TlsHandshake { detail } => assert!(detail.contains("CertificateUnknown"), "{e}"),
        e => panic!("{e}"),
    }
    assert!(matches!(
        t.join().unwrap(),
        Err(NetError::PinMismatch { .. })
    ));
    server.pair();
}

#[test]
fn expired_and_future_certificates_are_refused_by_both_sides() {
    // 1 January 2021 and 2121.
    let (past, future) = (1_609_459_200, 4_765_132_800);
    for (from, to) in [(2020, 2021), (2121, 2122)] {
        let (pair, signer) = key(&PKCS_ED25519);
        let cert = certificate(&pair, from, to);
        let pin = Pin::of_certificate(&cert);
        let id = TlsIdentity::from_bytes(&cert, &pair.serialize_der()).unwrap();
        let server = TlsAcceptor::new(id).map(|_| ()).unwrap_err();
        let client = visit(impostor(cert, signer, b"cipherloom"), pin).unwrap_err();
        for e in [server, client] {
            match e {
                NetError::Expired { not_after, now } => {
                    assert_eq!((from, not_after), (2020, past));
                    assert!(now > past);
                }
                NetError::NotYetValid { not_before, now } => {
                    assert_eq!((from, not_before), (2121, future));
                    assert!(now < future);
                }
                e => panic!("{e}"),
            }
        }
    }
}

#[test]
fn another_application_protocol_is_refused_by_both_sides() {
    let (pair, signer) = key(&PKCS_ED25519);
    let cert = certificate(&pair, 2020, 2120);
    let pin = Pin::of_certificate(&cert);
    let e = visit(impostor(cert.clone(), signer, b"h2"), pin).unwrap_err();
    assert!(matches!(e, NetError::TlsHandshake { .. }), "{e}");
    // A general client that trusts our certificate and names no protocol.
    let (server, roots) = trusted_server();
    let mut stranger = stranger(roots, None);
    let mut tcp = TcpStream::connect(server.addr()).unwrap();
    let t = std::thread::spawn(move || {
        let _ = stranger.complete_io(&mut tcp);
        assert!(!stranger.is_handshaking(), "the certificate is trusted");
    });
    match server.accept(WAIT).map(|_| ()).unwrap_err() {
        NetError::TlsHandshake { detail } => assert!(detail.contains("protocol"), "{detail}"),
        e => panic!("{e}"),
    }
    t.join().unwrap();
}

// Somebody else in the client's place.

fn stranger(roots: RootCertStore, protocol: Option<&[u8]>) -> ClientConnection {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocol.iter().map(|p| p.to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(Arc::new(config), name).unwrap()
}

/// Our server, and a store in which a general client trusts its certificate.
fn trusted_server() -> (Server, RootCertStore) {
    let (pair, _) = key(&PKCS_ED25519);
    let cert = certificate(&pair, 2020, 2120);
    let id = TlsIdentity::from_bytes(&cert, &pair.serialize_der()).unwrap();
    let server = Server {
        pin: id.fingerprint(),
        tls: TlsAcceptor::new(id).unwrap(),
        ..Server::new()
    };
    let mut roots = RootCertStore::empty();
    roots.add(cert).unwrap();
    (server, roots)
}

#[test]
fn a_client_that_would_resume_gets_no_ticket() {
    let (server, roots) = trusted_server();
    let mut client = stranger(roots, Some(b"cipherloom"));
    let mut tcp = TcpStream::connect(server.addr()).unwrap();
    let t = std::thread::spawn(move || {
        let mut got = [0; 5];
        let mut stream = rustls::Stream::new(&mut client, &mut tcp);
        stream.read_exact(&mut got).unwrap();
        (got, client.tls13_tickets_received())
    });
    let tls = server.accept(WAIT).unwrap();
    let (mut s, _r) = (Box::new(tls) as Box<dyn Transport>).split().unwrap();
    s.send(b"hello".to_vec(), WAIT).unwrap();
    s.flush(WAIT).unwrap();
    assert_eq!(t.join().unwrap(), (*b"hello", 0));
}

/// A `ClientHello` of TLS 1.2: ECDHE-RSA-AES128-GCM, extensions for x25519 and RSA-SHA256, no list of versions.
fn tls12_hello() -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0xc0, 0x2f, 1, 0]);
    body.extend([0, 16, 0, 10, 0, 4, 0, 2, 0, 29, 0, 13, 0, 4, 0, 2, 4, 1]);
    let len = body.len() as u8;
    let mut out = vec![22, 3, 1, 0, len + 4, 1, 0, 0, len];
    out.extend(body);
    out
}

#[test]
fn garbage_old_versions_and_oversize_records_are_typed_errors() {
    let server = Server::new();
    let big_hello = {
        // A handshake message that announces 16 MiB, in records that never end.
        let mut r = vec![22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff];
        r.resize(5 + (1 << 14), 0);
        r
    };
    let cases: [(&str, Vec<u8>); 7] = [
        ("http", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
        ("tls 1.2", tls12_hello()),
        ("zeros", vec![0; 100]),
        ("ones", vec![0xff; 100_000]),
        ("application data first", vec![23, 3, 3, 0, 1, 0]),
        (
            "oversize record",
            [vec![22, 3, 3, 0xff, 0xff], vec![1; 0xffff]].concat(),
        ),
        ("oversize message", big_hello.repeat(8)),
    ];
    for (name, bytes) in cases {
        let mut tcp = TcpStream::connect(server.addr()).unwrap();
        let t = std::thread::spawn(move || {
            let _ = tcp.write_all(&bytes);
            let mut answer = Vec::new();
            let _ = tcp.read_to_end(&mut answer);
            answer
        });
        let start = Instant::now();
        match server.accept(WAIT).map(|_| ()).unwrap_err() {
            NetError::TlsHandshake { .. } => {}
            e => panic!("{name}: {e}"),
        }
        assert!(start.elapsed() < Duration::from_secs(2), "{name}");
        let answer = t.join().unwrap();
        if name == "tls 1.2" {
            // A fatal alert: protocol_version (70).
            assert_eq!(answer, [21, 3, 3, 0, 2, 2, 70]);
        }
    }
    // The server is still there for others.
    server.pair();
}

#[test]
fn silent_trickling_and_half_done_clients_end_at_the_deadline() {
    let server = Server::new();
    let wait = Duration::from_millis(200);
    let mut hello = Vec::new();
    stranger(RootCertStore::empty(), None)
        .write_tls(&mut hello)
        .unwrap();
    let silent = Vec::new();
    let half = hello[..hello.len() / 2].to_vec();
    for (name, bytes) in [
        ("silent", silent),
        ("half", half),
        ("hello only", hello.clone()),
    ] {
        let mut tcp = TcpStream::connect(server.addr()).unwrap();
        tcp.write_all(&bytes).unwrap();
        let start = Instant::now();
        let e = server.accept(wait).map(|_| ()).unwrap_err();
        assert!(matches!(e, NetError::Timeout { .. }), "{name}: {e}");
        assert!(
            start.elapsed() >= wait && start.elapsed() < wait * 5,
            "{name}"
        );
    }
    let mut tcp = TcpStream::connect(server.addr()).unwrap();
    let t = std::thread::spawn(move || {
        for b in hello {
            if tcp.write_all(&[b]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let start = Instant::now();
    let e = server.accept(wait).map(|_| ()).unwrap_err();
    assert!(matches!(e, NetError::Timeout { .. }), "{e}");
    assert!(start.elapsed() < wait * 5);
    t.join().unwrap();
    // Gone after half a greeting.
    let tcp = TcpStream::connect(server.addr()).unwrap();
    drop(tcp);
    let e = server.accept(WAIT).map(|_| ()).unwrap_err();
    assert!(matches!(e, NetError::PeerLost { .. }), "{e}");
    server.pair();
}

#[test]
fn a_client_ends_at_its_deadline_too() {
    let pin = Pin::from_bytes([1; 32]);
    let wait = Duration::from_millis(200);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    // Never answers.
    let start = Instant::now();
    let e = TlsTransport::connect(addr, pin, wait)
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(e, NetError::Timeout { .. }), "{e}");
    assert!(start.elapsed() < wait * 5);
    let _ = listener.accept().unwrap();
    // Speaks plain text.
    let t = std::thread::spawn(move || {
        let (mut tcp, _) = listener.accept().unwrap();
        tcp.write_all(b"220 mail.example ESMTP\r\n").unwrap();
        let _ = tcp.read_to_end(&mut Vec::new());
    });
    let tcp = TcpTransport::connect(addr, WAIT).unwrap();
    let e = TlsTransport::client(tcp, pin, WAIT)
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(e, NetError::TlsHandshake { .. }), "{e}");
    t.join().unwrap();
}
