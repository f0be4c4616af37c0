//! Residues to centred integers in double precision.

use rayon::prelude::*;
use zeroize::Zeroizing;

use super::{for_each_width, Width};
use crate::backend::Ahead;
use crate::basis::Basis;
use crate::error::RingError;
use crate::parallel::pays;
use crate::poly::{Coeff, Poly};
use crate::words::Words;

/// Coefficients that are lifted at a time: their digits modulo thirty primes stay in the second-level cache.
const BLOCK: usize = 256;

/// 1.5 * 2^52, in whose binade one unit in the last place is 1.
const MAGIC: f64 = 6_755_399_441_055_744.0;

/// Tables of the lift of residues to the integers in (-Q/2, Q/2) as doubles, for a basis and its prefixes.
///
/// Mixed radix digits (Garner 1959): the integer is `sum of d_i q_0 ... q_(i-1)`. Those of `x + (Q-1)/2` in [0, q_i), less
/// (q_i-1)/2, are the digits of x in (-q_i/2, q_i/2), for (Q-1)/2 is the number whose digits are all (q_i-1)/2. The number of
/// smallest magnitude has zero digits above its size, so the sum from the top never cancels by more than a factor of
/// about two: the result is right to a few units in the last place at any number of primes. Residues above 2^1024
/// give infinities. Time depends on the number of primes only, never on the values.
#[derive(Debug, Clone)]
pub struct FloatLift {
    basis: Basis,
    width: Width,
    /// Row i: digit i is the sum of these times (1, digits below i, residue i), modulo q_i.
    weights: Vec<Vec<u64>>,
    /// (q_i - 1)/2.
    halves: Vec<u64>,
    /// q_0 ... q_(i-1), at most `f64::MAX`.
    places: Vec<f64>,
}

impl FloatLift {
    /// Precomputes the lift. O(k^2) for k primes.
    ///
    /// # Errors
    /// None in practice; primes of a basis are distinct.
    pub fn new(basis: &Basis) -> Result<Self, RingError> {
        let mut weights = Vec::with_capacity(basis.len());
        let mut places = Vec::with_capacity(basis.len());
        let mut place = 1.0f64;
        for (i, m) in basis.moduli().enumerate() {
            // Past 2^1024 the digits of a number in range are zero, and zero times infinity is no number.
            places.push(place.min(f64::MAX));
            place *= m.value() as f64;
            // q_0 ... q_(j-1) modulo q_i for j <= i.
            let mut radix = Vec::with_capacity(i + 1);
            let mut acc = 1;
            for j in 0..i {
                radix.push(acc);
                acc = m.mul(acc, m.reduce(basis.modulus(j).value()));
            }
            let inverse = m.inv(acc)?;
            // (Q-1)/2 is (q_i-1)/2 modulo q_i as well: both are -1/2.
            let mut row = vec![m.mul(m.value() >> 1, inverse)];
            row.extend(radix.iter().map(|&r| m.neg(m.mul(r, inverse))));
            row.push(inverse);
            weights.push(row);
        }
        Ok(Self {
            basis: basis.clone(),
            width: Width::of(basis.backend()),
            weights,
            halves: basis.moduli().map(|m| m.value() >> 1).collect(),
            places,
        })
    }

    /// The primes; polynomials over fewer of them lift as well.
    #[must_use]
    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// The N coefficients. Cost: k^2/2 multiply-adds for each, k the primes of `x`; O(k) memory for each thread.
    ///
    /// # Errors
    /// [`RingError::BasisMismatch`] unless the primes of `x` start the basis, [`RingError::Length`] unless `out` has N values.
    pub fn lift(&self, x: &Poly<Coeff>, out: &mut [f64]) -> Result<(), RingError> {
        x.basis().check_prefix_of(&self.basis)?;
        self.lift_residues(x.data(), out)
    }

    /// As [`FloatLift::lift`] for limb-major residues modulo the first primes of the basis, N for each.
    ///
    /// # Errors
    /// [`RingError::Length`] unless there are residues for 1 to all primes, and `out` has N values.
    pub fn lift_residues(&self, residues: &[u64], out: &mut [f64]) -> Result<(), RingError> {
        let n = self.basis.n();
        let limbs = (residues.len() / n).clamp(1, self.basis.len());
        for (what, got, expected) in [
            ("limb-major residues", residues.len(), limbs * n),
            ("lifted coefficients", out.len(), n),
        ] {
            if got != expected {
                return Err(RingError::Length {
                    what,
                    got,
                    expected,
                });
            }
        }
        let block = BLOCK.min(n);
        let scratch = || {
            let mut rows = Zeroizing::new(Words::zeroed((limbs + 2) * block));
            rows[..block].fill(1);
            rows
        };
        let lift = |rows: &mut Zeroizing<Words>, (c, out): (usize, &mut [f64])| {
            self.lift_block(rows, residues, c * block, out);
        };
        if pays(n, limbs) {
            out.par_chunks_exact_mut(block)
                .enumerate()
                .for_each_init(scratch, lift);
        } else {
            let mut rows = scratch();
            out.chunks_exact_mut(block)
                .enumerate()
                .for_each(|item| lift(&mut rows, item));
        }
        Ok(())
    }

