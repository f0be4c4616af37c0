//! What projection and convolution cost: arithmetic on shapes.

use super::KernelCost;
use cipherloom_spec::cost::HeCounts;
use cipherloom_spec::projection::{convolution_steps, MatrixLayout};

/// A projection of all token pairs.
#[must_use]
pub fn projection(l: &MatrixLayout) -> KernelCost {
    let pairs = l.tokens.pairs() as u64;
    let (groups, blocks, babies, giants, folds) = (
        l.groups() as u64,
        l.blocks() as u64,
        l.babies as u64,
        l.giants() as u64,
        l.folds() as u64,
    );
    let he = HeCounts {
        rotations: pairs * (groups * (babies - 1) + blocks * (giants - 1 + folds)),
        pt_ct: pairs * groups * blocks * babies * giants,
        rescales: pairs * blocks * giants,
        ..HeCounts::default()
    };
    // In the last block: the sum, one giant step's part and its rotation; or the sum and a fold; or one sum.
    let inner = if giants > 1 {
        3
    } else if folds > 0 {
        2
    } else {
        1
    };
    // Inputs of finished pairs are gone, their outputs are there.
    let peak = (0..pairs)
        .map(|j| (pairs - j) * groups + j * blocks + groups * (babies - 1) + blocks - 1 + inner)
        .max()
        .unwrap_or(0);
    KernelCost {
        he,
        peak_live: peak,
        depth: 1,
    }
}

/// The convolution of all outputs of a projection with `taps` taps.
#[must_use]
pub fn convolution(l: &MatrixLayout, taps: usize) -> KernelCost {
    let (pairs, blocks, k) = (l.tokens.pairs() as u64, l.blocks() as u64, taps as u64);
    let paired = u64::from(l.tokens.paired());
    let tails = pairs - 1 + paired;
    let he = HeCounts {
        rotations: blocks * (k - 1) * (pairs + tails),
        conjugations: blocks * paired,
        pt_ct: blocks * (k * pairs + (k - 1) * tails),
        rescales: blocks * pairs,
        ..HeCounts::default()
    };
    let done = (blocks - 1) * pairs;
    let start = if paired == 1 { done + k.max(2) } else { done };
    let peak = (0..pairs)
        .map(|j| {
            let before = if j > 0 || paired == 1 { k - 1 } else { 0 };
            let next = if j + 1 < pairs { k - 1 } else { 0 };
            done + j + before + (k - 1) + next + 1
        })
        .max()
        .unwrap_or(0)
        .max(start);
    KernelCost {
        he,
        peak_live: pairs * blocks + peak,
        depth: 1,
    }
}

fn left(slots: usize, steps: Vec<i64>) -> Vec<usize> {
    let n = slots as i64;
    let mut steps: Vec<usize> = steps
        .into_iter()
        .map(|s| s.rem_euclid(n) as usize)
        .collect();
    steps.sort_unstable();
    steps.dedup();
    steps
}

/// Rotations of a projection's inputs (baby steps), as left rotations in `1..slots`.
#[must_use]
pub fn baby_rotations(l: &MatrixLayout) -> Vec<usize> {
    left(l.tokens.slots, l.baby_steps())
}

/// Rotations of a projection's rescaled parts (giant steps and folds), as left rotations in `1..slots`.
#[must_use]
pub fn late_rotations(l: &MatrixLayout) -> Vec<usize> {
    left(
        l.tokens.slots,
        l.giant_steps().into_iter().chain(l.fold_steps()).collect(),
    )
}

/// Rotation steps that a convolution uses, as left rotations in `1..slots`.
#[must_use]
pub fn convolution_rotations(l: &MatrixLayout, taps: usize) -> Vec<usize> {
    let (own, tail) = convolution_steps(l.tokens.rows, taps);
    let used = if l.tokens.paired() || l.tokens.pairs() > 1 {
        tail
    } else {
        Vec::new()
    };
    left(l.tokens.slots, own.into_iter().chain(used).collect())
}
