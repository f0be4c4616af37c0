//! Keys of RLWE products. The client's secret is independent of every CKKS secret (R8).

use cipherloom_net::{Channel, FrameKind};
use cipherloom_ring::{
    Coeff, Ntt, Poly, PublicSeed, RingError, SecretPoly, SecretPrg, SecretSeed, UniformXof,
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
    /// Derives the secret from the client's stored seed. The same seed gives the same key; errors and masks never come
    /// from it.
    ///
    /// # Errors
    /// `Ring` in practice never.
    pub fn from_seed(params: &RlweParameters, seed: &SecretSeed) -> Result<Self, MpcError> {
        let mut prg = seed.derive(SECRET_LABEL, 0);
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
        let a = uniform_part(params, &nonce, &seed);
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
        let malformed = |e: RingError| MpcError::Malformed {
            op: "public key",
            detail: e.to_string(),
        };
        let (seed, b) = message.split_first_chunk::<32>().ok_or(MpcError::Length {
            op: "public key",
            left: message.len(),
            right: Self::message_bytes(params),
        })?;
        let b = Poly::<Ntt>::from_bytes(params.export_basis(), b).map_err(malformed)?;
        let a = uniform_part(params, &nonce, &PublicSeed(*seed));
        Ok(Self {
            key: ExportKey::new(b, a)?,
        })
    }

    /// For [`crate::export`].
    #[must_use]
    pub fn export_key(&self) -> &ExportKey {
        &self.key
    }
}

fn uniform_part(params: &RlweParameters, nonce: &[u8], seed: &PublicSeed) -> Poly<Ntt> {
    let mut h = blake3::Hasher::new_derive_key(UNIFORM_CONTEXT);
    h.update(nonce);
    h.update(&seed.0);
    UniformXof::new(PublicSeed(*h.finalize().as_bytes())).poly(params.export_basis())
}
