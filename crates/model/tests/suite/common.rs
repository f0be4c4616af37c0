//! Paths and helpers shared by the tests of this crate.

use cipherloom_model::{Encoded, Mamba2, Tokenizer, Truncation};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap()
        .to_path_buf()
}

/// The shipped model.
pub fn shipped() -> PathBuf {
    root().join("models/mamba2-moviedoc")
}

/// Folder of a fixture outside the repository, or `None` with a message when `../shared` is absent.
/// When `../shared` (or the folder named by CIPHERLOOM_FIXTURES) exists, a missing fixture is a failure.
pub fn fixture(name: &str) -> Option<PathBuf> {
    let base = match std::env::var_os("CIPHERLOOM_FIXTURES") {
        Some(dir) => PathBuf::from(dir),
        None => {
            let shared = root().parent().unwrap().join("shared");
            if !shared.is_dir() {
                eprintln!(
                    "SKIPPED: {} is absent; set CIPHERLOOM_FIXTURES to the fixtures folder to run this test",
                    shared.display()
                );
                return None;
            }
            shared.join("fixtures")
        }
    };
    let dir = base.join(name);
    assert!(dir.is_dir(), "the fixture {} is missing", dir.display());
    Some(dir)
}

/// Lines of a JSON-lines file.
pub fn json_lines(path: &Path) -> Vec<Value> {
    std::fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

pub fn floats(v: &Value) -> Vec<f64> {
    v.as_array()
        .unwrap()
        .iter()
        .map(|x| x.as_f64().unwrap())
        .collect()
}

pub fn max_diff(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter()
        .zip(b)
        .map(|(x, y)| {
            let d = (x - y).abs();
            // NaN must not pass.
            if d.is_nan() {
                f64::INFINITY
            } else {
                d
            }
        })
        .fold(0.0, f64::max)
}

/// Texts of the shipped documents, by id.
pub fn documents() -> Vec<(String, String)> {
    json_lines(&root().join("documents/documents.jsonl"))
        .iter()
        .map(|d| {
            (
                d["id"].as_str().unwrap().to_string(),
                d["text"].as_str().unwrap().to_string(),
            )
        })
        .collect()
}

pub fn encode(t: &Tokenizer, text: &str, length: usize) -> Encoded {
    t.encode(text, length, Truncation::Allow).unwrap()
}

pub fn load(dir: &Path) -> (Mamba2, Tokenizer) {
    let model = Mamba2::load(dir).unwrap();
    let tokenizer = Tokenizer::load(dir, &model.config).unwrap();
    (model, tokenizer)
}

/// A tensor with its bytes, for writing changed model folders.
#[derive(Clone)]
pub struct Raw {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Raw {
    pub fn f32(shape: &[usize], values: &[f32]) -> Self {
        Self {
            dtype: Dtype::F32,
            shape: shape.to_vec(),
            bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }
    }

    pub fn values(&self) -> Vec<f32> {
        assert_eq!(self.dtype, Dtype::F32);
        self.bytes
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    }

    pub fn map(&mut self, f: impl Fn(usize, f32) -> f32) {
        let v: Vec<f32> = self
            .values()
            .into_iter()
            .enumerate()
            .map(|(i, x)| f(i, x))
            .collect();
        *self = Self::f32(&self.shape.clone(), &v);
    }
}

/// A model folder in memory, to be changed and written somewhere.
#[derive(Clone)]
pub struct Folder {
    pub config: Value,
    pub tensors: BTreeMap<String, Raw>,
}

impl Folder {
    pub fn shipped() -> Self {
        let dir = shipped();
        let bytes = std::fs::read(dir.join("model.safetensors")).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let tensors = file
            .tensors()
            .into_iter()
            .map(|(name, t)| {
                let raw = Raw {
                    dtype: t.dtype(),
                    shape: t.shape().to_vec(),
                    bytes: t.data().to_vec(),
                };
                (name, raw)
            })
            .collect();
        let config = std::fs::read_to_string(dir.join("config.json")).unwrap();
        Self {
            config: serde_json::from_str(&config).unwrap(),
            tensors,
        }
    }

    pub fn tensor(&mut self, name: &str) -> &mut Raw {
        self.tensors.get_mut(name).unwrap()
    }

    /// Writes config and weights into a new temporary folder, with the shipped tokenizer.
    pub fn write(&self) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let config = serde_json::to_string(&self.config).unwrap();
        std::fs::write(dir.path().join("config.json"), config).unwrap();
        let views = self.tensors.iter().map(|(name, t)| {
            let view = TensorView::new(t.dtype, t.shape.clone(), &t.bytes).unwrap();
            (name.clone(), view)
        });
        let bytes = safetensors::serialize(views, None).unwrap();
        std::fs::write(dir.path().join("model.safetensors"), bytes).unwrap();
        std::fs::copy(
            shipped().join("tokenizer.json"),
            dir.path().join("tokenizer.json"),
        )
        .unwrap();
        dir
    }
}
