//! Calibration refuses models outside the domain, and calibration files that do not fit.

use crate::common::{documents, encode, load, shipped, Folder};
use cipherloom_model::ranges::Range;
use cipherloom_model::{
    calibrate, CalibrateOptions, Calibration, Encoded, Mamba2, ModelError, NormId, Ranges,
};
use cipherloom_spec::approx::Stack;
use serde_json::{json, Value};

fn two_documents() -> Vec<Encoded> {
    let (_, tokenizer) = load(&shipped());
    [1, 5]
        .map(|i| encode(&tokenizer, &documents()[i].1, 64))
        .to_vec()
}

fn violations(f: &Folder, options: &CalibrateOptions) -> String {
    let model = Mamba2::load(f.write().path()).unwrap();
    match calibrate(&model, &two_documents(), options) {
        Err(e @ ModelError::OutOfDomain { .. }) => e.to_string(),
        other => panic!("expected a refusal, got {:?}", other.map(|c| c.checks)),
    }
}

#[test]
fn values_that_would_wrap_are_refused_by_name() {
    let mut f = Folder::shipped();
    // The convolution output grows to about 2^25, the residual stream stays small.
    f.tensor("backbone.layers.1.mixer.conv1d.weight")
        .map(|_, x| x * 300_000.0);
    f.tensor("backbone.layers.1.mixer.in_proj.weight")
        .map(|_, x| x * 100.0);
    let text = violations(&f, &CalibrateOptions::default());
    assert!(text.contains("layer1.conv_pre_silu.x"), "{text}");
    assert!(text.contains("16777216"), "{text}");
}

#[test]
fn norms_with_too_wide_a_range_are_refused_unless_a_second_step_helps() {
    let mut f = Folder::shipped();
    // One token of the text becomes very large, so the first norm sees 2^-2 .. 2^16.
    let ids = two_documents()[0].ids.clone();
    let row = ids[3] as usize * 64;
    f.tensor("backbone.embeddings.weight").map(|i, x| {
        if (row..row + 64).contains(&i) {
            x * 400.0
        } else {
            x
        }
    });
    let text = violations(&f, &CalibrateOptions::default());
    assert!(text.contains("layer0.prenorm_ms"), "{text}");
    assert!(text.contains("two Newton steps"), "{text}");
    let model = Mamba2::load(f.write().path()).unwrap();
    let tight = CalibrateOptions {
        stack: Stack::Tight,
        ..CalibrateOptions::default()
    };
    let c = calibrate(&model, &two_documents(), &tight).unwrap();
    assert_eq!(c.norms.pre[0].newton, 2);
}

#[test]
fn vanishing_norms_are_refused() {
    let mut f = Folder::shipped();
    f.tensor("backbone.embeddings.weight").map(|_, x| x * 1e-3);
    let text = violations(&f, &CalibrateOptions::default());
    assert!(
        text.contains("layer0.prenorm_ms") && text.contains("fraction bits"),
        "{text}"
    );
}

#[test]
fn large_logits_are_refused() {
    let mut f = Folder::shipped();
    f.tensor("classifier.weight").map(|_, x| x * 200_000.0);
    let text = violations(&f, &CalibrateOptions::default());
    assert!(text.contains("logits"), "{text}");
}

#[test]
fn unusable_options_are_refused() {
    let (model, tokenizer) = load(&shipped());
    let e = calibrate(&model, &[], &CalibrateOptions::default()).unwrap_err();
    assert!(e.to_string().contains("no documents"));
    let mut docs = two_documents();
    docs.push(encode(&tokenizer, "x", 65));
    let e = calibrate(&model, &docs, &CalibrateOptions::default()).unwrap_err();
    assert!(e.to_string().contains("64") && e.to_string().contains("65"));
    for bad in [0.5, f64::NAN, f64::INFINITY] {
        let o = CalibrateOptions {
            headroom: bad,
            ..CalibrateOptions::default()
        };
        assert!(calibrate(&model, &two_documents(), &o).is_err());
    }
}

