//! Keys of RLWE products. The client's secret is independent of every CKKS secret (R8).

use cipherloom_net::{Channel, FrameKind};
use cipherloom_ring::{
    Basis, Coeff, Ntt, Poly, PublicSeed, RingError, SecretPoly, SecretPrg, SecretSeed, UniformXof,
};

use crate::export::ExportKey;
use crate::rlwe::{ring_error, RlweParameters};
use crate::MpcError;

const SECRET_LABEL: &str = "cipherloom rlwe product secret key v1";
const UNIFORM_CONTEXT: &str = "cipherloom rlwe product public key uniform part v1";
const NONCE_BYTES: usize = 32;

/// The client's secret: uniform ternary, in NTT form over `q`. Wiped on drop; neither `Clone` nor serialisable.
pub struct ProductKey {
    secret: SecretPoly<Ntt>,
}

impl ProductKey {
    /// Derives the secret from the client's stored seed under a label that names degree and primes, so that parameter sets
    /// never share a secret (the security bound counts all primes of one secret). The same seed and parameters give the
    /// same key; errors and masks never come from it.
    ///
    /// # Errors
    /// `Ring` in practice never.
    pub fn from_seed(params: &RlweParameters, seed: &SecretSeed) -> Result<Self, MpcError> {
        let mut prg = seed.derive(&secret_label(params.upload_basis()), 0);
        let secret = prg
            .ternary_poly(params.upload_basis())
            .map_err(ring_error("product key"))?
            .into_ntt();
        Ok(Self { secret })
    }

    /// The secret in NTT form.
    #[must_use]
    pub(crate) fn secret(&self) -> &SecretPoly<Ntt> {
        &self.secret
    }

    /// Answers the server's nonce with the public key over `q'`: one message of [`ProductPublicKey::message_bytes`].
    /// `randomness` gives the client's half of the uniform part and the error.
    ///
    /// # Errors
    /// Transport errors.
    pub fn publish(
        &self,
        params: &RlweParameters,
        channel: &mut Channel,
        randomness: &mut SecretPrg,
    ) -> Result<(), MpcError> {
        let nonce = channel.recv(FrameKind::Setup, NONCE_BYTES)?;
        let seed = randomness.public_seed();
        let a = UniformXof::new(uniform_seed(&nonce, &seed)).poly::<Ntt>(params.export_basis());
        let err = ring_error("public key");
        let mut b = randomness
            .cbd21_poly(params.export_basis())
            .map_err(err)?
            .into_ntt();
        let a_s = SecretPoly::new(a.mul(self.secret.expose()).map_err(err)?);
        b.expose_mut().sub_assign(a_s.expose()).map_err(err)?;
        let mut message = seed.0.to_vec();
        message.extend_from_slice(&b.expose().to_bytes());
        channel.send(FrameKind::Setup, &message)?;
        Ok(())
    }
}

/// The client's public key at the server, over the export basis.
#[derive(Debug, Clone)]
pub struct ProductPublicKey {
    uniform: PublicSeed,
    b: Poly<Ntt>,
    key: ExportKey,
}

impl ProductPublicKey {
    /// Bytes of the client's message.
    #[must_use]
    pub fn message_bytes(params: &RlweParameters) -> usize {
        NONCE_BYTES + Poly::<Coeff>::packed_len(params.export_basis())
    }

    /// Sends a nonce and receives the public key. Neither party chooses the uniform part alone (R7).
    ///
    /// # Errors
    /// Transport errors; `Malformed` for residues that are not reduced.
    pub fn receive(
        params: &RlweParameters,
        channel: &mut Channel,
        randomness: &mut SecretPrg,
    ) -> Result<Self, MpcError> {
        let nonce = randomness.public_seed().0;
        channel.send(FrameKind::Setup, &nonce)?;
        let message = channel.recv(FrameKind::Setup, Self::message_bytes(params))?;
        let (seed, b) = split(params, &message)?;
        Self::build(params, uniform_seed(&nonce, &seed), b)
    }

