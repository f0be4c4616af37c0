//! The plan's ledger against real sessions: every protocol and every function, run by two parties over an in-memory
//! channel, must send exactly the messages that the ledger describes, and count exactly what it counts, stage by stage.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod functions;
mod primitives;

use cipherloom_mpc::rlwe::{CrtProducts, ProductKey, RlweLiteral, RlweParameters};
use cipherloom_mpc::{
    Bits, CotProducts, Domain, MpcConfig, Party, ProductSource, Session, Shares, TwoParty,
};
use cipherloom_net::{Channel, ChannelConfig, MessageRecord, TrafficSnapshot};
use cipherloom_nonlinear::PoolShape;
use cipherloom_plan::describe::boundary;
use cipherloom_plan::describe::ledger::{Ledger, MpcShape, ProductShape, RlweShape, Side};
use cipherloom_ring::{PublicSeed, SecretSeed};
use cipherloom_spec::approx::Stack;
use cipherloom_spec::cost::{MpcCounts, Traffic};
use cipherloom_spec::FracBits;
use common::Sim;
use functions::{block, block_steps, functions, norm_steps, pool_step};
use primitives::{primitives, product, product_known, square};

const F: FracBits = FracBits(19);

/// One step of a session, as the parties run it and as the ledger describes it.
struct Step {
    name: &'static str,
    run: Box<dyn Fn(&mut TwoParty) + Sync>,
    describe: Box<dyn Fn(&mut Ledger) + Sync>,
}

fn step(
    name: &'static str,
    run: impl Fn(&mut TwoParty) + Sync + 'static,
    describe: impl Fn(&mut Ledger) + Sync + 'static,
) -> Step {
    Step {
        name,
        run: Box::new(run),
        describe: Box::new(describe),
    }
}

/// Any words: what is sent does not depend on them.
fn words(n: usize, frac: FracBits) -> Shares {
    Shares {
        v: Sim::words(n as u64, n),
        frac,
    }
}

fn bits(n: usize) -> Bits {
    Bits {
        v: (0..n).map(|i| (i % 3 == 0) as u8).collect(),
    }
}

/// `values` at their owner, nothing at the other party.
fn at<T>(p: &TwoParty, owner: Party, values: T) -> Option<T> {
    (p.party() == owner).then_some(values)
}

/// Two steps share a stage, and stages are entered again in later rounds.
fn stage_of(step: usize, steps: usize) -> u16 {
    1 + (step % steps.div_ceil(2)) as u16
}

struct Seen {
    traffic: TrafficSnapshot,
    counts: Vec<MpcCounts>,
    opening: MpcCounts,
    schedule: Vec<MessageRecord>,
    pools: [usize; 2],
}

fn party(
    channel: Channel,
    party: Party,
    config: MpcConfig,
    params: Option<&RlweParameters>,
    steps: &[Step],
) -> Seen {
    let mut channel = channel;
    channel.record_schedule();
    let mut session = Session::open(channel, party, b"ledger", config).unwrap();
    let products: Box<dyn ProductSource> = match params {
        None => Box::new(CotProducts),
        Some(p) => {
            let key = ProductKey::from_seed(p, &SecretSeed::from_bytes([5; 32])).unwrap();
            let public = key.public_key(p, PublicSeed([6; 32])).unwrap();
            match party {
                Party::Client => {
                    Box::new(CrtProducts::client(&mut session, p.clone(), key).unwrap())
                }
                Party::Server => {
                    Box::new(CrtProducts::server(&mut session, p.clone(), public).unwrap())
                }
            }
        }
    };
    let mut p = TwoParty::new(session, products);
    let opening = p.counts();
    let mut counts = Vec::new();
    for (i, s) in steps.iter().enumerate() {
        let before = p.counts();
        let stage = stage_of(i, steps.len());
        p.session().channel().set_stage(stage, s.name);
        (s.run)(&mut p);
        counts.push(p.counts().since(&before));
    }
    let pools = [Party::Client, Party::Server].map(|s| p.session_ref().cots_available(s));
    let mut schedule = p.session_ref().channel_ref().schedule().to_vec();
    let stage = p.session_ref().channel_ref().stage();
    // `finish` consumes the channel; its message is the last one.
    let traffic = p.into_session().finish().unwrap();
    let last = *schedule.last().unwrap();
    schedule.push(MessageRecord {
        sent: true,
        stage,
        len: 0,
        ..last
    });
    Seen {
        traffic,
        counts,
        opening,
        schedule,
        pools,
    }
}

