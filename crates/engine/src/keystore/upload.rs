//! Keys on their way in: each is checked against the list, decoded, hashed and handed on.

use super::list::at;
use super::{Fingerprint, FingerprintHasher, KeyKind, KeyList, KeyStoreError, PRODUCTS, RINGS};
use crate::handshake::SessionId;
use crate::keys::{ServerKeys, ServerRing};
use crate::EngineError;
use cipherloom_ckks::{EvaluationKey, EvaluationKeys, PublicKey};
use cipherloom_mpc::rlwe::ProductPublicKey;
use cipherloom_net::{Channel, FrameKind};
use cipherloom_ring::PublicSeed;
use std::sync::Arc;

/// Decoded keys of one client, shared by its sessions.
pub(crate) struct Held {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) list: Arc<KeyList>,
    public: [PublicKey; 2],
    keys: [Arc<EvaluationKeys>; 2],
    product: ProductPublicKey,
}

/// A client's keys with the right to use them: while it lives, the store does not evict them. Cloning shares keys and right.
#[derive(Clone)]
pub struct StoredKeys {
    held: Arc<Held>,
    /// The store's entry; none when nothing keeps the keys beyond this value.
    lease: Option<Arc<dyn Send + Sync>>,
}

impl std::fmt::Debug for StoredKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoredKeys({:?})", self.held.fingerprint)
    }
}

impl StoredKeys {
    pub(crate) fn new(held: Arc<Held>, lease: Option<Arc<dyn Send + Sync>>) -> Self {
        Self { held, lease }
    }

    /// Their name.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.held.fingerprint
    }

    /// Whether a store holds them for the next session.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.lease.is_some()
    }

    /// Bytes in memory of all keys.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.held.list.memory_bytes()
    }

    /// The public key of the products, for a session.
    #[must_use]
    pub fn product_key(&self) -> ProductPublicKey {
        self.held.product.clone()
    }

    /// The CKKS keys for a session; evaluation keys and tables are shared, not copied. Keep `self` while the session runs.
    #[must_use]
    pub fn server_keys(&self) -> ServerKeys {
        let ring = |r| ServerRing {
            params: self.held.list.params(r).clone(),
            public: self.held.public[at(r)].clone(),
            keys: Arc::clone(&self.held.keys[at(r)]),
        };
        let [projection, scan] = RINGS.map(ring);
        ServerKeys { projection, scan }
    }
}

/// Seeds that the uniform parts of public keys must have: those of the session in which they are sent.
pub(crate) struct SessionSeeds {
    rings: [PublicSeed; 2],
    products: PublicSeed,
}

impl SessionSeeds {
    fn of(session: &SessionId) -> Self {
        Self {
            rings: RINGS.map(|r| session.public_seed(r.name())),
            products: session.public_seed(PRODUCTS),
        }
    }
}

fn check_seed(
    ring: &'static str,
    got: &PublicSeed,
    expected: Option<&PublicSeed>,
) -> Result<(), KeyStoreError> {
    match expected {
        Some(e) if e != got => Err(KeyStoreError::PublicSeed { ring }),
        _ => Ok(()),
    }
}

/// Decodes the objects of a list one by one and hashes them.
pub(crate) struct Assembly {
    list: Arc<KeyList>,
    next: usize,
    failed: bool,
    hasher: FingerprintHasher,
    public: [Option<PublicKey>; 2],
    keys: [EvaluationKeys; 2],
    product: Option<ProductPublicKey>,
}

impl Assembly {
    pub(crate) fn new(list: &Arc<KeyList>) -> Self {
        Self {
            next: 0,
            failed: false,
            hasher: FingerprintHasher::new(list),
            public: [None, None],
            keys: RINGS.map(|r| EvaluationKeys::new(list.params(r))),
            product: None,
            list: Arc::clone(list),
        }
    }

    pub(crate) fn next_len(&self) -> Option<usize> {
        self.list.keys().get(self.next).map(|k| k.bytes)
    }

