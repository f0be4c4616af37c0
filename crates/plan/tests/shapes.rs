//! Plans of the paper's shapes: depths, refusals, contracts, and documents that do not follow from their request.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cipherloom_plan::{Answer, ModelShape, Plan, PlanError, Request, Ring, StageKind};
use cipherloom_spec::approx::Stack;
use cipherloom_spec::schedule::Carry;
use cipherloom_spec::SpecError;

fn plan(shape: &str, length: usize, block: Option<usize>, carry: Carry) -> Result<Plan, PlanError> {
    Plan::build(Request::for_shape(
        ModelShape::named(shape)?,
        length,
        block,
        carry,
        Stack::default(),
    )?)
}

#[test]
fn full_size_scans_have_the_published_depths_or_less_and_fit_the_security_table() {
    for (length, block, at_most) in [(2048, 1024, 22), (4096, 512, 26), (8192, 512, 34)] {
        let p = plan("mamba-base", length, Some(block), Carry::Serial).unwrap();
        let depth = p.scan().schedule.depth();
        assert!(depth <= at_most, "({length}, {block}): depth {depth}");
        let chain = p.chain(Ring::Scan);
        assert!(
            chain.is_secure() && chain.log_qp() <= 1747.0,
            "{}",
            chain.log_qp()
        );
        let scan = p.stages().iter().find(|s| s.name == "layer0.scan").unwrap();
        assert_eq!(scan.depth, depth);
    }
}

#[test]
fn small_blocks_with_a_serial_carry_are_refused_and_run_with_brent_kung() {
    let e = plan("mamba-base", 8192, Some(256), Carry::Serial).unwrap_err();
    assert!(
        matches!(e, PlanError::Spec(SpecError::LevelExhausted { .. })),
        "{e}"
    );
    let p = plan("mamba-base", 8192, Some(256), Carry::BrentKung).unwrap();
    assert!(
        p.scan().schedule.depth() <= 24,
        "{}",
        p.scan().schedule.depth()
    );
}

#[test]
fn the_small_classifier_shares_ciphertexts_between_segments() {
    let p = plan("moviedoc", 128, None, Carry::Serial).unwrap();
    assert_eq!(p.scan().schedule.depth(), 12);
    let scan = p.stages().iter().find(|s| s.name == "layer0.scan").unwrap();
    assert!(scan.cost.he.key_switches() <= 200, "{:?}", scan.cost.he);
    assert_eq!(
        plan("moviedoc", 512, None, Carry::Serial)
            .unwrap()
            .scan()
            .schedule
            .depth(),
        14
    );
    assert!(
        p.document().failure_log2 <= -30.0,
        "{}",
        p.document().failure_log2
    );
}

#[test]
fn a_document_is_derived_again_and_every_change_is_named() {
    let p = plan("moviedoc", 64, Some(16), Carry::BrentKung).unwrap();
    let text = p.to_json().unwrap();
    let again = Plan::from_json(text.as_bytes()).unwrap();
    assert_eq!(again.hash(), p.hash());
    let v: serde_json::Value = serde_json::from_str(&text).unwrap();
    for (path, value) in [
        ("/failure_log2", serde_json::json!(-100.0)),
        ("/setup_bytes", serde_json::json!(1)),
        ("/scan_ring/q_bits/3", serde_json::json!(39)),
        ("/projection_ring/log_n", serde_json::json!(13)),
        ("/keys/0/rotations/0/rotation", serde_json::json!(2)),
        ("/stages/3/cost/he/rotations", serde_json::json!(0)),
        ("/stages/3/cost/traffic/flights", serde_json::json!(9)),
        ("/security_bits", serde_json::json!(80)),
    ] {
        let mut bad = v.clone();
        *bad.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value;
        let e = Plan::from_json(bad.to_string().as_bytes()).unwrap_err();
        assert!(matches!(e, PlanError::Mismatch { .. }), "{path}: {e}");
    }
    let mut bad = v.clone();
    bad["version"] = serde_json::json!(99);
    assert!(matches!(
        Plan::from_json(bad.to_string().as_bytes()),
        Err(PlanError::Document(_))
    ));
    let mut bad = v.clone();
    bad["request"]["length"] = serde_json::json!(128);
    assert!(matches!(
        Plan::from_json(bad.to_string().as_bytes()),
        Err(PlanError::Mismatch { .. })
    ));
    for cut in [0, 1, text.len() / 2, text.len() - 2] {
        assert!(Plan::from_json(&text.as_bytes()[..cut]).is_err());
    }
}

