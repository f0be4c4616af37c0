//! Evaluation of a planned polynomial.

use std::borrow::Cow;
use std::collections::BTreeMap;

use cipherloom_spec::Scale;
use rayon::prelude::*;

use super::plan::{Factor, Node, Power};
use super::{PolynomialBasis, PolynomialPlan};
use crate::ciphertext::Ciphertext;
use crate::complex::Complex64;
use crate::error::CkksError;
use crate::evaluator::Evaluator;
use crate::keys::KeyPurpose;

impl PolynomialPlan {
    /// Evaluates on one ciphertext. The result is at [`PolynomialPlan::output_level`] with its canonical scale.
    ///
    /// # Errors
    /// `MissingKey` without a relinearisation key, `LevelMismatch` and `ScaleMismatch` unless the ciphertext
    /// is at the planned level and its canonical scale, `ParamsMismatch`: all before anything is computed. `KeyLevel`.
    /// `ValueTooLarge` for coefficients beyond the modulus.
    pub fn evaluate(&self, ev: &Evaluator, x: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.check(ev, x)?;
        let powers = self.compute_powers(ev, self.argument(ev, x)?)?;
        self.reduced(ev, &self.root, &powers)
    }

    /// Evaluates on many ciphertexts, several at a time in the thread pool. Memory: the powers of those in work.
    ///
    /// # Errors
    /// As [`PolynomialPlan::evaluate`]; all arguments are checked first.
    pub fn evaluate_many(
        &self,
        ev: &Evaluator,
        xs: &[Ciphertext],
    ) -> Result<Vec<Ciphertext>, CkksError> {
        for x in xs {
            self.check(ev, x)?;
        }
        xs.par_iter().map(|x| self.evaluate(ev, x)).collect()
    }

    fn check(&self, ev: &Evaluator, x: &Ciphertext) -> Result<(), CkksError> {
        const OP: &str = "polynomial";
        ev.params().check_digest("plan", self.params.digest())?;
        ev.params().check_digest("ciphertext", x.digest())?;
        if x.level() != self.level {
            return Err(CkksError::LevelMismatch {
                op: OP,
                left: x.level(),
                right: self.level,
            });
        }
        let scale = self.params.scale(self.level);
        if !x.scale().matches(scale) {
            return Err(CkksError::ScaleMismatch {
                op: OP,
                left: x.scale(),
                right: scale,
            });
        }
        if self.counts().relinearizations > 0 {
            ev.keys().key(KeyPurpose::Relinearization)?;
        }
        Ok(())
    }

    /// u from the argument.
    fn argument(&self, ev: &Evaluator, x: &Ciphertext) -> Result<Ciphertext, CkksError> {
        let shifted = |ct: Ciphertext| {
            if self.map.shift == 0.0 {
                Ok(ct)
            } else {
                ev.add_constant(&ct, self.map.shift.into())
            }
        };
        match self.map.factor {
            Factor::One => shifted(x.clone()),
            Factor::Integer(f) => shifted(ev.mul_constant(x, f.into(), Scale::pow2(0))?),
            Factor::Level(f, scale) => {
                ev.rescale(&shifted(ev.mul_constant(x, f.into(), scale)?)?)
            }
        }
    }

    fn compute_powers(
        &self,
        ev: &Evaluator,
        u: Ciphertext,
    ) -> Result<BTreeMap<usize, Ciphertext>, CkksError> {
        let mut done = BTreeMap::from([(1, u)]);
        for (&j, power) in &self.powers {
            let next = self.power(ev, power, &done)?;
            done.insert(j, next);
        }
        Ok(done)
    }

    fn power(
        &self,
        ev: &Evaluator,
        p: &Power,
        done: &BTreeMap<usize, Ciphertext>,
    ) -> Result<Ciphertext, CkksError> {
        let at = |j: usize| dropped(ev, done, j, p.level);
        let (high, low) = (at(p.high)?, at(p.low)?);
        if self.basis == PolynomialBasis::Monomial {
            return ev.mul_relin_rescale(&high, &low);
        }
        // Doubled before the rescale, so that its rounding is not.
        let doubled = ev.add(&high, &high)?;
        let minus = Complex64::from(-1.0);
        if p.high == p.low {
            return ev.add_constant(&ev.mul_relin_rescale(&doubled, &low)?, minus);
        }
        let mut product = ev.mul(&doubled, &low)?;
        let third = at(p.high - p.low)?;
        let scale = product.scale().over(third.scale());
        ev.add_assign(&mut product, &ev.mul_constant(&third, minus, scale)?)?;
        ev.relinearize_rescale(&product)
    }

    /// The value of a node, relinearised and rescaled.
    fn reduced(
        &self,
        ev: &Evaluator,
        node: &Node,
        powers: &BTreeMap<usize, Ciphertext>,
    ) -> Result<Ciphertext, CkksError> {
        let mut sum: Option<Ciphertext> = None;
        let mut add = |term: Ciphertext| match &mut sum {
            Some(s) => ev.add_assign(s, &term),
            None => {
                sum = Some(term);
                Ok(())
            }
        };
        for (quotient, g) in &node.products {
            let quotient = self.reduced(ev, quotient, powers)?;
            let giant = dropped(ev, powers, *g, node.level)?;
            add(ev.mul(&quotient, &giant)?)?;
        }
        if !node.linear.is_empty() {
            let terms = node
                .linear
                .iter()
                .map(|&(j, c)| Ok((found(powers, j)?, c)))
                .collect::<Result<Vec<_>, CkksError>>()?;
            add(ev.linear_combination(&terms, node.constant, node.level, node.scale)?)?;
        }
        let Some(mut sum) = sum else {
            return Err(CkksError::Empty { op: "polynomial" });
        };
        if node.linear.is_empty() && node.constant != Complex64::ZERO {
            sum = ev.add_constant(&sum, node.constant)?;
        }
        if node.products.is_empty() {
            ev.rescale(&sum)
        } else {
            ev.relinearize_rescale(&sum)
        }
    }
}

fn dropped<'a>(
    ev: &Evaluator,
    done: &'a BTreeMap<usize, Ciphertext>,
    j: usize,
    level: usize,
) -> Result<Cow<'a, Ciphertext>, CkksError> {
    let ct = found(done, j)?;
    Ok(if ct.level() == level {
        Cow::Borrowed(ct)
    } else {
        Cow::Owned(ev.drop_level(ct, level)?)
    })
}

fn found(done: &BTreeMap<usize, Ciphertext>, j: usize) -> Result<&Ciphertext, CkksError> {
    done.get(&j).ok_or(CkksError::Empty { op: "polynomial" })
}
