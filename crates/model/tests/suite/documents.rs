//! The shipped documents: exact logits against transformers, surrogate logits against the numpy script,
//! the calibration file against a new calibration, and padding.

use crate::common::{documents, encode, floats, load, max_diff, root, shipped};
use cipherloom_model::observe::Silent;
use cipherloom_model::{
    calibrate_folder, forward, CalibrateOptions, Calibration, Exact, Mamba2, Surrogate, Trace,
};
use cipherloom_spec::approx::Stack;
use serde_json::Value;

fn read_json(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(root().join(name)).unwrap()).unwrap()
}

/// Logits of a document without padding.
fn logits<N: cipherloom_model::Nonlin>(model: &Mamba2, ids: &[u32], nonlin: &N) -> Vec<f64> {
    forward(model, ids, ids.len(), nonlin, &mut Silent)
        .unwrap()
        .logits
}

#[test]
fn exact_logits_match_transformers() {
    let (model, tokenizer) = load(&shipped());
    let reference = read_json("documents/reference_logits.json");
    let rows = reference["documents"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    for (row, (id, text)) in rows.iter().zip(documents()) {
        assert_eq!(row["id"], id.as_str());
        assert_eq!(
            text,
            std::fs::read_to_string(root().join("documents").join(&id)).unwrap()
        );
        for length in [128, 512] {
            let e = encode(&tokenizer, &text, length);
            assert_eq!(row["tokens"], e.total);
            let got = logits(&model, e.real_ids(), &Exact);
            let f64s = floats(&row[format!("f64_tail{length}")]);
            // transformers keeps a few steps in single precision even in its f64 mode.
            assert!(max_diff(&got, &f64s) < 2e-6, "{id} {length}");
            let label = usize::from(got[1] > got[0]);
            assert_eq!(row["label"], label, "{id} {length}");
        }
    }
}

#[test]
fn surrogate_matches_the_numpy_script_for_every_stack() {
    let (model, tokenizer) = load(&shipped());
    let calibration = Calibration::load(&shipped(), &model).unwrap();
    let reference = read_json("documents/surrogate_logits.json");
    let rows = reference["documents"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    let mut worst: f64 = 0.0;
    for (row, (id, text)) in rows.iter().zip(documents()) {
        assert_eq!(row["id"], id.as_str());
        for length in [128, 512] {
            let e = encode(&tokenizer, &text, length);
            let wanted = &row[format!("tail{length}")];
            let exact = logits(&model, e.real_ids(), &Exact);
            assert!(max_diff(&exact, &floats(&wanted["exact"])) < 1e-9);
            for stack in Stack::ALL {
                let c = calibration.with_stack(stack, &model).unwrap();
                let got = logits(&model, e.real_ids(), &Surrogate::new(&c));
                let diff = max_diff(&got, &floats(&wanted[stack.name()]));
                assert!(diff < 1e-9, "{id} {length} {stack}: {diff}");
                worst = worst.max(diff);
            }
        }
    }
    eprintln!("largest difference from numpy {worst:.2e}");
}

#[test]
fn shipped_calibration_is_reproduced() {
    let dir = shipped();
    let model = Mamba2::load(&dir).unwrap();
    let shipped = Calibration::load(&dir, &model).unwrap();
    let made = calibrate_folder(
        &dir,
        &root().join("documents/documents.jsonl"),
        Some(&dir.join("activation_ranges.json")),
        &CalibrateOptions::default(),
    )
    .unwrap();
    assert_eq!(made.ranges, shipped.ranges);
    assert_eq!(made.norms, shipped.norms);
    assert_eq!(made.weights_checksum, shipped.weights_checksum);
    assert_eq!(made.range_sources, shipped.range_sources);
    assert_eq!(made.report.same_label, 6);
    assert_eq!(made.report.clamped, 0);
    assert!(made.report.max_logit_difference < 0.25);
    // Written and read again it is the same.
    let out = tempfile::tempdir().unwrap();
    made.save(out.path()).unwrap();
    let back = Calibration::load(out.path(), &model).unwrap();
    assert_eq!(back.norms, made.norms);
    assert_eq!(back.ranges, made.ranges);
}

#[test]
fn padding_changes_nothing() {
    let (model, tokenizer) = load(&shipped());
    let calibration = Calibration::load(&shipped(), &model).unwrap();
    let surrogate = Surrogate::new(&calibration);
    let (_, text) = &documents()[5];
    let short = encode(&tokenizer, text, 32);
    let real = short.real;
    assert!(real < 20);
    let mut other = short.ids.clone();
    // Whatever stands in the padding, the result is the same, bit for bit.
    other[real..].fill(1234);
    for ids in [&short.ids[..real], &short.ids, &other] {
        let a = forward(&model, ids, real, &Exact, &mut Silent).unwrap();
        let b = forward(&model, ids, real, &surrogate, &mut Silent).unwrap();
        assert_eq!(a.logits, logits(&model, short.real_ids(), &Exact));
        assert_eq!(b.logits, logits(&model, short.real_ids(), &surrogate));
    }
    // Without the mask it is not.
    let c = forward(&model, &short.ids, short.ids.len(), &Exact, &mut Silent).unwrap();
    assert!(max_diff(&c.logits, &logits(&model, short.real_ids(), &Exact)) > 1e-3);
}

#[test]
fn surrogate_trace_has_the_stages_of_the_exact_one() {
    let (model, tokenizer) = load(&shipped());
    let calibration = Calibration::load(&shipped(), &model).unwrap();
    let e = encode(&tokenizer, &documents()[0].1, 64);
    let (mut a, mut b) = (Trace::default(), Trace::default());
    forward(&model, &e.ids, e.real, &Exact, &mut a).unwrap();
    forward(
        &model,
        &e.ids,
        e.real,
        &Surrogate::new(&calibration),
        &mut b,
    )
    .unwrap();
    assert!(a.tensors.keys().eq(b.tensors.keys()));
    // The first stage has no approximation, the norm after it has one.
    assert_eq!(a.tensors["embeddings"], b.tensors["embeddings"]);
    let (x, y) = (
        &a.tensors["layer0.prenorm_out"],
        &b.tensors["layer0.prenorm_out"],
    );
    let diff = max_diff(&x.data, &y.data);
    assert!(diff > 1e-6 && diff < 0.2, "{diff}");
}
