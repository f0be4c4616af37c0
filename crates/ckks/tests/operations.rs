//! Every operation against plain complex arithmetic.

// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used)]

use cipherloom_ckks::{Complex64, KeyPurpose};
use cipherloom_spec::{CkksLiteral, Scale};
use cipherloom_testkit::fixture::{max_error, test_values};
use cipherloom_testkit::*;

fn zip(
    a: &[Complex64],
    b: &[Complex64],
    f: impl Fn(Complex64, Complex64) -> Complex64,
) -> Vec<Complex64> {
    a.iter().zip(b).map(|(&x, &y)| f(x, y)).collect()
}

fn rotated(a: &[Complex64], k: i64) -> Vec<Complex64> {
    let n = a.len() as i64;
    (0..n).map(|i| a[(i + k).rem_euclid(n) as usize]).collect()
}

/// Slot noise of one operation at N = 2^9 ... 2^13 and scale 2^40 stays far below this.
const TOL: f64 = 1e-6;

fn check_all(literal: CkksLiteral, secure: bool) {
    let rotations = [1i64, -1, 3, 17];
    let f = if secure {
        CkksFixture::checked(literal, &rotations)
    } else {
        CkksFixture::insecure(literal, &rotations)
    };
    let (ev, p) = (&f.evaluator, &f.params);
    let (top, n) = (p.top_level(), p.slots());
    let (a, b) = (test_values(n, 1), test_values(n, 2));
    for level in [top, p.base_level() + 1] {
        let (ca, cb) = (f.encrypt(&a, level), f.encrypt(&b, level));
        let before = ca.clone();
        let close =
            |ct: &cipherloom_ckks::Ciphertext, want: &[Complex64], level: usize, scale: Scale| {
                assert_eq!(ct.level(), level);
                assert!(ct.scale().matches(scale), "{} {}", ct.scale(), scale);
                let e = max_error(&f.decrypt(ct), want);
                assert!(e < TOL, "error {e}");
                e
            };
        let s = p.scale(level);
        close(&ca, &a, level, s);
        close(
            &ev.add(&ca, &cb).unwrap(),
            &zip(&a, &b, |x, y| x + y),
            level,
            s,
        );
        close(
            &ev.sub(&ca, &cb).unwrap(),
            &zip(&a, &b, |x, y| x - y),
            level,
            s,
        );
        close(&ev.neg(&ca).unwrap(), &zip(&a, &a, |x, _| -x), level, s);
        close(
            &ev.mul_by_i(&ca).unwrap(),
            &zip(&a, &a, |x, _| x * Complex64::I),
            level,
            s,
        );
        close(
            &ev.mul_by_neg_i(&ca).unwrap(),
            &zip(&a, &a, |x, _| -(x * Complex64::I)),
            level,
            s,
        );
        let pb = f.encoder.encode(&b, level, s).unwrap();
        close(
            &ev.add_plain(&ca, &pb).unwrap(),
            &zip(&a, &b, |x, y| x + y),
            level,
            s,
        );
        close(
            &ev.sub_plain(&ca, &pb).unwrap(),
            &zip(&a, &b, |x, y| x - y),
            level,
            s,
        );
        let c = Complex64::new(0.75, -0.3);
        close(
            &ev.add_constant(&ca, c).unwrap(),
            &zip(&a, &a, |x, _| x + c),
            level,
            s,
        );

        // Products: unrescaled at scale s^2, rescaled on the canonical scale of the next level.
        let next = p.scale(level - 1);
        let pp = f.encoder.encode_for_product(&b, level).unwrap();
        let want = zip(&a, &b, |x, y| x * y);
        let product = ev.mul_plain(&ca, &pp).unwrap();
        close(&product, &want, level, s.times(pp.scale()));
        close(&ev.rescale(&product).unwrap(), &want, level - 1, next);
        let sum = ev.mul_plain_accumulate(&[(&ca, &pp), (&cb, &pp)]).unwrap();
        close(&sum, &zip(&a, &b, |x, y| x * y + y * y), level - 1, next);
        let mut acc = product.clone();
        ev.mul_plain_add_assign(&mut acc, &cb, &pp).unwrap();
        assert_eq!(ev.rescale(&acc).unwrap(), sum);
        let scaled = ev
            .mul_constant(&ca, c, p.product_scale(level, s).unwrap())
            .unwrap();
        close(
            &ev.rescale(&scaled).unwrap(),
            &zip(&a, &a, |x, _| x * c),
            level - 1,
            next,
        );

        let degree2 = ev.mul(&ca, &cb).unwrap();
        assert_eq!(degree2.parts().len(), 3);
        close(&degree2, &want, level, s.times(s));
        let relin = ev.relinearize(&degree2).unwrap();
        assert_eq!(relin.parts().len(), 2);
        close(&relin, &want, level, s.times(s));
        assert_eq!(relin, ev.mul_relin(&ca, &cb).unwrap());
        close(
            &ev.mul_relin_rescale(&ca, &cb).unwrap(),
            &want,
            level - 1,
            next,
        );
        // Sums of different degrees.
        close(
            &ev.add(&relin, &degree2).unwrap(),
            &zip(&a, &b, |x, y| (x * y).scaled(2.0)),
            level,
            s.times(s),
        );
        close(
            &ev.sub(&relin, &degree2).unwrap(),
            &vec![Complex64::ZERO; n],
            level,
            s.times(s),
        );

        close(
            &ev.conjugate(&ca).unwrap(),
            &zip(&a, &a, |x, _| x.conj()),
            level,
            s,
        );
        let many = ev.rotate_many(&ca, &[0, 1, -1, 3, 17]).unwrap();
        for (&k, hoisted) in [0, 1, -1, 3, 17].iter().zip(&many) {
            let r = ev.rotate(&ca, k).unwrap();
            close(&r, &rotated(&a, k), level, s);
            assert_eq!(&r, hoisted, "hoisting changes no bit");
        }
        assert_eq!(ca, before, "inputs are never changed");
    }
    // Rotation works at every level, also below the base.
    let ca = f.encrypt(&a, top);
    for level in 0..=top {
        let low = ev.drop_level(&ca, level).unwrap();
        let r = ev.rotate(&low, 3).unwrap();
        assert_eq!(r.level(), level);
        assert!(
            max_error(&f.decrypt(&r), &rotated(&a, 3)) < TOL,
            "level {level}"
        );
    }
    // Align to every level from the base.
    for level in p.base_level()..=top {
        let low = ev.align(&ca, level).unwrap();
        assert_eq!(low.level(), level);
        assert_eq!(low.scale(), p.scale(level));
        assert!(max_error(&f.decrypt(&low), &a) < TOL, "level {level}");
    }
}

