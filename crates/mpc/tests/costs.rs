//! Executed bytes, flights and COTs equal the cost model, formula by formula; a lost peer is a typed error wherever it
//! happens; the schedule does not depend on values.

#![allow(clippy::unwrap_used, clippy::panic)]

use cipherloom_mpc::harness::{run_channels, run_pair};
use cipherloom_mpc::{
    Bits, CompareFormat, CostModel, CotProducts, Domain, MpcConfig, MpcError, Party, ProductSource,
    Session, Shares, TwoParty,
};
use cipherloom_net::{
    Channel, ChannelConfig, Halves, LinkFault, MemoryTransport, MessageRecord, NetError, SendHalf,
    Transport,
};
use cipherloom_spec::cost::{MpcCounts, Traffic};
use cipherloom_spec::FracBits;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

const F2: FracBits = FracBits(38);

fn config(digit_bits: u32, cot_k: u32) -> MpcConfig {
    MpcConfig {
        cot_batch: 8192,
        digit_bits,
        cot_k,
    }
}

fn traffic(p: &TwoParty) -> Traffic {
    let t = p.session_ref().channel_ref().snapshot().total();
    let (up, down) = match p.party() {
        Party::Client => (t.sent.bytes, t.received.bytes),
        Party::Server => (t.received.bytes, t.sent.bytes),
    };
    Traffic {
        client_to_server: up,
        server_to_client: down,
        flights: t.flights(),
    }
}

const FORMAT: CompareFormat = CompareFormat {
    kept_frac: 12,
    int_bits: 5,
};

/// One step of the program that both the parties and the model execute.
#[derive(Debug, Clone, Copy)]
enum Step {
    LessThan(usize, usize),
    Mux(usize),
    B2a(usize),
    Truncate(usize, u32),
    Faithful(usize, u32, u32),
    Extend(usize),
    Product(usize),
    Square(usize),
    Known(Party, usize),
    Open(usize, u32),
    Argmax(usize),
}

fn execute(p: &mut TwoParty, step: Step, word: u64) -> Result<(), MpcError> {
    let x = |n| Shares {
        v: vec![word; n],
        frac: F2,
    };
    let x19 = |n| Shares {
        v: vec![word; n],
        frac: FracBits(19),
    };
    let b = |n| Bits {
        v: vec![word as u8 & 1; n],
    };
    match step {
        Step::LessThan(n, t) => drop(p.less_than(&x19(n), &vec![0.5; t], FORMAT)?),
        Step::Mux(n) => drop(p.mux(&[(&b(n), &x(n))])?),
        Step::B2a(n) => drop(p.b2a(&[&b(n)])?),
        Step::Truncate(n, bits) => drop(p.truncate(&x(n), bits)?),
        Step::Faithful(n, bits, out) => drop(p.truncate_reduce_faithful(&x(n), bits, out)?),
        Step::Extend(n) => drop(p.extend_64_88(&x(n).v)?),
        Step::Product(n) => drop(p.product(&x(n), &x(n))?),
        Step::Square(n) => drop(p.square(&x(n))?),
        Step::Known(owner, n) => {
            let c = vec![word; n];
            let c = (p.party() == owner).then_some(&c[..]);
            drop(p.product_known(owner, &x(n), c, FracBits(0))?);
        }
        Step::Open(n, bits) => drop(p.open_to_client(&x(n), bits)?),
        Step::Argmax(n) => drop(p.argmax(&x19(n), 5)?),
    }
    Ok(())
}

fn predict(m: &mut CostModel, step: Step) {
    match step {
        Step::LessThan(n, t) => m.less_than(n, t, FORMAT),
        Step::Mux(n) => m.mux(n),
        Step::B2a(n) => m.b2a(n, 64),
        Step::Truncate(n, bits) => m.truncate(n, bits),
        Step::Faithful(n, bits, out) => m.truncate_reduce_faithful(n, bits, out),
        Step::Extend(n) => m.extend_64_88(n),
        Step::Product(n) => m.cot_product(n),
        Step::Square(n) => m.cot_square(n),
        Step::Known(owner, n) => m.cot_product_known(owner, n),
        Step::Open(n, bits) => m.open_to_client(n, bits),
        Step::Argmax(n) => m.argmax(n, 5 + 19),
    }
}

fn program() -> Vec<Step> {
    use Step::{
        Argmax, B2a, Extend, Faithful, Known, LessThan, Mux, Open, Product, Square, Truncate,
    };
    vec![
        LessThan(100, 2),
        Mux(33),
        LessThan(0, 3),
        B2a(9),
        Truncate(1000, 19),
        LessThan(700, 1),
        Known(Party::Server, 20),
        Mux(0),
        Known(Party::Client, 3),
        Product(70),
        Square(11),
        Extend(513),
        Faithful(80, 26, 32),
        Faithful(5, 19, 64),
        Faithful(6, 0, 20),
        Truncate(8192 * 2 + 5, 7),
        LessThan(1, 7),
        Open(12, 32),
        Mux(9000),
        Argmax(1),
        Argmax(2),
        Argmax(11),
        Argmax(1000),
    ]
}

