//! Index maps and schedules of the projection and convolution kernels.
//!
//! Segment-column layout (protocols.md 9.2, 9.5): a ciphertext of `n` slots is cut into `n/m` segments of `m` rows; a row is a
//! token of one tile, a segment is a feature. Two token tiles share a ciphertext, one in the real and one in the imaginary
//! lane: both see the same real weights, so no conjugation is needed. Tile `j` is paired with tile `j + tiles/2`, so
//! that the tile before each lane is in the ciphertext before (only the first ciphertext needs one conjugation, in the convolution).
//!
//! A matrix of `d_in` columns is read in groups of `period` columns, a power of two; a group is repeated over all segments,
//! so a rotation by whole segments is cyclic within the group and needs no mask. A matrix with fewer outputs than the period
//! takes `diagonals = outputs` (rounded up to a power of two) and folds the partial sums with log2 rotations.

use crate::SpecError;
use serde::{Deserialize, Serialize};

/// Where tokens and features sit. All numbers are powers of two except `tokens`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenLayout {
    /// Slots of a ciphertext.
    pub slots: usize,
    /// Rows of a segment: tokens of a tile.
    pub rows: usize,
    /// Tokens of the sequence, a multiple of `rows`.
    pub tokens: usize,
}

impl TokenLayout {
    /// Checks the shape.
    ///
    /// # Errors
    /// `Shape` naming what does not fit.
    pub fn new(slots: usize, rows: usize, tokens: usize) -> Result<Self, SpecError> {
        let bad = |detail: String| {
            Err(SpecError::Shape {
                what: "token layout",
                detail,
            })
        };
        if !slots.is_power_of_two() || !rows.is_power_of_two() || rows > slots {
            return bad(format!(
                "{rows} rows and {slots} slots must be powers of two, rows at most slots"
            ));
        }
        if tokens == 0 || !tokens.is_multiple_of(rows) {
            return bad(format!(
                "{tokens} tokens are not a positive multiple of {rows} rows"
            ));
        }
        let tiles = tokens / rows;
        if tiles > 1 && !tiles.is_multiple_of(2) {
            return bad(format!(
                "{tiles} tiles cannot be paired; use one tile or an even number"
            ));
        }
        Ok(Self {
            slots,
            rows,
            tokens,
        })
    }
    /// Segments of a ciphertext.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.slots / self.rows
    }
    /// Token tiles.
    #[must_use]
    pub fn tiles(&self) -> usize {
        self.tokens / self.rows
    }
    /// Whether both lanes are used.
    #[must_use]
    pub fn paired(&self) -> bool {
        self.tiles() > 1
    }
    /// Ciphertexts along the token axis.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.tiles().div_ceil(2)
    }
    /// The token in row `r` of ciphertext `j`, real (`lane = 0`) or imaginary (`lane = 1`) lane; `None` in the unused lane.
    #[must_use]
    pub fn token(&self, j: usize, lane: usize, r: usize) -> Option<usize> {
        match (self.paired(), lane) {
            (false, 0) => Some(r),
            (true, 0 | 1) => Some((j + lane * self.pairs()) * self.rows + r),
            _ => None,
        }
    }
}

/// One plaintext matrix `[outputs][inputs]` as the kernel reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatrixLayout {
    /// The token layout.
    pub tokens: TokenLayout,
    /// Columns of the matrix.
    pub inputs: usize,
    /// Rows of the matrix.
    pub outputs: usize,
    /// Input columns of a group, a power of two of at most the segments.
    pub period: usize,
    /// Diagonals of a group, a power of two of at most `period`.
    pub diagonals: usize,
    /// Baby steps, a power of two that divides `diagonals`.
    pub babies: usize,
}

