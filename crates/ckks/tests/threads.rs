//! Threads share one evaluator and get what one thread gets, bit for bit.

// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod common;

use cipherloom_ckks::{Decryptor, Encoder, Encryptor, Evaluator, KeyGenerator, SecretEncryptor};
use cipherloom_testkit::fixture::test_values;
use cipherloom_testkit::CkksFixture;
use common::{insecure_literal, operations, Inputs, ROTATIONS};

const THREADS: usize = 64;

fn assert_send_sync<T: Send + Sync>() {}

/// What `job` gives on 64 threads at once.
fn on_all_threads<T: Send>(job: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = std::sync::Barrier::new(THREADS);
    std::thread::scope(|s| {
        let handles: Vec<_> = (0..THREADS)
            .map(|t| {
                let (job, start) = (&job, &start);
                s.spawn(move || {
                    start.wait();
                    job(t)
                })
            })
            .collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    })
}

#[test]
fn sixty_four_threads_equal_serial_bit_for_bit_in_every_operation() {
    assert_send_sync::<Encoder>();
    assert_send_sync::<Evaluator>();
    assert_send_sync::<Decryptor>();
    assert_send_sync::<KeyGenerator>();
    let f = CkksFixture::insecure(insecure_literal(10, 5, 3, 3), &ROTATIONS);
    // Different inputs, so that a buffer that two threads share shows.
    let inputs: Vec<Inputs> = (0..4).map(|_| Inputs::new(&f)).collect();
    let serial: Vec<_> = inputs.iter().map(|i| operations(&f, i)).collect();
    assert_ne!(serial[0], serial[1]);
    let once = f.evaluator.counts();
    let live = f.live.current();
    let all = on_all_threads(|t| operations(&f, &inputs[t % inputs.len()]));
    for (t, record) in all.iter().enumerate() {
        record.assert_same(&serial[t % serial.len()], &format!("thread {t}"));
    }
    let spent = f.evaluator.counts().since(&once);
    let rounds = (THREADS / inputs.len()) as u64;
    assert!(once.key_switches() > 0);
    assert_eq!(spent.key_switches(), rounds * once.key_switches());
    assert_eq!(spent.rescales, rounds * once.rescales);
    assert_eq!(spent.ct_ct, rounds * once.ct_ct);
    assert_eq!(spent.pt_ct, rounds * once.pt_ct);
    assert_eq!(spent.aligns, rounds * once.aligns);
    assert_eq!(f.live.current(), live, "all results are dropped");
}

/// Each call of a shared encryptor has randomness of its own: together the threads make the ciphertexts of a serial run, in
/// some order, and no two are equal.
#[test]
fn sixty_four_threads_share_encryptors() {
    assert_send_sync::<Encryptor>();
    assert_send_sync::<SecretEncryptor>();
    let fixture = || CkksFixture::insecure(insecure_literal(6, 1, 1, 3), &[]);
    let encrypt = |f: &CkksFixture| {
        let (params, top) = (&f.params, f.params.top_level());
        let plain = f
            .encoder
            .encode(&test_values(params.slots(), 1), top, params.scale(top))
            .unwrap();
        [
            f.encryptor.encrypt(&plain).unwrap().to_bytes(),
            f.secret_encryptor.encrypt(&plain).unwrap().to_bytes(),
        ]
    };
    let (f, g) = (fixture(), fixture());
    let serial: Vec<_> = (0..THREADS).map(|_| encrypt(&f)).collect();
    let parallel = on_all_threads(|_| encrypt(&g));
    for kind in 0..2 {
        let sorted = |all: &[[Vec<u8>; 2]]| {
            let mut one: Vec<_> = all.iter().map(|x| x[kind].clone()).collect();
            one.sort();
            one
        };
        let (a, mut b) = (sorted(&serial), sorted(&parallel));
        assert_eq!(a, b);
        b.dedup();
        assert_eq!(b.len(), THREADS);
    }
}
