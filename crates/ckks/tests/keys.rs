//! What keys must and must not share.

// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used)]

use cipherloom_ckks::{Ciphertext, CkksParameters, KeyGenerator, KeyPurpose, PublicKey, SecretKey};
use cipherloom_ring::{Coeff, Poly, PublicSeed, SecretSeed};
use cipherloom_testkit::*;
use std::sync::Arc;

fn params() -> CkksParameters {
    CkksParameters::insecure_for_tests(INSECURE_TOY_10().insecure_build().unwrap()).unwrap()
}

/// `b + a s`: the error of a public key.
fn error(p: &CkksParameters, pk: &PublicKey, sk: &Arc<SecretKey>) -> Poly<Coeff> {
    let parts = vec![pk.b().clone(), pk.a().clone()];
    let ct = Ciphertext::from_parts(p, parts, p.scale(0)).unwrap();
    let d = cipherloom_ckks::Decryptor::new(p, sk.clone()).unwrap();
    d.decrypt_coeffs(&ct).unwrap()
}

#[test]
fn one_seed_gives_one_set_of_keys_in_any_order() {
    let p = params();
    let seed = |b| SecretSeed::from_bytes([b; 32]);
    let (g, h) = (
        KeyGenerator::new(&p, seed(1)),
        KeyGenerator::new(&p, seed(1)),
    );
    let (s, t) = (g.secret_key().unwrap(), h.secret_key().unwrap());
    let a = g.rotation_key(&s, 1, 3).unwrap();
    let b = g.relinearization_key(&s, 2).unwrap();
    assert_eq!(h.relinearization_key(&t, 2).unwrap(), b);
    assert_eq!(h.rotation_key(&t, 1, 3).unwrap(), a);
    let other = KeyGenerator::new(&p, seed(2));
    let u = other.secret_key().unwrap();
    assert_ne!(other.rotation_key(&u, 1, 3).unwrap(), a);
    assert_ne!(
        KeyGenerator::from_os(&p)
            .unwrap()
            .relinearization_key(&s, 2)
            .unwrap(),
        b
    );
}

/// Two public keys with one error would give the secret away: b1 - b2 = (a2 - a1) s.
#[test]
fn public_keys_of_one_secret_have_independent_errors() {
    let p = params();
    let g = KeyGenerator::new(&p, SecretSeed::from_bytes([1; 32]));
    let sk = Arc::new(g.secret_key().unwrap());
    let keys: Vec<_> = (0..3)
        .map(|i| g.public_key(&sk, PublicSeed([i; 32])).unwrap())
        .collect();
    let errors: Vec<_> = keys.iter().map(|k| error(&p, k, &sk)).collect();
    for i in 0..3 {
        assert!(errors[i]
            .limb(0)
            .iter()
            .all(|&x| p.basis(0).unwrap().modulus(0).center(x).abs() <= 21));
        for j in 0..i {
            assert_ne!(errors[i], errors[j]);
            assert_ne!(keys[i].a(), keys[j].a());
        }
    }
    assert_eq!(g.public_key(&sk, PublicSeed([1; 32])).unwrap(), keys[1]);
}

/// Keys for one purpose up to two levels are different keys: other seeds, other errors.
#[test]
fn every_digit_of_every_key_has_its_own_seed() {
    let p = params();
    let g = KeyGenerator::new(&p, SecretSeed::from_bytes([1; 32]));
    let sk = g.secret_key().unwrap();
    let mut seeds = vec![];
    for purpose in [
        KeyPurpose::Relinearization,
        KeyPurpose::Galois(5),
        KeyPurpose::Galois(25),
    ] {
        for level in [2, p.top_level()] {
            let key = g.evaluation_key(&sk, purpose, level).unwrap();
            assert_eq!(key.digits().len(), p.chain().digits(level).len());
            seeds.extend(key.digits().iter().map(|d| d.seed().0));
        }
    }
    let count = seeds.len();
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!((seeds.len(), count), (count, 3 * (1 + 3)));
}

#[test]
fn galois_elements_out_of_range_are_refused() {
    let p = params();
    let g = KeyGenerator::new(&p, SecretSeed::from_bytes([1; 32]));
    let sk = g.secret_key().unwrap();
    for bad in [0, 1, 4, 2 * p.n() as u64 + 1] {
        assert!(
            g.evaluation_key(&sk, KeyPurpose::Galois(bad), 2).is_err(),
            "{bad}"
        );
    }
    assert!(g.rotation_key(&sk, 0, 2).is_err());
    assert!(g.rotation_key(&sk, 1, p.top_level() + 1).is_err());
}
