use super::*;
use crate::rlwe::{ProductKey, ProductPublicKey};
use crate::MpcConfig;
use cipherloom_net::{ChannelConfig, FrameKind};
use cipherloom_ring::{PublicSeed, SecretSeed};
use rand::{RngExt, SeedableRng};
use std::time::Instant;

pub(crate) fn rng(seed: u64) -> rand_chacha::ChaCha20Rng {
    rand_chacha::ChaCha20Rng::seed_from_u64(seed)
}

/// Runs both sides in real sessions over joined channels.
pub(crate) fn run<A: Send, B: Send>(
    client: impl FnOnce(&mut Session) -> A + Send,
    server: impl FnOnce(&mut Session) -> B + Send,
) -> (A, B) {
    let (c0, c1) = Channel::memory_pair(ChannelConfig::default()).unwrap();
    let open = |ch, party| Session::open(ch, party, b"test", MpcConfig::default()).unwrap();
    std::thread::scope(|s| {
        let a = s.spawn(move || client(&mut open(c0, Party::Client)));
        let b = s.spawn(move || server(&mut open(c1, Party::Server)));
        (a.join().unwrap(), b.join().unwrap())
    })
}

pub(crate) fn key(params: &RlweParameters) -> ProductKey {
    ProductKey::from_seed(params, &SecretSeed::from_bytes([1; 32])).unwrap()
}

