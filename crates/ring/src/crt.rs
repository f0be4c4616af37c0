//! Exact lift from residues to centred integers.

use crate::basis::Basis;
use crate::error::RingError;
use crate::modulus::Shoup;
use crate::poly::{Coeff, Poly};

/// Bits of the largest product that lifts to `i128` with room for a sign and a sum.
pub const MAX_LIFT_BITS: u32 = 126;

/// Tables of the exact lift to `(-Q/2, Q/2)` for a basis with product Q < 2^126, by mixed radix
/// digits (Garner). Constant time in the residues.
#[derive(Debug, Clone)]
pub struct CrtLift {
    basis: Basis,
    product: u128,
    /// Row i: q_0, q_0 q_1, ... modulo q_i (i entries starting with 1), then their product inverse.
    radix: Vec<Vec<Shoup>>,
    /// (q_0 ... q_{i-1})^-1 mod q_i.
    radix_inv: Vec<Shoup>,
    /// q_0 ... q_{i-1} as integers.
    places: Vec<u128>,
}

impl CrtLift {
    /// Precomputes the lift.
    ///
    /// # Errors
    /// [`RingError::LiftTooWide`] if the product has more than 126 bits.
    pub fn new(basis: &Basis) -> Result<Self, RingError> {
        let mut places = Vec::with_capacity(basis.len());
        let mut product = 1u128;
        for m in basis.moduli() {
            places.push(product);
            // Both factors below 2^126 and 2^50: checked before the result is trusted.
            product = product
                .checked_mul(u128::from(m.value()))
                .filter(|p| p >> MAX_LIFT_BITS == 0)
                .ok_or(RingError::LiftTooWide {
                    bits: basis.log2_product().ceil() as u32,
                })?;
        }
        let radix = basis
            .moduli()
            .enumerate()
            .map(|(i, m)| {
                places[..i]
                    .iter()
                    .map(|&place| m.shoup(m.reduce_u128(place)))
                    .collect()
            })
            .collect();
        let radix_inv = basis
            .moduli()
            .zip(&places)
            .map(|(m, &place)| Ok(m.shoup(m.inv(m.reduce_u128(place))?)))
            .collect::<Result<Vec<_>, RingError>>()?;
        Ok(Self {
            basis: basis.clone(),
            product,
            radix,
            radix_inv,
            places,
        })
    }

    /// The product Q of the primes.
    pub fn product(&self) -> u128 {
        self.product
    }

    /// The basis whose residues are lifted.
    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// The N coefficients as centred integers, `|c| < Q/2`. O(k^2 N).
    ///
    /// # Errors
    /// [`RingError::BasisMismatch`] unless `x` starts with the primes of the basis.
    pub fn lift(&self, x: &Poly<Coeff>) -> Result<Vec<i128>, RingError> {
        Ok(self
            .lift_unsigned(x)?
            .into_iter()
            .map(|v| self.center(v))
            .collect())
    }

    /// The N coefficients as integers in `[0, Q)`. O(k^2 N).
    ///
    /// # Errors
    /// As [`CrtLift::lift`].
    pub fn lift_unsigned(&self, x: &Poly<Coeff>) -> Result<Vec<u128>, RingError> {
        self.basis.check_prefix_of(x.basis())?;
        let k = self.basis.len();
        let mut out = vec![0u128; x.n()];
        let mut digits = vec![0u64; k];
        for (j, value) in out.iter_mut().enumerate() {
            for (i, m) in self.basis.moduli().enumerate() {
                // What the digits so far amount to modulo q_i.
                let so_far = digits[..i]
                    .iter()
                    .zip(&self.radix[i])
                    .fold(0, |acc, (&d, &w)| m.add(acc, m.mul_shoup(d, w)));
                digits[i] = m.mul_shoup(m.sub(x.limb(i)[j], so_far), self.radix_inv[i]);
                *value += u128::from(digits[i]) * self.places[i];
            }
        }
        zeroize::Zeroize::zeroize(&mut digits);
        Ok(out)
    }

    /// The representative of `v < Q` in `(-Q/2, Q/2)`. Constant time.
    pub fn center(&self, v: u128) -> i128 {
        let above = (self.product >> 1).wrapping_sub(v) >> 127;
        v.wrapping_sub(self.product & above.wrapping_neg()) as i128
    }
}
