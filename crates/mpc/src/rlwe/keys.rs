//! Keys of RLWE products. The client's secret is independent of every CKKS secret (R8).
//!
//! A public key is made once and used in many sessions. It holds no randomness of an encryption: uploads and exports draw
//! theirs from generators of their session ([`super::sums`]).

use cipherloom_ring::{
    Basis, Coeff, Ntt, Poly, PublicSeed, RingError, SecretPoly, SecretSeed, UniformXof,
};

use crate::export::ExportKey;
use crate::rlwe::params::SEED_BYTES;
use crate::rlwe::{ring_error, RlweParameters};
use crate::MpcError;

const SECRET_LABEL: &str = "cipherloom rlwe product secret key v1";
const ERROR_LABEL: &str = "cipherloom rlwe product public key error v1";

/// The client's secret: uniform ternary, in NTT form over `q`. Wiped on drop; neither `Clone` nor serialisable.
pub struct ProductKey {
    secret: SecretPoly<Ntt>,
    /// Gives the errors of public keys.
    errors: SecretSeed,
}

impl ProductKey {
    /// Derives the secret from the client's stored seed under a label that names degree and primes, so that parameter sets
    /// never share a secret (the security bound counts all primes of one secret). The same seed and parameters give the
    /// same key; errors and masks of encryptions never come from it.
    ///
    /// # Errors
    /// `Ring` in practice never.
    pub fn from_seed(params: &RlweParameters, seed: &SecretSeed) -> Result<Self, MpcError> {
        let mut prg = seed.derive(&label(SECRET_LABEL, params.upload_basis()), 0);
        let secret = prg
            .ternary_poly(params.upload_basis())
            .map_err(ring_error("product key"))?
            .into_ntt();
        Ok(Self {
            secret,
            errors: seed.derive_seed(&label(ERROR_LABEL, params.upload_basis()), 0),
        })
    }

    /// The secret in NTT form.
    #[must_use]
    pub(crate) fn secret(&self) -> &SecretPoly<Ntt> {
        &self.secret
    }

    /// The public key over `q'` whose uniform part expands from `uniform`. Both parties must contribute to that seed (R7).
    /// Cost: the expansion, an error and one product modulo the primes of `q'`.
    ///
    /// # Errors
    /// `Ring` when the key was made for other parameters.
    pub fn public_key(
        &self,
        params: &RlweParameters,
        uniform: PublicSeed,
    ) -> Result<ProductPublicKey, MpcError> {
        let err = ring_error("public key");
        let basis = params.export_basis();
        // The error depends on the seed of a: the difference of two public keys with one error would give the secret away.
        let errors = hex(String::from("uniform part "), &uniform.0);
        let mut b = self
            .errors
            .derive(&errors, 0)
            .cbd21_poly(basis)
            .map_err(err)?
            .into_ntt();
        let a = UniformXof::new(uniform).poly::<Ntt>(basis);
        let a_s = SecretPoly::new(a.mul(self.secret.expose()).map_err(err)?);
        b.expose_mut().sub_assign(a_s.expose()).map_err(err)?;
        Ok(ProductPublicKey {
            uniform,
            key: ExportKey::new(b.expose().clone(), a)?,
        })
    }
}

/// The client's public key at the server, over the export basis. Holds no secret.
#[derive(Debug, Clone)]
pub struct ProductPublicKey {
    uniform: PublicSeed,
    key: ExportKey,
}

impl ProductPublicKey {
    /// Bytes of the encoding: seed and `b`.
    #[must_use]
    pub fn encoded_bytes(params: &RlweParameters) -> usize {
        SEED_BYTES + Poly::<Coeff>::packed_len(params.export_basis())
    }

    /// Bytes in memory: two polynomials over `q'`.
    #[must_use]
    pub fn memory_bytes(params: &RlweParameters) -> usize {
        2 * 8 * params.export_basis().n() * params.export_basis().len()
    }

    /// The seed of the uniform part. The server checks that it is the one of the session in which the key is sent.
    #[must_use]
    pub fn seed(&self) -> &PublicSeed {
        &self.uniform
    }

    /// What is sent, hashed and stored: [`ProductPublicKey::encoded_bytes`] bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.uniform.0.to_vec();
        out.extend_from_slice(&self.key.b().to_bytes());
        out
    }

    /// Reads what [`ProductPublicKey::to_bytes`] wrote, for the same parameters.
    ///
    /// # Errors
    /// `Length`; `Malformed` for residues that are not reduced.
    pub fn from_bytes(params: &RlweParameters, bytes: &[u8]) -> Result<Self, MpcError> {
        let op = "public key";
        let length = MpcError::Length {
            op,
            left: bytes.len(),
            right: Self::encoded_bytes(params),
        };
        let Some((seed, b)) = bytes.split_first_chunk::<SEED_BYTES>() else {
            return Err(length);
        };
        if bytes.len() != Self::encoded_bytes(params) {
            return Err(length);
        }
        let b = Poly::<Ntt>::from_bytes(params.export_basis(), b).map_err(|e: RingError| {
            MpcError::Malformed {
                op,
                detail: e.to_string(),
            }
        })?;
        let uniform = PublicSeed(*seed);
        let a = UniformXof::new(uniform).poly(params.export_basis());
        Ok(Self {
            uniform,
            key: ExportKey::new(b, a)?,
        })
    }

    /// For [`crate::export`].
    #[must_use]
    pub fn export_key(&self) -> &ExportKey {
        &self.key
    }
}

