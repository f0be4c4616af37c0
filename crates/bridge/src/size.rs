//! Bytes and flights of the boundary, as pure functions of the chain, for the plan.
//!
//! Bytes are payload and frame headers. Each crossing is one flight on its own. [`crate::extend`] ends with a message of the client,
//! so a [`crate::SharesToCkks`] that follows it directly adds no flight.

use cipherloom_ckks::size::{packed_poly_bytes, seeded_ciphertext_bytes};
use cipherloom_net::message_bytes;
use cipherloom_spec::CkksChain;

/// Ciphertexts of one message of a conversion to shares. Bounds what either party buffers: 13 MB at N = 2^15.
pub const TO_SHARES_BATCH: usize = 16;

/// Flights of a conversion to shares: the server's masked ciphertexts.
pub const TO_SHARES_FLIGHTS: u64 = 1;

/// Flights of a conversion to ciphertexts: the client's encryptions.
pub const TO_CKKS_FLIGHTS: u64 = 1;

/// Flights of an extension: the server's choices, the client's corrections.
pub const EXTEND_FLIGHTS: u64 = 2;

/// Bytes of the extension of `count` words: from server to client, and from client to server. Refills of the COT pool are
/// apart (`mpc`, offline).
#[must_use]
pub fn extend_bytes(count: usize) -> (u64, u64) {
    if count == 0 {
        return (0, 0);
    }
    (
        message_bytes(count.div_ceil(8) as u64),
        message_bytes(3 * count as u64),
    )
}

/// Bytes from server to client for `count` ciphertexts of degree `degree`: `degree + 1` polynomials modulo the base primes
/// each, in messages of up to [`TO_SHARES_BATCH`] ciphertexts. 0.82 MB a ciphertext at N = 2^15, q = 2^100, degree 1.
#[must_use]
pub fn to_shares_bytes(chain: &CkksChain, degree: usize, count: usize) -> u64 {
    let one = (degree + 1) * packed_poly_bytes(chain.n(), &chain.q()[..=chain.base_level()]);
    let batch = |n: usize| message_bytes((n * one) as u64);
    let rest = match count % TO_SHARES_BATCH {
        0 => 0,
        n => batch(n),
    };
    (count / TO_SHARES_BATCH) as u64 * batch(TO_SHARES_BATCH) + rest
}

/// Bytes from client to server for `count` ciphertexts at `level`: one message each, one polynomial and a seed.
#[must_use]
pub fn to_ckks_bytes(chain: &CkksChain, level: usize, count: usize) -> u64 {
    count as u64 * message_bytes(seeded_ciphertext_bytes(chain, level) as u64)
}
