//! Frames, certificates and keys, pins, TLS records.

use super::support::{raw_peer, wire, Input, WAIT};
use cipherloom_engine::keystore::Fingerprint;
use cipherloom_net::tls::Validity;
use cipherloom_net::{
    message_bytes, FrameKind, NetError, Pin, TcpAcceptor, TcpTransport, TlsAcceptor, TlsIdentity,
    TlsTransport,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::OnceLock;

/// Every kind of frame.
pub const KINDS: [FrameKind; 9] = [
    FrameKind::Hello,
    FrameKind::Setup,
    FrameKind::Input,
    FrameKind::Ciphertext,
    FrameKind::Exported,
    FrameKind::Ot,
    FrameKind::Output,
    FrameKind::Error,
    FrameKind::Bye,
];

/// Two expected messages (kind, length, how to receive), stage and size of the pieces in which the bytes arrive; then the
/// bytes on the wire. Lengths around a frame's payload are reached by the top bit.
pub fn frames(data: &[u8]) -> bool {
    let mut d = Input(data);
    let expect = [0; 2].map(|_| {
        let (kind, len) = (d.byte(), d.word());
        let long = if len & 0x8000 == 0 { 0 } else { 1 << 20 };
        (kind, long + (len & 0x7fff))
    });
    let stage = u16::from(d.byte());
    let piece = usize::from(d.byte()) + 1;
    let sent = d.0.len() as u64;
    let (_peer, mut channel) = raw_peer(d.0, piece * piece);
    channel.set_stage(stage, "fuzz");
    let mut received = 0;
    for (kind, len) in expect {
        let what = KINDS[usize::from(kind & 0x7f) % KINDS.len()];
        let got = if kind & 0x80 == 0 {
            channel.recv(what, len)
        } else {
            let mut buffer = vec![0; len];
            channel.recv_into(what, &mut buffer).map(|()| buffer)
        };
        match got {
            Ok(bytes) => {
                assert_eq!(bytes.len(), len);
                received += message_bytes(len as u64);
            }
            Err(_) => {
                // Nothing works after an error.
                let again = channel.recv(what, len);
                assert!(matches!(again, Err(NetError::Broken { .. })), "{again:?}");
                break;
            }
        }
    }
    assert_eq!(channel.snapshot().total().received.bytes, received);
    assert!(received <= sent);
    received > 0
}

/// Length of the certificate file (u16), the file, the private key file.
pub fn identity(data: &[u8]) -> bool {
    let mut d = Input(data);
    let n = d.word();
    let (certificate, key) = (d.take(n), d.0);
    match TlsIdentity::from_bytes(certificate, key) {
        Ok(id) => {
            assert!(!format!("{id:?}").contains("PRIVATE"));
            true
        }
        Err(NetError::Certificate { .. }) => false,
        Err(e) => panic!("{e:?}"),
    }
}

/// A certificate in DER.
pub fn certificate(data: &[u8]) -> bool {
    match Validity::of_certificate("certificate", data) {
        Ok(v) => {
            for now in [i64::MIN, 0, v.not_before, v.not_after, i64::MAX] {
                // The message shows the dates.
                if let Err(e) = v.check(now) {
                    assert!(!e.to_string().is_empty());
                }
            }
            true
        }
        Err(NetError::Certificate { .. }) => false,
        Err(e) => panic!("{e:?}"),
    }
}

/// A certificate pin, and a fingerprint of keys, as text.
pub fn pin(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    if let Ok(f) = text.parse::<Fingerprint>() {
        assert_eq!(f.to_string(), text);
    }
    match text.parse::<Pin>() {
        Ok(p) => {
            assert_eq!(p.to_string().parse::<Pin>(), Ok(p));
            true
        }
        Err(NetError::Certificate { .. }) => false,
        Err(e) => panic!("{e:?}"),
    }
}

struct Tls {
    tcp: TcpAcceptor,
    acceptor: TlsAcceptor,
    pin: Pin,
}

fn tls() -> &'static Tls {
    static TLS: OnceLock<Tls> = OnceLock::new();
    TLS.get_or_init(|| {
        let (identity, _) = TlsIdentity::self_signed(&["localhost"], 3650).unwrap();
        let pin = identity.fingerprint();
        Tls {
            tcp: TcpAcceptor::bind("127.0.0.1:0").unwrap(),
            acceptor: TlsAcceptor::new(identity).unwrap(),
            pin,
        }
    })
}

