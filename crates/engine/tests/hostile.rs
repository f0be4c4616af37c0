//! A service and peers that are no clients: each is cut off in time and told where that is possible, takes nothing from honest
//! clients, and leaves nothing behind.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use cipherloom_engine::handshake::{client_handshake, HELLO_BYTES};
use cipherloom_engine::link::Link;
use cipherloom_net::{
    FrameKind, Halves, LinkFault, NetError, RecvHalf, TlsTransport, Transport, HEADER_BYTES,
};
use cipherloom_ring::SecretPrg;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use support::{waits, Provider, Running, LONG};

/// Longest TLS handshake, and longest hello, of the service under test.
const CONNECT: u64 = 3;
/// Time for the machine besides the service's own waits.
const SLACK: Duration = Duration::from_secs(8);

fn noise(n: usize) -> Vec<u8> {
    let mut state = 7u32;
    let step = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..n).map(step).collect()
}

/// Reads until the other end closes, which it must within `limit`.
fn closed(mut tcp: TcpStream, limit: Duration) -> Duration {
    let start = Instant::now();
    tcp.set_read_timeout(Some(limit)).unwrap();
    let mut buf = [0; 4096];
    loop {
        match tcp.read(&mut buf) {
            Ok(0) => return start.elapsed(),
            Ok(_) => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("still open after {limit:?}")
            }
            Err(_) => return start.elapsed(),
        }
    }
}

/// A TLS client without a session's manners.
fn tls(p: &Provider, at: SocketAddr) -> Halves {
    let t = TlsTransport::connect(at, p.pin, Duration::from_secs(30)).unwrap();
    (Box::new(t) as Box<dyn Transport>).split().unwrap()
}

fn header(remaining: u32, kind: u8, version: u8) -> Vec<u8> {
    let mut h = vec![0; HEADER_BYTES];
    h[..4].copy_from_slice(&remaining.to_le_bytes());
    h[4] = kind;
    h[5] = version;
    // The first flight.
    h[12] = 1;
    h
}

fn hello_frame(magic: &[u8], version: u16) -> Vec<u8> {
    let mut f = header(HELLO_BYTES as u32, FrameKind::Hello.byte(), 1);
    f.resize(HEADER_BYTES + HELLO_BYTES, 0);
    f[HEADER_BYTES..HEADER_BYTES + magic.len()].copy_from_slice(magic);
    f[HEADER_BYTES + 8..HEADER_BYTES + 10].copy_from_slice(&version.to_le_bytes());
    f
}

/// What the peer is told: stage and code of the error frame. Other frames before it are skipped.
fn told(recv: &mut dyn RecvHalf, limit: Duration) -> (u16, u16) {
    let end = Instant::now() + limit;
    loop {
        let mut h = [0; HEADER_BYTES];
        let left = end.saturating_duration_since(Instant::now());
        recv.recv_exact(&mut h, left).expect("an error frame");
        let n = u32::from_le_bytes([h[0], h[1], h[2], h[3]]) as usize;
        let mut payload = vec![0; n];
        recv.recv_exact(&mut payload, left).unwrap();
        if h[4] == FrameKind::Error.byte() {
            let word = |i: usize| u16::from_le_bytes([payload[i], payload[i + 1]]);
            return (word(0), word(2));
        }
    }
}

fn gone(recv: &mut dyn RecvHalf, limit: Duration) {
    match recv.recv_exact(&mut [0], limit) {
        Err(LinkFault::Lost) => {}
        r => panic!("the service keeps the connection: {r:?}"),
    }
}

