//! A scale that a level cannot hold is a typed error that names both, and no result.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use cipherloom_ckks::{Ciphertext, CkksError, Complex64, Plaintext};
use cipherloom_ring::Poly;
use cipherloom_spec::Scale;
use cipherloom_testkit::fixture::{max_error, test_values};
use cipherloom_testkit::*;

/// A ciphertext of arbitrary polynomials: for errors only the scale and the level matter.
fn at(f: &CkksFixture, level: usize, log_scale: i32, parts: usize) -> Ciphertext {
    let basis = f.params.basis(level).unwrap();
    let parts = vec![Poly::zero(&basis); parts];
    Ciphertext::from_parts(&f.params, parts, Scale::pow2(log_scale)).unwrap()
}

fn plain_at(f: &CkksFixture, level: usize, log_scale: i32) -> Plaintext {
    let poly = Poly::zero(&f.params.basis(level).unwrap());
    Plaintext::from_poly(&f.params, poly, Scale::pow2(log_scale)).unwrap()
}

type Checked<'a> = (&'static str, Box<dyn Fn() -> Result<(), CkksError> + 'a>);

/// Every operation that multiplies scales, for factors of scale 2^`log_a` and 2^`log_b` at `level`.
fn products(f: &CkksFixture, level: usize, log_a: i32, log_b: i32) -> Vec<Checked<'_>> {
    let ev = &f.evaluator;
    let a = Arc::new(at(f, level, log_a, 2));
    let b = Arc::new(at(f, level, log_b, 2));
    let p = Arc::new(plain_at(f, level, log_b));
    let acc = Arc::new(at(f, level, log_a + log_b, 2));
    let scale = Scale::pow2(log_b);
    let mut all: Vec<Checked<'_>> = Vec::new();
    let (x, y) = (a.clone(), b.clone());
    all.push(("mul", Box::new(move || ev.mul(&x, &y).map(drop))));
    let (x, y) = (a.clone(), b.clone());
    all.push((
        "mul_relin",
        Box::new(move || ev.mul_relin(&x, &y).map(drop)),
    ));
    let (x, y) = (a.clone(), b);
    let run = move || ev.mul_relin_rescale(&x, &y).map(drop);
    all.push(("mul_relin_rescale", Box::new(run)));
    let (x, y) = (a.clone(), p.clone());
    all.push((
        "mul_plain",
        Box::new(move || ev.mul_plain(&x, &y).map(drop)),
    ));
    let (x, y) = (a.clone(), p.clone());
    let run = move || ev.mul_plain_assign(&mut (*x).clone(), &y);
    all.push(("mul_plain_assign", Box::new(run)));
    let (x, y) = (a.clone(), p.clone());
    let run = move || ev.mul_plain_sum(&[(&x, &y), (&x, &y)]).map(drop);
    all.push(("mul_plain_sum", Box::new(run)));
    let (x, y) = (a.clone(), p.clone());
    let run = move || ev.mul_plain_accumulate(&[(&x, &y), (&x, &y)]).map(drop);
    all.push(("mul_plain_accumulate", Box::new(run)));
    let (x, y) = (a.clone(), p);
    let run = move || ev.mul_plain_add_assign(&mut (*acc).clone(), &x, &y);
    all.push(("mul_plain_add_assign", Box::new(run)));
    // A constant so small that it fits at any scale.
    let small = Complex64::from(f64::from(-log_b - 20).exp2());
    let x = a.clone();
    let run = move || ev.mul_constant(&x, small, scale).map(drop);
    all.push(("mul_constant", Box::new(run)));
    let x = a.clone();
    let run = move || ev.mul_constant_assign(&mut (*x).clone(), small, scale);
    all.push(("mul_constant_assign", Box::new(run)));
    let total = Scale::pow2(log_a + log_b);
    let run = move || {
        ev.linear_combination(&[(&a, small)], Complex64::ZERO, level, total)
            .map(drop)
    };
    all.push(("linear_combination", Box::new(run)));
    all
}

