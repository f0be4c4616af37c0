//! Polynomials on ciphertexts against their definition in double precision.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cipherloom_ckks::circuits::{Argument, Interpolation, Polynomial, PolynomialBasis};
use cipherloom_ckks::{Ciphertext, CkksError, Complex64, EvaluationKeys, Evaluator};
use cipherloom_testkit::fixture::{max_error, test_values};
use cipherloom_testkit::*;

/// Real values in [a, b], the ends among them.
fn points(count: usize, [a, b]: [f64; 2]) -> Vec<f64> {
    let mut v: Vec<f64> = test_values(count, 9)
        .iter()
        .map(|x| a + (b - a) * (x.re + 1.0) / 2.0)
        .collect();
    (v[0], v[1]) = (a, b);
    v
}

fn definition(basis: PolynomialBasis, c: &[Complex64], u: f64) -> Complex64 {
    let mut sum = Complex64::ZERO;
    for (k, &c) in c.iter().enumerate() {
        let b = match basis {
            PolynomialBasis::Monomial => u.powi(k as i32),
            PolynomialBasis::Chebyshev => (k as f64 * u.clamp(-1.0, 1.0).acos()).cos(),
        };
        sum += c.scaled(b);
    }
    sum
}

fn error(f: &CkksFixture, ct: &Ciphertext, want: &[Complex64]) -> f64 {
    max_error(&f.decrypt(ct)[..want.len()], want)
}

/// Evaluates, compares values, level, scale and counts. Returns the error.
fn check(f: &CkksFixture, p: &Polynomial, level: usize, argument: Argument) -> f64 {
    let [a, b] = p.interval();
    let x = points(f.params.slots(), [a, b]);
    let factor = 2.0 / (b - a);
    let sent: Vec<f64> = match argument {
        Argument::Raw => x.clone(),
        Argument::Mapped => x.iter().map(|x| factor * x).collect(),
    };
    let ct = f.encrypt_real(&sent, level);
    let plan = p.plan(&f.params, level, argument).unwrap();
    let before = f.evaluator.counts();
    let y = plan.evaluate(&f.evaluator, &ct).unwrap();
    assert_eq!(
        f.evaluator.counts().since(&before),
        plan.counts(),
        "degree {}",
        p.degree()
    );
    assert_eq!(y.level(), plan.output_level());
    assert!(y.scale().matches(f.params.scale(y.level())));
    assert_eq!(y.parts().len(), 2);
    let want: Vec<Complex64> = x
        .iter()
        .map(|x| definition(p.basis(), p.coefficients(), (2.0 * x - a - b) / (b - a)))
        .collect();
    error(f, &y, &want)
}

/// Coefficients of alternating size that keep sums of basis polynomials moderate.
fn coefficients(degree: usize, seed: u64) -> Vec<Complex64> {
    let size = 1.0 / (degree as f64 + 1.0).sqrt();
    test_values(degree + 1, seed)
        .iter()
        .map(|c| c.scaled(size))
        .collect()
}

#[test]
fn every_degree_takes_its_depth_and_gives_its_values() {
    let f = CkksFixture::insecure(INSECURE_TOY_11(), &[]);
    let top = f.params.top_level();
    for basis in [PolynomialBasis::Monomial, PolynomialBasis::Chebyshev] {
        for degree in [
            1usize, 2, 3, 4, 5, 7, 8, 12, 15, 16, 31, 50, 63, 127, 128, 255,
        ] {
            let p = Polynomial::new(basis, &coefficients(degree, 3), [-1.0, 1.0]).unwrap();
            let plan = p.plan(&f.params, top, Argument::Raw).unwrap();
            let want = (degree as f64 + 1.0).log2().ceil() as usize;
            assert_eq!(plan.depth(), want, "degree {degree}");
            let e = check(&f, &p, top, Argument::Raw);
            println!("{basis:?} {degree}: 2^{:.1} {:?}", e.log2(), plan.counts());
            // The noise of one operation is about 2^-30 in the worst slot; the derivative of T_k is up to k^2.
            let bound = (degree as f64 + 1.0).powf(1.5) * (-29f64).exp2();
            assert!(e < bound && e > 1e-12, "{basis:?} degree {degree}: {e}");
        }
    }
}

#[test]
fn results_reach_the_base_level_and_no_lower() {
    let f = CkksFixture::insecure(INSECURE_TOY_11(), &[]);
    let p = Polynomial::chebyshev(&[0.5; 16], [-1.0, 1.0]).unwrap();
    let lowest = f.params.base_level() + 4;
    assert!(check(&f, &p, lowest, Argument::Raw) < 1e-6);
    let e = p.plan(&f.params, lowest - 1, Argument::Raw).unwrap_err();
    assert!(matches!(
        e,
        CkksError::CircuitDepth {
            depth: 4,
            level: 4,
            base: 1,
            ..
        }
    ));
}

