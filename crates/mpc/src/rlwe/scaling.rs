//! Exact scaling between `Z_t` and `Z_q` in residue number system form: slots modulo `t`, the encoding
//! `round(q x / t)` and its inverse `round(t c / q')`.
//!
//! Both are exact for every input (protocols.md R19): no floating point, no dropped fraction. No branch or
//! index depends on a value.

use cipherloom_ring::{Basis, Coeff, Modulus, Poly, Shoup};
use std::sync::Arc;
use zeroize::Zeroizing;

use crate::rlwe::ring_error;
use crate::MpcError;

/// Largest export modulus in bits: a lifted coefficient is below `limbs * q'` and must fit 127 bits.
pub const MAX_EXPORT_BITS: f64 = 124.0;
/// Most limbs of an export modulus.
pub const MAX_EXPORT_LIMBS: usize = 4;

/// One plaintext modulus `t` with its slot transform and the constants of both scalings.
#[derive(Debug, Clone)]
pub struct PlainModulus {
    table: Basis,
    upload: Basis,
    /// `-q mod t`.
    neg_q: Shoup,
    /// `t^-1 mod q_i`.
    t_inverse: Vec<u64>,
    /// `(t - 1) / 2`: the shift between residues and centred representatives.
    half: u64,
    round: RoundDown,
}

impl PlainModulus {
    /// Constants for `t`, the upload basis `q` and the export basis `q'`. The backend is that of `upload`.
    ///
    /// # Errors
    /// `Ring` when `t` is not an NTT prime of the degree; `Format` when `q'` has more than 124 bits or 4 limbs, or
    /// `t` is not below it.
    pub fn new(t: u64, upload: &Basis, export: &Basis) -> Result<Self, MpcError> {
        let err = ring_error("plaintext modulus");
        let table = Basis::new(upload.n(), &[t]).map_err(&err)?;
        let m = *table.modulus(0);
        let q_mod_t = upload
            .moduli()
            .fold(1, |acc, q| m.mul(acc, m.reduce(q.value())));
        let t_inverse = upload
            .moduli()
            .map(|q| q.inv(t))
            .collect::<Result<_, _>>()
            .map_err(&err)?;
        Ok(Self {
            upload: upload.clone(),
            neg_q: m.shoup(m.neg(q_mod_t)),
            t_inverse,
            half: (t - 1) / 2,
            round: RoundDown::new(&m, export)?,
            table,
        })
    }

    /// The prime `t`.
    #[must_use]
    pub fn modulus(&self) -> &Modulus {
        self.table.modulus(0)
    }

    /// Residues modulo `t` of up to N words, zero-padded: one slot vector.
    #[must_use]
    pub fn residues(&self, words: &[u64]) -> Vec<u64> {
        let m = self.modulus();
        let mut v: Vec<u64> = words
            .iter()
            .take(self.table.n())
            .map(|&w| m.reduce(w))
            .collect();
        v.resize(self.table.n(), 0);
        v
    }

    /// Slot values to coefficients modulo `t`, in place. One NTT.
    pub(crate) fn slots_to_coefficients(&self, v: &mut [u64]) -> Result<(), MpcError> {
        self.table.tables()[0]
            .inverse(v)
            .map_err(ring_error("slot transform"))
    }

    /// Coefficients modulo `t` to slot values, in place. One NTT.
    pub(crate) fn coefficients_to_slots(&self, v: &mut [u64]) -> Result<(), MpcError> {
        self.table.tables()[0]
            .forward(v)
            .map_err(ring_error("slot transform"))
    }

    /// The centred representatives in `(-t/2, t/2)` of residues modulo `t`, as a polynomial over the upload basis.
    /// This is the operand of a plaintext product.
    #[must_use]
    pub fn centred(&self, coefficients: &[u64]) -> Poly<Coeff> {
        let t = self.modulus();
        // (x + half mod t) - half is the centred representative of x.
        let mut shifted: Vec<u64> = coefficients.iter().map(|&x| t.add(x, self.half)).collect();
        let ones = vec![1; shifted.len()];
        let mut out = Poly::<Coeff>::zero(&self.upload);
        for i in 0..self.upload.len() {
            let q = *self.upload.modulus(i);
            let weights = [1, q.neg(q.reduce(self.half))];
            self.upload
                .backend()
                .weighted_sum(&q, out.limb_mut(i), &[&shifted, &ones], &weights);
        }
        zeroize::Zeroize::zeroize(&mut shifted);
        out
    }

