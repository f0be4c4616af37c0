//! TLS on the wire: record sizes, and what happens when somebody in between changes, loses, repeats or cuts records.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use cipherloom_net::tls::{message_wire_bytes, piece_records, RECORD_OVERHEAD};
use cipherloom_net::{Channel, FrameKind, NetError, TlsTransport, FRAME_PAYLOAD, HEADER_BYTES};
use std::time::{Duration, Instant};
use support::{config, Act, Middle, Server, WAIT};

const UP: [usize; 7] = [3, 2 * FRAME_PAYLOAD + 17, 0, 1, 16368, 16369, 40_000];
const DOWN: [usize; 3] = [100_000, 5, FRAME_PAYLOAD];

/// Sizes of the records of some messages, as the documentation states them.
fn stated(messages: &[usize]) -> Vec<u32> {
    let mut out = Vec::new();
    for &m in messages {
        let mut left = m;
        loop {
            let n = left.min(FRAME_PAYLOAD);
            out.extend(piece_records(n + HEADER_BYTES));
            left -= n;
            if left == 0 {
                break;
            }
        }
    }
    out
}

/// One session with a fixed schedule: contents and pauses as told. Returns what the middle saw, both directions, and
/// checks the ends' own records against it.
fn session(server: &Server, byte: impl Fn(usize) -> u8 + Sync, pause: bool) -> [Vec<u32>; 2] {
    let middle = Middle::new(server.addr(), Act::Delay);
    let (mut a, mut b) = server.pair_through(middle.addr);
    let (watch_a, watch_b) = (a.watch_records(), b.watch_records());
    let rest = || {
        if pause {
            std::thread::sleep(Duration::from_millis(7));
        }
    };
    let data = |n: usize| -> Vec<u8> { (0..n).map(&byte).collect() };
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut c = Channel::new(Box::new(a), config(WAIT)).unwrap();
            for n in UP {
                c.send(FrameKind::Setup, &data(n)).unwrap();
                rest();
            }
            for n in DOWN {
                assert!(c.recv(FrameKind::Ot, n).unwrap() == data(n));
            }
            c.finish().unwrap();
        });
        s.spawn(|| {
            let mut c = Channel::new(Box::new(b), config(WAIT)).unwrap();
            rest();
            for n in UP {
                assert!(c.recv(FrameKind::Setup, n).unwrap() == data(n));
            }
            for n in DOWN {
                rest();
                c.send(FrameKind::Ot, &data(n)).unwrap();
            }
            c.finish().unwrap();
        });
    });
    let seen = middle.finish();
    // Message records, the empty Bye, close_notify (2 bytes).
    let bye_and_close = [(HEADER_BYTES + RECORD_OVERHEAD) as u32, 24];
    for (messages, seen, sent, received) in [
        (
            &UP[..],
            &seen[0],
            watch_a.sizes().sent,
            watch_b.sizes().received,
        ),
        (
            &DOWN[..],
            &seen[1],
            watch_b.sizes().sent,
            watch_a.sizes().received,
        ),
    ] {
        let mut want = stated(messages);
        let total: u64 = want.iter().map(|&r| u64::from(r)).sum();
        let formula: u64 = messages.iter().map(|&m| message_wire_bytes(m as u64)).sum();
        assert_eq!(total, formula);
        want.extend(bye_and_close);
        assert!(seen.ends_with(&want), "on the wire");
        assert_eq!(sent, want, "as the sender says");
        // The receiver may leave before it reads the close_notify.
        assert!(received == want || received == want[..want.len() - 1]);
    }
    seen
}

#[test]
fn record_sizes_depend_on_the_schedule_only() {
    let server = Server::new();
    let first = session(&server, |_| 0, false);
    let second = session(&server, |i| ((i * i) >> 7) as u8 ^ (i * 131) as u8, true);
    // From the first byte of the handshake to the close.
    assert_eq!(first, second);
    assert!(first[0].len() > 130);
}

