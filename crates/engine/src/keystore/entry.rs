//! The file of one entry: a header, then the objects of the key list without separators.
//!
//! Header, little-endian: magic `CLEK`, version (u16), two zero bytes, fingerprint, parameter digest of each CKKS ring, digest
//! of the key list (the product ring included), number of objects (u32), four zero bytes, bytes of all objects (u64), BLAKE3 of the header so far.

use super::upload::{Assembly, Held};
use super::{Fingerprint, KeyList, RINGS};
use std::io::Read;
use std::sync::Arc;

/// Version of the format.
pub(super) const VERSION: u16 = 3;
const MAGIC: [u8; 4] = *b"CLEK";
/// Bytes of a header.
pub(super) const HEADER_BYTES: usize = 4 + 2 + 2 + 32 + 2 * 32 + 32 + 4 + 4 + 8 + 32;
const SEALED: usize = HEADER_BYTES - 32;

/// Why an entry does not serve.
#[derive(Debug)]
pub(super) enum Fault {
    Corrupt(String),
    Version(u16),
    OtherPlan,
    Io(std::io::Error),
}

impl From<std::io::Error> for Fault {
    fn from(e: std::io::Error) -> Self {
        match e.kind() {
            std::io::ErrorKind::UnexpectedEof => Self::Corrupt("truncated".into()),
            _ => Self::Io(e),
        }
    }
}

/// A decoded header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) fingerprint: Fingerprint,
    rings: [[u8; 32]; 2],
    list: [u8; 32],
    objects: u32,
    pub(super) body: u64,
}

impl Header {
    pub(super) fn new(fingerprint: Fingerprint, list: &KeyList) -> Self {
        Self {
            fingerprint,
            rings: RINGS.map(|r| list.params(r).digest().0),
            list: list.digest(),
            objects: list.keys().len() as u32,
            body: list.total_bytes(),
        }
    }

    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.fingerprint.0);
        out.extend(self.rings.iter().flatten());
        out.extend_from_slice(&self.list);
        out.extend_from_slice(&self.objects.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.body.to_le_bytes());
        let seal = blake3::hash(&out);
        out.extend_from_slice(seal.as_bytes());
        let mut fixed = [0; HEADER_BYTES];
        fixed.copy_from_slice(&out);
        fixed
    }

    /// Decodes a header and checks its digest; `file` is the length of the whole file.
    pub(super) fn read(bytes: &[u8; HEADER_BYTES], file: u64) -> Result<Self, Fault> {
        let corrupt = |what: &str| Err(Fault::Corrupt(what.into()));
        if bytes[..4] != MAGIC {
            return corrupt("no key file");
        }
        let version = u16::from_le_bytes([bytes[4], bytes[5]]);
        if version != VERSION {
            return Err(Fault::Version(version));
        }
        if blake3::hash(&bytes[..SEALED]).as_bytes() != &bytes[SEALED..] {
            return corrupt("the header does not have its digest");
        }
        let mut at = 8;
        let mut word = |out: &mut [u8]| {
            out.copy_from_slice(&bytes[at..at + out.len()]);
            at += out.len();
        };
        let (mut fingerprint, mut rings, mut list) = ([0; 32], [[0; 32]; 2], [0; 32]);
        let (mut objects, mut zero, mut body) = ([0; 4], [0; 4], [0; 8]);
        word(&mut fingerprint);
        rings.iter_mut().for_each(|r| word(r));
        word(&mut list);
        word(&mut objects);
        word(&mut zero);
        word(&mut body);
        let header = Self {
            fingerprint: Fingerprint(fingerprint),
            rings,
            list,
            objects: u32::from_le_bytes(objects),
            body: u64::from_le_bytes(body),
        };
        let need = header.body.checked_add(HEADER_BYTES as u64);
        if need != Some(file) {
            return Err(Fault::Corrupt(format!(
                "{file} bytes, the header says {HEADER_BYTES} + {}",
                header.body
            )));
        }
        Ok(header)
    }
}

/// Reads and verifies a whole entry. Every length is that of the list; one object is in memory as encoded at a time.
pub(super) fn read(
    mut file: impl Read,
    file_bytes: u64,
    fingerprint: &Fingerprint,
    list: &Arc<KeyList>,
) -> Result<Arc<Held>, Fault> {
    let mut head = [0; HEADER_BYTES];
    file.read_exact(&mut head)?;
    let header = Header::read(&head, file_bytes)?;
    if header.fingerprint != *fingerprint {
        return Err(Fault::Corrupt("stored under another name".into()));
    }
    if header != Header::new(*fingerprint, list) {
        return Err(Fault::OtherPlan);
    }
    let mut assembly = Assembly::new(list);
    let mut object = Vec::new();
    while let Some(len) = assembly.next_len() {
        object.resize(len, 0);
        file.read_exact(&mut object)?;
        assembly
            .push(&object, None)
            .map_err(|e| Fault::Corrupt(e.to_string()))?;
    }
    let held = assembly
        .finish()
        .map_err(|e| Fault::Corrupt(e.to_string()))?;
    if held.fingerprint != *fingerprint {
        return Err(Fault::Corrupt(
            "the keys do not have their fingerprint".into(),
        ));
    }
    Ok(held)
}
