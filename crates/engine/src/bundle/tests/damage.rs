//! Folders that were changed: by accident, and by somebody who seals the document again.

use super::*;
use cipherloom_model::EmbeddingTable;
use serde_json::{json, Value};

fn json_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn flipped_cut_missing_and_extra_files_are_named() {
    let s = published();
    for name in names(&s.at.client) {
        let bytes = fs::read(s.client(&name)).unwrap();
        let len = bytes.len();
        for at in [0, 1, len / 3, len / 2, len - 2, len - 1] {
            let mut b = bytes.clone();
            b[at] ^= 1 << (at % 7);
            let e = s.with(&name, &b);
            assert!(e.to_string().contains(&name), "{name} byte {at}: {e}");
            if name != BUNDLE_FILE {
                assert!(matches!(e, BundleError::Digest { .. }), "{e}");
            }
        }
        for cut in [0, len / 2, len - 1] {
            let e = s.with(&name, &bytes[..cut]);
            assert!(e.to_string().contains(&name), "{name} cut to {cut}: {e}");
        }
        let mut long = bytes.clone();
        long.push(b' ');
        let e = s.with(&name, &long);
        assert!(e.to_string().contains(&name), "{name} lengthened: {e}");
        fs::remove_file(s.client(&name)).unwrap();
        let e = s.load().unwrap_err();
        assert!(
            matches!(&e, BundleError::Missing { path } if path.ends_with(&name)),
            "{e}"
        );
        // A link to the right bytes, and a folder.
        let moved = s.out.path().join("moved");
        fs::write(&moved, &bytes).unwrap();
        std::os::unix::fs::symlink(&moved, s.client(&name)).unwrap();
        assert!(matches!(s.load(), Err(BundleError::NotAFile { .. })));
        fs::remove_file(s.client(&name)).unwrap();
        fs::create_dir(s.client(&name)).unwrap();
        assert!(matches!(s.load(), Err(BundleError::NotAFile { .. })));
        fs::remove_dir(s.client(&name)).unwrap();
        fs::write(s.client(&name), &bytes).unwrap();
    }
    s.load().unwrap();
    for extra in ["calibration.json", "model.safetensors", ".hidden"] {
        fs::write(s.client(extra), "x").unwrap();
        let e = s.load().unwrap_err();
        assert!(
            matches!(&e, BundleError::Unexpected { path, .. } if path.ends_with(extra)),
            "{e}"
        );
        fs::remove_file(s.client(extra)).unwrap();
    }
    assert!(matches!(
        ClientBundle::load(&s.out.path().join("nowhere")),
        Err(BundleError::Missing { .. })
    ));
}

#[test]
fn documents_that_were_sealed_again_still_must_agree_with_the_plan() {
    let s = published();
    let change = |f: fn(&mut BundleDocument)| {
        let mut d = s.document();
        f(&mut d);
        s.forged_document(d)
    };
    let e = change(|d| d.labels.swap(0, 1));
    assert!(
        matches!(e, BundleError::Differs { what: "labels", .. }),
        "{e}"
    );
    let e = change(|d| d.plan_hash = "00".repeat(32));
    assert!(
        matches!(
            e,
            BundleError::Differs {
                what: "plan hash",
                ..
            }
        ),
        "{e}"
    );
    for pin in ["", "zz", "AB"] {
        let mut d = s.document();
        d.pin = pin.repeat(32);
        let e = s.forged_document(d);
        assert!(
            matches!(&e, BundleError::Invalid { reason, .. } if reason.contains("pin")),
            "{e}"
        );
    }
    let e = change(|d| {
        d.files.remove(PLAN_FILE);
    });
    assert!(e.to_string().contains("plan.json is not listed"), "{e}");
    let e = change(|d| {
        d.files.remove(TOKENIZER_CONFIG_FILE);
    });
    assert!(matches!(e, BundleError::Unexpected { .. }), "{e}");
    let e = change(|d| {
        let f = d.files[PLAN_FILE].clone();
        d.files.insert("../plan.json".into(), f);
    });
    assert!(e.to_string().contains("no file of a bundle"), "{e}");
    // A length that nobody should allocate.
    for name in [PLAN_FILE, TOKENIZER_FILE, CONFIG_FILE, EMBEDDING_FILE] {
        let mut d = s.document();
        if let Some(f) = d.files.get_mut(name) {
            f.bytes = u64::MAX;
        }
        let e = s.forged_document(d);
        assert!(
            matches!(&e, BundleError::Length { path, .. } if path.ends_with(name)),
            "{e}"
        );
    }
    for (version, format) in [(2, "cipherloom-bundle"), (1, "cipherloom-plan")] {
        let mut d = s.document();
        d.version = version;
        d.format = format.into();
        let e = s.forged_document(d);
        assert!(matches!(&e, BundleError::Version { known: 1, .. }), "{e}");
    }
    let e = s.with(
        BUNDLE_FILE,
        br#"{"format":"cipherloom-bundle","version":7,"new":1}"#,
    );
    assert!(matches!(e, BundleError::Version { version: 7, .. }), "{e}");
}

