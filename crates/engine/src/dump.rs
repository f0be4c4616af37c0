//! Shares written to local files, for `--compare-plain` in demos and tests, where one person owns both sides
//! (protocols.md R5). Each party writes its own; a third step joins them. Nothing of this crosses the link.

use crate::stages::Tensors;
use crate::EngineError;
use cipherloom_mpc::Party;
use cipherloom_plan::{Stage, StageKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One party's shares of the tensors that a stage made.
#[derive(Debug, Serialize, Deserialize)]
struct StageShares {
    stage: String,
    layer: Option<usize>,
    tensors: BTreeMap<String, (u32, Vec<u64>)>,
}

/// The values that a stage made, joined.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinedStage {
    /// Stage name.
    pub stage: String,
    /// Block.
    pub layer: Option<usize>,
    /// Values by tensor name.
    pub tensors: BTreeMap<String, Vec<f64>>,
}

/// Writes one file a stage.
pub struct Dump {
    dir: PathBuf,
    party: Party,
}

fn file(dir: &Path, party: Party, id: u16) -> PathBuf {
    let name = match party {
        Party::Client => "client",
        Party::Server => "server",
    };
    dir.join(format!("{name}-{id:05}.json"))
}

/// Tensors that a stage makes.
fn made(kind: StageKind) -> &'static [&'static str] {
    match kind {
        StageKind::Embed | StageKind::Residual => &["h"],
        StageKind::PreNorm => &["u"],
        StageKind::ToShares => &["z", "xbc", "dt"],
        StageKind::Factors => &["x", "b", "c", "delta", "decay", "dtx"],
        StageKind::ScanToShares => &["m"],
        StageKind::Post => &["gated", "y"],
        StageKind::Classify => &["logits"],
        _ => &[],
    }
}

impl Dump {
    /// A dump into `dir`, which must exist.
    ///
    /// # Errors
    /// `File` when it does not.
    pub fn new(dir: &Path, party: Party) -> Result<Self, EngineError> {
        if !dir.is_dir() {
            return Err(EngineError::File {
                path: dir.display().to_string(),
                detail: "is not a directory".into(),
            });
        }
        Ok(Self {
            dir: dir.to_path_buf(),
            party,
        })
    }

    /// Writes what `stage` made.
    ///
    /// # Errors
    /// `File`.
    pub(crate) fn write(&mut self, stage: &Stage, tensors: &Tensors) -> Result<(), EngineError> {
        let names = made(stage.kind);
        if names.is_empty() {
            return Ok(());
        }
        let s = StageShares {
            stage: stage.name.clone(),
            layer: stage.layer,
            tensors: tensors
                .iter()
                .filter(|(n, _)| names.contains(n))
                .map(|(n, s)| (n.to_string(), (s.frac.0, s.v.clone())))
                .collect(),
        };
        let path = file(&self.dir, self.party, stage.id);
        let fail = |detail: String| EngineError::File {
            path: path.display().to_string(),
            detail,
        };
        let text = serde_json::to_vec(&s).map_err(|e| fail(e.to_string()))?;
        std::fs::write(&path, text).map_err(|e| fail(e.to_string()))
    }
}

/// Joins both parties' files of the given stages.
///
/// # Errors
/// `File` for a missing or malformed file, or shares that do not fit together.
pub fn join(dir: &Path, stages: &[Stage]) -> Result<Vec<JoinedStage>, EngineError> {
    let read = |party: Party, id: u16| -> Result<StageShares, EngineError> {
        let path = file(dir, party, id);
        let fail = |detail: String| EngineError::File {
            path: path.display().to_string(),
            detail,
        };
        let text = std::fs::read(&path).map_err(|e| fail(e.to_string()))?;
        serde_json::from_slice(&text).map_err(|e| fail(e.to_string()))
    };
    let mut out = Vec::new();
    for s in stages.iter().filter(|s| !made(s.kind).is_empty()) {
        let (a, b) = (read(Party::Client, s.id)?, read(Party::Server, s.id)?);
        let mut tensors = BTreeMap::new();
        for (name, (frac, words)) in a.tensors {
            let Some((_, other)) = b
                .tensors
                .get(&name)
                .filter(|(f, o)| *f == frac && o.len() == words.len())
            else {
                return Err(EngineError::File {
                    path: dir.display().to_string(),
                    detail: format!(
                        "the shares of {name} in stage {} do not fit together",
                        s.name
                    ),
                });
            };
            let logits = name == "logits";
            let unit = f64::from(frac).exp2();
            let join = |x: u64, y: u64| {
                let v = x.wrapping_add(y);
                // Logits live modulo 2^32.
                if logits {
                    f64::from(v as u32 as i32) / unit
                } else {
                    v as i64 as f64 / unit
                }
            };
            tensors.insert(
                name,
                words.iter().zip(other).map(|(&x, &y)| join(x, y)).collect(),
            );
        }
        out.push(JoinedStage {
            stage: a.stage,
            layer: a.layer,
            tensors,
        });
    }
    Ok(out)
}
