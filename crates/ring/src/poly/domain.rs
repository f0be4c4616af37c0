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
        let mut out = Poly::zero(self.basis());
        out.each(|b, i, limb| {
            limb.copy_from_slice(self.limb(i));
            b.backend().ntt_forward(&b.tables()[i], limb);
        });
        out
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
        let mut out = Poly::zero(self.basis());
        out.each(|b, i, limb| {
            limb.copy_from_slice(self.limb(i));
            b.backend().ntt_inverse(&b.tables()[i], limb);
        });
        out
    }
}
