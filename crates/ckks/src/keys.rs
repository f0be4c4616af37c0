//! Key types. The secret key stays with the client; a server's session holds [`PublicKey`] and
//! [`EvaluationKeys`] only.

use std::collections::BTreeMap;
use std::sync::Arc;

use cipherloom_ring::{Automorphism, Ntt, PackedPoly, Poly, PublicSeed, SecretPoly};

use crate::error::CkksError;
use crate::params::{CkksParameters, ParamsDigest};

/// A uniform ternary secret. Wiped on drop; neither `Clone` nor serialisable: the client keeps the seed
/// that it was generated from.
#[derive(Debug)]
pub struct SecretKey {
    /// Over the special primes and all ciphertext primes.
    pub(crate) pq: SecretPoly<Ntt>,
    /// Over all ciphertext primes.
    pub(crate) q: SecretPoly<Ntt>,
    pub(crate) digest: ParamsDigest,
}

impl SecretKey {
    /// Digest of the parameters.
    #[must_use]
    pub fn digest(&self) -> ParamsDigest {
        self.digest
    }
}

/// A public key `(b = -a s + e, a)` modulo all ciphertext primes; `a` expands from a public seed.
#[derive(Clone, Debug, PartialEq)]
pub struct PublicKey {
    pub(crate) b: Poly<Ntt>,
    pub(crate) a: Poly<Ntt>,
    pub(crate) seed: PublicSeed,
    pub(crate) digest: ParamsDigest,
}

impl PublicKey {
    /// `b = -a s + e`, at the top level; take a prefix of the limbs for lower levels.
    #[must_use]
    pub fn b(&self) -> &Poly<Ntt> {
        &self.b
    }

    /// The uniform part, at the top level.
    #[must_use]
    pub fn a(&self) -> &Poly<Ntt> {
        &self.a
    }

    /// The seed of `a`. A server compares it with what its own nonce and the client's seed give.
    #[must_use]
    pub fn seed(&self) -> &PublicSeed {
        &self.seed
    }

    /// Digest of the parameters.
    #[must_use]
    pub fn digest(&self) -> ParamsDigest {
        self.digest
    }
}

/// What an evaluation key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyPurpose {
    /// From s^2 to s.
    Relinearization,
    /// The automorphism X -> X^g: a rotation, a conjugation, or both.
    Galois(u64),
}

impl KeyPurpose {
    /// The Galois element; 0 for relinearisation.
    #[must_use]
    pub fn code(self) -> u64 {
        match self {
            Self::Relinearization => 0,
            Self::Galois(g) => g,
        }
    }

    /// A name for messages, with the rotation amount.
    #[must_use]
    pub fn name(self, params: &CkksParameters) -> String {
        match self {
            Self::Relinearization => "relinearization".into(),
            Self::Galois(g) if g == params.conjugation_element() => "conjugation".into(),
            Self::Galois(g) => match params.rotation_of(g) {
                Some(k) => format!("rotation by {k}"),
                None => format!("automorphism {g}"),
            },
        }
    }
}

/// One digit of an evaluation key, over the special primes and q_0 ... q_max_level.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyDigit {
    pub(crate) b: PackedPoly,
    pub(crate) a: PackedPoly,
    pub(crate) seed: PublicSeed,
}

impl KeyDigit {
    /// `b = -a s_to + e + P g s_from`, g being 1 modulo the primes of the digit and 0 modulo all others; modulo the ciphertext primes
    /// all of it, `a` and `e` too, is divided by P: a switch ends in a division by P, which then is done.
    #[must_use]
    pub fn b(&self) -> &PackedPoly {
        &self.b
    }

    /// The uniform part (uniform divided by P is uniform).
    #[must_use]
    pub fn a(&self) -> &PackedPoly {
        &self.a
    }

    /// The seed of `a`.
    #[must_use]
    pub fn seed(&self) -> &PublicSeed {
        &self.seed
    }
}

/// A hybrid key-switching key for ciphertexts up to a level.
///
/// A Galois key for g switches from s to s(X^(1/g)), so that the automorphism is applied to the
/// two switched polynomials and not to every raised digit.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluationKey {
    pub(crate) purpose: KeyPurpose,
    pub(crate) name: String,
    pub(crate) max_level: usize,
    pub(crate) digits: Vec<KeyDigit>,
    pub(crate) automorphism: Option<Automorphism>,
    pub(crate) digest: ParamsDigest,
}