    /// `round(q x / t)` modulo `q` for coefficients `x` modulo `t`: exact.
    ///
    /// `q x = t k + rho` with `rho` the centred residue of `q x` modulo `t`, so `k = -rho t^-1` modulo every `q_i`.
    ///
    /// # Errors
    /// None in practice: lengths are fixed at construction.
    pub fn scale_up(&self, coefficients: &[u64]) -> Result<Poly<Coeff>, MpcError> {
        let t = self.modulus();
        let neg_rho: Zeroizing<Vec<u64>> = Zeroizing::new(
            coefficients
                .iter()
                .map(|&x| t.mul_shoup(x, self.neg_q))
                .collect(),
        );
        let mut out = self.centred(&neg_rho);
        out.mul_limb_scalars_assign(&self.t_inverse)
            .map_err(ring_error("scale up"))?;
        Ok(out)
    }

    /// `round(t c / q') mod t` for every coefficient of `c` over the export basis: exact.
    ///
    /// # Errors
    /// `Length` when `c` does not live over the export basis.
    pub fn scale_down(&self, c: &Poly<Coeff>) -> Result<Vec<u64>, MpcError> {
        self.round.apply(c)
    }
}

/// Exact `round(t c / q) mod t` for `c` in residues of `q < 2^124`.
#[derive(Debug, Clone)]
struct RoundDown {
    t: Modulus,
    basis: Basis,
    q: u128,
    /// `(q / q_i)^-1 mod q_i`.
    inverse: Vec<Shoup>,
    /// `q / q_i`.
    cofactor: Vec<u128>,
    /// Quotient estimate: `z ~ ((c >> shift) * factor) >> post`.
    shift: u32,
    factor: u64,
    post: u32,
}

impl RoundDown {
    fn new(t: &Modulus, basis: &Basis) -> Result<Self, MpcError> {
        let format = |detail: String| MpcError::Format {
            op: "export modulus",
            detail,
        };
        let log2 = basis.log2_product();
        if log2 > MAX_EXPORT_BITS || basis.len() > MAX_EXPORT_LIMBS {
            return Err(format(format!(
                "{log2:.1} bits in {} limbs; at most {MAX_EXPORT_BITS} bits in {MAX_EXPORT_LIMBS} limbs are supported",
                basis.len()
            )));
        }
        let q: u128 = basis.moduli().map(|m| u128::from(m.value())).product();
        let bits = 128 - q.leading_zeros();
        let t_bits = t.bits();
        if bits < 64 || t_bits + 10 > bits {
            return Err(format(format!(
                "{bits} bits are too few for a plaintext modulus of {t_bits} bits"
            )));
        }
        // c < limbs q <= 4 q, so c >> shift < 4 * 2^62 = 2^64 at most.
        let shift = bits - 62;
        let post = 64 + 61 - t_bits;
        // factor = floor(t 2^(shift + post) / q) < 2^64, by binary long division (set-up only).
        let (mut rem, mut quotient) = (u128::from(t.value()), 0u128);
        for _ in 0..shift + post {
            rem <<= 1;
            quotient <<= 1;
            if rem >= q {
                rem -= q;
                quotient |= 1;
            }
        }
        let factor = u64::try_from(quotient)
            .map_err(|_| format(format!("quotient estimate for {bits} bits overflows")))?;
        let err = ring_error("export modulus");
        let mut inverse = Vec::new();
        let mut cofactor = Vec::new();
        for m in basis.moduli() {
            let rest = q / u128::from(m.value());
            cofactor.push(rest);
            inverse.push(m.shoup(m.inv(m.reduce_u128(rest)).map_err(&err)?));
        }
        Ok(Self {
            t: *t,
            basis: basis.clone(),
            q,
            inverse,
            cofactor,
            shift,
            factor,
            post,
        })
    }

    fn apply(&self, c: &Poly<Coeff>) -> Result<Vec<u64>, MpcError> {
        if c.basis() != &self.basis {
            return Err(MpcError::Length {
                op: "scale down: limbs",
                left: c.limbs(),
                right: self.basis.len(),
            });
        }
        let mut lifted = vec![0u128; c.n()];
        for i in 0..c.limbs() {
            let (m, inverse, cofactor) = (self.basis.modulus(i), self.inverse[i], self.cofactor[i]);
            for (sum, &x) in lifted.iter_mut().zip(c.limb(i)) {
                // y < q_i and y q / q_i < q: the sum over the limbs is c plus a multiple of q below `limbs q`.
                *sum += u128::from(m.mul_shoup(x, inverse)) * cofactor;
            }
        }
        let (t, half) = (u128::from(self.t.value()), (self.q - 1) / 2);
        let out = lifted
            .iter()
            .map(|&c| {
                let top = (c >> self.shift) as u64;
                // At most one below the true quotient: the estimate errs by less than 2^-10, the rounding by a half.
                let z = (u128::from(top) * u128::from(self.factor)) >> self.post;
                // The true remainder lies in [0, 2 q): exact modulo 2^128.
                let rem = t
                    .wrapping_mul(c)
                    .wrapping_add(half)
                    .wrapping_sub(z.wrapping_mul(self.q));
                let more = u64::from(rem >= self.q);
                // The multiple of q in c is a multiple of t here.
                self.t.reduce(z as u64 + more)
            })
            .collect();
        zeroize::Zeroize::zeroize(&mut lifted);
        Ok(out)
    }
}

