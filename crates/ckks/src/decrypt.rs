//! Decryption: the client's alone.

use std::sync::Arc;

use cipherloom_ring::{Coeff, Ntt, Poly};

use crate::ciphertext::Ciphertext;
use crate::error::CkksError;
use crate::keys::SecretKey;
use crate::params::CkksParameters;
use crate::plaintext::Plaintext;

/// Decrypts with the secret key.
///
/// A decrypted approximate value gives away noise: it must never reach the other party
/// (IND-CPA-D, Li and Micciancio 2021).
pub struct Decryptor {
    params: CkksParameters,
    key: Arc<SecretKey>,
}

impl Decryptor {
    /// A decryptor for this key.
    ///
    /// # Errors
    /// `ParamsMismatch`.
    pub fn new(params: &CkksParameters, key: Arc<SecretKey>) -> Result<Self, CkksError> {
        params.check_digest("secret key", key.digest())?;
        Ok(Self {
            params: params.clone(),
            key,
        })
    }

    /// `c0 + c1 s (+ c2 s^2)` modulo the level's primes, in NTT form.
    ///
    /// # Errors
    /// `ParamsMismatch`.
    pub fn decrypt_ntt(&self, ct: &Ciphertext) -> Result<Poly<Ntt>, CkksError> {
        self.params.check_digest("ciphertext", ct.digest())?;
        let s = self.key.q.expose();
        let Some((last, parts)) = ct.parts().split_last() else {
            return Err(CkksError::Empty { op: "decrypt" });
        };
        let basis = last.basis();
        let backend = basis.backend();
        Ok(self.params.pool().build(basis, |i, limb| {
            let m = basis.modulus(i);
            // Horner, from the last part.
            let mut high = Some(last.limb(i));
            for part in parts.iter().rev() {
                match high.take() {
                    Some(high) => backend.mul(m, limb, high, s.limb(i)),
                    None => backend.mul_assign(m, limb, s.limb(i)),
                }
                backend.add_assign(m, limb, part.limb(i));
            }
            if let Some(high) = high {
                limb.copy_from_slice(high);
            }
        }))
    }

    /// The raw decryption in coefficient form, residues modulo the level's primes.
    ///
    /// # Errors
    /// `ParamsMismatch`.
    pub fn decrypt_coeffs(&self, ct: &Ciphertext) -> Result<Poly<Coeff>, CkksError> {
        Ok(self.decrypt_ntt(ct)?.into_coeff())
    }

    /// Decrypts to a plaintext of the ciphertext's level and scale, for the encoder to decode.
    ///
    /// # Errors
    /// `ParamsMismatch`.
    pub fn decrypt(&self, ct: &Ciphertext) -> Result<Plaintext, CkksError> {
        Plaintext::pooled(&self.params, self.decrypt_ntt(ct)?, ct.scale())
    }
}
