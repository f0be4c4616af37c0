//! Raising one digit of a polynomial to the key-switching modulus.

use std::ops::Range;

use super::base::BaseConverter;
use crate::basis::Basis;
use crate::error::RingError;
use crate::poly::{Coeff, Ntt, Poly};

/// Where a limb of the raised digit comes from.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// A limb of the digit itself: copied from this limb of the input.
    Own(usize),
    /// The next target of the converter.
    Converted,
}

/// Tables that raise digit `range` of a polynomial over (q_0..q_l) to (p_0..p_k, q_0..q_l).
///
/// The digit is the centred residue of the input modulo the product of its primes.
#[derive(Debug, Clone)]
pub struct ModUp {
    q: Basis,
    qp: Basis,
    range: Range<usize>,
    converter: BaseConverter,
    sources: Vec<Source>,
}

/// Splits `limbs` limbs into consecutive digits of `alpha` limbs; the last may be shorter.
pub fn digit_ranges(limbs: usize, alpha: usize) -> Vec<Range<usize>> {
    (0..limbs)
        .step_by(alpha.max(1))
        .map(|start| start..(start + alpha.max(1)).min(limbs))
        .collect()
}

impl ModUp {
    /// Tables for level basis `q` (q_0..q_l), target `qp` = (p_0..p_k, q_0..q_l) and the limbs
    /// `range` of `q`. Any order of `qp` works as long as it holds all of `q`.
    ///
    /// # Errors
    /// [`RingError::LimbRange`] for an empty or too long digit, [`RingError::BasisMismatch`] if `qp`
    /// lacks a prime of the digit.
    pub fn new(q: &Basis, qp: &Basis, range: Range<usize>) -> Result<Self, RingError> {
        if range.is_empty() || range.end > q.len() {
            return Err(RingError::LimbRange {
                got: range.end,
                max: q.len(),
            });
        }
        let digit = q.range(range.clone())?;
        let mut targets = Vec::new();
        let mut sources = Vec::with_capacity(qp.len());
        for (i, m) in qp.moduli().enumerate() {
            match range.clone().find(|&d| q.modulus(d) == m) {
                Some(d) => sources.push(Source::Own(d)),
                None => {
                    sources.push(Source::Converted);
                    targets.push(i);
                }
            }
        }
        if q.n() != qp.n() || targets.len() + range.len() != qp.len() {
            return Err(q.mismatch(qp, range.start));
        }
        let converter = BaseConverter::new(&digit, &qp.select(&targets)?)?;
        Ok(Self {
            q: q.clone(),
            qp: qp.clone(),
            range,
            converter,
            sources,
        })
    }

    /// The limbs of the digit.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Basis of the result.
    pub fn target_basis(&self) -> &Basis {
        &self.qp
    }

    /// Raises the digit. Takes the input in both domains, so that several digits share one inverse
    /// NTT. Cost: one base conversion and one forward NTT for each limb outside the digit.
    ///
    /// # Errors
    /// [`RingError::BasisMismatch`] unless both inputs start with the primes of the level.
    pub fn apply(&self, ntt: &Poly<Ntt>, coeff: &Poly<Coeff>) -> Result<Poly<Ntt>, RingError> {
        let mut out = Poly::zero(&self.qp);
        self.apply_into(ntt, coeff, &mut out)?;
        Ok(out)
    }

    /// [`ModUp::apply`] into a polynomial that is overwritten: saves the allocation.
    ///
    /// # Errors
    /// [`RingError::BasisMismatch`], also if `out` is not over the target basis.
    pub fn apply_into(
        &self,
        ntt: &Poly<Ntt>,
        coeff: &Poly<Coeff>,
        out: &mut Poly<Ntt>,
    ) -> Result<(), RingError> {
        self.q.check_prefix_of(ntt.basis())?;
        self.q.check_prefix_of(coeff.basis())?;
        if !self.qp.same_as(out.basis()) {
            return Err(self.qp.mismatch(out.basis(), 0));
        }
        let mut targets = Vec::with_capacity(self.converter.to_basis().len());
        for (limb, source) in out.limbs_mut().zip(&self.sources) {
            match source {
                Source::Own(d) => limb.copy_from_slice(ntt.limb(*d)),
                Source::Converted => targets.push(limb),
            }
        }
        self.converter
            .convert_limbs::<true>(|i| coeff.limb(self.range.start + i), targets);
        out.each(|b, i, limb| {
            if matches!(self.sources[i], Source::Converted) {
                b.backend().ntt_forward(&b.tables()[i], limb);
            }
        });
        Ok(())
    }
}
