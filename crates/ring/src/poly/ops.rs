//! Ring operations on polynomials. Those of a domain-independent kind work in both domains.

use super::{Coeff, Ntt, Poly, Repr};
use crate::automorphism::Automorphism;
use crate::basis::Basis;
use crate::error::RingError;
use crate::parallel::for_each_limb;

impl<R: Repr> Poly<R> {
    /// `self += other`.
    ///
    /// # Errors
    /// [`RingError::BasisMismatch`] unless `other` has at least the limbs of `self`.
    pub fn add_assign(&mut self, other: &Self) -> Result<(), RingError> {
        self.basis.check_prefix_of(&other.basis)?;
        self.each(|b, i, limb| b.backend().add_assign(b.modulus(i), limb, other.limb(i)));
        Ok(())
    }

    /// `self -= other`.
    ///
    /// # Errors
    /// As [`Poly::add_assign`].
    pub fn sub_assign(&mut self, other: &Self) -> Result<(), RingError> {
        self.basis.check_prefix_of(&other.basis)?;
        self.each(|b, i, limb| b.backend().sub_assign(b.modulus(i), limb, other.limb(i)));
        Ok(())
    }

    /// `self = -self`.
    pub fn neg_assign(&mut self) {
        self.each(|b, i, limb| b.backend().neg_assign(b.modulus(i), limb));
    }

    /// `self + other`.
    ///
    /// # Errors
    /// As [`Poly::add_assign`].
    pub fn add(&self, other: &Self) -> Result<Self, RingError> {
        let mut out = self.clone();
        out.add_assign(other)?;
        Ok(out)
    }

    /// `self - other`.
    ///
    /// # Errors
    /// As [`Poly::add_assign`].
    pub fn sub(&self, other: &Self) -> Result<Self, RingError> {
        let mut out = self.clone();
        out.sub_assign(other)?;
        Ok(out)
    }

    /// `-self`.
    pub fn neg(&self) -> Self {
        let mut out = self.clone();
        out.neg_assign();
        out
    }

    /// Multiplies limb `i` by `scalars[i]` (any value, reduced here).
    ///
    /// # Errors
    /// [`RingError::Length`] unless there is a scalar for each limb; extra scalars are ignored.
    pub fn mul_limb_scalars_assign(&mut self, scalars: &[u64]) -> Result<(), RingError> {
        self.check_scalars(scalars)?;
        self.each(|b, i, limb| {
            let m = b.modulus(i);
            b.backend().scalar_mul_assign(m, limb, m.shoup(scalars[i]));
        });
        Ok(())
    }

    /// Multiplies by one signed integer.
    pub fn mul_scalar_assign(&mut self, scalar: i128) {
        self.each(|b, i, limb| {
            let m = b.modulus(i);
            b.backend()
                .scalar_mul_assign(m, limb, m.shoup(m.reduce_i128(scalar)));
        });
    }

    /// `self += scalar * other` for one signed integer.
    ///
    /// # Errors
    /// As [`Poly::add_assign`].
    pub fn add_scaled_assign(&mut self, other: &Self, scalar: i128) -> Result<(), RingError> {
        self.basis.check_prefix_of(&other.basis)?;
        self.each(|b, i, limb| {
            let m = b.modulus(i);
            b.backend()
                .scalar_mul_add(m, limb, other.limb(i), m.shoup(m.reduce_i128(scalar)));
        });
        Ok(())
    }

    pub(super) fn check_scalars(&self, scalars: &[u64]) -> Result<(), RingError> {
        if scalars.len() < self.limbs() {
            return Err(RingError::Length {
                what: "scalars, one for each limb",
                got: scalars.len(),
                expected: self.limbs(),
            });
        }
        Ok(())
    }

    /// Runs `f(basis, limb index, limb)` over all limbs, in parallel where it pays.
    pub(crate) fn each(&mut self, f: impl Fn(&Basis, usize, &mut [u64]) + Sync + Send) {
        let Self { basis, data, .. } = self;
        for_each_limb(data, basis.n(), |i, limb| f(basis, i, limb));
    }

    pub(super) fn check_automorphism(&self, a: &Automorphism) -> Result<(), RingError> {
        if a.n() != self.n() {
            return Err(RingError::Length {
                what: "ring degree of the automorphism",
                got: a.n(),
                expected: self.n(),
            });
        }
        Ok(())
    }
}

impl Poly<Ntt> {
    /// `self *= other`: the negacyclic product.
    ///
    /// # Errors
    /// As [`Poly::add_assign`].
    pub fn mul_assign(&mut self, other: &Self) -> Result<(), RingError> {
        self.basis.check_prefix_of(&other.basis)?;
        self.each(|b, i, limb| b.backend().mul_assign(b.modulus(i), limb, other.limb(i)));
        Ok(())
    }

