//! Golden files: every stored and sent format of this release. Each is read, its values are checked, it is written again to
//! the same bytes, and another version gives its typed error. `golden/README.md` has the rule.
//!
//! `CIPHERLOOM_WRITE_GOLDEN=1 cargo test --release -p cipherloom-engine --test golden` makes them again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod documents;
mod objects;
mod stored;

// The tiny model, the toy rings and their clients.
#[allow(dead_code, unreachable_pub)]
#[path = "../../../../fuzz/src/lib.rs"]
mod targets;

use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden"))
}

/// The file, made first if it is asked for.
fn golden(name: &str, make: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let path = folder().join(name);
    if std::env::var_os("CIPHERLOOM_WRITE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, make()).unwrap();
    }
    std::fs::read(&path)
        .unwrap_or_else(|e| panic!("golden/{name}: {e}; CIPHERLOOM_WRITE_GOLDEN=1 makes it again"))
}

/// The file, which the encoder must make from the same values.
fn same(name: &str, make: impl Fn() -> Vec<u8>) -> Vec<u8> {
    let bytes = golden(name, &make);
    assert!(
        bytes == make(),
        "golden/{name} is not what this release writes: a changed format needs a new version"
    );
    bytes
}

/// A file with some bytes changed.
fn with(bytes: &[u8], at: usize, new: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out[at..at + new.len()].copy_from_slice(new);
    out
}

#[test]
fn the_golden_files_are_small() {
    fn size(dir: &std::path::Path) -> u64 {
        std::fs::read_dir(dir)
            .unwrap()
            .map(|f| {
                let f = f.unwrap();
                let meta = f.metadata().unwrap();
                if meta.is_dir() {
                    size(&f.path())
                } else {
                    meta.len()
                }
            })
            .sum()
    }
    assert!(size(&folder()) <= 3 << 20);
}