#[test]
fn executed_traffic_equals_the_cost_model_after_every_step() {
    for (digit_bits, k) in [(4, 4), (3, 2), (1, 8), (2, 1)] {
        let config = config(digit_bits, k);
        let run = |p: &mut TwoParty| {
            let mut seen = vec![(traffic(p), p.counts().cots)];
            for step in program() {
                execute(p, step, 5)?;
                seen.push((traffic(p), p.counts().cots));
            }
            Ok(seen)
        };
        let (client, server) = run_pair(config, run, run).unwrap();
        let mut model = CostModel::new(config);
        model.open();
        let mut want = vec![(model.traffic(), model.cots())];
        for step in program() {
            predict(&mut model, step);
            want.push((model.traffic(), model.cots()));
        }
        for (k, w) in want.iter().enumerate() {
            let step = k.checked_sub(1).map(|k| program()[k]);
            assert_eq!(client[k].1, w.1, "COTs after {step:?}");
            assert_eq!(server[k].1, w.1, "COTs after {step:?}");
        }
        // Both parties agree at the end; each has read everything by then.
        let last = want.last().unwrap().0;
        for (name, seen) in [("client", &client), ("server", &server)] {
            for (k, (s, w)) in seen.iter().zip(&want).enumerate() {
                let step = k.checked_sub(1).map(|k| program()[k]);
                assert_eq!(s.0, w.0, "{name} after {step:?}");
            }
        }
        assert_eq!(client.last().unwrap().0, last);
    }
}

#[test]
fn a_comparison_costs_what_the_documentation_says() {
    // 17 bits, radix 16: digits 4,4,4,4,1. COTs: 17 for the digits; layers of joins: 5 -> 3 -> 2 -> 1 columns, that is
    // 2, 1 and 1 gates or pairs, one COT in each direction for each, for each of two thresholds.
    let mut m = CostModel::new(config(4, 4));
    m.less_than(1, 2, FORMAT);
    assert_eq!(m.cots(), 17 + 2 * 2 * 4);
    // Answers for n = 8: digits of 15 messages; 2 bits for the lowest digit, 4 for the others; top digit one message.
    // Refill 31 bits a COT of 8192 in each direction, both before the first AND layer at the latest.
    let n = 8;
    let mut m = CostModel::new(config(4, 4));
    m.less_than(n, 2, FORMAT);
    let refill = 31 * 1024;
    let answers = 15 * 2 + 3 * 15 * 4 + 4; // bits times n / 8 = bytes
    let layers = [2 * (2 + 3), 2 * 2, 2 * 2]; // bits an element
    let open: u64 = layers.iter().map(|b| 16 + b).sum();
    let t = m.traffic();
    assert_eq!(t.client_to_server, (16 + refill) + (16 + answers) + open);
    assert_eq!(t.server_to_client, (16 + refill) + (16 + 17) + open);
    // Choices; answer, refill and first opening of the client; first opening of the server; two exchanges.
    assert_eq!(t.flights, 3 + 2 * 2);
}

#[test]
fn an_argmax_costs_what_the_documentation_says() {
    // 20 bits: five digits, joined in three layers by one gate and a pair, one gate, one gate.
    let (bits, digits, layers) = (20, 5u64, 3);
    for (n, rounds) in [(1u64, 0), (2, 1), (3, 2), (5, 3), (8, 3), (1000, 10)] {
        let mut m = CostModel::new(config(4, 4));
        m.argmax(n as usize, bits);
        let muxes = (2 * n).saturating_sub(3);
        assert_eq!(
            m.cots(),
            (n - 1) * (u64::from(bits) + 2 * (digits - 1)) + 2 * u64::from(n > 1) * muxes,
            "{n}"
        );
        assert_eq!(m.traffic().flights, rounds * (2 * layers + 5), "{n}");
    }
    // Two words and the opening of the index, refills apart: answers of the digits, three openings, choice and word of the
    // mux; choices of the digits, the same, and one byte for the index.
    let mut m = CostModel::new(config(4, 4));
    m.argmax(2, bits);
    m.open_to_client(1, 1);
    let refill = 16 + 31 * 1024;
    let t = m.traffic();
    assert_eq!(t.client_to_server, refill + 6 * 16 + 17 + 3 + 1 + 8);
    assert_eq!(t.server_to_client, refill + 7 * 16 + 3 + 3 + 1 + 8 + 1);
    assert_eq!(t.flights, 12);
}

