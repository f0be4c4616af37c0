//! Softmax over encrypted scores, level by level, in two ways.
//!
//! Composition: exp as `(1 + x/64)^64`, the reciprocal by three Goldschmidt factors. Polynomials: exp and the
//! reciprocal as Chebyshev interpolants. Scores are packed as in [`crate::layout`]: the sum over keys is a sum over copies.

use cipherloom_ckks::circuits::{Argument, Interpolation, Polynomial};
use cipherloom_ckks::{Ciphertext, CkksParameters, Complex64};
use serde::Serialize;

use crate::layout::{sum_copies, COPIES, N};
use crate::rig::{insecure_toy, literal, values, Fidelity, Rig};
use crate::trace::{levels, Step, Tracer};
use crate::Res;

/// Scores are bounded by this.
pub const BOUND: f64 = 2.0;

/// A softmax that ran to its end.
#[derive(Serialize)]
pub struct Softmax {
    pub name: String,
    pub levels: usize,
    pub fidelity: Fidelity,
    pub steps: Vec<Step>,
}

/// A softmax on a chain of seven levels.
#[derive(Serialize)]
pub struct Wall {
    pub name: String,
    pub done: Vec<Step>,
    pub refusal: String,
}

/// The two interpolants, with every constant folded in.
pub struct Polynomials {
    exp: Polynomial,
    reciprocal: Polynomial,
    name: String,
}

/// A polynomial times a number.
pub fn scaled(p: &Polynomial, factor: f64) -> Res<Polynomial> {
    let c: Vec<Complex64> = p.coefficients().iter().map(|c| c.scaled(factor)).collect();
    Ok(Polynomial::new(p.basis(), &c, p.interval())?)
}

impl Polynomials {
    /// Of these degrees. The sum of N exponentials lies in `N exp(-BOUND) ..= N exp(BOUND)`; the factor that takes
    /// this interval to one of length 2 is part of exp, its inverse part of the reciprocal.
    pub fn new(exp: usize, reciprocal: usize) -> Res<Self> {
        let sum = [N as f64 * (-BOUND).exp(), N as f64 * BOUND.exp()];
        let e = Interpolation::new(f64::exp, exp, [-BOUND, BOUND])?;
        let r = Interpolation::new(|x| 1.0 / x, reciprocal, sum)?;
        let factor = r.polynomial.affine_map().0;
        Ok(Self {
            exp: scaled(&e.polynomial, factor)?,
            reciprocal: scaled(&r.polynomial, 1.0 / factor)?,
            name: format!("polynomials of degrees {exp} and {reciprocal}"),
        })
    }

    /// Weights from scores divided by [`BOUND`].
    pub fn apply(&self, rig: &Rig, t: &mut Tracer<'_>, scores: &Ciphertext) -> Res<Ciphertext> {
        let (ev, params) = (&rig.evaluator, &rig.params);
        let plan = self.exp.plan(params, scores.level(), Argument::Mapped)?;
        let e = plan.evaluate(ev, scores)?;
        t.step(&format!("exp, degree {}", self.exp.degree()), &e);
        let sum = sum_copies(ev, &e)?;
        t.step("sum over keys", &sum);
        let plan = self
            .reciprocal
            .plan(params, sum.level(), Argument::Mapped)?;
        let r = plan.evaluate(ev, &sum)?;
        t.step(
            &format!("reciprocal, degree {}", self.reciprocal.degree()),
            &r,
        );
        let p = ev.mul_relin_rescale(&ev.align(&e, r.level())?, &r)?;
        t.step("exp times reciprocal", &p);
        Ok(p)
    }
}

