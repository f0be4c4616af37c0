//! Mismatches are typed errors that name both sides.

// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used)]

use cipherloom_ckks::{
    Ciphertext, CkksError, CkksParameters, Complex64, Encoder, EvaluationKeys, Evaluator,
};
use cipherloom_spec::Scale;
use cipherloom_testkit::fixture::test_values;
use cipherloom_testkit::*;

#[test]
fn level_and_scale_mismatches_name_both() {
    let f = CkksFixture::insecure(INSECURE_TOY_9(), &[1]);
    let (ev, top) = (&f.evaluator, f.params.top_level());
    let v = test_values(8, 1);
    let a = f.encrypt(&v, top);
    let low = ev.drop_level(&a, top - 1).unwrap();
    let e = ev.add(&a, &low).unwrap_err();
    assert_eq!(
        e,
        CkksError::LevelMismatch {
            op: "add",
            left: top,
            right: top - 1
        }
    );
    assert!(
        e.to_string().contains("level 4") && e.to_string().contains("level 3"),
        "{e}"
    );
    assert!(matches!(
        ev.sub(&low, &a),
        Err(CkksError::LevelMismatch { .. })
    ));
    assert!(matches!(
        ev.mul(&low, &a),
        Err(CkksError::LevelMismatch { .. })
    ));

    // One 40-bit prime for another is a different scale.
    let square = ev.mul_relin_rescale(&a, &a).unwrap();
    assert!(!low.scale().matches(square.scale()));
    let e = ev.add(&square, &low).unwrap_err();
    assert_eq!(
        e,
        CkksError::ScaleMismatch {
            op: "add",
            left: square.scale(),
            right: low.scale()
        }
    );
    assert!(matches!(
        ev.sub(&square, &low),
        Err(CkksError::ScaleMismatch { .. })
    ));
    let aligned = ev.align(&a, top - 1).unwrap();
    assert!(ev.add(&square, &aligned).is_ok());

    let plain = f.encoder.encode(&v, top - 1, Scale::pow2(30)).unwrap();
    assert!(matches!(
        ev.add_plain(&a, &plain),
        Err(CkksError::LevelMismatch { .. })
    ));
    assert!(matches!(
        ev.mul_plain(&a, &plain),
        Err(CkksError::LevelMismatch { .. })
    ));
    assert!(matches!(
        ev.add_plain(&low, &plain),
        Err(CkksError::ScaleMismatch { .. })
    ));
    assert!(matches!(
        ev.sub_plain(&low, &plain),
        Err(CkksError::ScaleMismatch { .. })
    ));
    let other = f.encoder.encode(&v, top - 1, Scale::pow2(31)).unwrap();
    assert!(matches!(
        ev.mul_plain_sum(&[(&low, &plain), (&low, &other)]),
        Err(CkksError::ScaleMismatch { .. })
    ));
    assert!(matches!(
        ev.mul_plain_sum(&[]),
        Err(CkksError::Empty { .. })
    ));
    let mut acc = ev.mul_plain(&low, &plain).unwrap();
    let kept = acc.clone();
    assert!(ev.mul_plain_add_assign(&mut acc, &low, &other).is_err());
    assert_eq!(acc, kept);
}

