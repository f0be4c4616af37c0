//! Division by the last prime, rounded to nearest, into new polynomials.

use cipherloom_ring::{Ntt, Poly};
use rayon::prelude::*;

use super::{KeySwitchTables, MIN_PARALLEL_DEGREE};
use crate::error::CkksError;
use crate::scratch::ScratchPool;

impl KeySwitchTables {
    /// `round(part / q_level)` for each part, one limb less; the same bits as `Poly::rescale` without
    /// copying the input first. The level is at least 1.
    pub(crate) fn rescale(
        &self,
        parts: &[Poly<Ntt>],
        pool: &ScratchPool,
    ) -> Result<Vec<Poly<Ntt>>, CkksError> {
        parts.iter().map(|p| self.rescale_one(p, pool)).collect()
    }

    fn rescale_one(&self, part: &Poly<Ntt>, pool: &ScratchPool) -> Result<Poly<Ntt>, CkksError> {
        let (n, level) = (part.n(), part.limbs() - 1);
        let backend = self.q.backend();
        let divisor = &self.rescale[level];
        let mut last = pool.take(2 * n);
        let (r, above) = last.split_at_mut(n);
        r.copy_from_slice(part.limb(level));
        backend.ntt_inverse(&self.q.tables()[level], r);
        divisor.converter.quotient(backend, &[r], above);
        let terms: [&[u64]; 2] = [r, above];
        let basis = self.q.prefix(level)?;
        let mut out = Poly::<Ntt>::zero(&basis);
        let limb = |i: usize, out: &mut [u64]| {
            let m = basis.modulus(i);
            divisor.converter.target(backend, i, m, &terms, out);
            backend.ntt_forward(&basis.tables()[i], out);
            // (x - r) / q = (r - x)(-1/q), which overwrites r.
            backend.sub_scalar_mul(m, out, part.limb(i), divisor.neg_inv[i]);
        };
        let limbs: Vec<_> = out.limbs_mut().enumerate().collect();
        if n >= MIN_PARALLEL_DEGREE && limbs.len() > 1 {
            limbs.into_par_iter().for_each(|(i, out)| limb(i, out));
        } else {
            limbs.into_iter().for_each(|(i, out)| limb(i, out));
        }
        Ok(out)
    }
}
