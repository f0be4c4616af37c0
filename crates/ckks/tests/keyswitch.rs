//! Key switching against big integers.

// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used)]

use cipherloom_ckks::{Ciphertext, KeyPurpose};
use cipherloom_ring::{Basis, Coeff, Ntt, Poly};
use cipherloom_spec::Scale;
use cipherloom_testkit::fixture::test_values;
use cipherloom_testkit::*;
use num_bigint::BigInt;

/// All coefficients as integers in (-Q/2, Q/2], by the textbook CRT formula.
fn lift(x: &Poly<Coeff>) -> Vec<BigInt> {
    let basis: &Basis = x.basis();
    let q: BigInt = basis.primes().into_iter().map(BigInt::from).product();
    let idempotents: Vec<BigInt> = basis
        .moduli()
        .map(|m| {
            let hat = &q / m.value();
            let residue = u64::try_from(&hat % m.value()).unwrap();
            hat * m.inv(residue).unwrap()
        })
        .collect();
    let half = &q / 2;
    (0..x.n())
        .map(|k| {
            let sum: BigInt = idempotents
                .iter()
                .enumerate()
                .map(|(i, e)| e * x.limb(i)[k])
                .sum();
            let r = sum % &q;
            if r > half {
                r - &q
            } else {
                r
            }
        })
        .collect()
}

/// Largest coefficient of `x - y` modulo the basis.
fn distance(x: &Poly<Ntt>, y: &Poly<Ntt>) -> BigInt {
    let d = lift(&x.sub(y).unwrap().into_coeff());
    d.into_iter()
        .map(|v| if v < BigInt::ZERO { -v } else { v })
        .max()
        .unwrap()
}

/// The key's digits decrypt to P * (1 on the digit's primes, 0 elsewhere) * s_from plus a CBD(21) error.
#[test]
fn key_digits_hide_the_gadget_multiples_with_small_errors() {
    let f = CkksFixture::insecure(INSECURE_TOY_10(), &[]);
    let p = &f.params;
    let chain = p.chain();
    for (purpose, max_level) in [
        (KeyPurpose::Relinearization, p.top_level()),
        (KeyPurpose::Galois(5), p.top_level()),
        (KeyPurpose::Galois(p.conjugation_element()), 3),
    ] {
        let key = f
            .keygen
            .evaluation_key(&f.secret_key, purpose, max_level)
            .unwrap();
        let basis = p.key_basis(max_level).unwrap();
        let s = secret(&f, &basis);
        let (from, to) = match purpose {
            KeyPurpose::Relinearization => (s.mul(&s).unwrap(), s.clone()),
            KeyPurpose::Galois(g) => {
                // to(X^g) = s, found by searching the inverse element.
                let two_n = 2 * p.n() as u64;
                let inv = (1..two_n).step_by(2).find(|i| i * g % two_n == 1).unwrap();
                let a = cipherloom_ring::Automorphism::new(p.n(), inv).unwrap();
                (s.clone(), s.automorphism(&a).unwrap())
            }
        };
        let special: BigInt = chain.p().iter().map(|&v| BigInt::from(v)).product();
        let mut seeds = vec![];
        for (digit, range) in key.digits().iter().zip(chain.digits(max_level)) {
            let mut phase = digit.a().to_poly().mul(&to).unwrap();
            phase.add_assign(&digit.b().to_poly()).unwrap();
            // Modulo the ciphertext primes a key is stored divided by P.
            let times: Vec<u64> = basis
                .moduli()
                .enumerate()
                .map(|(i, m)| match i < chain.p().len() {
                    true => 1,
                    false => u64::try_from(&special % m.value()).unwrap(),
                })
                .collect();
            phase.mul_limb_scalars_assign(&times).unwrap();
            let gadget: Vec<u64> = basis
                .moduli()
                .enumerate()
                .map(|(i, m)| {
                    let on = i >= chain.p().len() && range.contains(&(i - chain.p().len()));
                    if on {
                        u64::try_from(&special % m.value()).unwrap()
                    } else {
                        0
                    }
                })
                .collect();
            let mut want = from.clone();
            want.mul_limb_scalars_assign(&gadget).unwrap();
            let e = distance(&phase, &want);
            assert!(e > BigInt::ZERO && e <= BigInt::from(21), "error {e}");
            seeds.push(*digit.seed());
        }
        let count = seeds.len();
        seeds.dedup();
        assert_eq!((seeds.len(), count), (count, chain.digits(max_level).len()));
    }
}

