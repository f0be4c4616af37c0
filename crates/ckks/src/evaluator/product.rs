//! Products with plaintexts and ciphertexts.

use cipherloom_ring::{Ntt, Poly};
use cipherloom_spec::Scale;

use super::arith::constant_product_assign;
use super::{same_level, same_scale, two_parts, Evaluator};
use crate::ciphertext::Ciphertext;
use crate::complex::Complex64;
use crate::error::CkksError;
use crate::keys::{EvaluationKey, KeyPurpose};
use crate::keyswitch::{Addend, Job, Operand, Source};
use crate::plaintext::Plaintext;
use crate::scratch::{for_each_chunk, for_each_limb_of, Pairs};

/// Terms that one call of the kernel takes.
const TERMS: usize = 8;

impl Evaluator {
    /// `a b` slotwise, not rescaled: same level, scales multiplied. Counted as one pt-ct product.
    ///
    /// # Errors
    /// `LevelMismatch`, `ScaleTooLarge` or `ScaleTooSmall` for a product of the scales that the level cannot hold,
    /// `ParamsMismatch`.
    pub fn mul_plain(&self, a: &Ciphertext, b: &Plaintext) -> Result<Ciphertext, CkksError> {
        const OP: &str = "mul_plain";
        self.check_plain(OP, a, b)?;
        let scale = self.check_product(OP, a.level(), a.scale(), b.scale())?;
        let parts = self.plain_products(&[(a, b)]);
        self.counter.pt_ct(1);
        Ok(self.made(parts, scale))
    }

    /// `a = a b`; see [`Evaluator::mul_plain`].
    ///
    /// # Errors
    /// As [`Evaluator::mul_plain`]; `a` is unchanged then.
    pub fn mul_plain_assign(&self, a: &mut Ciphertext, b: &Plaintext) -> Result<(), CkksError> {
        const OP: &str = "mul_plain_assign";
        self.check_plain(OP, a, b)?;
        let scale = self.check_product(OP, a.level(), a.scale(), b.scale())?;
        let basis = b.poly().basis();
        let (backend, n) = (basis.backend(), basis.n());
        let [p0, p1, rest @ ..] = &mut a.parts_mut()[..] else {
            return Ok(());
        };
        // A limb of the plaintext serves the first two parts while it is cached.
        let pair = [[p0.data_mut(), p1.data_mut()]];
        for_each_limb_of(pair, n, &|i, [[x, y]]| {
            backend.mul_assign(basis.modulus(i), x, b.poly().limb(i));
            backend.mul_assign(basis.modulus(i), y, b.poly().limb(i));
        });
        for part in rest {
            part.mul_assign(b.poly())?;
        }
        a.set_scale(scale);
        self.counter.pt_ct(1);
        Ok(())
    }

    /// The scale of a product at this level, if the level can hold it.
    fn check_product(
        &self,
        op: &'static str,
        level: usize,
        a: Scale,
        b: Scale,
    ) -> Result<Scale, CkksError> {
        let scale = a.times(b);
        self.check_result(op, level, scale)?;
        Ok(scale)
    }

    /// `sum of a_i b_i` slotwise, not rescaled, with one modular reduction for many products. All terms must have
    /// one level and one product scale. Counted as one pt-ct product for each term.
    ///
    /// # Errors
    /// `Empty`, `LevelMismatch`, `ScaleMismatch`, `ScaleTooLarge` or `ScaleTooSmall` for a product of the scales that the level
    /// cannot hold, `Parts`, `ParamsMismatch`.
    pub fn mul_plain_sum(
        &self,
        terms: &[(&Ciphertext, &Plaintext)],
    ) -> Result<Ciphertext, CkksError> {
        const OP: &str = "mul_plain_sum";
        let scale = self.check_terms(OP, terms)?;
        let parts = self.plain_products(terms);
        self.counter.pt_ct(terms.len());
        Ok(self.made(parts, scale))
    }