/// Shares the plaintext constants between the engines of one parameter set.
pub type SharedPlain = Arc<Vec<PlainModulus>>;

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::{BigInt, BigUint};
    use rand::{RngExt, SeedableRng};

    fn rng() -> rand_chacha::ChaCha20Rng {
        rand_chacha::ChaCha20Rng::seed_from_u64(7)
    }

    fn bases() -> (Basis, Basis, PlainModulus) {
        let p = crate::rlwe::RlweParameters::crt64().unwrap();
        let plain = p.plain()[1].clone();
        (p.upload_basis().clone(), p.export_basis().clone(), plain)
    }

    fn product(b: &Basis) -> BigUint {
        b.primes().into_iter().map(BigUint::from).product()
    }

    #[test]
    fn scaling_up_equals_the_rational_rounding() {
        let (upload, _, plain) = bases();
        let (q, t) = (product(&upload), plain.modulus().value());
        let mut r = rng();
        let mut x: Vec<u64> = (0..upload.n()).map(|_| r.random_range(0..t)).collect();
        x[..4].copy_from_slice(&[0, 1, t - 1, (t - 1) / 2]);
        let up = plain.scale_up(&x).unwrap();
        for (j, &x) in x.iter().enumerate() {
            // floor((2 q x + t) / 2t) rounds to nearest; ties cannot happen, q x is prime to 2t or 0.
            let want = (BigUint::from(2u8) * &q * x + t) / (2 * t);
            for i in 0..upload.len() {
                let got = BigUint::from(up.limb(i)[j]);
                assert_eq!(got, &want % upload.modulus(i).value(), "{j} {i}");
            }
        }
    }

    #[test]
    fn scaling_down_equals_the_rational_rounding_near_and_at_the_ties() {
        let (_, export, plain) = bases();
        let (q, t) = (product(&export), plain.modulus().value());
        let mut r = rng();
        let mut values: Vec<BigUint> = vec![BigUint::ZERO, &q - 1u8, &q / 2u8, &q / 2u8 + 1u8];
        while values.len() < export.n() {
            let z: u64 = r.random_range(0..t);
            // The boundary between z and z + 1, and its neighbours; then arbitrary values.
            let edge = (BigUint::from(2 * z + 1) * &q) / (2 * t);
            for d in [0u8, 1, 2] {
                values.push((&edge + d) % &q);
            }
            let any = BigUint::from(r.random::<u128>()) % &q;
            values.push(any);
        }
        values.truncate(export.n());
        let mut data = vec![];
        for m in export.moduli() {
            for v in &values {
                data.push(u64::try_from(v % m.value()).unwrap());
            }
        }
        let c = Poly::<Coeff>::from_residues(&export, &data).unwrap();
        let down = plain.scale_down(&c).unwrap();
        for (v, got) in values.iter().zip(down) {
            let want = ((BigUint::from(2u8) * v * t + &q) / (BigUint::from(2u8) * &q)) % t;
            assert_eq!(BigUint::from(got), want, "{v}");
        }
    }

    #[test]
    fn centred_lift_is_the_small_representative() {
        let (upload, _, plain) = bases();
        let t = plain.modulus().value();
        let mut r = rng();
        let mut x: Vec<u64> = (0..upload.n()).map(|_| r.random_range(0..t)).collect();
        x[..4].copy_from_slice(&[0, t - 1, (t - 1) / 2, t.div_ceil(2)]);
        let c = plain.centred(&x);
        for (j, &x) in x.iter().enumerate() {
            let v = if x > t / 2 {
                BigInt::from(x) - BigInt::from(t)
            } else {
                BigInt::from(x)
            };
            for i in 0..upload.len() {
                let q = BigInt::from(upload.modulus(i).value());
                assert_eq!(BigInt::from(c.limb(i)[j]), ((&v % &q) + &q) % &q);
            }
        }
    }
}
