//! Files that only their owner may read, written atomically.

use super::KeyStoreError;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// Attempts to find a free temporary name.
const ATTEMPTS: u32 = 1000;

#[cfg(unix)]
mod system {
    use super::{DirBuilder, OpenOptions};
    use std::fs::Metadata;
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};

    pub(super) fn owner_only_file(options: &mut OpenOptions) {
        options.mode(0o600);
    }

    pub(super) fn owner_only_dir(builder: &mut DirBuilder) {
        builder.mode(0o700);
    }

    pub(super) fn mode(meta: &Metadata) -> Option<u32> {
        Some(meta.permissions().mode() & 0o7777)
    }

    pub(super) fn same_file(a: &Metadata, b: &Metadata) -> bool {
        (a.dev(), a.ino()) == (b.dev(), b.ino())
    }
}

#[cfg(not(unix))]
mod system {
    use super::{DirBuilder, OpenOptions};
    use std::fs::Metadata;

    pub(super) fn owner_only_file(_: &mut OpenOptions) {}
    pub(super) fn owner_only_dir(_: &mut DirBuilder) {}
    pub(super) fn mode(_: &Metadata) -> Option<u32> {
        None
    }
    pub(super) fn same_file(_: &Metadata, _: &Metadata) -> bool {
        true
    }
}

/// Makes a folder (and its parents) that only the owner may enter. One that exists is left as it is.
pub(super) fn make_dir(dir: &Path) -> Result<(), KeyStoreError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    system::owner_only_dir(&mut builder);
    builder.create(dir).map_err(|e| KeyStoreError::io(dir, &e))
}

/// Refuses a folder in which others can replace files.
pub(super) fn check_dir(dir: &Path) -> Result<(), KeyStoreError> {
    let meta = fs::metadata(dir).map_err(|e| KeyStoreError::io(dir, &e))?;
    let Some(mode) = system::mode(&meta) else {
        return Err(KeyStoreError::NoPermissions {
            path: dir.display().to_string(),
        });
    };
    if mode & 0o022 != 0 {
        return Err(KeyStoreError::Permissions {
            path: dir.display().to_string(),
            mode,
            remedy: "others could replace the seed; chmod 700 the folder",
        });
    }
    Ok(())
}

/// Opens a new file of mode 0600; fails if the name exists.
pub(super) fn create_new(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).read(true).create_new(true);
    system::owner_only_file(&mut options);
    options.open(path)
}

/// A new temporary file beside `path`, with these bytes, on disk.
fn temporary(path: &Path, bytes: &[u8]) -> Result<PathBuf, KeyStoreError> {
    let name = path
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    for n in 0..ATTEMPTS {
        let temp = path.with_file_name(format!(".{name}.{}.{n}.tmp", std::process::id()));
        match create_new(&temp) {
            Ok(mut file) => {
                let written = file.write_all(bytes).and_then(|()| file.sync_all());
                if let Err(e) = written {
                    // The error that counts is the one being returned.
                    let _ = fs::remove_file(&temp);
                    return Err(KeyStoreError::io(&temp, &e));
                }
                return Ok(temp);
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(KeyStoreError::io(&temp, &e)),
        }
    }
    Err(KeyStoreError::Io {
        path: path.display().to_string(),
        detail: format!("{ATTEMPTS} temporary files beside it are left over; remove *.tmp"),
    })
}

/// Writes a complete new file under a name that must not exist. `false` when it does: nothing is changed then.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> Result<bool, KeyStoreError> {
    let temp = temporary(path, bytes)?;
    // A link appears with all its bytes, and only if the name is free.
    let linked = fs::hard_link(&temp, path);
    let _ = fs::remove_file(&temp);
    match linked {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(KeyStoreError::io(path, &e)),
    }
}

/// Writes a complete file, replacing one of this name.
pub(super) fn write_replacing(path: &Path, bytes: &[u8]) -> Result<(), KeyStoreError> {
    let temp = temporary(path, bytes)?;
    fs::rename(&temp, path).map_err(|e| {
        let _ = fs::remove_file(&temp);
        KeyStoreError::io(path, &e)
    })
}

/// Opens a file for reading; `None` when there is none. Links, folders and devices are refused.
pub(super) fn open_plain(path: &Path) -> Result<Option<(File, fs::Metadata)>, KeyStoreError> {
    let not_a_file = || KeyStoreError::NotAFile {
        path: path.display().to_string(),
    };
    let named = match fs::symlink_metadata(path) {
        Ok(m) => m,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(KeyStoreError::io(path, &e)),
    };
    if !named.is_file() {
        return Err(not_a_file());
    }
    let file = File::open(path).map_err(|e| KeyStoreError::io(path, &e))?;
    let meta = file.metadata().map_err(|e| KeyStoreError::io(path, &e))?;
    // What was opened must be what was looked at, not a link put there meanwhile.
    if !meta.is_file() || !system::same_file(&named, &meta) {
        return Err(not_a_file());
    }
    Ok(Some((file, meta)))
}

/// Reads the seed in `path` into `out`; `false` when there is no such file.
pub(super) fn read_seed(path: &Path, out: &mut [u8; 32]) -> Result<bool, KeyStoreError> {
    let Some((mut file, meta)) = open_plain(path)? else {
        return Ok(false);
    };
    let shown = || path.display().to_string();
    let Some(mode) = system::mode(&meta) else {
        return Err(KeyStoreError::NoPermissions { path: shown() });
    };
    if mode & 0o077 != 0 {
        return Err(KeyStoreError::Permissions {
            path: shown(),
            mode,
            remedy: "a seed must be readable by its owner only; if nobody else read it, chmod 600, otherwise make a new key \
                     with --fresh-key",
        });
    }
    if meta.len() != out.len() as u64 {
        return Err(KeyStoreError::SeedLength {
            path: shown(),
            bytes: meta.len(),
            expected: out.len(),
        });
    }
    file.read_exact(out)
        .map_err(|e| KeyStoreError::io(path, &e))?;
    Ok(true)
}