    /// The scale of a sum of products, if the terms agree and their level can hold it.
    fn check_terms(
        &self,
        op: &'static str,
        terms: &[(&Ciphertext, &Plaintext)],
    ) -> Result<Scale, CkksError> {
        let (first, plain) = terms.first().ok_or(CkksError::Empty { op })?;
        let scale = first.scale().times(plain.scale());
        let count = first.parts().len();
        for (a, b) in terms {
            self.check_plain(op, a, b)?;
            same_level(op, first.level(), a.level())?;
            same_scale(op, scale, a.scale().times(b.scale()))?;
            if a.parts().len() != count {
                return Err(CkksError::Parts {
                    op,
                    got: a.parts().len(),
                    expected: count,
                });
            }
        }
        self.check_result(op, first.level(), scale)?;
        Ok(scale)
    }

    /// `sum of a_i b_i` slotwise, then one rescale: level l to l - 1. With plaintexts from
    /// [`crate::Encoder::encode_for_product`] the result has the canonical scale of l - 1.
    ///
    /// # Errors
    /// As [`Evaluator::mul_plain_sum`], `LevelExhausted`.
    pub fn mul_plain_accumulate(
        &self,
        terms: &[(&Ciphertext, &Plaintext)],
    ) -> Result<Ciphertext, CkksError> {
        const OP: &str = "mul_plain_accumulate";
        let scale = self.check_terms(OP, terms)?;
        self.check_rescaled(OP, terms[0].0.level(), scale)?;
        let sum = self.rescaled(&self.made(self.plain_products(terms), scale))?;
        self.counter.pt_ct(terms.len());
        self.counter.rescale();
        Ok(sum)
    }

    /// `acc += a b`, not rescaled. Counted as one pt-ct product.
    ///
    /// # Errors
    /// `LevelMismatch`, `ScaleMismatch`, `ScaleTooLarge` or `ScaleTooSmall` for a product of the scales that the level cannot
    /// hold, `Parts`, `ParamsMismatch`; `acc` is unchanged then.
    pub fn mul_plain_add_assign(
        &self,
        acc: &mut Ciphertext,
        a: &Ciphertext,
        b: &Plaintext,
    ) -> Result<(), CkksError> {
        const OP: &str = "mul_plain_add_assign";
        self.check_pair(OP, acc, a)?;
        self.check_plain(OP, a, b)?;
        let scale = self.check_product(OP, a.level(), a.scale(), b.scale())?;
        same_scale(OP, acc.scale(), scale)?;
        if acc.parts().len() != a.parts().len() {
            return Err(CkksError::Parts {
                op: OP,
                got: a.parts().len(),
                expected: acc.parts().len(),
            });
        }
        self.plain_products_into(acc.parts_mut(), &[(a, b)], true);
        self.counter.pt_ct(1);
        Ok(())
    }

    /// `sum of a_i b_i` for operands that were checked to agree.
    fn plain_products(&self, terms: &[(&Ciphertext, &Plaintext)]) -> Vec<Poly<Ntt>> {
        let first = terms[0].0.parts();
        let mut parts: Vec<_> = first.iter().map(|p| self.polys.take(p.basis())).collect();
        self.plain_products_into(&mut parts, terms, false);
        parts
    }

