//! A whole encoder layer, level by level: attention, normalisation, feed-forward network, normalisation.
//!
//! Single head, dimension 16, 64 hidden values, GELU. On a ring without security, deep enough for all of it: levels,
//! counts and the shape of the error are those of a large ring. The lighter one is priced at N = 2^16 from measured costs.

use cipherloom_ckks::circuits::{Argument, DiagonalMatrix, Interpolation};
use cipherloom_ckks::{Ciphertext, CkksParameters};
use cipherloom_spec::cost::HeCounts;
use serde::Serialize;

use crate::attention::{
    packed, projections, reference, rotations, times, transform, weights, Weights,
};
use crate::cost::{predict, Costs, Extra, Steps};
use crate::layout::{self, D, N};
use crate::rig::{insecure_toy, literal, values, Fidelity, Rig};
use crate::softmax::{scaled, Polynomials, BOUND};
use crate::trace::{counts, Step, Tracer};
use crate::Res;

/// Blocks of 16 hidden values.
const BLOCKS: usize = 4;
/// Inputs of GELU are bounded by this.
const HIDDEN_BOUND: f64 = 5.0;
/// Variances before the two normalisations.
const VARIANCE: [[f64; 2]; 2] = [[0.08, 1.6], [0.3, 5.0]];

/// One layer that was run.
#[derive(Serialize)]
pub struct Layer {
    pub name: String,
    pub levels: usize,
    pub counts: HeCounts,
    pub fidelity: Fidelity,
    pub steps: Vec<Step>,
    /// Counts times costs at N = 2^16, in seconds, for the layer that fits there.
    pub seconds_at_2_16: Option<f64>,
}

/// Degrees of the polynomials.
struct Degrees {
    exp: usize,
    reciprocal: usize,
    inverse_root: usize,
    gelu: usize,
}

struct Model {
    attention: Weights,
    out: Vec<f64>,
    up: Vec<f64>,
    down: Vec<f64>,
    gain: Vec<f64>,
}

fn gelu(x: f64) -> f64 {
    // tanh form.
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
    0.5 * x * (1.0 + inner.tanh())
}

/// Subtracts the mean of each token; returns the variances too.
fn centre(x: &mut [f64]) -> Vec<f64> {
    x.chunks_exact_mut(D)
        .map(|token| {
            let mean = token.iter().sum::<f64>() / D as f64;
            token.iter_mut().for_each(|v| *v -= mean);
            token.iter().map(|v| v * v).sum::<f64>() / D as f64
        })
        .collect()
}

fn normalise(x: &mut [f64], [low, high]: [f64; 2]) -> Res<()> {
    let variances = centre(x);
    for (token, v) in x.chunks_exact_mut(D).zip(variances) {
        if !(low..high).contains(&v) {
            return Err(format!("variance {v} is outside {low}..{high}").into());
        }
        token.iter_mut().for_each(|x| *x /= v.sqrt());
    }
    Ok(())
}

impl Model {
    fn new() -> Self {
        Self {
            attention: Weights::new(),
            out: weights(D * D, 14),
            up: weights(BLOCKS * D * D, 15),
            down: weights(BLOCKS * D * D, 16)
                .iter()
                .map(|w| w / 2.0)
                .collect(),
            gain: values(D, 17).iter().map(|v| 1.0 + 0.2 * v).collect(),
        }
    }

    /// The layer in double precision.
    fn plain(&self, x: &[f64]) -> Res<Vec<f64>> {
        let a = times(&reference(x, &self.attention, true), &self.out);
        let mut y: Vec<f64> = x.iter().zip(&a).map(|(x, a)| x + a).collect();
        normalise(&mut y, VARIANCE[0])?;
        for token in y.chunks_exact_mut(D) {
            token.iter_mut().zip(&self.gain).for_each(|(y, g)| *y *= g);
        }
        let hidden = times(&y, &self.up);
        if let Some(h) = hidden.iter().find(|h| h.abs() > HIDDEN_BOUND) {
            return Err(format!("hidden value {h} is outside +-{HIDDEN_BOUND}").into());
        }
        let active: Vec<f64> = hidden.iter().map(|&h| gelu(h)).collect();
        let f = times(&active, &self.down);
        let mut z: Vec<f64> = y.iter().zip(&f).map(|(y, f)| y + f).collect();
        normalise(&mut z, VARIANCE[1])?;
        Ok(z)
    }
}

/// `factor C W diag(gain)` with C the matrix that subtracts the mean, for a W with 16 rows.
fn centred(w: &[f64], gain: &[f64], factor: f64) -> Vec<f64> {
    let width = w.len() / D;
    (0..w.len())
        .map(|j| {
            let (row, column) = (j / width, j % width);
            let mean = (0..D).map(|r| w[r * width + column]).sum::<f64>() / D as f64;
            factor * (w[row * width + column] - mean) * gain[column % gain.len()]
        })
        .collect()
}

fn identity() -> Vec<f64> {
    (0..D * D)
        .map(|j| f64::from(u8::from(j / D == j % D)))
        .collect()
}

/// The factor that makes the sum of squares of a token the argument of the inverse root on [low, high], mapped.
fn normal_factor([low, high]: [f64; 2]) -> f64 {
    (2.0 / (high - low) / D as f64).sqrt()
}

