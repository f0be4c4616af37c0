//! Quotas, eviction, leases, and many sessions at once.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn keys_larger_than_the_store_are_refused_before_a_byte_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let toy = Toy::new(1);
    let store = open(dir.path(), toy.file_bytes() - 1, 4);
    let e = toy.try_upload(&store).unwrap_err();
    assert!(
        matches!(e, KeyStoreError::TooLarge { need, limit }
            if need == toy.file_bytes() && limit == need - 1),
        "{e}"
    );
    assert!(files(dir.path(), ".tmp").is_empty());
    drop(store);
    let store = open(dir.path(), toy.file_bytes(), 1);
    toy.check(&toy.upload(&store));
    for bad in [limits(0, 1), limits(1, 0)] {
        assert!(matches!(
            FileKeyStore::open(tempfile::tempdir().unwrap().path(), bad),
            Err(KeyStoreError::Limits { .. })
        ));
        assert!(MemoryKeyStore::new(bad).is_err());
    }
}

/// The same for both stores and both limits: two clients fit.
fn least_recently_used_goes(store: &dyn KeyStore) {
    let toys: Vec<Toy> = (1..=4).map(Toy::new).collect();
    let has = |i: usize| {
        store
            .load(&toys[i].fingerprint(), &toys[i].list)
            .keys
            .is_some()
    };
    drop(toys[0].upload(store));
    drop(toys[1].upload(store));
    // 0 is used again, so 1 is the oldest.
    drop(toys[0].found(store));
    drop(toys[2].upload(store));
    assert!(!has(1));
    assert!(has(2) && has(0));
    // Now 2 was used before 0.
    drop(toys[3].upload(store));
    assert!(!has(2) && has(0) && has(3));
    assert_eq!(store.usage().evicted, 2);
    assert_eq!((store.usage().entries, store.usage().reserved), (2, 0));
}

#[test]
fn the_keys_used_longest_ago_go_first_by_number_and_by_bytes() {
    let size = Toy::new(1).file_bytes();
    for (bytes, entries) in [(1 << 40, 2), (3 * size - 1, 100)] {
        let dir = tempfile::tempdir().unwrap();
        least_recently_used_goes(&open(dir.path(), bytes, entries));
        assert_eq!(files(dir.path(), ".keys").len(), 2);
        assert_eq!(files(dir.path(), ".used").len(), 2);
    }
    let memory = Toy::new(1).list.memory_bytes();
    for (bytes, entries) in [(1 << 40, 2), (3 * memory - 1, 100)] {
        least_recently_used_goes(&MemoryKeyStore::new(limits(bytes, entries)).unwrap());
    }
}

#[test]
fn the_order_of_use_survives_a_restart_and_lowered_limits_hold() {
    let dir = tempfile::tempdir().unwrap();
    let toys: Vec<Toy> = (1..=3).map(Toy::new).collect();
    let store = open(dir.path(), 1 << 40, 3);
    toys.iter().for_each(|t| drop(t.upload(&store)));
    drop(toys[0].found(&store));
    drop(store);
    // In order of use: 1, 2, 0. File times say otherwise.
    for (t, age) in toys.iter().zip([300u64, 100, 200]) {
        let f = std::fs::File::options()
            .write(true)
            .open(dir.path().join(format!("{}.keys", t.fingerprint())))
            .unwrap();
        f.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(age))
            .unwrap();
    }
    let store = open(dir.path(), 1 << 40, 2);
    assert_eq!(store.usage().entries, 2);
    assert!(!toys[1].is_in(dir.path()));
    drop(toys[2].found(&store));
    drop(store);
    // A lost note makes an entry the oldest.
    std::fs::remove_file(dir.path().join(format!("{}.used", toys[2].fingerprint()))).unwrap();
    let store = open(dir.path(), 1 << 40, 1);
    assert!(!toys[2].is_in(dir.path()) && toys[0].is_in(dir.path()));
    // So does one that claims the end of time; the counter goes on from the others.
    drop(store);
    let note = dir.path().join(format!("{}.used", toys[0].fingerprint()));
    std::fs::write(&note, u64::MAX.to_le_bytes()).unwrap();
    let store = open(dir.path(), 1 << 40, 2);
    drop(toys[1].upload(&store));
    drop(toys[2].upload(&store));
    assert!(!toys[0].is_in(dir.path()));
}

fn keys_in_use_stay(store: &dyn KeyStore, uploading_too: bool) {
    let toys: Vec<Toy> = (1..=3).map(Toy::new).collect();
    let first = toys[0].upload(store);
    let second = toys[1].upload(store);
    let full = toys[2].try_upload(store).unwrap_err();
    assert!(
        matches!(
            full,
            KeyStoreError::Full {
                entries_in_use: 2,
                entries: 2,
                ..
            }
        ),
        "{full}"
    );
    // Used longest ago, but in use: a copy of the right is enough.
    let copy = first.clone();
    drop(first);
    drop(second);
    drop(toys[2].upload(store));
    toys[0].check(&toys[0].found(store));
    toys[0].check(&copy);
    assert!(toys[1].load(store).keys.is_none());
    drop(copy);
    if uploading_too {
        // Uploads in progress count.
        let a = store.begin(&toys[1].list, &toys[1].session).unwrap();
        let b = store.begin(&toys[1].list, &toys[1].session).unwrap();
        assert_eq!(store.usage().entries, 0);
        assert!(matches!(
            store.begin(&toys[1].list, &toys[1].session).err(),
            Some(KeyStoreError::Full {
                entries_in_use: 2,
                ..
            })
        ));
        drop((a, b));
        toys[1].check(&toys[1].upload(store));
    }
}

