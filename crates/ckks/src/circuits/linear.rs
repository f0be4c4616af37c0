//! Linear transforms of slot vectors: baby steps and giant steps over the diagonals (Halevi, Shoup 2018, ePrint
//! 2018/244).
//!
//! `M x = sum over k of d_k * rot_k(x)`. With k = g + i, i in 0..n1 and g a multiple of n1,
//! `M x = sum over g of rot_g(sum over i of rot_(-g)(d_(g+i)) * rot_i(x))`: one key switch for each i and each g
//! that occurs. The rotations by i share one decomposition.

use std::collections::BTreeMap;
use std::sync::Arc;

use cipherloom_spec::cost::HeCounts;
use cipherloom_spec::Scale;

use super::baby::BabySteps;
use super::{DiagonalMatrix, PlaintextStore, StoredPlaintext};
use crate::ciphertext::Ciphertext;
use crate::complex::Complex64;
use crate::encoder::Encoder;
use crate::error::CkksError;
use crate::evaluator::Evaluator;
use crate::keys::KeyPurpose;
use crate::params::CkksParameters;
use crate::plaintext::Plaintext;

/// Splits are searched exhaustively up to this much work, else among small multiples of powers of two.
const MAX_SEARCH: usize = 1 << 24;

/// Which rotations a linear transform takes, at which level, and what it counts. Depends on the places of the
/// non-zero diagonals only, not on their values.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearPlan {
    size: usize,
    level: usize,
    plain_scale: Scale,
    input_scale: Scale,
    /// Baby steps that occur, ascending.
    babies: Vec<usize>,
    giants: Vec<Giant>,
    split: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct Giant {
    rotation: usize,
    /// Index into the baby steps, and diagonal.
    terms: Vec<(usize, usize)>,
}

impl LinearPlan {
    /// Plans `matrix` on ciphertexts at `level` and `input_scale`; the result has the canonical scale of
    /// `level - 1`. The split n1 has the fewest key switches, then the fewest giant steps (baby steps share a
    /// decomposition); above 2^24 diagonals times size only n1 = 2^i (1, 3, 5, 7, 9, 11, 13, 15) are tried.
    ///
    /// # Errors
    /// `Empty` for a zero matrix, `Matrix` when it is larger than the slots, `LevelExhausted`, `LevelRange`.
    pub fn new(
        params: &CkksParameters,
        matrix: &DiagonalMatrix,
        level: usize,
        input_scale: Scale,
    ) -> Result<Self, CkksError> {
        let size = matrix.size();
        if size > params.slots() {
            return Err(CkksError::Matrix {
                what: "size",
                got: size,
                rule: "a power of two",
                max: params.slots(),
            });
        }
        let plain_scale = params.product_scale(level, input_scale)?;
        let diagonals: Vec<usize> = matrix.diagonals().map(|(k, _)| k).collect();
        if diagonals.is_empty() {
            return Err(CkksError::Empty {
                op: "linear transform",
            });
        }
        let split = best_split(size, &diagonals);
        let mut babies: Vec<usize> = diagonals.iter().map(|k| k % split).collect();
        babies.sort_unstable();
        babies.dedup();
        let mut giants: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        for &k in &diagonals {
            let baby = babies.partition_point(|&b| b < k % split);
            giants.entry(k - k % split).or_default().push((baby, k));
        }
        let giants = giants
            .into_iter()
            .map(|(rotation, terms)| Giant { rotation, terms })
            .collect();
        Ok(Self {
            size,
            level,
            plain_scale,
            input_scale,
            babies,
            giants,
            split,
        })
    }

    /// The left rotations whose keys are needed, ascending, each in 1..size. The keys must reach the plan's level.
    #[must_use]
    pub fn rotations(&self) -> Vec<i64> {
        let mut all: Vec<i64> = self
            .babies
            .iter()
            .copied()
            .chain(self.giants.iter().map(|g| g.rotation))
            .filter(|&k| k != 0)
            .map(|k| k as i64)
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// What the evaluator will count.
    #[must_use]
    pub fn counts(&self) -> HeCounts {
        let nonzero = |k: &usize| u64::from(*k != 0);
        HeCounts {
            rotations: self.babies.iter().map(nonzero).sum::<u64>()
                + self
                    .giants
                    .iter()
                    .map(|g| nonzero(&g.rotation))
                    .sum::<u64>(),
            pt_ct: self.plaintexts() as u64,
            rescales: 1,
            ..HeCounts::default()
        }
    }

    /// The level of the argument. The result is one below.
    #[must_use]
    pub fn level(&self) -> usize {
        self.level
    }

    /// The split n1: baby steps are below it, giant steps its multiples.
    #[must_use]
    pub fn split(&self) -> usize {
        self.split
    }

    /// Number of plaintexts: one for each non-zero diagonal.
    #[must_use]
    pub fn plaintexts(&self) -> usize {
        self.giants.iter().map(|g| g.terms.len()).sum()
    }

    /// Bytes of all plaintexts when they are expanded.
    #[must_use]
    pub fn plaintext_bytes(&self, params: &CkksParameters) -> usize {
        self.plaintexts() * crate::size::plaintext_memory_bytes(params.chain(), self.level)
    }

    /// The plaintext values in the order of use: diagonal g + i, rotated to the right by g.
    fn values<'a>(
        &'a self,
        matrix: &'a DiagonalMatrix,
    ) -> impl Iterator<Item = Vec<Complex64>> + 'a {
        let diagonals: BTreeMap<usize, &[Complex64]> = matrix.diagonals().collect();
        self.giants.iter().flat_map(move |g| {
            let diagonals = diagonals.clone();
            g.terms.iter().filter_map(move |(_, k)| {
                let mut v = diagonals.get(k)?.to_vec();
                v.rotate_right(g.rotation);
                Some(v)
            })
        })
    }
}