#[test]
fn data_that_arrives_together_with_the_end_of_the_handshake_is_read_and_counted() {
    let server = Server::new();
    // The client's change of cipher, its Finished and three frames reach the server in one piece.
    let middle = Middle::new(server.addr(), Act::Join(5));
    let (addr, pin) = (middle.addr, server.pin);
    let t = std::thread::spawn(move || {
        let mut a = TlsTransport::connect(addr, pin, WAIT).unwrap();
        let watch = a.watch_records();
        let mut a = Channel::new(Box::new(a), config(WAIT)).unwrap();
        for n in [1, 2, 3] {
            a.send(FrameKind::Ot, &vec![n; usize::from(n)]).unwrap();
        }
        a.recv(FrameKind::Bye, 0).unwrap();
        watch.sizes().sent
    });
    let mut b = server.accept(WAIT).unwrap();
    let watch = b.watch_records();
    let mut b = Channel::new(Box::new(b), config(WAIT)).unwrap();
    for n in [1, 2, 3] {
        assert_eq!(b.recv(FrameKind::Ot, n).unwrap(), vec![n as u8; n]);
    }
    let received = watch.sizes().received;
    b.send(FrameKind::Bye, &[]).unwrap();
    let sent = t.join().unwrap();
    assert_eq!(received, stated(&[1, 2, 3]));
    assert_eq!(sent, received);
    drop(b);
    middle.finish();
}

/// Sends two messages through the middle, the second one after arming; returns what the client makes of the second.
fn attacked(server: &Server, act: Act, deadline: Duration) -> (Result<(), NetError>, Duration) {
    const N: usize = 50_000;
    let middle = Middle::new(server.addr(), act);
    let (a, b) = server.pair_through(middle.addr);
    let mut a = Channel::new(Box::new(a), config(deadline)).unwrap();
    let mut b = Channel::new(Box::new(b), config(deadline)).unwrap();
    b.send(FrameKind::Ot, &[7; N]).unwrap();
    assert!(a.recv(FrameKind::Ot, N).unwrap() == [7; N]);
    middle.arm();
    b.send(FrameKind::Ot, &[8; N]).unwrap();
    b.send(FrameKind::Ot, &[9; N]).unwrap();
    let start = Instant::now();
    let result = a.recv(FrameKind::Ot, N).map(|got| assert!(got == [8; N]));
    let result = result.and_then(|()| {
        let got = a.recv(FrameKind::Ot, N)?;
        assert!(got == [9; N]);
        Ok(())
    });
    let took = start.elapsed();
    drop((a, b));
    middle.finish();
    (result, took)
}

#[test]
fn changed_lost_repeated_and_swapped_records_are_detected() {
    let server = Server::new();
    for act in [
        Act::Flip(1),
        Act::Flip(3),
        Act::Flip(4),
        Act::Flip(5),
        Act::Flip(700),
        Act::Lose,
        Act::Repeat,
        Act::Swap,
    ] {
        let (result, took) = attacked(&server, act, WAIT);
        match result {
            Err(NetError::Altered { phase }) => assert_eq!(phase, "start: read"),
            other => panic!("{act:?}: {other:?}"),
        }
        assert!(took < Duration::from_secs(5), "{act:?}: {took:?}");
    }
    // Neither the type nor the minor version of a record header has a meaning in TLS 1.3 (RFC 8446, section 5.2):
    // right contents, or an error.
    for act in [Act::Flip(0), Act::Flip(2)] {
        let (result, _) = attacked(&server, act, WAIT);
        assert!(
            matches!(result, Ok(()) | Err(NetError::Altered { .. })),
            "{act:?}: {result:?}"
        );
    }
    let (result, _) = attacked(&server, Act::Delay, WAIT);
    result.unwrap();
}

#[test]
fn a_stream_that_is_cut_is_a_lost_peer_and_a_stalled_one_a_timeout() {
    let server = Server::new();
    for act in [Act::Cut, Act::Half] {
        let (result, took) = attacked(&server, act, WAIT);
        assert!(
            matches!(result, Err(NetError::PeerLost { .. })),
            "{act:?}: {result:?}"
        );
        assert!(took < Duration::from_secs(5), "{act:?}: {took:?}");
    }
    let (result, took) = attacked(&server, Act::Stall, Duration::from_millis(200));
    assert!(
        matches!(result, Err(NetError::Timeout { .. })),
        "{result:?}"
    );
    assert!(took < Duration::from_secs(2), "{took:?}");
}
