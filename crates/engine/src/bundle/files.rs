//! Reading files of a published folder under limits, and writing a folder that appears complete or not at all.

use super::BundleError;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

/// As [`read`], for a file of the owner's own model folder, which may be a link.
pub(super) fn read_source(path: &Path, limit: u64) -> Result<Vec<u8>, BundleError> {
    let real = fs::canonicalize(path).map_err(|e| BundleError::io(path, &e))?;
    read(&real, limit)
}

/// Reads an ordinary file of at most `limit` bytes. The limit holds for what is read, not only for what the system says.
pub(super) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, BundleError> {
    let shown = || path.display().to_string();
    let meta = match fs::symlink_metadata(path) {
        Ok(m) => m,
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return Err(BundleError::Missing { path: shown() })
        }
        Err(e) => return Err(BundleError::io(path, &e)),
    };
    if !meta.is_file() {
        return Err(BundleError::NotAFile { path: shown() });
    }
    let too_long = |got| BundleError::Length {
        path: shown(),
        got,
        expected: format!("at most {limit} are read"),
    };
    if meta.len() > limit {
        return Err(too_long(meta.len()));
    }
    let file = File::open(path).map_err(|e| BundleError::io(path, &e))?;
    let mut out = Vec::new();
    file.take(limit + 1)
        .read_to_end(&mut out)
        .map_err(|e| BundleError::io(path, &e))?;
    if out.len() as u64 > limit {
        return Err(too_long(out.len() as u64));
    }
    Ok(out)
}

/// Names of a folder's files; refuses any that is not `allowed`.
pub(super) fn only(dir: &Path, allowed: &[&str]) -> Result<(), BundleError> {
    for item in fs::read_dir(dir).map_err(|e| BundleError::io(dir, &e))? {
        let item = item.map_err(|e| BundleError::io(dir, &e))?;
        let name = item.file_name();
        if !allowed.iter().any(|a| name.as_os_str() == *a) {
            return Err(BundleError::Unexpected {
                path: item.path().display().to_string(),
                allowed: allowed.join(", "),
            });
        }
    }
    Ok(())
}

/// Writes a new file that must not exist.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), BundleError> {
    create(path, bytes, &mut OpenOptions::new())
}

/// As [`write_new`], readable by nobody but its owner.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), BundleError> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    create(path, bytes, &mut options)
}

fn create(path: &Path, bytes: &[u8], options: &mut OpenOptions) -> Result<(), BundleError> {
    let opened = options.write(true).create_new(true).open(path);
    let mut file = opened.map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => BundleError::Exists {
            path: path.display().to_string(),
        },
        _ => BundleError::io(path, &e),
    })?;
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .map_err(|e| BundleError::io(path, &e))
}

/// Whether a group or everybody may read the file.
pub(super) fn readable_by_others(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o044 != 0)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// A folder being written; removed unless it is put in place.
pub(super) struct Draft {
    path: Option<std::path::PathBuf>,
}

impl Draft {
    /// A new folder beside `target`.
    pub(super) fn beside(target: &Path) -> Result<Self, BundleError> {
        let name = target
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default();
        let path = target.with_file_name(format!(".{name}.{}.draft", std::process::id()));
        fs::create_dir(&path).map_err(|e| BundleError::io(&path, &e))?;
        Ok(Self { path: Some(path) })
    }

    pub(super) fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or_else(|| Path::new(""))
    }

    /// Gives the folder its name.
    pub(super) fn publish(mut self, target: &Path) -> Result<(), BundleError> {
        // Renaming over a folder fails unless that one is empty.
        if fs::symlink_metadata(target).is_ok() {
            return Err(BundleError::Exists {
                path: target.display().to_string(),
            });
        }
        if let Some(path) = &self.path {
            fs::rename(path, target).map_err(|e| BundleError::io(target, &e))?;
        }
        self.path = None;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // What stays is named `.draft` and read by nobody.
            let _ = fs::remove_dir_all(path);
        }
    }
}
