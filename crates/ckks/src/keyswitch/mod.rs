//! Hybrid key switching: raise the digits, inner product with the key, divide by P.
//!
//! For a polynomial c at level l with digits D_0, D_1, ...: `sum_d [c]_(D_d) * key_d` is, modulo P q_0 ... q_l,
//! an encryption of `P c s_from` under `s_to`, because key digit d encrypts `P s_from` modulo the primes of
//! D_d and 0 modulo the others. Dividing by P leaves `c s_from` with the noise divided by P.
//!
//! The work goes limb by limb: a limb of all digits is raised, transformed and multiplied with both
//! key polynomials while it is in the cache. Limbs are independent and run in parallel.

mod convert;
mod divide;
mod rescale;

use cipherloom_ring::{Basis, Modulus, Ntt, Poly, Shoup};
use cipherloom_spec::CkksChain;
use rayon::prelude::*;

use crate::error::CkksError;
use crate::keys::EvaluationKey;
use crate::scratch::{Scratch, ScratchPool, MIN_PARALLEL_DEGREE};
use convert::Converter;
pub(crate) use divide::Finish;

/// Conversion tables. Memory: a few words for each pair of primes.
#[derive(Debug)]
pub(crate) struct KeySwitchTables {
    q: Basis,
    /// Special primes first.
    pq: Basis,
    special: usize,
    alpha: usize,
    /// Entry e: from the primes of e's digit up to and including q_e to all other primes of `pq`, in order.
    raise: Vec<Converter>,
    /// From P to all q, and -1/P modulo each.
    down: Divisor,
    /// Entry l: from P and q_l to q_0 ... q_(l-1), and minus the inverse of their product.
    down_rescale: Vec<Divisor>,
    /// Entry l: from q_l to q_0 ... q_(l-1), and -1/q_l modulo each.
    rescale: Vec<Divisor>,
    /// P modulo each q.
    p_mod_q: Vec<Shoup>,
}

#[derive(Debug)]
struct Divisor {
    converter: Converter,
    neg_inv: Vec<Shoup>,
}

impl Divisor {
    fn new(from: Vec<Modulus>, to: &[Modulus]) -> Result<Self, CkksError> {
        let neg_inv = to
            .iter()
            .map(|m| {
                let product = from
                    .iter()
                    .fold(1, |acc, d| m.mul(acc, m.reduce(d.value())));
                Ok(m.shoup(m.neg(m.inv(product)?)))
            })
            .collect::<Result<_, CkksError>>()?;
        Ok(Self {
            converter: Converter::new(from, to)?,
            neg_inv,
        })
    }
}

/// A polynomial split into digits, each raised to the special primes and q_0 ... q_level.
#[derive(Debug)]
pub(crate) struct Decomposed<'a> {
    /// Limb-major: for each limb of the key basis one limb of every digit; those of a digit's own primes are unused, they
    /// are the limbs of `c`.
    raised: Scratch<'a>,
    c: &'a Poly<Ntt>,
}

/// The two inner products, limb-major, both polynomials' limb j side by side.
pub(crate) struct Products<'a> {
    acc: Scratch<'a>,
    level: usize,
}

impl KeySwitchTables {
    pub(crate) fn new(chain: &CkksChain, q: &Basis, pq: &Basis) -> Result<Self, CkksError> {
        let special = chain.p().len();
        let alpha = chain.alpha();
        let q_moduli: Vec<Modulus> = q.moduli().copied().collect();
        let p_moduli: Vec<Modulus> = pq.moduli().take(special).copied().collect();
        let raise = (0..q_moduli.len())
            .map(|end| {
                let start = end / alpha * alpha;
                let others: Vec<Modulus> = p_moduli
                    .iter()
                    .chain(&q_moduli[..start])
                    .chain(&q_moduli[end + 1..])
                    .copied()
                    .collect();
                Converter::new(q_moduli[start..=end].to_vec(), &others)
            })
            .collect::<Result<_, _>>()?;
        let down_rescale = (0..q_moduli.len())
            .map(|level| {
                let mut from = p_moduli.clone();
                from.push(q_moduli[level]);
                Divisor::new(from, &q_moduli[..level])
            })
            .collect::<Result<_, _>>()?;
        let rescale = (0..q_moduli.len())
            .map(|level| Divisor::new(vec![q_moduli[level]], &q_moduli[..level]))
            .collect::<Result<_, _>>()?;
        let p_mod_q = q_moduli
            .iter()
            .map(|m| {
                let p = p_moduli
                    .iter()
                    .fold(1, |acc, d| m.mul(acc, m.reduce(d.value())));
                m.shoup(p)
            })
            .collect();
        Ok(Self {
            q: q.clone(),
            pq: pq.clone(),
            special,
            alpha,
            raise,
            down: Divisor::new(p_moduli, &q_moduli)?,
            down_rescale,
            rescale,
            p_mod_q,
        })
    }

