//! Leveled CKKS: encoder, keys, encryption, evaluator, key switching.
//!
//! - [`CkksParameters`]: a checked chain with all tables; everything else is built from it.
//! - [`Encoder`]: complex slots to polynomials and back.
//! - [`KeyGenerator`], [`SecretKey`], [`PublicKey`], [`EvaluationKey`]: the client's side of the keys;
//!   [`EvaluationKeys`]: the server's.
//! - [`Encryptor`] (public key), [`SecretEncryptor`] (seeded, half the bytes), [`Decryptor`].
//! - [`Evaluator`]: operations on [`Ciphertext`]s, with exact levels and scales, counted.
//! - [`size`]: bytes of every object as pure functions of the chain.
//! - [`circuits`]: polynomials and linear transforms, planned before they run; [`guide`]: choosing parameters.
//!
//! Levels and scales. A ciphertext at level `l` lives modulo `q_0 ... q_l`. Operands must agree in level and scale
//! (see `cipherloom_spec::chain`); nothing is adjusted silently. A product multiplies the scales, a
//! rescale divides by `q_l` and goes to level `l - 1`.
//!
//! ```
//! use std::sync::Arc;
//! use cipherloom_ckks::*;
//! use cipherloom_spec::CkksLiteral;
//!
//! # fn main() -> Result<(), CkksError> {
//! let literal = CkksLiteral { log_n: 13, q_bits: vec![50, 50, 40], p_bits: vec![50], log_scale: 40, dnum: 3 };
//! let params = CkksParameters::new(literal.check()?)?;
//! let top = params.top_level();
//!
//! // Client: keys and an encryption of its values.
//! let keygen = KeyGenerator::from_os(&params)?;
//! let secret = Arc::new(keygen.secret_key()?);
//! let relin = keygen.relinearization_key(&secret, top)?.to_bytes();
//! let rotate = keygen.rotation_key(&secret, 1, top)?.to_bytes();
//! let encoder = Encoder::new(&params);
//! let plain = encoder.encode_real(&[1.5, -2.0, 3.0], top, params.scale(top))?;
//! let sent = SecretEncryptor::new(&params, secret.clone())?.encrypt(&plain)?.to_bytes();
//!
//! // Server: x -> rotate(x, 1) * x.
//! let mut keys = EvaluationKeys::new(&params);
//! keys.insert(EvaluationKey::from_bytes(&params, &relin)?)?;
//! keys.insert(EvaluationKey::from_bytes(&params, &rotate)?)?;
//! let evaluator = Evaluator::new(&params, keys)?;
//! let x = SeededCiphertext::from_bytes(&params, &sent)?.expand(&params)?;
//! let y = evaluator.mul_relin_rescale(&evaluator.rotate(&x, 1)?, &x)?;
//!
//! // Client.
//! let values = encoder.decode_real(&Decryptor::new(&params, secret)?.decrypt(&y)?)?;
//! assert!((values[0] + 3.0).abs() < 1e-6 && (values[1] + 6.0).abs() < 1e-6);
//! # Ok(()) }
//! ```
//!
//! Key switching is hybrid (Han, Ki 2019, ePrint 2019/688): digits of `alpha` consecutive primes, special modulus P.
//!
//! Noise: [`noise`] states the formula of every operation and predicts the error of a circuit.

pub mod ciphertext;
pub mod circuits;
pub mod complex;
pub mod counter;
pub mod decrypt;
pub mod encoder;
pub mod encrypt;
pub mod error;
pub mod evaluator;
mod exact;
pub mod format;
pub mod guide;
pub mod keygen;
pub mod keys;
mod keyswitch;
pub mod live;
pub mod noise;
pub mod params;
pub mod plaintext;
mod scratch;
pub mod size;

pub use ciphertext::{Ciphertext, SeededCiphertext};
pub use complex::Complex64;
pub use counter::OpCounter;
pub use decrypt::Decryptor;
pub use encoder::Encoder;
pub use encrypt::{Encryptor, SecretEncryptor};
pub use error::CkksError;
pub use evaluator::{Evaluator, Hoisted};
pub use keygen::KeyGenerator;
pub use keys::{EvaluationKey, EvaluationKeys, KeyPurpose, PublicKey, SecretKey};
pub use live::{LiveCounter, LiveGuard};
pub use params::{CkksParameters, ParamsDigest};
pub use plaintext::Plaintext;

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
