//! A published copy of the shipped model, shared by the tests of this module.

mod damage;
mod folders;

use super::sealed::Sealed;
use super::*;
use cipherloom_model::{Calibration, Mamba2};
use cipherloom_plan::{Plan, Request};
use cipherloom_spec::schedule::Carry;
use std::fs;
use std::path::{Path, PathBuf};

const PIN: [u8; 32] = [0xc4; 32];

fn model_dir() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../models/mamba2-moviedoc"
    ))
}

fn plan(model: &Mamba2, length: usize) -> Plan {
    let calibration = Calibration::load(&model_dir(), model).unwrap();
    let name = "moviedoc";
    let request =
        Request::for_model(name, model, &calibration, length, None, Carry::Serial).unwrap();
    Plan::build(request).unwrap()
}

struct Shipped {
    model: Mamba2,
    plan: Plan,
    out: tempfile::TempDir,
    at: Published,
}

fn published() -> Shipped {
    let model = Mamba2::load(&model_dir()).unwrap();
    let plan = plan(&model, 16);
    let out = tempfile::tempdir().unwrap();
    let at = publish(&model_dir(), &plan, &PIN, out.path()).unwrap();
    Shipped {
        model,
        plan,
        out,
        at,
    }
}

impl Shipped {
    fn client(&self, name: &str) -> PathBuf {
        self.at.client.join(name)
    }

    fn load(&self) -> Result<ClientBundle, BundleError> {
        ClientBundle::load(&self.at.client)
    }

    /// Replaces one file, loads, and puts it back.
    fn with(&self, name: &str, bytes: &[u8]) -> BundleError {
        let path = self.client(name);
        let before = fs::read(&path).unwrap();
        fs::write(&path, bytes).unwrap();
        let e = self.load().err();
        fs::write(&path, before).unwrap();
        e.unwrap_or_else(|| panic!("{name} was accepted"))
    }

    /// As [`Self::with`], by somebody who lists the new file and seals the document again.
    fn forged(&self, name: &str, bytes: &[u8]) -> BundleError {
        let path = self.client(name);
        let before = fs::read(&path).unwrap();
        fs::write(&path, bytes).unwrap();
        let mut d = self.document();
        d.files.insert(name.into(), client::FileDigest::of(bytes));
        let e = self.forged_document(d);
        fs::write(&path, before).unwrap();
        e
    }

    fn document(&self) -> BundleDocument {
        serde_json::from_slice(&fs::read(self.client(BUNDLE_FILE)).unwrap()).unwrap()
    }

    fn forged_document(&self, d: BundleDocument) -> BundleError {
        let bytes = sealed::write(Path::new(BUNDLE_FILE), d).unwrap();
        self.with(BUNDLE_FILE, &bytes)
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut out: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    out.sort();
    out
}

/// Any change of these texts must raise the version of the document.
#[test]
fn the_documents_are_frozen() {
    let write = |d: Vec<u8>| String::from_utf8(d).unwrap();
    let bundle = BundleDocument {
        format: BundleDocument::FORMAT.into(),
        version: BundleDocument::VERSION,
        labels: vec!["no".into(), "yes".into()],
        pin: "aa".repeat(32),
        plan_hash: "bb".repeat(32),
        files: [("plan.json".to_string(), FileDigest::of(b"plan"))].into(),
        digest: String::new(),
    };
    let path = Path::new("x");
    assert_eq!(write(sealed::write(path, bundle).unwrap()), BUNDLE);
    let deployment = DeploymentDocument {
        format: DeploymentDocument::FORMAT.into(),
        version: DeploymentDocument::VERSION,
        plan_hash: "bb".repeat(32),
        weights_checksum: "0123456789abcdef".into(),
        pin: "aa".repeat(32),
        digest: String::new(),
    };
    assert_eq!(write(sealed::write(path, deployment).unwrap()), DEPLOYMENT);
    let text: TextConfig = serde_json::from_str(CONFIG).unwrap();
    assert_eq!(serde_json::to_string_pretty(&text).unwrap(), CONFIG);
}

const BUNDLE: &str = r#"{
  "format": "cipherloom-bundle",
  "version": 1,
  "labels": [
    "no",
    "yes"
  ],
  "pin": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
  "plan_hash": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
  "files": {
    "plan.json": {
      "bytes": 4,
      "blake3": "29fde71e3ef298312227db745efc78ceb1c4e97c3a45f8e1f3f8680fa8a8f9ac"
    }
  },
  "digest": "4d7fe65abe0e97c597862db09e668960b9568452bd08204a90130e9ed7efebe4"
}
"#;
const DEPLOYMENT: &str = r#"{
  "format": "cipherloom-deployment",
  "version": 1,
  "plan_hash": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
  "weights_checksum": "0123456789abcdef",
  "pin": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
  "digest": "2223cc0e7546de5073851b9d635fb73561d9afc17245eef8ced5d17b753b5417"
}
"#;
const CONFIG: &str = r#"{
  "vocab_size": 10,
  "hidden_size": 4,
  "pooling": "mean",
  "truncation_side": "left",
  "pad_token_id": 0
}"#;
