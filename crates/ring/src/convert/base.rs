//! Base conversion: residues modulo one set of primes to residues modulo another.

use crate::basis::Basis;
use crate::error::RingError;
use crate::modulus::Shoup;
use crate::parallel::for_each_limb;
use crate::poly::{Coeff, Poly};

/// Tables for converting from a basis with product Q to other primes.
///
/// With `y_i = x_i (Q/q_i)^-1 mod q_i`, the integer `sum of y_i Q/q_i` is `x + u Q` for some
/// `0 <= u < k`. The centred conversion estimates u by `round(sum of y_i / q_i)` in double
/// precision and takes it off, so it returns the residues of the representative of x in
/// `[-Q/2, Q/2]`. The estimate can be off by one (and the result by Q) only if x is within
/// `k 2^-50 Q` of `Q/2`; with one source prime it is always exact.
#[derive(Debug, Clone)]
pub struct BaseConverter {
    from: Basis,
    to: Basis,
    /// (Q/q_i)^-1 mod q_i.
    hat_inv: Vec<Shoup>,
    /// 1/q_i.
    reciprocals: Vec<f64>,
    /// Row j: Q/q_i mod p_j for each i, then -Q mod p_j.
    weights: Vec<Vec<u64>>,
}

impl BaseConverter {
    /// Precomputes the conversion. Memory: one word for each pair of primes.
    ///
    /// # Errors
    /// [`RingError::BasisMismatch`] for different degrees.
    pub fn new(from: &Basis, to: &Basis) -> Result<Self, RingError> {
        if from.n() != to.n() {
            return Err(from.mismatch(to, 0));
        }
        let hat_inv = from
            .moduli()
            .enumerate()
            .map(|(i, m)| {
                let hat = from
                    .moduli()
                    .enumerate()
                    .filter(|(j, _)| *j != i)
                    .fold(1, |acc, (_, other)| m.mul(acc, other.value()));
                Ok(m.shoup(m.inv(hat)?))
            })
            .collect::<Result<Vec<_>, RingError>>()?;
        let reciprocals = from.moduli().map(|m| 1.0 / m.value() as f64).collect();
        let weights = to
            .moduli()
            .map(|p| {
                let product = |skip: Option<usize>| {
                    from.moduli()
                        .enumerate()
                        .filter(|(j, _)| Some(*j) != skip)
                        .fold(1, |acc, (_, q)| p.mul(acc, q.value()))
                };
                let mut row: Vec<u64> = (0..from.len()).map(|i| product(Some(i))).collect();
                row.push(p.neg(product(None)));
                row
            })
            .collect();
        Ok(Self {
            from: from.clone(),
            to: to.clone(),
            hat_inv,
            reciprocals,
            weights,
        })
    }

    /// The source basis.
    pub fn from_basis(&self) -> &Basis {
        &self.from
    }

    /// The target basis.
    pub fn to_basis(&self) -> &Basis {
        &self.to
    }

    /// Converts the centred representative. O(k * k' * N).
    ///
    /// # Errors
    /// [`RingError::BasisMismatch`] unless `x` starts with the source primes.
    pub fn convert(&self, x: &Poly<Coeff>) -> Result<Poly<Coeff>, RingError> {
        self.from.check_prefix_of(x.basis())?;
        let scaled = self.scale(|i| x.limb(i));
        Ok(self.finish(&scaled, true))
    }

    /// Converts `x + u Q` for some unknown `0 <= u < k`, without the estimate of u: the fast
    /// approximate conversion.
    ///
    /// # Errors
    /// As [`BaseConverter::convert`].
    pub fn convert_approximate(&self, x: &Poly<Coeff>) -> Result<Poly<Coeff>, RingError> {
        self.from.check_prefix_of(x.basis())?;
        let scaled = self.scale(|i| x.limb(i));
        Ok(self.finish(&scaled, false))
    }

    fn finish(&self, scaled: &[u64], centred: bool) -> Poly<Coeff> {
        let mut out = Poly::zero(&self.to);
        out.each(|_, j, limb| {
            if centred {
                self.target_limb(scaled, j, limb);
            } else {
                self.sum_terms(scaled, self.from.len(), j, limb);
            }
        });
        out
    }

    /// The y_i, limb-major, and behind them the estimate of u: (k + 1) N words.
    pub(crate) fn scale<'a>(&self, source: impl Fn(usize) -> &'a [u64] + Sync + Send) -> Vec<u64> {
        let (n, k) = (self.from.n(), self.from.len());
        let mut scaled = vec![0; (k + 1) * n];
        let (y, u) = scaled.split_at_mut(k * n);
        for_each_limb(y, n, |i, limb| {
            limb.copy_from_slice(source(i));
            // With a single source prime the factor is 1.
            if k > 1 {
                self.from
                    .backend()
                    .scalar_mul_assign(self.from.modulus(i), limb, self.hat_inv[i]);
            }
        });
        let terms: Vec<&[u64]> = y.chunks_exact(n).collect();
        self.from
            .backend()
            .rounded_sum(u, &terms, &self.reciprocals);
        scaled
    }

    /// Centred residues modulo target prime `j` from what [`BaseConverter::scale`] returned.
    pub(crate) fn target_limb(&self, scaled: &[u64], j: usize, out: &mut [u64]) {
        self.sum_terms(scaled, self.from.len() + 1, j, out);
    }

    fn sum_terms(&self, scaled: &[u64], count: usize, j: usize, out: &mut [u64]) {
        let terms: Vec<&[u64]> = scaled.chunks_exact(self.from.n()).take(count).collect();
        self.to
            .backend()
            .weighted_sum(self.to.modulus(j), out, &terms, &self.weights[j][..count]);
    }
}
