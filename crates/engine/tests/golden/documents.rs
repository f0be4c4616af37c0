//! Documents: both published folders of the tiny model, the shipped model's plan, calibration, machine profile.

use super::targets::engine::{folders, PIN};
use super::targets::model::tiny;
use super::targets::plan::tiny_plan;
use super::targets::support::{put, temp_dir};
use super::{folder, golden};
use cipherloom_engine::bundle::{
    BundleDocument, BundleError, ClientBundle, Deployment, DeploymentDocument, TextConfig,
};
use cipherloom_engine::handshake::hex;
use cipherloom_model::{Calibration, Mamba2, ModelError, Pooling, Side, Truncation};
use cipherloom_plan::{MachineProfile, Plan, PlanError, Request, Ring};
use cipherloom_spec::approx::Stack;
use cipherloom_spec::schedule::Carry;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A published folder; `side` is `client` or `server`.
fn published(side: &str) -> PathBuf {
    let files = match side {
        "client" => &folders().client,
        _ => &folders().server,
    };
    for (name, bytes) in files {
        golden(&format!("published/{side}/{name}"), || bytes.clone());
    }
    folder().join("published").join(side)
}

fn copy(from: &Path) -> tempfile::TempDir {
    let to = temp_dir();
    for f in std::fs::read_dir(from).unwrap() {
        let f = f.unwrap();
        put(
            to.path(),
            &f.file_name().to_string_lossy(),
            &std::fs::read(f.path()).unwrap(),
        );
    }
    to
}

/// Replaces one text in a file.
fn replace(dir: &Path, name: &str, from: &str, to: &str) {
    let text = std::fs::read_to_string(dir.join(name)).unwrap();
    assert!(text.contains(from), "{name} has no {from}");
    put(dir, name, text.replacen(from, to, 1).as_bytes());
}

const VERSION: [&str; 2] = ["\"version\": 1", "\"version\": 99"];

fn pretty<T: serde::Serialize>(v: &T) -> Vec<u8> {
    let mut out = serde_json::to_vec_pretty(v).unwrap();
    out.push(b'\n');
    out
}

#[test]
fn a_bundle() {
    let dir = published("client");
    let b = ClientBundle::load(&dir).unwrap();
    assert_eq!(b.labels, ["negative", "positive"]);
    assert_eq!((b.pin, b.pooling), (PIN, Pooling::Mean));
    assert_eq!(b.plan.request().length, 16);
    let text = b.encode("A very good film", Truncation::Refuse).unwrap();
    assert_eq!((&text.ids[..5], text.real), (&[1, 11, 6, 4, 0][..], 4));
    let input = b.input(&text).unwrap();
    let row = |word: usize| &tiny().model.embeddings.data[16 * word..16 * (word + 1)];
    assert_eq!(input.embedded[..16], *row(1));
    assert_eq!(input.embedded[16..32], *row(11));
    assert_eq!(input.pooling[3..5], [0.25, 0.0]);
    // Written again.
    let read = |name: &str| std::fs::read(dir.join(name)).unwrap();
    let document: BundleDocument = serde_json::from_slice(&read("bundle.json")).unwrap();
    assert_eq!(document.plan_hash, hex(&b.plan.hash()));
    assert_eq!(document.files.len(), 4);
    assert_eq!(pretty(&document), read("bundle.json"));
    let config: TextConfig = serde_json::from_slice(&read("config.json")).unwrap();
    assert_eq!(
        (
            config.vocab_size,
            config.hidden_size,
            config.truncation_side,
            config.pad_token_id
        ),
        (12, 16, Side::Left, 0)
    );
    assert_eq!(
        serde_json::to_vec_pretty(&config).unwrap(),
        read("config.json")
    );
    assert_eq!(b.embedding.to_safetensors(), read("embedding.safetensors"));
    assert_eq!(b.plan.to_json().unwrap().into_bytes(), read("plan.json"));

    let other = copy(&dir);
    replace(other.path(), "bundle.json", VERSION[0], VERSION[1]);
    let e = ClientBundle::load(other.path()).unwrap_err();
    assert!(
        matches!(
            e,
            BundleError::Version {
                version: 99,
                known: 1,
                ..
            }
        ),
        "{e}"
    );
    let other = copy(&dir);
    let mut table = read("embedding.safetensors");
    *table.last_mut().unwrap() ^= 1;
    put(other.path(), "embedding.safetensors", &table);
    let e = ClientBundle::load(other.path()).unwrap_err();
    assert!(matches!(e, BundleError::Digest { .. }), "{e}");
}

