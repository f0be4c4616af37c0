//! The messages of the two crossings between ciphertexts and shares (`bridge`), and the sizes of what crosses (`ckks::size`).

use super::ledger::{Ledger, Side};
use cipherloom_spec::CkksChain;

/// Mirrors `ckks::size::HEADER_BYTES`: magic, version, kind, parameter digest.
pub const CKKS_HEADER_BYTES: u64 = 4 + 2 + 2 + 32;
/// Mirrors `ckks::size::SEED_BYTES`.
pub const CKKS_SEED_BYTES: u64 = 32;
/// Mirrors `ckks::size::SEEDED_FIELDS_BYTES`: level and scale.
pub const CKKS_SEEDED_FIELDS_BYTES: u64 = 2 + 20;
/// Mirrors `ckks::size::KEY_FIELDS_BYTES`: Galois element and highest level.
pub const CKKS_KEY_FIELDS_BYTES: u64 = 8 + 2;
/// Mirrors `bridge::to_shares::BATCH`: ciphertexts of one message to the client.
pub const EXPORT_BATCH: usize = 16;

/// Bytes of one polynomial modulo `primes`. Mirrors `ckks::size::packed_poly_bytes`.
#[must_use]
pub fn packed_poly_bytes(n: usize, primes: &[u64]) -> u64 {
    primes
        .iter()
        .map(|q| (n as u64 * u64::from(64 - q.leading_zeros())).div_ceil(8))
        .sum()
}

fn q_at(chain: &CkksChain, level: usize) -> &[u64] {
    let limbs = (level + 1).min(chain.q().len());
    &chain.q()[..limbs]
}

/// Bytes of one exported ciphertext of degree `degree`: modulo the base primes, without header.
#[must_use]
pub fn export_bytes(chain: &CkksChain, degree: usize) -> u64 {
    (degree as u64 + 1) * packed_poly_bytes(chain.n(), q_at(chain, chain.base_level()))
}

/// Bytes of one seeded encryption at `level`. Mirrors `ckks::size::seeded_ciphertext_bytes`.
#[must_use]
pub fn seeded_ciphertext_bytes(chain: &CkksChain, level: usize) -> u64 {
    CKKS_HEADER_BYTES
        + CKKS_SEEDED_FIELDS_BYTES
        + CKKS_SEED_BYTES
        + packed_poly_bytes(chain.n(), q_at(chain, level))
}

/// Bytes of an encoded public key. Mirrors `ckks::size::public_key_bytes`.
#[must_use]
pub fn public_key_bytes(chain: &CkksChain) -> u64 {
    CKKS_HEADER_BYTES + CKKS_SEED_BYTES + packed_poly_bytes(chain.n(), chain.q())
}

/// Bytes of an encoded evaluation key that reaches up to `max_level`. Mirrors `ckks::size::evaluation_key_bytes`.
#[must_use]
pub fn evaluation_key_bytes(chain: &CkksChain, max_level: usize) -> u64 {
    let digits = chain.digits(max_level.min(chain.top_level())).len() as u64;
    let b = packed_poly_bytes(chain.n(), chain.p())
        + packed_poly_bytes(chain.n(), q_at(chain, max_level));
    CKKS_HEADER_BYTES + CKKS_KEY_FIELDS_BYTES + digits * (CKKS_SEED_BYTES + b)
}

impl Ledger {
    /// `CkksToShares`: the server sends `count` masked ciphertexts of `ciphertext_bytes` each ([`export_bytes`]), 16 a message.
    pub fn to_shares(&mut self, count: usize, ciphertext_bytes: u64) {
        let (full, last) = (count / EXPORT_BATCH, count % EXPORT_BATCH);
        let bytes = EXPORT_BATCH as u64 * ciphertext_bytes;
        self.messages(Side::Server, bytes, full as u64);
        self.messages(
            Side::Server,
            last as u64 * ciphertext_bytes,
            u64::from(last > 0),
        );
    }

    /// `SharesToCkks`: the client sends `count` encryptions of `ciphertext_bytes` each ([`seeded_ciphertext_bytes`]), one a
    /// message. Extend the shares first ([`Ledger::extend_64_88`]) unless they are integer shares.
    pub fn to_ckks(&mut self, count: usize, ciphertext_bytes: u64) {
        self.messages(Side::Client, ciphertext_bytes, count as u64);
    }
}