#[test]
fn all_operations_on_toy_rings() {
    check_all(INSECURE_TOY_9(), false);
    check_all(INSECURE_TOY_10(), false);
    check_all(INSECURE_TOY_11(), false);
}

#[test]
fn all_operations_on_a_real_set() {
    check_all(secure_13(), true);
}

#[test]
fn public_and_seeded_encryption_decrypt_alike() {
    let f = CkksFixture::insecure(INSECURE_TOY_10(), &[]);
    let a = test_values(f.params.slots(), 3);
    for level in 0..=f.params.top_level() {
        let plain = f.encoder.encode(&a, level, f.params.scale(level)).unwrap();
        let public = f.encryptor.encrypt(&plain).unwrap();
        let seeded = f.secret_encryptor.encrypt(&plain).unwrap();
        let coeffs = f
            .secret_encryptor
            .encrypt_coeffs(&plain.poly().to_coeff(), plain.scale())
            .unwrap();
        assert_ne!(seeded.seed(), coeffs.seed());
        for ct in [
            public,
            seeded.expand(&f.params).unwrap(),
            coeffs.expand(&f.params).unwrap(),
        ] {
            assert_eq!((ct.level(), ct.scale()), (level, plain.scale()));
            let e = max_error(&f.decrypt(&ct), &a);
            assert!(e < 1e-7 && e > 0.0, "{e}");
        }
        let (z0, z1) = f.encryptor.zero(level).unwrap();
        let (y0, _) = f.encryptor.zero(level).unwrap();
        assert_ne!(z0, y0, "zeros are fresh");
        let zero = cipherloom_ckks::Ciphertext::from_parts(&f.params, vec![z0, z1], plain.scale())
            .unwrap();
        assert!(f.decrypt(&zero).iter().all(|v| v.abs() < 1e-7));
    }
}