#[test]
fn exhausted_levels_and_bad_alignments_are_errors() {
    let f = CkksFixture::insecure(INSECURE_TOY_9(), &[]);
    let (ev, p) = (&f.evaluator, &f.params);
    let (top, base) = (p.top_level(), p.base_level());
    let a = f.encrypt(&test_values(8, 1), top);
    let at_base = ev.drop_level(&a, base).unwrap();
    assert_eq!(
        ev.rescale(&at_base).unwrap_err(),
        CkksError::LevelExhausted {
            op: "rescale",
            level: base,
            base
        }
    );
    assert!(matches!(
        ev.mul_relin_rescale(&at_base, &at_base),
        Err(CkksError::LevelExhausted { .. })
    ));
    assert!(matches!(
        f.encoder.encode_for_product(&[], base),
        Err(CkksError::LevelExhausted { .. })
    ));
    assert!(matches!(
        ev.align(&a, base - 1),
        Err(CkksError::LevelExhausted { .. })
    ));
    assert!(matches!(
        ev.align(&at_base, base + 1),
        Err(CkksError::LevelRange { .. })
    ));
    assert!(matches!(
        ev.drop_level(&at_base, top),
        Err(CkksError::LevelRange { .. })
    ));
    let product = ev.mul_relin(&a, &a).unwrap();
    assert!(matches!(
        ev.align(&product, top - 1),
        Err(CkksError::AlignPrecision { .. })
    ));
    assert!(matches!(
        ev.align(&product, top),
        Err(CkksError::ScaleMismatch { .. })
    ));
    assert!(matches!(
        f.encoder.encode(&[], top + 1, Scale::pow2(40)),
        Err(CkksError::LevelRange { .. })
    ));
}

#[test]
fn missing_keys_are_named() {
    let f = CkksFixture::insecure(INSECURE_TOY_9(), &[1]);
    let a = f.encrypt(&test_values(8, 1), 2);
    let e = f.evaluator.rotate(&a, -3).unwrap_err();
    let k = f.params.slots() - 3;
    assert!(e.to_string().contains(&format!("rotation by {k}")), "{e}");
    let bare = Evaluator::new(&f.params, EvaluationKeys::new(&f.params)).unwrap();
    assert!(bare
        .conjugate(&a)
        .unwrap_err()
        .to_string()
        .contains("conjugation"));
    let product = bare.mul(&a, &a).unwrap();
    assert!(bare
        .relinearize(&product)
        .unwrap_err()
        .to_string()
        .contains("relinearization"));
    for e in [
        f.evaluator.rotate(&product, 1).unwrap_err(),
        f.evaluator.mul(&product, &a).unwrap_err(),
        f.evaluator.hoist(&product).map(|_| ()).unwrap_err(),
    ] {
        assert!(
            matches!(
                e,
                CkksError::Parts {
                    got: 3,
                    expected: 2,
                    ..
                }
            ),
            "{e}"
        );
    }
}

#[test]
fn objects_of_other_parameters_are_refused() {
    let f = CkksFixture::insecure(INSECURE_TOY_9(), &[1]);
    let mut literal = INSECURE_TOY_9();
    literal.q_bits.pop();
    let g = CkksFixture::insecure(literal, &[1]);
    let (a, b) = (
        f.encrypt(&test_values(8, 1), 2),
        g.encrypt(&test_values(8, 1), 2),
    );
    let e = f.evaluator.add(&a, &b).unwrap_err();
    assert!(matches!(e, CkksError::ParamsMismatch { .. }));
    assert!(
        e.to_string().contains(&f.params.digest().to_string()),
        "{e}"
    );
    assert!(
        e.to_string().contains(&g.params.digest().to_string()),
        "{e}"
    );
    assert!(f.decryptor.decrypt(&b).is_err());
    assert!(Evaluator::new(&f.params, EvaluationKeys::new(&g.params)).is_err());
    let plain = g.encoder.encode(&[], 2, Scale::pow2(40)).unwrap();
    assert!(f.encryptor.encrypt(&plain).is_err());
    assert!(f.secret_encryptor.encrypt(&plain).is_err());
    assert!(f.encoder.decode(&plain).is_err());
    assert!(f
        .keygen
        .public_key(&g.secret_key, *f.public_key.seed())
        .is_err());
    let parts = b.parts().to_vec();
    assert!(matches!(
        Ciphertext::from_parts(&f.params, parts.clone(), b.scale()),
        Err(CkksError::Ring(_))
    ));
    // The base primes are the same in both, so these polynomials do live over the basis of f.
    let parts: Vec<_> = parts.iter().map(|p| p.prefix(2).unwrap()).collect();
    assert!(Ciphertext::from_parts(&f.params, parts.clone(), b.scale()).is_ok());
    assert!(Ciphertext::from_parts(&f.params, parts[..1].to_vec(), b.scale()).is_err());
    let mixed = vec![parts[0].clone(), parts[1].prefix(1).unwrap()];
    assert!(matches!(
        Ciphertext::from_parts(&f.params, mixed, b.scale()),
        Err(CkksError::LevelMismatch { .. })
    ));
    let big = CkksFixture::insecure(INSECURE_TOY_10(), &[]).encrypt(&[], 2);
    assert!(Ciphertext::from_parts(&f.params, big.into_parts(), b.scale()).is_err());
}

