//! Binary encodings of keys and ciphertexts.
//!
//! Layout, all integers little-endian: magic `CLCK`, format version (u16), kind (u16), parameter digest (32 bytes), then
//!
//! - public key (1): seed, b;
//! - evaluation key (2): Galois element (u64, 0 for relinearisation), highest level (u16), then for
//!   each digit its seed and b over the special primes and q_0 ... q_level, as [`KeyDigit::b`] says;
//! - seeded ciphertext (3): level (u16), scale (u128 mantissa, i32 exponent), seed, c0;
//! - ciphertext (4): level (u16), number of parts (u16), scale, the parts.
//!
//! Polynomials are in NTT form, limb after limb, each residue at ceil(log2 q) bits. The sizes are those of [`crate::size`].
//! Decoders check the whole length against the parameters before they allocate.

use cipherloom_ring::{Basis, Ntt, PackedPoly, Poly, PublicSeed, UniformXof};
use cipherloom_spec::Scale;

use crate::ciphertext::{Ciphertext, SeededCiphertext};
use crate::error::CkksError;
use crate::keygen::check_purpose;
use crate::keys::{EvaluationKey, KeyDigit, KeyPurpose, PublicKey};
use crate::params::{CkksParameters, ParamsDigest};
use crate::size;

/// Version of this format. 2: evaluation keys are divided by P.
pub const FORMAT_VERSION: u16 = 2;
/// First bytes of every object.
pub const MAGIC: [u8; 4] = *b"CLCK";

#[derive(Clone, Copy)]
enum Kind {
    PublicKey = 1,
    EvaluationKey = 2,
    SeededCiphertext = 3,
    Ciphertext = 4,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::PublicKey => "public key",
            Self::EvaluationKey => "evaluation key",
            Self::SeededCiphertext => "seeded ciphertext",
            Self::Ciphertext => "ciphertext",
        }
    }
}

fn header(kind: Kind, digest: ParamsDigest, capacity: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(capacity);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    out.extend_from_slice(&(kind as u16).to_le_bytes());
    out.extend_from_slice(&digest.0);
    out
}

fn put_scale(out: &mut Vec<u8>, scale: Scale) {
    let (mant, exp) = scale.parts();
    out.extend_from_slice(&mant.to_le_bytes());
    out.extend_from_slice(&exp.to_le_bytes());
}

/// Reads front to back; every read checks the length.
struct Reader<'a> {
    what: &'static str,
    total: usize,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Checks magic, version, kind and digest.
    fn open(params: &CkksParameters, kind: Kind, bytes: &'a [u8]) -> Result<Self, CkksError> {
        let mut r = Self {
            what: kind.name(),
            total: bytes.len(),
            rest: bytes,
        };
        if r.array::<4>()? != MAGIC {
            return Err(CkksError::Magic);
        }
        let got = r.u16()?;
        if got != FORMAT_VERSION {
            return Err(CkksError::Version {
                got,
                known: FORMAT_VERSION,
            });
        }
        let got = r.u16()?;
        if got != kind as u16 {
            return Err(CkksError::Kind {
                got,
                expected: kind as u16,
                name: kind.name(),
            });
        }
        params.check_digest(kind.name(), ParamsDigest(r.array()?))?;
        Ok(r)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], CkksError> {
        if len > self.rest.len() {
            return Err(CkksError::Length {
                what: self.what,
                got: self.total,
                expected: self.total - self.rest.len() + len,
            });
        }
        let (head, tail) = self.rest.split_at(len);
        self.rest = tail;
        Ok(head)
    }

    fn array<const LEN: usize>(&mut self) -> Result<[u8; LEN], CkksError> {
        let mut out = [0; LEN];
        out.copy_from_slice(self.take(LEN)?);
        Ok(out)
    }

    fn u16(&mut self) -> Result<u16, CkksError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn level(&mut self, params: &CkksParameters) -> Result<usize, CkksError> {
        let value = self.u16()?;
        let max = params.top_level();
        if usize::from(value) > max {
            return Err(CkksError::Field {
                field: "level",
                value: u64::from(value),
                min: 0,
                max: max as u64,
            });
        }
        Ok(usize::from(value))
    }

    fn scale(&mut self) -> Result<Scale, CkksError> {
        let mant = u128::from_le_bytes(self.array()?);
        let exp = i32::from_le_bytes(self.array()?);
        Scale::from_parts(mant, exp).ok_or(CkksError::ScaleEncoding)
    }

    /// The whole object must have this length: checked before the polynomials are read.
    fn expect_total(&self, expected: usize) -> Result<(), CkksError> {
        if self.total == expected {
            Ok(())
        } else {
            Err(CkksError::Length {
                what: self.what,
                got: self.total,
                expected,
            })
        }
    }

    fn seed(&mut self) -> Result<PublicSeed, CkksError> {
        Ok(PublicSeed(self.array()?))
    }

    fn poly(&mut self, basis: &Basis) -> Result<Poly<Ntt>, CkksError> {
        let bytes = self.take(Poly::<Ntt>::packed_len(basis))?;
        Ok(Poly::from_bytes(basis, bytes)?)
    }

    fn packed(&mut self, basis: &Basis) -> Result<PackedPoly, CkksError> {
        let bytes = self.take(Poly::<Ntt>::packed_len(basis))?;
        Ok(PackedPoly::from_bytes(basis, bytes)?)
    }
}

