//! Attention with one ciphertext for each value: the layout whose counts the paper gives.
//!
//! A token is one ciphertext, its vector repeated. A projected value is a product with a row of weights and a sum by four
//! rotations, after which it is in every slot. Scores and outputs are sums of products of such values.
//! The counts leave no product for a softmax: this is `(Q K^T / 4) V`.

use cipherloom_ckks::{Ciphertext, Plaintext};

use crate::attention::Weights;
use crate::cost::{Extra, Steps};
use crate::layout::{D, N};
use crate::rig::Rig;
use crate::trace::Tracer;
use crate::Res;

/// Rotations of the sum over a repeated token.
pub const ROTATIONS: [i64; 4] = [1, 2, 4, 8];

fn rows(rig: &Rig, w: &[f64], x: &Ciphertext) -> Res<Vec<Plaintext>> {
    let scale = rig.params.product_scale(x.level(), x.scale())?;
    w.chunks_exact(D)
        .map(|row| {
            let row: Vec<_> = row.iter().map(|&v| v.into()).collect();
            Ok(rig.encoder.encode_repeated(&row, x.level(), scale)?)
        })
        .collect()
}

fn project(rig: &Rig, xs: &[Ciphertext], rows: &[Plaintext]) -> Res<Vec<Ciphertext>> {
    let ev = &rig.evaluator;
    let mut out = Vec::with_capacity(xs.len() * rows.len());
    for x in xs {
        for row in rows {
            let y = ev.mul_plain_accumulate(&[(x, row)])?;
            out.push(crate::layout::rotate_sum(ev, &y, &ROTATIONS)?);
        }
    }
    Ok(out)
}

/// One sum of products for each pair: one relinearisation and one rescale.
fn dot(rig: &Rig, a: &[&Ciphertext], b: &[&Ciphertext]) -> Res<Ciphertext> {
    let ev = &rig.evaluator;
    let mut sum: Option<Ciphertext> = None;
    for (a, b) in a.iter().zip(b) {
        let product = ev.mul(a, b)?;
        match &mut sum {
            Some(s) => ev.add_assign(s, &product)?,
            None => sum = Some(product),
        }
    }
    let sum = sum.ok_or("a sum needs a term")?;
    Ok(ev.relinearize_rescale(&sum)?)
}

/// Runs from level 3 to the base; returns the outputs, token-major.
pub fn run(rig: &Rig, x: &[f64], w: &Weights) -> Res<(Vec<f64>, Steps)> {
    let (ev, level) = (&rig.evaluator, 3);
    let tokens: Vec<Ciphertext> = x
        .chunks_exact(D)
        .map(|token| rig.encrypt(token, level))
        .collect::<Res<_>>()?;
    // V is needed one level lower.
    let low: Vec<Ciphertext> = tokens
        .iter()
        .map(|x| Ok(ev.drop_level(x, level - 1)?))
        .collect::<Res<_>>()?;
    let query: Vec<f64> = w.q.iter().map(|v| v / (D as f64).sqrt()).collect();
    let [wq, wk] = [rows(rig, &query, &tokens[0])?, rows(rig, &w.k, &tokens[0])?];
    let wv = rows(rig, &w.v, &low[0])?;
    let mut extras = vec![];

    let mut t = Tracer::new(ev, level);
    let q = project(rig, &tokens, &wq)?;
    let k = project(rig, &tokens, &wk)?;
    t.step("project Q and K", &q[0]);
    let adds = |values: usize| Extra {
        hoisted: 0,
        adds: values as u64,
    };
    extras.push(adds(2 * 4 * N * D));
    let mut scores = Vec::with_capacity(N * N);
    for i in 0..N {
        for j in 0..N {
            let row: Vec<_> = q[i * D..(i + 1) * D].iter().collect();
            let column: Vec<_> = k[j * D..(j + 1) * D].iter().collect();
            scores.push(dot(rig, &row, &column)?);
        }
    }
    t.step("scores", &scores[0]);
    extras.push(adds(N * N * (D - 1)));
    t.rewind(&low[0]);
    let v = project(rig, &low, &wv)?;
    t.step("project V", &v[0]);
    extras.push(adds(4 * N * D));
    let mut out = Vec::with_capacity(N * D);
    for i in 0..N {
        for d in 0..D {
            let row: Vec<_> = scores[i * N..(i + 1) * N].iter().collect();
            let column: Vec<_> = (0..N).map(|j| &v[j * D + d]).collect();
            out.push(dot(rig, &row, &column)?);
        }
    }
    t.step("scores times V", &out[0]);
    extras.push(adds(N * D * (N - 1)));
    let steps = t.finish().into_iter().zip(extras).collect();
    let values = out
        .iter()
        .map(|ct| Ok(rig.decrypt(ct)?[0]))
        .collect::<Res<_>>()?;
    Ok((values, steps))
}
