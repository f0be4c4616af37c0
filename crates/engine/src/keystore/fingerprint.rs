//! The name of a client's keys: a hash over everything that they are.

use super::list::product_ring;
use super::{KeyList, RINGS};
use crate::handshake::hex;
use std::fmt;
use std::str::FromStr;

/// Version of what is hashed.
pub const FINGERPRINT_VERSION: u32 = 2;

/// BLAKE3 over version, all rings, all public keys and all evaluation keys in order. Public: it names keys that hold no
/// secret, and whoever presents another client's gets answers that only that client can decrypt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({}...)", hex(&self.0[..8]))
    }
}

/// Text that is not 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not 64 lower-case hexadecimal digits")]
pub struct NotHex;

impl FromStr for Fingerprint {
    type Err = NotHex;

    fn from_str(s: &str) -> Result<Self, NotHex> {
        parse_hex(s).map(Self).ok_or(NotHex)
    }
}

/// 32 bytes from 64 lower-case hexadecimal digits.
#[must_use]
pub fn parse_hex(s: &str) -> Option<[u8; 32]> {
    let digit = |b: u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        _ => None,
    };
    let bytes = s.as_bytes();
    if bytes.len() != 64 {
        return None;
    }
    let mut out = [0; 32];
    for (o, pair) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
        *o = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(out)
}

/// Computes a fingerprint while keys are sent, received or read.
#[derive(Clone)]
pub struct FingerprintHasher {
    hasher: blake3::Hasher,
    objects: u64,
}

impl FingerprintHasher {
    /// Begins with version, parameter digests and literals of both CKKS rings, degree and primes of the product ring.
    #[must_use]
    pub fn new(list: &KeyList) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("cipherloom evaluation keys fingerprint");
        hasher.update(&FINGERPRINT_VERSION.to_le_bytes());
        for ring in RINGS {
            let params = list.params(ring);
            hasher.update(&params.digest().0);
            // The digest covers the literal; hashing it as well keeps the fingerprint independent of the digest's definition.
            let l = params.chain().literal();
            for v in [l.log_n, l.log_scale, l.dnum] {
                hasher.update(&v.to_le_bytes());
            }
            for bits in [&l.q_bits, &l.p_bits] {
                hasher.update(&(bits.len() as u32).to_le_bytes());
                for b in bits {
                    hasher.update(&b.to_le_bytes());
                }
            }
        }
        for word in product_ring(list.products()) {
            hasher.update(&word.to_le_bytes());
        }
        Self { hasher, objects: 0 }
    }

    /// The next object: a public or an evaluation key as encoded.
    pub fn update(&mut self, object: &[u8]) {
        self.hasher.update(&(object.len() as u64).to_le_bytes());
        self.hasher.update(object);
        self.objects += 1;
    }

    /// The fingerprint of all objects.
    #[must_use]
    pub fn finish(mut self) -> Fingerprint {
        self.hasher.update(&self.objects.to_le_bytes());
        Fingerprint(*self.hasher.finalize().as_bytes())
    }
}