/// Runs the steps between two parties and in the ledger and compares everything there is.
fn compare(config: MpcConfig, literal: Option<RlweLiteral>, steps: &[Step]) -> Ledger {
    let (a, b) = Channel::memory_pair(ChannelConfig::default()).unwrap();
    let params = literal.map(|l| RlweParameters::new(l).unwrap());
    let (client, server) = std::thread::scope(|scope| {
        let server = scope.spawn(|| party(b, Party::Server, config, params.as_ref(), steps));
        let client = party(a, Party::Client, config, params.as_ref(), steps);
        (client, server.join().unwrap())
    });

    let products = params.as_ref().map_or(ProductShape::Cot, |p| {
        let l = p.literal();
        ProductShape::Rlwe(RlweShape {
            log_n: l.log_n,
            export_bits: l.export_bits.clone(),
            dropped_bits: l.dropped_bits.clone(),
            plain_count: l.plain_count,
        })
    });
    let shape = MpcShape {
        cot_k: config.cot_k,
        cot_batch: config.cot_batch,
        digit_bits: config.digit_bits,
    };
    let mut l = Ledger::new(shape, products);
    l.record_schedule();
    l.open_session();
    assert_eq!(client.opening, l.total().1);
    for (i, s) in steps.iter().enumerate() {
        let stage = stage_of(i, steps.len());
        l.enter(stage);
        let before = l.stage(stage).1;
        (s.describe)(&mut l);
        let described = l.stage(stage).1.since(&before);
        for (who, seen) in [("client", &client), ("server", &server)] {
            assert_eq!(seen.counts[i], described, "step {i} {}: {who}", s.name);
        }
    }
    let pools = [Side::Client, Side::Server].map(|s| l.cots_available(s) as usize);
    assert_eq!((client.pools, server.pools), (pools, pools));
    l.finish();

    for (from, seen) in [(Side::Client, &client), (Side::Server, &server)] {
        let sent: Vec<(u16, u64)> = seen
            .schedule
            .iter()
            .filter(|m| m.sent)
            .map(|m| (m.stage, m.len))
            .collect();
        let described: Vec<(u16, u64)> = l
            .schedule()
            .iter()
            .filter(|m| m.from == from)
            .map(|m| (m.stage, m.payload))
            .collect();
        let first = sent.iter().zip(&described).position(|(a, b)| a != b);
        assert_eq!(
            first,
            None,
            "{from:?}: {:?}",
            first.map(|i| (sent[i], described[i]))
        );
        assert_eq!(sent.len(), described.len(), "{from:?}");
    }
    for seen in [&client.traffic, &server.traffic] {
        assert_eq!(seen.stages.len(), l.stages().count());
    }
    for (stage, entry) in l.stages() {
        let own = client.traffic.stage(stage);
        let mirrored = server.traffic.stage(stage).mirrored();
        for t in [&own, &mirrored] {
            let traffic = Traffic {
                client_to_server: t.sent.bytes,
                server_to_client: t.received.bytes,
                flights: t.flights(),
            };
            assert_eq!(entry.traffic, traffic, "stage {stage} {}", t.name);
            assert_eq!(entry.messages, t.sent.messages + t.received.messages);
        }
    }
    let largest = client.schedule.iter().map(|m| m.len).max();
    assert_eq!(l.stages().map(|(_, e)| e.largest_message).max(), largest);
    l
}

fn config(cot_k: u32, cot_batch: usize, digit_bits: u32) -> MpcConfig {
    MpcConfig {
        cot_k,
        cot_batch,
        digit_bits,
    }
}

#[test]
fn defaults_are_those_of_the_protocols() {
    let (a, b) = (MpcConfig::default(), MpcShape::default());
    assert_eq!(
        (a.cot_k, a.cot_batch, a.digit_bits),
        (b.cot_k, b.cot_batch, b.digit_bits)
    );
    let (a, b) = (RlweLiteral::crt64(), RlweShape::crt64());
    assert_eq!(ProductShape::default(), ProductShape::Rlwe(b.clone()));
    assert_eq!(
        (a.log_n, a.export_bits, a.dropped_bits, a.plain_count),
        (
            b.log_n,
            b.export_bits.clone(),
            b.dropped_bits.clone(),
            b.plain_count
        )
    );
    let p = RlweParameters::crt64().unwrap();
    assert_eq!(b.upload_bytes(), p.upload_ciphertext_bytes() as u64);
    assert_eq!(b.answer_bytes(), p.export_ciphertext_bytes() as u64);
}

