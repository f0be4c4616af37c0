//! Division with rounding by a product of primes.

use super::base::BaseConverter;
use crate::basis::Basis;
use crate::error::RingError;
use crate::modulus::Shoup;
use crate::poly::{Ntt, Poly};

/// Tables that divide by the product P of some limbs and round to nearest.
///
/// The result differs from x/P by at most 1/2 + k 2^-50 in each coefficient, k the number of
/// dropped limbs (the excess only where the fraction is that close to 1/2).
#[derive(Debug, Clone)]
pub struct ModDown {
    from: Basis,
    into: Basis,
    drop: Vec<usize>,
    keep: Vec<usize>,
    converter: BaseConverter,
    /// -P^-1 mod q_i.
    neg_p_inv: Vec<Shoup>,
}

impl ModDown {
    /// Divides polynomials over `from` = (p_0..p_k, q_0..q_l) by all `special` leading primes;
    /// `into` is (q_0..q_l). The last step of a key switch.
    ///
    /// # Errors
    /// As [`ModDown::dropping`].
    pub fn new(from: &Basis, special: usize, into: &Basis) -> Result<Self, RingError> {
        Self::dropping(from, &(0..special).collect::<Vec<_>>(), into)
    }

    /// Divides by the primes at the indices `drop`; `into` lists the others in order. Dropping the
    /// special primes and the last q together merges a rescaling into the key switch.
    ///
    /// # Errors
    /// [`RingError::LimbRange`], [`RingError::EmptyBasis`], [`RingError::BasisMismatch`].
    pub fn dropping(from: &Basis, drop: &[usize], into: &Basis) -> Result<Self, RingError> {
        let dropped = from.select(drop)?;
        let keep: Vec<usize> = (0..from.len()).filter(|i| !drop.contains(i)).collect();
        let kept = from.select(&keep)?;
        if !kept.same_as(into) {
            return Err(kept.mismatch(into, 0));
        }
        let converter = BaseConverter::new(&dropped, into)?;
        let neg_p_inv = into
            .moduli()
            .map(|m| {
                let p = dropped.moduli().fold(1, |acc, d| m.mul(acc, d.value()));
                Ok(m.shoup(m.neg(m.inv(p)?)))
            })
            .collect::<Result<Vec<_>, RingError>>()?;
        Ok(Self {
            from: from.clone(),
            into: into.clone(),
            drop: drop.to_vec(),
            keep,
            converter,
            neg_p_inv,
        })
    }

    /// Basis of the input.
    pub fn source_basis(&self) -> &Basis {
        &self.from
    }

    /// Basis of the result.
    pub fn target_basis(&self) -> &Basis {
        &self.into
    }

    /// round(x / P). Cost: an inverse NTT for each dropped limb, a forward NTT and a base conversion
    /// for each kept one.
    ///
    /// # Errors
    /// [`RingError::BasisMismatch`] unless `x` starts with the primes of the source basis.
    pub fn apply(&self, x: &Poly<Ntt>) -> Result<Poly<Ntt>, RingError> {
        let mut out = Poly::zero(&self.into);
        self.apply_into(x, &mut out)?;
        Ok(out)
    }

    /// [`ModDown::apply`] into a polynomial that is overwritten: saves the allocation.
    ///
    /// # Errors
    /// [`RingError::BasisMismatch`], also if `out` is not over the target basis.
    pub fn apply_into(&self, x: &Poly<Ntt>, out: &mut Poly<Ntt>) -> Result<(), RingError> {
        self.from.check_prefix_of(x.basis())?;
        if !self.into.same_as(out.basis()) {
            return Err(self.into.mismatch(out.basis(), 0));
        }
        let n = x.n();
        let mut dropped = Vec::with_capacity(self.drop.len() * n);
        for &d in &self.drop {
            dropped.extend_from_slice(x.limb(d));
        }
        crate::parallel::for_each_limb(&mut dropped, n, |i, limb| {
            let table = &self.from.tables()[self.drop[i]];
            self.from.backend().ntt_inverse(table, limb);
        });
        let targets = out.limbs_mut().collect();
        self.converter
            .convert_limbs::<true>(|i| &dropped[i * n..(i + 1) * n], targets);
        out.each(|b, i, limb| {
            b.backend().ntt_forward(&b.tables()[i], limb);
            // (x - r) P^-1 = (r - x)(-P^-1), which overwrites r.
            b.backend()
                .sub_scalar_mul(b.modulus(i), limb, x.limb(self.keep[i]), self.neg_p_inv[i]);
        });
        Ok(())
    }
}