#[test]
fn plans_are_derived_again_and_held_against_the_limits() {
    let s = published();
    let original = fs::read(s.client(PLAN_FILE)).unwrap();
    let forged = |f: &dyn Fn(&mut Value)| {
        let mut v = json_of(&original);
        f(&mut v);
        s.forged(PLAN_FILE, v.to_string().as_bytes())
    };
    for (what, e) in [
        ("failure", forged(&|v| v["failure_log2"] = json!(-5.0))),
        ("security", forged(&|v| v["security_bits"] = json!(80))),
        ("ring", forged(&|v| v["scan_ring"]["log_n"] = json!(12))),
        (
            "keys",
            forged(&|v| v["keys"][0]["rotations"][0]["rotation"] = json!(77)),
        ),
        (
            "stages",
            forged(&|v| {
                v["stages"].as_array_mut().unwrap().pop();
            }),
        ),
        ("version", forged(&|v| v["version"] = json!(99))),
        ("unknown field", forged(&|v| v["more"] = json!(1))),
        (
            "logits",
            forged(&|v| v["request"]["pool"]["logit_max"] = json!(1e9)),
        ),
    ] {
        assert!(
            matches!(&e, BundleError::Plan { path, .. } if path.ends_with("plan.json")),
            "{what}: {e}"
        );
    }
    // A sound plan of another length is another plan.
    let other = plan(&s.model, 32).to_json().unwrap();
    let e = s.forged(PLAN_FILE, other.as_bytes());
    assert!(
        matches!(
            e,
            BundleError::Differs {
                what: "plan hash",
                ..
            }
        ),
        "{e}"
    );
    // A name that would write to the client's terminal.
    let mut request = s.plan.request().clone();
    request.labels[1] = "ok\u{1b}[2J".into();
    let bad = Plan::build(request).unwrap();
    let text = bad.to_json().unwrap();
    fs::write(s.client(PLAN_FILE), &text).unwrap();
    let mut d = s.document();
    d.plan_hash = crate::handshake::hex(&bad.hash());
    d.labels = bad.request().labels.clone();
    d.files
        .insert(PLAN_FILE.into(), FileDigest::of(text.as_bytes()));
    let e = s.forged_document(d);
    assert!(e.to_string().contains("no name"), "{e}");
}

