//! Every kind of bad model folder gets a typed error that names it.

use crate::common::{documents, encode, load, max_diff, Folder, Raw};
use cipherloom_model::observe::Silent;
use cipherloom_model::{forward, Exact, Mamba2, ModelError, Problem, Side, TextRules, Tokenizer};
use safetensors::tensor::Dtype;
use serde_json::{json, Value};

/// Problems of a folder; fails when it loads or fails otherwise.
fn problems(f: &Folder) -> Vec<Problem> {
    let dir = f.write();
    match Mamba2::load(dir.path()) {
        Err(ModelError::Unsupported { problems, .. }) => problems,
        other => panic!("expected a list of problems, got {other:?}"),
    }
}

#[test]
fn one_wrong_field_is_one_problem_that_names_it() {
    let cases: Vec<(&str, Value)> = vec![
        ("model_type", json!("mamba")),
        ("hidden_act", json!("gelu")),
        ("use_bias", json!(true)),
        ("rms_norm", json!(false)),
        ("time_step_limit", json!([0.001, 0.1])),
        ("time_step_limit", json!([0.0])),
        ("some_new_field", json!({"a": 1})),
        ("expand", json!(3)),
        ("head_dim", json!(15)),
        ("n_groups", json!(0)),
        ("num_heads", json!(-8)),
        ("vocab_size", json!(1u64 << 40)),
        ("vocab_size", json!(4096.5)),
        ("pad_token_id", json!(4096)),
        ("layer_norm_epsilon", json!("small")),
        ("layer_norm_epsilon", json!(0.0)),
        ("pooling", json!("max")),
        ("truncation_side", json!("middle")),
        ("max_length", json!(0)),
        ("num_labels", json!(3)),
        ("id2label", json!({"0": "negative", "2": "positive"})),
        ("id2label", json!({})),
        ("problem_type", json!("regression")),
    ];
    for (field, value) in cases {
        let mut f = Folder::shipped();
        f.config[field] = value.clone();
        let got = problems(&f);
        let text: String = got.iter().map(|p| format!("{p}\n")).collect();
        assert!(text.contains(field), "{field} = {value}: {text}");
    }
    for field in [
        "model_type",
        "vocab_size",
        "hidden_size",
        "num_heads",
        "head_dim",
        "state_size",
        "n_groups",
        "num_hidden_layers",
        "pooling",
        "max_length",
        "id2label",
    ] {
        let mut f = Folder::shipped();
        f.config.as_object_mut().unwrap().remove(field);
        let missing = problems(&f)
            .iter()
            .any(|p| matches!(p, Problem::MissingField { field: name, .. } if name == field));
        assert!(missing, "{field}");
    }
}

#[test]
fn no_time_step_limit_is_accepted_in_every_spelling() {
    let dir = Folder::shipped().write();
    let path = dir.path().join("config.json");
    let text = std::fs::read_to_string(&path).unwrap();
    for limit in ["[0.0, Infinity]", r#"[0.0, {"__float__": "Infinity"}]"#] {
        let with = text.replacen('{', &format!("{{\"time_step_limit\": {limit},"), 1);
        std::fs::write(&path, with).unwrap();
        Mamba2::load(dir.path()).unwrap();
    }
}

#[test]
fn all_problems_are_listed_at_once() {
    let mut f = Folder::shipped();
    f.config["use_bias"] = json!(true);
    f.config["hidden_act"] = json!("relu");
    f.config["odd"] = json!(1);
    f.tensors.remove("backbone.norm_f.weight");
    f.tensors
        .insert("lm_head.weight".into(), Raw::f32(&[2, 2], &[0.0; 4]));
    *f.tensor("backbone.layers.1.mixer.D") = Raw::f32(&[4], &[0.0; 4]);
    f.tensor("backbone.layers.0.mixer.dt_bias").dtype = Dtype::I32;
    let got = problems(&f);
    assert_eq!(got.len(), 7, "{got:?}");
    let dir = f.write();
    let message = Mamba2::load(dir.path()).unwrap_err().to_string();
    for part in [
        "7 problem",
        "use_bias",
        "hidden_act",
        "odd",
        "`backbone.norm_f.weight` of shape [64] is missing",
        "lm_head.weight",
        "shape [4], needed [8]",
        "I32",
    ] {
        assert!(message.contains(part), "{part} in {message}");
    }
}

