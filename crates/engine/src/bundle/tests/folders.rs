//! What is published, and what is not.

use super::*;
use crate::document::client_input;
use cipherloom_model::{Calibration, Pooling, Tokenizer, Truncation};
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_client_brings_the_same_input_from_the_bundle_as_from_the_model_folder() {
    let s = published();
    let b = s.load().unwrap();
    assert_eq!(b.plan.hash(), s.plan.hash());
    assert_eq!(b.pin, PIN);
    assert_eq!(b.labels, ["negative", "positive"]);
    assert_eq!(b.pooling, Pooling::Mean);
    let tokenizer = Tokenizer::load(&model_dir(), &s.model.config).unwrap();
    for text in [
        "a fine film",
        "the first half is slow, but it is an honest and moving picture that I would see again and again",
    ] {
        let here = b.encode(text, Truncation::Allow).unwrap();
        let there = tokenizer.encode(text, 16, Truncation::Allow).unwrap();
        assert_eq!(here, there);
        let (a, c) = (b.input(&here).unwrap(), client_input(&s.model, &there).unwrap());
        assert_eq!(a.embedded, c.embedded);
        assert_eq!(a.pooling, c.pooling);
    }
    let long = "word ".repeat(100);
    assert!(b.encode(&long, Truncation::Refuse).is_err());
}

#[test]
fn the_server_finds_its_plan_and_pin() {
    let s = published();
    let d = Deployment::load(&s.at.server, &s.model).unwrap();
    assert_eq!((d.plan.hash(), d.pin), (s.plan.hash(), PIN));
    assert_eq!(d.certificate, s.at.server.join("certificate.pem"));
    assert_eq!(d.key, s.at.server.join("key.pem"));
    assert_eq!(names(&s.at.server), ["deployment.json", "plan.json"]);
    let mode = fs::metadata(&s.at.server).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    // Other files do not disturb.
    fs::write(s.at.server.join("certificate.pem"), "x").unwrap();
    fs::write(s.at.server.join("README"), "x").unwrap();
    Deployment::load(&s.at.server, &s.model).unwrap();
}

/// Raw bytes of every tensor of a safetensors file, by name.
fn tensors(bytes: &[u8]) -> Vec<(String, String, Vec<u8>)> {
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let text: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let data = &bytes[8 + header..];
    let mut out = Vec::new();
    for (name, info) in text.as_object().unwrap() {
        if name == "__metadata__" {
            continue;
        }
        let at = |i: usize| info["data_offsets"][i].as_u64().unwrap() as usize;
        out.push((
            name.clone(),
            info["dtype"].as_str().unwrap().to_string(),
            data[at(0)..at(1)].to_vec(),
        ));
    }
    out
}

