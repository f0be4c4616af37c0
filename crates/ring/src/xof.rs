//! Expansion of public seeds to uniform residues.
//!
//! This generator makes *public* polynomials only: the uniform part of a ciphertext or key, which
//! both parties expand from a transmitted seed. Secrets come from [`crate::SecretPrg`].

use crate::basis::Basis;
use crate::modulus::Modulus;
use crate::poly::{Poly, Repr};

/// Names the expansion. Change it whenever the expansion changes.
const CONTEXT: &str = "cipherloom 2026-11 ring public uniform expansion v1";

/// A 256-bit public seed. Each ciphertext and each key digit has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PublicSeed(pub [u8; 32]);

/// Expands a public seed; deterministic, the same on every platform.
///
/// Residue stream of prime q: BLAKE3 in XOF mode, key derivation context [`CONTEXT`], input
/// `seed | q (8 bytes LE)`, read as 64-bit little-endian words; a word below `floor(2^64/q) q` gives
/// the residue `word mod q`, others are skipped. Each prime has its own stream, so limbs expand in
/// parallel and a prefix of a basis gets a prefix of the limbs.
#[derive(Clone, Debug)]
pub struct UniformXof {
    seed: PublicSeed,
}

impl UniformXof {
    /// An expander for this seed.
    pub fn new(seed: PublicSeed) -> Self {
        Self { seed }
    }

    /// Fills `out` with uniform residues modulo `m`.
    pub fn fill(&self, m: &Modulus, out: &mut [u64]) {
        let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
        hasher.update(&self.seed.0);
        hasher.update(&m.value().to_le_bytes());
        let mut reader = hasher.finalize_xof();
        fill_uniform(m, out, |bytes| reader.fill(bytes));
    }

    /// A uniform polynomial over `basis`. In either representation it is the same uniform
    /// distribution; both parties must ask for the same one.
    pub fn poly<R: Repr>(&self, basis: &Basis) -> Poly<R> {
        let mut out = Poly::zero(basis);
        out.each(|b, i, limb| self.fill(b.modulus(i), limb));
        out
    }
}

/// Bytes drawn at a time.
const BLOCK: usize = 4096;

/// Uniform residues by rejection: words below the largest multiple of q, reduced. Accepts all but
/// q/2^64 of the words. Skipping depends on rejected words only, never on those that are used.
pub(crate) fn fill_uniform(m: &Modulus, out: &mut [u64], mut fill: impl FnMut(&mut [u8])) {
    let bound = m.one_quotient() * m.value();
    let mut block = [0u8; BLOCK];
    let mut filled = 0;
    while filled < out.len() {
        // The last block is cut to what is missing, so that no output is wasted.
        let want = (8 * (out.len() - filled)).min(BLOCK);
        fill(&mut block[..want]);
        for word in block[..want].chunks_exact(8) {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            let x = u64::from_le_bytes(bytes);
            if x < bound && filled < out.len() {
                out[filled] = m.reduce(x);
                filled += 1;
            }
        }
    }
    zeroize::Zeroize::zeroize(&mut block[..]);
}
