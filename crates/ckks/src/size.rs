//! Exact sizes in bytes, as pure functions of the chain. The planner uses them; the encoders of
//! this crate produce exactly these lengths.

use cipherloom_ring::PackedPoly;
use cipherloom_spec::CkksChain;

/// Magic, version, kind, parameter digest.
pub const HEADER_BYTES: usize = 4 + 2 + 2 + 32;
/// A public 256-bit seed.
pub const SEED_BYTES: usize = 32;
/// Level, number of parts, scale (16-byte mantissa, 4-byte exponent).
pub const CIPHERTEXT_FIELDS_BYTES: usize = 2 + 2 + 20;
/// Level and scale.
pub const SEEDED_FIELDS_BYTES: usize = 2 + 20;
/// Galois element and highest level.
pub const KEY_FIELDS_BYTES: usize = 8 + 2;

/// Bytes of one polynomial modulo `primes`, every residue at ceil(log2 q) bits.
#[must_use]
pub fn packed_poly_bytes(n: usize, primes: &[u64]) -> usize {
    primes
        .iter()
        .map(|q| (n * (64 - q.leading_zeros()) as usize).div_ceil(8))
        .sum()
}

fn q_at(chain: &CkksChain, level: usize) -> &[u64] {
    let limbs = (level + 1).min(chain.q().len());
    &chain.q()[..limbs]
}

/// Bytes of an encoded public key.
#[must_use]
pub fn public_key_bytes(chain: &CkksChain) -> usize {
    HEADER_BYTES + SEED_BYTES + packed_poly_bytes(chain.n(), chain.q())
}

/// Bytes of one encoded evaluation key (relinearisation or Galois) that reaches up to `max_level`.
#[must_use]
pub fn evaluation_key_bytes(chain: &CkksChain, max_level: usize) -> usize {
    let digits = chain.digits(max_level.min(chain.top_level())).len();
    let b = packed_poly_bytes(chain.n(), chain.p())
        + packed_poly_bytes(chain.n(), q_at(chain, max_level));
    HEADER_BYTES + KEY_FIELDS_BYTES + digits * (SEED_BYTES + b)
}

/// Bytes of an encoded ciphertext with `parts` polynomials (2, or 3 before relinearisation).
#[must_use]
pub fn ciphertext_bytes(chain: &CkksChain, level: usize, parts: usize) -> usize {
    HEADER_BYTES
        + CIPHERTEXT_FIELDS_BYTES
        + parts * packed_poly_bytes(chain.n(), q_at(chain, level))
}

/// Bytes of an encoded seeded ciphertext: one polynomial and a seed.
#[must_use]
pub fn seeded_ciphertext_bytes(chain: &CkksChain, level: usize) -> usize {
    HEADER_BYTES
        + SEEDED_FIELDS_BYTES
        + SEED_BYTES
        + packed_poly_bytes(chain.n(), q_at(chain, level))
}

/// Bytes in memory of one ciphertext: 8 a residue.
#[must_use]
pub fn ciphertext_memory_bytes(chain: &CkksChain, level: usize, parts: usize) -> usize {
    parts * (level + 1) * chain.n() * 8
}

/// Bytes in memory of one plaintext: 8 a residue.
#[must_use]
pub fn plaintext_memory_bytes(chain: &CkksChain, level: usize) -> usize {
    (level + 1) * chain.n() * 8
}

/// Bytes in memory of one evaluation key that reaches up to `max_level`: two packed polynomials modulo all special primes and
/// `max_level + 1` ciphertext primes for each digit; a Galois key also holds its permutation tables, 8.5N bytes.
#[must_use]
pub fn evaluation_key_memory_bytes(chain: &CkksChain, max_level: usize, galois: bool) -> usize {
    let level = max_level.min(chain.top_level());
    let packed =
        packed_poly_bytes(chain.n(), chain.p()) + packed_poly_bytes(chain.n(), q_at(chain, level));
    let polys = 2 * chain.digits(level).len() * PackedPoly::memory_bytes_of(packed);
    polys + if galois { 17 * chain.n() / 2 } else { 0 }
}
