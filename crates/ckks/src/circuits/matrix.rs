//! Matrices by their diagonals, in the clear.

use std::collections::BTreeMap;

use crate::complex::Complex64;
use crate::error::CkksError;

/// A square matrix of power-of-two size n, as its non-zero diagonals: diagonal k holds `M[i][(i + k) mod n]` for
/// i in 0..n. It acts on slot vectors of period n: a vector of n values, repeated to fill the slots
/// ([`crate::Encoder::encode_repeated`]).
#[derive(Clone, Debug, PartialEq)]
pub struct DiagonalMatrix {
    size: usize,
    diagonals: BTreeMap<usize, Vec<Complex64>>,
}

/// Largest size: the slots of the largest ring.
const MAX_SIZE: usize = 1 << 16;

impl DiagonalMatrix {
    /// The zero matrix of size n.
    ///
    /// # Errors
    /// `Matrix` unless n is a power of two up to 2^16.
    pub fn zero(size: usize) -> Result<Self, CkksError> {
        if !size.is_power_of_two() || size > MAX_SIZE {
            return Err(CkksError::Matrix {
                what: "size",
                got: size,
                rule: "a power of two",
                max: MAX_SIZE,
            });
        }
        Ok(Self {
            size,
            diagonals: BTreeMap::new(),
        })
    }

    /// A matrix from rows of equal length, padded with zeros to the next power of two. Diagonals of zeros are left out.
    ///
    /// # Errors
    /// `Empty`, `Count` for rows of different lengths, `NotFinite`, `Matrix` above 2^16.
    pub fn from_rows(rows: &[Vec<Complex64>]) -> Result<Self, CkksError> {
        let width = rows.first().map_or(0, Vec::len);
        if width == 0 {
            return Err(CkksError::Empty { op: "matrix" });
        }
        let mut out = Self::zero(rows.len().max(width).next_power_of_two())?;
        for (i, row) in rows.iter().enumerate() {
            if row.len() != width {
                return Err(CkksError::Count {
                    op: "matrix rows",
                    left: width,
                    right: row.len(),
                });
            }
            for (j, &v) in row.iter().enumerate() {
                if !v.is_finite() {
                    return Err(CkksError::NotFinite {
                        index: i * width + j,
                    });
                }
                if v != Complex64::ZERO {
                    let k = (j + out.size - i) % out.size;
                    out.diagonals
                        .entry(k)
                        .or_insert_with(|| vec![Complex64::ZERO; out.size])[i] = v;
                }
            }
        }
        Ok(out)
    }

    /// As [`DiagonalMatrix::from_rows`] for real entries in row-major order.
    ///
    /// # Errors
    /// As [`DiagonalMatrix::from_rows`]; `Count` unless there are `rows * columns` entries.
    pub fn from_real(rows: usize, columns: usize, entries: &[f64]) -> Result<Self, CkksError> {
        if rows.checked_mul(columns) != Some(entries.len()) || columns == 0 {
            return Err(CkksError::Count {
                op: "matrix entries",
                left: entries.len(),
                right: rows.saturating_mul(columns),
            });
        }
        let rows: Vec<Vec<Complex64>> = entries
            .chunks_exact(columns)
            .map(|r| r.iter().map(|&v| v.into()).collect())
            .collect();
        Self::from_rows(&rows)
    }

    /// Sets diagonal `k` modulo the size (negative: below the main one). One of zeros only is left out.
    ///
    /// # Errors
    /// `Count` unless there are as many values as the size, `NotFinite`.
    pub fn set_diagonal(&mut self, k: i64, values: &[Complex64]) -> Result<(), CkksError> {
        if values.len() != self.size {
            return Err(CkksError::Count {
                op: "diagonal",
                left: self.size,
                right: values.len(),
            });
        }
        if let Some(index) = values.iter().position(|v| !v.is_finite()) {
            return Err(CkksError::NotFinite { index });
        }
        let k = k.rem_euclid(self.size as i64) as usize;
        if values.iter().all(|&v| v == Complex64::ZERO) {
            self.diagonals.remove(&k);
        } else {
            self.diagonals.insert(k, values.to_vec());
        }
        Ok(())
    }

    /// The size n.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The non-zero diagonals, ascending.
    pub fn diagonals(&self) -> impl ExactSizeIterator<Item = (usize, &[Complex64])> + '_ {
        self.diagonals.iter().map(|(&k, v)| (k, v.as_slice()))
    }

    /// The matrix times a number: the place to fold a constant factor into, at no cost.
    #[must_use]
    pub fn scaled(&self, factor: Complex64) -> Self {
        let diagonals = self
            .diagonals
            .iter()
            .map(|(&k, v)| (k, v.iter().map(|&x| x * factor).collect()))
            .collect();
        Self {
            size: self.size,
            diagonals,
        }
    }

    /// `M x` in double precision.
    ///
    /// # Errors
    /// `Count` unless x has as many entries as the size.
    pub fn times(&self, x: &[Complex64]) -> Result<Vec<Complex64>, CkksError> {
        if x.len() != self.size {
            return Err(CkksError::Count {
                op: "matrix times vector",
                left: self.size,
                right: x.len(),
            });
        }
        let mut out = vec![Complex64::ZERO; self.size];
        for (&k, d) in &self.diagonals {
            for (i, (o, &v)) in out.iter_mut().zip(d).enumerate() {
                *o += v * x[(i + k) % self.size];
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_diagonals_give_the_same_product() {
        let (rows, columns) = (3, 5);
        let entries: Vec<f64> = (0..15).map(|i| f64::from((i * 7) % 5) - 1.0).collect();
        let m = DiagonalMatrix::from_real(rows, columns, &entries).unwrap();
        assert_eq!(m.size(), 8);
        let mut x = vec![Complex64::ZERO; 8];
        for (i, v) in x.iter_mut().take(columns).enumerate() {
            *v = Complex64::new(i as f64, 1.0 - i as f64);
        }
        let got = m.times(&x).unwrap();
        for (i, g) in got.iter().enumerate() {
            let mut want = Complex64::ZERO;
            if i < rows {
                for j in 0..columns {
                    want += x[j].scaled(entries[i * columns + j]);
                }
            }
            assert!((*g - want).abs() < 1e-12);
        }
        let doubled = m.scaled(Complex64::I).times(&x).unwrap();
        assert_eq!(doubled[1], got[1] * Complex64::I);
    }

    #[test]
    fn bad_shapes_are_named() {
        assert!(matches!(
            DiagonalMatrix::zero(12),
            Err(CkksError::Matrix { got: 12, .. })
        ));
        assert!(DiagonalMatrix::from_real(2, 2, &[1.0; 3]).is_err());
        assert!(DiagonalMatrix::from_real(0, 0, &[]).is_err());
        assert!(matches!(
            DiagonalMatrix::from_real(2, 2, &[1.0, 2.0, f64::NAN, 0.0]),
            Err(CkksError::NotFinite { index: 2 })
        ));
        let mut m = DiagonalMatrix::zero(4).unwrap();
        assert!(m.set_diagonal(1, &[Complex64::ONE; 3]).is_err());
        m.set_diagonal(-1, &[Complex64::ONE; 4]).unwrap();
        assert_eq!(m.diagonals().next().unwrap().0, 3);
        m.set_diagonal(3, &[Complex64::ZERO; 4]).unwrap();
        assert_eq!(m.diagonals().len(), 0);
    }
}