fn key_switches(
    diagonals: &[usize],
    split: usize,
    seen: &mut [u32],
    stamp: &mut u32,
) -> [usize; 2] {
    // Baby steps and multiples are marked in separate halves of `seen`.
    *stamp += 1;
    let half = seen.len() / 2;
    let (mut babies, mut giants) = (0, 0);
    for &k in diagonals {
        let (g, i) = (k / split, k % split);
        if i != 0 && seen[i] != *stamp {
            seen[i] = *stamp;
            babies += 1;
        }
        if g != 0 && seen[half + g] != *stamp {
            seen[half + g] = *stamp;
            giants += 1;
        }
    }
    [babies + giants, giants]
}

fn best_split(size: usize, diagonals: &[usize]) -> usize {
    let exhaustive = diagonals.len().saturating_mul(size) <= MAX_SEARCH;
    let small_multiple = |n: usize| n >> n.trailing_zeros() < 16;
    let (mut seen, mut stamp) = (vec![0u32; 2 * size + 2], 0);
    (1..=size)
        .filter(|&n| exhaustive || small_multiple(n))
        .min_by_key(|&n| key_switches(diagonals, n, &mut seen, &mut stamp))
        .unwrap_or(1)
}

#[derive(Debug)]
enum Weights {
    Expanded(Vec<Plaintext>),
    Stored(Arc<PlaintextStore>, Vec<StoredPlaintext>),
}

/// A planned matrix with its encoded diagonals.
#[derive(Debug)]
pub struct LinearTransform {
    plan: LinearPlan,
    weights: Weights,
    params: CkksParameters,
}

