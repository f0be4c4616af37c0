//! Reading `model.safetensors`: header first, then only the tensors that are needed.

use crate::error::{ModelError, Problem};
use safetensors::tensor::{Dtype, Metadata};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Largest header that is read. A header needs about 100 bytes a tensor.
const HEADER_LIMIT: u64 = 16 << 20;
/// Weights above this magnitude are refused: no trained model has them, and they would leave the
/// fixed-point format.
pub(crate) const WEIGHT_LIMIT: f64 = (1u32 << 20) as f64;

/// An open weights file with its checked header.
pub(crate) struct TensorFile {
    path: PathBuf,
    file: File,
    metadata: Metadata,
    /// Offset of the first tensor byte.
    start: u64,
    /// Tensors that somebody asked for.
    used: Vec<String>,
}

impl TensorFile {
    /// Opens `model.safetensors` in `dir` and checks its header against the size of the file.
    pub(crate) fn open(dir: &Path) -> Result<Self, ModelError> {
        let path = dir.join("model.safetensors");
        let weights = |reason: String| ModelError::Weights {
            path: path.clone(),
            reason,
        };
        let mut file = File::open(&path).map_err(|source| {
            for (other, advice) in [
                (
                    "pytorch_model.bin",
                    "pickle files are not read; save the weights as model.safetensors",
                ),
                (
                    "model.safetensors.index.json",
                    "sharded weights are not read; save them as one model.safetensors",
                ),
            ] {
                if dir.join(other).exists() {
                    return weights(format!("missing, but {other} is there: {advice}"));
                }
            }
            ModelError::Io {
                path: path.clone(),
                source,
            }
        })?;
        let io = |source| ModelError::Io {
            path: path.clone(),
            source,
        };
        let size = file.metadata().map_err(io)?.len();
        if size < 8 {
            return Err(weights(format!(
                "truncated: {size} bytes, the header length alone needs 8"
            )));
        }
        let mut word = [0u8; 8];
        file.read_exact(&mut word).map_err(io)?;
        let header = u64::from_le_bytes(word);
        if header > HEADER_LIMIT {
            return Err(weights(format!(
                "corrupt: the header claims {header} bytes, at most {HEADER_LIMIT} are accepted"
            )));
        }
        if header > size - 8 {
            return Err(weights(format!(
                "truncated: the header claims {header} bytes, the file has {} after its length",
                size - 8
            )));
        }
        let mut text = vec![0u8; header as usize];
        file.read_exact(&mut text).map_err(io)?;
        // The parser checks that offsets are contiguous and that each tensor has the size of its shape.
        let metadata: Metadata =
            serde_json::from_slice(&text).map_err(|e| weights(format!("corrupt header: {e}")))?;
        let found = size - 8 - header;
        let claimed = metadata.data_len() as u64;
        if claimed != found {
            return Err(weights(format!(
                "truncated or corrupt: the header describes {claimed} bytes of tensors, the file has {found}"
            )));
        }
        Ok(Self {
            path,
            file,
            metadata,
            start: 8 + header,
            used: Vec::new(),
        })
    }

    /// Does the file have this tensor?
    pub(crate) fn has(&self, name: &str) -> bool {
        self.metadata.info(name).is_some()
    }

    /// Checks presence, shape and type without reading the values. The tensor counts as used.
    pub(crate) fn expect(&mut self, name: &str, shape: &[usize], problems: &mut Vec<Problem>) {
        self.used.push(name.to_string());
        let Some(info) = self.metadata.info(name) else {
            problems.push(Problem::MissingTensor {
                name: name.to_string(),
                shape: shape.to_vec(),
            });
            return;
        };
        if info.shape != shape {
            problems.push(Problem::Shape {
                name: name.to_string(),
                expected: shape.to_vec(),
                found: info.shape.clone(),
            });
        }
        if !matches!(
            info.dtype,
            Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::BF16
        ) {
            problems.push(Problem::Dtype {
                name: name.to_string(),
                dtype: info.dtype.to_string(),
            });
        }
    }