#[test]
fn counts_are_in_elements() {
    let run = |p: &mut TwoParty| {
        for step in program() {
            execute(p, step, 3)?;
        }
        Ok(p.counts())
    };
    let (a, b) = run_pair(config(4, 4), run, run).unwrap();
    assert_eq!(a, b);
    let want = MpcCounts {
        products: 70,
        squares: 11,
        known_products: 23,
        comparisons: 200 + 700 + 7 + 1 + 10 + 999,
        muxes: 33 + 9000 + 1 + (2 * 11 - 3) + (2 * 1000 - 3),
        b2a: 9,
        truncations: 1000 + 8192 * 2 + 5,
        faithful_truncations: 80 + 5 + 6,
        extensions: 513,
        cots: a.cots,
    };
    assert_eq!(a, want);
}

#[test]
fn the_schedule_does_not_depend_on_the_values() {
    let schedule = |word: u64| -> (Vec<MessageRecord>, Vec<MessageRecord>) {
        let run = |p: &mut TwoParty| {
            p.session().channel().record_schedule();
            for step in program() {
                execute(p, step, word)?;
            }
            Ok(p.session().channel().schedule().to_vec())
        };
        run_pair(config(4, 4), run, run).unwrap()
    };
    let a = schedule(0);
    assert!(a.0.len() > 50);
    assert_eq!(a, schedule(u64::MAX - 12345));
}

/// A transport that dies after a number of sent frames.
struct Mortal {
    inner: MemoryTransport,
    left: Arc<AtomicUsize>,
}

struct MortalSend {
    inner: Option<Box<dyn SendHalf>>,
    left: Arc<AtomicUsize>,
}

impl SendHalf for MortalSend {
    fn send(&mut self, bytes: Vec<u8>, wait: Duration) -> Result<(), LinkFault> {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            self.inner = None;
            self.left.store(0, Ordering::SeqCst);
        }
        match &mut self.inner {
            Some(s) => s.send(bytes, wait),
            None => Err(LinkFault::Lost),
        }
    }
    fn flush(&mut self, wait: Duration) -> Result<(), LinkFault> {
        match &mut self.inner {
            Some(s) => s.flush(wait),
            None => Err(LinkFault::Lost),
        }
    }
}

impl Transport for Mortal {
    fn split(self: Box<Self>) -> Result<Halves, std::io::Error> {
        let (send, recv) = (Box::new(self.inner) as Box<dyn Transport>).split()?;
        let send = MortalSend {
            inner: Some(send),
            left: self.left,
        };
        Ok((Box::new(send), recv))
    }
}

#[test]
fn a_peer_that_dies_at_any_message_gives_both_parties_a_typed_error() {
    let cot = |_: &mut Session| Ok(Box::new(CotProducts) as Box<dyn ProductSource>);
    let net = ChannelConfig {
        deadline: Duration::from_secs(20),
        ..ChannelConfig::default()
    };
    let steps = [
        Step::LessThan(40, 2),
        Step::Mux(10),
        Step::Product(3),
        Step::Faithful(10, 9, 30),
        Step::Extend(10),
    ];
    for dying in [Party::Client, Party::Server] {
        let mut completed = false;
        for frames in 0..60 {
            let (a, b) = MemoryTransport::pair();
            let left = Arc::new(AtomicUsize::new(frames));
            let (dead, alive) = (
                Channel::new(Box::new(Mortal { inner: a, left }), net).unwrap(),
                Channel::new(Box::new(b), net).unwrap(),
            );
            let (client, server) = match dying {
                Party::Client => (dead, alive),
                Party::Server => (alive, dead),
            };
            let failures = [AtomicUsize::new(0), AtomicUsize::new(0)];
            let run = |p: &mut TwoParty| {
                for step in steps {
                    if let Err(e) = execute(p, step, 1) {
                        assert!(matches!(e, MpcError::Net(NetError::PeerLost { .. })), "{e}");
                        failures[usize::from(p.party() == Party::Server)]
                            .fetch_add(1, Ordering::SeqCst);
                        // Nothing works after an error: the correlations are gone with the session.
                        let again = execute(p, step, 1).err().unwrap();
                        assert!(matches!(again, MpcError::Net(NetError::Broken { .. })));
                        return Err(e);
                    }
                }
                Ok(())
            };
            match run_channels(config(4, 4), client, server, &cot, run, run) {
                Ok(_) => {
                    completed = true;
                    break;
                }
                Err(MpcError::Net(NetError::PeerLost { .. })) => {
                    // During set-up (three messages) the session never opens; later both closures fail.
                    if frames >= 3 {
                        let f = failures
                            .iter()
                            .map(|f| f.load(Ordering::SeqCst))
                            .sum::<usize>();
                        assert!(f >= 1, "{frames}");
                    }
                }
                Err(e) => panic!("{e}"),
            }
        }
        assert!(completed, "the whole program takes fewer than 60 frames");
    }
}