/// `z / sqrt(var)` from a centred z that carries [`normal_factor`].
fn normalisation(
    rig: &Rig,
    t: &mut Tracer<'_>,
    z: &Ciphertext,
    degree: usize,
    interval: [f64; 2],
) -> Res<Ciphertext> {
    let ev = &rig.evaluator;
    let squares = layout::sum_features(ev, &ev.mul_relin_rescale(z, z)?)?;
    t.step("variance", &squares);
    let root = Interpolation::new(|v| 1.0 / v.sqrt(), degree, interval)?;
    let root = scaled(&root.polynomial, 1.0 / normal_factor(interval))?;
    let plan = root.plan(&rig.params, squares.level(), Argument::Mapped)?;
    let r = plan.evaluate(ev, &squares)?;
    t.step(&format!("inverse root, degree {degree}"), &r);
    let y = ev.mul_relin_rescale(&ev.align(z, r.level())?, &r)?;
    t.step("times inverse root", &y);
    Ok(y)
}

fn run_one(name: &str, model: &Model, degrees: &Degrees, levels: usize) -> Res<(Layer, Steps)> {
    let params = insecure_toy(levels)?;
    let x = values(N * D, 7);
    let one = vec![1.0; D];
    let [first, second] = VARIANCE.map(normal_factor);
    let attention = projections(&model.attention, BOUND)?;
    let out = layout::from_copy_0(&centred(&model.out, &one, first))?;
    let skip_1 = layout::in_copies(&centred(&identity(), &one, first))?;
    let up: Vec<f64> = model
        .up
        .iter()
        .enumerate()
        .map(|(j, w)| w * model.gain[j % D] / HIDDEN_BOUND)
        .collect();
    let up = layout::wide(&up, BLOCKS)?;
    let down = layout::narrow(&centred(&model.down, &one, second), BLOCKS)?;
    let skip_2 = layout::in_copies(&centred(&identity(), &model.gain, second))?;
    let mut all: Vec<&DiagonalMatrix> = attention.iter().collect();
    all.extend([&out, &skip_1, &up, &down, &skip_2]);

    let top = params.top_level();
    let rig = Rig::new(&params, &rotations(&params, &all)?, top)?;
    let ev = &rig.evaluator;
    let softmax = Polynomials::new(degrees.exp, degrees.reciprocal)?;
    let ct = rig.encrypt(&layout::pack(&x), top)?;
    let (mut t, mut extras) = (Tracer::new(ev, top), vec![]);

    let a = packed(&rig, &mut t, &mut extras, &attention, &ct, Some(&softmax))?;
    let o = transform(
        &rig,
        &mut t,
        &mut extras,
        "output projection, centred",
        (&out, &a),
    )?;
    let o = layout::spread_copies(ev, &o)?;
    t.step("into every copy", &o);
    extras.push(Extra::default());
    let low = ev.align(&ct, a.level())?;
    t.rewind(&low);
    let s = transform(
        &rig,
        &mut t,
        &mut extras,
        "residual, centred",
        (&skip_1, &low),
    )?;
    let z = ev.add(&o, &s)?;
    let y = normalisation(&rig, &mut t, &z, degrees.inverse_root, VARIANCE[0])?;
    extras.resize(t.len(), Extra::default());
    let h = transform(&rig, &mut t, &mut extras, "up projection", (&up, &y))?;
    let g = Interpolation::new(gelu, degrees.gelu, [-HIDDEN_BOUND, HIDDEN_BOUND])?;
    let g = g
        .polynomial
        .plan(&params, h.level(), Argument::Mapped)?
        .evaluate(ev, &h)?;
    t.step(&format!("GELU, degree {}", degrees.gelu), &g);
    extras.resize(t.len(), Extra::default());
    let f = transform(
        &rig,
        &mut t,
        &mut extras,
        "down projection, centred",
        (&down, &g),
    )?;
    let low = ev.align(&y, g.level())?;
    t.rewind(&low);
    let s = transform(
        &rig,
        &mut t,
        &mut extras,
        "residual, centred",
        (&skip_2, &low),
    )?;
    let z = ev.add(&f, &s)?;
    let y = normalisation(&rig, &mut t, &z, degrees.inverse_root, VARIANCE[1])?;
    extras.resize(t.len(), Extra::default());

    let steps: Steps = t.finish().into_iter().zip(extras).collect();
    let only: Vec<Step> = steps.iter().map(|(s, _)| s.clone()).collect();
    let got = layout::unpack(&rig.decrypt(&y)?);
    let layer = Layer {
        name: name.into(),
        levels: top - y.level(),
        counts: counts(&only),
        fidelity: Fidelity::of(&got, &model.plain(&x)?),
        steps: only,
        seconds_at_2_16: None,
    };
    Ok((layer, steps))
}

/// Costs at N = 2^16 on a secure chain of `levels`, at three levels.
fn large_ring(levels: usize) -> Res<Vec<Costs>> {
    let alpha = (levels + 1).div_ceil(4);
    let special = (40 * alpha + 10).div_ceil(50);
    let params = CkksParameters::new(literal(16, levels, special, 4).check()?)?;
    let rig = Rig::new(&params, &[8], levels)?;
    [1, levels / 2, levels]
        .into_iter()
        .map(|level| Costs::measure(&rig, level, 3))
        .collect()
}

/// Two settings: the light one fits a secure ring.
pub fn run() -> Res<Vec<Layer>> {
    let model = Model::new();
    let light = Degrees {
        exp: 7,
        reciprocal: 31,
        inverse_root: 15,
        gelu: 15,
    };
    let (mut layer, steps) = run_one("low degrees", &model, &light, 31)?;
    let costs = large_ring(layer.levels)?;
    layer.seconds_at_2_16 = Some(predict(&costs, &steps) / 1e3);
    let accurate = Degrees {
        exp: 15,
        reciprocal: 63,
        inverse_root: 31,
        gelu: 31,
    };
    let (other, _) = run_one("high degrees", &model, &accurate, 36)?;
    Ok(vec![layer, other])
}