impl EvaluationKey {
    /// Assembles a key; builds the permutation tables of a Galois key.
    pub(crate) fn assemble(
        params: &CkksParameters,
        purpose: KeyPurpose,
        max_level: usize,
        digits: Vec<KeyDigit>,
    ) -> Result<Self, CkksError> {
        let automorphism = match purpose {
            KeyPurpose::Relinearization => None,
            KeyPurpose::Galois(g) => Some(Automorphism::new(params.n(), g)?),
        };
        Ok(Self {
            purpose,
            name: purpose.name(params),
            max_level,
            digits,
            automorphism,
            digest: params.digest(),
        })
    }

    /// What the key is for.
    #[must_use]
    pub fn purpose(&self) -> KeyPurpose {
        self.purpose
    }

    /// Highest level of a ciphertext that it can switch.
    #[must_use]
    pub fn max_level(&self) -> usize {
        self.max_level
    }

    /// The digits.
    #[must_use]
    pub fn digits(&self) -> &[KeyDigit] {
        &self.digits
    }

    /// Digest of the parameters.
    #[must_use]
    pub fn digest(&self) -> ParamsDigest {
        self.digest
    }

    /// Bytes in memory: [`crate::size::evaluation_key_memory_bytes`].
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let polys: usize = self
            .digits
            .iter()
            .map(|d| d.b.memory_bytes() + d.a.memory_bytes())
            .sum();
        polys + self.automorphism.as_ref().map_or(0, |a| a.memory_bytes())
    }

    pub(crate) fn check_reaches(&self, level: usize) -> Result<(), CkksError> {
        if level > self.max_level {
            return Err(CkksError::KeyLevel {
                operation: self.name.clone(),
                have: self.max_level,
                need: level,
            });
        }
        Ok(())
    }
}

/// The evaluation keys of one client, by purpose. Cloning shares the keys.
#[derive(Clone, Debug)]
pub struct EvaluationKeys {
    params: CkksParameters,
    keys: BTreeMap<KeyPurpose, Arc<EvaluationKey>>,
}

impl EvaluationKeys {
    /// No keys.
    #[must_use]
    pub fn new(params: &CkksParameters) -> Self {
        Self {
            params: params.clone(),
            keys: BTreeMap::new(),
        }
    }

    /// Adds a key; one for the same purpose is replaced.
    ///
    /// # Errors
    /// `ParamsMismatch`.
    pub fn insert(&mut self, key: impl Into<Arc<EvaluationKey>>) -> Result<(), CkksError> {
        let key = key.into();
        self.params.check_digest("evaluation key", key.digest())?;
        self.keys.insert(key.purpose(), key);
        Ok(())
    }

    /// The key for a purpose.
    ///
    /// # Errors
    /// `MissingKey`, which names the rotation.
    pub fn key(&self, purpose: KeyPurpose) -> Result<&EvaluationKey, CkksError> {
        match self.keys.get(&purpose) {
            Some(k) => Ok(k),
            None => Err(CkksError::MissingKey {
                operation: purpose.name(&self.params),
                galois: purpose.code(),
                held: self.keys.len(),
            }),
        }
    }

    /// Whether there is a key for this purpose.
    #[must_use]
    pub fn contains(&self, purpose: KeyPurpose) -> bool {
        self.keys.contains_key(&purpose)
    }

    /// The left rotations in 1..slots for which there are keys, ascending.
    #[must_use]
    pub fn rotations(&self) -> Vec<usize> {
        // One walk through the powers of 5 finds all of them.
        let mask = 2 * self.params.n() as u64 - 1;
        let mut power = 1u64;
        let mut found = Vec::new();
        for k in 0..self.params.slots() {
            if k > 0 && self.contains(KeyPurpose::Galois(power)) {
                found.push(k);
            }
            power = power.wrapping_mul(5) & mask;
        }
        found
    }

    /// All keys, relinearisation first, then by Galois element.
    pub fn iter(&self) -> impl Iterator<Item = &EvaluationKey> {
        self.keys.values().map(|k| &**k)
    }

    /// Number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Bytes in memory of all keys.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.iter().map(EvaluationKey::memory_bytes).sum()
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> &CkksParameters {
        &self.params
    }
}
