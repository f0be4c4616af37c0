//! The encoder against the definition of the slots.

// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used)]

use cipherloom_ckks::{CkksParameters, Complex64, Encoder, Plaintext};
use cipherloom_ring::{CrtLift, SimdChoice};
use cipherloom_spec::Scale;
use cipherloom_testkit::fixture::{max_error, test_values};
use cipherloom_testkit::*;
use num_bigint::BigInt;
use proptest::prelude::*;

fn encoder(literal: cipherloom_spec::CkksLiteral) -> (CkksParameters, Encoder) {
    let p = CkksParameters::insecure_for_tests(literal.insecure_build().unwrap()).unwrap();
    let e = Encoder::new(&p);
    (p, e)
}

/// The values of an integer polynomial at zeta^(5^j), term by term.
fn evaluate(coeffs: &[i128], scale: f64) -> Vec<Complex64> {
    let n = coeffs.len();
    let mut power = 1usize;
    (0..n / 2)
        .map(|_| {
            let mut sum = Complex64::ZERO;
            for (k, &c) in coeffs.iter().enumerate() {
                let e = power * k % (2 * n);
                let angle = std::f64::consts::PI * e as f64 / n as f64;
                sum += Complex64::cis(angle).scaled(c as f64 / scale);
            }
            power = power * 5 % (2 * n);
            sum
        })
        .collect()
}

#[test]
fn slots_are_values_at_the_powers_of_five() {
    let (p, e) = encoder(INSECURE_TOY_9());
    let v = test_values(p.slots(), 1);
    let scale = Scale::pow2(45);
    let plain = e.encode(&v, 1, scale).unwrap();
    let lift = CrtLift::new(&p.basis(1).unwrap()).unwrap();
    let coeffs = lift.lift(&plain.poly().to_coeff()).unwrap();
    assert!(max_error(&evaluate(&coeffs, scale.to_f64()), &v) < 1e-11);
}

#[test]
fn constants_and_repeated_vectors_equal_the_full_encoding() {
    let (p, e) = encoder(INSECURE_TOY_10());
    let scale = Scale::pow2(40);
    for level in [0, 3] {
        let c = Complex64::new(0.625, -1.375);
        let full = e.encode(&vec![c; p.slots()], level, scale).unwrap();
        assert_eq!(e.encode_constant(c, level, scale).unwrap(), full);
        let exact = e.encode_constant((0.1).into(), level, scale).unwrap();
        let got = e.decode(&exact).unwrap();
        let want = (0.1 * scale.to_f64()).round() / scale.to_f64();
        assert!(got
            .iter()
            .all(|v| (v.re - want).abs() < 1e-15 && v.im.abs() < 1e-15));
        for m in [1, 2, 16, p.slots()] {
            let short = test_values(m, 4);
            let long: Vec<_> = (0..p.slots()).map(|i| short[i % m]).collect();
            let repeated = e.encode_repeated(&short, level, scale).unwrap();
            assert!(max_error(&e.decode(&repeated).unwrap(), &long) < 1e-9);
            // Only every (slots/m)-th coefficient is used.
            let coeffs = repeated.poly().to_coeff();
            let stride = p.slots() / m;
            assert!(coeffs
                .limb(0)
                .iter()
                .enumerate()
                .all(|(k, &x)| k % stride == 0 || x == 0));
        }
    }
}

#[test]
fn measured_precision() {
    let (p, e) = encoder(INSECURE_TOY_13_DEEP());
    let v = test_values(p.slots(), 9);
    let mut errors = vec![];
    for log_scale in [40, 50, 60, 90] {
        let plain = e.encode(&v, 5, Scale::pow2(log_scale)).unwrap();
        errors.push(max_error(&e.decode(&plain).unwrap(), &v).log2());
    }
    println!("largest slot error, log2, at scales 2^40, 2^50, 2^60, 2^90: {errors:.2?}");
    // Rounding: sqrt(N/6) / scale for a complex slot, times about 3.3 for the largest of 4096.
    assert!(errors[0] < -32.5 && errors[1] < -42.5 && errors[2] < -48.0 && errors[3] < -48.0);
    assert!(errors[0] > -35.0, "rounding must be visible at 2^40");
}

#[test]
fn decoding_is_exact_at_any_number_of_limbs() {
    let (p, e) = encoder(INSECURE_TOY_11());
    let v = test_values(p.slots(), 2);
    let want = e
        .decode(&e.encode(&v, 1, Scale::pow2(70)).unwrap())
        .unwrap();
    for level in 2..=p.top_level() {
        let got = e
            .decode(&e.encode(&v, level, Scale::pow2(70)).unwrap())
            .unwrap();
        assert!(max_error(&got, &want) < 1e-14, "level {level}");
    }
}

