//! The exact forward against independent references: 200 evaluation documents, and a trace of every stage.

use crate::common::{fixture, floats, json_lines, load, max_diff, shipped};
use cipherloom_model::forward::forward_all;
use cipherloom_model::{forward, Encoded, Exact, Trace};

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
