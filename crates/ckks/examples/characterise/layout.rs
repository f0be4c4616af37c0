//! The packed layout: 8 tokens of dimension 16 in 1024 slots, repeated.
//!
//! Slot `64 k + 8 t + i` belongs to feature k and token i; t in 0..8 is a copy of the token axis. Sums over features
//! are rotations by 64, 128, 256, 512, cyclic in the period of 1024. With t as an offset, slot (k, t, i) of the
//! rotated K and V holds token i + t, so all 64 scores come from one product.

use std::collections::BTreeMap;

use cipherloom_ckks::circuits::DiagonalMatrix;
use cipherloom_ckks::{Ciphertext, Complex64, Evaluator};

use crate::Res;

/// Tokens.
pub const N: usize = 8;
/// Dimension of a token and of a head.
pub const D: usize = 16;
/// Slots in use.
pub const PERIOD: usize = D * N * N;

/// Slot of feature k, copy t, token i.
pub fn slot(k: usize, t: usize, i: usize) -> usize {
    (k * N + t) * N + i
}

/// Token vectors (token-major) into all copies.
pub fn pack(x: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; PERIOD];
    for (s, v) in out.iter_mut().enumerate() {
        *v = x[(s % N) * D + s / (N * N)];
    }
    out
}

/// Token vectors from copy 0.
pub fn unpack(slots: &[f64]) -> Vec<f64> {
    (0..N * D).map(|j| slots[slot(j % D, 0, j / D)]).collect()
}

/// The matrix with this entry for output (k, t, i) and input feature l, where the input is read from `source(l, t, i)`.
fn build(
    entry: impl Fn(usize, usize, usize) -> f64,
    source: impl Fn(usize, usize, usize) -> Option<usize>,
) -> Res<DiagonalMatrix> {
    let mut diagonals: BTreeMap<usize, Vec<Complex64>> = BTreeMap::new();
    for (k, t, i, l) in indices() {
        if let Some(from) = source(l, t, i) {
            let to = slot(k, t, i);
            let d = (from + PERIOD - to) % PERIOD;
            let row = diagonals
                .entry(d)
                .or_insert_with(|| vec![Complex64::ZERO; PERIOD]);
            row[to] += entry(k, t, l).into();
        }
    }
    let mut out = DiagonalMatrix::zero(PERIOD)?;
    for (d, row) in diagonals {
        out.set_diagonal(d as i64, &row)?;
    }
    Ok(out)
}

fn indices() -> impl Iterator<Item = (usize, usize, usize, usize)> {
    (0..PERIOD * D).map(|j| (j / D / (N * N), j / D / N % N, j / D % N, j % D))
}

/// `W x` in every copy, from a packed x. 16 diagonals.
pub fn in_copies(w: &[f64]) -> Res<DiagonalMatrix> {
    build(|k, _, l| w[k * D + l], |l, t, i| Some(slot(l, t, i)))
}

/// `W x` of token i + t in copy t, from a packed x: about 9 x 16 diagonals.
pub fn shifted(w: &[f64]) -> Res<DiagonalMatrix> {
    build(
        |k, _, l| w[k * D + l],
        |l, t, i| {
            // Copies are alike, so the next one stands in for the wrapped token, if there is one.
            let (at, end) = (t * N + i + t, N * N);
            Some(slot(l, 0, 0) + if at < end { at } else { at - N })
        },
    )
}

/// `W x` in copy 0 and zeros in the others, from an x that is right in copy 0 only. 16 diagonals.
pub fn from_copy_0(w: &[f64]) -> Res<DiagonalMatrix> {
    build(
        |k, _, l| w[k * D + l],
        |l, t, i| (t == 0).then(|| slot(l, 0, i)),
    )
}

/// Copy t gets `W_t x` from a packed x: a matrix with 16 `blocks` rows. 16 diagonals.
pub fn wide(w: &[f64], blocks: usize) -> Res<DiagonalMatrix> {
    build(
        |k, t, l| w[(t * D + k) * D + l],
        |l, t, i| (t < blocks).then(|| slot(l, t, i)),
    )
}

/// Every copy gets `sum over t of W_t x_t`, x_t in copy t: a matrix with 16 `blocks` columns (row-major).
pub fn narrow(w: &[f64], blocks: usize) -> Res<DiagonalMatrix> {
    let mut diagonals: BTreeMap<usize, Vec<Complex64>> = BTreeMap::new();
    for (k, t, i, l) in indices() {
        for block in 0..blocks {
            let to = slot(k, t, i);
            let d = (slot(l, block, i) + PERIOD - to) % PERIOD;
            let row = diagonals
                .entry(d)
                .or_insert_with(|| vec![Complex64::ZERO; PERIOD]);
            row[to] += w[k * D * blocks + block * D + l].into();
        }
    }
    let mut out = DiagonalMatrix::zero(PERIOD)?;
    for (d, row) in diagonals {
        out.set_diagonal(d as i64, &row)?;
    }
    Ok(out)
}

/// Rotations of [`sum_features`].
pub const FEATURES: [i64; 4] = [64, 128, 256, 512];
/// Rotations of [`sum_copies`].
pub const COPIES: [i64; 3] = [8, 16, 32];

/// Adds the rotations by each of these in turn.
pub fn rotate_sum(ev: &Evaluator, ct: &Ciphertext, steps: &[i64]) -> Res<Ciphertext> {
    let mut sum = ct.clone();
    for &k in steps {
        sum = ev.add(&sum, &ev.rotate(&sum, k)?)?;
    }
    Ok(sum)
}

/// The sum over features, in every feature.
pub fn sum_features(ev: &Evaluator, ct: &Ciphertext) -> Res<Ciphertext> {
    rotate_sum(ev, ct, &FEATURES)
}

/// The sum over copies: in every copy if all features are alike, else in copy 0.
pub fn sum_copies(ev: &Evaluator, ct: &Ciphertext) -> Res<Ciphertext> {
    rotate_sum(ev, ct, &COPIES)
}

/// Copy 0 into every copy, where the others are zero.
pub fn spread_copies(ev: &Evaluator, ct: &Ciphertext) -> Res<Ciphertext> {
    rotate_sum(ev, ct, &COPIES.map(|k| -k))
}
