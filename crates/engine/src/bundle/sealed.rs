//! Small JSON documents with format, version and a digest over themselves.
//!
//! They are read strictly: only the bytes that this release writes for a document are accepted, so every changed byte is seen.

use super::BundleError;
use crate::handshake::hex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Largest such document in bytes: thousands of labels.
pub(super) const MAX_BYTES: u64 = 4 << 20;

/// A document that carries its own digest.
pub(super) trait Sealed: Serialize + DeserializeOwned {
    const FORMAT: &'static str;
    const VERSION: u32;
    /// The field that holds the digest.
    fn seal(&mut self) -> &mut String;
}

/// The fields that every version has.
#[derive(Deserialize)]
struct Kind {
    format: String,
    version: u64,
}

fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = serde_json::to_vec_pretty(value)?;
    out.push(b'\n');
    Ok(out)
}

/// Fills in the digest and encodes.
pub(super) fn write<T: Sealed>(path: &Path, mut value: T) -> Result<Vec<u8>, BundleError> {
    let invalid = |e: serde_json::Error| BundleError::invalid(path, e);
    value.seal().clear();
    let digest = hex(blake3::hash(&encode(&value).map_err(invalid)?).as_bytes());
    *value.seal() = digest;
    encode(&value).map_err(invalid)
}

/// Decodes and checks format, version and digest.
pub(super) fn read<T: Sealed>(path: &Path, bytes: &[u8]) -> Result<T, BundleError> {
    let invalid = |e: serde_json::Error| BundleError::invalid(path, format!("not valid: {e}"));
    let kind: Kind = serde_json::from_slice(bytes).map_err(invalid)?;
    if kind.format != T::FORMAT || kind.version != u64::from(T::VERSION) {
        return Err(BundleError::Version {
            path: path.display().to_string(),
            format: kind.format,
            version: kind.version,
            known_format: T::FORMAT,
            known: T::VERSION,
        });
    }
    let parse = || serde_json::from_slice::<T>(bytes).map_err(invalid);
    if write(path, parse()?)? != bytes {
        return Err(BundleError::invalid(
            path,
            "it was changed after it was written; get it again from the model's provider",
        ));
    }
    parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Note {
        format: String,
        version: u32,
        text: String,
        digest: String,
    }

    impl Sealed for Note {
        const FORMAT: &'static str = "note";
        const VERSION: u32 = 3;
        fn seal(&mut self) -> &mut String {
            &mut self.digest
        }
    }

    #[test]
    fn every_flipped_byte_and_every_truncation_is_refused() {
        let path = Path::new("note.json");
        let note = Note {
            format: "note".into(),
            version: 3,
            text: "a\nb".into(),
            digest: String::new(),
        };
        let bytes = write(path, note.clone()).unwrap();
        let back: Note = read(path, &bytes).unwrap();
        assert_eq!((back.text, back.digest.len()), (note.text, 64));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut b = bytes.clone();
                b[at] ^= 1 << bit;
                assert!(read::<Note>(path, &b).is_err(), "byte {at} bit {bit}");
            }
            assert!(read::<Note>(path, &bytes[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn another_version_is_named_whatever_its_fields() {
        let e = read::<Note>(
            Path::new("note.json"),
            br#"{"format":"note","version":4,"more":[]}"#,
        )
        .unwrap_err();
        assert!(
            matches!(
                e,
                BundleError::Version {
                    version: 4,
                    known: 3,
                    ..
                }
            ),
            "{e}"
        );
    }
}
