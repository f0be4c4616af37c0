//! A row-major matrix of `f64`.

/// Row-major matrix: `data[r * cols + c]`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Matrix {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// Values, row by row; `rows * cols` of them.
    pub data: Vec<f64>,
}

impl Matrix {
    /// Matrix of zeros.
    pub fn zeros(rows: usize, cols: usize) -> Self {
        Self {
            rows,
            cols,
            data: vec![0.0; rows * cols],
        }
    }

    /// Row `r` as a slice.
    pub fn row(&self, r: usize) -> &[f64] {
        &self.data[r * self.cols..(r + 1) * self.cols]
    }

    /// Row `r` as a mutable slice.
    pub fn row_mut(&mut self, r: usize) -> &mut [f64] {
        &mut self.data[r * self.cols..(r + 1) * self.cols]
    }

    /// The transposed matrix.
    pub fn transposed(&self) -> Self {
        let mut out = Self::zeros(self.cols, self.rows);
        for r in 0..self.rows {
            for (c, v) in self.row(r).iter().enumerate() {
                out.data[c * self.rows + r] = *v;
            }
        }
        out
    }

    /// Columns `[from, to)` as a new matrix.
    pub fn columns(&self, from: usize, to: usize) -> Self {
        let mut out = Self::zeros(self.rows, to - from);
        for r in 0..self.rows {
            out.row_mut(r).copy_from_slice(&self.row(r)[from..to]);
        }
        out
    }

    /// `self · w` where `w` has `self.cols` rows.
    ///
    /// Tiles of two rows and eight columns stay in registers, and one column tile of `w` stays in the
    /// first cache for all rows. Each sum runs over the inner index in ascending order, whatever the tile.
    pub fn times(&self, w: &Self) -> Self {
        let mut out = Self::zeros(self.rows, w.cols);
        for from in (0..w.cols).step_by(TILE) {
            let width = TILE.min(w.cols - from);
            for r in (0..self.rows).step_by(2) {
                let second = (r + 1).min(self.rows - 1);
                let acc = if width == TILE {
                    tile(self.row(r), self.row(second), w, from)
                } else {
                    narrow_tile(self.row(r), self.row(second), w, from, width)
                };
                out.row_mut(r)[from..from + width].copy_from_slice(&acc[0][..width]);
                out.row_mut(second)[from..from + width].copy_from_slice(&acc[1][..width]);
            }
        }
        out
    }
}

/// Columns of one tile.
const TILE: usize = 8;

/// Eight columns of the product for two rows.
fn tile(x: &[f64], y: &[f64], w: &Matrix, from: usize) -> [[f64; TILE]; 2] {
    let mut acc = [[0.0; TILE]; 2];
    for ((a, b), row) in x.iter().zip(y).zip(w.data.chunks_exact(w.cols)) {
        let Some(row) = row[from..].first_chunk::<TILE>() else {
            return acc;
        };
        for i in 0..TILE {
            acc[0][i] += a * row[i];
            acc[1][i] += b * row[i];
        }
    }
    acc
}

/// The last columns, fewer than a tile.
fn narrow_tile(x: &[f64], y: &[f64], w: &Matrix, from: usize, width: usize) -> [[f64; TILE]; 2] {
    let mut acc = [[0.0; TILE]; 2];
    for ((a, b), row) in x.iter().zip(y).zip(w.data.chunks_exact(w.cols)) {
        for (i, v) in row[from..from + width].iter().enumerate() {
            acc[0][i] += a * v;
            acc[1][i] += b * v;
        }
    }
    acc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_and_transpose_agree_with_hand_values() {
        let a = Matrix {
            rows: 2,
            cols: 3,
            data: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        };
        let t = a.transposed();
        assert_eq!((t.rows, t.cols), (3, 2));
        assert_eq!(t.data, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let p = a.times(&t);
        assert_eq!(p.data, [14.0, 32.0, 32.0, 77.0]);
        assert_eq!(a.columns(1, 3).data, [2.0, 3.0, 5.0, 6.0]);
    }

    #[test]
    fn tiles_of_every_shape_equal_the_plain_sum() {
        for (n, k, m) in [
            (1, 1, 1),
            (1, 5, 8),
            (2, 3, 16),
            (3, 7, 9),
            (5, 64, 23),
            (4, 2, 7),
        ] {
            let fill = |rows: usize, cols: usize, seed: usize| Matrix {
                rows,
                cols,
                data: (0..rows * cols)
                    .map(|i| ((i * 37 + seed) % 101) as f64 / 7.0 - 6.0)
                    .collect(),
            };
            let (a, b) = (fill(n, k, 1), fill(k, m, 2));
            let p = a.times(&b);
            for r in 0..n {
                for c in 0..m {
                    let sum: f64 = (0..k).fold(0.0, |s, i| s + a.row(r)[i] * b.row(i)[c]);
                    assert_eq!(p.row(r)[c], sum);
                }
            }
        }
    }
}