#[test]
fn a_chain_of_ten_products_stays_accurate() {
    let f = CkksFixture::insecure(INSECURE_TOY_13_DEEP(), &[1]);
    let (ev, p) = (&f.evaluator, &f.params);
    let n = p.slots();
    // Values on the unit circle: magnitudes do not shrink or grow.
    let unit = |seed| -> Vec<Complex64> {
        test_values(n, seed)
            .iter()
            .map(|v| v.scaled(1.0 / v.abs().max(1e-3)))
            .collect()
    };
    let mut want = unit(1);
    let factors = unit(2);
    let fresh = f.encrypt(&factors, p.top_level());
    let mut ct = f.encrypt(&want, p.top_level());
    for _ in 0..10 {
        let other = ev.align(&fresh, ct.level()).unwrap();
        ct = ev.mul_relin_rescale(&ct, &other).unwrap();
        ct = ev.rotate(&ct, 1).unwrap();
        want = rotated(&zip(&want, &factors, |x, y| x * y), 1);
        assert!(ct.scale().matches(p.scale(ct.level())));
    }
    assert_eq!(ct.level(), p.base_level());
    let e = max_error(&f.decrypt(&ct), &want);
    // Each step adds about 2^-27 (rescale and key switch rounding times sqrt(N) slots); the largest
    // of 4096 slots after ten steps stays below 2^-21.
    println!("depth-10 error 2^{:.2}", e.log2());
    assert!(e < 2f64.powi(-21), "{e}");
    assert!(
        e > 2f64.powi(-40),
        "an error this small means that nothing was computed"
    );
}

#[test]
fn counts_are_exact() {
    let f = CkksFixture::insecure(INSECURE_TOY_9(), &[1, 2]);
    let ev = &f.evaluator;
    let top = f.params.top_level();
    let ct = f.encrypt(&test_values(4, 1), top);
    let plain = f
        .encoder
        .encode_for_product(&test_values(4, 2), top)
        .unwrap();
    let start = ev.counts();
    ev.rotate(&ct, 1).unwrap();
    ev.rotate(&ct, 0).unwrap();
    ev.rotate_many(&ct, &[0, 1, 2]).unwrap();
    ev.conjugate(&ct).unwrap();
    ev.mul_relin_rescale(&ct, &ct).unwrap();
    ev.mul_plain_accumulate(&[(&ct, &plain), (&ct, &plain), (&ct, &plain)])
        .unwrap();
    ev.align(&ct, top - 1).unwrap();
    ev.align(&ct, top).unwrap();
    ev.mul_by_i(&ct).unwrap();
    ev.add(&ct, &ct).unwrap();
    ev.drop_level(&ct, 0).unwrap();
    let c = ev.counts().since(&start);
    assert_eq!(
        (
            c.rotations,
            c.conjugations,
            c.relinearizations,
            c.ct_ct,
            c.pt_ct,
            c.rescales,
            c.aligns
        ),
        (3, 1, 1, 1, 3, 2, 1)
    );
    // What fails is not counted.
    let before = ev.counts();
    assert!(ev.rotate(&ct, 5).is_err());
    assert!(ev.rescale(&ev.drop_level(&ct, 1).unwrap()).is_err());
    assert_eq!(ev.counts(), before);
}

