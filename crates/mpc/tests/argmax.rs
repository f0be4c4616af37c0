//! The secure argmax against plaintext: sizes, ties, signs, extreme differences, and what it refuses.

#![allow(clippy::unwrap_used, clippy::panic)]

use cipherloom_mpc::harness::{join_words, run_pair, share_words};
use cipherloom_mpc::{index_bits, MpcConfig, Shares, TwoParty};
use cipherloom_net::MessageRecord;
use cipherloom_ring::SecretPrg;
use cipherloom_spec::FracBits;

/// The logits' format: 12 fraction bits in `Z_2^32`, differences below 2^8.
const FRAC: FracBits = FracBits(12);
const INT_BITS: u32 = 8;
const RING: u32 = 32;

fn prg(seed: u8) -> SecretPrg {
    cipherloom_ring::SecretSeed::from_bytes([seed; 32]).derive("argmax test", 0)
}

fn quick() -> MpcConfig {
    MpcConfig {
        cot_batch: 8192,
        ..MpcConfig::default()
    }
}

/// Shares of signed numbers as the faithful cut leaves them: each modulo 2^32, zero-extended.
fn shares(values: &[i64], g: &mut SecretPrg) -> [Shares; 2] {
    let words: Vec<u64> = values.iter().map(|&v| v as u64).collect();
    let (a, b) = share_words(&words, g);
    [a, b].map(|v| Shares {
        v: v.iter().map(|w| w & ((1 << RING) - 1)).collect(),
        frac: FRAC,
    })
}

/// The first position of the largest value.
fn reference(values: &[i64]) -> usize {
    let largest = values.iter().max().unwrap();
    values.iter().position(|v| v == largest).unwrap()
}

fn opened(p: &mut TwoParty, x: &Shares) -> Option<u64> {
    let index = p.argmax(x, INT_BITS).unwrap();
    assert_eq!(index.len(), 1);
    let got = p.open_to_client(&index, index_bits(x.len())).unwrap();
    got.map(|v| {
        assert_eq!(v.len(), 1);
        v[0]
    })
}

/// Vectors of `n` values whose differences are below 2^20 units.
fn cases(n: usize, g: &mut SecretPrg) -> Vec<Vec<i64>> {
    let far = (1i64 << 20) - 1;
    let mut random = |bits: u32| (g.next_u64() as i64) >> (64 - bits);
    let mut all = vec![
        vec![0; n],
        vec![-7; n],
        (0..n as i64).collect(),
        (0..n as i64).map(|v| -v).collect(),
    ];
    // One unit and the largest allowed difference, at every place (a few for many words); two equal ones.
    for at in (0..n).step_by(n.div_ceil(17)) {
        for (rest, best) in [(5, 6), (-far, 0), (0, far), (-far / 2 - 1, far / 2)] {
            let mut v = vec![rest; n];
            v[at] = best;
            v[n - 1 - at / 2] = best;
            all.push(v.clone());
            v[n - 1 - at / 2] = rest;
            v[at] = best;
            all.push(v);
        }
        let mut v = vec![far; n];
        v[at] = 0;
        all.push(v);
    }
    for bits in [2, 3, 20] {
        for _ in 0..6 {
            all.push((0..n).map(|_| random(bits)).collect());
        }
    }
    all
}

#[test]
fn the_index_of_the_largest_word_is_exact_and_the_lowest_among_equals() {
    let mut runs = 0;
    for n in [1usize, 2, 3, 5, 17, 100, 1000] {
        let mut g = prg(n as u8);
        let cases = cases(n, &mut g);
        for digit_bits in [4, 1] {
            let inputs: Vec<[Shares; 2]> = cases.iter().map(|c| shares(c, &mut g)).collect();
            let config = MpcConfig {
                digit_bits,
                ..quick()
            };
            let run = |p: &mut TwoParty, side: usize| {
                Ok(inputs
                    .iter()
                    .map(|x| opened(p, &x[side]))
                    .collect::<Vec<_>>())
            };
            let (client, server) = run_pair(config, |p| run(p, 0), |p| run(p, 1)).unwrap();
            assert!(server.iter().all(Option::is_none));
            for (case, got) in cases.iter().zip(client) {
                assert_eq!(got, Some(reference(case) as u64), "{n} words {case:?}");
            }
            runs += cases.len();
        }
    }
    println!("{runs} runs");
}

#[test]
fn shares_of_the_index_add_up_modulo_2_64_for_words_of_any_ring() {
    // Full 64-bit shares at 19 fraction bits, and the widest comparison that fits.
    let values = [-3.5, 2.25, 2.25 - 1.0 / 524_288.0, -1e6, 2.0];
    let frac = FracBits(19);
    let words: Vec<u64> = values.iter().map(|&v| frac.encode(v)).collect();
    let (a, b) = share_words(&words, &mut prg(9));
    let [a, b] = [a, b].map(|v| Shares { v, frac });
    let (p, q) = run_pair(quick(), |p| p.argmax(&a, 44), |p| p.argmax(&b, 44)).unwrap();
    assert_eq!(join_words(&p.v, &q.v), [1]);
    assert_eq!(p.frac, FracBits(0));
}

#[test]
fn no_word_and_too_many_bits_are_refused() {
    let x = Shares::zeros(2, FRAC);
    let run = |p: &mut TwoParty| {
        let none = p.argmax(&Shares::zeros(0, FRAC), 3).err().unwrap();
        let wide = p.argmax(&x, 52).err().unwrap();
        Ok((none.to_string(), wide.to_string()))
    };
    let ((none, wide), _) = run_pair(quick(), run, run).unwrap();
    assert!(none.contains("lengths 0 and 1"), "{none}");
    assert!(
        wide.contains("1 + 52 integer + 12 fraction bits exceed 64"),
        "{wide}"
    );
}

#[test]
fn messages_are_the_same_for_all_words() {
    let schedule = |values: &[i64], seed: u8| -> [Vec<MessageRecord>; 2] {
        let x = shares(values, &mut prg(seed));
        let run = |p: &mut TwoParty, side: usize| {
            p.session().channel().record_schedule();
            opened(p, &x[side]);
            Ok(p.session().channel().schedule().to_vec())
        };
        let (a, b) = run_pair(quick(), |p| run(p, 0), |p| run(p, 1)).unwrap();
        [a, b]
    };
    for n in [2usize, 5, 17] {
        let mut rising: Vec<i64> = (0..n as i64).collect();
        let first = schedule(&rising, 1);
        assert!(first[0].len() > 10);
        rising.reverse();
        assert_eq!(schedule(&rising, 2), first);
        assert_eq!(schedule(&vec![-9; n], 3), first);
    }
}
