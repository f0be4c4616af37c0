//! Reading small JSON files with a size limit and with the non-finite numbers that Python writes.

use crate::error::ModelError;
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Reads a whole file of at most `limit` bytes.
///
/// The limit is enforced on what is read, so a file that grows, or a device file, cannot exceed it.
pub(crate) fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>, ModelError> {
    let io = |source| ModelError::Io {
        path: path.to_path_buf(),
        source,
    };
    let file = File::open(path).map_err(io)?;
    let bytes = file.metadata().map_err(io)?.len();
    let too_large = |bytes| ModelError::FileTooLarge {
        path: path.to_path_buf(),
        bytes,
        limit,
    };
    if bytes > limit {
        return Err(too_large(bytes));
    }
    let mut out = Vec::new();
    file.take(limit + 1).read_to_end(&mut out).map_err(io)?;
    if out.len() as u64 > limit {
        return Err(too_large(out.len() as u64));
    }
    Ok(out)
}

/// Reads a text file of at most `limit` bytes as UTF-8.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<String, ModelError> {
    let bytes = read_limited(path, limit)?;
    String::from_utf8(bytes).map_err(|e| ModelError::NotUtf8 {
        path: path.to_path_buf(),
        offset: e.utf8_error().valid_up_to(),
    })
}

/// Parses a JSON file of at most `limit` bytes. Bare `Infinity`, `-Infinity` and `NaN`, which Python's
/// writer emits, become `{"__float__": "Infinity"}` and so on, which transformers 5 writes itself.
pub(crate) fn read_json(path: &Path, limit: u64) -> Result<Value, ModelError> {
    let text = read_text(path, limit)?;
    serde_json::from_str(&replace_bare_floats(&text)).map_err(|e| ModelError::Json {
        path: path.to_path_buf(),
        reason: e.to_string(),
    })
}

/// Replaces bare non-finite numbers outside strings.
fn replace_bare_floats(text: &str) -> String {
    const WORDS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_string = false;
    'outer: while let Some(c) = rest.chars().next() {
        if !in_string {
            for w in WORDS {
                if let Some(after) = rest.strip_prefix(w) {
                    out.push_str(&format!("{{\"__float__\": \"{w}\"}}"));
                    rest = after;
                    continue 'outer;
                }
            }
        }
        let mut end = c.len_utf8();
        if c == '"' {
            in_string = !in_string;
        } else if c == '\\' && in_string {
            // Keep the escaped character with its backslash, so that \" does not end the string.
            end += rest[1..].chars().next().map_or(0, char::len_utf8);
        }
        out.push_str(&rest[..end]);
        rest = &rest[end..];
    }
    out
}

/// A number, or one of the spellings of a non-finite number.
pub(crate) fn as_float(v: &Value) -> Option<f64> {
    match v {
        Value::Number(n) => n.as_f64(),
        Value::Object(map) if map.len() == 1 => match map.get("__float__")?.as_str()? {
            "Infinity" | "inf" => Some(f64::INFINITY),
            "-Infinity" | "-inf" => Some(f64::NEG_INFINITY),
            "NaN" | "nan" => Some(f64::NAN),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_floats_are_replaced_outside_strings_only() {
        let text = r#"{"a": [0.0, Infinity], "b": "Infinity \" NaN", "c": -Infinity, "é": NaN}"#;
        let v: Value = serde_json::from_str(&replace_bare_floats(text)).unwrap();
        assert_eq!(as_float(&v["a"][1]), Some(f64::INFINITY));
        assert_eq!(v["b"], "Infinity \" NaN");
        assert_eq!(as_float(&v["c"]), Some(f64::NEG_INFINITY));
        assert!(as_float(&v["é"]).unwrap().is_nan());
        assert_eq!(
            as_float(&serde_json::json!({"__float__": "Infinity"})),
            Some(f64::INFINITY)
        );
        assert_eq!(as_float(&serde_json::json!("Infinity")), None);
    }

    #[test]
    fn limits_hold() {
        let dir = tempfile::tempdir().unwrap();
        let p = dir.path().join("x.json");
        std::fs::write(&p, "[1, 2]").unwrap();
        assert!(read_json(&p, 6).is_ok());
        assert!(matches!(
            read_json(&p, 5),
            Err(ModelError::FileTooLarge {
                bytes: 6,
                limit: 5,
                ..
            })
        ));
        std::fs::write(&p, b"ab\xff").unwrap();
        assert!(matches!(
            read_text(&p, 10),
            Err(ModelError::NotUtf8 { offset: 2, .. })
        ));
        std::fs::write(&p, "[1, ").unwrap();
        assert!(matches!(read_json(&p, 10), Err(ModelError::Json { .. })));
    }
}