#[test]
fn live_ciphertexts_are_counted() {
    let f = CkksFixture::insecure(INSECURE_TOY_9(), &[1]);
    let mut ct = f.encrypt(&test_values(4, 1), 2);
    assert_eq!(f.live.current(), 0, "made elsewhere");
    f.evaluator.track(&mut ct);
    let r = f.evaluator.rotate(&ct, 1).unwrap();
    let s = f.evaluator.add(&r, &ct).unwrap();
    let t = s.clone();
    assert_eq!(f.live.current(), 4);
    drop((r, s, t));
    assert_eq!((f.live.current(), f.live.peak()), (1, 4));
}

#[test]
fn keys_up_to_a_level_serve_that_level_and_below() {
    let f = CkksFixture::insecure(INSECURE_TOY_11(), &[]);
    let p = &f.params;
    let a = test_values(p.slots(), 1);
    for max_level in [1, 5, 7] {
        let mut keys = cipherloom_ckks::EvaluationKeys::new(p);
        let key = f.keygen.rotation_key(&f.secret_key, 2, max_level).unwrap();
        assert_eq!(
            key.memory_bytes(),
            cipherloom_ckks::size::evaluation_key_memory_bytes(p.chain(), max_level, true)
        );
        keys.insert(key).unwrap();
        assert_eq!(keys.rotations(), vec![2]);
        assert!(keys.contains(KeyPurpose::Galois(25)));
        let ev = cipherloom_ckks::Evaluator::new(p, keys).unwrap();
        let top = f.encrypt(&a, p.top_level());
        for level in 0..=max_level {
            let r = ev.rotate(&ev.drop_level(&top, level).unwrap(), 2).unwrap();
            assert!(max_error(&f.decrypt(&r), &rotated(&a, 2)) < TOL);
        }
        let err = ev
            .rotate(&ev.drop_level(&top, max_level + 1).unwrap(), 2)
            .unwrap_err();
        assert!(
            err.to_string().contains("rotation by 2")
                && err.to_string().contains(&format!("{max_level}")),
            "{err}"
        );
    }
}

/// Against separate products and sums, which round the same constants: equal bit for bit.
#[test]
fn linear_combinations_equal_products_with_constants() {
    let f = CkksFixture::insecure(INSECURE_TOY_10(), &[]);
    let (ev, p) = (&f.evaluator, &f.params);
    let cts: Vec<_> = (3..6)
        .map(|level| f.encrypt(&test_values(p.slots(), level as u64), level))
        .collect();
    let c = test_values(3, 40);
    let d = Complex64::new(0.25, -3.0);
    let terms: Vec<_> = cts.iter().zip(&c).map(|(a, &c)| (a, c)).collect();
    let scale = Scale::pow2(80);
    let before = ev.counts();
    let got = ev.linear_combination(&terms, d, 3, scale).unwrap();
    assert_eq!(ev.counts().since(&before).pt_ct, 3);
    let mut want = None;
    for (a, c) in &terms {
        let low = ev.drop_level(a, 3).unwrap();
        let term = ev.mul_constant(&low, *c, scale.over(a.scale())).unwrap();
        want = Some(match want {
            None => term,
            Some(w) => ev.add(&w, &term).unwrap(),
        });
    }
    let want = ev.add_constant(&want.unwrap(), d).unwrap();
    assert_eq!(got.parts(), want.parts());
    assert!(got.scale().matches(want.scale()));
    assert!(ev.linear_combination(&[], d, 3, scale).is_err());
    assert!(ev.linear_combination(&terms, d, 4, scale).is_err());
    assert!(ev.linear_combination(&terms, d, 9, scale).is_err());
    let square = ev.mul(&cts[0], &cts[0]).unwrap();
    assert!(ev
        .linear_combination(&[(&square, c[0])], d, 3, scale)
        .is_err());
}
