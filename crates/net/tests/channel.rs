//! Counts, flights, deadlines, malformed frames, lost peers, large simultaneous messages, emulated links.

#![allow(clippy::unwrap_used, clippy::panic)]

use cipherloom_net::{
    message_bytes, Channel, ChannelConfig, EmulatedLink, FrameKind, LinkProfile, MemoryTransport,
    NetError, SendHalf, TcpAcceptor, TcpTransport, Transport, FRAME_PAYLOAD, HEADER_BYTES,
};
use std::time::{Duration, Instant};

fn quick() -> ChannelConfig {
    ChannelConfig {
        deadline: Duration::from_millis(150),
        ..ChannelConfig::default()
    }
}

fn long() -> ChannelConfig {
    ChannelConfig {
        deadline: Duration::from_secs(20),
        ..ChannelConfig::default()
    }
}

fn tcp_pair() -> (TcpTransport, TcpTransport) {
    let wait = Duration::from_secs(5);
    let acceptor = TcpAcceptor::bind("127.0.0.1:0").unwrap();
    let addr = acceptor.local_addr().unwrap();
    let t = std::thread::spawn(move || TcpTransport::connect(addr, wait).unwrap());
    let b = acceptor.accept(wait, wait).unwrap();
    (t.join().unwrap(), b)
}

/// A channel, and the raw sending half of its peer together with whatever keeps the stream open.
fn raw_peer() -> (
    Channel,
    Box<dyn SendHalf>,
    Box<dyn cipherloom_net::RecvHalf>,
) {
    let (a, b) = MemoryTransport::pair();
    let (s, r) = (Box::new(b) as Box<dyn Transport>).split().unwrap();
    (Channel::new(Box::new(a), quick()).unwrap(), s, r)
}

fn header(left: u32, kind: u8, version: u8, stage: u16, seq: u32, flight: u32) -> Vec<u8> {
    let mut h = left.to_le_bytes().to_vec();
    h.extend([kind, version]);
    h.extend(stage.to_le_bytes());
    h.extend(seq.to_le_bytes());
    h.extend(flight.to_le_bytes());
    h
}

#[test]
fn both_sides_count_the_same_bytes_messages_and_flights_by_stage() {
    let (mut a, mut b) = Channel::memory_pair(long()).unwrap();
    a.record_schedule();
    let t = std::thread::spawn(move || {
        assert_eq!(b.recv(FrameKind::Hello, 3).unwrap(), b"abc");
        b.set_stage(1, "one");
        b.send(FrameKind::Ot, &[1; 10]).unwrap();
        b.send(FrameKind::Ot, &[2; 20]).unwrap();
        b.recv(FrameKind::Ot, 5).unwrap();
        b.set_stage(2, "two");
        b.send(FrameKind::Ot, &[]).unwrap();
        b.recv(FrameKind::Ot, 0).unwrap();
        b.finish().unwrap()
    });
    a.send(FrameKind::Hello, b"abc").unwrap();
    a.set_stage(1, "one");
    a.recv(FrameKind::Ot, 10).unwrap();
    a.send(FrameKind::Ot, &[0; 5]).unwrap();
    let mut second = [0u8; 20];
    a.recv_into(FrameKind::Ot, &mut second).unwrap();
    assert_eq!(second, [2; 20]);
    a.set_stage(2, "two");
    a.send(FrameKind::Ot, &[]).unwrap();
    a.recv(FrameKind::Ot, 0).unwrap();
    assert_eq!(a.schedule().len(), 6);
    let (sa, sb) = (a.finish().unwrap(), t.join().unwrap());
    for (x, y) in sa.stages.iter().zip(&sb.stages) {
        assert_eq!(*x, y.mirrored());
    }
    let one = sa.stage(1);
    assert_eq!(one.sent.bytes, message_bytes(5));
    assert_eq!(one.received.bytes, message_bytes(10) + message_bytes(20));
    // b opens a flight (10 and 20 belong to it), a opens one after the first of them.
    assert_eq!((one.sent.flights, one.received.flights), (1, 1));
    assert_eq!(one.received.messages, 2);
    // Both send at once: two flights, one round. Then Bye both ways: two more.
    assert_eq!(sa.stage(2).flights(), 4);
    assert_eq!(sa.stage(0).flights(), 1);
}

