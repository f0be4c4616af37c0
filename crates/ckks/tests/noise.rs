//! The noise model against measured errors: every operation, several levels, two parameter sets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cipherloom_ckks::circuits::{DiagonalMatrix, LinearTransform};
use cipherloom_ckks::noise::{NoiseEstimate, NoiseModel};
use cipherloom_ckks::{Ciphertext, Complex64};
use cipherloom_spec::CkksLiteral;
use cipherloom_testkit::fixture::{max_error, test_values};
use cipherloom_testkit::*;

/// Values of absolute value 1, so that the bound on the message is its size.
fn unit(count: usize, seed: u64) -> Vec<Complex64> {
    test_values(count, seed)
        .iter()
        .map(|v| Complex64::cis(3.0 * v.re))
        .collect()
}

/// Root of the mean square of the slot errors.
fn measured(f: &CkksFixture, ct: &Ciphertext, want: &[Complex64]) -> f64 {
    let got = f.decrypt(ct);
    let sum: f64 = got
        .iter()
        .zip(want)
        .map(|(a, b)| (*a - *b).abs().powi(2))
        .sum();
    (sum / want.len() as f64).sqrt()
}

struct Check<'a> {
    f: &'a CkksFixture,
    worst: f64,
}

impl Check<'_> {
    fn that(&mut self, what: &str, ct: &Ciphertext, want: &[Complex64], estimate: &NoiseEstimate) {
        assert_eq!(ct.level(), estimate.level(), "{what}");
        assert!(ct.scale().matches(estimate.scale()), "{what}");
        let got = measured(self.f, ct, want);
        let ratio = got / estimate.slot_deviation();
        println!(
            "level {:2} {what}: measured 2^{:.2}, predicted 2^{:.2}",
            ct.level(),
            got.log2(),
            -estimate.precision_bits()
        );
        assert!((0.7..1.4).contains(&ratio), "{what}: ratio {ratio}");
        self.worst = self.worst.max(ratio).max(1.0 / ratio);
    }
}