/// Is one half of the modulus of a level the limit, at every level? Two bits below it all operations work, at it none does.
#[test]
fn a_product_that_its_level_cannot_hold_is_refused() {
    let f = CkksFixture::insecure(INSECURE_TOY_9(), &[]);
    let (p, before) = (&f.params, f.evaluator.counts());
    for level in 0..=p.top_level() {
        // log2 q is a little below the sum of the sizes.
        let log_q = p.chain().log_q(level);
        let limit = log_q.round() as i32 - 1;
        for log_b in [15, limit / 2] {
            for (name, run) in products(&f, level, limit - log_b, log_b) {
                let e = run().unwrap_err();
                let CkksError::ScaleTooLarge {
                    op,
                    scale,
                    level: l,
                    log_modulus,
                } = &e
                else {
                    panic!("{name} at level {level}: {e}");
                };
                assert_eq!((*op, *l, *log_modulus), (name, level, log_q));
                assert_eq!(*scale, Scale::pow2(limit));
                let text = e.to_string();
                assert!(text.contains(&format!("2^{limit}.")), "{text}");
                assert!(text.contains(&format!("level {level},")), "{text}");
                assert!(text.contains("rescale before"), "{text}");
            }
        }
    }
    assert_eq!(f.evaluator.counts(), before, "what fails is not counted");
    for level in 0..=p.top_level() {
        let limit = p.chain().log_q(level).round() as i32 - 3;
        for (name, run) in products(&f, level, limit - 15, 15) {
            match run() {
                Ok(()) => {}
                Err(CkksError::LevelExhausted { .. }) if level <= p.base_level() => {}
                Err(e) => panic!("{name} at level {level}: {e}"),
            }
        }
    }
}

/// The case that started it: two ciphertexts at 2^40 and a modulus of 2^50.
#[test]
fn two_canonical_ciphertexts_cannot_be_multiplied_at_level_zero() {
    let f = CkksFixture::insecure(INSECURE_TOY_9(), &[]);
    let (ev, p) = (&f.evaluator, &f.params);
    let v = test_values(p.slots(), 1);
    let a = f.encrypt(&v, 0);
    let e = ev.mul(&a, &a).unwrap_err();
    assert!(
        matches!(e, CkksError::ScaleTooLarge { op: "mul", level: 0, scale, .. } if scale == a.scale().times(a.scale())),
        "{e}"
    );
    // One level up it does fit, but may not be taken down again before a rescale.
    let b = f.encrypt(&v, 1);
    let mut product = ev.mul_relin(&b, &b).unwrap();
    let want: Vec<_> = v.iter().map(|x| *x * *x).collect();
    assert!(max_error(&f.decrypt(&product), &want) < 1e-6);
    let kept = product.clone();
    let e = ev.drop_level(&product, 0).unwrap_err();
    assert!(
        matches!(
            e,
            CkksError::ScaleTooLarge {
                op: "drop_level",
                level: 0,
                ..
            }
        ),
        "{e}"
    );
    assert!(matches!(
        ev.drop_level_assign(&mut product, 0),
        Err(CkksError::ScaleTooLarge { .. })
    ));
    assert_eq!(product, kept);
    // A constant that does not fit the level cannot be added or multiplied with.
    assert!(matches!(
        ev.add_constant(&a, 600.0.into()),
        Err(CkksError::ValueTooLarge { level: 0, .. })
    ));
    // Half of 2^50 over 2^40 is 2^9, whatever the sign or the part.
    let one = Scale::pow2(0);
    for z in [
        Complex64::from(500.0),
        Complex64::from(-500.0),
        Complex64::I.scaled(500.0),
    ] {
        let wide = z.scaled(1.1);
        for e in [
            ev.mul_constant(&a, wide, one).map(drop),
            ev.mul_constant_assign(&mut a.clone(), wide, one),
            ev.linear_combination(&[(&a, wide)], Complex64::ZERO, 0, a.scale())
                .map(drop),
        ] {
            assert!(
                matches!(e, Err(CkksError::ValueTooLarge { level: 0, .. })),
                "{e:?}"
            );
        }
        let want: Vec<_> = v.iter().map(|x| x.scaled(0.5) * z).collect();
        let half: Vec<_> = v.iter().map(|x| x.scaled(0.5)).collect();
        let product = ev.mul_constant(&f.encrypt(&half, 0), z, one).unwrap();
        assert!(max_error(&f.decrypt(&product), &want) < 1e-6 * 500.0);
    }
}

