//! Exact products of additive shares by one-sided RLWE (protocols.md R3, R13, R19).
//!
//! The client encrypts its share vectors in SIMD slots modulo NTT primes `t_i`; the server multiplies by its own
//! shares, adds, switches to a smaller modulus, and answers through [`crate::export`]. What the client decrypts and
//! what the server masked with are shares of the sum modulo `t_i`.
//!
//! - [`bounds`], [`params`]: parameter sets, failure probability, sizes.
//! - [`scaling`], [`crt`]: exact arithmetic between `Z_q`, `Z_t` and `Z_2^64`.
//! - [`keys`], [`cipher`]: the client's key, uploads.
//! - [`sums`]: sums of products modulo the `t_i`, both parties' sides.
//! - [`crt_products`]: products of words modulo 2^64 over several primes.
//! - [`zt`]: shares modulo one prime, with lifts both ways.

pub mod bounds;
pub mod cipher;
mod cot_mod;
pub mod crt;
pub mod crt_products;
pub mod keys;
pub mod params;
pub mod scaling;
pub mod sums;
pub mod zt;

pub use crt_products::CrtProducts;
pub use keys::{ProductKey, ProductPublicKey};
pub use params::{RlweLiteral, RlweParameters};
pub use sums::{ClientSums, ServerSums};
pub use zt::{ZtProducts, ZtShares};

use crate::MpcError;
use cipherloom_ring::RingError;

/// Names the operation in a ring error.
pub(crate) fn ring_error(op: &'static str) -> impl Fn(RingError) -> MpcError + Copy {
    move |e| MpcError::Ring {
        op,
        detail: e.to_string(),
    }
}

/// Fresh randomness of one purpose from the session's generator.
pub(crate) fn fork_seed(session: &mut crate::Session) -> cipherloom_ring::SecretSeed {
    let mut bytes = zeroize::Zeroizing::new([0; 32]);
    session.prg().fork("rlwe products").fill_bytes(&mut *bytes);
    cipherloom_ring::SecretSeed::from_bytes(*bytes)
}

#[cfg(test)]
mod recovery_tests;
