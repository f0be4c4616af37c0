//! Leveled CKKS: encoder, keys, encryption, evaluator, key switching.
//!
//! - [`CkksParameters`]: a checked chain with all tables; everything else is built from it.
//! - [`Encoder`]: complex slots to polynomials and back.
//! - [`KeyGenerator`], [`SecretKey`], [`PublicKey`], [`EvaluationKey`]: the client's side of the keys;
//!   [`EvaluationKeys`]: the server's.
//! - [`Encryptor`] (public key), [`SecretEncryptor`] (seeded, half the bytes), [`Decryptor`].
//! - [`Evaluator`]: operations on [`Ciphertext`]s, with exact levels and scales, counted.
//! - [`size`]: bytes of every object as pure functions of the chain.
//!
//! Levels and scales. A ciphertext at level `l` lives modulo `q_0 ... q_l`. Operands must agree in level and scale
//! (see `cipherloom_spec::chain`); nothing is adjusted silently. A product multiplies the scales, a
//! rescale divides by `q_l` and goes to level `l - 1`.
//!
//! Key switching is hybrid (Han, Ki 2019, ePrint 2019/688): digits of `alpha` consecutive primes, special modulus P.

pub mod ciphertext;
pub mod complex;
pub mod counter;
pub mod decrypt;
pub mod encoder;
pub mod encrypt;
pub mod error;
pub mod evaluator;
mod fft;
pub mod format;
pub mod keygen;
pub mod keys;
mod keyswitch;
pub mod live;
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
