//! The inner step of a linear transform: many rotations of one ciphertext, and weighted sums of them.
//!
//! This is the only place that knows in which form the rotations are kept, so that another form (sums in the
//! extended basis before the division by P) can take its place.

use crate::ciphertext::Ciphertext;
use crate::error::CkksError;
use crate::evaluator::Evaluator;
use crate::plaintext::Plaintext;

/// Rotations of one ciphertext that share one decomposition.
pub(super) struct BabySteps {
    rotated: Vec<Ciphertext>,
}

impl BabySteps {
    /// Rotates by each of `steps`; 0 is a copy.
    pub(super) fn new(ev: &Evaluator, ct: &Ciphertext, steps: &[usize]) -> Result<Self, CkksError> {
        let steps: Vec<i64> = steps.iter().map(|&k| k as i64).collect();
        // The decomposition pays from the second rotation on.
        let rotated = if steps.iter().filter(|&&k| k != 0).count() > 1 {
            ev.rotate_many(ct, &steps)?
        } else {
            steps
                .iter()
                .map(|&k| ev.rotate(ct, k))
                .collect::<Result<_, _>>()?
        };
        Ok(Self { rotated })
    }

    /// `sum of plaintext * rotation` over pairs of an index into `steps` and a plaintext; not rescaled.
    pub(super) fn weighted_sum(
        &self,
        ev: &Evaluator,
        terms: &[(usize, &Plaintext)],
    ) -> Result<Ciphertext, CkksError> {
        let terms: Vec<_> = terms.iter().map(|&(i, p)| (&self.rotated[i], p)).collect();
        ev.mul_plain_sum(&terms)
    }

    /// `sum += plaintext * rotation`.
    pub(super) fn add_weighted(
        &self,
        ev: &Evaluator,
        sum: &mut Ciphertext,
        (i, plain): (usize, &Plaintext),
    ) -> Result<(), CkksError> {
        ev.mul_plain_add_assign(sum, &self.rotated[i], plain)
    }
}
