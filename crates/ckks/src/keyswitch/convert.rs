//! Base conversion on limbs in scratch memory: centred, with a double-precision quotient
//! (Halevi, Polyakov, Shoup 2018, ePrint 2018/117, section 2.2), as in `cipherloom_ring::BaseConverter`, whose
//! polynomials would each be a fresh allocation.

use cipherloom_ring::{Backend, Modulus, Shoup};

use crate::error::CkksError;

/// Tables from primes with product Q to other primes.
#[derive(Debug)]
pub(super) struct Converter {
    from: Vec<Modulus>,
    /// (Q/q_i)^-1 mod q_i.
    hat_inv: Vec<Shoup>,
    /// 1/q_i.
    reciprocals: Vec<f64>,
    /// For each target p: Q/q_i mod p for each i, then -Q mod p.
    weights: Vec<Vec<u64>>,
}

impl Converter {
    pub(super) fn new(from: Vec<Modulus>, to: &[Modulus]) -> Result<Self, CkksError> {
        let product = |m: &Modulus, skip: Option<usize>| {
            from.iter()
                .enumerate()
                .filter(|(i, _)| Some(*i) != skip)
                .fold(1, |acc, (_, q)| m.mul(acc, m.reduce(q.value())))
        };
        let hat_inv = from
            .iter()
            .enumerate()
            .map(|(i, m)| Ok(m.shoup(m.inv(product(m, Some(i)))?)))
            .collect::<Result<_, CkksError>>()?;
        let weights = to
            .iter()
            .map(|p| {
                let mut row: Vec<u64> = (0..from.len()).map(|i| product(p, Some(i))).collect();
                row.push(p.neg(product(p, None)));
                row
            })
            .collect();
        let reciprocals = from.iter().map(|m| 1.0 / m.value() as f64).collect();
        Ok(Self {
            from,
            hat_inv,
            reciprocals,
            weights,
        })
    }

    /// Source limb `i` (coefficients) times (Q/q_i)^-1, in place.
    pub(super) fn scale(&self, backend: &dyn Backend, i: usize, limb: &mut [u64]) {
        // With one source prime the factor is 1.
        if self.from.len() > 1 {
            backend.scalar_mul_assign(&self.from[i], limb, self.hat_inv[i]);
        }
    }

    /// How often Q fits into the sum of the scaled limbs.
    pub(super) fn quotient(&self, backend: &dyn Backend, scaled: &[&[u64]], out: &mut [u64]) {
        backend.rounded_sum(out, scaled, &self.reciprocals);
    }

    /// Residues modulo target `j`, which is `m`; `terms` are the scaled limbs, then the quotient.
    pub(super) fn target(
        &self,
        backend: &dyn Backend,
        j: usize,
        m: &Modulus,
        terms: &[&[u64]],
        out: &mut [u64],
    ) {
        backend.weighted_sum(m, out, terms, &self.weights[j]);
    }
}
