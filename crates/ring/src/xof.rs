//! Expansion of public seeds to uniform residues.
//!
//! This generator makes *public* polynomials only: the uniform part of a ciphertext or key, which
//! both parties expand from a transmitted seed. Secrets come from [`crate::SecretPrg`].

use crate::backend::{Backend, ScalarBackend};
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
/// Residue stream of prime q: BLAKE3 in XOF mode, key derivation context
/// `cipherloom 2026-11 ring public uniform expansion v1`, input `seed | q (8 bytes LE)`, read as 64-bit little-endian words; a word below `floor(2^64/q) q` gives
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
        self.fill_with(&ScalarBackend, m, out);
    }

    fn fill_with(&self, backend: &dyn Backend, m: &Modulus, out: &mut [u64]) {
        let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
        hasher.update(&self.seed.0);
        hasher.update(&m.value().to_le_bytes());
        let mut reader = hasher.finalize_xof();
        fill_uniform(backend, m, out, |bytes| reader.fill(bytes));
    }

    /// Limb `i` of [`UniformXof::poly`], with the kernels of the basis. `i` must be below its length (a programming error
    /// otherwise).
    pub fn fill_limb(&self, basis: &Basis, i: usize, out: &mut [u64]) {
        self.fill_with(basis.backend(), basis.modulus(i), out);
    }

    /// A uniform polynomial over `basis`. In either representation it is the same uniform
    /// distribution; both parties must ask for the same one.
    pub fn poly<R: Repr>(&self, basis: &Basis) -> Poly<R> {
        let mut out = Poly::zero(basis);
        out.each(|b, i, limb| self.fill_limb(b, i, limb));
        out
    }
}

/// Uniform residues by rejection: words below the largest multiple of q, reduced. Accepts all but
/// q/2^64 of the words. Skipping depends on rejected words only, never on those that are used.
pub(crate) fn fill_uniform(
    backend: &dyn Backend,
    m: &Modulus,
    out: &mut [u64],
    mut fill: impl FnMut(&mut [u8]),
) {
    let bound = m.one_quotient() * m.value();
    let mut filled = 0;
    while filled < out.len() {
        fill(bytemuck::cast_slice_mut(&mut out[filled..]));
        // Accepted words move up over rejected ones; what is missing is drawn again.
        let mut kept = filled;
        for i in filled..out.len() {
            let x = u64::from_le(out[i]);
            out[kept] = x;
            kept += usize::from(x < bound);
        }
        filled = kept;
    }
    backend.reduce_assign(m, out);
}
