//! The store in memory: for a server that runs once and shortly, such as that of the demo.

use super::quota::{Quota, Weighed};
use super::upload::{Held, Sink};
use super::{
    Fingerprint, KeyList, KeyStore, KeyStoreError, KeyUpload, Lookup, StoreLimits, StoreUsage,
    StoreWarning, StoredKeys,
};
use crate::handshake::SessionId;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

impl Weighed for Held {
    fn bytes(&self) -> u64 {
        self.list.memory_bytes()
    }
}

struct Shared {
    state: Mutex<Quota<Held>>,
}

/// Decoded keys in memory, under quotas (of bytes in memory), least recently used first to go. Cloning shares the store.
#[derive(Clone)]
pub struct MemoryKeyStore {
    shared: Arc<Shared>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Quota<Held>> {
        // The state is changed in steps that cannot panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryKeyStore {
    /// An empty store.
    ///
    /// # Errors
    /// `Limits` when nothing would fit.
    pub fn new(limits: StoreLimits) -> Result<Self, KeyStoreError> {
        let state = Mutex::new(Quota::new(limits)?);
        Ok(Self {
            shared: Arc::new(Shared { state }),
        })
    }
}

impl KeyStore for MemoryKeyStore {
    fn load(&self, fingerprint: &Fingerprint, list: &Arc<KeyList>) -> Lookup {
        let mut state = self.shared.lock();
        let other = |held: &Arc<Held>| held.list.digest() != list.digest();
        if state.get(fingerprint).is_some_and(other) {
            return Lookup {
                keys: None,
                warning: Some(StoreWarning::OtherPlan {
                    fingerprint: *fingerprint,
                }),
            };
        }
        Lookup {
            keys: state.use_now(fingerprint).map(|(_, held)| stored(&held)),
            warning: None,
        }
    }

    fn begin(&self, list: &Arc<KeyList>, session: &SessionId) -> Result<KeyUpload, KeyStoreError> {
        let need = list.memory_bytes();
        self.shared.lock().reserve(need, |_| Ok(()))?;
        let sink = MemorySink {
            shared: Arc::clone(&self.shared),
            need,
            reserved: true,
        };
        Ok(KeyUpload::new(list, session, Box::new(sink)))
    }

    fn usage(&self) -> StoreUsage {
        self.shared.lock().usage()
    }
}

/// The keys are their own lease: the store sees that somebody else holds them.
fn stored(held: &Arc<Held>) -> StoredKeys {
    StoredKeys::new(Arc::clone(held), Some(Arc::clone(held) as _))
}

/// A share of the quota, given back on drop.
struct MemorySink {
    shared: Arc<Shared>,
    need: u64,
    reserved: bool,
}

impl MemorySink {
    fn release(&mut self, state: &mut Quota<Held>) {
        if self.reserved {
            self.reserved = false;
            state.release(self.need);
        }
    }
}

impl Drop for MemorySink {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        self.release(&mut shared.lock());
    }
}

impl Sink for MemorySink {
    fn write(&mut self, _object: &[u8]) -> Result<(), KeyStoreError> {
        Ok(())
    }

    fn commit(mut self: Box<Self>, held: &Arc<Held>) -> Result<StoredKeys, KeyStoreError> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        // The reservation becomes the entry.
        self.release(&mut state);
        let (_, kept) = state.add(&held.fingerprint, || Arc::clone(held));
        Ok(stored(&kept))
    }
}
