//! The commands as a user runs them: answers, JSON keys, exit codes, messages.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn cipherloom(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cipherloom"))
        .args(args)
        .current_dir(root())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn json(args: &[&str]) -> Value {
    let out = cipherloom(args);
    assert!(
        out.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Runs a command that must fail with `code`, and returns what it says.
fn fails(args: &[&str], code: i32) -> String {
    let out = cipherloom(args);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(code), "{args:?}: {said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

/// Every key of a document with its type; elements of lists are one.
fn json_keys(v: &Value, at: &str, out: &mut BTreeSet<String>) {
    let kind = match v {
        Value::Object(m) => {
            m.iter()
                .for_each(|(k, v)| json_keys(v, &format!("{at}/{k}"), out));
            return;
        }
        Value::Array(a) => {
            a.iter().for_each(|v| json_keys(v, &format!("{at}/*"), out));
            return;
        }
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "number",
        Value::String(_) => "text",
    };
    out.insert(format!("{at} {kind}"));
}

fn copy_model(to: &Path) {
    for f in [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "calibration.json",
    ] {
        std::fs::copy(root().join("models/mamba2-moviedoc").join(f), to.join(f)).unwrap();
    }
}

#[test]
fn demo_reports_the_same_label_three_times_with_all_keys() {
    let r = json(&["demo", "--length", "16", "--compare-plain", "--json"]);
    assert_eq!(r["label"], r["surrogate_label"]);
    assert!(
        r["max_logit_diff_surrogate"].as_f64().unwrap() <= 0.002,
        "{r}"
    );
    for key in [
        "/exact_label",
        "/max_logit_diff_exact",
        "/seconds/setup",
        "/seconds/offline",
        "/seconds/online",
        "/seconds/total",
        "/bytes/client_to_server",
        "/bytes/server_to_client",
        "/bytes/setup",
        "/flights",
        "/peak_rss_bytes/client",
        "/peak_rss_bytes/server",
        "/stages/0/name",
        "/stages/0/variant",
        "/stages/0/seconds",
        "/stages/0/bytes",
        "/stages/0/flights",
        "/stages/0/key_switches",
    ] {
        assert!(r.pointer(key).is_some(), "{key} is missing");
    }
    assert_eq!(r["compare_plain"]["first_divergence"], Value::Null);
    let mut keys = BTreeSet::new();
    json_keys(&r, "", &mut keys);
    let keys: String = keys.iter().map(|k| format!("{k}\n")).collect();
    let path = root().join("golden/demo-report.keys");
    if std::env::var_os("CIPHERLOOM_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, &keys).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        keys,
        "the keys of the report changed: golden/README.md"
    );
    // What `plan` says is what `demo` did.
    let p = json(&["plan", "models/mamba2-moviedoc", "--length", "16", "--json"]);
    assert_eq!(
        p["total"]["client_to_server"],
        r["bytes"]["client_to_server"]
    );
    assert_eq!(
        p["total"]["server_to_client"],
        r["bytes"]["server_to_client"]
    );
    assert_eq!(p["total"]["flights"], r["flights"]);
    assert_eq!(p["key_switches"], r["key_switches"]);
    for (s, d) in p["document"]["stages"]
        .as_array()
        .unwrap()
        .iter()
        .zip(r["stages"].as_array().unwrap())
    {
        assert_eq!(s["name"], d["name"]);
        assert_eq!(s["cost"]["traffic"]["flights"], d["flights"]);
        assert_eq!(
            s["cost"]["peak_live_ciphertexts"],
            d["peak_live_ciphertexts"]
        );
        assert_eq!(s["cost"]["mpc"]["products"], d["products"]);
    }
}

#[test]
fn demo_over_an_emulated_link_takes_its_round_trips() {
    let r = json(&["demo", "--length", "16", "--network", "wan1", "--json"]);
    assert_eq!(r["label"], r["surrogate_label"]);
    let flights = r["flights"].as_f64().unwrap();
    assert!(
        r["seconds"]["online"].as_f64().unwrap() > 0.002 * 0.5 * flights,
        "{r}"
    );
}

#[test]
fn audit_compares_documents_side_by_side() {
    let r = json(&[
        "audit",
        "models/mamba2-moviedoc",
        "documents/documents.jsonl",
        "--length",
        "16",
        "--limit",
        "2",
        "--json",
    ]);
    assert_eq!(r["documents"], 2);
    assert_eq!(r["encrypted_equals_surrogate"], 2);
    for key in [
        "exact_accuracy",
        "surrogate_accuracy",
        "encrypted_accuracy",
        "encrypted_equals_exact",
        "max_logit_diff_surrogate",
        "max_logit_diff_exact",
    ] {
        assert!(r.get(key).is_some(), "{key} is missing");
    }
    assert!(
        r["max_logit_diff_surrogate"].as_f64().unwrap() <= 0.002,
        "{r}"
    );
}

#[test]
fn calibrate_writes_a_file_that_demo_and_plan_take() {
    let dir = tempfile::tempdir().unwrap();
    copy_model(dir.path());
    std::fs::remove_file(dir.path().join("calibration.json")).unwrap();
    let model = dir.path().to_str().unwrap();
    let said = fails(&["plan", model, "--length", "64"], 2);
    assert!(said.contains("cipherloom calibrate"), "{said}");
    let c = json(&[
        "calibrate",
        model,
        "documents/documents.jsonl",
        "--length",
        "128",
        "--stack",
        "tight",
        "--json",
    ]);
    assert_eq!(c["stack"], "tight");
    let p = json(&[
        "plan",
        model,
        "--length",
        "64",
        "--block",
        "16",
        "--carry",
        "brent-kung",
        "--json",
    ]);
    assert_eq!(p["block"], 16);
    assert_eq!(p["security_bits"], 128);
}

#[test]
fn plans_of_shapes_print_depths_and_refuse_what_does_not_fit() {
    let p = json(&[
        "plan",
        "--shape",
        "mamba-base",
        "--length",
        "4096",
        "--block",
        "512",
        "--json",
    ]);
    assert!(p["scan_depth"].as_u64().unwrap() <= 26);
    let said = fails(
        &[
            "plan",
            "--shape",
            "mamba-base",
            "--length",
            "8192",
            "--block",
            "256",
        ],
        2,
    );
    assert!(said.contains("levels"), "{said}");
    let p = json(&[
        "plan",
        "--shape",
        "mamba-base",
        "--length",
        "8192",
        "--block",
        "256",
        "--carry",
        "brent-kung",
        "--json",
    ]);
    assert!(p["scan_depth"].as_u64().unwrap() <= 24);
    let text = cipherloom(&["plan", "--shape", "moviedoc", "--length", "128"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("layer1.scan"));
}

#[test]
fn bad_arguments_name_the_value_and_the_remedy() {
    for (args, word) in [
        (&["plan", "--shape", "mamba-huge"][..], "mamba-base"),
        (&["plan", "--shape", "moviedoc", "--length", "0"], "0"),
        (&["plan", "--shape", "moviedoc", "--length", "100"], "100"),
        (&["plan", "--shape", "moviedoc", "--block", "24"], "24"),
        (
            &["plan", "--shape", "moviedoc", "--stack", "loose"],
            "tight",
        ),
        (
            &["plan", "--shape", "moviedoc", "--network", "dialup"],
            "wan3",
        ),
        (&["plan", "no/such/folder"], "no/such/folder"),
        (&["demo", "--text", "no/such/file.txt"], "no/such/file.txt"),
        (&["demo", "--network", "dialup", "--length", "16"], "wan3"),
        (
            &["audit", "models/mamba2-moviedoc", "no/such.jsonl"],
            "no/such.jsonl",
        ),
        (
            &["calibrate", "no/such/folder", "documents/documents.jsonl"],
            "no/such/folder",
        ),
    ] {
        let said = fails(args, 2);
        assert!(said.contains(word), "{args:?}: {said}");
    }
}

#[test]
fn bad_texts_and_corrupt_models_are_typed_errors() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| -> String {
        let p = dir.path().join(name);
        std::fs::write(&p, bytes).unwrap();
        p.to_str().unwrap().to_string()
    };
    let said = fails(
        &[
            "demo",
            "--length",
            "16",
            "--text",
            &file("empty.txt", b"  \n "),
        ],
        2,
    );
    assert!(said.contains("16"), "how many tokens fit: {said}");
    let said = fails(
        &[
            "demo",
            "--length",
            "16",
            "--text",
            &file("latin1.txt", b"caf\xe9 au lait"),
        ],
        2,
    );
    assert!(said.contains("UTF-8"), "{said}");
    let model = dir.path().join("model");
    std::fs::create_dir(&model).unwrap();
    copy_model(&model);
    let weights = std::fs::read(model.join("model.safetensors")).unwrap();
    let path = model.to_str().unwrap();
    std::fs::write(
        model.join("model.safetensors"),
        &weights[..weights.len() / 2],
    )
    .unwrap();
    let said = fails(&["demo", "--model", path, "--length", "16"], 2);
    assert!(said.contains("model.safetensors"), "{said}");
    // One weight becomes not a number.
    let mut bad = weights.clone();
    let n = bad.len();
    bad[n - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(model.join("model.safetensors"), &bad).unwrap();
    let said = fails(&["demo", "--model", path, "--length", "16"], 2);
    assert!(
        said.to_lowercase().contains("nan") || said.contains("finite"),
        "{said}"
    );
    std::fs::write(model.join("model.safetensors"), &weights).unwrap();
    std::fs::write(model.join("tokenizer.json"), b"{\"version\": 1").unwrap();
    let said = fails(&["demo", "--model", path, "--length", "16"], 2);
    assert!(said.contains("tokenizer.json"), "{said}");
}

#[test]
fn help_texts_show_an_example() {
    for command in ["demo", "plan", "measure", "calibrate", "audit"] {
        let out = cipherloom(&[command, "--help"]);
        assert!(
            String::from_utf8_lossy(&out.stdout).contains("Example"),
            "{command}"
        );
    }
}
