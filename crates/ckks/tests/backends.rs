//! The SIMD backend of this processor gives the bits of the scalar reference, through every operation.

// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used)]

use cipherloom_ckks::{Ciphertext, CkksParameters};
use cipherloom_ring::SimdChoice;
use cipherloom_spec::CkksLiteral;
use cipherloom_testkit::fixture::test_values;
use cipherloom_testkit::*;

fn run(literal: CkksLiteral, simd: SimdChoice) -> Vec<Ciphertext> {
    let chain = literal.insecure_build().unwrap();
    let params = CkksParameters::insecure_for_tests_with(chain, simd).unwrap();
    let f = CkksFixture::with_params(params, &[1, 5]);
    let (ev, top) = (&f.evaluator, f.params.top_level());
    let v = test_values(f.params.slots(), 1);
    let a = f.encrypt(&v, top);
    let b = f
        .encryptor
        .encrypt(&f.encoder.encode(&v, top, f.params.scale(top)).unwrap())
        .unwrap();
    let plain = f.encoder.encode_for_product(&v, top).unwrap();
    let degree2 = ev.mul(&a, &b).unwrap();
    let mut out = ev.rotate_many(&a, &[1, 5]).unwrap();
    out.extend([
        ev.conjugate(&b).unwrap(),
        ev.relinearize(&degree2).unwrap(),
        ev.relinearize_rescale(&degree2).unwrap(),
        ev.mul_plain_accumulate(&[(&a, &plain), (&b, &plain)])
            .unwrap(),
        ev.align(&a, top - 1).unwrap(),
        ev.rotate(&ev.drop_level(&a, 0).unwrap(), 1).unwrap(),
        ev.mul_by_i(&a).unwrap(),
        degree2,
        a,
        b,
    ]);
    out
}

#[test]
fn simd_and_scalar_agree_bit_for_bit() {
    for literal in [INSECURE_TOY_9(), INSECURE_TOY_11(), secure_13()] {
        let scalar = run(literal.clone(), SimdChoice::Scalar);
        let auto = run(literal, SimdChoice::Auto);
        assert_eq!(scalar, auto);
    }
}
