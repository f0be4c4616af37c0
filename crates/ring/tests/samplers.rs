//! Samplers: determinism, separation, and the distributions they claim.
#![allow(clippy::unwrap_used, missing_docs)]
mod common;

use aes::cipher::{Block, BlockCipherEncrypt, KeyInit};
use aes::Aes256;
use cipherloom_ring::{
    Basis, CrtLift, Modulus, Ntt, Poly, PublicSeed, SecretPrg, SecretSeed, UniformXof,
};
use common::{crt_centred, primes};
use num_bigint::BigInt;

fn prg(label: &str, counter: u64) -> SecretPrg {
    SecretSeed::from_bytes([7; 32]).derive(label, counter)
}

/// Chi-square statistic of counts against expected counts.
fn chi_square(counts: &[u64], expected: &[f64]) -> f64 {
    counts
        .iter()
        .zip(expected)
        .map(|(&c, &e)| (c as f64 - e).powi(2) / e)
        .sum()
}

/// Seeds are fixed, so these tests cannot flake; the bound is at mean + 6 standard deviations.
fn plausible(chi: f64, classes: usize) -> bool {
    let f = (classes - 1) as f64;
    chi < f + 6.0 * (2.0 * f).sqrt() && chi > 0.0
}

#[test]
fn public_expansion_is_fixed() {
    // Known answer, computed once: a change of the expansion must change its version too.
    let m = Modulus::new(primes(16, 50, 0, 1)[0]).unwrap();
    let mut out = [0; 4];
    UniformXof::new(PublicSeed([0x42; 32])).fill(&m, &mut out);
    // The definition, step by step.
    let mut h =
        blake3::Hasher::new_derive_key("cipherloom 2026-11 ring public uniform expansion v1");
    h.update(&[0x42; 32]);
    h.update(&m.value().to_le_bytes());
    let mut bytes = [0; 64];
    h.finalize_xof().fill(&mut bytes);
    let bound = ((1u128 << 64) / u128::from(m.value()) * u128::from(m.value())) as u64;
    let want: Vec<u64> = bytes
        .chunks(8)
        .map(|c| u64::from_le_bytes(c.try_into().unwrap()))
        .filter(|&w| w < bound)
        .map(|w| w % m.value())
        .take(4)
        .collect();
    assert_eq!(out[..], want);
}

#[test]
fn expansion_is_the_same_for_both_parties_and_for_prefixes() {
    let basis = Basis::new(64, &primes(64, 45, 0, 3)).unwrap();
    let x: Poly<Ntt> = UniformXof::new(PublicSeed([1; 32])).poly(&basis);
    let y: Poly<Ntt> = UniformXof::new(PublicSeed([1; 32])).poly(&basis.prefix(2).unwrap());
    assert_eq!(x.prefix(2).unwrap(), y);
    let z: Poly<Ntt> = UniformXof::new(PublicSeed([2; 32])).poly(&basis);
    assert_ne!(x, z);
    assert_ne!(x.limb(0), x.limb(1));
    // Long expansions agree with short ones (the buffer boundary is invisible).
    let (mut long, mut short) = (vec![0; 5000], vec![0; 600]);
    let m = basis.modulus(0);
    UniformXof::new(PublicSeed([3; 32])).fill(m, &mut long);
    UniformXof::new(PublicSeed([3; 32])).fill(m, &mut short);
    assert_eq!(long[..600], short[..]);
}

#[test]
fn labels_and_counters_separate() {
    let first = |mut p: SecretPrg| p.next_u64();
    let a = first(prg("mask", 0));
    assert_eq!(a, first(prg("mask", 0)));
    let mut seen = vec![a];
    for other in [
        first(prg("mask", 1)),
        first(prg("mas", 0)),
        first(prg("error", 0)),
        first(SecretSeed::from_bytes([8; 32]).derive("mask", 0)),
        first(
            SecretSeed::from_bytes([7; 32])
                .derive_seed("mask", 0)
                .derive("mask", 0),
        ),
        first(prg("mask", 0).fork("mask")),
        first(SecretPrg::from_os().unwrap()),
        first(SecretPrg::from_os().unwrap()),
    ] {
        assert!(!seen.contains(&other));
        seen.push(other);
    }
}

/// The key of a generator is not the seed of the same label: who holds the seed cannot run the generator.
#[test]
fn a_seed_and_a_generator_of_one_label_are_independent() {
    let master = SecretSeed::from_bytes([7; 32]);
    let mut stream = [0u8; 16];
    master.derive("mask", 0).fill_bytes(&mut stream);
    let first_block = |key: &[u8; 32]| {
        let mut block = Block::<Aes256>::from([0u8; 16]);
        Aes256::new(key.into()).encrypt_block(&mut block);
        block
    };
    assert_ne!(
        first_block(master.derive_seed("mask", 0).expose())[..],
        stream
    );
    // The check can fail: the documented derivation of the generator's key gives its stream.
    let mut h = blake3::Hasher::new_derive_key("cipherloom 2026-11 ring secret generator v1");
    h.update(&[7; 32])
        .update(&4u64.to_le_bytes())
        .update(b"mask")
        .update(&0u64.to_le_bytes());
    let mut key = [0; 32];
    h.finalize_xof().fill(&mut key);
    assert_eq!(first_block(&key)[..], stream);
}