impl PublicKey {
    /// Encodes the key: [`size::public_key_bytes`] bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let len = size::HEADER_BYTES + size::SEED_BYTES + Poly::<Ntt>::packed_len(self.b.basis());
        let mut out = header(Kind::PublicKey, self.digest, len);
        out.extend_from_slice(&self.seed.0);
        out.extend_from_slice(&self.b.to_bytes());
        out
    }

    /// Decodes a key and expands its uniform part.
    ///
    /// # Errors
    /// Any malformed byte gives a typed error.
    pub fn from_bytes(params: &CkksParameters, bytes: &[u8]) -> Result<Self, CkksError> {
        let mut r = Reader::open(params, Kind::PublicKey, bytes)?;
        r.expect_total(size::public_key_bytes(params.chain()))?;
        let basis = params.basis(params.top_level())?;
        let seed = r.seed()?;
        let b = r.poly(&basis)?;
        Ok(Self {
            b,
            a: UniformXof::new(seed).poly(&basis),
            seed,
            digest: params.digest(),
        })
    }
}

impl EvaluationKey {
    /// Encodes the key, half its size in memory: [`size::evaluation_key_bytes`] bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let polys: usize = self
            .digits
            .iter()
            .map(|d| size::SEED_BYTES + d.b.as_bytes().len())
            .sum();
        let len = size::HEADER_BYTES + size::KEY_FIELDS_BYTES + polys;
        let mut out = header(Kind::EvaluationKey, self.digest, len);
        out.extend_from_slice(&self.purpose.code().to_le_bytes());
        out.extend_from_slice(&(self.max_level as u16).to_le_bytes());
        for d in &self.digits {
            out.extend_from_slice(&d.seed.0);
            out.extend_from_slice(d.b.as_bytes());
        }
        out
    }

    /// Decodes a key and expands its uniform parts.
    ///
    /// # Errors
    /// Any malformed byte gives a typed error.
    pub fn from_bytes(params: &CkksParameters, bytes: &[u8]) -> Result<Self, CkksError> {
        let mut r = Reader::open(params, Kind::EvaluationKey, bytes)?;
        let purpose = match u64::from_le_bytes(r.array()?) {
            0 => KeyPurpose::Relinearization,
            g => KeyPurpose::Galois(g),
        };
        check_purpose(params, purpose)?;
        let max_level = r.level(params)?;
        r.expect_total(size::evaluation_key_bytes(params.chain(), max_level))?;
        let basis = params.key_basis(max_level)?;
        let digits = (0..params.chain().digits(max_level).len())
            .map(|_| {
                let seed = r.seed()?;
                let b = r.packed(&basis)?;
                let a = PackedPoly::new(&UniformXof::new(seed).poly(&basis));
                Ok(KeyDigit { b, a, seed })
            })
            .collect::<Result<Vec<_>, CkksError>>()?;
        Self::assemble(params, purpose, max_level, digits)
    }
}

impl SeededCiphertext {
    /// Encodes the ciphertext: [`size::seeded_ciphertext_bytes`] bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let len = size::HEADER_BYTES
            + size::SEEDED_FIELDS_BYTES
            + size::SEED_BYTES
            + Poly::<Ntt>::packed_len(self.c0().basis());
        let mut out = header(Kind::SeededCiphertext, self.digest(), len);
        out.extend_from_slice(&(self.level() as u16).to_le_bytes());
        put_scale(&mut out, self.scale());
        out.extend_from_slice(&self.seed().0);
        out.extend_from_slice(&self.c0().to_bytes());
        out
    }

    /// Decodes a seeded ciphertext. The caller compares level and scale with its plan.
    ///
    /// # Errors
    /// Any malformed byte gives a typed error.
    pub fn from_bytes(params: &CkksParameters, bytes: &[u8]) -> Result<Self, CkksError> {
        let mut r = Reader::open(params, Kind::SeededCiphertext, bytes)?;
        let level = r.level(params)?;
        let scale = r.scale()?;
        r.expect_total(size::seeded_ciphertext_bytes(params.chain(), level))?;
        let seed = r.seed()?;
        let c0 = r.poly(&params.basis(level)?)?;
        Ok(Self::raw(c0, seed, scale, params.digest()))
    }
}

