//! The store on disk.
//!
//! One folder, one process. An entry is a file `FINGERPRINT.keys`, written as `upload-N.tmp` and renamed when it is complete,
//! and `FINGERPRINT.used`, the store's counter at its last use: eviction does not depend on a clock or on what the file
//! system notes. Files that the store did not name are left alone.

use super::entry::{self, Fault, Header, HEADER_BYTES, VERSION};
use super::private::{create_new, make_dir, open_plain};
use super::quota::{Quota, Weighed};
use super::upload::{Held, Sink};
use super::{Fingerprint, KeyList, KeyStore, KeyStoreError, KeyUpload, Lookup};
use super::{StoreLimits, StoreUsage, StoreWarning, StoredKeys};
use crate::handshake::SessionId;
use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// One complete entry. In use while anybody but the store's map holds it.
struct Entry {
    fingerprint: Fingerprint,
    bytes: u64,
    /// Decoded keys, shared by the sessions of one client.
    held: Mutex<Weak<Held>>,
}

impl Weighed for Entry {
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

struct State {
    quota: Quota<Entry>,
    /// Numbers the files of uploads.
    uploads: u64,
}

struct Shared {
    dir: PathBuf,
    state: Mutex<State>,
    /// Held for as long as the store is open.
    _lock: File,
}

/// Keys in a folder, under quotas, least recently used first to go. Cloning shares the store.
#[derive(Clone)]
pub struct FileKeyStore {
    shared: Arc<Shared>,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // The state is changed in steps that cannot panic half-way.
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn keys_path(&self, f: &Fingerprint) -> PathBuf {
        self.dir.join(format!("{f}.keys"))
    }

    fn used_path(&self, f: &Fingerprint) -> PathBuf {
        self.dir.join(format!("{f}.used"))
    }