impl LinearTransform {
    /// Plans and encodes for ciphertexts at `level` and its canonical scale; all plaintexts stay expanded
    /// ([`LinearPlan::plaintext_bytes`]).
    ///
    /// # Errors
    /// As [`LinearPlan::new`] and [`crate::Encoder::encode`].
    pub fn new(
        params: &CkksParameters,
        matrix: &DiagonalMatrix,
        level: usize,
    ) -> Result<Self, CkksError> {
        let plan = LinearPlan::new(params, matrix, level, params.scale(level))?;
        let encoder = Encoder::new(params);
        let plains = plan
            .values(matrix)
            .map(|v| encoder.encode_repeated(&v, level, plan.plain_scale))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            plan,
            weights: Weights::Expanded(plains),
            params: params.clone(),
        })
    }

    /// As [`LinearTransform::new`] with the plaintexts in a store, expanded on use. The results are the same bit for
    /// bit.
    ///
    /// # Errors
    /// As [`LinearTransform::new`] and [`PlaintextStore::insert`].
    pub fn with_store(
        matrix: &DiagonalMatrix,
        level: usize,
        store: &Arc<PlaintextStore>,
    ) -> Result<Self, CkksError> {
        let params = store.params();
        let plan = LinearPlan::new(params, matrix, level, params.scale(level))?;
        let ids = plan
            .values(matrix)
            .map(|v| store.insert(&v, level, plan.plain_scale))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            plan,
            weights: Weights::Stored(store.clone(), ids),
            params: params.clone(),
        })
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &LinearPlan {
        &self.plan
    }

    /// `M x` for an encrypted vector x of the matrix's period: one level down, at the canonical scale there. One rescale,
    /// after the sum. Memory: the baby steps as ciphertexts.
    ///
    /// # Errors
    /// `MissingKey` naming the rotation, `LevelMismatch`, `ScaleMismatch`, `ParamsMismatch`: all before anything is
    /// computed. `KeyLevel`, `Parts`; `Store` when a file cannot be read.
    pub fn apply(&self, ev: &Evaluator, x: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.check(ev, x)?;
        let plan = &self.plan;
        let babies = BabySteps::new(ev, x, &plan.babies)?;
        let mut next = 0;
        let mut sum: Option<Ciphertext> = None;
        for giant in &plan.giants {
            let inner = self.inner(ev, &babies, giant, next)?;
            next += giant.terms.len();
            let term = if giant.rotation == 0 {
                inner
            } else {
                ev.rotate(&inner, giant.rotation as i64)?
            };
            match &mut sum {
                Some(s) => ev.add_assign(s, &term)?,
                None => sum = Some(term),
            }
        }
        match sum {
            Some(s) => ev.rescale(&s),
            None => Err(CkksError::Empty {
                op: "linear transform",
            }),
        }
    }

    /// As [`LinearTransform::apply`] for each of many vectors, one after the other.
    ///
    /// # Errors
    /// As [`LinearTransform::apply`].
    pub fn apply_many(
        &self,
        ev: &Evaluator,
        xs: &[Ciphertext],
    ) -> Result<Vec<Ciphertext>, CkksError> {
        xs.iter().map(|x| self.apply(ev, x)).collect()
    }

    /// The inner sum of one giant step; its weights start at `first`.
    fn inner(
        &self,
        ev: &Evaluator,
        babies: &BabySteps,
        giant: &Giant,
        first: usize,
    ) -> Result<Ciphertext, CkksError> {
        let (store, ids) = match &self.weights {
            Weights::Expanded(plains) => {
                let terms: Vec<_> = giant.terms.iter().zip(&plains[first..]).collect();
                let terms: Vec<_> = terms.iter().map(|((i, _), p)| (*i, *p)).collect();
                return babies.weighted_sum(ev, &terms);
            }
            Weights::Stored(store, ids) => (store, &ids[first..]),
        };
        // What the store does not keep is used at once and dropped, so that only one such plaintext is alive.
        let mut kept = vec![];
        let mut sum: Option<Ciphertext> = None;
        for ((i, _), &id) in giant.terms.iter().zip(ids) {
            let (plain, keeps) = store.get(id)?;
            if keeps {
                kept.push((*i, plain));
            } else {
                match &mut sum {
                    Some(s) => babies.add_weighted(ev, s, (*i, &plain))?,
                    None => sum = Some(babies.weighted_sum(ev, &[(*i, &plain)])?),
                }
            }
        }
        let terms: Vec<_> = kept.iter().map(|(i, p)| (*i, &**p)).collect();
        match sum {
            None => babies.weighted_sum(ev, &terms),
            Some(s) if terms.is_empty() => Ok(s),
            Some(mut s) => {
                ev.add_assign(&mut s, &babies.weighted_sum(ev, &terms)?)?;
                Ok(s)
            }
        }
    }

    fn check(&self, ev: &Evaluator, x: &Ciphertext) -> Result<(), CkksError> {
        const OP: &str = "linear transform";
        let params = ev.params();
        params.check_digest("linear transform", self.params.digest())?;
        params.check_digest("ciphertext", x.digest())?;
        let plan = &self.plan;
        if x.level() != plan.level {
            return Err(CkksError::LevelMismatch {
                op: OP,
                left: x.level(),
                right: plan.level,
            });
        }
        if !x.scale().matches(plan.input_scale) {
            return Err(CkksError::ScaleMismatch {
                op: OP,
                left: x.scale(),
                right: plan.input_scale,
            });
        }
        for k in plan.rotations() {
            ev.keys()
                .key(KeyPurpose::Galois(params.galois_element(k)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The number of key switches of a split, by its definition.
    fn count(diagonals: &[usize], split: usize) -> usize {
        let babies: BTreeSet<usize> = diagonals.iter().map(|k| k % split).collect();
        let giants: BTreeSet<usize> = diagonals.iter().map(|k| k / split).collect();
        let nonzero = |s: &BTreeSet<usize>| s.iter().filter(|&&k| k != 0).count();
        nonzero(&babies) + nonzero(&giants)
    }

    #[test]
    fn the_split_has_the_fewest_key_switches() {
        let cases: [(usize, Vec<usize>); 6] = [
            (64, (0..64).collect()),
            (64, vec![0, 1, 2, 62, 63]),
            (128, (0..128).step_by(8).collect()),
            (256, vec![0, 17, 34, 51, 68, 200]),
            (32, vec![0]),
            (32, vec![5]),
        ];
        for (size, diagonals) in cases {
            let best = (1..=size).map(|n| count(&diagonals, n)).min().unwrap();
            let split = best_split(size, &diagonals);
            assert_eq!(count(&diagonals, split), best, "{size} {diagonals:?}");
        }
        // Dense: 2 sqrt(n) - 2.
        assert_eq!(
            count(
                &(0..64).collect::<Vec<_>>(),
                best_split(64, &(0..64).collect::<Vec<_>>())
            ),
            14
        );
    }
}
