//! A function on encrypted values: interpolate, plan, evaluate, compare.
//!
//! `cargo run --release -p cipherloom-ckks --example polynomial`

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use cipherloom_ckks::circuits::{Argument, Interpolation};
use cipherloom_ckks::{
    CkksParameters, Decryptor, Encoder, EvaluationKeys, Evaluator, KeyGenerator, SecretEncryptor,
};
use cipherloom_spec::CkksLiteral;

fn main() -> Result<(), Box<dyn Error>> {
    // The logistic function on [-8, 8], as a polynomial of degree 31: five levels, and one for 1/8.
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let approximation = Interpolation::new(sigmoid, 31, [-8.0, 8.0])?;
    println!(
        "degree 31: largest error {:.1e} at {:.2}",
        approximation.max_error, approximation.max_error_at
    );

    let literal = CkksLiteral {
        log_n: 14,
        q_bits: vec![50, 40, 40, 40, 40, 40, 40, 40],
        p_bits: vec![50, 50],
        log_scale: 40,
        dnum: 4,
    };
    let params = CkksParameters::new(literal.check()?)?;
    let top = params.top_level();
    // The factor 2 / (b - a) goes into the scale of the encryption, so five levels are enough.
    let polynomial = &approximation.polynomial;
    let plan = polynomial.plan(&params, top, Argument::Mapped)?;
    println!("levels {}, operations {:?}", plan.depth(), plan.counts());

    let keygen = KeyGenerator::from_os(&params)?;
    let secret = Arc::new(keygen.secret_key()?);
    let mut keys = EvaluationKeys::new(&params);
    keys.insert(keygen.relinearization_key(&secret, top)?)?;
    let evaluator = Evaluator::new(&params, keys)?;

    let encoder = Encoder::new(&params);
    let slots = params.slots();
    let x: Vec<f64> = (0..slots)
        .map(|i| 16.0 * i as f64 / (slots - 1) as f64 - 8.0)
        .collect();
    let plain = encoder.encode_real(&x, top, polynomial.encryption_scale(&params, top))?;
    let sent = SecretEncryptor::new(&params, secret.clone())?.encrypt(&plain)?;

    let ct = polynomial.fold_scale(&params, &sent.expand(&params)?)?;
    let start = Instant::now();
    let y = plan.evaluate(&evaluator, &ct)?;
    let elapsed = start.elapsed();

    let got = encoder.decode_real(&Decryptor::new(&params, secret)?.decrypt(&y)?)?;
    let (mut total, mut scheme) = (0f64, 0f64);
    for (&x, &got) in x.iter().zip(&got) {
        total = total.max((got - sigmoid(x)).abs());
        scheme = scheme.max((got - polynomial.value_at(x.into()).re).abs());
    }
    println!(
        "{slots} values in {:.0} ms: {total:.1e} from the function, {scheme:.1e} from the polynomial",
        elapsed.as_secs_f64() * 1e3
    );
    Ok(())
}
