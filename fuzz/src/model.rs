//! Files of a model folder, and documents.

use super::support::{edit_bytes, edit_json, json_input, put, temp_dir, Input};
use cipherloom_model::calibration::tensor_names;
use cipherloom_model::{
    calibrate, CalibrateOptions, Calibration, Document, Encoded, Mamba2, Mamba2Config, Ranges,
    Side, TextRules, Tokenizer, Truncation,
};
use serde_json::{json, Value};
use std::path::Path;
use std::sync::OnceLock;

/// Words of the tiny model.
pub const WORDS: [&str; 12] = [
    "pad", "a", "bad", "dull", "film", "fine", "good", "is", "it", "not", "the", "very",
];
/// Sequence length of its plan.
pub const LENGTH: usize = 16;
const RULES: TextRules = TextRules {
    vocab_size: 12,
    truncation_side: Side::Left,
    pad_token_id: 0,
};

/// A model folder in memory: 12 words, width 16, one layer, weights of a linear congruential generator.
pub struct Tiny {
    pub config: Value,
    pub header: Value,
    pub weights: Vec<u8>,
    pub tokenizer: Value,
    pub calibration: Value,
    pub model: Mamba2,
}

fn config_json() -> Value {
    json!({
        "model_type": "mamba2",
        "vocab_size": 12, "hidden_size": 16, "expand": 2, "num_heads": 2, "head_dim": 16,
        "state_size": 64, "n_groups": 1, "conv_kernel": 4, "num_hidden_layers": 1,
        "layer_norm_epsilon": 1e-5, "hidden_act": "silu", "use_bias": false, "use_conv_bias": true,
        "time_step_limit": [0.0, {"__float__": "Infinity"}],
        "pad_token_id": 0, "num_labels": 2, "id2label": {"0": "negative", "1": "positive"},
        "pooling": "mean", "max_length": LENGTH, "truncation_side": "left",
    })
}

fn tensors() -> (Value, Vec<u8>) {
    let layer = "backbone.layers.0.";
    let names: [(String, &[usize], f64, f64); 13] = [
        ("backbone.embeddings.weight".into(), &[12, 16], 1.0, 0.0),
        ("backbone.norm_f.weight".into(), &[16], 0.1, 1.0),
        ("classifier.weight".into(), &[2, 16], 0.5, 0.0),
        ("classifier.bias".into(), &[2], 0.1, 0.0),
        (format!("{layer}norm.weight"), &[16], 0.1, 1.0),
        (format!("{layer}mixer.in_proj.weight"), &[194, 16], 0.5, 0.0),
        (
            format!("{layer}mixer.conv1d.weight"),
            &[160, 1, 4],
            0.5,
            0.0,
        ),
        (format!("{layer}mixer.conv1d.bias"), &[160], 0.1, 0.0),
        (format!("{layer}mixer.dt_bias"), &[2], 0.5, 0.0),
        (format!("{layer}mixer.A_log"), &[2], 0.5, 0.5),
        (format!("{layer}mixer.D"), &[2], 0.1, 1.0),
        (format!("{layer}mixer.norm.weight"), &[32], 0.1, 1.0),
        (format!("{layer}mixer.out_proj.weight"), &[16, 32], 0.3, 0.0),
    ];
    let mut state = 7u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1 << 23) - 1.0
    };
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape, spread, middle) in &names {
        let from = data.len();
        for _ in 0..shape.iter().product::<usize>() {
            let v = (middle + spread * next()) as f32;
            data.extend_from_slice(&v.to_le_bytes());
        }
        header.insert(
            name.clone(),
            json!({"dtype": "F32", "shape": shape, "data_offsets": [from, data.len()]}),
        );
    }
    (Value::Object(header), data)
}

fn safetensors(header: &[u8], data: &[u8]) -> Vec<u8> {
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend_from_slice(header);
    out.extend_from_slice(data);
    out
}

fn tokenizer_json() -> Value {
    let vocab: serde_json::Map<String, Value> = WORDS
        .iter()
        .enumerate()
        .map(|(i, w)| (w.to_string(), json!(i)))
        .collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [{"id": 0, "content": "pad", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true}],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "pad"},
    })
}

/// A tokenizer of the kind that the shipped model has.
fn bpe_json() -> Value {
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "Ġ": 5, "d": 6},
            "merges": [["a", "b"], ["ab", "c"]]},
    })
}

