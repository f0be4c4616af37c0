//! Polynomials that hold secrets.

use std::fmt::Debug;

use super::{Coeff, Ntt, Poly, Repr};
use crate::words::Words;

/// A polynomial whose residues are overwritten with zero on drop. Neither `Clone` nor serialisable.
///
/// Only buffers that this type owns are wiped: results computed from [`SecretPoly::expose`] are the
/// caller's to protect.
pub struct SecretPoly<R: Repr>(Poly<R>);

impl<R: Repr> SecretPoly<R> {
    /// Takes a polynomial into custody.
    pub fn new(poly: Poly<R>) -> Self {
        Self(poly)
    }

    /// The secret, for arithmetic.
    pub fn expose(&self) -> &Poly<R> {
        &self.0
    }

    /// The secret, for writing.
    pub fn expose_mut(&mut self) -> &mut Poly<R> {
        &mut self.0
    }

    fn take(mut self) -> Poly<R> {
        let empty = Poly::from_parts_empty(self.0.basis());
        std::mem::replace(&mut self.0, empty)
    }
}

impl<R: Repr> Poly<R> {
    /// A placeholder without residues, left behind when a secret moves out.
    fn from_parts_empty(basis: &crate::basis::Basis) -> Self {
        Self {
            basis: basis.clone(),
            data: Words::default(),
            repr: std::marker::PhantomData,
        }
    }
}

impl SecretPoly<Coeff> {
    /// Forward NTT in place.
    pub fn into_ntt(self) -> SecretPoly<Ntt> {
        SecretPoly(self.take().into_ntt())
    }
}

impl SecretPoly<Ntt> {
    /// Inverse NTT in place.
    pub fn into_coeff(self) -> SecretPoly<Coeff> {
        SecretPoly(self.take().into_coeff())
    }
}

impl<R: Repr> Drop for SecretPoly<R> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<R: Repr> Debug for SecretPoly<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SecretPoly({:?})", self.0)
    }
}