#[test]
fn decoding_works_above_the_range_of_f64() {
    let mut literal = INSECURE_TOY_9();
    literal.q_bits = vec![50; 1];
    literal.q_bits.extend([40; 27]);
    literal.p_bits = vec![50; 6];
    literal.dnum = 4;
    let (p, e) = encoder(literal);
    let level = p.top_level();
    assert!(p.chain().log_q(level) > 1100.0);
    let v = test_values(p.slots(), 3);
    let plain = e.encode(&v, level, p.scale(level)).unwrap();
    assert!(max_error(&e.decode(&plain).unwrap(), &v) < 1e-10);
}

/// A scale of about 2^log that is no double: the top bits of a long fraction.
fn odd_scale(log: i32) -> Scale {
    Scale::from_parts(0xb504_f333_f9de_6484_597d_89b3_754a_be9f, log - 127).unwrap()
}

/// `numerator 2^-shift` times the scale, rounded to nearest, ties to even, by big integers.
fn times(numerator: &BigInt, shift: i64, scale: Scale) -> BigInt {
    let (mant, exp) = scale.parts();
    let product = numerator * BigInt::from(mant);
    let shift = shift - i64::from(exp);
    assert!(shift > 1);
    let floor: BigInt = &product >> (shift - 1);
    let tie = (&floor << (shift - 1)) == product;
    let half = &floor >> 1;
    let up = BigInt::from(u8::from(
        &floor % 2 != BigInt::from(0) && (!tie || &half % 2 != BigInt::from(0)),
    ));
    half + up
}

/// The centred coefficients, by the formula of the Chinese remainder theorem.
fn integers(plain: &Plaintext) -> Vec<BigInt> {
    let poly = plain.poly().to_coeff();
    let q = poly.basis().primes();
    let product: BigInt = q.iter().map(|&q| BigInt::from(q)).product();
    let units: Vec<BigInt> = q
        .iter()
        .map(|&q| {
            let hat = &product / q;
            &hat * hat.modpow(&BigInt::from(q - 2), &BigInt::from(q))
        })
        .collect();
    (0..poly.n())
        .map(|k| {
            let terms = units.iter().enumerate().map(|(i, u)| u * poly.limb(i)[k]);
            let x = terms.sum::<BigInt>() % &product;
            if &x * 2 > product {
                x - &product
            } else {
                x
            }
        })
        .collect()
}

#[test]
fn constants_at_any_scale_are_exact() {
    let (p, e) = encoder(INSECURE_TOY_9());
    let level = 3;
    let slots = p.slots();
    for log in [-3, 10, 40, 53, 60, 64, 80, 100, 115] {
        for value in [0.1, -1.0, 1.0 / 3.0, 1e-9, -255.75, 0.0, 5e-324] {
            for scale in [odd_scale(log), Scale::pow2(log), p.scale(1)] {
                let c = Complex64::new(value, -0.7 * value);
                let plain = e.encode_constant(c, level, scale).unwrap();
                let got = integers(&plain);
                for (k, part) in [(0, c.re), (slots, c.im)] {
                    // The double as an integer over 2^1074.
                    let bits = part.abs().to_bits();
                    let (frac, e) = (bits & ((1 << 52) - 1), bits >> 52);
                    let m = BigInt::from(frac + (u64::from(e > 0) << 52)) << (e.max(1) - 1);
                    let want = times(&m, 1074, scale);
                    let want = if part < 0.0 { -want } else { want };
                    assert_eq!(got[k], want, "{part} {scale:?}");
                }
            }
        }
    }
}

#[test]
fn coefficients_at_large_scales_are_the_exact_products() {
    let (p, e) = encoder(INSECURE_TOY_9());
    let level = 3;
    let v = test_values(p.slots(), 5);
    let lifted = |scale| integers(&e.encode(&v, level, scale).unwrap());
    // The coefficients of the transform: at this scale their products are integers, but for tiny coefficients.
    let shift = 118;
    let exact = lifted(Scale::pow2(shift));
    for log in [56, 60, 64, 75, 100, 117] {
        let scale = odd_scale(log);
        let got = lifted(scale);
        let mut checked = 0;
        for (g, c) in got.iter().zip(&exact) {
            // The double has 53 bits: none were lost at the scale 2^118.
            if c.bits() > 54 {
                assert_eq!(*g, times(c, shift.into(), scale));
                checked += 1;
            }
        }
        assert!(checked > p.slots());
    }
}