/// The tiny model.
pub fn tiny() -> &'static Tiny {
    static TINY: OnceLock<Tiny> = OnceLock::new();
    TINY.get_or_init(|| {
        let dir = temp_dir();
        let (config, (header, weights)) = (config_json(), tensors());
        put(
            dir.path(),
            "config.json",
            &serde_json::to_vec_pretty(&config).unwrap(),
        );
        let text = serde_json::to_vec(&header).unwrap();
        put(
            dir.path(),
            "model.safetensors",
            &safetensors(&text, &weights),
        );
        let model = Mamba2::load(dir.path()).unwrap();
        let tokenizer = tokenizer_json();
        let t = Tokenizer::with_rules(&serde_json::to_vec(&tokenizer).unwrap(), RULES).unwrap();
        let texts: Vec<Encoded> = [
            "the film is good",
            "it is not a fine film it is bad very bad",
            "a very very very good and fine film it is not dull the film is fine",
        ]
        .iter()
        .map(|text| t.encode(text, LENGTH, Truncation::Allow).unwrap())
        .collect();
        let options = CalibrateOptions {
            headroom: 2.0,
            norm_margin: 1.5,
            ..CalibrateOptions::default()
        };
        let calibration = calibrate(&model, &texts, &options).unwrap();
        Tiny {
            config,
            header,
            weights,
            tokenizer,
            calibration: serde_json::to_value(calibration).unwrap(),
            model,
        }
    })
}

impl Tiny {
    /// Writes the folder.
    pub fn write(&self, dir: &Path) {
        let pretty = |v: &Value| serde_json::to_vec_pretty(v).unwrap();
        put(dir, "config.json", &pretty(&self.config));
        let header = serde_json::to_vec(&self.header).unwrap();
        put(
            dir,
            "model.safetensors",
            &safetensors(&header, &self.weights),
        );
        put(dir, "tokenizer.json", &pretty(&self.tokenizer));
        put(dir, "calibration.json", &pretty(&self.calibration));
    }
}

/// `config.json`.
pub fn config(data: &[u8]) -> bool {
    let dir = temp_dir();
    put(dir.path(), "config.json", &json_input(&tiny().config, data));
    match Mamba2Config::load(dir.path()) {
        Ok(c) => {
            assert!(c.num_heads % c.n_groups == 0 && c.inner() > 0 && !c.labels.is_empty());
            true
        }
        Err(e) => {
            assert!(!e.to_string().is_empty());
            false
        }
    }
}

/// `model.safetensors`: the file (0), its header as edited JSON (1), or edits of it (2).
pub fn weights(data: &[u8]) -> bool {
    let t = tiny();
    let mut d = Input(data);
    let header = || serde_json::to_vec(&t.header).unwrap();
    let file = match d.byte() % 3 {
        0 => d.0.to_vec(),
        1 => safetensors(&edit_json(&t.header, d.0), &t.weights),
        _ => edit_bytes(&safetensors(&header(), &t.weights), d.0),
    };
    let dir = temp_dir();
    put(
        dir.path(),
        "config.json",
        &serde_json::to_vec(&t.config).unwrap(),
    );
    put(dir.path(), "model.safetensors", &file);
    match Mamba2::load(dir.path()) {
        Ok(m) => {
            assert_eq!(m.embeddings.data.len(), 12 * 16);
            assert!(m.embeddings.data.iter().all(|v| v.is_finite()));
            true
        }
        Err(e) => {
            assert!(!e.to_string().is_empty());
            false
        }
    }
}

/// `calibration.json`.
pub fn calibration(data: &[u8]) -> bool {
    let t = tiny();
    let dir = temp_dir();
    put(
        dir.path(),
        "calibration.json",
        &json_input(&t.calibration, data),
    );
    match Calibration::load(dir.path(), &t.model) {
        Ok(c) => {
            // What is accepted can be planned or is refused.
            let request = cipherloom_plan::Request::for_model(
                "tiny",
                &t.model,
                &c,
                LENGTH,
                None,
                cipherloom_spec::schedule::Carry::Serial,
            );
            if let Ok(r) = request {
                let _ = cipherloom_plan::Plan::build(r);
            }
            true
        }
        Err(e) => {
            assert!(!e.to_string().is_empty());
            false
        }
    }
}

/// A file of activation ranges.
pub fn ranges(data: &[u8]) -> bool {
    let dir = temp_dir();
    put(dir.path(), "ranges.json", &json_input(&ranges_json(), data));
    let known = tensor_names(1);
    match Ranges::load(&dir.path().join("ranges.json"), &known) {
        Ok((r, _)) => {
            assert!(r
                .by_name
                .values()
                .all(|v| v.min <= v.max && v.magnitude().is_finite()));
            true
        }
        Err(e) => {
            assert!(!e.to_string().is_empty());
            false
        }
    }
}

fn ranges_json() -> Value {
    json!({
        "train": {
            "_documents": 3,
            "layer0.gate_z": {"min": -3.5, "max": 4.25, "abs": 4.25},
            "layer0.residual": 7.5,
            "residual.emb": {"min": -1.0, "max": 1.0},
            "histogram": [1, 2],
        },
        "note": "text"
    })
}

