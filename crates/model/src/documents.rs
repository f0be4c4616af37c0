//! Data files: one JSON object `{"id", "text", "label"}` a line.

use crate::error::ModelError;
use crate::json::read_text;
use serde::Deserialize;
use std::path::Path;

/// Largest data file that is read, in bytes.
const DATA_LIMIT: u64 = 1 << 30;

/// One document. Unknown fields are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Document {
    /// Name for reports; the line number when the file gives none.
    #[serde(default)]
    pub id: String,
    /// The text.
    pub text: String,
    /// Class number, if known.
    #[serde(default)]
    pub label: Option<usize>,
}

impl Document {
    /// Reads a `.jsonl` file. Blank lines are skipped. At most `limit` documents are returned.
    ///
    /// # Errors
    /// [`ModelError::Document`] names the line that is not such an object, or says that there is none.
    pub fn read_all(path: &Path, limit: Option<usize>) -> Result<Vec<Self>, ModelError> {
        let text = read_text(path, DATA_LIMIT)?;
        let error = |line, reason| ModelError::Document {
            path: path.to_path_buf(),
            line,
            reason,
        };
        let mut out = Vec::new();
        for (i, line) in text.lines().enumerate() {
            if limit.is_some_and(|n| out.len() >= n) {
                break;
            }
            if line.trim().is_empty() {
                continue;
            }
            let mut d: Self =
                serde_json::from_str(line).map_err(|e| error(i + 1, e.to_string()))?;
            if d.id.is_empty() {
                d.id = format!("line {}", i + 1);
            }
            out.push(d);
        }
        if out.is_empty() {
            return Err(error(1, "the file has no documents".into()));
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_faults_name_their_line() {
        let dir = tempfile::tempdir().unwrap();
        let p = dir.path().join("d.jsonl");
        let good =
            "{\"id\": \"a\", \"text\": \"x\", \"label\": 1, \"more\": 2}\n\n{\"text\": \"y\"}\n";
        std::fs::write(&p, good).unwrap();
        let d = Document::read_all(&p, None).unwrap();
        assert_eq!(d.len(), 2);
        assert_eq!((d[0].label, d[1].label), (Some(1), None));
        assert_eq!(d[1].id, "line 3");
        assert_eq!(Document::read_all(&p, Some(1)).unwrap().len(), 1);
        std::fs::write(&p, format!("{good}{{\"id\": 3}}")).unwrap();
        let e = Document::read_all(&p, None).unwrap_err();
        assert!(matches!(e, ModelError::Document { line: 4, .. }), "{e}");
        std::fs::write(&p, "\n").unwrap();
        assert!(Document::read_all(&p, None).is_err());
    }
}