    /// Removes an entry's files; a missing one is fine.
    fn remove_files(&self, f: &Fingerprint) -> Result<(), KeyStoreError> {
        for path in [self.keys_path(f), self.used_path(f)] {
            match fs::remove_file(&path) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(KeyStoreError::io(&path, &e))
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes an entry out of the map and deletes its files, unless it was replaced meanwhile.
    fn drop_entry(&self, entry: &Arc<Entry>) {
        let mut state = lock(&self.state);
        let f = entry.fingerprint;
        if state.quota.get(&f).is_some_and(|e| Arc::ptr_eq(e, entry)) {
            state.quota.remove(&f);
            // A file that cannot be deleted is found again when the store is next opened.
            let _ = self.remove_files(&f);
        }
    }

    /// Writes the counter of a use. Not synced: a lost note costs an early eviction, no more.
    fn note_use(&self, f: &Fingerprint, counter: u64) -> std::io::Result<()> {
        let temp = self.dir.join(format!("use-{counter}.tmp"));
        fs::write(&temp, counter.to_le_bytes())?;
        fs::rename(&temp, self.used_path(f))
    }
}

/// What a file name says.
enum Name {
    Keys(Fingerprint),
    Used(Fingerprint),
    Temporary,
    Foreign,
}

fn name_of(name: &str) -> Name {
    match name.rsplit_once('.') {
        Some((f, "keys")) => f.parse().map_or(Name::Foreign, Name::Keys),
        Some((f, "used")) => f.parse().map_or(Name::Foreign, Name::Used),
        Some((t, "tmp")) if t.starts_with("upload-") || t.starts_with("use-") => Name::Temporary,
        _ => Name::Foreign,
    }
}

/// Checks the header of a stored file against its name and length.
fn inspect(path: &Path, name: &Fingerprint) -> Result<u64, Fault> {
    let opened = open_plain(path).map_err(|e| Fault::Corrupt(e.to_string()))?;
    let Some((mut file, meta)) = opened else {
        return Err(Fault::Corrupt("it disappeared".into()));
    };
    let mut head = [0; HEADER_BYTES];
    file.read_exact(&mut head)?;
    let header = Header::read(&head, meta.len())?;
    if header.fingerprint != *name {
        return Err(Fault::Corrupt("stored under another name".into()));
    }
    Ok(meta.len())
}

fn warning(fingerprint: Fingerprint, fault: Fault) -> StoreWarning {
    match fault {
        Fault::Corrupt(reason) => StoreWarning::Corrupt {
            fingerprint,
            reason,
        },
        Fault::Version(found) => StoreWarning::Version {
            fingerprint,
            found,
            known: VERSION,
        },
        Fault::OtherPlan => StoreWarning::OtherPlan { fingerprint },
        Fault::Io(e) => StoreWarning::Unreadable {
            fingerprint,
            reason: e.to_string(),
        },
    }
}

impl FileKeyStore {
    /// Opens the store in `dir`, which is made (mode 0700) if absent. Deletes what an interrupted upload left, entries with a
    /// damaged header, and the entries used longest ago that exceed the limits.
    ///
    /// # Errors
    /// `Locked` when another process has the folder; `Limits`; file errors.
    pub fn open(
        dir: &Path,
        limits: StoreLimits,
    ) -> Result<(Self, Vec<StoreWarning>), KeyStoreError> {
        let quota = Quota::new(limits)?;
        make_dir(dir)?;
        let guard = dir.join("lock");
        let file = match create_new(&guard) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => File::open(&guard),
            other => other,
        }
        .map_err(|e| KeyStoreError::io(&guard, &e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(KeyStoreError::Locked {
                    path: dir.display().to_string(),
                })
            }
            Err(TryLockError::Error(e)) => return Err(KeyStoreError::io(&guard, &e)),
        }
        let shared = Shared {
            dir: dir.to_path_buf(),
            state: Mutex::new(State { quota, uploads: 0 }),
            _lock: file,
        };
        let warnings = shared.scan()?;
        lock(&shared.state)
            .quota
            .make_room(0, 0, |f| shared.remove_files(f))?;
        let shared = Arc::new(shared);
        Ok((Self { shared }, warnings))
    }
}

impl Shared {
    /// Finds the entries of earlier runs.
    fn scan(&self) -> Result<Vec<StoreWarning>, KeyStoreError> {
        let mut warnings = Vec::new();
        let mut state = lock(&self.state);
        let io = |e: std::io::Error| KeyStoreError::io(&self.dir, &e);
        let (mut entries, mut notes) = (Vec::new(), BTreeSet::new());
        for item in fs::read_dir(&self.dir).map_err(io)? {
            let item = item.map_err(io)?;
            let path = item.path();
            match name_of(&item.file_name().to_string_lossy()) {
                Name::Keys(f) => match inspect(&path, &f) {
                    Ok(bytes) => entries.push((f, bytes)),
                    Err(fault) => {
                        warnings.push(warning(f, fault));
                        self.remove_files(&f)?;
                    }
                },
                Name::Used(f) => {
                    notes.insert(f);
                }
                Name::Temporary => {
                    fs::remove_file(&path).map_err(|e| KeyStoreError::io(&path, &e))?;
                }
                Name::Foreign => {}
            }
        }
        for (fingerprint, bytes) in entries {
            notes.remove(&fingerprint);
            // A missing or damaged note makes the entry the oldest.
            let used = read_counter(&self.used_path(&fingerprint)).unwrap_or(0);
            let entry = Entry {
                fingerprint,
                bytes,
                held: Mutex::default(),
            };
            state.quota.restore(fingerprint, used, Arc::new(entry));
        }
        for f in notes {
            // Of an entry that is gone. One that cannot be deleted is found again next time.
            let _ = fs::remove_file(self.used_path(&f));
        }
        Ok(warnings)
    }
}

/// A note of a use. Values that only damage can make would bring the counter to its end; they count as none.
fn read_counter(path: &Path) -> Option<u64> {
    let (mut file, meta) = open_plain(path).ok()??;
    let mut bytes = [0; 8];
    if meta.len() != 8 {
        return None;
    }
    file.read_exact(&mut bytes).ok()?;
    Some(u64::from_le_bytes(bytes)).filter(|c| *c < u64::MAX / 2)
}

impl KeyStore for FileKeyStore {
    fn load(&self, fingerprint: &Fingerprint, list: &Arc<KeyList>) -> Lookup {
        let shared = &self.shared;
        let absent = |warning| Lookup {
            keys: None,
            warning,
        };
        let Some((counter, entry)) = lock(&shared.state).quota.use_now(fingerprint) else {
            return absent(None);
        };
        // One session of a client reads the file, the others wait for it and share the keys.
        let mut slot = lock(&entry.held);
        let shared_keys = slot
            .upgrade()
            .filter(|held| held.list.digest() == list.digest());
        let held = match shared_keys {
            Some(held) => held,
            None => match read_entry(&shared.keys_path(fingerprint), &entry, list) {
                Ok(held) => {
                    *slot = Arc::downgrade(&held);
                    held
                }
                Err(fault) => {
                    drop(slot);
                    if !matches!(fault, Fault::OtherPlan) {
                        shared.drop_entry(&entry);
                    }
                    return absent(Some(warning(*fingerprint, fault)));
                }
            },
        };
        drop(slot);
        let noted = shared.note_use(fingerprint, counter);
        Lookup {
            keys: Some(StoredKeys::new(held, Some(entry))),
            warning: noted.err().map(|e| StoreWarning::UseNotNoted {
                fingerprint: *fingerprint,
                reason: e.to_string(),
            }),
        }
    }