    /// The first and last limb of each digit at `level`.
    fn digits(&self, level: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..=level)
            .step_by(self.alpha)
            .map(move |start| (start, (start + self.alpha - 1).min(level)))
    }

    fn digit_count(&self, level: usize) -> usize {
        level / self.alpha + 1
    }

    /// The scaled coefficients of every limb, then one quotient for each digit.
    fn scale<'a>(&self, c: &Poly<Ntt>, pool: &'a ScratchPool) -> Scratch<'a> {
        let (n, level) = (c.n(), c.limbs() - 1);
        let mut out = pool.take((level + 1 + self.digit_count(level)) * n);
        let (y, u) = out.split_at_mut((level + 1) * n);
        let backend = self.q.backend();
        for_each_chunk(y, n, n, |i, limb| {
            let start = i / self.alpha * self.alpha;
            let end = (start + self.alpha - 1).min(level);
            limb.copy_from_slice(c.limb(i));
            backend.ntt_inverse(&self.q.tables()[i], limb);
            self.raise[end].scale(backend, i - start, limb);
        });
        let y = &*y;
        for_each_chunk(u, n, n, |d, out| {
            let start = d * self.alpha;
            let end = (start + self.alpha - 1).min(level);
            let terms: Vec<&[u64]> = y[start * n..(end + 1) * n].chunks_exact(n).collect();
            self.raise[end].quotient(backend, &terms, out);
        });
        out
    }

    /// Limb `j` of the key basis of every digit, in NTT form, except the digit that owns it.
    fn raise_limb(&self, scaled: &[u64], level: usize, j: usize, out: &mut [u64]) {
        let n = self.q.n();
        let backend = self.q.backend();
        let (y, u) = scaled.split_at((level + 1) * n);
        let m = self.pq.modulus(j);
        for ((start, end), (out, u)) in self
            .digits(level)
            .zip(out.chunks_exact_mut(n).zip(u.chunks_exact(n)))
        {
            let target = match j.checked_sub(self.special) {
                Some(i) if i >= start && i <= end => continue,
                // Targets are listed without the digit's own primes.
                Some(i) if i > end => j - (end + 1 - start),
                _ => j,
            };
            let terms: Vec<&[u64]> = y[start * n..(end + 1) * n]
                .chunks_exact(n)
                .chain(std::iter::once(u))
                .collect();
            self.raise[end].target(backend, target, m, &terms, out);
            backend.ntt_forward(&self.pq.tables()[j], out);
        }
    }

    /// Limb `j` of both inner products.
    fn dot_limb(
        &self,
        digits: &[u64],
        c: &Poly<Ntt>,
        key: &EvaluationKey,
        j: usize,
        acc: &mut [u64],
    ) {
        let n = self.q.n();
        let m = self.pq.modulus(j);
        let own = j.checked_sub(self.special);
        let limb = |d: usize| match own {
            Some(i) if i / self.alpha == d => c.limb(i),
            _ => &digits[d * n..(d + 1) * n],
        };
        let (b, a) = acc.split_at_mut(n);
        b.fill(0);
        a.fill(0);
        let count = digits.len() / n;
        let keys = &key.digits()[..count];
        let terms: Vec<_> = keys
            .iter()
            .enumerate()
            .map(|(d, k)| (limb(d), k.b().limb(j)))
            .collect();
        self.q.backend().dot_add(m, b, &terms);
        let terms: Vec<_> = keys
            .iter()
            .enumerate()
            .map(|(d, k)| (limb(d), k.a().limb(j)))
            .collect();
        self.q.backend().dot_add(m, a, &terms);
    }

    /// Splits and raises, for several keys. Cost at L limbs, k special primes, d digits: L inverse
    /// and d (L + k) - L forward NTTs.
    pub(crate) fn decompose<'a>(&self, c: &'a Poly<Ntt>, pool: &'a ScratchPool) -> Decomposed<'a> {
        let (n, level) = (c.n(), c.limbs() - 1);
        let scaled = self.scale(c, pool);
        let count = self.digit_count(level);
        let mut raised = pool.take((self.special + level + 1) * count * n);
        for_each_chunk(&mut raised, count * n, n, |j, out| {
            self.raise_limb(&scaled, level, j, out);
        });
        Decomposed { raised, c }
    }

    /// The inner products of raised digits with a key.
    pub(crate) fn products_of<'a>(
        &self,
        d: &Decomposed<'_>,
        key: &EvaluationKey,
        pool: &'a ScratchPool,
    ) -> Result<Products<'a>, CkksError> {
        let (n, level) = (d.c.n(), d.c.limbs() - 1);
        key.check_reaches(level)?;
        let count = self.digit_count(level);
        let mut acc = pool.take((self.special + level + 1) * 2 * n);
        for_each_chunk(&mut acc, 2 * n, n, |j, acc| {
            let digits = &d.raised[j * count * n..(j + 1) * count * n];
            self.dot_limb(digits, d.c, key, j, acc);
        });
        Ok(Products { acc, level })
    }

    /// Decomposition and inner products in one pass: each raised limb is used while it is cached.
    pub(crate) fn products<'a>(
        &self,
        c: &Poly<Ntt>,
        key: &EvaluationKey,
        pool: &'a ScratchPool,
    ) -> Result<Products<'a>, CkksError> {
        let (n, level) = (c.n(), c.limbs() - 1);
        key.check_reaches(level)?;
        let count = self.digit_count(level);
        let scaled = self.scale(c, pool);
        let mut acc = pool.take((self.special + level + 1) * 2 * n);
        for_each_chunk(&mut acc, 2 * n, n, |j, acc| {
            let mut digits = pool.take(count * n);
            self.raise_limb(&scaled, level, j, &mut digits);
            self.dot_limb(&digits, c, key, j, acc);
        });
        Ok(Products { acc, level })
    }
}

/// Calls `f(index, chunk)` for chunks of `len` words, in parallel for long limbs.
fn for_each_chunk(data: &mut [u64], len: usize, n: usize, f: impl Fn(usize, &mut [u64]) + Sync) {
    if n >= MIN_PARALLEL_DEGREE && data.len() > len {
        data.par_chunks_exact_mut(len)
            .enumerate()
            .for_each(|(i, chunk)| f(i, chunk));
    } else {
        data.chunks_exact_mut(len)
            .enumerate()
            .for_each(|(i, chunk)| f(i, chunk));
    }
}
