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
    /// The inner loop runs over the outputs, so that it vectorises without reordering any sum.
    pub fn times(&self, w: &Self) -> Self {
        let mut out = Self::zeros(self.rows, w.cols);
        for r in 0..self.rows {
            let acc = &mut out.data[r * w.cols..(r + 1) * w.cols];
            for (x, wrow) in self.row(r).iter().zip(w.data.chunks_exact(w.cols.max(1))) {
                for (a, b) in acc.iter_mut().zip(wrow) {
                    *a += x * b;
                }
            }
        }
        out
    }
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
}
