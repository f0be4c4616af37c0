//! Rescaling: division by the last prime, rounded to nearest.

use crate::error::RingError;
use crate::poly::{Coeff, Ntt, Poly, Repr};

/// The residue of the last limb, in coefficients, with the bit "above q/2" behind it: the centred
/// residue is `r - bit * q`.
fn centred_parts(last: Vec<u64>, q: u64) -> (Vec<u64>, Vec<u64>) {
    let half = q >> 1;
    // The top bit of half - r is set exactly if r > half.
    let above = last.iter().map(|&r| half.wrapping_sub(r) >> 63).collect();
    (last, above)
}

impl<R: Repr> Poly<R> {
    /// `self = round(self / q_last)` given the last limb in coefficient form; `transform` brings a
    /// limb of coefficients into the domain of `self`.
    fn rescale_with(
        &mut self,
        last: Vec<u64>,
        transform: impl Fn(&crate::Basis, usize, &mut [u64]) + Sync + Send,
    ) -> Result<(), RingError> {
        let l = self.limbs() - 1;
        let full = self.basis().clone();
        let q_last = full.modulus(l).value();
        self.truncate(l)?;
        let (r, above) = centred_parts(last, q_last);
        let inverses = full.inverses_of(l);
        self.each(|b, i, limb| {
            let m = b.modulus(i);
            let mut t = vec![0; limb.len()];
            let weights = [1, m.neg(m.reduce(q_last))];
            b.backend().weighted_sum(m, &mut t, &[&r, &above], &weights);
            transform(b, i, &mut t);
            b.backend().sub_scalar_mul(m, limb, &t, inverses[i]);
        });
        Ok(())
    }

    fn check_rescale(&self) -> Result<(), RingError> {
        if self.limbs() < 2 {
            return Err(RingError::LimbRange {
                got: 0,
                max: self.limbs(),
            });
        }
        Ok(())
    }
}

impl Poly<Ntt> {
    /// Divides by the last prime and rounds to nearest (error at most 1/2 in each coefficient,
    /// exact); one limb less. Cost: one inverse NTT and limbs - 1 forward NTTs.
    ///
    /// # Errors
    /// [`RingError::LimbRange`] if only one limb is left.
    pub fn rescale(&mut self) -> Result<(), RingError> {
        self.check_rescale()?;
        let l = self.limbs() - 1;
        let mut last = self.limb(l).to_vec();
        self.basis()
            .backend()
            .ntt_inverse(&self.basis().tables()[l], &mut last);
        self.rescale_with(last, |b, i, t| b.backend().ntt_forward(&b.tables()[i], t))
    }
}

impl Poly<Coeff> {
    /// Divides by the last prime and rounds to nearest (error at most 1/2 in each coefficient,
    /// exact); one limb less. Modulus switching in coefficient form.
    ///
    /// # Errors
    /// [`RingError::LimbRange`] if only one limb is left.
    pub fn rescale(&mut self) -> Result<(), RingError> {
        self.check_rescale()?;
        let last = self.limb(self.limbs() - 1).to_vec();
        self.rescale_with(last, |_, _, _| ())
    }
}