#[test]
fn a_message_is_cut_into_frames_and_joined_again() {
    let (mut a, mut b) = Channel::memory_pair(long()).unwrap();
    let n = 2 * FRAME_PAYLOAD + 17;
    let data: Vec<u8> = (0..n).map(|i| ((i * 31) >> 3) as u8).collect();
    a.send(FrameKind::Setup, &data).unwrap();
    a.send(FrameKind::Setup, &data).unwrap();
    assert!(b.recv(FrameKind::Setup, n).unwrap() == data);
    let mut into = vec![0; n];
    b.recv_into(FrameKind::Setup, &mut into).unwrap();
    assert!(into == data);
    assert_eq!(
        a.snapshot().total().sent.bytes,
        2 * (n + 3 * HEADER_BYTES) as u64
    );
    assert_eq!(
        b.snapshot().total().received,
        a.snapshot().total().sent,
        "frames counted alike"
    );
}

#[test]
fn a_read_that_gets_nothing_times_out_with_its_phase() {
    let (mut a, _b) = Channel::memory_pair(quick()).unwrap();
    a.set_stage(7, "scan");
    let start = Instant::now();
    match a.recv(FrameKind::Ot, 4).unwrap_err() {
        NetError::Timeout { phase, waited } => {
            assert_eq!(phase, "scan: read");
            assert!(waited >= Duration::from_millis(150));
        }
        e => panic!("{e}"),
    }
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(matches!(
        a.send(FrameKind::Ot, &[]).unwrap_err(),
        NetError::Broken { .. }
    ));
}

#[test]
fn a_trickling_peer_cannot_stretch_the_deadline() {
    let (mut a, mut s, _r) = raw_peer();
    let stop = std::thread::spawn(move || {
        for byte in header(4, 5, 1, 0, 0, 1) {
            if s.send(vec![byte], Duration::from_secs(1)).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(40));
        }
    });
    assert!(matches!(
        a.recv(FrameKind::Ot, 4).unwrap_err(),
        NetError::Timeout { .. }
    ));
    drop(a);
    stop.join().unwrap();
}

#[test]
fn tcp_accept_connect_and_read_have_deadlines() {
    let acceptor = TcpAcceptor::bind("127.0.0.1:0").unwrap();
    let wait = Duration::from_millis(80);
    match acceptor.accept(wait, wait).err().unwrap() {
        NetError::Timeout { phase, .. } => assert_eq!(phase, "accept"),
        e => panic!("{e}"),
    }
    let (a, _b) = tcp_pair();
    let mut a = Channel::new(Box::new(a), quick()).unwrap();
    assert!(matches!(
        a.recv(FrameKind::Ot, 4).unwrap_err(),
        NetError::Timeout { .. }
    ));
    // Nobody listens on a port that was just given back.
    let addr = acceptor.local_addr().unwrap();
    drop(acceptor);
    assert!(matches!(
        TcpTransport::connect(addr, wait).err().unwrap(),
        NetError::Io { .. } | NetError::Timeout { .. }
    ));
}

#[test]
fn a_full_queue_is_a_write_timeout_and_not_a_hang() {
    let (a, _b) = tcp_pair();
    let mut a = Channel::new(Box::new(a), quick()).unwrap();
    let big = vec![0u8; 140 << 20];
    let mut result = Ok(());
    for _ in 0..4 {
        result = a.send(FrameKind::Setup, &big);
        if result.is_err() {
            break;
        }
    }
    assert!(matches!(result.unwrap_err(), NetError::Timeout { .. }));
}