    /// Lists the tensors that nobody asked for.
    pub(crate) fn refuse_the_rest(&self, problems: &mut Vec<Problem>) {
        let all: BTreeMap<String, Vec<usize>> = self
            .metadata
            .tensors()
            .into_iter()
            .map(|(k, v)| (k, v.shape.clone()))
            .collect();
        for (name, shape) in all {
            if !self.used.contains(&name) {
                problems.push(Problem::UnexpectedTensor { name, shape });
            }
        }
    }

    /// Reads a tensor that passed [`Self::expect`], as `f64`, and checks every value.
    pub(crate) fn read(
        &mut self,
        name: &str,
        problems: &mut Vec<Problem>,
    ) -> Result<Vec<f64>, ModelError> {
        let Some(info) = self.metadata.info(name) else {
            return Err(ModelError::Weights {
                path: self.path.clone(),
                reason: format!("tensor `{name}` is missing"),
            });
        };
        let (dtype, (from, to)) = (info.dtype, info.data_offsets);
        let io = |source| ModelError::Io {
            path: self.path.clone(),
            source,
        };
        // The size was checked against the file, so the allocation is bounded by it.
        let mut bytes = vec![0u8; to - from];
        self.file
            .seek(SeekFrom::Start(self.start + from as u64))
            .map_err(io)?;
        self.file.read_exact(&mut bytes).map_err(io)?;
        let values = decode(dtype, &bytes);
        let bad = |v: &f64| !v.is_finite();
        let huge = |v: &f64| v.is_finite() && v.abs() > WEIGHT_LIMIT;
        if let Some(first) = values.iter().position(bad) {
            problems.push(Problem::NotFinite {
                name: name.to_string(),
                count: values.iter().filter(|v| bad(v)).count(),
                first,
            });
        }
        if let Some(first) = values.iter().position(huge) {
            problems.push(Problem::TooLarge {
                name: name.to_string(),
                count: values.iter().filter(|v| huge(v)).count(),
                first,
                value: values[first],
                limit: WEIGHT_LIMIT,
            });
        }
        Ok(values)
    }
}

/// Little-endian values as `f64`. Types other than the four floats give nothing.
fn decode(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    match dtype {
        Dtype::F64 => bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|b| f64::from_le_bytes(*b))
            .collect(),
        Dtype::F32 => bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|b| f64::from(f32::from_le_bytes(*b)))
            .collect(),
        Dtype::F16 => bytes
            .as_chunks::<2>()
            .0
            .iter()
            .map(|b| half_to_f64(u16::from_le_bytes(*b)))
            .collect(),
        Dtype::BF16 => bytes
            .as_chunks::<2>()
            .0
            .iter()
            // The upper half of an f32.
            .map(|b| f64::from(f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16)))
            .collect(),
        _ => Vec::new(),
    }
}

/// IEEE binary16.
fn half_to_f64(h: u16) -> f64 {
    let sign = if h >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from((h >> 10) & 31);
    let fraction = f64::from(h & 1023);
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        e => (1.0 + fraction / 1024.0) * 2f64.powi(e - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_decode_to_known_values() {
        for (bits, value) in [
            (0x0000, 0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 5.960_464_477_539_063e-8),
            (0x0400, 6.103_515_625e-5),
            (0x3555, 0.333_251_953_125),
            (0x7c00, f64::INFINITY),
        ] {
            assert_eq!(half_to_f64(bits), value);
        }
        assert!(half_to_f64(0x7c01).is_nan());
        assert_eq!(decode(Dtype::BF16, &[0x80, 0x3f, 0x40, 0xc0]), [1.0, -3.0]);
        assert_eq!(decode(Dtype::F32, &1.5f32.to_le_bytes()), [1.5]);
        assert_eq!(decode(Dtype::F64, &(-0.1f64).to_le_bytes()), [-0.1]);
    }
}