impl Ciphertext {
    /// Encodes the ciphertext: [`size::ciphertext_bytes`] bytes.
    ///
    /// A server must not send the result of its own work in this form: what goes back to the key's
    /// owner is masked and re-randomised first.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let polys: usize = self
            .parts()
            .iter()
            .map(|p| Poly::<Ntt>::packed_len(p.basis()))
            .sum();
        let len = size::HEADER_BYTES + size::CIPHERTEXT_FIELDS_BYTES + polys;
        let mut out = header(Kind::Ciphertext, self.digest(), len);
        out.extend_from_slice(&(self.level() as u16).to_le_bytes());
        out.extend_from_slice(&(self.parts().len() as u16).to_le_bytes());
        put_scale(&mut out, self.scale());
        for p in self.parts() {
            out.extend_from_slice(&p.to_bytes());
        }
        out
    }

    /// Decodes a ciphertext. The caller compares level and scale with its plan.
    ///
    /// # Errors
    /// Any malformed byte gives a typed error.
    pub fn from_bytes(params: &CkksParameters, bytes: &[u8]) -> Result<Self, CkksError> {
        let mut r = Reader::open(params, Kind::Ciphertext, bytes)?;
        let level = r.level(params)?;
        let count = r.u16()?;
        if !(2..=3).contains(&count) {
            return Err(CkksError::Field {
                field: "parts",
                value: u64::from(count),
                min: 2,
                max: 3,
            });
        }
        let scale = r.scale()?;
        r.expect_total(size::ciphertext_bytes(
            params.chain(),
            level,
            usize::from(count),
        ))?;
        let basis = params.basis(level)?;
        let parts = (0..count)
            .map(|_| r.poly(&basis))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self::raw(parts, scale, params.digest()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fixed polynomials, keys and seeds: any change of an encoding must raise `FORMAT_VERSION`.
    #[test]
    fn the_format_is_frozen() {
        let chain = cipherloom_testkit::INSECURE_TOY_9()
            .insecure_build()
            .unwrap();
        let params = CkksParameters::insecure_for_tests(chain).unwrap();
        let poly = |basis: &Basis, tag: i64| {
            let v: Vec<i64> = (0..512)
                .map(|i| (i * i * 7_919 + tag) * 1_000_003)
                .collect();
            Poly::from_i64(basis, &v).unwrap().into_ntt()
        };
        let digest = params.digest();
        let top = params.basis(4).unwrap();
        let key_basis = params.key_basis(2).unwrap();
        let public = PublicKey {
            b: poly(&top, 1),
            a: poly(&top, 2),
            seed: PublicSeed([1; 32]),
            digest,
        };
        let digits = (0..2)
            .map(|d| KeyDigit {
                b: PackedPoly::new(&poly(&key_basis, 3 + d)),
                a: PackedPoly::new(&poly(&key_basis, 0)),
                seed: PublicSeed([d as u8; 32]),
            })
            .collect();
        let key = EvaluationKey::assemble(&params, KeyPurpose::Galois(5), 2, digits).unwrap();
        let scale = params.scale(2);
        let low = params.basis(2).unwrap();
        let seeded = SeededCiphertext::raw(poly(&low, 9), PublicSeed([3; 32]), scale, digest);
        let ct = Ciphertext::raw(vec![poly(&low, 5), poly(&low, 6)], scale, digest);
        let hash = |b: Vec<u8>| blake3::hash(&b).to_hex()[..16].to_string();
        let got = [
            hash(public.to_bytes()),
            hash(key.to_bytes()),
            hash(seeded.to_bytes()),
            hash(ct.to_bytes()),
            digest.to_string(),
        ];
        assert_eq!(got, GOLDEN);
    }

    const GOLDEN: [&str; 5] = [
        "cad6b67b0e89f20d",
        "430a9545eafa6e60",
        "dc357e9f638b3681",
        "54cf003074f091b6",
        "878a26a48164998c",
    ];
}