#[test]
fn clients_get_the_embedding_table_and_no_other_weight() {
    let s = published();
    assert_eq!(
        names(&s.at.client),
        [
            "bundle.json",
            "config.json",
            "embedding.safetensors",
            "plan.json",
            "tokenizer.json",
            "tokenizer_config.json"
        ]
    );
    let all: Vec<(String, Vec<u8>)> = names(&s.at.client)
        .into_iter()
        .map(|n| (n.clone(), fs::read(s.client(&n)).unwrap()))
        .collect();
    let source = tensors(&fs::read(model_dir().join("model.safetensors")).unwrap());
    let table = tensors(&fs::read(s.client(EMBEDDING_FILE)).unwrap());
    assert_eq!(table.len(), 1);
    assert_eq!(
        (table[0].0.as_str(), table[0].1.as_str()),
        ("embedding.weight", "F32")
    );
    let mut others = 0;
    for (name, _, bytes) in &source {
        let is_table = name == "backbone.embeddings.weight";
        if is_table {
            assert_eq!(&table[0].2, bytes);
            continue;
        }
        others += 1;
        // Two values that are not trivial (biases of 0 and norms of 1 occur anywhere).
        let Some(pair) = bytes.chunks_exact(8).find(|p| {
            p.chunks(4).all(|v| {
                let v = f32::from_le_bytes(v.try_into().unwrap());
                v != 0.0 && v.fract() != 0.0
            })
        }) else {
            panic!("{name} has no two values to look for");
        };
        for (file, content) in &all {
            assert!(
                !content.windows(8).any(|w| w == pair),
                "{file} has values of {name}"
            );
            // Nor as decimal text.
            let v = f32::from_le_bytes(pair[..4].try_into().unwrap());
            let text = String::from_utf8_lossy(content);
            assert!(
                file == EMBEDDING_FILE || !text.contains(&v.to_string()),
                "{file}: {name}"
            );
        }
    }
    assert!(others > 15, "{others}");
    // Nothing of the calibration but the plan's bounds.
    let calibration = Calibration::load(&model_dir(), &s.model).unwrap();
    let steps = calibration.report.frozen_steps[0][0].to_string();
    for word in [
        calibration.weights_checksum.as_str(),
        "weights_checksum",
        "frozen_steps",
        "range_sources",
        "max_logit_difference",
        steps.as_str(),
    ] {
        for (file, content) in all
            .iter()
            .filter(|(f, _)| f.ends_with(".json") && !f.starts_with("tok"))
        {
            let text = String::from_utf8_lossy(content);
            assert!(word.len() < 3 || !text.contains(word), "{file} has {word}");
        }
    }
}

#[test]
fn nothing_is_overwritten_and_a_refusal_leaves_nothing() {
    let s = published();
    let again = publish(&model_dir(), &s.plan, &PIN, s.out.path()).unwrap_err();
    assert!(matches!(again, BundleError::Exists { .. }), "{again}");
    // The server's old plan is in the way as well.
    fs::remove_dir_all(&s.at.client).unwrap();
    let again = publish(&model_dir(), &s.plan, &PIN, s.out.path()).unwrap_err();
    assert!(
        matches!(&again, BundleError::Exists { path } if path.ends_with("plan.json")),
        "{again}"
    );
    assert_eq!(names(s.out.path()), ["server"]);
    // A certificate that is there already is not.
    let out = tempfile::tempdir().unwrap();
    fs::create_dir(out.path().join("server")).unwrap();
    fs::write(out.path().join("server/key.pem"), "k").unwrap();
    publish_loaded(&model_dir(), &s.model, &s.plan, &PIN, out.path()).unwrap();
    assert_eq!(names(out.path()), ["client", "server"]);
    assert_eq!(names(&out.path().join("server")).len(), 3);

    // Another model than the plan's, and a tokenizer that does not fit the table.
    let out = tempfile::tempdir().unwrap();
    let mut model = s.model.clone();
    model.config.labels[0] = "other".into();
    let e = publish_loaded(&model_dir(), &model, &s.plan, &PIN, out.path()).unwrap_err();
    assert!(
        matches!(e, BundleError::Differs { what: "labels", .. }),
        "{e}"
    );
    let mut model = s.model.clone();
    model.config.state_size = 32;
    let e = publish_loaded(&model_dir(), &model, &s.plan, &PIN, out.path()).unwrap_err();
    assert!(
        matches!(
            e,
            BundleError::Differs {
                what: "model shape",
                ..
            }
        ),
        "{e}"
    );
    let source = tempfile::tempdir().unwrap();
    fs::write(source.path().join("tokenizer.json"), "{}").unwrap();
    let e = publish_loaded(source.path(), &s.model, &s.plan, &PIN, out.path()).unwrap_err();
    assert!(matches!(e, BundleError::Model(_)), "{e}");
    assert!(names(out.path()).is_empty(), "{:?}", names(out.path()));
    let e = publish_loaded(out.path(), &s.model, &s.plan, &PIN, out.path()).unwrap_err();
    assert!(matches!(e, BundleError::Io { .. }), "{e}");
}
