//! Plaintexts: encoded polynomials with their level and scale.

use cipherloom_ring::{Ntt, Poly};
use cipherloom_spec::Scale;

use crate::error::CkksError;
use crate::params::{CkksParameters, ParamsDigest};

/// An encoded polynomial in NTT form modulo q_0 ... q_level, with its scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Plaintext {
    poly: Poly<Ntt>,
    scale: Scale,
    digest: ParamsDigest,
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
            poly,
            scale,
            digest: params.digest(),
        })
    }

    /// The polynomial.
    #[must_use]
    pub fn poly(&self) -> &Poly<Ntt> {
        &self.poly
    }

    /// Takes the polynomial out.
    #[must_use]
    pub fn into_poly(self) -> Poly<Ntt> {
        self.poly
    }

    /// Level: number of limbs minus one.
    #[must_use]
    pub fn level(&self) -> usize {
        self.poly.limbs() - 1
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
        self.poly.limbs() * self.poly.n() * 8
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