    /// Writes or adds `sum of a_i b_i`. A limb of the plaintext serves the first two parts while it is cached.
    fn plain_products_into(
        &self,
        parts: &mut [Poly<Ntt>],
        terms: &[(&Ciphertext, &Plaintext)],
        add: bool,
    ) {
        let [p0, p1, rest @ ..] = parts else { return };
        let basis = p0.basis().clone();
        let n = basis.n();
        let (backend, moduli) = (basis.backend(), &basis);
        let limb = |i: usize, [[out0, out1]]: Pairs<'_, 1>| {
            for (k, chunk) in terms.chunks(TERMS).enumerate() {
                let mut limbs = [[&[][..]; 3]; TERMS];
                for (l, (a, b)) in limbs.iter_mut().zip(chunk) {
                    let [c0, c1, ..] = a.parts() else { return };
                    *l = [b.poly().limb(i), c0.limb(i), c1.limb(i)];
                }
                let out = [&mut *out0, &mut *out1];
                backend.key_products(moduli.modulus(i), out, &limbs[..chunk.len()], add || k > 0);
            }
        };
        for_each_limb_of([[p0.data_mut(), p1.data_mut()]], n, &limb);
        for (part, out) in rest.iter_mut().enumerate() {
            for_each_chunk(out.data_mut(), n, n, |i, out| {
                if !add {
                    out.fill(0);
                }
                for (a, b) in terms {
                    let (c, b) = (a.parts()[part + 2].limb(i), b.poly().limb(i));
                    backend.mul_add(moduli.modulus(i), out, c, b);
                }
            });
        }
    }

    /// `value a` with `value` in every slot, encoded at `scale` (each part rounded once); not rescaled.
    /// Cheaper than [`Evaluator::mul_plain`]: no encoding. Counted as one pt-ct product.
    ///
    /// # Errors
    /// `NotFinite`, `ValueTooLarge`, `ScaleTooLarge` or `ScaleTooSmall` for a product of the scales that the level cannot hold or
    /// for a scale below 1, `ParamsMismatch`.
    pub fn mul_constant(
        &self,
        a: &Ciphertext,
        value: Complex64,
        scale: Scale,
    ) -> Result<Ciphertext, CkksError> {
        let (constant, scale) = self.check_constant("mul_constant", a, value, scale)?;
        let mut out = self.constant_product(a, constant);
        out.set_scale(scale);
        self.counter.pt_ct(1);
        Ok(out)
    }

    /// `a = value a`; see [`Evaluator::mul_constant`].
    ///
    /// # Errors
    /// As [`Evaluator::mul_constant`]; `a` is unchanged then.
    pub fn mul_constant_assign(
        &self,
        a: &mut Ciphertext,
        value: Complex64,
        scale: Scale,
    ) -> Result<(), CkksError> {
        let (constant, scale) = self.check_constant("mul_constant_assign", a, value, scale)?;
        constant_product_assign(a, constant);
        a.set_scale(scale);
        self.counter.pt_ct(1);
        Ok(())
    }

    /// The integers of a constant at `scale`, and the scale of its product with `a`.
    fn check_constant(
        &self,
        op: &'static str,
        a: &Ciphertext,
        value: Complex64,
        scale: Scale,
    ) -> Result<([i128; 2], Scale), CkksError> {
        self.check_ct(a)?;
        let product = self.check_product(op, a.level(), a.scale(), scale)?;
        self.check_min(op, a.level(), scale, 0)?;
        let constant = self.encoder.constant_parts(value, a.level(), scale)?;
        self.check_value(a.level(), value, product)?;
        Ok((constant, product))
    }

    /// `a b` slotwise, of degree 2 (three parts), not relinearised and not rescaled: same level,
    /// scales multiplied. Counted as one ct-ct product.
    ///
    /// # Errors
    /// `Parts` unless both have two parts, `LevelMismatch`, `ScaleTooLarge` or `ScaleTooSmall` for a product of the scales that the
    /// level cannot hold, `ParamsMismatch`.
    pub fn mul(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, CkksError> {
        let scale = self.check_factors("mul", a, b)?;
        let (a, b) = (a.parts(), b.parts());
        let parts = vec![
            self.product(&a[0], &b[0]),
            self.cross(a, b),
            self.product(&a[1], &b[1]),
        ];
        self.counter.ct_ct();
        Ok(self.made(parts, scale))
    }

    /// The scale of the product of two ciphertexts, if they agree and their level can hold it.
    fn check_factors(
        &self,
        op: &'static str,
        a: &Ciphertext,
        b: &Ciphertext,
    ) -> Result<Scale, CkksError> {
        self.check_pair(op, a, b)?;
        two_parts(op, a)?;
        two_parts(op, b)?;
        self.check_product(op, a.level(), a.scale(), b.scale())
    }

    /// Degree 2 to degree 1 with the relinearisation key. Counted as one relinearisation. A degree-1
    /// ciphertext is copied, uncounted.
    ///
    /// # Errors
    /// `MissingKey`, `KeyLevel`, `ParamsMismatch`.
    pub fn relinearize(&self, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.check_ct(a)?;
        let [c0, c1, c2] = a.parts() else {
            return Ok(self.copy(a));
        };
        let key = self.keys.key(KeyPurpose::Relinearization)?;
        let source = Source::Fresh(Operand::Poly(c2));
        let [parts] = self.switch(source, false, [joined(key, c0, c1)])?;
        self.counter.relinearization();
        Ok(self.made(parts.into(), a.scale()))
    }

    /// `a b`, relinearised, not rescaled.
    ///
    /// # Errors
    /// As [`Evaluator::mul`] and [`Evaluator::relinearize`].
    pub fn mul_relin(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, CkksError> {
        let scale = self.check_factors("mul_relin", a, b)?;
        let parts = self.tensor_switch(a, b, false)?;
        self.counter.ct_ct();
        self.counter.relinearization();
        Ok(self.made(parts.into(), scale))
    }

    /// Product and relinearisation in one, of operands that were checked to agree: the three parts of the product exist a row at a time only.
    fn tensor_switch(
        &self,
        a: &Ciphertext,
        b: &Ciphertext,
        rescale: bool,
    ) -> Result<[Poly<Ntt>; 2], CkksError> {
        let key = self.keys.key(KeyPurpose::Relinearization)?;
        let (a, b) = (a.parts(), b.parts());
        let source = Source::Fresh(Operand::Product(&a[1], &b[1]));
        let job = Job {
            key,
            add: Some(Addend::Tensor([&a[0], &a[1]], [&b[0], &b[1]])),
            automorphism: None,
        };
        let [parts] = self.switch(source, rescale, [job])?;
        Ok(parts)
    }

    /// `a b`, relinearised and rescaled with one rounding: level l to l - 1, canonical scale if both had it.
    /// Cheaper than the three operations in turn. Counted as one ct-ct product, one relinearisation, one rescale.
    ///
    /// # Errors
    /// As [`Evaluator::mul`] and [`Evaluator::relinearize`], `LevelExhausted`.
    pub fn mul_relin_rescale(
        &self,
        a: &Ciphertext,
        b: &Ciphertext,
    ) -> Result<Ciphertext, CkksError> {
        const OP: &str = "mul_relin_rescale";
        let scale = self.check_factors(OP, a, b)?;
        let scale = self.check_rescaled(OP, a.level(), scale)?;
        let parts = self.tensor_switch(a, b, true)?;
        self.counter.ct_ct();
        self.counter.relinearization();
        self.counter.rescale();
        Ok(self.made(parts.into(), scale))
    }

    /// Degree 2 to degree 1 and a rescale with one rounding: the last step of a sum of products.
    /// Counted as one relinearisation and one rescale.
    ///
    /// # Errors
    /// `Parts` unless there are three, as [`Evaluator::relinearize`], `LevelExhausted`, `ScaleTooSmall`.
    pub fn relinearize_rescale(&self, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        const OP: &str = "relinearize_rescale";
        self.check_ct(a)?;
        let scale = self.check_rescaled(OP, a.level(), a.scale())?;
        let [c0, c1, c2] = a.parts() else {
            return Err(CkksError::Parts {
                op: OP,
                got: a.parts().len(),
                expected: 3,
            });
        };
        let key = self.keys.key(KeyPurpose::Relinearization)?;
        let source = Source::Fresh(Operand::Poly(c2));
        let [parts] = self.switch(source, true, [joined(key, c0, c1)])?;
        self.counter.relinearization();
        self.counter.rescale();
        Ok(self.made(parts.into(), scale))
    }
}

/// A key whose result joins (c0, c1).
fn joined<'a>(key: &'a EvaluationKey, c0: &'a Poly<Ntt>, c1: &'a Poly<Ntt>) -> Job<'a> {
    Job {
        key,
        add: Some(Addend::Polys(c0, Some(c1))),
        automorphism: None,
    }
}
