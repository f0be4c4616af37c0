//! Rotations and conjugation.

use super::{two_parts, Evaluator};
use crate::ciphertext::Ciphertext;
use crate::error::CkksError;
use crate::keys::KeyPurpose;
use crate::keyswitch::{Addend, Decomposed, Job, Operand, Source};

/// Keys for one pass over the digits of a hoisted ciphertext.
const PASS: usize = 2;

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
        let source = Source::Fresh(Operand::Poly(&a.parts()[1]));
        let [out] = self.switch_galois(a, [g], source)?;
        Ok(out)
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
        let [out] = self.switch_galois(a.ct, [g], Source::Hoisted(&a.digits))?;
        Ok(out)
    }

    /// Switches with the keys of `K` automorphisms other than the identity.
    fn switch_galois<const K: usize>(
        &self,
        a: &Ciphertext,
        gs: [u64; K],
        source: Source<'_>,
    ) -> Result<[Ciphertext; K], CkksError> {
        let add = Some(Addend::Polys(&a.parts()[0], None));
        let job = |g| -> Result<_, CkksError> {
            let key = self.keys.key(KeyPurpose::Galois(g))?;
            // The key leads to s(X^(1/g)), which the automorphism turns into s.
            let Some(automorphism) = &key.automorphism else {
                return Err(CkksError::Empty { op: "rotate" });
            };
            Ok(Job {
                key,
                add,
                automorphism: Some(automorphism),
            })
        };
        let mut jobs = [job(gs[0])?; K];
        for (place, &g) in jobs.iter_mut().zip(&gs).skip(1) {
            *place = job(g)?;
        }
        let parts = self.switch(source, false, jobs)?;
        for g in gs {
            if g == self.params.conjugation_element() {
                self.counter.conjugation();
            } else {
                self.counter.rotation();
            }
        }
        Ok(parts.map(|parts| self.made(parts.into(), a.scale())))
    }

    /// All these rotations of one ciphertext with one decomposition, in order. Cheaper than one at a time.
    ///
    /// # Errors
    /// As [`Evaluator::rotate`].
    pub fn rotate_many(&self, a: &Ciphertext, ks: &[i64]) -> Result<Vec<Ciphertext>, CkksError> {
        self.rotate_hoisted_many(&self.hoist(a)?, ks)
    }

    /// All these rotations of a hoisted ciphertext, in order. Cheaper than one at a time: several keys share a pass over the
    /// digits.
    ///
    /// # Errors
    /// As [`Evaluator::rotate`].
    pub fn rotate_hoisted_many(
        &self,
        a: &Hoisted<'_>,
        ks: &[i64],
    ) -> Result<Vec<Ciphertext>, CkksError> {
        self.check_ct(a.ct)?;
        let mut out = Vec::with_capacity(ks.len());
        let mut rest = ks;
        while let Some((&k, others)) = rest.split_first() {
            if let Some((pass, others)) = rest.split_first_chunk::<PASS>() {
                let gs = pass.map(|k| self.params.galois_element(k));
                if !gs.contains(&1) {
                    out.extend(self.switch_galois(a.ct, gs, Source::Hoisted(&a.digits))?);
                    rest = others;
                    continue;
                }
            }
            out.push(self.rotate_hoisted(a, k)?);
            rest = others;
        }
        Ok(out)
    }
}
