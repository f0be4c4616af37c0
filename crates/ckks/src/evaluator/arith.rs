//! Sums, differences, monomials.

use cipherloom_ring::{Ntt, Poly};

use super::{same_scale, Evaluator};
use crate::ciphertext::Ciphertext;
use crate::complex::Complex64;
use crate::encoder::constant_halves;
use crate::error::CkksError;
use crate::plaintext::Plaintext;

impl Evaluator {
    /// `a + b`. Level and scale: those of the operands. Degree: the larger of the two.
    ///
    /// # Errors
    /// `LevelMismatch`, `ScaleMismatch`, `ParamsMismatch`.
    pub fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, CkksError> {
        let mut out = self.copy(a);
        self.add_assign(&mut out, b)?;
        Ok(out)
    }

    /// `a += b`.
    ///
    /// # Errors
    /// As [`Evaluator::add`]; `a` is unchanged then.
    pub fn add_assign(&self, a: &mut Ciphertext, b: &Ciphertext) -> Result<(), CkksError> {
        self.check_pair("add", a, b)?;
        same_scale("add", a.scale(), b.scale())?;
        let parts = a.parts_mut();
        for (i, part) in b.parts().iter().enumerate() {
            match parts.get_mut(i) {
                Some(p) => p.add_assign(part)?,
                None => parts.push(part.clone()),
            }
        }
        Ok(())
    }

    /// `a - b`. Level and scale: those of the operands. Degree: the larger of the two.
    ///
    /// # Errors
    /// As [`Evaluator::add`].
    pub fn sub(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, CkksError> {
        let mut out = self.copy(a);
        self.sub_assign(&mut out, b)?;
        Ok(out)
    }

    /// `a -= b`.
    ///
    /// # Errors
    /// As [`Evaluator::add`]; `a` is unchanged then.
    pub fn sub_assign(&self, a: &mut Ciphertext, b: &Ciphertext) -> Result<(), CkksError> {
        self.check_pair("sub", a, b)?;
        same_scale("sub", a.scale(), b.scale())?;
        let parts = a.parts_mut();
        for (i, part) in b.parts().iter().enumerate() {
            match parts.get_mut(i) {
                Some(p) => p.sub_assign(part)?,
                None => parts.push(part.neg()),
            }
        }
        Ok(())
    }

    /// `-a`.
    ///
    /// # Errors
    /// `ParamsMismatch`.
    pub fn neg(&self, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.check_ct(a)?;
        let parts = a.parts().iter().map(Poly::neg).collect();
        Ok(self.made(parts, a.scale()))
    }

    /// `a + b` for a plaintext of the same level and scale.
    ///
    /// # Errors
    /// `LevelMismatch`, `ScaleMismatch`, `ParamsMismatch`.
    pub fn add_plain(&self, a: &Ciphertext, b: &Plaintext) -> Result<Ciphertext, CkksError> {
        self.check_plain("add_plain", a, b)?;
        same_scale("add_plain", a.scale(), b.scale())?;
        let mut out = self.copy(a);
        out.parts_mut()[0].add_assign(b.poly())?;
        Ok(out)
    }

    /// `a - b` for a plaintext of the same level and scale.
    ///
    /// # Errors
    /// As [`Evaluator::add_plain`].
    pub fn sub_plain(&self, a: &Ciphertext, b: &Plaintext) -> Result<Ciphertext, CkksError> {
        self.check_plain("sub_plain", a, b)?;
        same_scale("sub_plain", a.scale(), b.scale())?;
        let mut out = self.copy(a);
        out.parts_mut()[0].sub_assign(b.poly())?;
        Ok(out)
    }

    /// `a + value` in every slot, encoded at the scale of `a` (each part rounded once). No NTT.
    ///
    /// # Errors
    /// `NotFinite`, `ValueTooLarge`, `ParamsMismatch`.
    pub fn add_constant(&self, a: &Ciphertext, value: Complex64) -> Result<Ciphertext, CkksError> {
        self.check_ct(a)?;
        let plain = self.encoder.encode_constant(value, a.level(), a.scale())?;
        self.add_plain(a, &plain)
    }

    /// `i a`: times the monomial X^(N/2). Exact and free of noise; not counted as a product.
    ///
    /// # Errors
    /// `ParamsMismatch`.
    pub fn mul_by_i(&self, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.monomial(a, 1)
    }

    /// `-i a`: times the monomial -X^(N/2). Exact and free of noise; not counted as a product.
    ///
    /// # Errors
    /// `ParamsMismatch`.
    pub fn mul_by_neg_i(&self, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.monomial(a, -1)
    }

    fn monomial(&self, a: &Ciphertext, sign: i128) -> Result<Ciphertext, CkksError> {
        self.check_ct(a)?;
        let mut out = self.copy(a);
        for part in out.parts_mut() {
            mul_by_constant(part, 0, sign);
        }
        Ok(out)
    }
}

/// Times the constant `re + im X^(N/2)`: one factor for each half of a limb.
pub(super) fn mul_by_constant(poly: &mut Poly<Ntt>, re: i128, im: i128) {
    let basis = poly.basis().clone();
    let half = basis.n() / 2;
    for i in 0..basis.len() {
        let m = basis.modulus(i);
        let (lo, hi) = poly.limb_mut(i).split_at_mut(half);
        let [f, g] = constant_halves(&basis, i, re, im);
        basis.backend().scalar_mul_assign(m, lo, m.shoup(f));
        basis.backend().scalar_mul_assign(m, hi, m.shoup(g));
    }
}