impl MatrixLayout {
    /// The layout with the fewest key switches.
    ///
    /// # Errors
    /// `Shape` for an empty matrix.
    pub fn new(tokens: TokenLayout, inputs: usize, outputs: usize) -> Result<Self, SpecError> {
        if inputs == 0 || outputs == 0 || inputs > 1 << 20 || outputs > 1 << 20 {
            return Err(SpecError::Shape {
                what: "matrix layout",
                detail: format!("{outputs}x{inputs} is empty or larger than 2^20"),
            });
        }
        let seg = tokens.segments();
        let period = inputs.next_power_of_two().min(seg);
        let out_period = if outputs >= seg {
            seg
        } else {
            outputs.next_power_of_two()
        };
        let diagonals = period.min(out_period);
        let base = Self {
            tokens,
            inputs,
            outputs,
            period,
            diagonals,
            babies: 1,
        };
        let mut best = base;
        let mut babies = 1;
        while babies <= diagonals {
            let c = Self { babies, ..base };
            if c.rotations_per_pair() < best.rotations_per_pair() {
                best = c;
            }
            babies *= 2;
        }
        Ok(best)
    }
    /// Input groups.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.inputs.div_ceil(self.period)
    }
    /// Output ciphertexts of a token pair.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.outputs.div_ceil(self.tokens.segments())
    }
    /// Giant steps.
    #[must_use]
    pub fn giants(&self) -> usize {
        self.diagonals / self.babies
    }
    /// Fold rotations of one output: `log2(period / diagonals)`.
    #[must_use]
    pub fn folds(&self) -> usize {
        (self.period / self.diagonals).trailing_zeros() as usize
    }
    /// Rotations for one token pair.
    #[must_use]
    pub fn rotations_per_pair(&self) -> usize {
        self.groups() * (self.babies - 1) + self.blocks() * (self.giants() - 1 + self.folds())
    }
    /// Plaintext products for one token pair.
    #[must_use]
    pub fn products_per_pair(&self) -> usize {
        self.groups() * self.blocks() * self.diagonals
    }
    /// Rotation steps of the baby steps, in order, without zero.
    #[must_use]
    pub fn baby_steps(&self) -> Vec<i64> {
        (1..self.babies)
            .map(|q| (q * self.tokens.rows) as i64)
            .collect()
    }
    /// Rotation steps of the giant steps, in order, without zero.
    #[must_use]
    pub fn giant_steps(&self) -> Vec<i64> {
        (1..self.giants())
            .map(|p| (p * self.babies * self.tokens.rows) as i64)
            .collect()
    }
    /// Rotation steps of the folds, in order.
    #[must_use]
    pub fn fold_steps(&self) -> Vec<i64> {
        (0..self.folds())
            .map(|f| ((self.diagonals << f) * self.tokens.rows) as i64)
            .collect()
    }
    /// The input feature in segment `c` of group `g`, or `None` where the slot must hold zero.
    #[must_use]
    pub fn input_feature(&self, g: usize, c: usize) -> Option<usize> {
        let f = g * self.period + c % self.period;
        (f < self.inputs).then_some(f)
    }
    /// The matrix entry `(output, input)` that multiplies segment `c` of group `g` in diagonal `(giant, baby)` of block `b`:
    /// the plaintext is already rotated back by the giant step. `None` where the weight is zero.
    #[must_use]
    pub fn entry(
        &self,
        g: usize,
        b: usize,
        giant: usize,
        baby: usize,
        c: usize,
    ) -> Option<(usize, usize)> {
        let seg = self.tokens.segments();
        // After the giant rotation this product lands in segment `to`.
        let to = (c + seg - giant * self.babies % seg) % seg;
        // With folds, segment `to` holds a partial sum of output `to mod diagonals`.
        let out = if self.folds() > 0 {
            to % self.diagonals
        } else {
            to
        };
        let (out, input) = (b * seg + out, g * self.period + (c + baby) % self.period);
        if self.folds() > 0 && to >= self.period {
            return None;
        }
        (out < self.outputs && input < self.inputs).then_some((out, input))
    }
}

