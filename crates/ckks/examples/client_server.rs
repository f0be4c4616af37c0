//! A client and a server that exchange bytes only: the server computes the scalar product of two encrypted vectors.
//!
//! `cargo run --release -p cipherloom-ckks --example client_server`

use std::error::Error;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;

use cipherloom_ckks::{
    Ciphertext, CkksError, CkksParameters, Decryptor, Encoder, EvaluationKey, EvaluationKeys,
    Evaluator, KeyGenerator, SecretEncryptor, SeededCiphertext,
};
use cipherloom_spec::CkksLiteral;

/// Length of the vectors, a power of two.
const LENGTH: usize = 64;

/// Both parties agree on this beforehand; every message carries its digest.
fn parameters() -> Result<CkksParameters, CkksError> {
    let literal = CkksLiteral {
        log_n: 13,
        q_bits: vec![50, 40, 40],
        p_bits: vec![50],
        log_scale: 40,
        dnum: 3,
    };
    CkksParameters::new(literal.check()?)
}

/// The rotations of the sum over the slots: 1, 2, 4, ...
fn rotations() -> impl Iterator<Item = i64> {
    (0..LENGTH.trailing_zeros()).map(|k| 1 << k)
}

type Message = Vec<u8>;

fn server(from: &Receiver<Message>, to: &Sender<Message>) -> Result<(), Box<dyn Error>> {
    let params = parameters()?;
    let mut keys = EvaluationKeys::new(&params);
    for _ in 0..=rotations().count() {
        keys.insert(EvaluationKey::from_bytes(&params, &from.recv()?)?)?;
    }
    let evaluator = Evaluator::new(&params, keys)?;
    let x = SeededCiphertext::from_bytes(&params, &from.recv()?)?.expand(&params)?;
    let y = SeededCiphertext::from_bytes(&params, &from.recv()?)?.expand(&params)?;
    let mut sum = evaluator.mul_relin_rescale(&x, &y)?;
    for k in rotations() {
        sum = evaluator.add(&sum, &evaluator.rotate(&sum, k)?)?;
    }
    // Unused levels are not sent.
    to.send(evaluator.drop_level(&sum, params.base_level())?.to_bytes())?;
    Ok(())
}

fn client(from: &Receiver<Message>, to: &Sender<Message>) -> Result<(), Box<dyn Error>> {
    let params = parameters()?;
    let keygen = KeyGenerator::from_os(&params)?;
    let secret = Arc::new(keygen.secret_key()?);
    let level = params.top_level();
    let mut bytes = 0;
    let mut send = |message: Message| {
        bytes += message.len();
        to.send(message)
    };
    send(keygen.relinearization_key(&secret, level)?.to_bytes())?;
    for k in rotations() {
        // The rotations act one level down, so their keys need not reach the top.
        send(keygen.rotation_key(&secret, k, level - 1)?.to_bytes())?;
    }
    let x: Vec<f64> = (0..LENGTH).map(|i| (i as f64 * 0.1).cos()).collect();
    let y: Vec<f64> = (0..LENGTH).map(|i| 1.0 / (i as f64 + 1.0)).collect();
    let encoder = Encoder::new(&params);
    let encryptor = SecretEncryptor::new(&params, secret.clone())?;
    for v in [&x, &y] {
        let plain = encoder.encode_real(v, level, params.scale(level))?;
        send(encryptor.encrypt(&plain)?.to_bytes())?;
    }
    let answer = from.recv()?;
    let ct = Ciphertext::from_bytes(&params, &answer)?;
    let got = encoder.decode_real(&Decryptor::new(&params, secret)?.decrypt(&ct)?)?[0];
    let want: f64 = x.iter().zip(&y).map(|(x, y)| x * y).sum();
    println!(
        "sent {} kB, received {} kB",
        bytes / 1000,
        answer.len() / 1000
    );
    println!("scalar product {got:.9}, in the clear {want:.9}");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let (to_server, at_server) = channel();
    let (to_client, at_client) = channel();
    let worker =
        std::thread::spawn(move || server(&at_server, &to_client).map_err(|e| e.to_string()));
    // Dropping the sender lets a server that waits come to an end.
    let result = client(&at_client, &to_server);
    drop(to_server);
    match worker.join() {
        Ok(served) => served?,
        Err(_) => return Err("the server thread failed".into()),
    }
    result
}
