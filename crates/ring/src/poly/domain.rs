//! Changing the representation.

use std::marker::PhantomData;

use super::{Coeff, Ntt, Poly};

impl Poly<Coeff> {
    /// Forward NTT of every limb, in place.
    pub fn into_ntt(mut self) -> Poly<Ntt> {
        self.each(|b, i, limb| b.backend().ntt_forward(&b.tables()[i], limb));
        Poly {
            basis: self.basis,
            data: self.data,
            repr: PhantomData,
        }
    }

    /// Forward NTT of every limb, in a copy.
    pub fn to_ntt(&self) -> Poly<Ntt> {
        self.clone().into_ntt()
    }
}

impl Poly<Ntt> {
    /// Inverse NTT of every limb, in place.
    pub fn into_coeff(mut self) -> Poly<Coeff> {
        self.each(|b, i, limb| b.backend().ntt_inverse(&b.tables()[i], limb));
        Poly {
            basis: self.basis,
            data: self.data,
            repr: PhantomData,
        }
    }

    /// Inverse NTT of every limb, in a copy.
    pub fn to_coeff(&self) -> Poly<Coeff> {
        self.clone().into_coeff()
    }
}
