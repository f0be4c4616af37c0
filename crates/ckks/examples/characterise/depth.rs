//! Usable depth: products one after the other until there is no level left.

use cipherloom_ckks::{CkksError, CkksParameters};
use serde::Serialize;

use crate::rig::{literal, values, Fidelity, Rig};
use crate::Res;

/// What one chain can do.
#[derive(Serialize)]
pub struct Depth {
    /// All primes, special ones included: what the paper calls the length L of the chain.
    pub primes: usize,
    pub special: usize,
    pub base: usize,
    pub log_qp: f64,
    /// Products that were executed.
    pub products: usize,
    /// After the last one.
    pub fidelity: Fidelity,
    /// What the next one answered.
    pub refusal: String,
}

fn measure(levels: usize, special: usize, dnum: u32) -> Res<Depth> {
    let params = CkksParameters::new(literal(14, levels, special, dnum).check()?)?;
    let top = params.top_level();
    let rig = Rig::new(&params, &[], top)?;
    // Factors near 1, so that the product stays of one size.
    let around_one = |seed| -> Vec<f64> {
        let spread = values(params.slots(), seed);
        spread.iter().map(|v| 1.0 + 0.25 * v).collect()
    };
    let mut want = around_one(1);
    let mut x = rig.encrypt(&want, top)?;
    let mut products = 0;
    let refusal = loop {
        let factor = around_one(products as u64 + 2);
        let y = rig.encrypt(&factor, x.level())?;
        match rig.evaluator.mul_relin_rescale(&x, &y) {
            Ok(next) => x = next,
            Err(e @ CkksError::LevelExhausted { .. }) => break e.to_string(),
            Err(e) => return Err(e.into()),
        }
        want.iter_mut().zip(&factor).for_each(|(w, f)| *w *= f);
        products += 1;
    };
    let chain = params.chain();
    Ok(Depth {
        primes: chain.q().len() + chain.p().len(),
        special: chain.p().len(),
        base: params.base_level() + 1,
        log_qp: chain.log_qp(),
        products,
        fidelity: Fidelity::of(&rig.decrypt(&x)?, &want),
        refusal,
    })
}

/// Chains at N = 2^14, and the answer to one that is too long.
pub fn run() -> Res<(Vec<Depth>, String)> {
    let rows = [(7, 1, 8), (8, 1, 9), (7, 2, 4)];
    let rows = rows
        .into_iter()
        .map(|(levels, special, dnum)| measure(levels, special, dnum))
        .collect::<Res<_>>()?;
    let refused = match literal(14, 9, 1, 10).check() {
        Ok(_) => "accepted".into(),
        Err(e) => e.to_string(),
    };
    Ok((rows, refused))
}
