//! Projection with plaintext weights: baby-step–giant-step over diagonals of segment-column ciphertexts (protocols 9.2, 9.5).
//!
//! `y = W x` for every token of every tile: input groups `x_g` hold one feature a segment; the plaintext of diagonal
//! `(giant, baby)` holds the weights that meet there. Per output: `y = fold( sum_p rot( sum_{g,q} rot(x_g, q) w_{g,p,q}, p ) )`.
//! One level. Weights are encoded once, and a zero diagonal costs what any other does: skipping it would tell where zeros are.

use crate::{KernelError, SlotDomain};
use cipherloom_ckks::Complex64;
use cipherloom_spec::projection::MatrixLayout;

/// The encoded diagonals of one matrix for inputs at one level.
pub struct EncodedMatrix<P> {
    layout: MatrixLayout,
    level: usize,
    /// By block, giant, group, baby.
    diagonals: Vec<P>,
}

impl<P> EncodedMatrix<P> {
    /// Encodes `weight(output, input)` for ciphertexts at `level`: `groups * blocks * diagonals` plaintexts.
    ///
    /// # Errors
    /// Encoding errors: a weight that does not fit, a level without a rescale.
    pub fn encode<D: SlotDomain<Plain = P>>(
        dom: &D,
        layout: MatrixLayout,
        level: usize,
        weight: impl Fn(usize, usize) -> f64,
    ) -> Result<Self, KernelError> {
        let rows = layout.tokens.rows;
        let mut diagonals = Vec::with_capacity(layout.products_per_pair());
        let mut values = vec![0.0; layout.tokens.slots];
        for b in 0..layout.blocks() {
            for p in 0..layout.giants() {
                for g in 0..layout.groups() {
                    for q in 0..layout.babies {
                        for (c, segment) in values.chunks_exact_mut(rows).enumerate() {
                            let w = layout
                                .entry(g, b, p, q, c)
                                .map_or(0.0, |(o, i)| weight(o, i));
                            segment.fill(w);
                        }
                        diagonals.push(dom.encode_real_factor(&values, level)?);
                    }
                }
            }
        }
        Ok(Self {
            layout,
            level,
            diagonals,
        })
    }

    /// The layout.
    #[must_use]
    pub fn layout(&self) -> &MatrixLayout {
        &self.layout
    }

    /// Level of the inputs; outputs are one lower.
    #[must_use]
    pub fn level(&self) -> usize {
        self.level
    }
}

/// Multiplies every token by the matrix. `inputs[pair][group]`, all at the matrix's level; result `[pair][block]`, one level lower.
///
/// Cost a pair: `groups (babies-1) + blocks (giants-1+folds)` rotations, `groups blocks diagonals` plaintext products,
/// `blocks giants` rescales. Peak of live ciphertexts: see `cipherloom-plan`.
///
/// # Errors
/// `Count` for another number of ciphertexts; `LevelMismatch`; missing keys.
pub fn project<D: SlotDomain>(
    dom: &D,
    matrix: &EncodedMatrix<D::Plain>,
    inputs: Vec<Vec<D::Ct>>,
) -> Result<Vec<Vec<D::Ct>>, KernelError> {
    let l = matrix.layout;
    count("projection input pairs", inputs.len(), l.tokens.pairs())?;
    for groups in &inputs {
        count("projection input groups", groups.len(), l.groups())?;
    }
    let (baby_steps, giant_steps, folds) = (l.baby_steps(), l.giant_steps(), l.fold_steps());
    let mut out = Vec::with_capacity(inputs.len());
    for groups in inputs {
        let mut rotated = Vec::with_capacity(groups.len());
        for x in &groups {
            rotated.push(dom.rotate_many(x, &baby_steps)?);
        }
        let mut weights = matrix.diagonals.iter();
        let mut blocks = Vec::with_capacity(l.blocks());
        for _ in 0..l.blocks() {
            let mut sum: Option<D::Ct> = None;
            for p in 0..l.giants() {
                let mut acc = None;
                for (x, babies) in groups.iter().zip(&rotated) {
                    for baby in std::iter::once(x).chain(babies) {
                        let w = weights.next().ok_or(KernelError::Count {
                            what: "diagonals",
                            got: matrix.diagonals.len(),
                            expected: l.products_per_pair(),
                        })?;
                        dom.accumulate(&mut acc, baby, w)?;
                    }
                }
                let part = dom.finish(acc.ok_or(KernelError::Empty { op: "projection" })?)?;
                match (&mut sum, giant_steps.get(p.wrapping_sub(1))) {
                    (Some(s), Some(&step)) => {
                        let r = dom.rotate(&part, step)?;
                        dom.add_assign(s, &r)?;
                    }
                    _ => sum = Some(part),
                }
            }
            let mut sum = sum.ok_or(KernelError::Empty { op: "projection" })?;
            for &step in &folds {
                let r = dom.rotate(&sum, step)?;
                dom.add_assign(&mut sum, &r)?;
            }
            blocks.push(sum);
        }
        out.push(blocks);
    }
    Ok(out)
}

pub(crate) fn count(what: &'static str, got: usize, expected: usize) -> Result<(), KernelError> {
    if got == expected {
        Ok(())
    } else {
        Err(KernelError::Count {
            what,
            got,
            expected,
        })
    }
}

/// Where output feature `o` of token `t` is: pair, block, lane (0 real, 1 imaginary), slot.
#[must_use]
pub fn output_place(l: &MatrixLayout, t: usize, o: usize) -> (usize, usize, usize, usize) {
    let (rows, seg, pairs) = (l.tokens.rows, l.tokens.segments(), l.tokens.pairs());
    let tile = t / rows;
    let (pair, lane) = if l.tokens.paired() {
        (tile % pairs, tile / pairs)
    } else {
        (tile, 0)
    };
    (pair, o / seg, lane, (o % seg) * rows + t % rows)
}

/// Slots of one projection input: for ciphertext `(pair, group)`, the index into a row-major `[tokens][inputs]` tensor of the
/// real and of the imaginary lane, `None` for zero.
#[must_use]
pub fn input_index(
    l: &MatrixLayout,
    pair: usize,
    group: usize,
    lane: usize,
    slot: usize,
) -> Option<usize> {
    let rows = l.tokens.rows;
    let t = l.tokens.token(pair, lane, slot % rows)?;
    Some(t * l.inputs + l.input_feature(group, slot / rows)?)
}

/// Packs a row-major `[tokens][inputs]` tensor for tests and the plain oracle.
#[must_use]
pub fn pack(l: &MatrixLayout, x: &[f64]) -> Vec<Vec<Vec<Complex64>>> {
    let at = |i: Option<usize>| i.and_then(|i| x.get(i)).copied().unwrap_or(0.0);
    (0..l.tokens.pairs())
        .map(|j| {
            (0..l.groups())
                .map(|g| {
                    (0..l.tokens.slots)
                        .map(|s| Complex64 {
                            re: at(input_index(l, j, g, 0, s)),
                            im: at(input_index(l, j, g, 1, s)),
                        })
                        .collect()
                })
                .collect()
        })
        .collect()
}