#[test]
fn primitives_send_what_the_ledger_says_across_refills() {
    // Products from OTs drain the pools; every digit width, every extension parameter.
    for (c, sizes) in [
        (config(4, 8192, 4), &[0usize, 1, 5, 77, 1001][..]),
        (config(8, 2 * 8192, 3), &[9, 131]),
        (config(2, 8192, 2), &[13]),
        (config(1, 3 * 8192, 1), &[3, 41]),
    ] {
        let mut steps = primitives(sizes);
        // A second round enters every stage again with other pools.
        steps.extend(primitives(sizes));
        let l = compare(c, None, &steps);
        let refilled = l.total().1.cots / c.cot_batch as u64;
        assert!(refilled >= 1, "{refilled} refills at least");
    }
}

#[test]
fn primitives_with_lattice_products_send_what_the_ledger_says() {
    let mut steps = primitives(&[0, 1, 77]);
    // Beyond one message of four slot vectors, and exactly at its end.
    steps.extend([square(4 * 8192 + 5), product(4 * 8192), product(8193)]);
    steps.extend([Party::Client, Party::Server].map(|p| product_known(p, 5 * 8192 + 1)));
    compare(config(4, 8192, 4), Some(RlweLiteral::crt64()), &steps);
    // More plaintext primes, other limbs.
    let literal = RlweLiteral {
        export_bits: vec![41, 40, 40],
        dropped_bits: vec![45],
        plain_count: 4,
        ..RlweLiteral::crt64()
    };
    compare(
        config(2, 4 * 8192, 4),
        Some(literal),
        &[product(3), square(9000), product_known(Party::Server, 1)],
    );
}

#[test]
fn functions_send_what_the_ledger_says() {
    let steps = functions();
    compare(config(4, 8192, 4), None, &steps);
    compare(MpcConfig::default(), None, &steps);
}

#[test]
fn functions_with_lattice_products_send_what_the_ledger_says() {
    let mut steps = block_steps(Stack::D4);
    steps.extend(norm_steps(&block(Stack::Tight).pre_norm, 5));
    steps.push(pool_step(PoolShape {
        tokens: 11,
        width: 24,
        classes: 2,
    }));
    compare(MpcConfig::default(), Some(RlweLiteral::crt64()), &steps);
}

/// The crossings themselves are held against `bridge::size` by the tests of `bridge`.
#[test]
fn crossings_have_the_sizes_of_the_bridge() {
    use cipherloom_bridge::size as bridge;
    use cipherloom_ckks::size as ckks;
    let chain = cipherloom_plan::rings::chain_for_depth(15, 6).unwrap();
    assert_eq!(
        boundary::public_key_bytes(&chain),
        ckks::public_key_bytes(&chain) as u64
    );
    for level in 0..=chain.top_level() {
        assert_eq!(
            boundary::seeded_ciphertext_bytes(&chain, level),
            ckks::seeded_ciphertext_bytes(&chain, level) as u64
        );
        assert_eq!(
            boundary::evaluation_key_bytes(&chain, level),
            ckks::evaluation_key_bytes(&chain, level) as u64
        );
    }
    for count in [0usize, 1, 15, 16, 17, 33] {
        let mut l = Ledger::new(MpcShape::default(), ProductShape::default());
        for degree in [1, 2] {
            l.enter(degree as u16);
            l.to_shares(count, boundary::export_bytes(&chain, degree));
            let t = l.stage(degree as u16).0;
            let bytes = bridge::to_shares_bytes(&chain, degree, count);
            assert_eq!((t.server_to_client, t.client_to_server), (bytes, 0));
        }
        assert_eq!(
            l.stage(1).0.flights,
            bridge::TO_SHARES_FLIGHTS.min(count as u64)
        );
        l.enter(3);
        l.to_ckks(count, boundary::seeded_ciphertext_bytes(&chain, 5));
        let t = l.stage(3).0;
        assert_eq!(
            (t.client_to_server, t.server_to_client),
            (bridge::to_ckks_bytes(&chain, 5, count), 0)
        );
        assert_eq!(t.flights, bridge::TO_CKKS_FLIGHTS.min(count as u64));
        // The pools are empty at first, so the refill is a flight's first message.
        l.enter(4);
        l.extend_64_88(count);
        l.enter(5);
        l.extend_64_88(count);
        let t = l.stage(5).0;
        let (down, up) = bridge::extend_bytes(count);
        assert_eq!((t.server_to_client, t.client_to_server), (down, up));
        assert_eq!(
            t.flights,
            if count == 0 {
                0
            } else {
                bridge::EXTEND_FLIGHTS
            }
        );
    }
}