#[test]
fn the_stream_does_not_depend_on_request_sizes() {
    let mut whole = vec![0; 5000];
    prg("x", 0).fill_bytes(&mut whole);
    let mut pieces = vec![0; 5000];
    let mut p = prg("x", 0);
    let (mut at, mut step) = (0, 1);
    while at < pieces.len() {
        let end = (at + step).min(pieces.len());
        p.fill_bytes(&mut pieces[at..end]);
        at = end;
        step = (step * 3 + 1) % 2000;
    }
    assert_eq!(whole, pieces);
    // No block of the counter mode repeats.
    let mut blocks: Vec<&[u8]> = whole.chunks_exact(16).collect();
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.len(), 5000 / 16);
}

#[test]
fn ternary_is_uniform() {
    let n = 300_000;
    let values = prg("ternary", 0).ternary(n);
    assert_eq!(values.len(), n);
    let mut counts = [0u64; 3];
    let mut pairs = [0u64; 9];
    for v in values.iter() {
        counts[(v + 1) as usize] += 1;
    }
    for w in values.chunks_exact(2) {
        pairs[(3 * (w[0] + 1) + w[1] + 1) as usize] += 1;
    }
    assert!(plausible(chi_square(&counts, &[n as f64 / 3.0; 3]), 3));
    assert!(plausible(chi_square(&pairs, &[n as f64 / 18.0; 9]), 9));
}

#[test]
fn errors_are_centred_binomial_21() {
    let n = 300_000;
    let values = prg("cbd", 0).cbd21(n);
    let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / n as f64;
    let variance = values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / n as f64;
    assert!(
        mean.abs() < 6.0 * (10.5f64 / n as f64).sqrt(),
        "mean {mean}"
    );
    assert!((variance - 10.5).abs() < 0.2, "variance {variance}");
    assert!(values.iter().all(|v| v.abs() <= 21));
    // P(v) = C(42, 21 + v) / 2^42; the tails beyond 12 are one class.
    let mut binomial = vec![1f64];
    for k in 0..42 {
        let last = binomial[k];
        binomial.push(last * (42 - k) as f64 / (k + 1) as f64);
    }
    let p = |v: i32| binomial[(21 + v) as usize] / 2f64.powi(42);
    let mut expected: Vec<f64> = (-12..=12).map(|v| p(v) * n as f64).collect();
    expected.push(n as f64 - expected.iter().sum::<f64>());
    let mut counts = vec![0u64; 26];
    for &v in values.iter() {
        let class = if v.abs() <= 12 { (v + 12) as usize } else { 25 };
        counts[class] += 1;
    }
    assert!(plausible(chi_square(&counts, &expected), 26));
}

#[test]
fn residues_are_uniform_even_for_awkward_primes() {
    // 97 has every class; for 3 * 2^k-like sizes a mask without rejection would be visibly biased.
    for q in [97u64, 193, 12289] {
        let m = Modulus::new(q).unwrap();
        let n = 400_000;
        for secret in [false, true] {
            let mut out = vec![0; n];
            if secret {
                prg("uniform", q).uniform(&m, &mut out);
            } else {
                UniformXof::new(PublicSeed([9; 32])).fill(&m, &mut out);
            }
            let mut counts = vec![0u64; q as usize];
            for &x in &out {
                counts[x as usize] += 1;
            }
            let expected = vec![n as f64 / q as f64; q as usize];
            assert!(plausible(chi_square(&counts, &expected), q as usize));
        }
    }
    // A large prime: the top octile of [0, q) is as likely as the others.
    let m = Modulus::new(primes(16, 50, 0, 1)[0]).unwrap();
    let mut out = vec![0; 80_000];
    prg("octiles", 0).uniform(&m, &mut out);
    let mut counts = [0u64; 8];
    for &x in &out {
        assert!(x < m.value());
        counts[(u128::from(x) * 8 / u128::from(m.value())) as usize] += 1;
    }
    assert!(plausible(chi_square(&counts, &[10_000.0; 8]), 8));
}

#[test]
fn secret_polynomials_are_one_integer_polynomial_over_all_limbs() {
    let basis = Basis::new(64, &primes(64, 50, 0, 2)).unwrap();
    let mut p = prg("poly", 0);
    let s = p.ternary_poly(&basis).unwrap();
    let e = p.cbd21_poly(&basis).unwrap();
    for (poly, bound) in [(s.expose(), 1), (e.expose(), 21)] {
        for c in crt_centred(poly) {
            assert!(c <= BigInt::from(bound) && c >= BigInt::from(-bound));
        }
    }
    // A mask is uniform modulo the product: its integers spread over all of (-Q/2, Q/2).
    let r = p.uniform_poly(&basis);
    let lift = CrtLift::new(&basis).unwrap();
    let values = lift.lift(r.expose()).unwrap();
    let half = (lift.product() >> 1) as i128;
    let outer = values.iter().filter(|v| v.abs() > half / 2).count();
    assert!(
        (16..=48).contains(&outer),
        "{outer} of 64 in the outer half"
    );
}
