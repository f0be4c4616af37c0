//! The client's seed file and its notes.

use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const PIN: [u8; 32] = [0xab; 32];

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_seed_is_made_once_for_each_server_and_private() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("a/keys");
    let file = ClientKeyFile::at(&dir, &PIN).unwrap();
    assert!(file.load().unwrap().is_none());
    let seed = file.load_or_create().unwrap();
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&file.path()), 0o600);
    assert_eq!(fs::read(file.path()).unwrap(), seed.expose());
    assert_eq!(
        file.path().file_name().unwrap().to_string_lossy(),
        format!("{}.seed", "ab".repeat(32))
    );
    for again in [
        file.load().unwrap().unwrap(),
        file.load_or_create().unwrap(),
    ] {
        assert_eq!(again.expose(), seed.expose());
    }
    let other = ClientKeyFile::at(&dir, &[1; 32]).unwrap();
    assert_ne!(other.load_or_create().unwrap().expose(), seed.expose());
    let fresh = file.replace().unwrap();
    assert_ne!(fresh.expose(), seed.expose());
    assert_eq!(file.load().unwrap().unwrap().expose(), fresh.expose());
    assert_eq!(mode(&file.path()), 0o600);
    assert!(files(&dir, ".tmp").is_empty());
}

#[test]
fn files_that_others_may_read_or_that_are_no_seed_are_refused() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("keys");
    let file = ClientKeyFile::at(&dir, &PIN).unwrap();
    let seed = file.load_or_create().unwrap();
    for bad in [0o640, 0o604, 0o620, 0o610, 0o777] {
        set_mode(&file.path(), bad);
        let e = file.load_or_create().err().unwrap();
        assert!(
            matches!(&e, KeyStoreError::Permissions { mode, .. } if *mode == bad),
            "{e}"
        );
        assert!(e.to_string().contains("--fresh-key"));
    }
    for good in [0o600, 0o400] {
        set_mode(&file.path(), good);
        assert_eq!(file.load().unwrap().unwrap().expose(), seed.expose());
    }
    set_mode(&file.path(), 0o600);
    for len in [0, 31, 33, 4096] {
        fs::write(file.path(), vec![7; len]).unwrap();
        let e = file.load_or_create().err().unwrap();
        assert!(
            matches!(e, KeyStoreError::SeedLength { bytes, expected: 32, .. } if bytes == len as u64),
            "{e}"
        );
    }
    // The remedy works.
    let fresh = file.replace().unwrap();
    assert_eq!(file.load_or_create().unwrap().expose(), fresh.expose());
    // A link, even to a sound file, and a folder.
    let moved = dir.join("elsewhere");
    fs::rename(file.path(), &moved).unwrap();
    std::os::unix::fs::symlink(&moved, file.path()).unwrap();
    assert!(matches!(
        file.load_or_create(),
        Err(KeyStoreError::NotAFile { .. })
    ));
    fs::remove_file(file.path()).unwrap();
    fs::create_dir(file.path()).unwrap();
    assert!(matches!(
        file.load_or_create(),
        Err(KeyStoreError::NotAFile { .. })
    ));
    for bad in [0o770, 0o707, 0o720] {
        set_mode(&dir, bad);
        let e = ClientKeyFile::at(&dir, &PIN).unwrap_err();
        assert!(matches!(e, KeyStoreError::Permissions { .. }), "{e}");
    }
    set_mode(&dir, 0o700);
}

#[test]
fn processes_that_begin_at_once_get_one_seed() {
    let base = tempfile::tempdir().unwrap();
    let seeds: Vec<[u8; 32]> = std::thread::scope(|s| {
        let all: Vec<_> = (0..8)
            .map(|_| {
                s.spawn(|| {
                    let f = ClientKeyFile::at(base.path(), &PIN).unwrap();
                    *f.load_or_create().unwrap().expose()
                })
            })
            .collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(seeds.windows(2).all(|w| w[0] == w[1]));
    assert!(files(base.path(), ".tmp").is_empty());
}

#[test]
fn notes_are_bound_to_seed_server_and_list() {
    let base = tempfile::tempdir().unwrap();
    let (list, other_list) = (toy_list(3), toy_list(2));
    let file = ClientKeyFile::at(base.path(), &PIN).unwrap();
    let seed = file.load_or_create().unwrap();
    let name = Fingerprint([9; 32]);
    assert_eq!(file.fingerprint(&list, &seed).unwrap(), None);
    file.remember(&list, &seed, &name).unwrap();
    assert_eq!(file.fingerprint(&list, &seed).unwrap(), Some(name));
    assert_eq!(file.fingerprint(&other_list, &seed).unwrap(), None);
    let server = ClientKeyFile::at(base.path(), &[1; 32]).unwrap();
    assert_eq!(server.fingerprint(&list, &seed).unwrap(), None);
    let wrong = SecretSeed::from_bytes([3; 32]);
    assert_eq!(file.fingerprint(&list, &wrong).unwrap(), None);
    file.forget(&list).unwrap();
    file.forget(&list).unwrap();
    assert_eq!(file.fingerprint(&list, &seed).unwrap(), None);

    file.remember(&list, &seed, &name).unwrap();
    let note = fs::read_dir(base.path())
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.to_string_lossy().contains(".keys-"))
        .unwrap();
    assert_eq!(mode(&note), 0o600);
    let bytes = fs::read(&note).unwrap();
    for at in 0..bytes.len() {
        let mut b = bytes.clone();
        b[at] ^= 4;
        fs::write(&note, &b).unwrap();
        assert_eq!(file.fingerprint(&list, &seed).unwrap(), None, "byte {at}");
        fs::write(&note, &bytes[..at]).unwrap();
        assert_eq!(file.fingerprint(&list, &seed).unwrap(), None, "{at} bytes");
    }
    // The note of another server's list copied here is not believed.
    fs::write(&note, &bytes).unwrap();
    assert_eq!(file.fingerprint(&list, &seed).unwrap(), Some(name));
    let fresh = file.replace().unwrap();
    assert!(!note.exists());
    fs::write(&note, &bytes).unwrap();
    assert_eq!(file.fingerprint(&list, &fresh).unwrap(), None);
}