#[test]
fn tables_rules_and_tokenizers_must_be_the_plans() {
    let s = published();
    let table = fs::read(s.client(EMBEDDING_FILE)).unwrap();
    for bad in [f32::NAN, f32::INFINITY, 1e30] {
        let mut b = table.clone();
        let at = b.len() - 4 * 64 * 10;
        b[at..at + 4].copy_from_slice(&bad.to_le_bytes());
        let e = s.forged(EMBEDDING_FILE, &b);
        assert!(
            matches!(&e, BundleError::Invalid { reason, .. } if reason.contains("row 4086, column 0")),
            "{e}"
        );
    }
    let mut b = table.clone();
    b[20] ^= 1;
    let e = s.forged(EMBEDDING_FILE, &b);
    assert!(
        matches!(&e, BundleError::Invalid { reason, .. } if reason.contains("header")),
        "{e}"
    );
    let mut m = s.model.embeddings.clone();
    m.rows -= 1;
    m.data.truncate(m.rows * m.cols);
    let smaller = EmbeddingTable::of(&m).unwrap().to_safetensors();
    let e = s.forged(EMBEDDING_FILE, &smaller);
    assert!(e.to_string().contains("4096 x 64"), "{e}");

    let config = json_of(&fs::read(s.client(CONFIG_FILE)).unwrap());
    let forged = |f: &dyn Fn(&mut Value)| {
        let mut v = config.clone();
        f(&mut v);
        s.forged(CONFIG_FILE, v.to_string().as_bytes())
    };
    for e in [
        forged(&|v| v["vocab_size"] = json!(4097)),
        forged(&|v| v["hidden_size"] = json!(65)),
        forged(&|v| v["pooling"] = json!("last")),
    ] {
        assert!(matches!(e, BundleError::Differs { .. }), "{e}");
    }
    for e in [
        forged(&|v| v["norm_f"] = json!([1.0])),
        forged(&|v| v["truncation_side"] = json!("middle")),
        forged(&|v| v["pad_token_id"] = json!(-1)),
    ] {
        assert!(matches!(e, BundleError::Invalid { .. }), "{e}");
    }
    let e = forged(&|v| v["pad_token_id"] = json!(4096));
    assert!(e.to_string().contains("padding id 4096"), "{e}");

    let mut tokenizer = json_of(&fs::read(s.client(TOKENIZER_FILE)).unwrap());
    tokenizer["added_tokens"][0]["id"] = json!(9999);
    tokenizer["added_tokens"][0]["content"] = json!("<new>");
    for bad in [b"{}".to_vec(), tokenizer.to_string().into_bytes()] {
        let e = s.forged(TOKENIZER_FILE, &bad);
        assert!(matches!(e, BundleError::Model(_)), "{e}");
    }
}

#[test]
fn deployments_that_were_changed_or_are_for_other_weights_are_refused() {
    let s = published();
    let load = || Deployment::load(&s.at.server, &s.model);
    for name in [DEPLOYMENT_FILE, PLAN_FILE] {
        let path = s.at.server.join(name);
        let bytes = fs::read(&path).unwrap();
        let len = bytes.len();
        let step = if name == DEPLOYMENT_FILE { 1 } else { len / 7 };
        for at in (0..len).step_by(step) {
            let mut b = bytes.clone();
            b[at] ^= 2;
            fs::write(&path, &b).unwrap();
            let e = load();
            // A plan is not sealed, its content is: what reads as the same plan is the same plan.
            let same =
                name == PLAN_FILE && e.as_ref().is_ok_and(|d| d.plan.hash() == s.plan.hash());
            assert!(e.is_err() || same, "{name} byte {at}");
            if step > 1 {
                fs::write(&path, &bytes[..at]).unwrap();
                assert!(load().is_err(), "{name} cut to {at}");
            }
        }
        fs::remove_file(&path).unwrap();
        assert!(matches!(load(), Err(BundleError::Missing { .. })));
        fs::write(&path, &bytes).unwrap();
    }
    load().unwrap();
    let mut other = s.model.clone();
    other.norm_f[3] += 1e-3;
    let e = Deployment::load(&s.at.server, &other).unwrap_err();
    assert!(e.to_string().contains("checksum"), "{e}");
    let mut other = s.model.clone();
    other.config.labels[0] = "bad".into();
    let e = Deployment::load(&s.at.server, &other).unwrap_err();
    assert!(matches!(e, BundleError::Differs { .. }), "{e}");
    // A plan of another length beside this document.
    let text = plan(&s.model, 32).to_json().unwrap();
    fs::write(s.at.server.join(PLAN_FILE), text).unwrap();
    assert!(matches!(
        load(),
        Err(BundleError::Differs {
            what: "plan hash",
            ..
        })
    ));
    fs::write(
        s.at.server.join(DEPLOYMENT_FILE),
        r#"{"format":"cipherloom-deployment","version":2}"#,
    )
    .unwrap();
    assert!(matches!(
        load(),
        Err(BundleError::Version { version: 2, .. })
    ));
}