    /// `self * other`: the negacyclic product.
    ///
    /// # Errors
    /// As [`Poly::add_assign`].
    pub fn mul(&self, other: &Self) -> Result<Self, RingError> {
        self.basis.check_prefix_of(&other.basis)?;
        let mut out = Self::zero(&self.basis);
        out.each(|b, i, limb| {
            b.backend()
                .mul(b.modulus(i), limb, self.limb(i), other.limb(i));
        });
        Ok(out)
    }

    /// `self += a * b`, with one modular reduction.
    ///
    /// # Errors
    /// [`RingError::BasisMismatch`] unless both factors have at least the limbs of `self`.
    pub fn mul_add_assign(&mut self, a: &Self, b: &Self) -> Result<(), RingError> {
        self.basis.check_prefix_of(&a.basis)?;
        self.basis.check_prefix_of(&b.basis)?;
        self.each(|base, i, limb| {
            base.backend()
                .mul_add(base.modulus(i), limb, a.limb(i), b.limb(i));
        });
        Ok(())
    }

    /// `self += sum of a_i * b_i`, with one modular reduction for up to 15 products: the inner
    /// product of key switching.
    ///
    /// # Errors
    /// [`RingError::BasisMismatch`] unless all factors have at least the limbs of `self`.
    pub fn dot_add_assign(&mut self, terms: &[(&Self, &Self)]) -> Result<(), RingError> {
        for (a, b) in terms {
            self.basis.check_prefix_of(&a.basis)?;
            self.basis.check_prefix_of(&b.basis)?;
        }
        self.each(|base, i, limb| {
            let limbs: Vec<_> = terms.iter().map(|(a, b)| (a.limb(i), b.limb(i))).collect();
            base.backend().dot_add(base.modulus(i), limb, &limbs);
        });
        Ok(())
    }

    /// Adds the constant polynomial whose residue modulo q_i is `scalars[i]` (any value, reduced
    /// here).
    ///
    /// # Errors
    /// As [`Poly::mul_limb_scalars_assign`].
    pub fn add_limb_scalars_assign(&mut self, scalars: &[u64]) -> Result<(), RingError> {
        self.check_scalars(scalars)?;
        self.each(|b, i, limb| {
            let m = b.modulus(i);
            let c = m.reduce(scalars[i]);
            for x in limb {
                *x = m.add(*x, c);
            }
        });
        Ok(())
    }

    /// Applies X -> X^g. O(N) for each limb.
    ///
    /// # Errors
    /// [`RingError::Length`] if the degrees differ.
    pub fn automorphism(&self, a: &Automorphism) -> Result<Self, RingError> {
        let mut out = Self::zero(&self.basis);
        self.automorphism_into(a, &mut out)?;
        Ok(out)
    }

    /// [`Poly::automorphism`] into a polynomial that is overwritten; takes the limbs of `out`.
    ///
    /// # Errors
    /// [`RingError::Length`]; [`RingError::BasisMismatch`] unless `self` has at least the limbs of
    /// `out`.
    pub fn automorphism_into(&self, a: &Automorphism, out: &mut Self) -> Result<(), RingError> {
        self.check_automorphism(a)?;
        out.basis.check_prefix_of(&self.basis)?;
        out.each(|b, i, limb| b.backend().permute(limb, self.limb(i), a.perm()));
        Ok(())
    }

    /// `self += other(X^g)`.
    ///
    /// # Errors
    /// [`RingError::Length`], [`RingError::BasisMismatch`].
    pub fn add_automorphism_assign(
        &mut self,
        other: &Self,
        a: &Automorphism,
    ) -> Result<(), RingError> {
        self.add_assign(&other.automorphism(a)?)
    }
}

impl Poly<Coeff> {
    /// Applies X -> X^g. O(N) for each limb.
    ///
    /// # Errors
    /// [`RingError::Length`] if the degrees differ.
    pub fn automorphism(&self, a: &Automorphism) -> Result<Self, RingError> {
        self.check_automorphism(a)?;
        let mut out = Self::zero(&self.basis);
        out.each(|b, i, limb| {
            let (m, input) = (b.modulus(i), self.limb(i));
            for (o, &s) in limb.iter_mut().zip(a.source()) {
                let x = input[(s >> 1) as usize];
                // The sign is public, it depends on g only.
                *o = if s & 1 == 1 { m.neg(x) } else { x };
            }
        });
        Ok(out)
    }

    /// Multiplies by the monomial X^k (`k` modulo 2N; X^N = -1). O(N) for each limb.
    pub fn mul_monomial(&self, k: usize) -> Self {
        let n = self.n();
        let (shift, flip) = (k % n, (k / n) % 2 == 1);
        let mut out = Self::zero(&self.basis);
        out.each(|b, i, limb| {
            let (m, input) = (b.modulus(i), self.limb(i));
            for (j, &x) in input.iter().enumerate() {
                let t = j + shift;
                let negative = (t >= n) != flip;
                limb[t % n] = if negative { m.neg(x) } else { x };
            }
        });
        out
    }
}
