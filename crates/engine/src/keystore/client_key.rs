//! The client's seed for one server, and which of its keys that server has.

use super::private::{check_dir, make_dir, open_plain, read_seed, write_new, write_replacing};
use super::{Fingerprint, KeyList, KeyStoreError};
use crate::handshake::hex;
use cipherloom_ring::SecretSeed;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Bytes of a note: magic, fingerprint, tag.
const NOTE_BYTES: usize = 8 + 32 + 32;
/// First bytes of a note; the last one is the version.
const NOTE_MAGIC: [u8; 8] = *b"CLKNOTE\x01";

/// The file with the 32-byte seed from which all keys of a client follow, one for each server (named by its certificate pin).
///
/// Mode 0600 in a folder that nobody else can write to. It never leaves the client and is no part of a bundle. Beside it are notes: which
/// fingerprint the server stored for which key list. A note holds no secret and is bound to seed, list, server and release,
/// so that a new seed or another release sends its keys again.
#[derive(Debug)]
pub struct ClientKeyFile {
    dir: PathBuf,
    pin: [u8; 32],
}

impl ClientKeyFile {
    /// The file for a server in `dir`, which is made (mode 0700) if absent.
    ///
    /// # Errors
    /// File errors; `Permissions` when others can write to the folder.
    pub fn at(dir: &Path, pin: &[u8; 32]) -> Result<Self, KeyStoreError> {
        make_dir(dir)?;
        check_dir(dir)?;
        Ok(Self {
            dir: dir.to_path_buf(),
            pin: *pin,
        })
    }

    /// Where the seed is.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir.join(format!("{}.seed", hex(&self.pin)))
    }

    /// The stored seed, if there is one.
    ///
    /// # Errors
    /// `Permissions`, `SeedLength`, `NotAFile`, file errors. Nothing is repaired silently.
    pub fn load(&self) -> Result<Option<SecretSeed>, KeyStoreError> {
        let mut bytes = Zeroizing::new([0u8; 32]);
        Ok(read_seed(&self.path(), &mut bytes)?.then(|| SecretSeed::from_bytes(*bytes)))
    }

    /// The stored seed, or a new one that is stored now. Of several processes that begin at once, all get the same seed.
    ///
    /// # Errors
    /// As [`Self::load`]; `Entropy`.
    pub fn load_or_create(&self) -> Result<SecretSeed, KeyStoreError> {
        if let Some(seed) = self.load()? {
            return Ok(seed);
        }
        let seed = fresh()?;
        let path = self.path();
        if write_new(&path, seed.expose())? {
            return Ok(seed);
        }
        self.load()?.ok_or_else(|| KeyStoreError::Io {
            path: path.display().to_string(),
            detail: "another process removed it; try again".into(),
        })
    }

    /// Replaces the seed (`--fresh-key`) and forgets what the server has. Also the remedy for a damaged file.
    ///
    /// # Errors
    /// File errors; `Entropy`.
    pub fn replace(&self) -> Result<SecretSeed, KeyStoreError> {
        let seed = fresh()?;
        write_replacing(&self.path(), seed.expose())?;
        let prefix = self.note_prefix();
        let entries = fs::read_dir(&self.dir).map_err(|e| KeyStoreError::io(&self.dir, &e))?;
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                // A note that stays is harmless: its tag does not fit the new seed.
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(seed)
    }

    /// What the server has of this seed for this key list, as far as is known here.
    ///
    /// # Errors
    /// File errors. A note that is damaged, or of another seed or release, counts as absent.
    pub fn fingerprint(
        &self,
        list: &KeyList,
        seed: &SecretSeed,
    ) -> Result<Option<Fingerprint>, KeyStoreError> {
        let path = self.note(list);
        let Some((mut file, meta)) = open_plain(&path)? else {
            return Ok(None);
        };
        let mut bytes = [0u8; NOTE_BYTES];
        if meta.len() != NOTE_BYTES as u64 {
            return Ok(None);
        }
        file.read_exact(&mut bytes)
            .map_err(|e| KeyStoreError::io(&path, &e))?;
        let (magic, rest) = bytes.split_at(8);
        let (name, tag) = rest.split_at(32);
        let mut fingerprint = Fingerprint([0; 32]);
        fingerprint.0.copy_from_slice(name);
        let sound = magic == NOTE_MAGIC && tag == self.tag(list, seed, &fingerprint);
        Ok(sound.then_some(fingerprint))
    }

    /// Notes that the server stored the keys of this seed and list under `fingerprint`.
    ///
    /// # Errors
    /// File errors.
    pub fn remember(
        &self,
        list: &KeyList,
        seed: &SecretSeed,
        fingerprint: &Fingerprint,
    ) -> Result<(), KeyStoreError> {
        let mut bytes = Vec::with_capacity(NOTE_BYTES);
        bytes.extend_from_slice(&NOTE_MAGIC);
        bytes.extend_from_slice(&fingerprint.0);
        bytes.extend_from_slice(&self.tag(list, seed, fingerprint));
        write_replacing(&self.note(list), &bytes)
    }

    /// Forgets the note for a list: the server no longer has the keys.
    ///
    /// # Errors
    /// File errors.
    pub fn forget(&self, list: &KeyList) -> Result<(), KeyStoreError> {
        let path = self.note(list);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(KeyStoreError::io(&path, &e)),
            _ => Ok(()),
        }
    }

    fn note_prefix(&self) -> String {
        format!("{}.keys-", hex(&self.pin))
    }

    fn note(&self, list: &KeyList) -> PathBuf {
        let name = format!("{}{}", self.note_prefix(), hex(&list.digest()[..16]));
        self.dir.join(name)
    }

    /// One-way in the seed, so a note tells nothing of it.
    fn tag(&self, list: &KeyList, seed: &SecretSeed, fingerprint: &Fingerprint) -> [u8; 32] {
        let bound = seed.derive_seed("key note", 0);
        let mut h = blake3::Hasher::new_derive_key("cipherloom client key note v1");
        h.update(bound.expose());
        // Another release may derive other keys from the same seed.
        h.update(env!("CARGO_PKG_VERSION").as_bytes());
        h.update(&[0]);
        h.update(&self.pin);
        h.update(&list.digest());
        h.update(&fingerprint.0);
        *h.finalize().as_bytes()
    }
}

fn fresh() -> Result<SecretSeed, KeyStoreError> {
    SecretSeed::from_os().map_err(|e| KeyStoreError::Entropy(e.to_string()))
}
