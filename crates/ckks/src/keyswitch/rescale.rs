//! Division by the last prime, rounded to nearest, into new polynomials.

use cipherloom_ring::{Ntt, Poly};

use super::KeySwitchTables;
use crate::error::CkksError;
use crate::scratch::{PolyPool, ScratchPool};

impl KeySwitchTables {
    /// `round(part / q_level)` for each part, one limb less; the same bits as `Poly::rescale` without
    /// copying the input first. The level is at least 1.
    pub(crate) fn rescale(
        &self,
        parts: &[Poly<Ntt>],
        pool: &ScratchPool,
        polys: &PolyPool,
    ) -> Result<Vec<Poly<Ntt>>, CkksError> {
        parts
            .iter()
            .map(|p| self.rescale_one(p, pool, polys))
            .collect()
    }

    fn rescale_one(
        &self,
        part: &Poly<Ntt>,
        pool: &ScratchPool,
        polys: &PolyPool,
    ) -> Result<Poly<Ntt>, CkksError> {
        let (n, level) = (part.n(), part.limbs() - 1);
        let backend = self.q.backend();
        let divisor = &self.rescale[level];
        let mut last = pool.take(2 * n);
        let (r, above) = last.split_at_mut(n);
        r.copy_from_slice(part.limb(level));
        backend.ntt_inverse(&self.q.tables()[level], r);
        divisor.converter.quotient(backend, r, above);
        let basis = self.q.prefix(level)?;
        Ok(polys.build(&basis, |i, out| {
            let m = basis.modulus(i);
            divisor.converter.whole(backend, i, m, &last, out);
            backend.ntt_forward(&basis.tables()[i], out);
            // (x - r) / q = (r - x)(-1/q), which overwrites r.
            backend.sub_scalar_mul(m, out, part.limb(i), divisor.neg_inv[i]);
        }))
    }
}