fn no_tls(s: &Running) {
    let connect = || TcpStream::connect(s.addr).unwrap();
    let within = Duration::from_secs(CONNECT) + SLACK;
    // Noise, and text that is another protocol.
    for bytes in [noise(70_000), b"GET / HTTP/1.1\r\n\r\n".to_vec()] {
        let mut tcp = connect();
        // The server may hang up in the middle.
        let _ = tcp.write_all(&bytes);
        assert!(closed(tcp, within) < SLACK);
    }
    // The head of a TLS record that never comes, and nothing at all; both at a time.
    let start = Instant::now();
    let silent = [&[22u8, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[]].map(|bytes| {
        let mut tcp = connect();
        tcp.write_all(bytes).unwrap();
        tcp
    });
    for tcp in silent {
        closed(tcp, within);
        let took = start.elapsed();
        assert!(took >= Duration::from_secs(CONNECT - 1), "{took:?}");
    }
    // A byte a second keeps no connection alive.
    let mut tcp = connect();
    let start = Instant::now();
    let record = [22u8, 3, 1, 2, 0];
    for i in 0.. {
        let byte = [*record.get(i).unwrap_or(&1)];
        let over = tcp.write_all(&byte).is_err();
        tcp.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        if over || matches!(tcp.read(&mut [0; 64]), Ok(0)) {
            break;
        }
        assert!(start.elapsed() < within, "trickling works");
    }
    assert_eq!(s.ends().len(), 0, "none of these is a session");
}

fn no_hello(p: &Provider, s: &Running) {
    let within = 2 * Duration::from_secs(CONNECT) + SLACK;
    let hello = FrameKind::Hello.byte();
    let ot = FrameKind::Ot.byte();
    for bytes in [
        noise(5000),
        header(u32::MAX, hello, 1),
        header(HELLO_BYTES as u32, hello, 0),
        header(HELLO_BYTES as u32, ot, 1),
    ] {
        let (mut send, mut recv) = tls(p, s.addr);
        send.send(bytes, SLACK).unwrap();
        assert_eq!(told(&mut *recv, SLACK), (0, 1));
        gone(&mut *recv, SLACK);
    }
    // Half a hello, or none, then silence; all at a time.
    let silent = [HEADER_BYTES + HELLO_BYTES / 2, HEADER_BYTES, 3, 0].map(|part| {
        let (mut send, recv) = tls(p, s.addr);
        let mut bytes = hello_frame(b"CLOOM", 1);
        bytes.truncate(part);
        send.send(bytes, SLACK).unwrap();
        (send, recv)
    });
    for (_send, mut recv) in silent {
        assert_eq!(told(&mut *recv, within), (0, 1));
        gone(&mut *recv, SLACK);
    }
    assert_eq!(s.ends().len(), 0, "none of these is a session");
}

fn bad_hellos(p: &Provider, s: &Running) {
    for (magic, version) in [(&b"CLOOM"[..], 0), (b"CLOOM", 7), (b"HELLO", 1)] {
        let before = s.over();
        let (mut send, mut recv) = tls(p, s.addr);
        send.send(hello_frame(magic, version), SLACK).unwrap();
        assert_eq!(told(&mut *recv, SLACK), (0, 9));
        gone(&mut *recv, SLACK);
        s.wait_over(before + 1, SLACK);
    }
    let failures = s.failures();
    assert_eq!(failures.len(), 3);
    let mismatch = ("setup".to_owned(), 9, "mismatch");
    assert!(failures.iter().all(|f| *f == mismatch), "{failures:?}");
}

/// Clients that say hello rightly and then misbehave, at a service with a short wait for messages.
fn bad_sessions(p: &Provider) {
    let wait = Duration::from_secs(2);
    let s = p.start(2, waits(CONNECT, wait.as_secs()));
    let hello = || {
        let mut link = Link::connect(s.addr, p.pin, None, &waits(30, 30)).unwrap();
        let mut prg = SecretPrg::from_os().unwrap();
        let binding = link.binding;
        client_handshake(&mut link.channel, &p.bundle.plan, &binding, &mut prg).unwrap();
        link
    };
    let answer = |link: &mut Link| match link.channel.recv(FrameKind::Setup, 1) {
        Err(NetError::Peer { stage, code }) => (stage, code),
        r => panic!("{r:?}"),
    };
    // Silence after the hello.
    let mut link = hello();
    let start = Instant::now();
    assert_eq!(answer(&mut link), (0, 1));
    assert!(start.elapsed() < wait + SLACK);
    drop(link);
    // A message of another kind, or another length.
    let mut link = hello();
    link.channel.send(FrameKind::Ot, &[0; 32]).unwrap();
    assert_eq!(answer(&mut link), (0, 1));
    drop(link);
    let mut link = hello();
    link.channel
        .send(FrameKind::Setup, &vec![0; 1 << 20])
        .unwrap();
    assert_eq!(answer(&mut link), (0, 1));
    drop(link);
    // Keys of the right length that are noise.
    let mut link = hello();
    link.channel.send(FrameKind::Setup, &[9; 32]).unwrap();
    assert_eq!(link.channel.recv(FrameKind::Setup, 1).unwrap(), [0]);
    let chain = p.bundle.plan.chain(cipherloom_plan::Ring::Projection);
    let n = cipherloom_ckks::size::public_key_bytes(chain);
    link.channel.send(FrameKind::Setup, &noise(n)).unwrap();
    assert_eq!(answer(&mut link), (0, 17));
    drop(link);
    s.wait_over(4, SLACK);
    let kinds: Vec<_> = s.failures().into_iter().map(|f| f.2).collect();
    assert_eq!(kinds, ["timeout", "malformed", "malformed", "malformed"]);
    s.at_rest();
}

fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    4096 * statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
}

/// A hundred connections that say nothing, half of them inside TLS, while an honest client is served.
fn a_crowd(p: &Provider, s: &Running) {
    let keys = p.keys("crowd");
    p.answers(s.addr, &keys);
    let before = resident();
    let idle: Vec<TcpStream> = (0..60)
        .map(|_| TcpStream::connect(s.addr).unwrap())
        .collect();
    let inside: Vec<Halves> = (0..40).map(|_| tls(p, s.addr)).collect();
    let grown = resident().saturating_sub(before);
    assert!(grown < 100 << 20, "{} MiB more", grown >> 20);
    let answer = p.answers(s.addr, &keys);
    assert!(answer.report.keys_reused);
    // The oldest made room.
    assert!(
        s.refusals("connections") >= 60,
        "{}",
        s.refusals("connections")
    );
    for tcp in idle {
        closed(tcp, Duration::from_secs(CONNECT) + SLACK);
    }
    drop(inside);
    // While one crowd comes after the other, too.
    let flood = |_| TcpStream::connect(s.addr).unwrap();
    let more: Vec<TcpStream> = (0..100).map(flood).collect();
    p.answers(s.addr, &keys);
    drop(more);
}

#[test]
fn whoever_is_no_client_is_cut_off_and_harms_nobody() {
    let p = Provider::new();
    let s = p.start(2, waits(CONNECT, 60));
    no_tls(&s);
    no_hello(&p, &s);
    bad_hellos(&p, &s);
    bad_sessions(&p);
    a_crowd(&p, &s);
    let end = Instant::now() + LONG;
    while s.ends().len() < 6 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    s.at_rest();
}
