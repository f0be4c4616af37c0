//! Plaintexts: encoded polynomials with their level and scale.

use std::sync::Arc;

use cipherloom_ring::{Ntt, Poly};
use cipherloom_spec::Scale;

use crate::error::CkksError;
use crate::params::{CkksParameters, ParamsDigest};
use crate::scratch::PolyPool;

/// An encoded polynomial in NTT form modulo q_0 ... q_level, with its scale.
#[derive(Clone, Debug)]
pub struct Plaintext {
    /// Exactly one, in a vector so that it can be taken out.
    poly: Vec<Poly<Ntt>>,
    scale: Scale,
    digest: ParamsDigest,
    /// Where the polynomial goes when the plaintext is dropped.
    home: Option<Arc<PolyPool>>,
}

impl Drop for Plaintext {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.give(std::mem::take(&mut self.poly));
        }
    }
}

/// Same polynomial, scale and parameters.
impl PartialEq for Plaintext {
    fn eq(&self, o: &Self) -> bool {
        self.digest == o.digest && self.scale == o.scale && self.poly == o.poly
    }
}

impl Plaintext {
    /// Wraps a polynomial that is already encoded at `scale`; its level is that of its basis.
    ///
    /// # Errors
    /// Basis mismatch unless the polynomial lives over q_0 ... q_level of `params`.
    pub fn from_poly(
        params: &CkksParameters,
        poly: Poly<Ntt>,
        scale: Scale,
    ) -> Result<Self, CkksError> {
        check_basis(params, &poly)?;
        Ok(Self {
            poly: vec![poly],
            scale,
            digest: params.digest(),
            home: None,
        })
    }

    /// As [`Plaintext::from_poly`] for a polynomial that came from the pool of the parameters.
    pub(crate) fn pooled(
        params: &CkksParameters,
        poly: Poly<Ntt>,
        scale: Scale,
    ) -> Result<Self, CkksError> {
        let mut plain = Self::from_poly(params, poly, scale)?;
        plain.home = Some(params.pool().clone());
        Ok(plain)
    }

    /// The polynomial.
    #[must_use]
    pub fn poly(&self) -> &Poly<Ntt> {
        &self.poly[0]
    }

    /// Takes the polynomial out.
    #[must_use]
    pub fn into_poly(mut self) -> Poly<Ntt> {
        self.poly.swap_remove(0)
    }

    /// Level: number of limbs minus one.
    #[must_use]
    pub fn level(&self) -> usize {
        self.poly().limbs() - 1
    }

    /// Scale.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// Digest of the parameters.
    #[must_use]
    pub fn digest(&self) -> ParamsDigest {
        self.digest
    }

    /// Bytes in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.poly().limbs() * self.poly().n() * 8
    }
}

/// Fails unless the polynomial lives over the first primes of the chain. Returns its level.
pub(crate) fn check_basis(params: &CkksParameters, poly: &Poly<Ntt>) -> Result<usize, CkksError> {
    let level = poly.limbs() - 1;
    params.check_level("polynomial", level)?;
    let basis = params.basis(level)?;
    if poly.n() != basis.n() {
        return Err(CkksError::Length {
            what: "polynomial",
            got: poly.n() * 8,
            expected: basis.n() * 8,
        });
    }
    if !poly.basis().same_as(&basis) {
        // Adding to a zero polynomial reports the first prime that differs.
        Poly::<Ntt>::zero(&basis).add_assign(poly)?;
    }
    Ok(level)
}
