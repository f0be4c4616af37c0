//! What server and client keep: an entry of the key store, the client's seed and note.

use super::targets::engine::{note_name, toy_keys, PIN};
use super::targets::support::{put, temp_dir};
use super::{golden, same, with};
use cipherloom_engine::keystore::{
    ClientKeyFile, FileKeyStore, KeyKind, KeyStore, KeyStoreError, StoreLimits, StoreWarning,
};
use cipherloom_engine::SecretSeed;
use cipherloom_plan::Ring;
use std::os::unix::fs::PermissionsExt;

const LIMITS: StoreLimits = StoreLimits {
    max_bytes: 1 << 24,
    max_entries: 4,
};

#[test]
fn an_entry_of_the_key_store() {
    let t = toy_keys();
    let entry = same("key-store-entry.keys", || t.entry.clone());
    let name = golden("key-store-entry.fingerprint", || {
        t.fingerprint.to_string().into_bytes()
    });
    let name = String::from_utf8(name).unwrap();
    let fingerprint = name.parse().unwrap();
    let dir = temp_dir();
    put(dir.path(), &format!("{name}.keys"), &entry);
    let (store, warnings) = FileKeyStore::open(dir.path(), LIMITS).unwrap();
    assert_eq!(warnings, []);
    let keys = store.load(&fingerprint, &t.list).keys.unwrap();
    assert_eq!(keys.fingerprint(), fingerprint);
    // Decoded and encoded again, the keys are what the client sent.
    let held = keys.server_keys();
    let mut sent = t.objects.iter();
    let ring = |r| match r {
        Ring::Projection => &held.projection,
        Ring::Scan => &held.scan,
    };
    for k in t.list.keys() {
        let bytes = match k.kind {
            KeyKind::Public { ring: r } => ring(r).public.to_bytes(),
            KeyKind::Evaluation {
                ring: r, purpose, ..
            } => ring(r).keys.key(purpose).unwrap().to_bytes(),
            KeyKind::Product => keys.product_key().to_bytes(),
        };
        assert_eq!(&bytes, sent.next().unwrap());
    }
    drop((keys, store));

    put(
        dir.path(),
        &format!("{name}.keys"),
        &with(&entry, 4, &[99, 0]),
    );
    let (_, warnings) = FileKeyStore::open(dir.path(), LIMITS).unwrap();
    assert!(
        matches!(warnings[..], [StoreWarning::Version { found: 99, .. }]),
        "{warnings:?}"
    );
}

#[test]
fn the_clients_seed_and_note() {
    let t = toy_keys();
    let seed = golden("client.seed", || vec![6; 32]);
    let note = golden("client.note", || {
        let dir = temp_dir();
        let keys = ClientKeyFile::at(dir.path(), &PIN).unwrap();
        let seed = SecretSeed::from_bytes([6; 32]);
        keys.remember(&t.list, &seed, &t.fingerprint).unwrap();
        std::fs::read(dir.path().join(note_name(&t.list))).unwrap()
    });
    let dir = temp_dir();
    let keys = ClientKeyFile::at(dir.path(), &PIN).unwrap();
    let write = |bytes: &[u8]| {
        std::fs::write(keys.path(), bytes).unwrap();
        std::fs::set_permissions(keys.path(), std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    write(&seed);
    let seed = keys.load().unwrap().unwrap();
    assert_eq!(seed.expose(), &[6; 32]);
    let path = dir.path().join(note_name(&t.list));
    std::fs::write(&path, &note).unwrap();
    assert_eq!(
        keys.fingerprint(&t.list, &seed).unwrap(),
        Some(t.fingerprint)
    );
    std::fs::remove_file(&path).unwrap();
    keys.remember(&t.list, &seed, &t.fingerprint).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), note);
    // A note of another version counts as absent: the client sends its keys again. A seed has a length and no version.
    std::fs::write(&path, with(&note, 7, &[2])).unwrap();
    assert_eq!(keys.fingerprint(&t.list, &seed).unwrap(), None);
    write(&[6; 33]);
    let e = keys.load().map(|_| ()).unwrap_err();
    assert!(
        matches!(e, KeyStoreError::SeedLength { bytes: 33, .. }),
        "{e}"
    );
}
