//! Errors and warnings of the key store and of the client's key file.

use super::Fingerprint;
use cipherloom_ckks::CkksError;
use cipherloom_mpc::MpcError;
use thiserror::Error;

/// Why keys cannot be stored, or a key file cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyStoreError {
    /// Reading or writing a file.
    #[error("{path}: {detail}")]
    Io {
        /// Path.
        path: String,
        /// System message.
        detail: String,
    },
    /// One client's keys are larger than the whole store.
    #[error("the keys of one client need {need} bytes, the store holds at most {limit}; raise its limit or use a shorter length")]
    TooLarge {
        /// Bytes of this key list.
        need: u64,
        /// Bytes that the store may hold.
        limit: u64,
    },
    /// Everything in the store is in use.
    #[error(
        "the key store is full: {need} bytes needed, {in_use} of {limit} bytes and {entries_in_use} of {entries} entries are in \
         use by running sessions; try again later or raise its limits"
    )]
    Full {
        /// Bytes of this key list.
        need: u64,
        /// Bytes of entries and uploads in use.
        in_use: u64,
        /// Bytes that the store may hold.
        limit: u64,
        /// Entries and uploads in use.
        entries_in_use: usize,
        /// Entries that the store may hold.
        entries: usize,
    },
    /// Limits under which nothing can be stored.
    #[error("a key store of {bytes} bytes and {entries} entries holds nothing; both limits must be at least 1")]
    Limits {
        /// Given bytes.
        bytes: u64,
        /// Given entries.
        entries: usize,
    },
    /// Another process has the folder.
    #[error("{path} is in use by another process; give each server a folder of its own")]
    Locked {
        /// The folder.
        path: String,
    },
    /// An object of another length than the plan's key list says.
    #[error("key {index} of {total} has {got} bytes, the plan says {expected}")]
    Length {
        /// Position in the key list.
        index: usize,
        /// Keys of the list.
        total: usize,
        /// Bytes given.
        got: usize,
        /// Bytes of the plan.
        expected: usize,
    },
    /// Another key than the plan's key list says.
    #[error("key {index} of {total} is {got}, the plan says {expected}")]
    Key {
        /// Position in the key list.
        index: usize,
        /// Keys of the list.
        total: usize,
        /// Given.
        got: String,
        /// Planned.
        expected: String,
    },
    /// A public key that is not of this session.
    #[error("the {ring} public key has another seed than this session: its uniform part must come from both parties")]
    PublicSeed {
        /// Ring, or `products`.
        ring: &'static str,
    },
    /// More objects than the plan's key list has.
    #[error("all {total} keys of the plan were received already")]
    Surplus {
        /// Keys of the list.
        total: usize,
    },
    /// Fewer objects than the plan's key list has, or an upload that failed before.
    #[error("the upload is not complete: {have} of {total} keys")]
    Incomplete {
        /// Keys received.
        have: usize,
        /// Keys of the list.
        total: usize,
    },
    /// A CKKS key that does not decode.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// A product key that does not decode.
    #[error(transparent)]
    Products(#[from] MpcError),
    /// A private file or folder that others may read or change.
    #[error("{path} has mode {mode:04o}: {remedy}")]
    Permissions {
        /// Path.
        path: String,
        /// Its permission bits.
        mode: u32,
        /// What to do.
        remedy: &'static str,
    },
    /// A private file that is a link, a folder or a device.
    #[error("{path} is not an ordinary file; remove it, or use another folder")]
    NotAFile {
        /// Path.
        path: String,
    },
    /// A seed file of the wrong length.
    #[error("{path} has {bytes} bytes, a seed has {expected}; restore it, or make a new key with --fresh-key")]
    SeedLength {
        /// Path.
        path: String,
        /// Its bytes.
        bytes: u64,
        /// Bytes of a seed.
        expected: usize,
    },
    /// There are no file permissions to keep a seed private with.
    #[error(
        "{path}: this system has no file permissions that keep a seed private; use a Unix system"
    )]
    NoPermissions {
        /// Path.
        path: String,
    },
    /// The system gave no randomness.
    #[error("no randomness from the operating system: {0}")]
    Entropy(String),
}

impl KeyStoreError {
    /// A refused file operation.
    pub(crate) fn io(path: &std::path::Path, e: &std::io::Error) -> Self {
        Self::Io {
            path: path.display().to_string(),
            detail: e.to_string(),
        }
    }

    /// Whether the peer's bytes are to blame rather than this side's files and limits.
    #[must_use]
    pub fn is_peer(&self) -> bool {
        matches!(
            self,
            Self::Length { .. }
                | Self::Key { .. }
                | Self::PublicSeed { .. }
                | Self::Surplus { .. }
                | Self::Incomplete { .. }
                | Self::Ckks(_)
                | Self::Products(MpcError::Length { .. } | MpcError::Malformed { .. })
        )
    }
}

/// What a store found and dealt with: an entry is gone, or does not serve. For the server's log; the session goes on with an
/// upload. No value of a key is in it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StoreWarning {
    /// Truncated or changed bytes; the entry was deleted.
    #[error("stored keys {fingerprint} are corrupt ({reason}) and were deleted")]
    Corrupt {
        /// Which.
        fingerprint: Fingerprint,
        /// What is wrong.
        reason: String,
    },
    /// An entry of another release; it was deleted.
    #[error("stored keys {fingerprint} have format version {found}, this release reads {known}; they were deleted")]
    Version {
        /// Which.
        fingerprint: Fingerprint,
        /// Its version.
        found: u16,
        /// Own version.
        known: u16,
    },
    /// The entry is sound but made for other rings or another key list; it was kept.
    #[error("stored keys {fingerprint} belong to another plan")]
    OtherPlan {
        /// Which.
        fingerprint: Fingerprint,
    },
    /// The file cannot be read; the entry was dropped.
    #[error("stored keys {fingerprint} cannot be read ({reason}) and were dropped")]
    Unreadable {
        /// Which.
        fingerprint: Fingerprint,
        /// System message.
        reason: String,
    },
    /// The time of use could not be written; the entry may be evicted too early after a restart.
    #[error("the use of stored keys {fingerprint} could not be noted: {reason}")]
    UseNotNoted {
        /// Which.
        fingerprint: Fingerprint,
        /// System message.
        reason: String,
    },
}

impl StoreWarning {
    /// A short name, for logs that name no client's keys.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Corrupt { .. } => "stored keys were corrupt",
            Self::Version { .. } => "stored keys were of another release",
            Self::OtherPlan { .. } => "stored keys belong to another plan",
            Self::Unreadable { .. } => "stored keys cannot be read",
            Self::UseNotNoted { .. } => "the use of stored keys could not be noted",
        }
    }
}
