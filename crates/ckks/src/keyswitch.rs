//! Hybrid key switching: raise the digits, inner product with the key, divide by P.
//!
//! For a polynomial c at level l with digits D_0, D_1, ...: `sum_d [c]_(D_d) * key_d` is, modulo P q_0 ... q_l,
//! an encryption of `P c s_from` under `s_to`, because key digit d encrypts `P s_from` modulo the primes of
//! D_d and 0 modulo the others. Dividing by P leaves `c s_from` with the noise divided by P.

use cipherloom_ring::{Basis, ModDown, ModUp, Ntt, Poly};
use cipherloom_spec::CkksChain;

use crate::error::CkksError;
use crate::keys::EvaluationKey;

/// Conversion tables of every level.
#[derive(Debug)]
pub(crate) struct KeySwitchTables {
    levels: Vec<LevelTables>,
}

#[derive(Debug)]
struct LevelTables {
    basis: Basis,
    mod_up: Vec<ModUp>,
    mod_down: ModDown,
    /// Divides by P and the last prime: a key switch with a rescale.
    mod_down_rescale: Option<ModDown>,
}

/// A polynomial split into digits, each raised to the special primes and q_0 ... q_level.
#[derive(Debug)]
pub(crate) struct Decomposed {
    level: usize,
    digits: Vec<Poly<Ntt>>,
}

impl KeySwitchTables {
    pub(crate) fn new(
        chain: &CkksChain,
        p: &Basis,
        q: &Basis,
        pq: &Basis,
    ) -> Result<Self, CkksError> {
        let k = p.len();
        let levels = (0..=chain.top_level())
            .map(|level| {
                let limbs = level + 1;
                let ql = q.prefix(limbs)?;
                let pql = pq.prefix(k + limbs)?;
                let mod_up = chain
                    .digits(level)
                    .into_iter()
                    .map(|range| Ok(ModUp::new(&ql, &pql, range)?))
                    .collect::<Result<Vec<_>, CkksError>>()?;
                let mod_down_rescale = if level > chain.base_level() {
                    let mut drop: Vec<usize> = (0..k).collect();
                    drop.push(k + level);
                    Some(ModDown::dropping(&pql, &drop, &q.prefix(level)?)?)
                } else {
                    None
                };
                Ok(LevelTables {
                    mod_down: ModDown::new(&pql, k, &ql)?,
                    mod_up,
                    mod_down_rescale,
                    basis: pql,
                })
            })
            .collect::<Result<Vec<_>, CkksError>>()?;
        Ok(Self { levels })
    }

    fn at(&self, level: usize) -> Result<&LevelTables, CkksError> {
        self.levels.get(level).ok_or(CkksError::LevelRange {
            op: "key switch",
            level,
            max: self.levels.len() - 1,
        })
    }

    /// Splits and raises. Cost at L limbs, k special primes, d digits: L inverse and about
    /// d (L + k) - L forward NTTs.
    pub(crate) fn decompose(&self, c: &Poly<Ntt>) -> Result<Decomposed, CkksError> {
        let level = c.limbs() - 1;
        let coeff = c.to_coeff();
        let digits = self
            .at(level)?
            .mod_up
            .iter()
            .map(|m| Ok(m.apply(c, &coeff)?))
            .collect::<Result<Vec<_>, CkksError>>()?;
        Ok(Decomposed { level, digits })
    }

    /// The two inner products with the key, over the special primes and q_0 ... q_level.
    pub(crate) fn inner_product(
        &self,
        d: &Decomposed,
        key: &EvaluationKey,
    ) -> Result<[Poly<Ntt>; 2], CkksError> {
        key.check_reaches(d.level)?;
        let basis = &self.at(d.level)?.basis;
        let sum = |part: usize| {
            let terms: Vec<_> = d
                .digits
                .iter()
                .zip(key.digits())
                .map(|(x, k)| (x, if part == 0 { k.b() } else { k.a() }))
                .collect();
            let mut acc = Poly::zero(basis);
            acc.dot_add_assign(&terms)?;
            Ok::<_, CkksError>(acc)
        };
        Ok([sum(0)?, sum(1)?])
    }

    /// Divides by P: `(u0, u1)` with `u0 + u1 s_to = c s_from` up to noise.
    pub(crate) fn mod_down(
        &self,
        level: usize,
        u: [Poly<Ntt>; 2],
    ) -> Result<[Poly<Ntt>; 2], CkksError> {
        let t = &self.at(level)?.mod_down;
        Ok([t.apply(&u[0])?, t.apply(&u[1])?])
    }

    /// Decompose, inner product, division by P.
    pub(crate) fn switch(
        &self,
        c: &Poly<Ntt>,
        key: &EvaluationKey,
    ) -> Result<[Poly<Ntt>; 2], CkksError> {
        let d = self.decompose(c)?;
        self.switch_decomposed(&d, key)
    }

    /// As [`KeySwitchTables::switch`] for digits that are already raised (hoisting).
    pub(crate) fn switch_decomposed(
        &self,
        d: &Decomposed,
        key: &EvaluationKey,
    ) -> Result<[Poly<Ntt>; 2], CkksError> {
        let u = self.inner_product(d, key)?;
        self.mod_down(d.level, u)
    }

    /// Divides by P and q_level at once, rounding once; `None` at or below the base level.
    pub(crate) fn mod_down_rescale(&self, level: usize) -> Result<Option<&ModDown>, CkksError> {
        Ok(self.at(level)?.mod_down_rescale.as_ref())
    }
}
