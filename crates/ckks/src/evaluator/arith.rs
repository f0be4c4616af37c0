//! Sums, differences, monomials.

use super::{same_scale, Evaluator};
use crate::ciphertext::Ciphertext;
use crate::complex::Complex64;
use crate::encoder::constant_halves;
use crate::error::CkksError;
use crate::plaintext::Plaintext;
use crate::scratch::for_each_chunk;
use cipherloom_ring::{Basis, Ntt, Poly};

impl Evaluator {
    /// `a + b`. Level and scale: those of the operands. Degree: the larger of the two.
    ///
    /// # Errors
    /// `LevelMismatch`, `ScaleMismatch`, `ParamsMismatch`.
    pub fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.check_sum("add", a, b)?;
        Ok(self.sum(a, b, false))
    }

    /// `a += b`.
    ///
    /// # Errors
    /// As [`Evaluator::add`]; `a` is unchanged then.
    pub fn add_assign(&self, a: &mut Ciphertext, b: &Ciphertext) -> Result<(), CkksError> {
        self.check_sum("add_assign", a, b)?;
        self.sum_assign(a, b, false)
    }

    /// `a - b`. Level and scale: those of the operands. Degree: the larger of the two.
    ///
    /// # Errors
    /// As [`Evaluator::add`].
    pub fn sub(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.check_sum("sub", a, b)?;
        Ok(self.sum(a, b, true))
    }

    /// `a -= b`.
    ///
    /// # Errors
    /// As [`Evaluator::add`]; `a` is unchanged then.
    pub fn sub_assign(&self, a: &mut Ciphertext, b: &Ciphertext) -> Result<(), CkksError> {
        self.check_sum("sub_assign", a, b)?;
        self.sum_assign(a, b, true)
    }

    fn check_sum(&self, op: &'static str, a: &Ciphertext, b: &Ciphertext) -> Result<(), CkksError> {
        self.check_pair(op, a, b)?;
        same_scale(op, a.scale(), b.scale())
    }

    /// In one pass: a limb of the result is complete before the next one is read.
    fn sum(&self, a: &Ciphertext, b: &Ciphertext, subtract: bool) -> Ciphertext {
        let count = a.parts().len().max(b.parts().len());
        let basis = a.parts()[0].basis();
        let (backend, n) = (basis.backend(), basis.n());
        let part = |k: usize| {
            let (x, y) = (a.parts().get(k), b.parts().get(k));
            let mut out = self.polys.take(basis);
            for_each_chunk(out.data_mut(), n, n, |i, out| {
                let m = basis.modulus(i);
                match x {
                    Some(x) => out.copy_from_slice(x.limb(i)),
                    None => out.fill(0),
                }
                match y {
                    Some(y) if subtract => backend.sub_assign(m, out, y.limb(i)),
                    Some(y) => backend.add_assign(m, out, y.limb(i)),
                    None => {}
                }
            });
            out
        };
        self.made((0..count).map(part).collect(), a.scale())
    }

    fn sum_assign(
        &self,
        a: &mut Ciphertext,
        b: &Ciphertext,
        subtract: bool,
    ) -> Result<(), CkksError> {
        let parts = a.parts_mut();
        for (i, part) in b.parts().iter().enumerate() {
            match parts.get_mut(i) {
                Some(p) if subtract => p.sub_assign(part)?,
                Some(p) => p.add_assign(part)?,
                None if subtract => parts.push(self.negated(part)),
                None => parts.push(self.polys.copy(part)),
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
        let parts = a.parts().iter().map(|p| self.negated(p)).collect();
        Ok(self.made(parts, a.scale()))
    }

    /// `a = -a`.
    ///
    /// # Errors
    /// `ParamsMismatch`; `a` is unchanged then.
    pub fn neg_assign(&self, a: &mut Ciphertext) -> Result<(), CkksError> {
        self.check_ct(a)?;
        a.parts_mut().iter_mut().for_each(Poly::neg_assign);
        Ok(())
    }

    fn negated(&self, p: &Poly<Ntt>) -> Poly<Ntt> {
        let basis = p.basis();
        self.polys.build(basis, |i, out| {
            out.copy_from_slice(p.limb(i));
            basis.backend().neg_assign(basis.modulus(i), out);
        })
    }

    /// `a + b` for a plaintext of the same level and scale.
    ///
    /// # Errors
    /// `LevelMismatch`, `ScaleMismatch`, `ParamsMismatch`.
    pub fn add_plain(&self, a: &Ciphertext, b: &Plaintext) -> Result<Ciphertext, CkksError> {
        let mut out = self.checked_copy("add_plain", a, b)?;
        out.parts_mut()[0].add_assign(b.poly())?;
        Ok(out)
    }

    /// `a += b` for a plaintext of the same level and scale.
    ///
    /// # Errors
    /// As [`Evaluator::add_plain`]; `a` is unchanged then.
    pub fn add_plain_assign(&self, a: &mut Ciphertext, b: &Plaintext) -> Result<(), CkksError> {
        self.check_plain_sum("add_plain_assign", a, b)?;
        Ok(a.parts_mut()[0].add_assign(b.poly())?)
    }

    /// `a - b` for a plaintext of the same level and scale.
    ///
    /// # Errors
    /// As [`Evaluator::add_plain`].
    pub fn sub_plain(&self, a: &Ciphertext, b: &Plaintext) -> Result<Ciphertext, CkksError> {
        let mut out = self.checked_copy("sub_plain", a, b)?;
        out.parts_mut()[0].sub_assign(b.poly())?;
        Ok(out)
    }

    /// `a -= b` for a plaintext of the same level and scale.
    ///
    /// # Errors
    /// As [`Evaluator::add_plain`]; `a` is unchanged then.
    pub fn sub_plain_assign(&self, a: &mut Ciphertext, b: &Plaintext) -> Result<(), CkksError> {
        self.check_plain_sum("sub_plain_assign", a, b)?;
        Ok(a.parts_mut()[0].sub_assign(b.poly())?)
    }

    fn check_plain_sum(
        &self,
        op: &'static str,
        a: &Ciphertext,
        b: &Plaintext,
    ) -> Result<(), CkksError> {
        self.check_plain(op, a, b)?;
        same_scale(op, a.scale(), b.scale())
    }

    fn checked_copy(
        &self,
        op: &'static str,
        a: &Ciphertext,
        b: &Plaintext,
    ) -> Result<Ciphertext, CkksError> {
        self.check_plain_sum(op, a, b)?;
        Ok(self.copy(a))
    }

    /// `a + value` in every slot, encoded at the scale of `a` (each part rounded once). No NTT.
    ///
    /// # Errors
    /// `NotFinite`, `ValueTooLarge`, `ParamsMismatch`.
    pub fn add_constant(&self, a: &Ciphertext, value: Complex64) -> Result<Ciphertext, CkksError> {
        self.check_ct(a)?;
        // Before the copy: an error costs nothing.
        let parts = self.encoder.constant_parts(value, a.level(), a.scale())?;
        let mut out = self.copy(a);
        add_to_limbs(&mut out.parts_mut()[0], parts);
        Ok(out)
    }

    /// `a += value` in every slot, encoded at the scale of `a` (each part rounded once). No NTT.
    ///
    /// # Errors
    /// As [`Evaluator::add_constant`]; `a` is unchanged then.
    pub fn add_constant_assign(
        &self,
        a: &mut Ciphertext,
        value: Complex64,
    ) -> Result<(), CkksError> {
        self.check_ct(a)?;
        let parts = self.encoder.constant_parts(value, a.level(), a.scale())?;
        add_to_limbs(&mut a.parts_mut()[0], parts);
        Ok(())
    }

    /// `i a`: times the monomial X^(N/2). Exact and free of noise; not counted as a product.
    ///
    /// # Errors
    /// `ParamsMismatch`.
    pub fn mul_by_i(&self, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.check_ct(a)?;
        Ok(self.constant_product(a, [0, 1]))
    }

    /// `a = i a`; see [`Evaluator::mul_by_i`].
    ///
    /// # Errors
    /// `ParamsMismatch`; `a` is unchanged then.
    pub fn mul_by_i_assign(&self, a: &mut Ciphertext) -> Result<(), CkksError> {
        self.check_ct(a)?;
        constant_product_assign(a, [0, 1]);
        Ok(())
    }

    /// `-i a`: times the monomial -X^(N/2). Exact and free of noise; not counted as a product.
    ///
    /// # Errors
    /// `ParamsMismatch`.
    pub fn mul_by_neg_i(&self, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.check_ct(a)?;
        Ok(self.constant_product(a, [0, -1]))
    }

    /// `a = -i a`; see [`Evaluator::mul_by_neg_i`].
    ///
    /// # Errors
    /// `ParamsMismatch`; `a` is unchanged then.
    pub fn mul_by_neg_i_assign(&self, a: &mut Ciphertext) -> Result<(), CkksError> {
        self.check_ct(a)?;
        constant_product_assign(a, [0, -1]);
        Ok(())
    }

    /// `a` times the constant `re + im X^(N/2)`, in one pass.
    pub(super) fn constant_product(&self, a: &Ciphertext, constant: [i128; 2]) -> Ciphertext {
        let product = |p: &Poly<Ntt>| {
            self.polys.build(p.basis(), |i, out| {
                out.copy_from_slice(p.limb(i));
                mul_limb(p.basis(), i, out, constant);
            })
        };
        let parts = a.parts().iter().map(product).collect();
        self.made(parts, a.scale())
    }
}

/// `a` times the constant `re + im X^(N/2)`, in place.
pub(super) fn constant_product_assign(a: &mut Ciphertext, constant: [i128; 2]) {
    for part in a.parts_mut() {
        let basis = part.basis().clone();
        let n = basis.n();
        for_each_chunk(part.data_mut(), n, n, |i, limb| {
            mul_limb(&basis, i, limb, constant);
        });
    }
}

/// Limb `i` times `re + im X^(N/2)`: one factor for each half.
fn mul_limb(basis: &Basis, i: usize, limb: &mut [u64], [re, im]: [i128; 2]) {
    let m = basis.modulus(i);
    let (lo, hi) = limb.split_at_mut(basis.n() / 2);
    let [f, g] = constant_halves(basis, i, re, im);
    basis.backend().scalar_mul_assign(m, lo, m.shoup(f));
    basis.backend().scalar_mul_assign(m, hi, m.shoup(g));
}

/// Adds the constant `re + im X^(N/2)`: one summand for each half of a limb.
fn add_to_limbs(part: &mut Poly<Ntt>, [re, im]: [i128; 2]) {
    let basis = part.basis().clone();
    let n = basis.n();
    for_each_chunk(part.data_mut(), n, n, |i, limb| {
        let m = basis.modulus(i);
        let summands = constant_halves(&basis, i, re, im);
        for (half, summand) in limb.chunks_exact_mut(n / 2).zip(summands) {
            for x in half {
                *x = m.add(*x, summand);
            }
        }
    });
}
