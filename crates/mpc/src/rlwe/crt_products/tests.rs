use super::*;
use crate::rlwe::ProductKey;
use cipherloom_net::{ChannelConfig, FrameKind};
use cipherloom_ring::SecretSeed;
use rand::{RngExt, SeedableRng};
use std::time::Instant;

/// Both messages in the clear: no security, for tests of the products alone.
pub(crate) struct InsecureCot(pub(crate) rand_chacha::ChaCha20Rng);

impl WordCot for InsecureCot {
    fn cot_send(&mut self, channel: &mut Channel, corr: &[u64]) -> Result<Vec<u64>, MpcError> {
        let a: Vec<u64> = corr.iter().map(|_| self.0.random()).collect();
        let both: Vec<u8> = a
            .iter()
            .zip(corr)
            .flat_map(|(a, c)| [0u64.wrapping_sub(*a), c.wrapping_sub(*a)])
            .flat_map(u64::to_le_bytes)
            .collect();
        channel.send(FrameKind::Ot, &both)?;
        Ok(a)
    }
    fn cot_recv(&mut self, channel: &mut Channel, choice: &[u8]) -> Result<Vec<u64>, MpcError> {
        let both = channel.recv(FrameKind::Ot, 16 * choice.len())?;
        Ok(both
            .chunks_exact(16)
            .zip(choice)
            .map(|(m, &c)| {
                let at = 8 * c as usize;
                u64::from_le_bytes(m[at..at + 8].try_into().unwrap())
            })
            .collect())
    }
}

pub(crate) fn rng(seed: u64) -> rand_chacha::ChaCha20Rng {
    rand_chacha::ChaCha20Rng::seed_from_u64(seed)
}

/// Runs both sides on joined channels after set-up and returns their results and bytes (client to server, back).
pub(crate) fn run<A: Send, B: Send>(
    params: &RlweParameters,
    client: impl FnOnce(&mut Channel, ClientSums) -> A + Send,
    server: impl FnOnce(&mut Channel, ServerSums) -> B + Send,
) -> (A, B) {
    let (mut c0, mut c1) = Channel::memory_pair(ChannelConfig::default()).unwrap();
    std::thread::scope(|s| {
        let a = s.spawn(|| {
            let key =
                ProductKey::from_seed(params, &SecretSeed::from_bytes([1; 32])).unwrap();
            let mut sums = ClientSums::new(params.clone(), key, SecretSeed::from_bytes([2; 32]));
            sums.setup(&mut c0).unwrap();
            client(&mut c0, sums)
        });
        let b = s.spawn(|| {
            let sums =
                ServerSums::setup(params.clone(), &mut c1, SecretSeed::from_bytes([3; 32]))
                    .unwrap();
            server(&mut c1, sums)
        });
        (a.join().unwrap(), b.join().unwrap())
    })
}

fn operands(n: usize, seed: u64) -> [Vec<u64>; 4] {
    let mut r = rng(seed);
    let mut v: [Vec<u64>; 4] = std::array::from_fn(|_| (0..n).map(|_| r.random()).collect());
    // Every combination of edge shares first.
    let edge = [0, 1, 1 << 63, u64::MAX];
    for i in 0..256.min(n) {
        for (k, v) in v.iter_mut().enumerate() {
            v[i] = edge[i >> (2 * k) & 3];
        }
    }
    v
}

#[test]
fn products_squares_and_known_products_are_exact_modulo_two_to_the_64() {
    let params = RlweParameters::crt64().unwrap();
    // Two full slot vectors and a bit.
    let n = 2 * params.slots() + 77;
    let [x0, x1, y0, y1] = operands(n, 5);
    let c: Vec<u64> = y0.iter().zip(&x1).map(|(a, b)| a ^ b.rotate_left(7)).collect();
    let (a, b) = run(
        &params,
        |ch, sums| {
            let (mut p, mut cot) = (CrtProducts::new(sums).unwrap(), InsecureCot(rng(6)));
            [
                p.products(ch, &mut cot, &x0, &y0).unwrap(),
                p.squares(ch, &mut cot, &x0).unwrap(),
                p.known_products(ch, &mut cot, Party::Server, &x0, None).unwrap(),
                p.known_products(ch, &mut cot, Party::Client, &x0, Some(&c)).unwrap(),
            ]
        },
        |ch, sums| {
            let (mut p, mut cot) = (CrtProducts::new(sums).unwrap(), InsecureCot(rng(7)));
            p.sums_mut().prepare(5).unwrap();
            [
                p.products(ch, &mut cot, &x1, &y1).unwrap(),
                p.squares(ch, &mut cot, &x1).unwrap(),
                p.known_products(ch, &mut cot, Party::Server, &x1, Some(&c)).unwrap(),
                p.known_products(ch, &mut cot, Party::Client, &x1, None).unwrap(),
            ]
        },
    );
    for i in 0..n {
        let (x, y) = (x0[i].wrapping_add(x1[i]), y0[i].wrapping_add(y1[i]));
        let got: Vec<u64> = (0..4).map(|k| a[k][i].wrapping_add(b[k][i])).collect();
        let xc = x.wrapping_mul(c[i]);
        assert_eq!(got, [x.wrapping_mul(y), x.wrapping_mul(x), xc, xc], "{i}");
    }
}