    /// `rows`: ones, a digit for each prime, and one row to work in.
    fn lift_block(&self, rows: &mut [u64], residues: &[u64], start: usize, out: &mut [f64]) {
        let block = out.len();
        let backend = self.basis.backend();
        let n = self.basis.n();
        let limbs = residues.len() / n;
        for (i, m) in self.basis.moduli().take(limbs).enumerate() {
            let (known, rest) = rows.split_at_mut((i + 2) * block);
            let digit = &mut rest[(limbs - 1 - i) * block..][..block];
            known[(i + 1) * block..].copy_from_slice(&residues[i * n + start..][..block]);
            backend.convert(
                m,
                digit,
                (known, block),
                &self.weights[i],
                &mut Ahead::new(),
            );
            backend.reduce_assign(m, digit);
            known[(i + 1) * block..].copy_from_slice(digit);
        }
        let digits = &rows[block..(limbs + 1) * block];
        centred_sum(self.width, out, digits, &self.halves, &self.places);
    }
}

for_each_width! {
    /// `sum of (digits_i - halves_i) * places_i` from the last row down; row i of `digits` starts at `i * out.len()`.
    fn centred_sum(out: &mut [f64], digits: &[u64], halves: &[u64], places: &[f64]) {
        const LANES: usize = 32;
        let stride = out.len();
        let wide = stride - stride % LANES;
        let rows = digits.chunks_exact(stride).zip(halves.iter().zip(places));
        let term = |d: u64, half: u64, place: f64| {
            // Exact: the difference is below 2^50 in magnitude.
            let d = d.wrapping_sub(half).wrapping_add(MAGIC.to_bits());
            (f64::from_bits(d) - MAGIC) * place
        };
        for j in (0..wide).step_by(LANES) {
            let mut acc = [0.0f64; LANES];
            for (row, (&half, &place)) in rows.clone().rev() {
                for (a, &d) in acc.iter_mut().zip(&row[j..j + LANES]) {
                    *a += term(d, half, place);
                }
            }
            out[j..j + LANES].copy_from_slice(&acc);
        }
        for j in wide..stride {
            let sums = rows.clone().rev();
            out[j] = sums.fold(0.0, |a, (row, (&half, &place))| a + term(row[j], half, place));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::backend::SimdChoice;
    use crate::{PublicSeed, UniformXof};
    use num_bigint::BigInt;

    fn primes(n: u64, bits: u32, count: usize) -> Vec<u64> {
        (1..)
            .map(|k| (1u64 << bits) - k * 2 * n + 1)
            .filter(|&q| crate::Modulus::new(q).is_ok())
            .take(count)
            .collect()
    }

    /// Correctly rounded, by the decimal digits.
    fn to_f64(x: &BigInt) -> f64 {
        x.to_string().parse().unwrap()
    }

    #[test]
    fn doubles_are_those_of_big_integers() {
        for (n, limbs) in [(16usize, 1usize), (16, 3), (64, 12), (1024, 5), (8192, 4)] {
            let mut q = primes(n as u64, 50, limbs.div_ceil(2));
            q.extend(primes(n as u64, 40, limbs / 2));
            for simd in [SimdChoice::Scalar, SimdChoice::Avx2, SimdChoice::Auto] {
                let Ok(backend) = simd.backend() else {
                    continue;
                };
                let basis = Basis::with_backend(n, &q, backend).unwrap();
                let lift = FloatLift::new(&basis).unwrap();
                let product: BigInt = q.iter().map(|&p| BigInt::from(p)).product();
                // Of every size up to the whole range, and the ends of the range.
                let uniform: Poly<Coeff> = UniformXof::new(PublicSeed([5; 32])).poly(&basis);
                let mut want = Vec::new();
                let mut residues = vec![0u64; n * limbs];
                for k in 0..n {
                    let mut v = BigInt::from(0);
                    for (i, &p) in q.iter().enumerate() {
                        v = v * p + uniform.limb(i)[k];
                    }
                    v %= &product;
                    let shift = (k * 53 % n) as u64 * product.bits() / n as u64;
                    v = (v - &product / 2) >> shift;
                    if k == 1 {
                        v = &product / 2;
                    }
                    if k == 2 {
                        v = BigInt::from(0) - &product / 2;
                    }
                    for (i, &p) in q.iter().enumerate() {
                        let r = ((&v % p) + p) % p;
                        residues[i * n + k] = u64::try_from(r).unwrap();
                    }
                    want.push(v);
                }
                let x = Poly::<Coeff>::from_residues(&basis, &residues).unwrap();
                let mut got = vec![0.0; n];
                lift.lift(&x, &mut got).unwrap();
                for (g, w) in got.iter().zip(&want) {
                    let w = to_f64(w);
                    assert!((g - w).abs() <= 4.0 * f64::EPSILON * w.abs(), "{g} {w}");
                }
                // Fewer primes: the first residues alone, where they say everything.
                if limbs > 1 {
                    let small = x.prefix(limbs - 1).unwrap();
                    let q: BigInt = &product / q[limbs - 1];
                    let half = to_f64(&(q / 2)) * (1.0 - 1e-12);
                    lift.lift(&small, &mut got).unwrap();
                    for (g, w) in got.iter().zip(&want) {
                        let w = to_f64(w);
                        let same = (g - w).abs() <= 4.0 * f64::EPSILON * w.abs();
                        assert!(same || w.abs() > half, "{g} {w}");
                    }
                }
            }
        }
    }

    #[test]
    fn wrong_shapes_are_errors() {
        let q = primes(16, 40, 3);
        let basis = Basis::new(16, &q).unwrap();
        let lift = FloatLift::new(&basis.prefix(2).unwrap()).unwrap();
        let x = Poly::<Coeff>::zero(&basis);
        let e = lift.lift(&x, &mut [0.0; 16]).unwrap_err();
        assert!(matches!(e, RingError::BasisMismatch { .. }), "{e}");
        let e = lift.lift(&x.prefix(1).unwrap(), &mut [0.0; 8]).unwrap_err();
        assert!(matches!(e, RingError::Length { got: 8, .. }), "{e}");
    }
}
