//! Which keys a client sends, in which order, and how long each is: from the plan, before a byte arrives.

use super::KeyStoreError;
use cipherloom_ckks::{size, CkksParameters, KeyPurpose};
use cipherloom_mpc::rlwe::{ProductPublicKey, RlweParameters};
use cipherloom_plan::{KeyRequest, Plan, Ring};
use std::sync::Arc;

/// Both CKKS rings, in the order in which their keys are sent.
pub const RINGS: [Ring; 2] = [Ring::Projection, Ring::Scan];

/// Name of the product ring's keys: of the client's seed for them, and of the session's seed of their uniform part.
pub const PRODUCTS: &str = "products";

/// One object of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// The public key of a CKKS ring.
    Public {
        /// Ring.
        ring: Ring,
    },
    /// An evaluation key up to a level.
    Evaluation {
        /// Ring.
        ring: Ring,
        /// What it is for.
        purpose: KeyPurpose,
        /// Highest level at which it is used.
        max_level: usize,
    },
    /// The public key of the RLWE products, which have a ring and a secret of their own.
    Product,
}

impl KeyKind {
    /// The CKKS ring; none for the key of the products.
    #[must_use]
    pub fn ring(&self) -> Option<Ring> {
        match self {
            Self::Public { ring } | Self::Evaluation { ring, .. } => Some(*ring),
            Self::Product => None,
        }
    }
}

/// One object with its exact length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedKey {
    /// What it is.
    pub kind: KeyKind,
    /// Bytes of its encoding.
    pub bytes: usize,
}

/// The keys of a plan: for each CKKS ring the public key, then relinearisation, conjugation and rotations; last the public
/// key of the products.
#[derive(Debug)]
pub struct KeyList {
    params: [CkksParameters; 2],
    products: RlweParameters,
    keys: Vec<ListedKey>,
    total: u64,
    memory: u64,
    digest: [u8; 32],
}

/// Position of a ring in arrays.
pub(crate) fn at(ring: Ring) -> usize {
    match ring {
        Ring::Projection => 0,
        Ring::Scan => 1,
    }
}

impl KeyList {
    /// The list of a plan. Builds the tables of all rings.
    ///
    /// # Errors
    /// Parameters that the plan should have refused.
    pub fn of(plan: &Plan) -> Result<Arc<Self>, KeyStoreError> {
        let params = |ring| CkksParameters::new(plan.chain(ring).clone());
        Ok(Self::new(
            [params(Ring::Projection)?, params(Ring::Scan)?],
            [plan.keys(Ring::Projection), plan.keys(Ring::Scan)],
            RlweParameters::crt64()?,
        ))
    }

    /// A list over any rings. For tests with toy rings only: gives no security.
    #[must_use]
    pub fn insecure_for_tests(
        params: [CkksParameters; 2],
        requests: [&KeyRequest; 2],
        products: RlweParameters,
    ) -> Arc<Self> {
        Self::new(params, requests, products)
    }

    fn new(
        params: [CkksParameters; 2],
        requests: [&KeyRequest; 2],
        products: RlweParameters,
    ) -> Arc<Self> {
        let mut keys = Vec::new();
        let mut memory = 0u64;
        for ((p, r), ring) in params.iter().zip(requests).zip(RINGS) {
            let chain = p.chain();
            keys.push(ListedKey {
                kind: KeyKind::Public { ring },
                bytes: size::public_key_bytes(chain),
            });
            memory += size::ciphertext_memory_bytes(chain, chain.top_level(), 2) as u64;
            let mut add = |purpose: KeyPurpose, max_level: usize| {
                keys.push(ListedKey {
                    kind: KeyKind::Evaluation {
                        ring,
                        purpose,
                        max_level,
                    },
                    bytes: size::evaluation_key_bytes(chain, max_level),
                });
                let galois = purpose != KeyPurpose::Relinearization;
                memory += size::evaluation_key_memory_bytes(chain, max_level, galois) as u64;
            };
            if let Some(level) = r.relinearization {
                add(KeyPurpose::Relinearization, level);
            }
            if let Some(level) = r.conjugation {
                add(KeyPurpose::Galois(p.conjugation_element()), level);
            }
            for k in &r.rotations {
                add(
                    KeyPurpose::Galois(p.galois_element(k.rotation as i64)),
                    k.max_level,
                );
            }
        }
        keys.push(ListedKey {
            kind: KeyKind::Product,
            bytes: ProductPublicKey::encoded_bytes(&products),
        });
        memory += ProductPublicKey::memory_bytes(&products) as u64;
        let total = keys.iter().map(|k| k.bytes as u64).sum();
        let digest = digest(&params, &product_ring(&products), &keys);
        Arc::new(Self {
            params,
            products,
            keys,
            total,
            memory,
            digest,
        })
    }

    /// The objects in order.
    #[must_use]
    pub fn keys(&self) -> &[ListedKey] {
        &self.keys
    }

    /// Bytes of all encodings.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.total
    }

    /// Bytes in memory of all keys once decoded: about three times their encodings.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.memory
    }

    /// The parameters of the products.
    #[must_use]
    pub fn products(&self) -> &RlweParameters {
        &self.products
    }

    /// The parameters of a CKKS ring.
    #[must_use]
    pub fn params(&self, ring: Ring) -> &CkksParameters {
        &self.params[at(ring)]
    }

    /// Digest over rings, order, purposes, levels and lengths. Two plans with one digest share a client's keys.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }
}

/// What a product key depends on: degree, number of primes of its public key, and all primes of its secret, those of the
/// public key first.
pub(crate) fn product_ring(p: &RlweParameters) -> Vec<u64> {
    let q = p.upload_basis();
    let counts = [q.n() as u64, p.export_basis().len() as u64, q.len() as u64];
    let primes = q.moduli().map(|m| m.value());
    counts.into_iter().chain(primes).collect()
}

fn digest(params: &[CkksParameters; 2], products: &[u64], keys: &[ListedKey]) -> [u8; 32] {
    let mut h = blake3::Hasher::new_derive_key("cipherloom key list v2");
    for p in params {
        h.update(&p.digest().0);
    }
    for word in products {
        h.update(&word.to_le_bytes());
    }
    for k in keys {
        let (ring, kind, code, level) = match k.kind {
            KeyKind::Public { ring } => (at(ring), 0u64, 0, 0),
            KeyKind::Evaluation {
                ring,
                purpose,
                max_level,
            } => (at(ring), 1, purpose.code(), max_level as u64),
            KeyKind::Product => (2, 2, 0, 0),
        };
        for word in [ring as u64, kind, code, level, k.bytes as u64] {
            h.update(&word.to_le_bytes());
        }
    }
    *h.finalize().as_bytes()
}
