//! The memory of a loop of key switches at a real size: little beyond the keys, the tables and the ciphertexts in use.
//! A test binary of its own: the peak is that of the process.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use cipherloom_ckks::{
    Ciphertext, CkksParameters, Encoder, EvaluationKeys, Evaluator, KeyGenerator, SecretEncryptor,
};
use cipherloom_ring::SecretSeed;
use cipherloom_spec::CkksLiteral;
use cipherloom_testkit::fixture::test_values;

/// Largest part of the live objects that may come on top of them.
const OVERHEAD: f64 = 0.2;

fn status(field: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix(field)).unwrap();
    let kib: f64 = line.trim_end_matches("kB").trim().parse().unwrap();
    kib / 1024.0
}

fn mib(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Keys for x -> x^2 and two rotations, and an encryption; nothing else stays in memory.
fn server(params: &CkksParameters) -> (Evaluator, Ciphertext) {
    let top = params.top_level();
    let keygen = KeyGenerator::new(params, SecretSeed::from_bytes([1; 32]));
    let secret = Arc::new(keygen.secret_key().unwrap());
    let mut keys = EvaluationKeys::new(params);
    keys.insert(keygen.relinearization_key(&secret, top).unwrap())
        .unwrap();
    for k in [1, 5] {
        keys.insert(keygen.rotation_key(&secret, k, top).unwrap())
            .unwrap();
    }
    let plain = Encoder::new(params)
        .encode(&test_values(params.slots(), 1), top, params.scale(top))
        .unwrap();
    let sealed =
        SecretEncryptor::insecure_with_seed(params, secret, SecretSeed::from_bytes([2; 32]));
    let ct = sealed.unwrap().encrypt(&plain).unwrap();
    let ct = ct.expand(params).unwrap();
    (Evaluator::new(params, keys).unwrap(), ct)
}

/// N = 2^16, 30 primes, three digits and a special modulus of ten: a passed security table.
#[test]
fn a_loop_of_key_switches_peaks_little_above_its_live_objects() {
    let mut q_bits = vec![50];
    q_bits.resize(30, 40);
    let literal = CkksLiteral {
        log_n: 16,
        q_bits,
        p_bits: vec![46; 10],
        log_scale: 40,
        dnum: 3,
    };
    let params = CkksParameters::new(literal.check().unwrap()).unwrap();
    let (ev, x) = server(&params);
    // Each thread works in some limbs of its own.
    let threads = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    let threads = threads.unwrap();
    cipherloom_ring::heap::give_back();
    let before = status("VmRSS:");
    // A file that the kernel does not let us write to measures nothing; say so past the capture of the test harness.
    if let Err(error) = std::fs::write("/proc/self/clear_refs", "5") {
        use std::io::Write;
        writeln!(std::io::stderr(), "not tested here: {error}").unwrap();
        return;
    }
    let most = threads.install(|| {
        let mut most = 0;
        for _ in 0..4 {
            let square = ev.mul_relin(&x, &x).unwrap();
            let one = ev.rotate(&square, 1).unwrap();
            most = x.memory_bytes() + square.memory_bytes() + one.memory_bytes();
            drop(square);
            let two = ev.rotate(&one, 5).unwrap();
            assert_eq!(two.level(), x.level());
        }
        most
    });
    let peak = status("VmHWM:");
    let (keys, tables, cts) = (
        mib(ev.keys().memory_bytes()),
        mib(params.memory_bytes()),
        mib(most),
    );
    let live = keys + tables + cts;
    println!(
        "peak {peak:.0} MiB, {:.3} of {live:.0}: keys {keys:.0}, tables {tables:.0}, ciphertexts {cts:.0}; before the loop \
         {before:.0}",
        peak / live
    );
    assert!(peak <= (1.0 + OVERHEAD) * live, "{peak} MiB of {live} MiB");
    // Else the sum counts what is not there.
    assert!(peak >= 0.98 * live, "{peak} MiB of {live} MiB");
    assert!(before >= 0.98 * (keys + tables + mib(x.memory_bytes())));
}
