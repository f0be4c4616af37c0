//! Building polynomials from integers.

use super::{Coeff, Poly};
use crate::basis::Basis;
use crate::error::RingError;
use crate::modulus::Modulus;
use crate::vector::{residues_of_bytes, residues_of_words, Width};

impl Poly<Coeff> {
    /// Reduces N signed bytes modulo every prime. Constant time in the values.
    ///
    /// # Errors
    /// [`RingError::Length`] unless there are N values.
    pub fn from_i8(basis: &Basis, values: &[i8]) -> Result<Self, RingError> {
        let width = Width::of(basis.backend());
        Self::from_limbs(basis, values, |b, i, limb| {
            residues_of_bytes(width, b.modulus(i), limb, values);
        })
    }

    /// Reduces N signed integers modulo every prime. Constant time in the values.
    ///
    /// # Errors
    /// [`RingError::Length`] unless there are N values.
    pub fn from_i64(basis: &Basis, values: &[i64]) -> Result<Self, RingError> {
        let width = Width::of(basis.backend());
        Self::from_limbs(basis, values, |b, i, limb| {
            residues_of_words(width, b.backend(), b.modulus(i), limb, values);
        })
    }

    /// Reduces N signed 128-bit integers modulo every prime; they may exceed the product of the
    /// primes. Constant time in the values.
    ///
    /// # Errors
    /// [`RingError::Length`] unless there are N values.
    pub fn from_i128(basis: &Basis, values: &[i128]) -> Result<Self, RingError> {
        Self::from_signed(basis, values, Modulus::reduce_i128)
    }

    /// Reduces N unsigned integers modulo every prime.
    ///
    /// # Errors
    /// [`RingError::Length`] unless there are N values.
    pub fn from_u64(basis: &Basis, values: &[u64]) -> Result<Self, RingError> {
        Self::from_signed(basis, values, Modulus::reduce)
    }

    /// The monomial `c * X^k` for `k < 2N` (X^N = -1).
    pub fn monomial(basis: &Basis, k: usize, c: i64) -> Self {
        let mut one = Self::zero(basis);
        one.each(|b, i, limb| limb[0] = b.modulus(i).reduce_i64(c));
        one.mul_monomial(k)
    }

    fn from_signed<T: Copy + Sync>(
        basis: &Basis,
        values: &[T],
        reduce: impl Fn(&Modulus, T) -> u64 + Sync + Send,
    ) -> Result<Self, RingError> {
        Self::from_limbs(basis, values, |b, i, limb| {
            let m = *b.modulus(i);
            for (o, &v) in limb.iter_mut().zip(values) {
                *o = reduce(&m, v);
            }
        })
    }

    /// Limbs that `fill` writes, after a check of the number of values.
    fn from_limbs<T>(
        basis: &Basis,
        values: &[T],
        fill: impl Fn(&Basis, usize, &mut [u64]) + Sync + Send,
    ) -> Result<Self, RingError> {
        if values.len() != basis.n() {
            return Err(RingError::Length {
                what: "coefficients",
                got: values.len(),
                expected: basis.n(),
            });
        }
        let mut out = Self::zero(basis);
        out.each(fill);
        Ok(out)
    }
}