#[test]
fn bad_values_are_found_and_counted() {
    let mut f = Folder::shipped();
    f.tensor("classifier.weight")
        .map(|i, x| if i >= 126 { f32::NAN } else { x });
    f.tensor("backbone.layers.0.mixer.in_proj.weight")
        .map(|i, x| if i == 7 { f32::NEG_INFINITY } else { x });
    f.tensor("backbone.embeddings.weight")
        .map(|i, x| if i == 3 { 1_048_577.0 } else { x });
    f.tensor("backbone.layers.1.mixer.A_log")
        .map(|i, x| if i == 2 { 800.0 } else { x });
    let got = problems(&f);
    assert_eq!(got.len(), 4, "{got:?}");
    assert!(got.iter().any(|p| matches!(p, Problem::NotFinite { name, count: 2, first: 126 } if name == "classifier.weight")));
    assert!(got.iter().any(|p| matches!(
        p,
        Problem::NotFinite {
            count: 1,
            first: 7,
            ..
        }
    )));
    assert!(got
        .iter()
        .any(|p| matches!(p, Problem::TooLarge { first: 3, value, .. } if *value == 1_048_577.0)));
    assert!(got
        .iter()
        .any(|p| matches!(p, Problem::TooLarge { name, first: 2, .. } if name.contains("A_log"))));
    // Exactly at the limit is accepted.
    let mut f = Folder::shipped();
    f.tensor("backbone.embeddings.weight")
        .map(|i, x| if i == 3 { 1_048_576.0 } else { x });
    Mamba2::load(f.write().path()).unwrap();
}

#[test]
fn truncated_and_corrupt_weights_are_refused() {
    let dir = Folder::shipped().write();
    let path = dir.path().join("model.safetensors");
    let good = std::fs::read(&path).unwrap();
    let header = u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    let refuse = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let e = Mamba2::load(dir.path()).unwrap_err();
        assert!(
            matches!(
                e,
                ModelError::Weights { .. } | ModelError::Unsupported { .. }
            ),
            "{e}"
        );
        e.to_string()
    };
    for cut in [0, 4, 7, 8, 9, 100, 8 + header, 9 + header, good.len() - 1] {
        assert!(refuse(&good[..cut]).contains("truncated"), "cut at {cut}");
    }
    let mut longer = good.clone();
    longer.push(0);
    refuse(&longer);
    // A header length of 2^63 must not be allocated.
    let mut huge = good.clone();
    huge[..8].copy_from_slice(&(1u64 << 63).to_le_bytes());
    assert!(refuse(&huge).contains("claims"));
    // Flipped header bytes: an error or the same shapes, never a panic.
    for at in (8..8 + header).step_by(37) {
        let mut flipped = good.clone();
        flipped[at] ^= 1;
        std::fs::write(&path, &flipped).unwrap();
        let _ = Mamba2::load(dir.path());
    }
    // Other formats are named.
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(
        Mamba2::load(dir.path()),
        Err(ModelError::Io { .. })
    ));
    std::fs::write(dir.path().join("pytorch_model.bin"), b"x").unwrap();
    let e = Mamba2::load(dir.path()).unwrap_err().to_string();
    assert!(e.contains("pickle files are not read"), "{e}");
}

#[test]
fn corrupt_config_is_refused() {
    let dir = Folder::shipped().write();
    let path = dir.path().join("config.json");
    for text in ["", "{", "[]", "{\"a\": Infinit}", "\u{feff}{}"] {
        std::fs::write(&path, text).unwrap();
        assert!(
            matches!(Mamba2::load(dir.path()), Err(ModelError::Json { .. })),
            "{text}"
        );
    }
    std::fs::write(&path, vec![b' '; (1 << 20) + 1]).unwrap();
    assert!(matches!(
        Mamba2::load(dir.path()),
        Err(ModelError::FileTooLarge { .. })
    ));
    std::fs::write(&path, b"{\"a\": \"\xff\"}").unwrap();
    assert!(matches!(
        Mamba2::load(dir.path()),
        Err(ModelError::NotUtf8 { offset: 7, .. })
    ));
    std::fs::write(&path, "[".repeat(100_000)).unwrap();
    assert!(Mamba2::load(dir.path()).is_err());
}

/// The shipped model under the names of state-spaces/mamba.
fn state_spaces() -> Folder {
    let mut f = Folder::shipped();
    let table = f.tensors.remove("backbone.embeddings.weight").unwrap();
    f.tensors.insert("backbone.embedding.weight".into(), table);
    f.config = json!({
        "d_model": 64, "n_layer": 2, "vocab_size": 4090, "pad_vocab_size_multiple": 16,
        "ssm_cfg": {"layer": "Mamba2", "d_state": 16, "headdim": 16},
        "attn_layer_idx": [], "attn_cfg": {}, "rms_norm": true, "residual_in_fp32": true,
        "fused_add_norm": true, "tie_embeddings": false, "d_intermediate": 0,
        "pooling": "mean", "max_length": 512, "truncation_side": "left",
        "id2label": {"0": "negative", "1": "positive"}
    });
    f
}

#[test]
fn state_spaces_naming_gives_the_same_logits() {
    let (model, tokenizer) = load(&crate::common::shipped());
    let other = Mamba2::load(state_spaces().write().path()).unwrap();
    let e = encode(&tokenizer, &documents()[1].1, 64);
    let run = |m: &Mamba2| {
        forward(m, &e.ids, e.real, &Exact, &mut Silent)
            .unwrap()
            .logits
    };
    assert_eq!(run(&model), run(&other));
    // transformers accepts the state-spaces name of the table as well.
    let mut f = Folder::shipped();
    let table = f.tensors.remove("backbone.embeddings.weight").unwrap();
    f.tensors.insert("backbone.embedding.weight".into(), table);
    assert_eq!(run(&model), run(&Mamba2::load(f.write().path()).unwrap()));
}