/// Rotation steps of a causal depthwise convolution with `taps` taps on tiles of `rows` rows: within a tile, then from the tile before.
#[must_use]
pub fn convolution_steps(rows: usize, taps: usize) -> (Vec<i64>, Vec<i64>) {
    let own = (1..taps).map(|t| -(t as i64)).collect();
    let tail = (1..taps).map(|t| rows as i64 - t as i64).collect();
    (own, tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rot(v: &[f64], r: i64) -> Vec<f64> {
        let n = v.len() as i64;
        (0..n)
            .map(|i| v[((i + r).rem_euclid(n)) as usize])
            .collect()
    }

    /// Plain evaluation of the schedule on one lane.
    fn project(l: &MatrixLayout, x: &[Vec<f64>], w: &dyn Fn(usize, usize) -> f64) -> Vec<Vec<f64>> {
        let (seg, rows) = (l.tokens.segments(), l.tokens.rows);
        let inputs: Vec<Vec<f64>> = (0..l.groups())
            .map(|g| {
                (0..l.tokens.slots)
                    .map(|s| l.input_feature(g, s / rows).map_or(0.0, |f| x[s % rows][f]))
                    .collect()
            })
            .collect();
        (0..l.blocks())
            .map(|b| {
                let mut acc = vec![0.0; l.tokens.slots];
                for p in 0..l.giants() {
                    let mut part = vec![0.0; l.tokens.slots];
                    for (g, xg) in inputs.iter().enumerate() {
                        for q in 0..l.babies {
                            let r = rot(xg, (q * rows) as i64);
                            for (s, v) in part.iter_mut().enumerate() {
                                if let Some((o, i)) = l.entry(g, b, p, q, s / rows) {
                                    *v += r[s] * w(o, i);
                                }
                            }
                        }
                    }
                    for (a, v) in acc.iter_mut().zip(rot(&part, (p * l.babies * rows) as i64)) {
                        *a += v;
                    }
                }
                for step in l.fold_steps() {
                    let r = rot(&acc, step);
                    for (a, v) in acc.iter_mut().zip(r) {
                        *a += v;
                    }
                }
                assert_eq!(acc.len(), seg * rows);
                acc
            })
            .collect()
    }

    #[test]
    fn the_schedule_computes_the_matrix_product() {
        for (slots, rows, d_in, d_out) in [
            (64, 4, 8, 37),
            (64, 4, 16, 8),
            (64, 4, 16, 5),
            (64, 8, 8, 8),
            (64, 4, 40, 20),
            (64, 4, 6, 3),
            (64, 4, 3, 16),
            (32, 2, 16, 2),
        ] {
            let t = TokenLayout::new(slots, rows, rows).unwrap();
            let l = MatrixLayout::new(t, d_in, d_out).unwrap();
            let x: Vec<Vec<f64>> = (0..rows)
                .map(|r| {
                    (0..d_in)
                        .map(|f| ((r * 31 + f * 7) % 13) as f64 - 6.0)
                        .collect()
                })
                .collect();
            let w = |o: usize, i: usize| ((o * 17 + i * 5) % 11) as f64 - 5.0;
            let y = project(&l, &x, &w);
            for o in 0..d_out {
                for (r, xr) in x.iter().enumerate() {
                    let want: f64 = (0..d_in).map(|i| xr[i] * w(o, i)).sum();
                    let got = y[o / t.segments()][(o % t.segments()) * rows + r];
                    assert_eq!(got, want, "{l:?} output {o} row {r}");
                }
            }
        }
    }

    #[test]
    fn the_fixture_shapes_take_few_rotations() {
        let t = TokenLayout::new(8192, 64, 128).unwrap();
        assert!(t.paired() && t.pairs() == 1 && t.segments() == 128);
        let l = MatrixLayout::new(t, 64, 296).unwrap();
        assert_eq!(
            (l.period, l.diagonals, l.blocks(), l.folds()),
            (64, 64, 3, 0)
        );
        assert_eq!(l.rotations_per_pair(), 24);
        let o = MatrixLayout::new(t, 128, 64).unwrap();
        assert_eq!(
            (o.period, o.diagonals, o.folds(), o.blocks()),
            (128, 64, 1, 1)
        );
    }

    #[test]
    fn tokens_are_paired_so_that_the_tile_before_is_the_ciphertext_before() {
        let t = TokenLayout::new(64, 4, 24).unwrap();
        assert_eq!(t.pairs(), 3);
        for j in 1..3 {
            for lane in 0..2 {
                assert_eq!(
                    t.token(j, lane, 0).unwrap(),
                    t.token(j - 1, lane, 3).unwrap() + 1
                );
            }
        }
        assert_eq!(t.token(0, 1, 0).unwrap(), t.token(2, 0, 3).unwrap() + 1);
        assert!(matches!(
            TokenLayout::new(64, 4, 12),
            Err(SpecError::Shape { .. })
        ));
        assert!(matches!(
            TokenLayout::new(64, 3, 12),
            Err(SpecError::Shape { .. })
        ));
        assert_eq!(TokenLayout::new(64, 4, 4).unwrap().token(0, 1, 0), None);
    }
}