    /// Takes the next object. After an error nothing more is accepted.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        seeds: Option<&SessionSeeds>,
    ) -> Result<(), KeyStoreError> {
        let done = self.checked(bytes, seeds);
        self.failed |= done.is_err();
        done
    }

    fn checked(&mut self, bytes: &[u8], seeds: Option<&SessionSeeds>) -> Result<(), KeyStoreError> {
        let (index, total) = (self.next, self.list.keys().len());
        if self.failed {
            return Err(KeyStoreError::Incomplete { have: index, total });
        }
        let Some(&listed) = self.list.keys().get(index) else {
            return Err(KeyStoreError::Surplus { total });
        };
        if bytes.len() != listed.bytes {
            return Err(KeyStoreError::Length {
                index,
                total,
                got: bytes.len(),
                expected: listed.bytes,
            });
        }
        match listed.kind {
            KeyKind::Public { ring } => {
                let key = PublicKey::from_bytes(self.list.params(ring), bytes)?;
                let seed = seeds.map(|s| &s.rings[at(ring)]);
                check_seed(ring.name(), key.seed(), seed)?;
                self.public[at(ring)] = Some(key);
            }
            KeyKind::Product => {
                let key = ProductPublicKey::from_bytes(self.list.products(), bytes)?;
                check_seed(PRODUCTS, key.seed(), seeds.map(|s| &s.products))?;
                self.product = Some(key);
            }
            KeyKind::Evaluation {
                ring,
                purpose,
                max_level,
            } => {
                let params = self.list.params(ring);
                let key = EvaluationKey::from_bytes(params, bytes)?;
                if key.purpose() != purpose || key.max_level() != max_level {
                    let name = |p: cipherloom_ckks::KeyPurpose, level: usize| {
                        format!("{} {} up to level {level}", ring.name(), p.name(params))
                    };
                    return Err(KeyStoreError::Key {
                        index,
                        total,
                        got: name(key.purpose(), key.max_level()),
                        expected: name(purpose, max_level),
                    });
                }
                self.keys[at(ring)].insert(key)?;
            }
        }
        self.hasher.update(bytes);
        self.next += 1;
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<Arc<Held>, KeyStoreError> {
        let incomplete = KeyStoreError::Incomplete {
            have: self.next,
            total: self.list.keys().len(),
        };
        if self.failed || self.next != self.list.keys().len() {
            return Err(incomplete);
        }
        let ([Some(projection), Some(scan)], Some(product)) = (self.public, self.product) else {
            return Err(incomplete);
        };
        Ok(Arc::new(Held {
            fingerprint: self.hasher.finish(),
            list: self.list,
            public: [projection, scan],
            keys: self.keys.map(Arc::new),
            product,
        }))
    }
}

/// Where a store puts the objects of an upload. Dropping it before `commit` undoes everything.
pub(crate) trait Sink: Send {
    /// The next object, already checked.
    fn write(&mut self, object: &[u8]) -> Result<(), KeyStoreError>;
    /// All objects are there: makes the entry visible and returns the right to use it.
    fn commit(self: Box<Self>, held: &Arc<Held>) -> Result<StoredKeys, KeyStoreError>;
}

/// Keeps nothing beyond the session.
struct Unkept;

impl Sink for Unkept {
    fn write(&mut self, _object: &[u8]) -> Result<(), KeyStoreError> {
        Ok(())
    }

    fn commit(self: Box<Self>, held: &Arc<Held>) -> Result<StoredKeys, KeyStoreError> {
        Ok(StoredKeys::new(Arc::clone(held), None))
    }
}

/// One client's keys arriving. Dropped before [`KeyUpload::finish`], it leaves nothing behind.
pub struct KeyUpload {
    assembly: Assembly,
    seeds: SessionSeeds,
    sink: Box<dyn Sink>,
}

impl KeyUpload {
    pub(crate) fn new(list: &Arc<KeyList>, session: &SessionId, sink: Box<dyn Sink>) -> Self {
        Self {
            assembly: Assembly::new(list),
            seeds: SessionSeeds::of(session),
            sink,
        }
    }

    /// An upload that no store keeps: the keys live as long as the session.
    #[must_use]
    pub fn unkept(list: &Arc<KeyList>, session: &SessionId) -> Self {
        Self::new(list, session, Box::new(Unkept))
    }

    /// Exact length of the next object; `None` when all are there. Receive no more than that.
    #[must_use]
    pub fn next_len(&self) -> Option<usize> {
        self.assembly.next_len()
    }

    /// Takes the next object: a public or an evaluation key as encoded.
    ///
    /// # Errors
    /// Another length, key or seed than planned, bytes that do not decode, a file that cannot be written. Nothing more is
    /// accepted after an error.
    pub fn push(&mut self, object: &[u8]) -> Result<(), KeyStoreError> {
        self.assembly.push(object, Some(&self.seeds))?;
        let written = self.sink.write(object);
        self.assembly.failed |= written.is_err();
        written
    }

    /// Receives all objects from the client, each with its exact length, and finishes.
    ///
    /// # Errors
    /// Transport errors; those of [`Self::push`] and [`Self::finish`].
    pub fn receive(mut self, channel: &mut Channel) -> Result<StoredKeys, EngineError> {
        while let Some(len) = self.next_len() {
            let object = channel.recv(FrameKind::Setup, len)?;
            self.push(&object)?;
        }
        Ok(self.finish()?)
    }

    /// Computes the fingerprint and stores the keys under it.
    ///
    /// # Errors
    /// `Incomplete`; a file that cannot be written.
    pub fn finish(self) -> Result<StoredKeys, KeyStoreError> {
        let held = self.assembly.finish()?;
        self.sink.commit(&held)
    }
}