#[test]
fn a_scale_that_rounding_would_drown_is_refused() {
    let f = CkksFixture::insecure(INSECURE_TOY_9(), &[]);
    let (ev, p) = (&f.evaluator, &f.params);
    let top = p.top_level();
    let low = |e: CkksError, name: &str, level: usize| {
        let CkksError::ScaleTooSmall {
            op,
            level: l,
            log_min,
            ..
        } = &e
        else {
            panic!("{name}: {e}");
        };
        assert_eq!((*op, *l, *log_min), (name, level, 9));
        assert!(e.to_string().contains("below 2^9"), "{e}");
    };
    // A fresh ciphertext has nothing to divide by.
    let mut fresh = f.encrypt(&test_values(8, 1), top);
    let kept = fresh.clone();
    low(ev.rescale(&fresh).unwrap_err(), "rescale", top - 1);
    let e = ev.rescale_assign(&mut fresh).unwrap_err();
    low(e, "rescale_assign", top - 1);
    assert_eq!(fresh, kept);
    let e = ev.relinearize_rescale(&at(&f, top, 48, 3)).unwrap_err();
    low(e, "relinearize_rescale", top - 1);
    let e = ev.mul_relin_rescale(&at(&f, top, 24, 2), &at(&f, top, 24, 2));
    low(e.unwrap_err(), "mul_relin_rescale", top - 1);
    let (c, q) = (at(&f, top, 24, 2), plain_at(&f, top, 24));
    let e = ev.mul_plain_accumulate(&[(&c, &q)]).unwrap_err();
    low(e, "mul_plain_accumulate", top - 1);
    // At 2^50 and above a rescale leaves 2^10.
    assert!(ev.rescale(&at(&f, top, 50, 2)).is_ok());
    // Products below N, of which there is no limit how far below.
    for (name, run) in products(&f, top, 4, 4) {
        low(run().unwrap_err(), name, top);
    }
    for (name, run) in products(&f, top, -10_000, -10_000) {
        low(run().unwrap_err(), name, top);
    }
    // A constant at a scale below one rounds to zero.
    for e in [
        ev.mul_constant(&fresh, 0.3.into(), Scale::pow2(-1)),
        ev.linear_combination(
            &[(&fresh, 0.3.into())],
            Complex64::ZERO,
            top,
            Scale::pow2(39),
        ),
    ] {
        assert!(
            matches!(e, Err(CkksError::ScaleTooSmall { log_min: 0, .. })),
            "{e:?}"
        );
    }
    assert!(ev
        .linear_combination(&[(&fresh, 3.0.into())], Complex64::ZERO, top, fresh.scale())
        .is_ok());
}

/// What an operation in place refuses stays as it was.
#[test]
fn operations_in_place_leave_what_they_refuse() {
    let f = CkksFixture::insecure(INSECURE_TOY_9(), &[]);
    let (ev, top) = (&f.evaluator, f.params.top_level());
    let mut c = f.encrypt(&test_values(8, 1), top);
    let kept = c.clone();
    let lower = f.encrypt(&test_values(8, 1), top - 1);
    let scaled = at(&f, top, 30, 2);
    let plain = plain_at(&f, top - 1, 40);
    let other = plain_at(&f, top, 30);
    let level = |e: CkksError| assert!(matches!(e, CkksError::LevelMismatch { .. }), "{e}");
    let scale = |e: CkksError| assert!(matches!(e, CkksError::ScaleMismatch { .. }), "{e}");
    level(ev.add_assign(&mut c, &lower).unwrap_err());
    level(ev.sub_assign(&mut c, &lower).unwrap_err());
    scale(ev.add_assign(&mut c, &scaled).unwrap_err());
    scale(ev.sub_assign(&mut c, &scaled).unwrap_err());
    level(ev.add_plain_assign(&mut c, &plain).unwrap_err());
    level(ev.sub_plain_assign(&mut c, &plain).unwrap_err());
    level(ev.mul_plain_assign(&mut c, &plain).unwrap_err());
    scale(ev.add_plain_assign(&mut c, &other).unwrap_err());
    scale(ev.sub_plain_assign(&mut c, &other).unwrap_err());
    let nan = Complex64::from(f64::NAN);
    for e in [
        ev.add_constant_assign(&mut c, nan),
        ev.mul_constant_assign(&mut c, nan, Scale::pow2(30)),
    ] {
        assert!(matches!(e, Err(CkksError::NotFinite { .. })), "{e:?}");
    }
    let e = ev.drop_level_assign(&mut c, top + 1);
    assert!(matches!(e, Err(CkksError::LevelRange { .. })), "{e:?}");
    let mut base = f.encrypt(&test_values(8, 1), f.params.base_level());
    let e = ev.rescale_assign(&mut base);
    assert!(matches!(e, Err(CkksError::LevelExhausted { .. })), "{e:?}");
    let mut literal = INSECURE_TOY_9();
    literal.q_bits.pop();
    let g = CkksFixture::insecure(literal, &[]);
    for e in [
        g.evaluator.neg_assign(&mut c),
        g.evaluator.mul_by_i_assign(&mut c),
        g.evaluator.mul_by_neg_i_assign(&mut c),
        g.evaluator.rescale_assign(&mut c),
        g.evaluator.drop_level_assign(&mut c, 0),
        g.evaluator.add_constant_assign(&mut c, Complex64::ONE),
    ] {
        assert!(matches!(e, Err(CkksError::ParamsMismatch { .. })), "{e:?}");
    }
    assert_eq!(c, kept);
}