fn check(literal: CkksLiteral) {
    let f = CkksFixture::insecure(literal, &[1, 2, 3, 4, 8, 12]);
    let (p, ev) = (&f.params, &f.evaluator);
    let model = NoiseModel::new(p);
    let slots = p.slots();
    let mut check = Check { f: &f, worst: 1.0 };
    let (a, b) = (unit(slots, 1), unit(slots, 2));
    let zip = |g: fn(Complex64, Complex64) -> Complex64| -> Vec<Complex64> {
        a.iter().zip(&b).map(|(&x, &y)| g(x, y)).collect()
    };
    let product = zip(|x, y| x * y);
    let square = zip(|x, _| x * x);
    for level in [p.top_level(), p.top_level() / 2 + 1, p.base_level() + 1] {
        let scale = p.scale(level);
        let plain = f.encoder.encode(&a, level, scale).unwrap();
        let encoded = model.encode(level, scale, 1.0).unwrap();
        let rms = {
            let e = f.encoder.decode(&plain).unwrap();
            let sum: f64 = e.iter().zip(&a).map(|(x, y)| (*x - *y).abs().powi(2)).sum();
            (sum / slots as f64).sqrt()
        };
        assert!((0.8..1.25).contains(&(rms / encoded.slot_deviation())));

        let ca = f.encrypt(&a, level);
        let cb = f
            .encryptor
            .encrypt(&f.encoder.encode(&b, level, scale).unwrap())
            .unwrap();
        let (ea, eb) = (
            model.encrypt_secret(&encoded),
            model.encrypt_public(&encoded),
        );
        check.that("secret key", &ca, &a, &ea);
        check.that("public key", &cb, &b, &eb);
        let sum = ev.add(&ca, &cb).unwrap();
        let want = zip(|x, y| x + y);
        check.that("sum", &sum, &want, &model.add(&ea, &eb).unwrap());
        let sum = ev.add_plain(&cb, &plain).unwrap();
        check.that("plain sum", &sum, &want, &model.add(&eb, &encoded).unwrap());

        // Products, rescaled or not.
        let pb = f.encoder.encode_for_product(&b, level).unwrap();
        let epb = model.encode(level, pb.scale(), 1.0).unwrap();
        let (y, e) = (
            ev.mul_plain(&ca, &pb).unwrap(),
            model.mul(&ea, &epb).unwrap(),
        );
        check.that("plain product", &y, &product, &e);
        check.that(
            "plain product, rescaled",
            &ev.rescale(&y).unwrap(),
            &product,
            &model.rescale(&e).unwrap(),
        );
        let c = Complex64::new(0.6, -0.8);
        let s = p.product_scale(level, scale).unwrap();
        let y = ev.mul_constant(&cb, c, s).unwrap();
        let constant = model.encode_repeated(1, level, s, 1.0).unwrap();
        let want: Vec<_> = b.iter().map(|&x| x * c).collect();
        check.that("constant", &y, &want, &model.mul(&eb, &constant).unwrap());
        let (y, e) = (ev.mul(&ca, &cb).unwrap(), model.mul(&ea, &eb).unwrap());
        check.that("product", &y, &product, &e);
        check.that(
            "relinearised",
            &ev.relinearize(&y).unwrap(),
            &product,
            &model.key_switch(&e).unwrap(),
        );
        check.that(
            "relinearised, rescaled",
            &ev.relinearize_rescale(&y).unwrap(),
            &product,
            &model.relinearize_rescale(&e).unwrap(),
        );
        let y = ev.mul(&cb, &cb).unwrap();
        let want: Vec<_> = b.iter().map(|&x| x * x).collect();
        check.that("square", &y, &want, &model.square(&eb));
        let y = ev.mul_relin_rescale(&ca, &ca).unwrap();
        let e = model.relinearize_rescale(&model.square(&ea)).unwrap();
        check.that("square, rescaled", &y, &square, &e);

        // Key switches.
        let mut rotated = a.clone();
        rotated.rotate_left(1);
        let e = model.key_switch(&ea).unwrap();
        check.that("rotation", &ev.rotate(&ca, 1).unwrap(), &rotated, &e);
        let hoisted = ev.rotate_many(&ca, &[1, 2]).unwrap();
        check.that("hoisted rotation", &hoisted[0], &rotated, &e);
        let conjugate: Vec<_> = a.iter().map(|x| x.conj()).collect();
        check.that("conjugation", &ev.conjugate(&ca).unwrap(), &conjugate, &e);

        // A matrix with 16 diagonals: 3 baby steps, 3 giant steps.
        let mut m = DiagonalMatrix::zero(slots).unwrap();
        for k in 0..16 {
            m.set_diagonal(k, &unit(slots, 50 + k as u64)).unwrap();
        }
        let t = LinearTransform::new(p, &m, level).unwrap();
        assert_eq!(t.plan().counts().rotations, 6);
        let inner = model.mul_sum(&[(e, epb); 4]).unwrap();
        let giant = model.key_switch(&inner).unwrap();
        let all = (0..3)
            .try_fold(giant, |sum, _| model.add(&sum, &giant))
            .unwrap();
        check.that(
            "hoisted sums",
            &t.apply(ev, &ca).unwrap(),
            &m.times(&a).unwrap(),
            &model.rescale(&all).unwrap(),
        );

        // Levels.
        let low = p.base_level();
        let y = ev.drop_level(&ca, low).unwrap();
        check.that("drop", &y, &a, &model.drop_level(&ea, low).unwrap());
        let y = ev.align(&cb, low).unwrap();
        check.that("align", &y, &b, &model.align(&eb, low).unwrap());
    }

    // A circuit: x <- rotate(x * factor), through the whole chain.
    let level = p.top_level();
    let mut want = a.clone();
    let (mut x, fresh) = (f.encrypt(&a, level), f.encrypt(&b, level));
    let encoded = model.encode(level, p.scale(level), 1.0).unwrap();
    let start = model.encrypt_secret(&encoded);
    let mut e = start;
    while x.level() > p.base_level() {
        let factor = ev.align(&fresh, x.level()).unwrap();
        let other = model.align(&start, x.level()).unwrap();
        x = ev.mul_relin_rescale(&x, &factor).unwrap();
        x = ev.rotate(&x, 1).unwrap();
        e = model
            .relinearize_rescale(&model.mul(&e, &other).unwrap())
            .unwrap();
        e = model.key_switch(&e).unwrap();
        want.iter_mut().zip(&b).for_each(|(w, &v)| *w = *w * v);
        want.rotate_left(1);
    }
    check.that("whole chain", &x, &want, &e);
    let worst = max_error(&f.decrypt(&x), &want);
    assert!(worst < e.largest_slot_error(1e-3) * 2.0);
    assert!(worst > e.slot_deviation());
    println!("worst ratio {:.2}", check.worst);
}

/// Digits of 5 primes, P of 5 primes larger than them.
#[test]
fn predictions_hold_where_rounding_dominates() {
    check(INSECURE_TOY_11());
}

/// Digits as large as P: the key's part of the noise dominates at the top.
#[test]
fn predictions_hold_where_the_key_dominates() {
    check(CkksLiteral {
        log_n: 12,
        q_bits: vec![50, 45, 45, 45, 45, 45],
        p_bits: vec![48, 48],
        log_scale: 45,
        dnum: 3,
    });
}

#[test]
fn impossible_steps_are_errors() {
    let f = CkksFixture::insecure(INSECURE_TOY_9(), &[]);
    let m = NoiseModel::new(&f.params);
    let at = |l| m.encode(l, f.params.scale(l), 1.0).unwrap();
    assert!(m.encode(9, f.params.scale(9), 1.0).is_err());
    assert!(m.encode_repeated(3, 1, f.params.scale(1), 1.0).is_err());
    assert!(m.add(&at(1), &at(2)).is_err());
    assert!(m.mul(&at(1), &at(2)).is_err());
    assert!(m.rescale(&at(f.params.base_level())).is_err());
    assert!(m.drop_level(&at(1), 2).is_err());
    assert!(m.align(&at(1), 0).is_err());
    assert!(m.mul_sum(&[]).is_err());
    assert!(m.key_variance(9).is_err());
}
