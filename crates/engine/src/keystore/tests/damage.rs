//! Stored files that were changed, cut, renamed, or are of another release or plan.

use super::*;
use crate::keys::{accept_keys, Accepted};
use crate::keystore::entry::HEADER_BYTES;
use cipherloom_net::{Channel, ChannelConfig, FrameKind};
use std::path::PathBuf;

struct Stored {
    dir: tempfile::TempDir,
    toy: Toy,
    path: PathBuf,
    bytes: Vec<u8>,
}

fn stored() -> Stored {
    let dir = tempfile::tempdir().unwrap();
    let toy = Toy::new(1);
    drop(toy.upload(&open(dir.path(), 1 << 30, 4)));
    let path = dir.path().join(format!("{}.keys", toy.fingerprint()));
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len() as u64, toy.file_bytes());
    Stored {
        dir,
        toy,
        path,
        bytes,
    }
}

impl Stored {
    /// Damage while the server runs: the look-up reports it, deletes the entry, and the next upload works.
    fn refused_while_open(&self, bytes: &[u8]) -> StoreWarning {
        std::fs::write(&self.path, &self.bytes).unwrap();
        let store = open(self.dir.path(), 1 << 30, 4);
        std::fs::write(&self.path, bytes).unwrap();
        let l = self.toy.load(&store);
        assert!(l.keys.is_none());
        assert!(!self.path.exists());
        assert_eq!(store.usage(), StoreUsage::default());
        assert!(self.toy.load(&store).warning.is_none(), "reported once");
        l.warning.expect("a warning")
    }

    /// Damage while it does not: reported when the store is opened, or at the first look-up.
    fn refused_when_opened(&self, bytes: &[u8]) -> StoreWarning {
        std::fs::write(&self.path, bytes).unwrap();
        let (store, mut warnings) =
            FileKeyStore::open(self.dir.path(), limits(1 << 30, 4)).unwrap();
        let l = self.toy.load(&store);
        assert!(l.keys.is_none());
        assert!(!self.path.exists());
        warnings.extend(l.warning);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        warnings.remove(0)
    }
}

#[test]
fn a_flipped_bit_anywhere_is_seen() {
    let s = stored();
    let mut places: Vec<usize> = (0..HEADER_BYTES).collect();
    let mut at = HEADER_BYTES;
    for o in &s.toy.objects {
        places.extend([
            at,
            at + 5,
            at + 41,
            at + 75,
            at + o.len() / 2,
            at + o.len() - 1,
        ]);
        at += o.len();
    }
    assert_eq!(at, s.bytes.len());
    for place in places {
        let mut b = s.bytes.clone();
        b[place] ^= 1 << (place % 8);
        for w in [s.refused_while_open(&b), s.refused_when_opened(&b)] {
            let version = (4..6).contains(&place);
            assert!(
                matches!(&w, StoreWarning::Version { known: 3, .. } if version)
                    || matches!(&w, StoreWarning::Corrupt { .. } if !version),
                "byte {place}: {w}"
            );
        }
    }
    // It heals by an upload.
    let store = open(s.dir.path(), 1 << 30, 4);
    drop(s.toy.upload(&store));
    s.toy.check(&s.toy.found(&store));
}

#[test]
fn cut_and_lengthened_files_are_seen() {
    let s = stored();
    let len = s.bytes.len();
    for cut in [
        0,
        1,
        HEADER_BYTES - 1,
        HEADER_BYTES,
        HEADER_BYTES + 1,
        len / 2,
        len - 1,
    ] {
        for w in [
            s.refused_while_open(&s.bytes[..cut]),
            s.refused_when_opened(&s.bytes[..cut]),
        ] {
            assert!(matches!(w, StoreWarning::Corrupt { .. }), "{cut}: {w}");
        }
    }
    let mut long = s.bytes.clone();
    long.push(0);
    let w = s.refused_while_open(&long);
    assert!(matches!(w, StoreWarning::Corrupt { .. }), "{w}");
    // Header and length agree on an absurd size: refused without reading or allocating it.
    let mut huge = s.bytes.clone();
    huge[144..152].copy_from_slice(&(u64::MAX - 10).to_le_bytes());
    let seal = blake3::hash(&huge[..HEADER_BYTES - 32]);
    huge[HEADER_BYTES - 32..HEADER_BYTES].copy_from_slice(seal.as_bytes());
    let w = s.refused_when_opened(&huge);
    assert!(
        matches!(&w, StoreWarning::Corrupt { reason, .. } if reason.contains("18446744073709551605")),
        "{w}"
    );
}

#[test]
fn keys_under_another_name_are_not_served() {
    let s = stored();
    let other = Toy::new(2);
    let path = s.dir.path().join(format!("{}.keys", other.fingerprint()));
    std::fs::rename(&s.path, &path).unwrap();
    let (store, warnings) = FileKeyStore::open(s.dir.path(), limits(1 << 30, 4)).unwrap();
    assert!(
        matches!(&warnings[..], [StoreWarning::Corrupt { reason, .. }] if reason.contains("another name")),
        "{warnings:?}"
    );
    assert!(other.load(&store).keys.is_none() && s.toy.load(&store).keys.is_none());
    // A header that claims the other name, sealed anew: the recomputed fingerprint tells.
    drop(store);
    let mut b = s.bytes.clone();
    b[8..40].copy_from_slice(&other.fingerprint().0);
    let seal = blake3::hash(&b[..HEADER_BYTES - 32]);
    b[HEADER_BYTES - 32..HEADER_BYTES].copy_from_slice(seal.as_bytes());
    std::fs::write(&path, &b).unwrap();
    let store = open(s.dir.path(), 1 << 30, 4);
    let l = other.load(&store);
    assert!(
        matches!(&l.warning, Some(StoreWarning::Corrupt { reason, .. }) if reason.contains("fingerprint")),
        "{l:?}"
    );
    assert!(l.keys.is_none() && !path.exists());
}

