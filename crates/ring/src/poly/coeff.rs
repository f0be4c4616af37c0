//! Building polynomials from integers.

use super::{Coeff, Poly};
use crate::basis::Basis;
use crate::error::RingError;
use crate::modulus::Modulus;

impl Poly<Coeff> {
    /// Reduces N signed bytes modulo every prime. Constant time in the values.
    ///
    /// # Errors
    /// [`RingError::Length`] unless there are N values.
    pub fn from_i8(basis: &Basis, values: &[i8]) -> Result<Self, RingError> {
        Self::from_signed(basis, values, |m, x| m.reduce_i64(i64::from(x)))
    }

    /// Reduces N signed integers modulo every prime. Constant time in the values.
    ///
    /// # Errors
    /// [`RingError::Length`] unless there are N values.
    pub fn from_i64(basis: &Basis, values: &[i64]) -> Result<Self, RingError> {
        Self::from_signed(basis, values, Modulus::reduce_i64)
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
        if values.len() != basis.n() {
            return Err(RingError::Length {
                what: "coefficients",
                got: values.len(),
                expected: basis.n(),
            });
        }
        let mut out = Self::zero(basis);
        out.each(|b, i, limb| {
            let m = *b.modulus(i);
            for (o, &v) in limb.iter_mut().zip(values) {
                *o = reduce(&m, v);
            }
        });
        Ok(out)
    }
}