#[test]
fn any_other_header_than_the_expected_one_is_a_typed_error() {
    let expect = |h: Vec<u8>| {
        let (mut a, mut s, _r) = raw_peer();
        a.set_stage(3, "x");
        s.send(h, Duration::from_secs(1)).unwrap();
        a.recv(FrameKind::Ot, 8).unwrap_err()
    };
    match expect(header(9, 5, 1, 3, 0, 1)) {
        NetError::Length { expected, got, .. } => assert_eq!((expected, got), (8, 9)),
        e => panic!("{e}"),
    }
    // An announced 4 GiB is refused from the header: no payload follows, yet the error is immediate.
    match expect(header(u32::MAX, 5, 1, 3, 0, 1)) {
        NetError::Length { got, .. } => assert_eq!(got, u64::from(u32::MAX)),
        e => panic!("{e}"),
    }
    match expect(header(8, 4, 1, 3, 0, 1)) {
        NetError::Kind { expected, got, .. } => assert_eq!((expected, got), (FrameKind::Ot, 4)),
        e => panic!("{e}"),
    }
    match expect(header(8, 200, 1, 3, 0, 1)) {
        NetError::Kind { got, .. } => assert_eq!(got, 200),
        e => panic!("{e}"),
    }
    match expect(header(8, 5, 1, 4, 0, 1)) {
        NetError::Stage { expected, got, .. } => assert_eq!((expected, got), (3, 4)),
        e => panic!("{e}"),
    }
    match expect(header(8, 5, 1, 3, 1, 1)) {
        NetError::Sequence { expected, got, .. } => assert_eq!((expected, got), (0, 1)),
        e => panic!("{e}"),
    }
    match expect(header(8, 5, 1, 3, 0, 2)) {
        NetError::Flight { last, got, .. } => assert_eq!((last, got), (0, 2)),
        e => panic!("{e}"),
    }
    match expect(header(8, 5, 9, 3, 0, 1)) {
        NetError::Version { got, .. } => assert_eq!(got, 9),
        e => panic!("{e}"),
    }
}

#[test]
fn a_message_above_the_limit_is_refused_on_both_sides() {
    let config = ChannelConfig {
        max_message: 100,
        ..quick()
    };
    let (mut a, mut b) = Channel::memory_pair(config).unwrap();
    assert!(matches!(
        a.send(FrameKind::Ot, &[0; 101]).unwrap_err(),
        NetError::TooLarge {
            len: 101,
            max: 100,
            ..
        }
    ));
    assert!(matches!(
        b.recv(FrameKind::Ot, 101).unwrap_err(),
        NetError::TooLarge {
            len: 101,
            max: 100,
            ..
        }
    ));
    a.send(FrameKind::Ot, &[0; 100]).unwrap();
}

#[test]
fn an_error_frame_ends_the_peer_with_stage_and_code() {
    let (mut a, mut b) = Channel::memory_pair(quick()).unwrap();
    a.set_stage(9, "a");
    a.send_error(42).unwrap();
    b.set_stage(5, "b");
    assert_eq!(
        b.recv(FrameKind::Ot, 1000).unwrap_err(),
        NetError::Peer { stage: 9, code: 42 }
    );
}

#[test]
fn a_dropped_peer_is_reported_wherever_it_happens() {
    for tcp in [false, true] {
        let pair = || -> (Channel, Box<dyn Transport>) {
            if tcp {
                let (a, b) = tcp_pair();
                (Channel::new(Box::new(a), long()).unwrap(), Box::new(b))
            } else {
                let (a, b) = MemoryTransport::pair();
                (Channel::new(Box::new(a), long()).unwrap(), Box::new(b))
            }
        };
        // After 0 bytes, in the middle of a header, after it, in the middle of the payload.
        for cut in [0usize, 7, 16, 20] {
            let (mut a, b) = pair();
            let (mut s, r) = b.split().unwrap();
            let mut bytes = header(8, 5, 1, 0, 0, 1);
            bytes.extend([0; 8]);
            s.send(bytes[..cut].to_vec(), Duration::from_secs(1))
                .unwrap();
            drop((s, r));
            let start = Instant::now();
            assert!(
                matches!(
                    a.recv(FrameKind::Ot, 8).unwrap_err(),
                    NetError::PeerLost { .. }
                ),
                "tcp {tcp} cut {cut}"
            );
            assert!(start.elapsed() < Duration::from_secs(5));
        }
        // While sending.
        let (mut a, b) = pair();
        drop(b);
        let mut lost = false;
        for _ in 0..2000 {
            if let Err(e) = a.send(FrameKind::Ot, &[0; 100_000]) {
                assert!(matches!(e, NetError::PeerLost { .. }), "{e}");
                lost = true;
                break;
            }
        }
        assert!(lost);
    }
}

