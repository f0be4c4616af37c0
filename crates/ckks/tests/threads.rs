//! Threads share one evaluator and get what one thread gets, bit for bit.

// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used)]

use cipherloom_ckks::{Ciphertext, Encryptor, Evaluator, SecretEncryptor};
use cipherloom_testkit::fixture::test_values;
use cipherloom_testkit::*;

fn assert_send_sync<T: Send + Sync>() {}

fn work(f: &CkksFixture, ct: &Ciphertext, round: usize) -> Ciphertext {
    let ev: &Evaluator = &f.evaluator;
    let k = [1, 3][round % 2];
    let r = ev.rotate(ct, k).unwrap();
    let p = ev.mul_relin_rescale(&r, ct).unwrap();
    let plain = ev
        .encoder()
        .encode_for_product(&test_values(f.params.slots(), round as u64), p.level())
        .unwrap();
    let s = ev
        .mul_plain_accumulate(&[(&p, &plain), (&p, &plain)])
        .unwrap();
    ev.add(&ev.conjugate(&s).unwrap(), &s).unwrap()
}

#[test]
fn eight_threads_equal_serial_bit_for_bit() {
    assert_send_sync::<Evaluator>();
    assert_send_sync::<Encryptor>();
    assert_send_sync::<SecretEncryptor>();
    let f = CkksFixture::insecure(INSECURE_TOY_11(), &[1, 3]);
    let ct = f.encrypt(&test_values(f.params.slots(), 7), f.params.top_level());
    let serial: Vec<_> = (0..16).map(|i| work(&f, &ct, i)).collect();
    let serial_counts = f.evaluator.counts();
    let parallel: Vec<Ciphertext> = std::thread::scope(|s| {
        let handles: Vec<_> = (0..8)
            .map(|t| {
                let (f, ct) = (&f, &ct);
                s.spawn(move || (0..2).map(|i| work(f, ct, 2 * t + i)).collect::<Vec<_>>())
            })
            .collect();
        handles
            .into_iter()
            .flat_map(|h| h.join().unwrap())
            .collect()
    });
    assert_eq!(serial, parallel);
    assert_ne!(serial[0], serial[1]);
    assert_eq!(
        f.evaluator.counts().since(&serial_counts),
        serial_counts,
        "counted once each"
    );
}
