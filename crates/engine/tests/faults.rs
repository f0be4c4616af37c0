//! A network that changes, loses, repeats, delays and cuts bytes between a client and a service: every session ends with the right
//! answer or with a typed error on both sides, soon.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use cipherloom_engine::keystore::ClientKeyFile;
use cipherloom_engine::EngineError;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use support::{waits, Provider, Running, LONG, SHORT_TEXT};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// One bit changes.
    Flip,
    /// Some bytes do not arrive.
    Lose,
    /// Some bytes arrive twice.
    Repeat,
    /// Nothing arrives any more; the connection ends.
    Cut,
    /// Nothing arrives any more; the connection stays.
    Stall,
    /// Everything arrives, later.
    Delay,
}

const FAULTS: [Fault; 6] = [
    Fault::Flip,
    Fault::Lose,
    Fault::Repeat,
    Fault::Cut,
    Fault::Stall,
    Fault::Delay,
];

#[derive(Debug, Clone, Copy)]
struct Plan {
    /// From the client to the server, or back.
    up: bool,
    /// Bytes of that direction that pass before.
    at: u64,
    /// Bytes lost or repeated.
    span: usize,
    fault: Fault,
}

/// One relayed connection with one fault.
struct Network {
    addr: SocketAddr,
    thread: JoinHandle<bool>,
}

fn spoil(plan: Plan, bytes: &mut Vec<u8>, at: usize, end: &AtomicBool) -> bool {
    let stop = (at + plan.span).min(bytes.len());
    match plan.fault {
        Fault::Flip => bytes[at] ^= 1 << (plan.span % 8),
        Fault::Lose => drop(bytes.drain(at..stop)),
        Fault::Repeat => {
            let again = bytes[at..stop].to_vec();
            bytes.splice(stop..stop, again);
        }
        Fault::Cut => {
            end.store(true, Ordering::SeqCst);
            bytes.truncate(at);
        }
        Fault::Stall => bytes.truncate(at),
        Fault::Delay => std::thread::sleep(Duration::from_millis(300)),
    }
    plan.fault == Fault::Stall
}

/// Passes one direction on until it ends. Returns whether the fault happened.
fn pass(mut from: TcpStream, mut to: TcpStream, plan: Option<Plan>, end: &AtomicBool) -> bool {
    let mut buf = vec![0; 64 << 10];
    let (mut passed, mut done, mut stalled) = (0u64, false, false);
    from.set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    while !end.load(Ordering::SeqCst) {
        let n = match from.read(&mut buf) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(_) => break,
        };
        let mut bytes = buf[..n].to_vec();
        if let Some(p) = plan.filter(|p| !done && passed + n as u64 > p.at) {
            done = true;
            stalled = spoil(p, &mut bytes, (p.at - passed) as usize, end);
        } else if stalled {
            bytes.clear();
        }
        passed += n as u64;
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    // Whatever ended this direction ends the other one.
    end.store(true, Ordering::SeqCst);
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
    done
}

impl Network {
    fn start(server: SocketAddr, plan: Plan) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let (client, _) = listener.accept().unwrap();
            let server = TcpStream::connect(server).unwrap();
            client.set_nodelay(true).unwrap();
            server.set_nodelay(true).unwrap();
            let (c, s) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let end = Arc::new(AtomicBool::new(false));
            std::thread::scope(|scope| {
                let up = scope.spawn(|| pass(c, s, Some(plan).filter(|p| p.up), &end));
                let down = pass(server, client, Some(plan).filter(|p| !p.up), &end);
                up.join().unwrap() | down
            })
        });
        Self { addr, thread }
    }
}

/// Where faults happen when the keys are known: bytes of a direction. TLS handshake, hello and offer, offline, stages.
const PLACES: [(bool, u64); 16] = [
    (true, 3),
    (true, 60),
    (true, 300),
    (true, 500),
    (true, 800),
    (true, 3_000),
    (true, 100_000),
    (true, 700_000),
    (true, 4_000_000),
    (false, 5),
    (false, 90),
    (false, 600),
    (false, 1_100),
    (false, 20_000),
    (false, 1_500_000),
    (false, 25_000_000),
];
/// In the upload of the keys.
const UPLOAD: [u64; 4] = [2_000, 40_000, 1_000_000, 20_000_000];