/// The ternary secret over any basis, read off a known relation: decrypting (0, 1) gives s.
fn secret(f: &CkksFixture, basis: &Basis) -> Poly<Ntt> {
    let q = f.params.basis(f.params.top_level()).unwrap();
    let zero = Poly::<Ntt>::zero(&q);
    let one = Poly::<Coeff>::monomial(&q, 0, 1).into_ntt();
    let ct = Ciphertext::from_parts(&f.params, vec![zero, one], f.params.scale(0)).unwrap();
    let s = f.decryptor.decrypt_coeffs(&ct).unwrap();
    let small: Vec<i8> = s
        .limb(0)
        .iter()
        .map(|&x| q.modulus(0).center(x) as i8)
        .collect();
    assert!(small.iter().all(|v| (-1..=1).contains(v)));
    let counts: Vec<usize> = (-1..=1)
        .map(|t| small.iter().filter(|&&v| v == t).count())
        .collect();
    assert!(
        counts.iter().all(|&c| c > small.len() / 4),
        "uniform ternary, got {counts:?}"
    );
    Poly::from_i8(basis, &small).unwrap().into_ntt()
}

/// A rotated or relinearised ciphertext decrypts to the exact image of the raw decryption, as big
/// integers, up to noise far below the scale, at every level.
#[test]
fn switched_ciphertexts_decrypt_to_the_exact_image_up_to_small_noise() {
    let f = CkksFixture::insecure(INSECURE_TOY_10(), &[1, 7]);
    let (ev, p) = (&f.evaluator, &f.params);
    let top = f.encrypt(&test_values(p.slots(), 5), p.top_level());
    for level in 0..=p.top_level() {
        let ct = ev.drop_level(&top, level).unwrap();
        let m = f.decryptor.decrypt_ntt(&ct).unwrap();
        for g in [5, p.galois_element(7), p.conjugation_element()] {
            let a = cipherloom_ring::Automorphism::new(p.n(), g).unwrap();
            let out = ev.apply_galois(&ct, g).unwrap();
            let e = distance(
                &f.decryptor.decrypt_ntt(&out).unwrap(),
                &m.automorphism(&a).unwrap(),
            );
            // The inner product's noise is divided by P; rounding (r0 + r1 s) has |r1 s| below 6 sigma = 6 sqrt(N/18).
            assert!(
                e > BigInt::ZERO && e < BigInt::from(150),
                "level {level}: {e}"
            );
        }
        // The identities hold for any polynomials; a scale of 2^20 lets the evaluator form the product at level 0.
        let ct = relabelled(&f, &ct, 20);
        let square = ev.mul(&ct, &ct).unwrap();
        let want = f.decryptor.decrypt_ntt(&square).unwrap();
        assert_eq!(
            want,
            m.mul(&m).unwrap(),
            "degree 2 decrypts to the exact product"
        );
        let relin = ev.relinearize(&square).unwrap();
        let e = distance(&f.decryptor.decrypt_ntt(&relin).unwrap(), &want);
        assert!(e < BigInt::from(150), "level {level}: {e}");
    }
}

/// The same polynomials, said to be at scale 2^`log_scale`.
fn relabelled(f: &CkksFixture, ct: &Ciphertext, log_scale: i32) -> Ciphertext {
    Ciphertext::from_parts(&f.params, ct.parts().to_vec(), Scale::pow2(log_scale)).unwrap()
}

fn deviation(values: &[BigInt]) -> f64 {
    let sum: f64 = values
        .iter()
        .map(|v| (i64::try_from(v).unwrap() as f64).powi(2))
        .sum();
    (sum / values.len() as f64).sqrt()
}

