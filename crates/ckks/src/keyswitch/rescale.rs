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
            .map(|p| self.rescale_one(p, p.limbs() - 1, 1, pool, polys))
            .collect()
    }

    /// `round(factor part / q_level)` for each part, modulo q_0 ... q_(level-1); limbs above `level` are dropped first. The same
    /// bits as the three steps.
    pub(crate) fn rescale_times(
        &self,
        parts: &[Poly<Ntt>],
        level: usize,
        factor: i128,
        pool: &ScratchPool,
        polys: &PolyPool,
    ) -> Result<Vec<Poly<Ntt>>, CkksError> {
        parts
            .iter()
            .map(|p| self.rescale_one(p, level, factor, pool, polys))
            .collect()
    }

    fn rescale_one(
        &self,
        part: &Poly<Ntt>,
        level: usize,
        factor: i128,
        pool: &ScratchPool,
        polys: &PolyPool,
    ) -> Result<Poly<Ntt>, CkksError> {
        let n = part.n();
        let backend = self.q.backend();
        let divisor = &self.rescale[level];
        let mut last = pool.take(2 * n);
        let (r, above) = last.split_at_mut(n);
        r.copy_from_slice(part.limb(level));
        let table = &self.q.tables()[level];
        backend.ntt_inverse(table, r);
        if factor != 1 {
            let m = table.modulus();
            backend.scalar_mul_assign(m, r, m.shoup(m.reduce_i128(factor)));
        }
        divisor.converter.quotient(backend, r, above);
        let basis = self.q.prefix(level)?;
        Ok(polys.build(&basis, |i, out| {
            let m = basis.modulus(i);
            divisor.converter.whole(backend, i, m, &last, out);
            backend.ntt_forward(&basis.tables()[i], out);
            let neg_inv = divisor.neg_inv[i];
            if factor == 1 {
                // (x - r) / q = (r - x)(-1/q), which overwrites r.
                backend.sub_scalar_mul(m, out, part.limb(i), neg_inv);
            } else {
                let inv = m.neg(neg_inv.value);
                backend.scalar_mul_assign(m, out, neg_inv);
                let w = m.shoup(m.mul(m.reduce_i128(factor), inv));
                backend.scalar_mul_add(m, out, part.limb(i), w);
            }
        }))
    }
}
