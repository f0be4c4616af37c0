//! Public and evaluation keys that a server keeps from one session to the next, and the seed that a client keeps.
//!
//! Keys are named by a [`Fingerprint`] over everything that they are. The server computes it itself, while keys arrive
//! ([`KeyUpload`]) and again whenever they are read, so a client cannot store keys under another's name and a changed byte is
//! seen. All lengths follow from the plan ([`KeyList`]) and are checked before anything is allocated. Nothing here is secret
//! except the client's seed file ([`ClientKeyFile`]).
//!
//! Use on a server: [`KeyStore::load`] with the fingerprint that the client names; if it is absent, [`KeyStore::begin`], then
//! [`KeyUpload::receive`]. On a client: [`FingerprintHasher`] while
//! sending, then [`ClientKeyFile::remember`].

mod client_key;
mod entry;
mod error;
mod file_store;
mod fingerprint;
mod list;
mod memory_store;
mod private;
mod quota;
#[cfg(test)]
mod tests;
mod upload;

pub use client_key::ClientKeyFile;
pub use error::{KeyStoreError, StoreWarning};
pub use file_store::FileKeyStore;
pub use fingerprint::{parse_hex, Fingerprint, FingerprintHasher, NotHex, FINGERPRINT_VERSION};
pub use list::{KeyKind, KeyList, ListedKey, PRODUCTS, RINGS};
pub use memory_store::MemoryKeyStore;
pub use upload::{KeyUpload, StoredKeys};

use crate::handshake::SessionId;
use std::sync::Arc;

/// What a look-up gives.
#[derive(Debug)]
pub struct Lookup {
    /// The keys, if the store has them and they are sound.
    pub keys: Option<StoredKeys>,
    /// What was found on the way, for the log.
    pub warning: Option<StoreWarning>,
}

/// How much a store may hold, uploads in progress included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreLimits {
    /// Bytes of all entries: of files on disk, or of keys in memory.
    pub max_bytes: u64,
    /// Number of entries: one for each client key and key list.
    pub max_entries: usize,
}

/// What a store holds, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// Complete entries.
    pub entries: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes set aside for uploads that are running.
    pub reserved: u64,
    /// Entries evicted since the store was opened.
    pub evicted: u64,
}

/// A server's store of its clients' keys. Sessions use one store at the same time.
pub trait KeyStore: Send + Sync {
    /// The keys of this name for this list, decoded and verified. They count as used now, and are not evicted while the
    /// returned value lives.
    ///
    /// A damaged entry is deleted and reported as absent, with a warning: the client uploads again.
    fn load(&self, fingerprint: &Fingerprint, list: &Arc<KeyList>) -> Lookup;

    /// Begins an upload in a session. Room for all of it is set aside now, evicting the entries used longest ago.
    ///
    /// # Errors
    /// `TooLarge` when one client's keys exceed the store, `Full` when what is in use leaves no room (the session can still
    /// be served by [`KeyUpload::unkept`]); file errors.
    fn begin(&self, list: &Arc<KeyList>, session: &SessionId) -> Result<KeyUpload, KeyStoreError>;

    /// What the store holds.
    fn usage(&self) -> StoreUsage;
}