pub(crate) fn public(params: &RlweParameters) -> ProductPublicKey {
    key(params).public_key(params, PublicSeed([2; 32])).unwrap()
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
    let c: Vec<u64> = y0
        .iter()
        .zip(&x1)
        .map(|(a, b)| a ^ b.rotate_left(7))
        .collect();
    let (a, b) = run(
        |s| {
            let mut p = CrtProducts::client(s, params.clone(), key(&params)).unwrap();
            [
                p.product(s, &x0, &y0).unwrap(),
                p.square(s, &x0).unwrap(),
                p.product_known(s, Party::Server, &x0, None).unwrap(),
                p.product_known(s, Party::Client, &x0, Some(&c)).unwrap(),
            ]
        },
        |s| {
            let mut p = CrtProducts::server(s, params.clone(), public(&params)).unwrap();
            p.sums_mut().prepare(5).unwrap();
            [
                p.product(s, &x1, &y1).unwrap(),
                p.square(s, &x1).unwrap(),
                p.product_known(s, Party::Server, &x1, Some(&c)).unwrap(),
                p.product_known(s, Party::Client, &x1, None).unwrap(),
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
fn no_elements_need_no_message() {
    let params = RlweParameters::crt64().unwrap();
    let (a, b) = run(
        |s| {
            let mut p = CrtProducts::client(s, params.clone(), key(&params)).unwrap();
            let before = s.channel().snapshot();
            assert_eq!(p.product(s, &[], &[]).unwrap(), []);
            assert_eq!(s.channel().snapshot(), before);
            p.square(s, &[3]).unwrap()[0]
        },
        |s| {
            let mut p = CrtProducts::server(s, params.clone(), public(&params)).unwrap();
            assert_eq!(p.product(s, &[], &[]).unwrap(), []);
            p.square(s, &[4]).unwrap()[0]
        },
    );
    assert_eq!(a.wrapping_add(b), 49);
}

#[test]
fn traffic_equals_the_formula_and_takes_one_flight_each_way_before_the_ot() {
    let params = RlweParameters::crt64().unwrap();
    let n = params.slots() + 1;
    let x: Vec<u64> = vec![3; n];
    let (a, ()) = run(
        |s| {
            let mut p = CrtProducts::client(s, params.clone(), key(&params)).unwrap();
            let before = s.channel().snapshot();
            p.sums_mut().sums(s.channel(), &[&x, &x]).unwrap();
            let sums = s.channel().snapshot();
            p.square(s, &x).unwrap();
            let square = s.channel().snapshot();
            [before, sums, square].map(|t| {
                let t = t.total();
                (t.sent.bytes, t.received.bytes, t.flights())
            })
        },
        |s| {
            let mut p = CrtProducts::server(s, params.clone(), public(&params)).unwrap();
            p.sums_mut().sums(s.channel(), &[&x, &x]).unwrap();
            p.square(s, &x).unwrap();
        },
    );
    let (up, down) = params.sum_bytes(n, 2);
    assert_eq!(a[1].0 - a[0].0, cipherloom_net::message_bytes(up));
    assert_eq!(a[1].1 - a[0].1, cipherloom_net::message_bytes(down));
    assert_eq!(a[1].2 - a[0].2, 2);
    // A square: upload, answer with the OT choices behind it, OT messages. The first COTs are made on the way: the
    // server's extension message belongs to its flight as well.
    assert_eq!(a[2].2 - a[1].2, 3);
}

#[test]
fn wrong_sides_and_lengths_are_refused_before_anything_is_sent() {
    let params = RlweParameters::crt64().unwrap();
    run(
        |s| {
            let mut p = CrtProducts::client(s, params.clone(), key(&params)).unwrap();
            let before = s.channel().snapshot();
            assert!(matches!(
                p.product(s, &[1, 2], &[1]),
                Err(MpcError::Length {
                    left: 2,
                    right: 1,
                    ..
                })
            ));
            assert!(matches!(
                p.product_known(s, Party::Server, &[1], Some(&[1])),
                Err(MpcError::Owner { .. })
            ));
            assert!(matches!(
                p.product_known(s, Party::Client, &[1], Some(&[1, 2])),
                Err(MpcError::Length { .. })
            ));
            assert_eq!(before, s.channel().snapshot());
        },
        |s| {
            CrtProducts::server(s, params.clone(), public(&params)).unwrap();
        },
    );
    let one = RlweParameters::zt47().unwrap();
    let sums = ClientSums::new(one.clone(), key(&one), SecretSeed::from_bytes([2; 32]));
    assert!(matches!(
        CrtProducts::new(sums),
        Err(MpcError::Format { .. })
    ));
}

#[test]
fn malformed_uploads_are_typed_errors() {
    let params = RlweParameters::crt64().unwrap();
    let bytes = params.upload_ciphertext_bytes() * 3;
    run(
        |s| {
            CrtProducts::client(s, params.clone(), key(&params)).unwrap();
            // Residues of all ones are above every prime.
            s.channel()
                .send(FrameKind::Ciphertext, &vec![0xff; bytes])
                .unwrap();
        },
        |s| {
            let mut p = CrtProducts::server(s, params.clone(), public(&params)).unwrap();
            assert!(matches!(p.square(s, &[1]), Err(MpcError::Malformed { .. })));
        },
    );
}

/// A key lives over many sessions; the randomness of what is encrypted under it must not.
#[test]
fn sessions_with_one_key_upload_the_same_words_under_other_randomness() {
    let params = RlweParameters::crt64().unwrap();
    let one = params.upload_ciphertext_bytes();
    let words = [5u64; 9];
    // Three plaintext primes, one vector of words: three ciphertexts.
    let uploads = |make: &(dyn Fn(&mut Session) -> CrtProducts<ClientSums> + Sync)| {
        let ((), bytes) = run(
            |s| {
                // The peer reads the upload and leaves.
                assert!(matches!(make(s).square(s, &words), Err(MpcError::Net(_))));
            },
            |s| s.channel().recv(FrameKind::Ciphertext, 3 * one).unwrap(),
        );
        bytes
    };
    let fresh = |s: &mut Session| CrtProducts::client(s, params.clone(), key(&params)).unwrap();
    let (first, second) = (uploads(&fresh), uploads(&fresh));
    let both: Vec<&[u8]> = first.chunks(one).chain(second.chunks(one)).collect();
    for (i, a) in both.iter().enumerate() {
        for b in &both[..i] {
            // Neither the seed of the uniform part nor the rest; and no part of it by more than chance.
            assert_ne!(a[..32], b[..32]);
            let equal = a.iter().zip(*b).filter(|(x, y)| x == y).count();
            assert!(equal < one / 100, "{equal} of {one} bytes");
        }
    }
    // The test sees a repetition: the same session randomness gives the same upload.
    let repeated = |_: &mut Session| {
        let seed = SecretSeed::from_bytes([6; 32]);
        CrtProducts::new(ClientSums::new(params.clone(), key(&params), seed)).unwrap()
    };
    assert!(uploads(&repeated) == uploads(&repeated));
}

#[test]
fn a_two_party_evaluator_runs_on_these_products() {
    use crate::harness::{join_words, run_pair_with, share_words};
    use crate::{Domain, Shares};
    use cipherloom_spec::FracBits;
    let params = RlweParameters::crt64().unwrap();
    let products = |s: &mut Session| -> Result<Box<dyn ProductSource>, MpcError> {
        Ok(if s.is_client() {
            Box::new(CrtProducts::client(s, params.clone(), key(&params))?)
        } else {
            Box::new(CrtProducts::server(s, params.clone(), public(&params))?)
        })
    };
    let frac = FracBits(19);
    let values = [-3.5, 0.25, 100.0, -0.125];
    let words: Vec<u64> = values.iter().map(|v| frac.encode(*v)).collect();
    let mut prg = SecretSeed::from_bytes([8; 32]).derive("t", 0);
    let (a, b) = share_words(&words, &mut prg);
    let once = |p: &mut crate::TwoParty, v: &[u64]| {
        let x = Shares {
            v: v.to_vec(),
            frac,
        };
        let y = p.product(&x, &x)?;
        p.truncate(&y, 19)
    };
    let (a, b) = run_pair_with(
        MpcConfig::default(),
        &products,
        |p| once(p, &a),
        |p| once(p, &b),
    )
    .unwrap();
    for (w, v) in join_words(&a.v, &b.v).iter().zip(values) {
        assert!((frac.decode(*w) - v * v).abs() <= 1.0 / frac.unit());
    }
}

/// Run with `--nocapture` for the figures.
#[test]
fn throughput_of_full_products() {
    let params = RlweParameters::crt64().unwrap();
    let n = 8 * params.slots();
    let [x0, x1, y0, y1] = operands(n, 9);
    let (seconds, ()) = run(
        |s| {
            let mut p = CrtProducts::client(s, params.clone(), key(&params)).unwrap();
            let t = Instant::now();
            p.sums_mut().sums(s.channel(), &[&x0, &y0]).unwrap();
            let cross = t.elapsed().as_secs_f64();
            let t = Instant::now();
            p.product(s, &x0, &y0).unwrap();
            [cross, t.elapsed().as_secs_f64()]
        },
        |s| {
            let mut p = CrtProducts::server(s, params.clone(), public(&params)).unwrap();
            p.sums_mut().sums(s.channel(), &[&y1, &x1]).unwrap();
            p.product(s, &x1, &y1).unwrap();
        },
    );
    let [cross, whole] = seconds.map(|s| 1e6 * s / n as f64);
    println!("{n} products: {whole:.2} us each, shares modulo T alone {cross:.2}, both parties on one machine");
    // A sanity bound, far above the aim of 3 us.
    assert!(whole < 200.0);
}
