//! Rotations and conjugation.

use super::{two_parts, Evaluator};
use crate::ciphertext::Ciphertext;
use crate::error::CkksError;
use crate::keys::{EvaluationKey, KeyPurpose};
use crate::keyswitch::{Addend, Decomposed, Operand, Output, Source};

/// A ciphertext whose second part is decomposed and raised: many rotations share that work.
/// Memory: digits x (special primes + level + 1) polynomial limbs beside the ciphertext.
#[derive(Debug)]
pub struct Hoisted<'a> {
    ct: &'a Ciphertext,
    digits: Decomposed<'a>,
}

impl Hoisted<'_> {
    /// The ciphertext.
    #[must_use]
    pub fn ciphertext(&self) -> &Ciphertext {
        self.ct
    }
}

impl Evaluator {
    /// Rotates the slots to the left by `k` (slot i receives slot i + k; negative: to the right;
    /// modulo the slot count). Level and scale stay; works at every level. Counted as one
    /// rotation; k = 0 is a copy, uncounted.
    ///
    /// # Errors
    /// `MissingKey` naming the rotation, `KeyLevel`, `Parts` for degree 2, `ParamsMismatch`.
    pub fn rotate(&self, a: &Ciphertext, k: i64) -> Result<Ciphertext, CkksError> {
        self.apply_galois(a, self.params.galois_element(k))
    }

    /// Complex conjugate of every slot. Counted as one conjugation.
    ///
    /// # Errors
    /// As [`Evaluator::rotate`].
    pub fn conjugate(&self, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.apply_galois(a, self.params.conjugation_element())
    }

    /// Applies X -> X^g. Counted as a conjugation for g = 2N - 1, else as a rotation; g = 1 is a copy,
    /// uncounted.
    ///
    /// # Errors
    /// As [`Evaluator::rotate`].
    pub fn apply_galois(&self, a: &Ciphertext, g: u64) -> Result<Ciphertext, CkksError> {
        self.check_ct(a)?;
        if g == 1 {
            return Ok(self.copy(a));
        }
        two_parts("rotate", a)?;
        let key = self.keys.key(KeyPurpose::Galois(g))?;
        self.switch_galois(a, key, Source::Fresh(Operand::Poly(&a.parts()[1])))
    }

    /// Decomposes a ciphertext for many rotations of it. Not counted.
    ///
    /// # Errors
    /// `Parts` for degree 2, `ParamsMismatch`.
    pub fn hoist<'a>(&'a self, a: &'a Ciphertext) -> Result<Hoisted<'a>, CkksError> {
        self.check_ct(a)?;
        two_parts("hoist", a)?;
        Ok(Hoisted {
            ct: a,
            digits: self
                .params
                .tables()
                .decompose(&Operand::Poly(&a.parts()[1]), &self.pool),
        })
    }

    /// One rotation of a hoisted ciphertext; same result as [`Evaluator::rotate`], bit for bit.
    ///
    /// # Errors
    /// As [`Evaluator::rotate`].
    pub fn rotate_hoisted(&self, a: &Hoisted<'_>, k: i64) -> Result<Ciphertext, CkksError> {
        self.galois_hoisted(a, self.params.galois_element(k))
    }

    /// One automorphism of a hoisted ciphertext; same result as [`Evaluator::apply_galois`].
    ///
    /// # Errors
    /// As [`Evaluator::rotate`].
    pub fn galois_hoisted(&self, a: &Hoisted<'_>, g: u64) -> Result<Ciphertext, CkksError> {
        self.check_ct(a.ct)?;
        if g == 1 {
            return Ok(self.copy(a.ct));
        }
        let key = self.keys.key(KeyPurpose::Galois(g))?;
        self.switch_galois(a.ct, key, Source::Hoisted(&a.digits))
    }

    fn switch_galois(
        &self,
        a: &Ciphertext,
        key: &EvaluationKey,
        source: Source<'_>,
    ) -> Result<Ciphertext, CkksError> {
        // The key leads to s(X^(1/g)), which the automorphism turns into s.
        let Some(automorphism) = &key.automorphism else {
            return Err(CkksError::Empty { op: "rotate" });
        };
        let output = Output {
            add: Some(Addend::Polys(&a.parts()[0], None)),
            automorphism: Some(automorphism),
            ..Output::default()
        };
        let tables = self.params.tables();
        let parts = tables.switch(source, key, &output, &self.pool, &self.polys)?;
        if automorphism.g() == self.params.conjugation_element() {
            self.counter.conjugation();
        } else {
            self.counter.rotation();
        }
        Ok(self.made(parts.into(), a.scale()))
    }

    /// All these rotations of one ciphertext with one decomposition, in order.
    ///
    /// # Errors
    /// As [`Evaluator::rotate`].
    pub fn rotate_many(&self, a: &Ciphertext, ks: &[i64]) -> Result<Vec<Ciphertext>, CkksError> {
        let hoisted = self.hoist(a)?;
        ks.iter()
            .map(|&k| self.rotate_hoisted(&hoisted, k))
            .collect()
    }
}
