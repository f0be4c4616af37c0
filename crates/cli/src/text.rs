//! Reading the document.

use crate::error::{file_error, CliError};
use cipherloom_model::tokenizer::read_text_file;
use std::io::Read;
use std::path::Path;

/// Longest text that is read from standard input, in bytes.
const STDIN_LIMIT: u64 = 64 << 20;

/// Reads a text file, or standard input for `-`.
///
/// # Errors
/// File errors, text that is too long or not UTF-8.
pub fn read_text(path: &Path) -> Result<String, CliError> {
    if path.as_os_str() != "-" {
        return Ok(read_text_file(path)?);
    }
    let name = Path::new("standard input");
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .take(STDIN_LIMIT + 1)
        .read_to_string(&mut text)
        .map_err(|e| file_error(name, e))?;
    if text.len() as u64 > STDIN_LIMIT {
        return Err(file_error(name, "longer than 64 MiB; cut the document"));
    }
    Ok(text)
}
