//! The model and the document that the program ships with, so that a demo needs no file.

use crate::error::{file_error, CliError};
use std::path::PathBuf;
use tempfile::TempDir;

const FILES: [(&str, &[u8]); 5] = [
    (
        "config.json",
        include_bytes!("../../../models/mamba2-moviedoc/config.json"),
    ),
    (
        "model.safetensors",
        include_bytes!("../../../models/mamba2-moviedoc/model.safetensors"),
    ),
    (
        "tokenizer.json",
        include_bytes!("../../../models/mamba2-moviedoc/tokenizer.json"),
    ),
    (
        "tokenizer_config.json",
        include_bytes!("../../../models/mamba2-moviedoc/tokenizer_config.json"),
    ),
    (
        "calibration.json",
        include_bytes!("../../../models/mamba2-moviedoc/calibration.json"),
    ),
];

/// The shipped review.
pub const DOCUMENT: &str = include_str!("../../../documents/medium-positive.txt");
/// Its name.
pub const DOCUMENT_NAME: &str = "documents/medium-positive.txt (shipped)";

/// A model folder: the user's, or the shipped one in a temporary folder that lives as long as this value.
pub struct ModelFolder {
    /// Where it is.
    pub path: PathBuf,
    _temporary: Option<TempDir>,
}

impl ModelFolder {
    /// The given folder, or the shipped model.
    ///
    /// # Errors
    /// `File` when the temporary folder cannot be written.
    pub fn open(given: Option<&PathBuf>) -> Result<Self, CliError> {
        if let Some(path) = given {
            return Ok(Self {
                path: path.clone(),
                _temporary: None,
            });
        }
        let dir = tempfile::Builder::new()
            .prefix("cipherloom-model-")
            .tempdir()
            .map_err(|e| file_error(&std::env::temp_dir(), e))?;
        // The folder's name is the model's name in plans and reports.
        let path = dir.path().join("mamba2-moviedoc");
        std::fs::create_dir(&path).map_err(|e| file_error(&path, e))?;
        for (name, bytes) in FILES {
            let file = path.join(name);
            std::fs::write(&file, bytes).map_err(|e| file_error(&file, e))?;
        }
        Ok(Self {
            path,
            _temporary: Some(dir),
        })
    }

    /// Name for people.
    #[must_use]
    pub fn name(&self) -> String {
        self.path.file_name().map_or_else(
            || self.path.display().to_string(),
            |n| n.to_string_lossy().into_owned(),
        )
    }
}