#[test]
fn an_unchecked_chain_is_refused_by_the_real_constructor() {
    let chain = INSECURE_TOY_11().insecure_build().unwrap();
    let e = CkksParameters::new(chain).unwrap_err();
    assert!(
        matches!(e, CkksError::InsecureChain { log_n: 11, .. }),
        "{e}"
    );
    assert!(CkksParameters::new(secure_13().check().unwrap()).is_ok());
}

#[test]
fn what_does_not_fit_is_not_encoded() {
    let params =
        CkksParameters::insecure_for_tests(INSECURE_TOY_9().insecure_build().unwrap()).unwrap();
    let e = Encoder::new(&params);
    let s = Scale::pow2(40);
    let top = params.top_level();
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(
            e.encode_real(&[0.0, bad], top, s).unwrap_err(),
            CkksError::NotFinite { index: 1 }
        );
        let z = Complex64::new(0.0, bad);
        assert!(matches!(
            e.encode(&[z], top, s),
            Err(CkksError::NotFinite { index: 0 })
        ));
        assert!(matches!(
            e.encode_constant(z, top, s),
            Err(CkksError::NotFinite { .. })
        ));
        assert!(matches!(
            e.encode_repeated(&[z], top, s),
            Err(CkksError::NotFinite { .. })
        ));
    }
    for huge in [1e306, -1e306, f64::MAX] {
        assert!(matches!(
            e.encode_real(&[huge; 256], top, s),
            Err(CkksError::ValueTooLarge { .. })
        ));
        assert!(matches!(
            e.encode_constant(huge.into(), top, s),
            Err(CkksError::ValueTooLarge { .. })
        ));
    }
    // Level 0 has 50 bits: 2^8 * 2^40 fits, 2^9 * 2^40 reaches half of q_0.
    let all = |v: f64| vec![v; params.slots()];
    assert!(e.encode_real(&all(255.0), 0, s).is_ok());
    assert!(matches!(
        e.encode_real(&all(512.0), 0, s),
        Err(CkksError::ValueTooLarge { level: 0, .. })
    ));
    assert!(e.encode_real(&all(512.0), 1, s).is_ok());
    assert!(matches!(
        e.encode_constant((-512.0).into(), 0, s),
        Err(CkksError::ValueTooLarge { .. })
    ));
    // Above i64, below i128: exact; above: an error at any level.
    let big = e.encode_real(&all(1.5), top, Scale::pow2(100)).unwrap();
    assert!(e
        .decode_real(&big)
        .unwrap()
        .iter()
        .all(|v| (v - 1.5).abs() < 1e-14));
    assert!(matches!(
        e.encode_real(&all(1.5), top, Scale::pow2(130)),
        Err(CkksError::ValueTooLarge { .. })
    ));
    assert!(matches!(
        e.encode_real(&[0.0; 257], top, s),
        Err(CkksError::TooManyValues {
            got: 257,
            slots: 256
        })
    ));
    for len in [0, 3, 512] {
        let v = vec![Complex64::ONE; len];
        assert!(matches!(
            e.encode_repeated(&v, top, s),
            Err(CkksError::Period { .. })
        ));
    }
}
