//! An encrypted vector times a public matrix, with the weights expanded within a memory cap.
//!
//! `cargo run --release -p cipherloom-ckks --example matrix_vector`

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use cipherloom_ckks::circuits::{DiagonalMatrix, LinearPlan, LinearTransform, PlaintextStore};
use cipherloom_ckks::{
    size, CkksParameters, Complex64, Decryptor, Encoder, EvaluationKeys, Evaluator, KeyGenerator,
    SecretEncryptor,
};
use cipherloom_spec::CkksLiteral;

const SIZE: usize = 256;

fn main() -> Result<(), Box<dyn Error>> {
    let literal = CkksLiteral {
        log_n: 13,
        q_bits: vec![50, 40, 40],
        p_bits: vec![50],
        log_scale: 40,
        dnum: 3,
    };
    let params = CkksParameters::new(literal.check()?)?;
    let top = params.top_level();
    let entry = |i: usize, j: usize| ((3 * i + 7 * j) % 17) as f64 / 17.0 - 0.5;
    let entries: Vec<f64> = (0..SIZE * SIZE)
        .map(|k| entry(k / SIZE, k % SIZE))
        .collect();
    let matrix = DiagonalMatrix::from_real(SIZE, SIZE, &entries)?;

    // The plan says which keys are needed, before there are any.
    let plan = LinearPlan::new(&params, &matrix, top, params.scale(top))?;
    let keygen = KeyGenerator::from_os(&params)?;
    let secret = Arc::new(keygen.secret_key()?);
    let mut keys = EvaluationKeys::new(&params);
    for k in plan.rotations() {
        keys.insert(keygen.rotation_key(&secret, k, top)?)?;
    }
    println!(
        "{} diagonals, {} rotation keys of {} kB",
        plan.plaintexts(),
        keys.len(),
        size::evaluation_key_bytes(params.chain(), top) / 1000
    );
    let evaluator = Evaluator::new(&params, keys)?;

    // All weights expanded, or in compact form with at most 4 MB of them expanded.
    let direct = LinearTransform::new(&params, &matrix, top)?;
    let store = Arc::new(PlaintextStore::in_memory(&params, 4_000_000));
    let compact = LinearTransform::with_store(&matrix, top, &store)?;

    // The vector is repeated to fill the slots.
    let encoder = Encoder::new(&params);
    let x: Vec<Complex64> = (0..SIZE)
        .map(|i| Complex64::from((i as f64 * 0.37).sin()))
        .collect();
    let plain = encoder.encode_repeated(&x, top, params.scale(top))?;
    let ct = SecretEncryptor::new(&params, secret.clone())?
        .encrypt(&plain)?
        .expand(&params)?;
    let decryptor = Decryptor::new(&params, secret)?;
    let want = matrix.times(&x)?;
    for (name, transform) in [("expanded", &direct), ("compact", &compact)] {
        let start = Instant::now();
        let y = transform.apply(&evaluator, &ct)?;
        let elapsed = start.elapsed();
        let got = encoder.decode(&decryptor.decrypt(&y)?)?;
        let error = want
            .iter()
            .zip(&got)
            .map(|(a, b)| (*a - *b).abs())
            .fold(0.0, f64::max);
        println!(
            "{name}: {:.1} ms, largest error {error:.1e}",
            elapsed.as_secs_f64() * 1e3
        );
    }
    let kept = store.statistics();
    println!(
        "weights: {} kB expanded; {} kB compact and {} kB kept",
        plan.plaintext_bytes(&params) / 1000,
        kept.compact_bytes / 1000,
        kept.kept_bytes / 1000
    );
    Ok(())
}