#[test]
fn keys_in_use_are_never_evicted() {
    let dir = tempfile::tempdir().unwrap();
    keys_in_use_stay(&open(dir.path(), 1 << 40, 2), true);
    keys_in_use_stay(&MemoryKeyStore::new(limits(1 << 40, 2)).unwrap(), true);
    // A full store evicts nothing on the way to refusing.
    let dir = tempfile::tempdir().unwrap();
    let size = Toy::new(1).file_bytes();
    let store = open(dir.path(), 2 * size, 10);
    let toys: Vec<Toy> = (1..=2).map(Toy::new).collect();
    drop(toys[0].upload(&store));
    let _held = toys[1].upload(&store);
    let big = Toy::with(7, toy_list(6));
    assert!(big.file_bytes() > size && big.file_bytes() < 2 * size);
    assert!(matches!(
        big.try_upload(&store),
        Err(KeyStoreError::Full { .. })
    ));
    assert!(toys[0].is_in(dir.path()));
}

#[test]
fn two_uploads_of_the_same_keys_make_one_entry() {
    let dir = tempfile::tempdir().unwrap();
    let file = open(dir.path(), 1 << 40, 8);
    let memory = MemoryKeyStore::new(limits(1 << 40, 8)).unwrap();
    let stores: [&dyn KeyStore; 2] = [&file, &memory];
    for store in stores {
        let toy = Toy::new(1);
        let begin = || store.begin(&toy.list, &toy.session).unwrap();
        let (mut a, mut b) = (begin(), begin());
        for o in &toy.objects {
            a.push(o).unwrap();
            b.push(o).unwrap();
        }
        let (a, b) = (a.finish().unwrap(), b.finish().unwrap());
        assert_eq!(a.fingerprint(), b.fingerprint());
        assert_eq!((store.usage().entries, store.usage().reserved), (1, 0));
        assert!(Arc::ptr_eq(
            &a.server_keys().scan.keys,
            &b.server_keys().scan.keys
        ));
        // Either right alone keeps the entry.
        drop(a);
        toy.check(&b);
        drop(b);
        toy.check(&toy.found(store));
    }
    assert_eq!(files(dir.path(), ".keys").len(), 1);
    assert!(files(dir.path(), ".tmp").is_empty());
}

#[test]
fn many_sessions_at_once_get_their_own_keys_within_the_limits() {
    let dir = tempfile::tempdir().unwrap();
    let toys: Vec<Toy> = (1..=5).map(Toy::new).collect();
    let size = toys[0].file_bytes();
    let store = open(dir.path(), 3 * size, 10);
    let (full, served) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|s| {
        for worker in 0..4usize {
            let (store, toys, full, served) = (store.clone(), &toys, &full, &served);
            let dir = dir.path();
            s.spawn(move || {
                for round in 0..12 {
                    let toy = &toys[(worker * 7 + round * (worker + 1)) % toys.len()];
                    let keys = match toy.load(&store) {
                        Lookup {
                            keys: Some(k),
                            warning: None,
                        } => k,
                        Lookup {
                            keys: None,
                            warning: None,
                        } => match toy.try_upload(&store) {
                            Ok(k) => k,
                            Err(KeyStoreError::Full { .. }) => {
                                full.fetch_add(1, Ordering::Relaxed);
                                continue;
                            }
                            Err(e) => panic!("{e}"),
                        },
                        other => panic!("{other:?}"),
                    };
                    // In use, so on disk.
                    assert!(toy.is_in(dir));
                    toy.check(&keys);
                    served.fetch_add(1, Ordering::Relaxed);
                    let u = store.usage();
                    assert!(u.bytes + u.reserved <= 3 * size, "{u:?}");
                }
            });
        }
    });
    let u = store.usage();
    assert!(u.evicted > 0 && u.reserved == 0, "{u:?}");
    assert!(served.load(Ordering::Relaxed) > 10);
    assert_eq!(files(dir.path(), ".keys").len(), u.entries);
    assert!(files(dir.path(), ".tmp").is_empty());
}

#[test]
fn one_folder_has_one_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 1 << 30, 4);
    let second = FileKeyStore::open(dir.path(), limits(1 << 30, 4));
    assert!(matches!(second, Err(KeyStoreError::Locked { .. })));
    let clone = store.clone();
    drop(store);
    assert!(FileKeyStore::open(dir.path(), limits(1 << 30, 4)).is_err());
    drop(clone);
    open(dir.path(), 1 << 30, 4);
}