/// A purpose with the ring of its secret: degree and primes.
fn label(purpose: &str, basis: &Basis) -> String {
    use std::fmt::Write;
    let mut label = format!("{purpose}, n {}", basis.n());
    for m in basis.moduli() {
        // Writing to a string does not fail.
        let _ = write!(label, ", {}", m.value());
    }
    label
}

fn hex(mut text: String, bytes: &[u8]) -> String {
    use std::fmt::Write;
    for b in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{b:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crt64_key(byte: u8) -> (RlweParameters, ProductKey) {
        let params = RlweParameters::crt64().unwrap();
        let key = ProductKey::from_seed(&params, &SecretSeed::from_bytes([byte; 32])).unwrap();
        (params, key)
    }

    /// `b + a s`, the error of a public key, in coefficients.
    fn error(params: &RlweParameters, key: &ProductKey, public: &ProductPublicKey) -> Poly<Coeff> {
        let a = UniformXof::new(*public.seed()).poly::<Ntt>(params.export_basis());
        let mut e = public.key.b().clone();
        e.mul_add_assign(&a, key.secret().expose()).unwrap();
        e.into_coeff()
    }

    #[test]
    fn a_decoded_key_equals_the_sent_one_and_is_a_sample_of_the_secret() {
        let (params, key) = crt64_key(1);
        let public = key.public_key(&params, PublicSeed([2; 32])).unwrap();
        let bytes = public.to_bytes();
        assert_eq!(bytes.len(), ProductPublicKey::encoded_bytes(&params));
        let again = ProductPublicKey::from_bytes(&params, &bytes).unwrap();
        assert_eq!(again.to_bytes(), bytes);
        assert_eq!(again.seed().0, [2; 32]);
        let e = error(&params, &key, &again);
        for i in 0..e.limbs() {
            let m = e.basis().modulus(i);
            assert!(e.limb(i).iter().all(|&x| m.center(x).abs() <= 21));
        }
        assert!(e.limb(0).iter().any(|&x| x != 0));
        let mut long = bytes.clone();
        long.push(0);
        for bad in [&bytes[1..], &bytes[..7], &long, &[]] {
            assert!(matches!(
                ProductPublicKey::from_bytes(&params, bad),
                Err(MpcError::Length { .. })
            ));
        }
        let mut unreduced = bytes;
        unreduced[SEED_BYTES..].fill(0xff);
        assert!(matches!(
            ProductPublicKey::from_bytes(&params, &unreduced),
            Err(MpcError::Malformed { .. })
        ));
    }

    /// One error under two uniform parts would give `(a - a') s` without noise.
    #[test]
    fn public_keys_of_one_secret_share_no_error() {
        let (params, key) = crt64_key(1);
        let errors = [[3; 32], [4; 32], [3; 32]].map(|seed| {
            let public = key.public_key(&params, PublicSeed(seed)).unwrap();
            error(&params, &key, &public).limb(0).to_vec()
        });
        // The same seed in both: the same key, hence nothing new.
        assert_eq!(errors[0], errors[2]);
        let equal = errors[0]
            .iter()
            .zip(&errors[1])
            .filter(|(x, y)| x == y)
            .count();
        // Two independent errors of deviation 3.2 agree in about 9 % of the places.
        assert!(equal < params.slots() / 8, "{equal}");
    }

    #[test]
    fn a_key_is_a_function_of_its_seed() {
        let params = RlweParameters::crt64().unwrap();
        let key = |b| ProductKey::from_seed(&params, &SecretSeed::from_bytes([b; 32])).unwrap();
        assert!(key(1).secret().expose() == key(1).secret().expose());
        assert!(key(1).secret().expose() != key(2).secret().expose());
    }

    #[test]
    fn parameter_sets_do_not_share_a_secret() {
        // Same degree, other primes: the ternary coefficients differ in two thirds of the places.
        let coefficients = |params: RlweParameters| -> Vec<i64> {
            let key = ProductKey::from_seed(&params, &SecretSeed::from_bytes([1; 32])).unwrap();
            let s = key.secret().expose().clone().into_coeff();
            let m = *s.basis().modulus(0);
            s.limb(0).iter().map(|&x| m.center(x)).collect()
        };
        let a = coefficients(RlweParameters::crt64().unwrap());
        let b = coefficients(RlweParameters::zt47().unwrap());
        assert!(a.iter().chain(&b).all(|x| x.abs() <= 1));
        let equal = a.iter().zip(&b).filter(|(x, y)| x == y).count();
        // Mean n/3, deviation 43: seven deviations.
        assert!(equal.abs_diff(a.len() / 3) < 300, "{equal} of {}", a.len());
    }
}