    fn build(params: &RlweParameters, uniform: PublicSeed, b: Poly<Ntt>) -> Result<Self, MpcError> {
        let a = UniformXof::new(uniform).poly(params.export_basis());
        Ok(Self {
            uniform,
            key: ExportKey::new(b.clone(), a)?,
            b,
        })
    }

    /// What the server stores under the key's fingerprint: as long as the client's message.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.uniform.0.to_vec();
        out.extend_from_slice(&self.b.to_bytes());
        out
    }

    /// Reads what [`ProductPublicKey::to_bytes`] wrote, for the same parameters.
    ///
    /// # Errors
    /// `Length`, `Malformed`.
    pub fn from_bytes(params: &RlweParameters, bytes: &[u8]) -> Result<Self, MpcError> {
        let (seed, b) = split(params, bytes)?;
        Self::build(params, seed, b)
    }

    /// For [`crate::export`].
    #[must_use]
    pub fn export_key(&self) -> &ExportKey {
        &self.key
    }
}

/// The label of a ring's secret: degree and primes.
fn secret_label(basis: &Basis) -> String {
    use std::fmt::Write;
    let mut label = format!("{SECRET_LABEL}, n {}", basis.n());
    for m in basis.moduli() {
        // Writing to a string does not fail.
        let _ = write!(label, ", {}", m.value());
    }
    label
}

/// A seed and a polynomial over the export basis.
fn split(params: &RlweParameters, bytes: &[u8]) -> Result<(PublicSeed, Poly<Ntt>), MpcError> {
    let op = "public key";
    let (seed, b) = bytes.split_first_chunk::<32>().ok_or(MpcError::Length {
        op,
        left: bytes.len(),
        right: ProductPublicKey::message_bytes(params),
    })?;
    let b = Poly::<Ntt>::from_bytes(params.export_basis(), b).map_err(|e: RingError| {
        MpcError::Malformed {
            op,
            detail: e.to_string(),
        }
    })?;
    Ok((PublicSeed(*seed), b))
}

fn uniform_seed(nonce: &[u8], seed: &PublicSeed) -> PublicSeed {
    let mut h = blake3::Hasher::new_derive_key(UNIFORM_CONTEXT);
    h.update(nonce);
    h.update(&seed.0);
    PublicSeed(*h.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cipherloom_net::ChannelConfig;

    #[test]
    fn a_stored_key_equals_the_received_one_and_is_a_sample_of_the_secret() {
        let params = RlweParameters::crt64().unwrap();
        let seed = SecretSeed::from_bytes([1; 32]);
        let key = ProductKey::from_seed(&params, &seed).unwrap();
        let (mut a, mut b) = Channel::memory_pair(ChannelConfig::default()).unwrap();
        let received = std::thread::scope(|s| {
            s.spawn(|| {
                let mut prg = SecretSeed::from_bytes([2; 32]).derive("t", 0);
                key.publish(&params, &mut a, &mut prg).unwrap();
            });
            let mut prg = SecretSeed::from_bytes([3; 32]).derive("t", 0);
            ProductPublicKey::receive(&params, &mut b, &mut prg).unwrap()
        });
        let bytes = received.to_bytes();
        assert_eq!(bytes.len(), ProductPublicKey::message_bytes(&params));
        let again = ProductPublicKey::from_bytes(&params, &bytes).unwrap();
        assert_eq!(again.to_bytes(), bytes);
        // b + a s is a small error.
        let a = UniformXof::new(again.uniform).poly::<Ntt>(params.export_basis());
        let mut e = again.b.clone();
        e.mul_add_assign(&a, key.secret().expose()).unwrap();
        let e = e.into_coeff();
        for i in 0..e.limbs() {
            let m = e.basis().modulus(i);
            assert!(e.limb(i).iter().all(|&x| m.center(x).abs() <= 21));
        }
        assert!(e.limb(0).iter().any(|&x| x != 0));
        for bad in [&bytes[1..], &bytes[..7]] {
            assert!(ProductPublicKey::from_bytes(&params, bad).is_err());
        }
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