#[test]
fn a_deployment() {
    let dir = published("server");
    let d = Deployment::load(&dir, &tiny().model).unwrap();
    assert_eq!((d.plan.hash(), d.pin), (tiny_plan().hash(), PIN));
    let bytes = std::fs::read(dir.join("deployment.json")).unwrap();
    let document: DeploymentDocument = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(
        document.weights_checksum,
        format!("{:016x}", tiny().model.checksum())
    );
    assert_eq!(pretty(&document), bytes);
    let other = copy(&dir);
    replace(other.path(), "deployment.json", VERSION[0], VERSION[1]);
    let e = Deployment::load(other.path(), &tiny().model).unwrap_err();
    assert!(
        matches!(
            e,
            BundleError::Version {
                version: 99,
                known: 1,
                ..
            }
        ),
        "{e}"
    );
}

/// The plan of the shipped model for 128 tokens.
#[test]
fn a_plan() {
    let bytes = golden("plan-moviedoc-128.json", || {
        let dir = folder().join("../models/mamba2-moviedoc");
        let model = Mamba2::load(&dir).unwrap();
        let calibration = Calibration::load(&dir, &model).unwrap();
        let request = Request::for_model(
            "mamba2-moviedoc",
            &model,
            &calibration,
            128,
            None,
            Carry::Serial,
        );
        let plan = Plan::build(request.unwrap()).unwrap();
        plan.to_json().unwrap().into_bytes()
    });
    let plan = Plan::from_json(&bytes).unwrap();
    assert_eq!(plan.to_json().unwrap().as_bytes(), bytes);
    let r = plan.request();
    assert_eq!((r.length, r.shape.layers, r.shape.hidden), (128, 2, 64));
    assert_eq!(r.labels, ["negative", "positive"]);
    assert_eq!(plan.chain(Ring::Projection).log_n(), 14);
    assert_eq!(plan.chain(Ring::Scan).log_n(), 15);
    assert_eq!(plan.scan().schedule.depth(), 12);
    assert_eq!(plan.stages()[0].id, cipherloom_plan::FIRST_STAGE);
    let hash = golden("plan-moviedoc-128.hash", || hex(&plan.hash()).into_bytes());
    assert_eq!(hex(&plan.hash()).as_bytes(), hash);
    let text = String::from_utf8(bytes).unwrap();
    let other = text.replacen("\"version\": 2", VERSION[1], 1);
    let e = Plan::from_json(other.as_bytes()).unwrap_err();
    assert!(
        matches!(&e, PlanError::Document(d) if d.contains("version 99")),
        "{e}"
    );
}

#[test]
fn a_calibration() {
    let t = tiny();
    let save = |c: &Calibration| {
        let dir = temp_dir();
        c.save(dir.path()).unwrap();
        std::fs::read(dir.path().join("calibration.json")).unwrap()
    };
    let bytes = golden("calibration.json", || {
        save(&serde_json::from_value(t.calibration.clone()).unwrap())
    });
    let path = folder().join("calibration.json");
    let c = Calibration::load_file(&path, &t.model).unwrap();
    assert_eq!(save(&c), bytes);
    assert_eq!((c.stack, c.length, c.documents), (Stack::default(), 16, 3));
    assert_eq!(c.weights_checksum, format!("{:016x}", t.model.checksum()));
    let r = c.ranges.of("embeddings").unwrap();
    assert_eq!((r.min, r.max), (-2.0, 2.0));
    assert_eq!((c.norms.pre.len(), c.norms.gated.len()), (1, 1));
    assert!(c.norms.last.v_min < c.norms.last.v_max);
    let dir = temp_dir();
    put(dir.path(), "calibration.json", &bytes);
    replace(dir.path(), "calibration.json", VERSION[0], VERSION[1]);
    let e = Calibration::load(dir.path(), &t.model).unwrap_err();
    assert!(
        matches!(&e, ModelError::Calibration { problems, .. } if problems[0].contains("version 99")),
        "{e}"
    );
}

#[test]
fn a_machine_profile() {
    let bytes = golden("profile.json", || {
        let p = MachineProfile::shipped().unwrap();
        p.to_json().unwrap().into_bytes()
    });
    let p = MachineProfile::from_json("golden", &bytes).unwrap();
    assert_eq!(p.to_json().unwrap().as_bytes(), bytes);
    let v: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(v["yardstick_ns"].as_f64(), Some(p.yardstick_ns));
    assert_eq!(v["ckks"][0]["rotate"].as_f64(), Some(p.ckks[0].rotate));
    assert_eq!(p.protocols["product"].flights, 3);
    assert_eq!(p.protocols["cot_softspoken4"].cots, 1.0);
    let text = String::from_utf8(bytes).unwrap();
    let other = text.replacen(VERSION[0], VERSION[1], 1);
    let e = MachineProfile::from_json("golden", other.as_bytes()).unwrap_err();
    assert!(
        matches!(&e, PlanError::Profile { detail, .. } if detail.contains("version 99")),
        "{e}"
    );
}
