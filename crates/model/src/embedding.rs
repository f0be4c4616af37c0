//! The public embedding table alone, for clients that hold no other weight.
//!
//! On disk it is a safetensors file with one `F32` tensor, [`TENSOR`]. The reader accepts exactly the bytes that the writer
//! makes for a shape, so there is no header to parse.

use crate::error::ModelError;
use crate::matrix::Matrix;

/// Name of the only tensor in the file.
pub const TENSOR: &str = "embedding.weight";

/// The table, `[rows, cols]` row-major: one row a token. Four bytes a value.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddingTable {
    rows: usize,
    cols: usize,
    data: Vec<f32>,
}

/// Length and header of a safetensors file for this shape; the values follow.
fn header(rows: usize, cols: usize) -> Vec<u8> {
    let data = 4 * rows as u64 * cols as u64;
    let mut text = format!(
        "{{\"{TENSOR}\":{{\"dtype\":\"F32\",\"shape\":[{rows},{cols}],\"data_offsets\":[0,{data}]}}}}"
    );
    // The format aligns the values to eight bytes by trailing spaces.
    while !text.len().is_multiple_of(8) {
        text.push(' ');
    }
    let mut out = (text.len() as u64).to_le_bytes().to_vec();
    out.extend_from_slice(text.as_bytes());
    out
}

impl EmbeddingTable {
    /// Takes a model's table. Values are stored as `f32`: exact for tables of 32 or fewer bits, rounded to nearest for `F64`.
    ///
    /// # Errors
    /// The first value that is not finite as `f32`, by row and column.
    pub fn of(table: &Matrix) -> Result<Self, String> {
        Self::checked(
            table.rows,
            table.cols,
            table.data.iter().map(|&v| v as f32).collect(),
        )
    }

    fn checked(rows: usize, cols: usize, data: Vec<f32>) -> Result<Self, String> {
        if data.len() != rows * cols {
            return Err(format!(
                "{} values for a table of {rows} x {cols}",
                data.len()
            ));
        }
        let limit = crate::tensors::WEIGHT_LIMIT as f32;
        // NaN fails this comparison too.
        match data
            .iter()
            .position(|v| !matches!(v.abs().partial_cmp(&limit), Some(o) if o.is_le()))
        {
            Some(i) => Err(format!(
                "value {} at row {}, column {} is not finite or above {limit} in magnitude",
                data[i],
                i / cols.max(1),
                i % cols.max(1)
            )),
            None => Ok(Self { rows, cols, data }),
        }
    }

    /// Bytes of the file for a shape.
    #[must_use]
    pub fn file_bytes(rows: usize, cols: usize) -> u64 {
        header(rows, cols).len() as u64 + 4 * rows as u64 * cols as u64
    }

    /// The file.
    #[must_use]
    pub fn to_safetensors(&self) -> Vec<u8> {
        let mut out = header(self.rows, self.cols);
        out.reserve(4 * self.data.len());
        for v in &self.data {
            out.extend_from_slice(&v.to_le_bytes());
        }
        out
    }

    /// Reads a file that [`Self::to_safetensors`] wrote for a table of this shape.
    ///
    /// # Errors
    /// Says what is wrong: the length, the header, or the first value that is not finite or absurd (above 2^20).
    pub fn from_safetensors(bytes: &[u8], rows: usize, cols: usize) -> Result<Self, String> {
        let need = Self::file_bytes(rows, cols);
        if bytes.len() as u64 != need {
            return Err(format!(
                "{} bytes, a table of {rows} x {cols} has {need}",
                bytes.len()
            ));
        }
        let head = header(rows, cols);
        let (given, values) = bytes.split_at(head.len());
        if given != head {
            return Err(format!(
                "the header is not that of one F32 tensor `{TENSOR}` of {rows} x {cols}"
            ));
        }
        let data = values
            .as_chunks::<4>()
            .0
            .iter()
            .map(|b| f32::from_le_bytes(*b))
            .collect();
        Self::checked(rows, cols, data)
    }

    /// Rows: the vocabulary.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns: the hidden width.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The rows of these tokens, one after the other, `[ids.len()][cols]`.
    ///
    /// # Errors
    /// [`ModelError::TokenId`] for an id outside the table.
    pub fn embed(&self, ids: &[u32]) -> Result<Vec<f64>, ModelError> {
        let mut out = Vec::with_capacity(ids.len() * self.cols);
        for (position, &id) in ids.iter().enumerate() {
            let from = id as usize * self.cols;
            let row = self.data.get(from..from + self.cols);
            let Some(row) = row.filter(|_| (id as usize) < self.rows) else {
                return Err(ModelError::TokenId {
                    id,
                    position,
                    vocab: self.rows,
                });
            };
            out.extend(row.iter().map(|&v| f64::from(v)));
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use safetensors::tensor::{Dtype, SafeTensors};

    fn table() -> EmbeddingTable {
        EmbeddingTable::of(&Matrix {
            rows: 3,
            cols: 2,
            data: vec![1.0, -2.5, 0.0, 1e-3, 7.0, -0.125],
        })
        .unwrap()
    }

    #[test]
    fn the_file_is_safetensors_with_one_tensor_and_comes_back() {
        let t = table();
        let bytes = t.to_safetensors();
        assert_eq!(bytes.len() as u64, EmbeddingTable::file_bytes(3, 2));
        let read = SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(read.names(), [TENSOR]);
        let tensor = read.tensor(TENSOR).unwrap();
        assert_eq!((tensor.dtype(), tensor.shape()), (Dtype::F32, &[3, 2][..]));
        assert_eq!(&tensor.data()[4..8], (-2.5f32).to_le_bytes());
        assert_eq!(EmbeddingTable::from_safetensors(&bytes, 3, 2).unwrap(), t);
        assert_eq!(
            t.embed(&[2, 0]).unwrap(),
            [7.0, -0.125, 1.0, -2.5],
            "rows by token"
        );
        assert!(matches!(
            t.embed(&[0, 3]),
            Err(ModelError::TokenId {
                id: 3,
                position: 1,
                vocab: 3
            })
        ));
    }

    #[test]
    fn other_lengths_headers_shapes_and_values_are_refused() {
        let bytes = table().to_safetensors();
        let read = EmbeddingTable::from_safetensors;
        for cut in [0, 7, bytes.len() - 1] {
            assert!(read(&bytes[..cut], 3, 2).unwrap_err().contains("bytes"));
        }
        // The same number of values in another shape differs in the header.
        assert!(read(&bytes, 2, 3).unwrap_err().contains("header"));
        for at in 0..header(3, 2).len() {
            let mut b = bytes.clone();
            b[at] ^= 1;
            assert!(read(&b, 3, 2).unwrap_err().contains("header"), "byte {at}");
        }
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 2e6] {
            let mut b = bytes.clone();
            let at = b.len() - 8;
            b[at..at + 4].copy_from_slice(&bad.to_le_bytes());
            let e = read(&b, 3, 2).unwrap_err();
            assert!(e.contains("row 2, column 0"), "{e}");
        }
    }
}
