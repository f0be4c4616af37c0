//! The exact forward against independent references: 200 evaluation documents, and a trace of every stage.

use crate::common::{encode, fixture, floats, json_lines, load, max_diff, shipped};
use cipherloom_model::forward::forward_all;
use cipherloom_model::{forward, Calibration, Encoded, Exact, RangeObserver, Surrogate, Trace};
use cipherloom_spec::approx::Stack;

fn whole(ids: Vec<u32>) -> Encoded {
    Encoded {
        real: ids.len(),
        total: ids.len(),
        ids,
        cut: None,
    }
}

#[test]
fn exact_forward_matches_the_reference_on_every_document() {
    let Some(dir) = fixture("mamba2-moviedoc") else {
        return;
    };
    let (model, tokenizer) = load(&dir);
    let texts = json_lines(&dir.join("eval.jsonl"));
    let wanted = json_lines(&dir.join("eval_logits.jsonl"));
    assert_eq!((texts.len(), wanted.len()), (200, 200));
    let start = std::time::Instant::now();
    let ids: Vec<Vec<u32>> = texts
        .iter()
        .map(|d| tokenizer.tokens(d["text"].as_str().unwrap(), 512).unwrap())
        .collect();
    for (d, ids) in wanted.iter().zip(&ids) {
        assert_eq!(
            d["n_tokens"].as_u64().unwrap(),
            ids.len() as u64,
            "{}",
            d["id"]
        );
        let all =
            |key: &str| -> Vec<u32> { floats(&d[key]).into_iter().map(|x| x as u32).collect() };
        assert_eq!(all("ids_head"), ids[..12]);
        assert_eq!(all("ids_tail"), ids[ids.len() - 12..]);
    }
    eprintln!("tokenized in {:?}", start.elapsed());
    let tail = |n: usize| move |i: &Vec<u32>| i[i.len().saturating_sub(n)..].to_vec();
    let head = |n: usize| move |i: &Vec<u32>| i[..i.len().min(n)].to_vec();
    type Cut<'a> = &'a dyn Fn(&Vec<u32>) -> Vec<u32>;
    let cuts: [(&str, Cut); 4] = [
        ("tail128", &tail(128)),
        ("tail512", &tail(512)),
        ("head512", &head(512)),
        ("full", &head(4096)),
    ];
    for (name, cut) in cuts {
        let start = std::time::Instant::now();
        let documents: Vec<Encoded> = ids.iter().map(|i| whole(cut(i))).collect();
        let outputs = forward_all(&model, &documents, &Exact).unwrap();
        let mut worst: f64 = 0.0;
        for (d, out) in wanted.iter().zip(&outputs) {
            let reference = floats(&d[format!("ref_f64_{name}")]);
            let diff = max_diff(&out.logits, &reference);
            assert!(diff < 1e-6, "{name}, {}: {diff}", d["id"]);
            worst = worst.max(diff);
        }
        eprintln!(
            "{name}: largest difference {worst:.2e}, {:?}",
            start.elapsed()
        );
    }
}

#[test]
fn every_stage_matches_the_trace() {
    let Some(dir) = fixture("mamba2-moviedoc") else {
        return;
    };
    let (model, tokenizer) = load(&dir);
    let bytes = std::fs::read(dir.join("trace.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let (_, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let text = metadata.metadata().clone().unwrap()["text"].clone();
    let ids = tokenizer.tokens(&text, 512).unwrap();
    let mut trace = Trace::default();
    forward(&model, &ids, ids.len(), &Exact, &mut trace).unwrap();
    let mut compared = 0;
    for (name, tensor) in file.tensors() {
        if name == "input_ids" {
            let wanted: Vec<u32> = tensor
                .data()
                .chunks_exact(8)
                .map(|b| i64::from_le_bytes(b.try_into().unwrap()) as u32)
                .collect();
            assert_eq!(ids, wanted);
            continue;
        }
        let wanted: Vec<f64> = tensor
            .data()
            .chunks_exact(8)
            .map(|b| f64::from_le_bytes(b.try_into().unwrap()))
            .collect();
        let got = trace
            .tensors
            .get(&name)
            .unwrap_or_else(|| panic!("no stage named {name}"));
        let diff = max_diff(&got.data, &wanted);
        assert!(diff < 1e-9, "{name}: {diff}");
        compared += 1;
    }
    assert_eq!(compared, 31, "stages in the trace");
}

/// The table of the fixtures' README, measured there with other code and other ranges of the norms.
#[test]
fn surrogates_are_as_close_to_the_exact_model_as_published() {
    let Some(dir) = fixture("mamba2-moviedoc") else {
        return;
    };
    let (model, tokenizer) = load(&shipped());
    let calibration = Calibration::load(&shipped(), &model).unwrap();
    let documents: Vec<Encoded> = json_lines(&dir.join("eval.jsonl"))[..60]
        .iter()
        .map(|d| encode(&tokenizer, d["text"].as_str().unwrap(), 512))
        .collect();
    let exact = forward_all(&model, &documents, &Exact).unwrap();
    for (stack, published, agreement) in [
        (Stack::Paper, 0.465, 57),
        (Stack::D4, 0.342, 56),
        (Stack::Mid, 0.234, 58),
        (Stack::Tight, 0.089, 58),
    ] {
        let c = calibration.with_stack(stack, &model).unwrap();
        let got = forward_all(&model, &documents, &Surrogate::new(&c)).unwrap();
        let mut worst: f64 = 0.0;
        let mut same = 0;
        for (a, b) in exact.iter().zip(&got) {
            worst = worst.max(max_diff(&a.logits, &b.logits));
            same += usize::from(a.label() == b.label());
        }
        eprintln!("{stack}: largest difference {worst:.3}, {same} of 60 labels");
        assert!(
            (worst - published).abs() < 0.15 * published,
            "{stack}: {worst}"
        );
        assert!(same + 2 >= agreement, "{stack}: {same}");
    }
}

/// The ranges of the training set hold the evaluation set, which they have not seen.
#[test]
fn evaluation_documents_stay_in_the_calibrated_domain() {
    let Some(dir) = fixture("mamba2-moviedoc") else {
        return;
    };
    let (model, tokenizer) = load(&shipped());
    let calibration = Calibration::load(&shipped(), &model).unwrap();
    let surrogate = Surrogate::new(&calibration);
    let mut outside = Vec::new();
    for d in &json_lines(&dir.join("eval.jsonl"))[..60] {
        let e = encode(&tokenizer, d["text"].as_str().unwrap(), 128);
        let mut seen = RangeObserver::new(model.config.inner(), model.config.state_size);
        forward(&model, &e.ids, e.real, &surrogate, &mut seen).unwrap();
        outside.extend(calibration.outside(&seen.ranges, &model));
    }
    assert!(outside.is_empty(), "{outside:?}");
    // A value beyond the range is reported.
    let mut far = RangeObserver::default();
    far.ranges.include("layer0.gate_z", 1e3);
    far.ranges.include("final_norm_ms", 0.1);
    assert_eq!(calibration.outside(&far.ranges, &model).len(), 2);
}

#[test]
fn shipped_model_is_the_fixture() {
    let Some(dir) = fixture("mamba2-moviedoc") else {
        return;
    };
    for file in [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "activation_ranges.json",
    ] {
        let read = |d: &std::path::Path| std::fs::read(d.join(file)).unwrap();
        assert!(read(&dir) == read(&shipped()), "{file} differs");
    }
}
