//! What the operations cost on this machine, and a model: counts times costs.

use std::time::Instant;

use cipherloom_ckks::CkksParameters;
use serde::Serialize;

use crate::rig::{literal, values, Rig};
use crate::trace::Step;
use crate::Res;

/// Milliseconds of each operation at one level.
#[derive(Clone, Copy, Serialize)]
pub struct Costs {
    pub level: usize,
    pub rotation: f64,
    /// A rotation that shares its decomposition with seven others.
    pub hoisted: f64,
    pub relinearize_rescale: f64,
    pub rescale: f64,
    pub ct_ct: f64,
    /// One term of a sum of products with plaintexts.
    pub pt_ct: f64,
    pub add: f64,
    pub align: f64,
}

/// Beside the counts of a step: what the counts do not tell.
#[derive(Clone, Copy, Default, Serialize)]
pub struct Extra {
    /// How many of the rotations are hoisted.
    pub hoisted: u64,
    /// Sums of ciphertexts outside of rotations.
    pub adds: u64,
}

/// Steps with what their counts do not tell.
pub type Steps = Vec<(Step, Extra)>;

/// Median of some runs, in milliseconds. The result of each run is dropped outside of the time.
fn median<T>(runs: usize, mut f: impl FnMut() -> Res<T>) -> Res<f64> {
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let start = Instant::now();
        let result = f()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        drop(result);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[runs / 2])
}

impl Costs {
    /// Measures at `level`, which must be above the base. Operands and keys take turns, as they do in a circuit: what
    /// is not in the cache costs more.
    pub fn measure(rig: &Rig, level: usize, runs: usize) -> Res<Self> {
        let ev = &rig.evaluator;
        let keys = ev.keys().rotations();
        let steps: Vec<i64> = keys.iter().cycle().take(8).map(|&k| k as i64).collect();
        let mut xs = vec![];
        let mut plains = vec![];
        for seed in 0..8 {
            xs.push(rig.encrypt(&values(64, seed), level)?);
            let v = values(64, seed + 8);
            plains.push(rig.encoder.encode_real_for_product(&v, level)?);
        }
        let squares = [ev.mul(&xs[0], &xs[0])?, ev.mul(&xs[1], &xs[1])?];
        let two = ev.mul_plain(&xs[0], &plains[0])?;
        let terms: Vec<_> = xs.iter().zip(&plains).collect();
        let mut turn = 0;
        let mut next = || {
            turn += 1;
            turn % 8
        };
        let hoisted = || Ok(ev.rotate_many(&xs[0], &steps)?);
        let products = || Ok(ev.mul_plain_sum(&terms)?);
        Ok(Self {
            level,
            rotation: median(runs, || {
                let i = next();
                Ok(ev.rotate(&xs[i], steps[i])?)
            })?,
            hoisted: median(runs.min(5), hoisted)? / 8.0,
            relinearize_rescale: median(
                runs,
                || Ok(ev.relinearize_rescale(&squares[next() % 2])?),
            )?,
            rescale: median(runs, || Ok(ev.rescale(&two)?))?,
            ct_ct: median(runs, || Ok(ev.mul(&xs[next()], &xs[next()])?))?,
            pt_ct: median(runs, products)? / 8.0,
            add: median(runs, || Ok(ev.add(&xs[next()], &xs[next()])?))?,
            align: median(runs, || Ok(ev.align(&xs[next()], level - 1)?))?,
        })
    }

    fn between(a: &Self, b: &Self, level: f64) -> Self {
        let span = b.level as f64 - a.level as f64;
        let w = if span == 0.0 {
            0.0
        } else {
            (level - a.level as f64) / span
        };
        let mix = |f: fn(&Self) -> f64| f(a) + w * (f(b) - f(a));
        Self {
            level: level as usize,
            rotation: mix(|c| c.rotation),
            hoisted: mix(|c| c.hoisted),
            relinearize_rescale: mix(|c| c.relinearize_rescale),
            rescale: mix(|c| c.rescale),
            ct_ct: mix(|c| c.ct_ct),
            pt_ct: mix(|c| c.pt_ct),
            add: mix(|c| c.add),
            align: mix(|c| c.align),
        }
    }

    fn of(&self, step: &Step, extra: Extra) -> f64 {
        let c = &step.counts;
        let hoisted = extra.hoisted.min(c.rotations);
        let plain_rescales = c.rescales.saturating_sub(c.relinearizations);
        hoisted as f64 * self.hoisted
            + (c.rotations - hoisted) as f64 * self.rotation
            + c.relinearizations as f64 * self.relinearize_rescale
            + plain_rescales as f64 * self.rescale
            + c.ct_ct as f64 * self.ct_ct
            + c.pt_ct as f64 * self.pt_ct
            + c.aligns as f64 * self.align
            + extra.adds as f64 * self.add
    }
}

/// Milliseconds of these steps: each at the middle of its levels, between the two nearest measured levels (ascending).
pub fn predict(costs: &[Costs], steps: &[(Step, Extra)]) -> f64 {
    steps
        .iter()
        .filter_map(|(step, extra)| {
            let level = (step.from + step.to) as f64 / 2.0;
            let above = costs.partition_point(|c| (c.level as f64) < level);
            let above = above.clamp(1.min(costs.len() - 1), costs.len() - 1);
            let (a, b) = (costs.get(above.saturating_sub(1))?, costs.get(above)?);
            Some(Costs::between(a, b, level).of(step, *extra))
        })
        .sum()
}

/// What a copy of a ciphertext costs beside the operations next to it, at N = 2^14 with 8 primes.
#[derive(Serialize)]
pub struct Copies {
    pub copy_ms: f64,
    pub drop_one_level_ms: f64,
    pub rescale_ms: f64,
    pub product_ms: f64,
}

/// Measures them.
pub fn copies() -> Res<Copies> {
    let params = CkksParameters::new(literal(14, 7, 1, 8).check()?)?;
    let rig = Rig::new(&params, &[], params.top_level())?;
    let x = rig.encrypt(&values(64, 1), params.top_level())?;
    let ev = &rig.evaluator;
    let product = ev.mul_constant(&x, 0.5.into(), x.scale())?;
    Ok(Copies {
        copy_ms: median(21, || Ok(x.clone()))?,
        drop_one_level_ms: median(21, || Ok(ev.drop_level(&x, x.level() - 1)?))?,
        rescale_ms: median(21, || Ok(ev.rescale(&product)?))?,
        product_ms: median(21, || Ok(ev.mul(&x, &x)?))?,
    })
}