#[test]
fn the_label_variant_differs_in_the_last_stage_only() {
    let logits = plan("moviedoc", 64, None, Carry::Serial).unwrap();
    assert_eq!(logits.request().answer, Answer::Logits);
    let label = logits.with_answer(Answer::Label).unwrap();
    assert_ne!(label.hash(), logits.hash());
    let (a, b) = (logits.document(), label.document());
    assert_eq!(a.keys, b.keys);
    assert_eq!(a.projection_ring, b.projection_ring);
    assert_eq!(a.scan_ring, b.scan_ring);
    assert_eq!(a.setup_bytes, b.setup_bytes);
    assert_eq!(a.offline, b.offline);
    // Exact comparisons: the budget is the same.
    assert_eq!(a.failure_log2, b.failure_log2);
    assert_eq!(a.stages.len(), b.stages.len());
    let (last, before) = b.stages.split_last().unwrap();
    assert_eq!(&a.stages[..before.len()], before);
    // Two logits below 16 with their bias, two spare bits, 12 fraction bits: 20 bits; the mux is that of the index.
    assert_eq!(last.kind, StageKind::Output);
    assert_eq!(last.variant, "label, argmax on 20 bits");
    assert_eq!(last.failure_log2, -1074.0);
    let c = last.cost.mpc;
    assert_eq!((c.comparisons, c.muxes, c.cots), (1, 1, 20 + 2 * 4 + 2));
    assert_eq!(last.cost.traffic.flights, 12);
    let logits_stage = a.stages.last().unwrap();
    assert_eq!(logits_stage.variant, "logits, 12 fraction bits");
    assert_eq!(logits_stage.cost.traffic.flights, 1);

    // A variant is a document like any other, and the answer is part of what must follow.
    let text = label.to_json().unwrap();
    assert_eq!(
        Plan::from_json(text.as_bytes()).unwrap().hash(),
        label.hash()
    );
    let mut v: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(v["request"]["answer"], "label");
    v["request"]["answer"] = "logits".into();
    let e = Plan::from_json(v.to_string().as_bytes()).unwrap_err();
    assert!(matches!(e, PlanError::Mismatch { .. }), "{e}");
    v["request"]["answer"] = "both".into();
    let e = Plan::from_json(v.to_string().as_bytes()).unwrap_err();
    assert!(matches!(e, PlanError::Document(_)), "{e}");
    v["request"].as_object_mut().unwrap().remove("answer");
    let e = Plan::from_json(v.to_string().as_bytes()).unwrap_err();
    assert!(e.to_string().contains("missing field `answer`"), "{e}");

    // A client may ask for less, never for more.
    assert_eq!(
        label.with_answer(Answer::Label).unwrap().hash(),
        label.hash()
    );
    let e = label.with_answer(Answer::Logits).unwrap_err();
    assert!(
        matches!(
            e,
            PlanError::Request {
                field: "answer",
                ..
            }
        ),
        "{e}"
    );
}

#[test]
fn a_label_needs_logits_whose_differences_fit_their_ring() {
    let shape = ModelShape::named("moviedoc").unwrap();
    let mut r = Request::for_shape(shape, 64, None, Carry::Serial, Stack::default()).unwrap();
    r.pool.logit_max = 65_536.0;
    let logits = Plan::build(r).unwrap();
    let e = logits.with_answer(Answer::Label).unwrap_err();
    assert!(e.to_string().contains("answer by label"), "{e}");
}

#[test]
fn bad_requests_are_typed_errors() {
    for length in [0, 1 << 20, 100, 3] {
        assert!(
            plan("moviedoc", length, None, Carry::Serial).is_err(),
            "{length}"
        );
    }
    assert!(matches!(
        plan("no-such-shape", 128, None, Carry::Serial),
        Err(PlanError::UnknownShape { .. })
    ));
    assert!(plan("moviedoc", 128, Some(24), Carry::Serial).is_err());
    assert!(plan("moviedoc", 128, Some(0), Carry::Serial).is_err());
    let mut shape = ModelShape::named("moviedoc").unwrap();
    shape.groups = 2;
    let r = Request::for_shape(shape, 128, None, Carry::Serial, Stack::default()).unwrap();
    assert!(matches!(
        Plan::build(r),
        Err(PlanError::Unsupported {
            field: "groups",
            ..
        })
    ));
}

/// Found by probing the largest shapes: a division by zero, an overflow, and a replay of billions of refills.
#[test]
fn two_party_parameters_that_no_session_runs_are_refused_before_the_replay() {
    let p = plan("moviedoc", 16, None, Carry::Serial).unwrap();
    let v: serde_json::Value = serde_json::from_str(&p.to_json().unwrap()).unwrap();
    for (key, values) in [
        ("cot_k", [0u64, 3, 129, u64::from(u32::MAX)]),
        ("cot_batch", [0, 1, 8191, u64::MAX]),
        ("digit_bits", [0, 5, 64, u64::from(u32::MAX)]),
    ] {
        for value in values {
            let mut bad = v.clone();
            bad["mpc"][key] = value.into();
            let e = Plan::from_json(bad.to_string().as_bytes()).unwrap_err();
            assert!(
                matches!(e, PlanError::Unsupported { field, .. } if field == key),
                "{key} = {value}: {e}"
            );
        }
    }
}

/// The largest shapes that pass every check are planned or refused soon.
#[test]
fn the_largest_requests_end_soon() {
    let mut shape = ModelShape::named("moviedoc").unwrap();
    shape.layers = 512;
    for (hidden, heads, head_dim, state) in [
        (64, 8, 16, 16),
        (1 << 14, 1 << 10, 1 << 10, 1 << 10),
        (1 << 14, 1 << 10, 16, 128),
        (1 << 14, 1 << 7, 1 << 8, 128),
        (64, 2, 64, 2),
        (64, 8, 16, 1 << 10),
    ] {
        (shape.hidden, shape.heads, shape.head_dim, shape.state) = (hidden, heads, head_dim, state);
        for (length, block, carry) in [
            (1 << 16, None, Carry::Serial),
            (1 << 16, None, Carry::BrentKung),
            (1 << 16, Some(2), Carry::BrentKung),
            (1 << 16, Some(2), Carry::Serial),
            (1 << 16, Some(64), Carry::BrentKung),
            (1 << 14, Some(1 << 14), Carry::BrentKung),
            (16, None, Carry::BrentKung),
        ] {
            let start = std::time::Instant::now();
            let r = Request::for_shape(shape.clone(), length, block, carry, Stack::default());
            let p = Plan::build(r.unwrap());
            let took = start.elapsed();
            eprintln!(
                "{hidden} {heads}x{head_dim} {state}, {length} {block:?} {carry:?}: {took:?} {}",
                p.map_or_else(
                    |e| e.to_string(),
                    |p| format!("{} stages", p.stages().len())
                )
            );
            assert!(took.as_secs() < 20, "{took:?}");
        }
    }
}