/// Fresh noise has the variance of its formula.
#[test]
fn fresh_noise_has_the_predicted_size() {
    let f = CkksFixture::insecure(INSECURE_TOY_11(), &[]);
    let p = &f.params;
    let zero = f.encoder.encode(&[], 3, p.scale(3)).unwrap();
    let of = |ct: &Ciphertext| deviation(&lift(&f.decryptor.decrypt_coeffs(ct).unwrap()));
    // Secret key: e alone, variance 10.5.
    let fresh = f
        .secret_encryptor
        .encrypt(&zero)
        .unwrap()
        .expand(p)
        .unwrap();
    let d = of(&fresh);
    assert!((d - 10.5f64.sqrt()).abs() < 0.3, "{d}");
    // Public key: v e + e0 + e1 s, variance 10.5 (4N/3 + 1).
    let want = (10.5 * (4.0 * p.n() as f64 / 3.0 + 1.0)).sqrt();
    let d = of(&f.encryptor.encrypt(&zero).unwrap());
    assert!((d / want - 1.0).abs() < 0.15, "{d} against {want}");
}

/// Rescale and key switching add noise of the stated size, also where a digit is as large as P.
#[test]
fn rescale_and_key_switch_noise_have_the_predicted_size() {
    // Digit 0 is 50 + 50 bits, P as well.
    let mut tight = INSECURE_TOY_11();
    tight.q_bits.truncate(4);
    tight.p_bits.truncate(2);
    tight.dnum = 2;
    for literal in [INSECURE_TOY_11(), tight] {
        let f = CkksFixture::insecure(literal, &[1]);
        let (p, ev) = (&f.params, &f.evaluator);
        let n = p.n() as f64;
        let chain = p.chain();
        let rounding = ((1.0 + 2.0 * n / 3.0) / 12.0).sqrt();
        let level = p.top_level();
        let ct = f.encrypt(&test_values(p.slots(), 5), level);
        let m = f.decryptor.decrypt_ntt(&ct).unwrap();

        let a = cipherloom_ring::Automorphism::new(p.n(), 5).unwrap();
        let mut e = f
            .decryptor
            .decrypt_ntt(&ev.rotate(&ct, 1).unwrap())
            .unwrap();
        e.sub_assign(&m.automorphism(&a).unwrap()).unwrap();
        let key: f64 = chain
            .digits(level)
            .into_iter()
            .map(|d| {
                let log_d: f64 = chain.q()[d].iter().map(|&q| (q as f64).log2()).sum();
                (2.0 * (log_d - chain.log_p())).exp2() * 10.5 * n / 12.0
            })
            .sum();
        let want = (rounding * rounding + key).sqrt();
        let got = deviation(&lift(&e.into_coeff()));
        assert!(
            (got / want - 1.0).abs() < 0.2,
            "key switch: {got} against {want}"
        );

        // q (rescaled) - original, over q: the part that rescaling rounded away.
        let q = chain.q()[level];
        let small = f
            .decryptor
            .decrypt_coeffs(&ev.rescale(&relabelled(&f, &ct, 80)).unwrap())
            .unwrap();
        let e: Vec<BigInt> = lift(&small)
            .into_iter()
            .zip(lift(&m.clone().into_coeff()))
            .map(|(r, x)| r * q - x)
            .collect();
        let sum: f64 = e
            .iter()
            .map(|v| (i128::try_from(v).unwrap() as f64 / q as f64).powi(2))
            .sum();
        let got = (sum / n).sqrt();
        assert!(
            (got / rounding - 1.0).abs() < 0.2,
            "rescale: {got} against {rounding}"
        );
    }
}

/// Rescaling gives the bits of the ring's own division.
#[test]
fn rescale_equals_the_division_of_the_ring() {
    let f = CkksFixture::insecure(INSECURE_TOY_10(), &[]);
    let ct = f.encrypt(&test_values(f.params.slots(), 5), f.params.top_level());
    let ct = relabelled(&f, &ct, 80);
    let out = f.evaluator.rescale(&ct).unwrap();
    for (got, part) in out.parts().iter().zip(ct.parts()) {
        let mut want = part.clone();
        want.rescale().unwrap();
        assert_eq!(*got, want);
    }
}