#[test]
fn traffic_equals_the_formula_and_takes_one_flight_each_way_before_the_ot() {
    let params = RlweParameters::crt64().unwrap();
    let n = params.slots() + 1;
    let x: Vec<u64> = vec![3; n];
    let (a, ()) = run(
        &params,
        |ch, mut sums| {
            // The first upload continues the flight of the set-up.
            sums.sums(ch, &[&x, &x]).unwrap();
            let before = ch.snapshot();
            sums.sums(ch, &[&x, &x]).unwrap();
            (before, ch.snapshot())
        },
        |ch, mut sums| {
            sums.sums(ch, &[&x, &x]).unwrap();
            sums.sums(ch, &[&x, &x]).unwrap();
        },
    );
    let (up, down) = params.sum_bytes(n, 2);
    let total = |s: &cipherloom_net::TrafficSnapshot| {
        let t = s.total();
        (t.sent.bytes, t.received.bytes, t.flights())
    };
    let (s0, r0, f0) = total(&a.0);
    let (s1, r1, f1) = total(&a.1);
    assert_eq!(s1 - s0, cipherloom_net::message_bytes(up));
    assert_eq!(r1 - r0, cipherloom_net::message_bytes(down));
    assert_eq!(f1 - f0, 2);
}

#[test]
fn wrong_sides_and_lengths_are_refused_before_anything_is_sent() {
    let params = RlweParameters::crt64().unwrap();
    run(
        &params,
        |ch, sums| {
            let (mut p, mut cot) = (CrtProducts::new(sums).unwrap(), InsecureCot(rng(6)));
            let before = ch.snapshot();
            assert!(matches!(
                p.products(ch, &mut cot, &[1, 2], &[1]),
                Err(MpcError::Length { left: 2, right: 1, .. })
            ));
            assert!(matches!(
                p.known_products(ch, &mut cot, Party::Server, &[1], Some(&[1])),
                Err(MpcError::Owner { .. })
            ));
            assert!(matches!(
                p.known_products(ch, &mut cot, Party::Client, &[1], Some(&[1, 2])),
                Err(MpcError::Length { .. })
            ));
            assert_eq!(before, ch.snapshot());
        },
        |_, _| (),
    );
    let one = RlweParameters::zt47().unwrap();
    run(
        &one,
        |_, sums| assert!(matches!(CrtProducts::new(sums), Err(MpcError::Format { .. }))),
        |_, _| (),
    );
}

/// Run with `--nocapture` for the figures.
#[test]
fn throughput_of_full_products() {
    let params = RlweParameters::crt64().unwrap();
    let n = 8 * params.slots();
    let [x0, x1, y0, y1] = operands(n, 9);
    let start = Instant::now();
    run(
        &params,
        |ch, mut sums| {
            let t = Instant::now();
            sums.sums(ch, &[&x0, &y0]).unwrap();
            let s = t.elapsed().as_secs_f64();
            println!("{n} cross terms: {:.2} us each, both parties on one machine", 1e6 * s / n as f64);
        },
        |ch, mut sums| {
            sums.sums(ch, &[&y1, &x1]).unwrap();
        },
    );
    println!("with set-up {:.0} ms", 1e3 * start.elapsed().as_secs_f64());
    // A sanity bound, far above the aim of 3 us.
    assert!(start.elapsed().as_secs_f64() < 60.0);
}