#[test]
fn both_parties_send_a_hundred_megabytes_before_either_reads() {
    const N: usize = 100 << 20;
    for tcp in [false, true] {
        let (mut a, mut b) = if tcp {
            let (a, b) = tcp_pair();
            (
                Channel::new(Box::new(a), long()).unwrap(),
                Channel::new(Box::new(b), long()).unwrap(),
            )
        } else {
            Channel::memory_pair(long()).unwrap()
        };
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
}

#[test]
fn an_emulated_link_takes_at_least_its_time_and_is_full_duplex() {
    // 80 Mbit/s, 20 ms: 1 MB takes 100 ms on the line and 10 ms of travel.
    let profile = LinkProfile::new("test", 80e6, 20_000);
    let wait = Duration::from_secs(5);
    let (a, b) = MemoryTransport::pair();
    let open = |t: MemoryTransport| {
        Channel::new(
            Box::new(EmulatedLink::new(Box::new(t), profile, wait)),
            long(),
        )
        .unwrap()
    };
    let (mut a, mut b) = (open(a), open(b));
    const N: usize = 1_000_000;
    let start = Instant::now();
    std::thread::scope(|s| {
        s.spawn(|| {
            a.send(FrameKind::Ot, &vec![1; N]).unwrap();
            a.recv(FrameKind::Ot, N).unwrap();
        });
        s.spawn(|| {
            b.send(FrameKind::Ot, &vec![1; N]).unwrap();
            b.recv(FrameKind::Ot, N).unwrap();
        });
    });
    let both = start.elapsed();
    assert!(both >= Duration::from_millis(110), "{both:?}");
    // Half duplex would need 210 ms at least; the margin is for a loaded machine.
    assert!(both < Duration::from_millis(200), "{both:?}");
    // Five ping-pongs wait for five round trips.
    let start = Instant::now();
    std::thread::scope(|s| {
        s.spawn(|| {
            for _ in 0..5 {
                a.send(FrameKind::Ot, &[0]).unwrap();
                a.recv(FrameKind::Ot, 1).unwrap();
            }
        });
        s.spawn(|| {
            for _ in 0..5 {
                b.recv(FrameKind::Ot, 1).unwrap();
                b.send(FrameKind::Ot, &[0]).unwrap();
            }
        });
    });
    let t = start.elapsed();
    assert!(t >= Duration::from_millis(100), "{t:?}");
    assert_eq!(LinkProfile::named("wan3"), Some(LinkProfile::WAN3));
    assert_eq!(
        LinkProfile::LAN.transmission(125_000_000),
        Duration::from_secs(1)
    );
}

#[test]
fn a_session_ends_at_its_limit_however_lively_the_peer_is() {
    let (a, b) = MemoryTransport::pair();
    let config = ChannelConfig {
        deadline: Duration::from_secs(20),
        until: Some(Instant::now() + Duration::from_millis(300)),
        ..ChannelConfig::default()
    };
    let mut a = Channel::new(Box::new(a), config).unwrap();
    let mut b = Channel::new(Box::new(b), long()).unwrap();
    let t = std::thread::spawn(move || {
        // One message every 50 ms, for ever.
        while b.send(FrameKind::Ot, b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let start = Instant::now();
    let e = loop {
        if let Err(e) = a.recv(FrameKind::Ot, 1) {
            break e;
        }
    };
    assert!(matches!(e, NetError::Overtime { .. }), "{e}");
    assert!(start.elapsed() < Duration::from_secs(5));
    drop(a);
    t.join().unwrap();
}

#[test]
fn a_party_that_is_still_sending_hears_why_the_peer_left() {
    let (a, b) = tcp_pair();
    let t = std::thread::spawn(move || {
        let mut b = Channel::new(Box::new(b), long()).unwrap();
        let e = b.recv(FrameKind::Setup, 7).unwrap_err();
        b.send_error(9).unwrap();
        e
    });
    let mut a = Channel::new(Box::new(a), long()).unwrap();
    // Far more than a socket buffer holds, into a peer that refuses the first message.
    let e = loop {
        if let Err(e) = a.send(FrameKind::Setup, &[1; 1 << 20]) {
            break e;
        }
    };
    assert_eq!(e, NetError::Peer { stage: 0, code: 9 });
    let e = t.join().unwrap();
    assert!(matches!(e, NetError::Length { got: 0x10_0000, .. }), "{e}");
}

#[test]
fn an_error_frame_does_not_wait_behind_a_queue_that_nobody_reads() {
    let (a, b) = tcp_pair();
    let mut a = Channel::new(Box::new(a), quick()).unwrap();
    let e = loop {
        if let Err(e) = a.send(FrameKind::Setup, &[1; 32 << 20]) {
            break e;
        }
    };
    assert!(matches!(e, NetError::Timeout { .. }), "{e}");
    let start = Instant::now();
    assert!(a.send_error(1).is_err());
    assert!(start.elapsed() < Duration::from_secs(2));
    drop(b);
}