/// libFuzzer's hook aborts at every panic, also at those of the tokenizer library that the loader catches. Without it, one
/// that escapes still ends the process; an ordinary run of the input then shows its message.
pub fn quiet_panics() {
    std::panic::set_hook(Box::new(|_| {}));
}

/// `tokenizer.json` (word level or byte pairs by the second bit of the first byte); a text is tokenized with what is accepted.
pub fn tokenizer(data: &[u8]) -> bool {
    let base = if data.first().is_some_and(|b| b & 2 != 0) {
        bpe_json()
    } else {
        tiny().tokenizer.clone()
    };
    match Tokenizer::with_rules(&json_input(&base, data), RULES) {
        Ok(t) => {
            for text in ["the film is not abcab d", "é\u{301}\u{0}  bad\n"] {
                if let Ok(e) = t.encode(text, 8, Truncation::Allow) {
                    assert!(e.ids.len() == 8 && e.ids.iter().all(|i| *i < 12));
                }
            }
            true
        }
        Err(e) => {
            assert!(!e.is_empty());
            false
        }
    }
}

/// A file of documents, one a line.
pub fn documents(data: &[u8]) -> bool {
    let dir = temp_dir();
    put(dir.path(), "d.jsonl", data);
    let path = dir.path().join("d.jsonl");
    let _ = Document::read_all(&path, Some(2));
    match Document::read_all(&path, None) {
        Ok(d) => {
            assert!(d.iter().all(|d| !d.id.is_empty()));
            !d.is_empty()
        }
        Err(e) => {
            assert!(!e.to_string().is_empty());
            false
        }
    }
}

/// Edit programs for JSON targets that reach numbers, deletions, repetitions and additions.
pub fn programs(base: u8) -> Vec<(&'static str, Vec<u8>)> {
    let step = |at: u16, op: u8, v: u64| {
        let mut out = at.to_le_bytes().to_vec();
        out.push(op);
        out.extend_from_slice(&v.to_le_bytes());
        out
    };
    let tag = base | 1;
    vec![
        ("ok-unchanged", vec![tag]),
        ("number", [vec![tag], step(9, 0, 3)].concat()),
        ("power", [vec![tag], step(17, 3, 31)].concat()),
        ("delete", [vec![tag], step(0, 12, 2)].concat()),
        ("repeat", [vec![tag], step(25, 11, 3 << 16)].concat()),
        ("add", [vec![tag], step(0, 13, 1)].concat()),
        (
            "two",
            [vec![tag], step(12, 14, 5), step(30, 5, 700)].concat(),
        ),
    ]
}

pub fn seeds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let t = tiny();
    let raw = |v: &Value| [vec![0], serde_json::to_vec_pretty(v).unwrap()].concat();
    let header = serde_json::to_vec(&t.header).unwrap();
    let state_spaces = json!({
        "d_model": 16, "n_layer": 1, "vocab_size": 12, "pad_vocab_size_multiple": 4,
        "ssm_cfg": {"layer": "Mamba2", "d_state": 4, "headdim": 8},
        "num_labels": 2, "id2label": {"0": "no", "1": "yes"}, "pooling": "last", "max_length": 16,
    });
    let documents = "{\"id\": \"a\", \"text\": \"a fine film\", \"label\": 1}\n\n{\"text\": \"\\u00e9 \\ud83d\\ude00\", \"more\": [1e5]}\n";
    let mut out = vec![
        ("config", "ok-transformers", raw(&t.config)),
        ("config", "ok-state-spaces", raw(&state_spaces)),
        ("config", "ok-bare-infinity", {
            let text = serde_json::to_string(&t.config).unwrap();
            [
                vec![0],
                text.replace("{\"__float__\":\"Infinity\"}", "Infinity")
                    .into_bytes(),
            ]
            .concat()
        }),
        (
            "weights",
            "ok-file",
            [vec![0], safetensors(&header, &t.weights)].concat(),
        ),
        ("calibration", "ok-file", raw(&t.calibration)),
        ("ranges", "ok-file", raw(&ranges_json())),
        ("tokenizer", "ok-words", raw(&t.tokenizer)),
        ("tokenizer", "ok-pairs", raw(&bpe_json())),
        ("documents", "ok-two", documents.as_bytes().to_vec()),
    ];
    for target in ["config", "weights", "calibration", "ranges", "tokenizer"] {
        out.extend(programs(0).into_iter().map(|(name, p)| (target, name, p)));
    }
    out.extend(programs(2).into_iter().map(|(name, p)| {
        let name = match name {
            "ok-unchanged" => "ok-pairs-unchanged",
            "number" => "pairs-number",
            "power" => "pairs-power",
            "delete" => "pairs-delete",
            "repeat" => "pairs-repeat",
            "add" => "pairs-add",
            _ => "pairs-two",
        };
        ("tokenizer", name, p)
    }));
    out
}