/// What a peer sends in place of its TLS handshake (first byte even: to the server, odd: to the client).
pub fn tls_handshake(data: &[u8]) -> bool {
    let tls = tls();
    let mut d = Input(data);
    let to_client = d.byte() % 2 == 1;
    let address = tls.tcp.local_addr().unwrap();
    // The kernel completes connections that wait in the listener's queue.
    let mut raw = TcpStream::connect(address).unwrap();
    let victim = tls.tcp.accept(WAIT, WAIT).unwrap();
    raw.write_all(d.0).unwrap();
    raw.shutdown(std::net::Shutdown::Write).unwrap();
    let done = if to_client {
        TlsTransport::client(victim, tls.pin, WAIT)
    } else {
        tls.acceptor.accept(victim, WAIT)
    };
    // Nobody can finish a handshake without fresh keys.
    let e = done.err().unwrap();
    assert!(
        matches!(e, NetError::TlsHandshake { .. } | NetError::PeerLost { .. }),
        "{e:?}"
    );
    let mut rest = Vec::new();
    let _ = raw.read_to_end(&mut rest);
    false
}

/// A certificate and a key to begin with.
pub fn seeds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let (_, pem) = TlsIdentity::self_signed(&["localhost", "127.0.0.1"], 365).unwrap();
    let mut id = (pem.certificate.len() as u16).to_le_bytes().to_vec();
    id.extend_from_slice(pem.certificate.as_bytes());
    id.extend_from_slice(pem.private_key.as_bytes());
    let der = der_of(&pem.certificate);
    let pin = Pin::of_certificate(&der).to_string();
    let colons: Vec<&str> = pin
        .as_bytes()
        .chunks(2)
        .map(|c| std::str::from_utf8(c).unwrap())
        .collect();
    let framed = |kinds: [u8; 2], stage: u16, messages: [&[u8]; 2]| {
        let mut out = Vec::new();
        for (kind, m) in kinds.iter().zip(messages) {
            out.push(*kind);
            let long = if m.len() > 0x7fff { 0x8000 } else { 0 };
            out.extend_from_slice(&(((m.len() & 0x7fff) | long) as u16).to_le_bytes());
        }
        out.extend_from_slice(&[stage as u8, 200]);
        let kind = |k: u8| KINDS[usize::from(k & 0x7f)];
        out.extend(wire(
            stage,
            &[(kind(kinds[0]), messages[0]), (kind(kinds[1]), messages[1])],
        ));
        out
    };
    let error = {
        let mut out = framed([1, 8], 3, [b"key", b""]);
        // The peer reports a failure in place of its second message.
        let at = out.len() - 16;
        out[at] = 4;
        out[at + 4] = FrameKind::Error.byte();
        out.extend_from_slice(&[3, 0, 2, 0]);
        out
    };
    vec![
        (
            "frames",
            "ok-two",
            framed([0, 0x85], 0, [&[7; 74], &[1, 2, 3]]),
        ),
        ("frames", "ok-empty", framed([5, 8], 9, [b"", b""])),
        ("frames", "ok-error", error),
        ("identity", "ok-ed25519", id),
        ("certificate", "ok-self-signed", der),
        ("pin", "ok-plain", pin.clone().into_bytes()),
        (
            "pin",
            "ok-colons",
            colons.join(":").to_uppercase().into_bytes(),
        ),
        (
            "tls_handshake",
            "client-hello",
            [&[0], &*client_hello()].concat(),
        ),
        (
            "tls_handshake",
            "server-hello",
            [&[1], &*server_hello()].concat(),
        ),
    ]
}

fn der_of(pem: &str) -> Vec<u8> {
    let body: String = pem.lines().filter(|l| !l.starts_with("-----")).collect();
    let (mut acc, mut bits, mut out) = (0u32, 0, Vec::new());
    for c in body.bytes().filter(|c| *c != b'=') {
        let v = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        acc = acc << 6 | u32::from(v);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((acc >> bits) as u8);
        }
    }
    out
}

/// What our client says first.
fn client_hello() -> Vec<u8> {
    let tls = tls();
    let mut raw = TcpStream::connect(tls.tcp.local_addr().unwrap()).unwrap();
    let tcp = tls.tcp.accept(WAIT, WAIT).unwrap();
    raw.shutdown(std::net::Shutdown::Write).unwrap();
    let _ = TlsTransport::client(tcp, tls.pin, WAIT);
    let mut out = Vec::new();
    raw.read_to_end(&mut out).unwrap();
    out
}

/// What our server answers.
fn server_hello() -> Vec<u8> {
    let tls = tls();
    let mut raw = TcpStream::connect(tls.tcp.local_addr().unwrap()).unwrap();
    let tcp: TcpTransport = tls.tcp.accept(WAIT, WAIT).unwrap();
    raw.write_all(&client_hello()).unwrap();
    raw.shutdown(std::net::Shutdown::Write).unwrap();
    let _ = tls.acceptor.accept(tcp, WAIT);
    let mut out = Vec::new();
    raw.read_to_end(&mut out).unwrap();
    out
}
