//! Key switching at every level, on every backend: the switched ciphertext decrypts to the exact image of what the given one
//! decrypts to, up to an error that is small as an integer.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cipherloom_ckks::{Ciphertext, CkksParameters, Decryptor};
use cipherloom_ring::{Coeff, Poly, PublicSeed, SimdChoice, UniformXof};
use cipherloom_spec::{CkksLiteral, Scale};
use cipherloom_testkit::fixture::{max_error, test_values};
use cipherloom_testkit::CkksFixture;

/// Degree 2^10; digits of 1, 2, 3 and 7 primes, whole and short ones at the top; one prime and several for P.
fn literals() -> [CkksLiteral; 4] {
    let literal = |q: &[u32], special, dnum| CkksLiteral {
        log_n: 10,
        q_bits: q.to_vec(),
        p_bits: vec![50; special],
        log_scale: 40,
        dnum,
    };
    [
        literal(&[50, 40, 40, 40], 1, 4),
        literal(&[50, 50, 40, 40, 40, 40, 40], 2, 4),
        literal(&[50, 50, 40, 40, 40, 40, 40], 3, 3),
        literal(&[50, 50, 40, 40, 40, 40, 40], 6, 1),
    ]
}

fn fixtures() -> Vec<CkksFixture> {
    let choices = [
        SimdChoice::Scalar,
        SimdChoice::Avx2,
        SimdChoice::Avx512Ifma,
        SimdChoice::Auto,
    ];
    let mut all = Vec::new();
    for literal in literals() {
        for simd in choices.into_iter().filter(|c| c.backend().is_ok()) {
            let chain = literal.clone().insecure_build().unwrap();
            let params = CkksParameters::insecure_for_tests_with(chain, simd).unwrap();
            all.push(CkksFixture::with_params(params, &[1, 3, -7]));
        }
    }
    assert!(all.len() >= 8, "scalar and the best one at least");
    all
}

/// A "ciphertext" of uniform polynomials: key switching is linear, whatever it is given.
fn uniform(f: &CkksFixture, level: usize, parts: usize) -> Ciphertext {
    let xof = UniformXof::new(PublicSeed([level as u8 + 40; 32]));
    let basis = f.params.basis(level).unwrap();
    let parts = (0..parts).map(|_| xof.poly(&basis)).collect();
    Ciphertext::from_parts(&f.params, parts, Scale::pow2(40)).unwrap()
}

fn phase(d: &Decryptor, ct: &Ciphertext) -> Poly<Coeff> {
    d.decrypt_coeffs(ct).unwrap()
}

/// The largest coefficient of `got - want`. The residues modulo all primes must be those of one integer below half of the smallest
/// prime, which that integer is then by the Chinese remainder theorem. `image(k)` says where coefficient k of `want` goes,
/// and whether it changes its sign.
fn distance(got: &Poly<Coeff>, want: &Poly<Coeff>, image: impl Fn(usize) -> (usize, bool)) -> i64 {
    assert_eq!(got.limbs(), want.limbs());
    let mut largest = 0;
    for k in 0..want.n() {
        let (to, negative) = image(k);
        let mut first = None;
        for (i, m) in want.basis().moduli().enumerate() {
            let q = i128::from(m.value());
            let w = i128::from(want.limb(i)[k]);
            let w = if negative { -w } else { w };
            let d = (i128::from(got.limb(i)[to]) - w).rem_euclid(q);
            let d = if d > q / 2 { d - q } else { d };
            assert_eq!(*first.get_or_insert(d), d, "coefficient {to}, limb {i}");
            largest = largest.max(d.abs());
        }
    }
    i64::try_from(largest).unwrap()
}

/// Where X^k goes under X -> X^g, and whether its sign changes.
fn automorphism(n: usize, g: u64) -> impl Fn(usize) -> (usize, bool) {
    move |k| {
        let e = (k as u64 * g % (2 * n as u64)) as usize;
        (e % n, e >= n)
    }
}

/// Digits of three primes and a P of as many: the key's error, 21 at most, times N coefficients below half of a digit's
/// modulus, for each digit, over P, and the rounding with the secret. 2^20 is far above and far below any modulus.
const NOISE: i64 = 1 << 20;

#[test]
fn rotations_conjugations_and_relinearizations_are_exact_at_every_level_on_every_backend() {
    for f in fixtures() {
        let (ev, p, d) = (&f.evaluator, &f.params, &f.decryptor);
        let n = p.n();
        let same = |k: usize| (k, false);
        for level in 0..=p.top_level() {
            let ct = uniform(&f, level, 2);
            let before = phase(d, &ct);
            let hoisted = ev.hoist(&ct).unwrap();
            for k in [1, 3, -7] {
                let image = automorphism(n, p.galois_element(k));
                let rotated = ev.rotate(&ct, k).unwrap();
                let e = distance(&phase(d, &rotated), &before, image);
                assert!((1..NOISE).contains(&e), "level {level}, rotation {k}: {e}");
                assert_eq!(rotated.level(), level);
                assert_eq!(ev.rotate_hoisted(&hoisted, k).unwrap(), rotated);
            }
            let image = automorphism(n, p.conjugation_element());
            let conjugated = ev.conjugate(&ct).unwrap();
            let e = distance(&phase(d, &conjugated), &before, image);
            assert!((1..NOISE).contains(&e), "level {level}, conjugation: {e}");

            let degree2 = uniform(&f, level, 3);
            let linear = ev.relinearize(&degree2).unwrap();
            assert_eq!((linear.level(), linear.parts().len()), (level, 2));
            let e = distance(&phase(d, &linear), &phase(d, &degree2), same);
            assert!((1..NOISE).contains(&e), "level {level}, relinearize: {e}");
        }
    }
}

#[test]
fn values_survive_at_every_level_on_every_backend() {
    for f in fixtures() {
        let (ev, p) = (&f.evaluator, &f.params);
        let n = p.slots();
        let (a, b) = (test_values(n, 5), test_values(n, 6));
        for level in 0..=p.top_level() {
            // At 2^22 the product fits a base prime alone; the noise of encryption, 2^9 at most in any slot, leaves it 13 bits.
            let scale = Scale::pow2(if level == 0 { 22 } else { 40 });
            let tolerance = if level == 0 { 1e-3 } else { 1e-7 };
            let encrypt = |v| {
                let plain = f.encoder.encode(v, level, scale).unwrap();
                let sealed = f.secret_encryptor.encrypt(&plain).unwrap();
                sealed.expand(p).unwrap()
            };
            let (ca, cb) = (encrypt(&a), encrypt(&b));
            let close = |ct: &Ciphertext, want: Vec<_>| {
                let e = max_error(&f.decrypt(ct), &want);
                assert!(e < tolerance, "level {level}: {e}");
            };
            close(&ev.rotate(&ca, 3).unwrap(), {
                (0..n).map(|i| a[(i + 3) % n]).collect()
            });
            close(&ev.conjugate(&ca).unwrap(), {
                a.iter().map(|v| v.conj()).collect()
            });
            close(&ev.mul_relin(&ca, &cb).unwrap(), {
                a.iter().zip(&b).map(|(x, y)| *x * *y).collect()
            });
        }
    }
}
