//! The encoder against the definition of the slots.

// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used)]

use cipherloom_ckks::{CkksParameters, Complex64, Encoder};
use cipherloom_ring::CrtLift;
use cipherloom_spec::Scale;
use cipherloom_testkit::fixture::{max_error, test_values};
use cipherloom_testkit::*;
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