#[test]
fn every_processor_encodes_the_same_bits() {
    let run = |simd| {
        let chain = INSECURE_TOY_11().insecure_build().unwrap();
        let p = CkksParameters::insecure_for_tests_with(chain, simd).unwrap();
        let e = Encoder::new(&p);
        let (v, level) = (test_values(p.slots(), 8), p.top_level());
        let mut out = vec![];
        for scale in [
            p.scale(level),
            Scale::pow2(57),
            odd_scale(58),
            odd_scale(100),
        ] {
            for m in [8, 128, p.slots()] {
                let plain = e.encode_repeated(&v[..m], level, scale).unwrap();
                let slots: Vec<u64> = e
                    .decode(&plain)
                    .unwrap()
                    .iter()
                    .flat_map(|v| [v.re.to_bits(), v.im.to_bits()])
                    .collect();
                out.push((plain.into_poly().to_bytes(), slots));
            }
        }
        out
    };
    let scalar = run(SimdChoice::Scalar);
    for name in ["avx2", "avx512ifma"] {
        // Those that this build and this processor have.
        let choice = name.parse::<SimdChoice>();
        if let Some(simd) = choice.ok().filter(|s| s.backend().is_ok()) {
            assert!(scalar == run(simd), "{name}");
        }
    }
}

#[test]
fn scales_beyond_the_doubles_work_or_are_errors() {
    let (_, e) = encoder(INSECURE_TOY_9());
    let (one, zero) = ([Complex64::ONE; 4], [Complex64::ZERO; 4]);
    for log in [1500, 5000] {
        let scale = Scale::pow2(log);
        let all_zero = e.encode_repeated(&zero, 2, scale).unwrap();
        assert!(all_zero.poly().data().iter().all(|&x| x == 0));
        assert_eq!(
            e.encode_constant(Complex64::ZERO, 2, scale).unwrap(),
            all_zero
        );
        assert!(e.encode_repeated(&one, 2, scale).is_err());
        assert!(e.encode_constant(Complex64::I, 2, scale).is_err());
    }
    // 2^-1040 at the scale 2^1100 is 2^60.
    let tiny = 2f64.powi(-1040);
    let plain = e
        .encode_constant(tiny.into(), 2, Scale::pow2(1100))
        .unwrap();
    assert_eq!(
        plain.poly(),
        e.encode_constant(Complex64::ONE, 2, Scale::pow2(60))
            .unwrap()
            .poly()
    );
    let back = e.decode(&plain).unwrap();
    assert!(back.iter().all(|v| v.re == tiny && v.im == 0.0));
    // 2^1010 at the scale 2^-1010 is 1.
    let huge = 2f64.powi(1010);
    let plain = e.encode_repeated(&[huge.into(); 4], 2, Scale::pow2(-1010));
    let back = e.decode(&plain.unwrap()).unwrap();
    assert!(back.iter().all(|v| v.re == huge && v.im == 0.0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn random_values_survive(
        values in proptest::collection::vec((-1e3f64..1e3, -1e3f64..1e3), 0..=256),
        level in 1usize..=4,
        log_scale in 30i32..60,
    ) {
        let (p, e) = encoder(INSECURE_TOY_9());
        let v: Vec<_> = values.iter().map(|&(a, b)| Complex64::new(a, b)).collect();
        let got = e.decode(&e.encode(&v, level, Scale::pow2(log_scale)).unwrap()).unwrap();
        let bound = 40.0 / f64::from(log_scale).exp2() + 1e-10;
        for (i, g) in got.iter().enumerate() {
            let want = v.get(i).copied().unwrap_or_default();
            prop_assert!((*g - want).abs() < bound);
        }
        prop_assert_eq!(got.len(), p.slots());
    }

    #[test]
    fn any_doubles_encode_or_fail_with_a_typed_error(bits in proptest::collection::vec(any::<u64>(), 1..=64), log_scale in -50i32..200) {
        let (_, e) = encoder(INSECURE_TOY_9());
        let v: Vec<f64> = bits.iter().map(|&b| f64::from_bits(b)).collect();
        let _ = e.encode_real(&v, 2, Scale::pow2(log_scale));
        let _ = e.encode_constant(Complex64::new(v[0], v[v.len() - 1]), 2, Scale::pow2(log_scale));
    }
}