/// The set-up of a session whose client offers `name`: it sends its keys when the server asks for them.
fn accepted(store: &dyn KeyStore, toy: &Toy, name: &Fingerprint) -> Accepted {
    let (mut a, mut b) = Channel::memory_pair(ChannelConfig::default()).unwrap();
    std::thread::scope(|s| {
        let client = s.spawn(move || {
            a.send(FrameKind::Setup, &name.0).unwrap();
            let send = a.recv(FrameKind::Setup, 1).unwrap() == [0];
            for o in toy.objects.iter().filter(|_| send) {
                a.send(FrameKind::Setup, o).unwrap();
            }
            send
        });
        let accepted = accept_keys(&mut b, &toy.list, &toy.session, store).unwrap();
        assert_eq!(client.join().unwrap(), !accepted.reused);
        accepted
    })
}

#[test]
fn what_the_store_finds_on_the_way_is_handed_on_and_the_keys_are_sent_again() {
    let s = stored();
    let name = s.toy.fingerprint();
    let mut bytes = s.bytes.clone();
    // In the product key, the last object.
    bytes[s.bytes.len() - 9] ^= 1;
    let store = open(s.dir.path(), 1 << 30, 4);
    std::fs::write(&s.path, bytes).unwrap();
    let first = accepted(&store, &s.toy, &name);
    assert!(
        matches!(&first.warning, Some(StoreWarning::Corrupt { fingerprint, .. }) if *fingerprint == name),
        "{first:?}"
    );
    s.toy.check(&first.keys);
    drop(first);
    let second = accepted(&store, &s.toy, &name);
    assert!(second.reused && second.warning.is_none());
    s.toy.check(&second.keys);
    // A name that no entry has is no fault of the store.
    let mut unknown = name;
    unknown.0[0] ^= 1;
    let third = accepted(&store, &s.toy, &unknown);
    assert!(!third.reused && third.warning.is_none());
}

#[test]
fn keys_of_another_plan_are_kept_for_that_plan() {
    let s = stored();
    let other = toy_list(2);
    let file = open(s.dir.path(), 1 << 30, 4);
    let memory = MemoryKeyStore::new(limits(1 << 30, 4)).unwrap();
    drop(s.toy.upload(&memory));
    let stores: [&dyn KeyStore; 2] = [&file, &memory];
    for store in stores {
        let held = s.toy.found(store);
        for _ in 0..2 {
            let l = store.load(&s.toy.fingerprint(), &other);
            assert!(l.keys.is_none());
            assert!(matches!(l.warning, Some(StoreWarning::OtherPlan { .. })));
        }
        drop(held);
        s.toy.check(&s.toy.found(store));
    }
}

#[test]
fn leftovers_are_removed_and_foreign_files_left_alone() {
    let s = stored();
    let put = |name: &str| std::fs::write(s.dir.path().join(name), b"x").unwrap();
    put("upload-3.tmp");
    put("use-4.tmp");
    put("README");
    put("notes.keys");
    put(&format!("{}.used", Toy::new(2).fingerprint()));
    let store = open(s.dir.path(), 1 << 30, 4);
    let used = format!("{}.used", s.toy.fingerprint());
    assert_eq!(files(s.dir.path(), ".tmp"), [""; 0]);
    assert_eq!(files(s.dir.path(), ".used"), [used]);
    assert_eq!(files(s.dir.path(), "README").len(), 1);
    assert_eq!(files(s.dir.path(), ".keys").len(), 2);
    s.toy.check(&s.toy.found(&store));
    // A folder or link in an entry's place is not followed.
    let toy = Toy::new(2);
    drop(store);
    let link = s.dir.path().join(format!("{}.keys", toy.fingerprint()));
    std::os::unix::fs::symlink(&s.path, &link).unwrap();
    let (_store, warnings) = FileKeyStore::open(s.dir.path(), limits(1 << 30, 4)).unwrap();
    assert_eq!(warnings.len(), 1);
    assert!(s.path.exists() && link.symlink_metadata().is_err());
}

/// The file disappears while somebody uses the keys: their session goes on, the next one uploads.
#[test]
fn a_file_that_disappears_ends_no_session() {
    let s = stored();
    let store = open(s.dir.path(), 1 << 30, 4);
    let held = s.toy.found(&store);
    std::fs::remove_file(&s.path).unwrap();
    // Decoded keys are shared while they live.
    s.toy.check(&s.toy.found(&store));
    s.toy.check(&held);
    drop(held);
    let l = s.toy.load(&store);
    assert!(l.keys.is_none());
    assert!(matches!(l.warning, Some(StoreWarning::Corrupt { .. })));
    s.toy.check(&s.toy.upload(&store));
}