#[test]
fn counts_follow_paterson_and_stockmeyer() {
    let params = CkksFixture::insecure(INSECURE_TOY_11(), &[]).params;
    let top = params.top_level();
    for basis in [PolynomialBasis::Monomial, PolynomialBasis::Chebyshev] {
        for degree in [15usize, 31, 63, 127, 255] {
            let c = coefficients(degree, 3);
            let count = |c: &[Complex64]| {
                let p = Polynomial::new(basis, c, [-1.0, 1.0]).unwrap();
                p.plan(&params, top, Argument::Raw).unwrap().counts()
            };
            let full = count(&c);
            let bound = 2.0 * (degree as f64 + 1.0).sqrt() + (degree as f64 + 1.0).log2() + 8.0;
            println!("{basis:?} {degree}: {full:?}");
            assert!((full.ct_ct as f64) < bound, "{degree}: {}", full.ct_ct);
            // One relinearisation for each node, not for each product.
            assert!(degree < 31 || full.relinearizations < full.ct_ct);
            // Every other coefficient zero: every other baby step is left out.
            let odd: Vec<Complex64> = (0..=degree)
                .map(|k| if k % 2 == 1 { c[k] } else { Complex64::ZERO })
                .collect();
            let odd = count(&odd);
            println!("   odd {odd:?}");
            assert!(odd.ct_ct <= full.ct_ct && odd.pt_ct < full.pt_ct);
            assert!(odd.relinearizations + u64::from(degree > 100) <= full.relinearizations);
        }
    }
}

#[test]
fn intervals_cost_a_level_only_where_nothing_folds() {
    let f = CkksFixture::insecure(INSECURE_TOY_11(), &[]);
    let (top, p) = (f.params.top_level(), &f.params);
    let c = coefficients(9, 5);
    let on = |i| Polynomial::new(PolynomialBasis::Chebyshev, &c, i).unwrap();
    // [-8, 2]: the factor is 1/5.
    let wide = on([-8.0, 2.0]);
    assert_eq!(wide.plan(p, top, Argument::Raw).unwrap().depth(), 5);
    assert!(check(&f, &wide, top, Argument::Raw) < 1e-6);
    assert_eq!(wide.plan(p, top, Argument::Mapped).unwrap().depth(), 4);
    assert!(check(&f, &wide, top, Argument::Mapped) < 1e-6);
    // [0, 1]: the factor is 2.
    let narrow = on([0.0, 1.0]);
    assert_eq!(narrow.plan(p, top, Argument::Raw).unwrap().depth(), 4);
    assert!(check(&f, &narrow, top, Argument::Raw) < 1e-6);

    // Folded into the scale of the encryption.
    let x = points(p.slots(), [-8.0, 2.0]);
    let plain = f
        .encoder
        .encode_real(&x, top, wide.encryption_scale(p, top))
        .unwrap();
    let ct = f.encryptor.encrypt(&plain).unwrap();
    let folded = wide.fold_scale(p, &ct).unwrap();
    let plan = wide.plan(p, top, Argument::Mapped).unwrap();
    let y = plan.evaluate(&f.evaluator, &folded).unwrap();
    let want: Vec<_> = x
        .iter()
        .map(|x| definition(PolynomialBasis::Chebyshev, &c, (x + 3.0) / 5.0))
        .collect();
    assert!(error(&f, &y, &want) < 1e-6);
    assert!(matches!(
        wide.fold_scale(p, &folded),
        Err(CkksError::ScaleMismatch { .. })
    ));
}

#[test]
fn complex_arguments_and_coefficients() {
    let f = CkksFixture::insecure(INSECURE_TOY_11(), &[]);
    let z: Vec<Complex64> = test_values(f.params.slots(), 4)
        .iter()
        .map(|v| v.scaled(0.7))
        .collect();
    let c = test_values(14, 8);
    let p = Polynomial::new(PolynomialBasis::Monomial, &c, [-1.0, 1.0]).unwrap();
    let top = f.params.top_level();
    let plan = p.plan(&f.params, top, Argument::Raw).unwrap();
    let y = plan.evaluate(&f.evaluator, &f.encrypt(&z, top)).unwrap();
    let want: Vec<Complex64> = z
        .iter()
        .map(|&z| {
            let (mut power, mut sum) = (Complex64::ONE, Complex64::ZERO);
            for &c in &c {
                sum += c * power;
                power = power * z;
            }
            sum
        })
        .collect();
    assert!(error(&f, &y, &want) < 1e-6);
}

