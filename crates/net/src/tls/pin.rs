//! The pin: SHA-256 of a leaf certificate.

use crate::error::NetError;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use subtle::ConstantTimeEq;

/// SHA-256 of a server's leaf certificate (its DER bytes). Written as 64 hex digits; colons between bytes and capital
/// letters, as other tools print them, are read too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pin([u8; 32]);

impl Pin {
    /// The pin of a certificate in DER.
    #[must_use]
    pub fn of_certificate(der: &[u8]) -> Self {
        Self(Sha256::digest(der).into())
    }

    /// From the 32 bytes of the digest.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes of the digest.
    #[must_use]
    pub const fn bytes(&self) -> [u8; 32] {
        self.0
    }

    /// Whether the two are equal, in constant time.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({self})")
    }
}

impl From<Pin> for String {
    fn from(p: Pin) -> Self {
        p.to_string()
    }
}

impl TryFrom<String> for Pin {
    type Error = NetError;
    fn try_from(s: String) -> Result<Self, NetError> {
        s.parse()
    }
}

fn digit(c: u8) -> Option<u8> {
    match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        b'A'..=b'F' => Some(c - b'A' + 10),
        _ => None,
    }
}

impl FromStr for Pin {
    type Err = NetError;

    fn from_str(s: &str) -> Result<Self, NetError> {
        let wrong = |got: String| NetError::Certificate {
            what: "certificate pin".to_owned(),
            expected: "the SHA-256 of the server's certificate as 64 hex digits".to_owned(),
            got,
        };
        let text = s.trim().as_bytes();
        let with_colons = text.len() == 32 * 3 - 1;
        if text.len() != 64 && !with_colons {
            return Err(wrong(format!("{} characters", text.len())));
        }
        let step = if with_colons { 3 } else { 2 };
        let mut out = [0u8; 32];
        for (i, (o, c)) in out.iter_mut().zip(text.chunks(step)).enumerate() {
            let bad = || wrong(format!("another character in byte {}", i + 1));
            if c.get(2).is_some_and(|&x| x != b':') {
                return Err(bad());
            }
            let (high, low) = digit(c[0]).zip(digit(c[1])).ok_or_else(bad)?;
            *o = high << 4 | low;
        }
        Ok(Self(out))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn hex_goes_both_ways_and_other_text_is_refused() {
        // FIPS 180-4 example: SHA-256 of "abc".
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let p = Pin::of_certificate(b"abc");
        assert_eq!(p.to_string(), abc);
        assert_eq!(abc.parse::<Pin>().unwrap(), p);
        let upper: Vec<String> = p.bytes().iter().map(|b| format!("{b:02X}")).collect();
        assert_eq!(upper.join(":").parse::<Pin>().unwrap(), p);
        assert!(p.matches(&Pin::from_bytes(p.bytes())));
        let mut other = p.bytes();
        other[31] ^= 1;
        assert!(!p.matches(&Pin::from_bytes(other)));
        for bad in [
            "",
            &abc[1..],
            &format!("{abc}0"),
            &abc.replace('b', "g"),
            &upper.join("-"),
            &"é".repeat(32),
        ] {
            let e = bad.parse::<Pin>().unwrap_err();
            assert!(matches!(e, NetError::Certificate { .. }), "{bad}: {e}");
        }
    }
}