/// The runs: each place meets some of the faults, each fault many places.
fn runs() -> Vec<(Plan, bool)> {
    let mut state = 2024u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let mut out = Vec::new();
    let known = PLACES.map(|p| (p, true)).into_iter();
    let fresh = UPLOAD.map(|at| ((true, at), false));
    for (i, ((up, at), known)) in known.chain(fresh).enumerate() {
        for k in 0..2 {
            // Neighbours differ, and all six come up.
            let fault = FAULTS[(i * 2 + k * 3 + i / 3) % FAULTS.len()];
            let plan = Plan {
                up,
                at: at + (random() % 16) as u64,
                span: 1 + random() % 200,
                fault,
            };
            out.push((plan, known));
        }
    }
    out
}

struct Bench<'a> {
    p: &'a Provider,
    s: &'a Running,
    known: ClientKeyFile,
}

impl Bench<'_> {
    /// One run; whether it was answered.
    fn run(&self, plan: Plan, known: bool) -> bool {
        let fresh = self.p.keys("fresh");
        if !known {
            fresh.replace().unwrap();
        }
        let keys = if known { &self.known } else { &fresh };
        let network = Network::start(self.s.addr, plan);
        // Bytes that never come are noticed by waiting; the rest at once.
        let patience = match plan.fault {
            Fault::Stall | Fault::Lose => waits(2, 2),
            _ => waits(30, 60),
        };
        let text = self.p.encode(SHORT_TEXT);
        let over = self.s.over();
        let failures = self.s.failures().len();
        let start = Instant::now();
        let got = self.p.ask(network.addr, &text, keys, patience);
        let took = start.elapsed();
        assert!(took < Duration::from_secs(60), "{plan:?}: {took:?}");
        assert!(network.thread.join().unwrap(), "{plan:?} did not happen");
        self.s.wait_over(over + 1, Duration::from_secs(40));
        match &got {
            Ok(outcome) => self.p.check(&text, outcome),
            Err(e) => {
                assert!(e.is_peer(), "{plan:?}: {e}");
                assert!(e.net().is_some(), "{plan:?}: {e}");
                assert!(!matches!(e, EngineError::Mismatch { .. }), "{plan:?}: {e}");
            }
        }
        for (stage, code, kind) in self.s.failures().split_off(failures) {
            println!("  server: {stage} {code} {kind}");
            assert!(
                ["timeout", "peer-lost", "peer-error", "altered", "tls"].contains(&kind),
                "{plan:?}: {kind}"
            );
        }
        println!(
            "{plan:?}: {:.1} s, {}",
            took.as_secs_f64(),
            got.as_ref()
                .err()
                .map_or("answered".into(), |e| e.to_string())
        );
        got.is_ok()
    }
}

#[test]
fn faults_of_the_network_give_the_right_answer_or_a_typed_error() {
    let p = Provider::new();
    let s = p.start(2, waits(10, 20));
    let known = p.keys("known");
    p.answers(s.addr, &known);
    let bench = Bench {
        p: &p,
        s: &s,
        known,
    };
    let runs = runs();
    assert!(runs.len() >= 38);
    let start = Instant::now();
    for &(plan, known) in &runs {
        let answered = bench.run(plan, known);
        match plan.fault {
            Fault::Delay => assert!(answered, "{plan:?}"),
            // The legacy version of a handshake record may change without effect (RFC 8446, section 5.1).
            Fault::Flip if plan.at < 20 => {}
            _ => assert!(!answered, "{plan:?}"),
        }
        for fault in FAULTS {
            assert!(runs.iter().filter(|r| r.0.fault == fault).count() >= 5);
        }
    }
    println!("{} runs in {:?}", runs.len(), start.elapsed());
    assert!(start.elapsed() < 5 * LONG);
    s.at_rest();
    let after = p.answers(s.addr, &bench.known);
    assert!(after.report.keys_reused);
}