    fn begin(&self, list: &Arc<KeyList>, session: &SessionId) -> Result<KeyUpload, KeyStoreError> {
        let need = list.total_bytes() + HEADER_BYTES as u64;
        let number = {
            let mut state = lock(&self.shared.state);
            state.quota.reserve(need, |f| self.shared.remove_files(f))?;
            state.uploads += 1;
            state.uploads
        };
        // From here on the reservation is given back when the upload is dropped.
        let mut sink = FileSink {
            shared: Arc::clone(&self.shared),
            path: self.shared.dir.join(format!("upload-{number}.tmp")),
            file: None,
            need,
            reserved: true,
        };
        let io = |path: &Path, e| KeyStoreError::io(path, &e);
        let mut file = create_new(&sink.path).map_err(|e| io(&sink.path, e))?;
        // The header comes last: a file without one is no entry under any name.
        let blank = file.write_all(&[0; HEADER_BYTES]);
        sink.file = Some(file);
        blank.map_err(|e| io(&sink.path, e))?;
        Ok(KeyUpload::new(list, session, Box::new(sink)))
    }

    fn usage(&self) -> StoreUsage {
        lock(&self.shared.state).quota.usage()
    }
}

fn read_entry(path: &Path, entry: &Entry, list: &Arc<KeyList>) -> Result<Arc<Held>, Fault> {
    let opened = open_plain(path).map_err(|e| Fault::Corrupt(e.to_string()))?;
    let Some((file, meta)) = opened else {
        return Err(Fault::Corrupt("it disappeared".into()));
    };
    entry::read(
        BufReader::with_capacity(1 << 20, file),
        meta.len(),
        &entry.fingerprint,
        list,
    )
}

/// The decoded keys that others use already, or these from now on.
fn share(slot: &mut Weak<Held>, held: &Arc<Held>) -> Arc<Held> {
    let there = slot
        .upgrade()
        .filter(|h| h.list.digest() == held.list.digest());
    there.unwrap_or_else(|| {
        *slot = Arc::downgrade(held);
        Arc::clone(held)
    })
}

/// A temporary file and its share of the quota; both are given back on drop.
struct FileSink {
    shared: Arc<Shared>,
    path: PathBuf,
    file: Option<File>,
    need: u64,
    reserved: bool,
}

impl FileSink {
    fn release(&mut self, state: &mut State) {
        if self.reserved {
            self.reserved = false;
            state.quota.release(self.need);
        }
    }
}

impl Drop for FileSink {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // One that cannot be deleted is found when the store is next opened.
            let _ = fs::remove_file(&self.path);
        }
        let shared = Arc::clone(&self.shared);
        self.release(&mut lock(&shared.state));
    }
}

impl Sink for FileSink {
    fn write(&mut self, object: &[u8]) -> Result<(), KeyStoreError> {
        match &mut self.file {
            Some(file) => file
                .write_all(object)
                .map_err(|e| KeyStoreError::io(&self.path, &e)),
            None => Ok(()),
        }
    }

    fn commit(mut self: Box<Self>, held: &Arc<Held>) -> Result<StoredKeys, KeyStoreError> {
        let io = |path: &Path, e| KeyStoreError::io(path, &e);
        let f = held.fingerprint;
        let header = Header::new(f, &held.list).to_bytes();
        if let Some(file) = &mut self.file {
            file.seek(SeekFrom::Start(0))
                .and_then(|_| file.write_all(&header))
                .and_then(|()| file.sync_all())
                .map_err(|e| io(&self.path, e))?;
        }
        let shared = Arc::clone(&self.shared);
        let path = shared.keys_path(&f);
        let (counter, entry) = {
            let mut state = lock(&shared.state);
            // Over an entry of the same name too: the bytes are the same, and a damaged file heals.
            fs::rename(&self.path, &path).map_err(|e| io(&path, e))?;
            self.file = None;
            // The reservation becomes the entry.
            self.release(&mut state);
            state.quota.add(&f, || {
                Arc::new(Entry {
                    fingerprint: f,
                    bytes: self.need,
                    held: Mutex::new(Arc::downgrade(held)),
                })
            })
        };
        // A lost note costs an early eviction after a restart, no more.
        let _ = shared.note_use(&f, counter);
        // Sessions of one client share the decoded keys, whoever came first.
        let held = share(&mut lock(&entry.held), held);
        Ok(StoredKeys::new(held, Some(entry)))
    }
}
