//! The division by P (and by the last prime, when a rescale is merged), and what is done with the
//! quotient while its limb is cached.

use cipherloom_ring::{Ntt, Poly};

use super::{for_each_chunk, KeySwitchTables, Products};
use crate::error::CkksError;
use crate::scratch::{for_each_limb, PolyPool, ScratchPool};

/// What becomes of the two quotients u0, u1.
pub(crate) enum Finish<'a> {
    /// `(u0 + c0, u1 + c1)`.
    Add(&'a Poly<Ntt>, &'a Poly<Ntt>),
    /// `(sigma(u0 + c0), sigma(u1))` with the index table of sigma.
    Galois(&'a Poly<Ntt>, &'a [u32]),
    /// Nothing.
    Keep,
}

impl KeySwitchTables {
    /// round(products / P), finished: two polynomials over q_0 ... q_level.
    pub(crate) fn divide(
        &self,
        products: Products<'_>,
        finish: &Finish<'_>,
        pool: &ScratchPool,
        polys: &PolyPool,
    ) -> Result<[Poly<Ntt>; 2], CkksError> {
        let level = products.level;
        self.divide_by(products, level + 1, &self.down, finish, pool, polys)
    }

    /// round((products + P (c0, c1)) / (P q_level)): a key switch, a sum and a rescale with one rounding; two
    /// polynomials over q_0 ... q_(level-1). `level` is at least 1.
    pub(crate) fn divide_rescale(
        &self,
        mut products: Products<'_>,
        c0: &Poly<Ntt>,
        c1: &Poly<Ntt>,
        pool: &ScratchPool,
        polys: &PolyPool,
    ) -> Result<[Poly<Ntt>; 2], CkksError> {
        let (n, level) = (self.q.n(), products.level);
        let backend = self.q.backend();
        let rest = &mut products.acc[self.special * 2 * n..];
        for_each_chunk(rest, 2 * n, n, |i, acc| {
            let (b, a) = acc.split_at_mut(n);
            let m = self.q.modulus(i);
            backend.scalar_mul_add(m, b, c0.limb(i), self.p_mod_q[i]);
            backend.scalar_mul_add(m, a, c1.limb(i), self.p_mod_q[i]);
        });
        let divisor = &self.down_rescale[level];
        self.divide_by(products, level, divisor, &Finish::Keep, pool, polys)
    }

    /// Divides by the primes of `divisor`: the special ones and those from limb `keep` of q on.
    fn divide_by(
        &self,
        mut products: Products<'_>,
        keep: usize,
        divisor: &super::Divisor,
        finish: &Finish<'_>,
        pool: &ScratchPool,
        polys: &PolyPool,
    ) -> Result<[Poly<Ntt>; 2], CkksError> {
        let n = self.q.n();
        let backend = self.q.backend();
        let (special, rest) = products.acc.split_at_mut(self.special * 2 * n);
        let (kept, last) = rest.split_at_mut(keep * 2 * n);
        let prepare = |i: usize, table: &cipherloom_ring::NttTable, acc: &mut [u64]| {
            for half in acc.chunks_exact_mut(n) {
                backend.ntt_inverse(table, half);
                divisor.converter.scale(backend, i, half);
            }
        };
        for_each_chunk(special, 2 * n, n, |i, acc| {
            prepare(i, &self.pq.tables()[i], acc);
        });
        for_each_chunk(last, 2 * n, n, |i, acc| {
            prepare(self.special + i, &self.q.tables()[keep + i], acc);
        });
        let dropped: Vec<&[u64]> = special
            .chunks_exact(2 * n)
            .chain(last.chunks_exact(2 * n))
            .collect();
        let mut quotients = pool.take(2 * n);
        for_each_chunk(&mut quotients, n, n, |half, out| {
            let terms: Vec<&[u64]> = dropped
                .iter()
                .map(|d| &d[half * n..(half + 1) * n])
                .collect();
            divisor.converter.quotient(backend, &terms, out);
        });
        let terms: Vec<Vec<&[u64]>> = (0..2)
            .map(|half| {
                let range = half * n..(half + 1) * n;
                dropped
                    .iter()
                    .map(|d| &d[range.clone()])
                    .chain(std::iter::once(&quotients[range.clone()]))
                    .collect()
            })
            .collect();

        let basis = self.q.prefix(keep)?;
        let mut u0 = polys.take(&basis);
        let mut u1 = polys.take(&basis);
        let limb = |i: usize, out: [&mut [u64]; 2], acc: &[u64]| {
            let m = basis.modulus(i);
            for (half, out) in out.into_iter().enumerate() {
                let acc = &acc[half * n..(half + 1) * n];
                // (acc - r) / P = (r - acc)(-1/P), which overwrites r.
                let quotient = |out: &mut [u64]| {
                    divisor.converter.target(backend, i, m, &terms[half], out);
                    backend.ntt_forward(&basis.tables()[i], out);
                    backend.sub_scalar_mul(m, out, acc, divisor.neg_inv[i]);
                };
                match finish {
                    Finish::Keep => quotient(out),
                    Finish::Add(c0, c1) => {
                        quotient(out);
                        let c = if half == 0 { c0 } else { c1 };
                        backend.add_assign(m, out, c.limb(i));
                    }
                    Finish::Galois(c0, perm) => {
                        let mut t = pool.take(n);
                        quotient(&mut t);
                        if half == 0 {
                            backend.add_assign(m, &mut t, c0.limb(i));
                        }
                        backend.permute(out, &t, perm);
                    }
                }
            }
        };
        let tasks: Vec<_> = u0
            .limbs_mut()
            .zip(u1.limbs_mut())
            .zip(kept.chunks_exact(2 * n))
            .enumerate()
            .collect();
        for_each_limb(tasks, n, |(i, ((o0, o1), acc))| limb(i, [o0, o1], acc));
        Ok([u0, u1])
    }
}