#[test]
fn unsupported_state_spaces_fields_are_named() {
    for (field, value) in [
        ("layer", json!("Mamba1")),
        ("ngroups", json!(2)),
        ("norm_before_gate", json!(true)),
        ("D_has_hdim", json!(true)),
        ("dt_limit", json!([0.0, 1.0])),
        ("headdim", json!(48)),
        ("odd", json!(0)),
    ] {
        let mut f = state_spaces();
        f.config["ssm_cfg"][field] = value;
        let text: String = problems(&f).iter().map(|p| format!("{p}\n")).collect();
        assert!(
            text.contains(&format!("ssm_cfg.{field}")),
            "{field}: {text}"
        );
    }
    for (field, value) in [
        ("attn_layer_idx", json!([3])),
        ("d_intermediate", json!(256)),
        ("rms_norm", json!(false)),
        ("ssm_cfg", json!(3)),
    ] {
        let mut f = state_spaces();
        f.config[field] = value;
        let text: String = problems(&f).iter().map(|p| format!("{p}\n")).collect();
        assert!(text.contains(field), "{field}: {text}");
    }
}

#[test]
fn half_precision_weights_are_read() {
    let (model, tokenizer) = load(&crate::common::shipped());
    let e = encode(&tokenizer, &documents()[1].1, 64);
    let wanted = forward(&model, &e.ids, e.real, &Exact, &mut Silent).unwrap();
    let mut f = Folder::shipped();
    for t in f.tensors.values_mut() {
        // bfloat16 is the upper half of a single.
        t.bytes = t
            .values()
            .iter()
            .flat_map(|v| ((v.to_bits() + 0x8000) >> 16).to_le_bytes()[..2].to_vec())
            .collect();
        t.dtype = Dtype::BF16;
    }
    let half = Mamba2::load(f.write().path()).unwrap();
    let got = forward(&half, &e.ids, e.real, &Exact, &mut Silent).unwrap();
    let diff = max_diff(&got.logits, &wanted.logits);
    assert!(diff > 0.0 && diff < 0.05, "{diff}");
    let mut f = Folder::shipped();
    for t in f.tensors.values_mut() {
        t.bytes = t
            .values()
            .iter()
            .flat_map(|v| f64::from(*v).to_le_bytes())
            .collect();
        t.dtype = Dtype::F64;
    }
    assert_eq!(Mamba2::load(f.write().path()).unwrap().layers, model.layers);
}

#[test]
fn forward_refuses_impossible_calls() {
    let (model, _) = load(&crate::common::shipped());
    let run = |ids: &[u32], real| forward(&model, ids, real, &Exact, &mut Silent);
    assert!(matches!(run(&[], 0), Err(ModelError::RealTokens { .. })));
    assert!(matches!(
        run(&[1, 2], 0),
        Err(ModelError::RealTokens { .. })
    ));
    assert!(matches!(
        run(&[1, 2], 3),
        Err(ModelError::RealTokens { .. })
    ));
    assert!(matches!(
        run(&[1, 4096], 2),
        Err(ModelError::TokenId {
            id: 4096,
            position: 1,
            vocab: 4096
        })
    ));
}

/// Found by fuzzing: the library panics on such files. Parts that are not used need not be sound.
#[test]
fn tokenizer_files_that_make_the_library_panic_are_refused() {
    let rules = TextRules {
        vocab_size: 4096,
        truncation_side: Side::Left,
        pad_token_id: 0,
    };
    let text = std::fs::read_to_string(crate::common::shipped().join("tokenizer.json")).unwrap();
    let good: serde_json::Value = serde_json::from_str(&text).unwrap();
    let with = |key: &str, value: serde_json::Value| {
        let mut v = good.clone();
        v[key] = value;
        Tokenizer::with_rules(v.to_string().as_bytes(), rules)
    };
    // A file that ends inside of its decoder.
    let cut = text.find("\"decoder\"").unwrap() + 20;
    assert!(Tokenizer::with_rules(&text.as_bytes()[..cut], rules).is_err());
    let charsmap = serde_json::json!({"type": "Precompiled", "precompiled_charsmap": "AAAA"});
    assert!(with("normalizer", charsmap).is_err());
    // The decoder is not used.
    let t = with("decoder", serde_json::json!({"type": 7})).unwrap();
    let whole = Tokenizer::with_rules(text.as_bytes(), rules).unwrap();
    let words = "a slow, honest film";
    assert_eq!(
        t.tokens(words, 16).unwrap(),
        whole.tokens(words, 16).unwrap()
    );
}