#[test]
fn foreign_ranges_widen_the_result() {
    let (model, _) = load(&shipped());
    let plain = calibrate(&model, &two_documents(), &CalibrateOptions::default()).unwrap();
    let mut ranges = Ranges::default();
    ranges.include_all("layer0.gate_z", &[-100.0, 3.0]);
    ranges.include_all(&NormId::Pre(1).tensor(), &[0.01, 5.0]);
    let o = CalibrateOptions {
        ranges: Some((
            ranges,
            cipherloom_model::calibration::RangeSource {
                name: "more".into(),
                documents: 3,
            },
        )),
        ..CalibrateOptions::default()
    };
    let wide = calibrate(&model, &two_documents(), &o).unwrap();
    assert_eq!(wide.ranges.of("layer0.gate_z").unwrap().min, -256.0);
    assert!(plain.ranges.of("layer0.gate_z").unwrap().min > -32.0);
    // 0.01 / 1.25 rounds down to 2^-7, 5 * 1.25 up to 8.
    let t = &wide.norms.pre[1];
    assert_eq!((t.v_min, t.v_max), (2f64.powi(-7), 8.0));
    assert_eq!(wide.range_sources.len(), 2);
}

#[test]
fn every_range_holds_what_was_seen_and_is_a_power_of_two() {
    let (model, _) = load(&shipped());
    let docs = two_documents();
    let c = calibrate(&model, &docs, &CalibrateOptions::default()).unwrap();
    for stack in Stack::ALL {
        let c = c.with_stack(stack, &model).unwrap();
        let surrogate = cipherloom_model::Surrogate::new(&c);
        for d in &docs {
            let mut seen = cipherloom_model::RangeObserver::new(128, 16);
            cipherloom_model::forward(&model, &d.ids, d.real, &surrogate, &mut seen).unwrap();
            for (name, r) in &seen.ranges.by_name {
                let Range { min, max } = c.ranges.of(name).unwrap();
                assert!(min <= r.min && r.max <= max, "{stack} {name}: {r:?}");
            }
        }
    }
}

/// Changes one place of the shipped file and expects a list of problems that contains `word`.
fn tampered(change: impl Fn(&mut Value), word: &str) {
    let model = Mamba2::load(&shipped()).unwrap();
    let text = std::fs::read_to_string(shipped().join("calibration.json")).unwrap();
    let mut v: Value = serde_json::from_str(&text).unwrap();
    change(&mut v);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("calibration.json"), v.to_string()).unwrap();
    let e = Calibration::load(dir.path(), &model).unwrap_err();
    assert!(
        matches!(e, ModelError::Calibration { .. } | ModelError::Json { .. }),
        "{e}"
    );
    assert!(e.to_string().contains(word), "{word}: {e}");
}

#[test]
fn calibration_files_are_checked() {
    tampered(|v| v["format"] = json!("x"), "format `x`");
    tampered(|v| v["version"] = json!(2), "version 2");
    tampered(|v| v["weights_checksum"] = json!("00"), "checksum 00");
    tampered(|v| v["stack"] = json!("tight"), "Newton");
    tampered(|v| v["stack"] = json!("other"), "other");
    tampered(|v| v["frac_bits"] = json!(20), "20 fraction bits");
    tampered(|v| v["documents"] = json!(0), "0 documents");
    tampered(|v| v["headroom"] = json!(0.5), "headroom");
    tampered(|v| v["extra"] = json!(1), "extra");
    tampered(
        |v| v["ranges"]["layer0.dt"]["max"] = json!(3.0),
        "powers of two",
    );
    tampered(
        |v| v["ranges"]["layer0.dt"]["min"] = json!(64.0),
        "layer0.dt",
    );
    tampered(
        |v| v["ranges"]["layer0.dt"]["max"] = json!(33_554_432.0),
        "layer0.dt",
    );
    tampered(
        |v| v["ranges"]["nothing"] = json!({"min": 0.0, "max": 1.0}),
        "nothing",
    );
    tampered(
        |v| {
            v["ranges"].as_object_mut().unwrap().remove("logits");
        },
        "`logits`",
    );
    tampered(
        |v| {
            v["norms"]["gated"].as_array_mut().unwrap().pop();
        },
        "norm tables",
    );
    tampered(|v| v["norms"]["last"]["v_min"] = json!(-1.0), "v_min");
    tampered(
        |v| v["norms"]["last"]["v_min"] = json!(0.5),
        "does not cover",
    );
    tampered(|v| v["norms"]["last"]["newton"] = json!(3), "Newton");
}
