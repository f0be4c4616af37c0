//! Ciphertexts.

use std::sync::Arc;

use cipherloom_ring::{Ntt, Poly, PublicSeed, UniformXof};
use cipherloom_spec::Scale;

use crate::error::CkksError;
use crate::live::{LiveCounter, LiveGuard};
use crate::params::{CkksParameters, ParamsDigest};
use crate::plaintext::check_basis;
use crate::scratch::PolyPool;

/// A CKKS ciphertext `(c0, c1)` or, before relinearisation, `(c0, c1, c2)`, in NTT form modulo
/// q_0 ... q_level. Decryption is `c0 + c1 s + c2 s^2`.
#[derive(Clone, Debug)]
pub struct Ciphertext {
    parts: Vec<Poly<Ntt>>,
    scale: Scale,
    digest: ParamsDigest,
    live: Option<LiveGuard>,
    /// Where the polynomials go when the ciphertext is dropped.
    home: Option<Arc<PolyPool>>,
}

impl Drop for Ciphertext {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.give(std::mem::take(&mut self.parts));
        }
    }
}

/// Same polynomials, scale and parameters; live counting is not compared.
impl PartialEq for Ciphertext {
    fn eq(&self, o: &Self) -> bool {
        self.digest == o.digest && self.scale == o.scale && self.parts == o.parts
    }
}

impl Ciphertext {
    /// Assembles a ciphertext from its polynomials.
    ///
    /// # Errors
    /// `Parts` unless there are 2 or 3, basis or level mismatch between them.
    pub fn from_parts(
        params: &CkksParameters,
        parts: Vec<Poly<Ntt>>,
        scale: Scale,
    ) -> Result<Self, CkksError> {
        if !(2..=3).contains(&parts.len()) {
            return Err(CkksError::Parts {
                op: "from_parts",
                got: parts.len(),
                expected: 2,
            });
        }
        let level = check_basis(params, &parts[0])?;
        for part in &parts[1..] {
            let other = check_basis(params, part)?;
            if other != level {
                return Err(CkksError::LevelMismatch {
                    op: "from_parts",
                    left: level,
                    right: other,
                });
            }
        }
        Ok(Self::raw(parts, scale, params.digest()))
    }

    /// The caller has checked the parts.
    pub(crate) fn raw(parts: Vec<Poly<Ntt>>, scale: Scale, digest: ParamsDigest) -> Self {
        Self {
            parts,
            scale,
            digest,
            live: None,
            home: None,
        }
    }

    pub(crate) fn set_home(&mut self, home: &Arc<PolyPool>) {
        self.home = Some(home.clone());
    }

    /// The polynomials.
    #[must_use]
    pub fn parts(&self) -> &[Poly<Ntt>] {
        &self.parts
    }

    pub(crate) fn parts_mut(&mut self) -> &mut Vec<Poly<Ntt>> {
        &mut self.parts
    }

    /// Takes the polynomials out.
    #[must_use]
    pub fn into_parts(mut self) -> Vec<Poly<Ntt>> {
        std::mem::take(&mut self.parts)
    }

    /// Level: number of limbs minus one.
    #[must_use]
    pub fn level(&self) -> usize {
        self.parts[0].limbs() - 1
    }

    /// Scale.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.scale
    }

    pub(crate) fn set_scale(&mut self, scale: Scale) {
        self.scale = scale;
    }

    /// Digest of the parameters.
    #[must_use]
    pub fn digest(&self) -> ParamsDigest {
        self.digest
    }

    /// Counts this ciphertext in `counter` until it is dropped (replacing an earlier registration).
    pub fn track(&mut self, counter: &LiveCounter) {
        self.live = Some(counter.register());
    }

    /// Bytes in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.parts
            .iter()
            .map(|p| p.limbs() * p.n() * 8)
            .sum::<usize>()
    }
}

/// A fresh secret-key encryption with its uniform part replaced by the seed it expands from:
/// half the bytes of a ciphertext.
#[derive(Clone, Debug, PartialEq)]
pub struct SeededCiphertext {
    c0: Poly<Ntt>,
    seed: PublicSeed,
    scale: Scale,
    digest: ParamsDigest,
}

impl SeededCiphertext {
    pub(crate) fn raw(c0: Poly<Ntt>, seed: PublicSeed, scale: Scale, digest: ParamsDigest) -> Self {
        Self {
            c0,
            seed,
            scale,
            digest,
        }
    }

    /// The first polynomial.
    #[must_use]
    pub fn c0(&self) -> &Poly<Ntt> {
        &self.c0
    }

    /// The seed of the second one.
    #[must_use]
    pub fn seed(&self) -> &PublicSeed {
        &self.seed
    }

    /// Level: number of limbs minus one.
    #[must_use]
    pub fn level(&self) -> usize {
        self.c0.limbs() - 1
    }

    /// Scale.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// Digest of the parameters.
    #[must_use]
    pub fn digest(&self) -> ParamsDigest {
        self.digest
    }

    /// Expands the seed: the ciphertext `(c0, a)`.
    ///
    /// # Errors
    /// `ParamsMismatch`.
    pub fn expand(&self, params: &CkksParameters) -> Result<Ciphertext, CkksError> {
        params.check_digest("seeded ciphertext", self.digest)?;
        let a = UniformXof::new(self.seed).poly(&params.basis(self.level())?);
        Ok(Ciphertext::raw(
            vec![self.c0.clone(), a],
            self.scale,
            self.digest,
        ))
    }
}
