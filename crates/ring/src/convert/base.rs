//! Base conversion: residues modulo one set of primes to residues modulo another.

use rayon::prelude::*;

use crate::basis::Basis;
use crate::error::RingError;
use crate::modulus::Shoup;
use crate::parallel::pays;
use crate::poly::{Coeff, Poly};

/// Coefficients that are converted at a time, so that their scaled residues stay in the
/// first-level cache for all target primes.
const BLOCK: usize = 512;

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
        Ok(self.run::<true>(x))
    }

    /// Converts `x + u Q` for some unknown `0 <= u < k`, without the estimate of u: the fast
    /// approximate conversion.
    ///
    /// # Errors
    /// As [`BaseConverter::convert`].
    pub fn convert_approximate(&self, x: &Poly<Coeff>) -> Result<Poly<Coeff>, RingError> {
        self.from.check_prefix_of(x.basis())?;
        Ok(self.run::<false>(x))
    }

    fn run<const CENTRED: bool>(&self, x: &Poly<Coeff>) -> Poly<Coeff> {
        let mut out = Poly::zero(&self.to);
        let targets = out.limbs_mut().collect();
        self.convert_limbs::<CENTRED>(|i| x.limb(i), targets);
        out
    }

    /// Converts source limb i, `source(i)`, into `targets[j]` for each target prime j.
    pub(crate) fn convert_limbs<'a, const CENTRED: bool>(
        &self,
        source: impl Fn(usize) -> &'a [u64] + Sync,
        targets: Vec<&mut [u64]>,
    ) {
        let n = self.from.n();
        let block = BLOCK.min(n);
        let parallel = pays(n, targets.len());
        // Columns of `block` coefficients over all target limbs are independent.
        let mut columns: Vec<Vec<&mut [u64]>> = (0..n / block)
            .map(|_| Vec::with_capacity(targets.len()))
            .collect();
        for limb in targets {
            for (column, piece) in columns.iter_mut().zip(limb.chunks_exact_mut(block)) {
                column.push(piece);
            }
        }
        let scratch = || vec![0; (self.from.len() + 1) * block];
        let convert = |y: &mut Vec<u64>, (c, column): (usize, Vec<&mut [u64]>)| {
            self.convert_column::<CENTRED>(y, |i| &source(i)[c * block..(c + 1) * block], column);
        };
        if parallel {
            columns
                .into_par_iter()
                .enumerate()
                .for_each_init(scratch, convert);
        } else {
            let mut y = scratch();
            columns
                .into_iter()
                .enumerate()
                .for_each(|item| convert(&mut y, item));
        }
    }

    /// One column. `scratch` takes the scaled residues y_i and behind them the estimate of u.
    fn convert_column<'a, const CENTRED: bool>(
        &self,
        scratch: &mut [u64],
        source: impl Fn(usize) -> &'a [u64],
        column: Vec<&mut [u64]>,
    ) {
        let k = self.from.len();
        let block = scratch.len() / (k + 1);
        let backend = self.from.backend();
        let (y, u) = scratch.split_at_mut(k * block);
        for (i, y) in y.chunks_exact_mut(block).enumerate() {
            y.copy_from_slice(source(i));
            // With a single source prime the factor is 1.
            if k > 1 {
                backend.scalar_mul_assign(self.from.modulus(i), y, self.hat_inv[i]);
            }
        }
        if CENTRED {
            backend.rounded_sum(u, y, block, &self.reciprocals);
        }
        let mut terms: Vec<&[u64]> = y.chunks_exact(block).collect();
        if CENTRED {
            terms.push(u);
        }
        for (j, out) in column.into_iter().enumerate() {
            let weights = &self.weights[j][..terms.len()];
            backend.weighted_sum(self.to.modulus(j), out, &terms, weights);
        }
    }
}