/// `(c + c x/64)^64` with c^64 = 1/16, so that the sum over keys is near 1/2; then
/// `1/d = (1 + e)(1 + e^2)(1 + e^4) ...` with e = 1 - d.
fn composition(rig: &Rig, t: &mut Tracer<'_>, scores: &Ciphertext) -> Res<Ciphertext> {
    let ev = &rig.evaluator;
    let c = (1.0f64 / 16.0).powf(1.0 / 64.0);
    let scale = rig.params.product_scale(scores.level(), scores.scale())?;
    let x = ev.mul_constant(scores, (c / 64.0).into(), scale)?;
    let mut x = ev.rescale(&ev.add_constant(&x, c.into())?)?;
    t.step("1 + x/64", &x);
    for k in 1..=6 {
        x = ev.mul_relin_rescale(&x, &x)?;
        t.step(&format!("square {k} of 6"), &x);
    }
    let d = sum_copies(ev, &x)?;
    let one = Complex64::ONE;
    let mut e = ev.add_constant(&ev.neg(&d)?, one)?;
    let mut y = ev.add_constant(&e, one)?;
    t.step("sum over keys", &y);
    for k in 1..=2 {
        e = ev.mul_relin_rescale(&e, &e)?;
        let factor = ev.add_constant(&e, one)?;
        y = ev.mul_relin_rescale(&ev.align(&y, factor.level())?, &factor)?;
        t.step(&format!("Goldschmidt factor {}", k + 1), &y);
    }
    let p = ev.mul_relin_rescale(&ev.align(&x, y.level())?, &y)?;
    t.step("exp times reciprocal", &p);
    Ok(p)
}

/// Scores s(t, i) for slot (t, i) in one block of 64, and the softmax over t.
fn reference() -> (Vec<f64>, Vec<f64>) {
    let scores: Vec<f64> = values(N * N, 3).iter().map(|v| 1.2 * v).collect();
    let exp: Vec<f64> = scores.iter().map(|s| s.exp()).collect();
    let weights = (0..N * N)
        .map(|j| exp[j] / (0..N).map(|t| exp[t * N + j % N]).sum::<f64>())
        .collect();
    (scores, weights)
}

fn divided(scores: &[f64]) -> Vec<f64> {
    scores.iter().map(|s| s / BOUND).collect()
}

/// Each kind on a chain that is long enough.
pub fn run() -> Res<Vec<Softmax>> {
    let (scores, want) = reference();
    let params = insecure_toy(12)?;
    let top = params.top_level();
    let rig = Rig::new(&params, &COPIES, top)?;
    let mut out = vec![];
    let mut push = |name: &str, steps: Vec<Step>, p: &Ciphertext| -> Res<()> {
        out.push(Softmax {
            name: name.into(),
            levels: levels(&steps),
            fidelity: Fidelity::of(&rig.decrypt(p)?[..N * N], &want),
            steps,
        });
        Ok(())
    };
    let mut t = Tracer::new(&rig.evaluator, top);
    let p = composition(&rig, &mut t, &rig.encrypt(&scores, top)?)?;
    push("squarings and Goldschmidt", t.finish(), &p)?;
    for (e, r) in [(7, 31), (15, 63)] {
        let polynomials = Polynomials::new(e, r)?;
        let x = rig.encrypt(&divided(&scores), top)?;
        let mut t = Tracer::new(&rig.evaluator, top);
        let p = polynomials.apply(&rig, &mut t, &x)?;
        push(&polynomials.name, t.finish(), &p)?;
    }
    Ok(out)
}

/// Each kind on a secure chain of seven levels: what is done before the end, and what ends it.
pub fn wall() -> Res<Vec<Wall>> {
    let (scores, _) = reference();
    let params = CkksParameters::new(literal(14, 7, 1, 8).check()?)?;
    let top = params.top_level();
    let rig = Rig::new(&params, &COPIES, top)?;
    let mut out = vec![];
    let mut push = |name: &str, done: Vec<Step>, result: Res<Ciphertext>| {
        let refusal = match result {
            Ok(_) => "none: it ran to its end".into(),
            Err(e) => e.to_string(),
        };
        out.push(Wall {
            name: name.into(),
            done,
            refusal,
        });
    };
    let mut t = Tracer::new(&rig.evaluator, top);
    let result = composition(&rig, &mut t, &rig.encrypt(&scores, top)?);
    push("squarings and Goldschmidt", t.finish(), result);
    let polynomials = Polynomials::new(15, 63)?;
    let x = rig.encrypt(&divided(&scores), top)?;
    let mut t = Tracer::new(&rig.evaluator, top);
    let result = polynomials.apply(&rig, &mut t, &x);
    push(&polynomials.name, t.finish(), result);
    Ok(out)
}