#[test]
fn an_interpolated_function_and_many_ciphertexts() {
    let f = CkksFixture::insecure(INSECURE_TOY_11(), &[]);
    let top = f.params.top_level();
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let i = Interpolation::new(sigmoid, 31, [-8.0, 8.0]).unwrap();
    let plan = i.polynomial.plan(&f.params, top, Argument::Raw).unwrap();
    let inputs: Vec<Vec<f64>> = (0..3)
        .map(|s| {
            test_values(f.params.slots(), s)
                .iter()
                .map(|v| 8.0 * v.re)
                .collect()
        })
        .collect();
    let cts: Vec<Ciphertext> = inputs.iter().map(|x| f.encrypt_real(x, top)).collect();
    let before = f.evaluator.counts();
    let out = plan.evaluate_many(&f.evaluator, &cts).unwrap();
    let counted = f.evaluator.counts().since(&before);
    let mut three = plan.counts();
    three += plan.counts();
    three += plan.counts();
    assert_eq!(counted, three);
    for ((x, y), ct) in inputs.iter().zip(&out).zip(&cts) {
        let worst = f
            .decrypt_real(y)
            .iter()
            .zip(x)
            .map(|(y, &x)| (y - sigmoid(x)).abs())
            .fold(0.0, f64::max);
        assert!(worst < i.max_error + 1e-6, "{worst} {}", i.max_error);
        assert_eq!(*y, plan.evaluate(&f.evaluator, ct).unwrap());
    }
}

#[test]
fn wrong_use_is_refused_before_any_operation() {
    let f = CkksFixture::insecure(INSECURE_TOY_11(), &[]);
    let (params, top) = (&f.params, f.params.top_level());
    let p = Polynomial::chebyshev(&[0.1, 0.2, 0.3], [-1.0, 1.0]).unwrap();
    let plan = p.plan(params, top, Argument::Raw).unwrap();
    let before = f.evaluator.counts();
    let low = f.encrypt_real(&[0.5], top - 1);
    assert!(matches!(
        plan.evaluate(&f.evaluator, &low),
        Err(CkksError::LevelMismatch { .. })
    ));
    let ct = f.encrypt_real(&[0.5], top);
    assert!(matches!(
        plan.evaluate_many(&f.evaluator, &[ct.clone(), low]),
        Err(CkksError::LevelMismatch { .. })
    ));
    let doubled = f
        .encoder
        .encode_real(&[0.5], top, params.scale(top).times(params.scale(top)))
        .unwrap();
    let doubled = f.encryptor.encrypt(&doubled).unwrap();
    assert!(matches!(
        plan.evaluate(&f.evaluator, &doubled),
        Err(CkksError::ScaleMismatch { .. })
    ));
    assert_eq!(f.evaluator.counts(), before);
    let bare = Evaluator::new(params, EvaluationKeys::new(params)).unwrap();
    assert!(matches!(
        plan.evaluate(&bare, &ct),
        Err(CkksError::MissingKey { .. })
    ));
    assert_eq!(bare.counts(), Default::default());
    // A linear polynomial needs no key.
    let linear = Polynomial::monomial(&[1.0, 2.0]).unwrap();
    let plan = linear.plan(params, top, Argument::Raw).unwrap();
    let y = plan.evaluate(&bare, &ct).unwrap();
    assert!((f.decrypt_real(&y)[0] - 2.0).abs() < 1e-6);
    let constant = Polynomial::monomial(&[1.0]).unwrap();
    assert!(matches!(
        constant.plan(params, top, Argument::Raw),
        Err(CkksError::PolynomialDegree { degree: 0, .. })
    ));
    assert!(matches!(
        p.plan(params, top + 1, Argument::Raw),
        Err(CkksError::LevelRange { .. })
    ));
}

/// Any pattern of zeros, on a smaller ring: every shape of tree with its counts, levels and values.
#[test]
fn sparse_polynomials_of_every_shape() {
    let f = CkksFixture::insecure(INSECURE_TOY_11(), &[]);
    let top = f.params.top_level();
    for seed in 0..60u64 {
        let mask = test_values(64, 100 + seed);
        let degree = 1 + (seed as usize * 7) % 50;
        let keep = [0.0, 0.6, 0.9][seed as usize % 3];
        let mut c = coefficients(degree, seed);
        for (c, m) in c.iter_mut().zip(&mask).take(degree) {
            if m.re.abs() < keep {
                *c = Complex64::ZERO;
            }
        }
        let basis = [PolynomialBasis::Monomial, PolynomialBasis::Chebyshev][seed as usize / 3 % 2];
        let p = Polynomial::new(basis, &c, [-1.0, 1.0]).unwrap();
        assert_eq!(p.degree(), degree);
        let e = check(&f, &p, top, Argument::Raw);
        assert!(
            e < (degree as f64 + 1.0).powf(1.5) * (-29f64).exp2(),
            "{c:?}: {e}"
        );
    }
}
