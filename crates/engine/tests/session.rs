//! Whole sessions in one process, two threads over memory channels: the encrypted answer equals the surrogate's.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cipherloom_engine::compare::compare;
use cipherloom_engine::document::client_input;
use cipherloom_engine::report::same_traffic;
use cipherloom_engine::{
    run_client, run_server, ClientKeySource, ClientOutcome, Quiet, SecretSeed, ServerOutcome,
    ServerSide, ServerWeights, SessionOptions,
};
use cipherloom_model::forward::label;
use cipherloom_model::{
    forward, Calibration, Document, Encoded, Mamba2, Surrogate, Tokenizer, Truncation,
};
use cipherloom_net::{Channel, ChannelConfig, FrameKind};
use cipherloom_plan::{Answer, Plan, Request};
use cipherloom_spec::schedule::Carry;
use std::path::PathBuf;
use std::sync::Arc;

const TEXT: &str = "a quiet and moving film with a fine cast . the last act drags a little , but the ending is honest \
    and the camera never looks away . i would gladly see it again with friends who like slow stories .";

struct Setup {
    model: Mamba2,
    surrogate: Surrogate,
    plan: Arc<Plan>,
    side: ServerSide,
}

fn model_dir() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../models/mamba2-moviedoc"
    ))
}

fn setup(length: usize, block: Option<usize>, carry: Carry) -> Setup {
    let model = Mamba2::load(&model_dir()).unwrap();
    let calibration = Calibration::load(&model_dir(), &model).unwrap();
    let request =
        Request::for_model("moviedoc", &model, &calibration, length, block, carry).unwrap();
    let plan = Arc::new(Plan::build(request).unwrap());
    let weights = Arc::new(ServerWeights::new(&plan, &model, |_, _| {}).unwrap());
    let surrogate = Surrogate::new(&calibration);
    Setup {
        model,
        surrogate,
        side: ServerSide::in_memory(Arc::clone(&plan), weights, 2).unwrap(),
        plan,
    }
}

fn encode(s: &Setup, text: &str, length: usize) -> Encoded {
    let tokenizer = Tokenizer::load(&model_dir(), &s.model.config).unwrap();
    tokenizer.encode(text, length, Truncation::Allow).unwrap()
}

fn run(s: &Setup, text: &Encoded) -> (ClientOutcome, ServerOutcome) {
    let seed = SecretSeed::from_os().unwrap();
    run_with(
        s,
        text,
        &ClientKeySource {
            seed: &seed,
            known: None,
        },
    )
}

fn run_with(
    s: &Setup,
    text: &Encoded,
    source: &ClientKeySource<'_>,
) -> (ClientOutcome, ServerOutcome) {
    let (a, b) = Channel::memory_pair(ChannelConfig::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = SessionOptions {
        dump: Some(dir.path().to_path_buf()),
        record_schedule: true,
    };
    let input = client_input(&s.model, text).unwrap();
    let done = std::thread::scope(|scope| {
        let server = scope.spawn(|| run_server(b, &s.side, &options, &mut Quiet));
        let client = run_client(a, &s.plan, source, input, &options, &mut Quiet);
        let server = server.join().unwrap();
        match (client, server) {
            (Ok(c), Ok(s)) => (c, s),
            (c, s) => panic!("client: {:?}\nserver: {:?}", c.err(), s.err()),
        }
    });
    // Both sides are this test's: every stage's shares, joined, equal the plaintext surrogate.
    let comparison = compare(dir.path(), &s.model, &s.surrogate, &s.plan, text).unwrap();
    for d in &comparison.stages {
        println!(
            "{:<24} {:<8} {:.2e} of {:.2e}",
            d.stage, d.tensor, d.max_diff, d.max_abs
        );
    }
    assert_eq!(comparison.first_divergence, None);
    done
}

fn check(s: &Setup, text: &Encoded, client: &ClientOutcome, server: &ServerOutcome) {
    let want = forward(
        &s.model,
        &text.ids,
        text.real,
        &s.surrogate,
        &mut cipherloom_model::observe::Silent,
    )
    .unwrap();
    let logits = client.logits.as_deref().expect("a plan that opens logits");
    assert_eq!(client.label, label(logits));
    let worst = want
        .logits
        .iter()
        .zip(logits)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f64::max);
    println!(
        "logits {:?} surrogate {:?} difference {worst:.5}; online {:.2} s, peak {} MB",
        logits,
        want.logits,
        client.report.seconds.online,
        client.report.peak_rss_bytes >> 20
    );
    assert!(worst <= 0.002, "{:?} against {:?}", logits, want.logits);
    let a = client
        .report
        .stages
        .iter()
        .map(|s| (s.name.as_str(), &s.cost));
    let b = server
        .report
        .stages
        .iter()
        .map(|s| (s.name.as_str(), &s.cost));
    same_traffic(a, b).unwrap();
    assert_eq!(client.report.traffic, server.report.traffic);
    assert_eq!(client.report.setup_bytes, server.report.setup_bytes);
}

#[test]
fn sixteen_tokens_end_to_end() {
    let s = setup(16, None, Carry::Serial);
    let text = encode(&s, TEXT, 16);
    let seed = SecretSeed::from_os().unwrap();
    let first = ClientKeySource {
        seed: &seed,
        known: None,
    };
    let (client, server) = run_with(&s, &text, &first);
    check(&s, &text, &client, &server);
    assert!(!server.report.keys_reused);
    assert_eq!(
        client.report.setup_bytes,
        s.plan.document().setup_bytes,
        "keys are sent once"
    );
    // The second document of the same client sends no key byte: hello, fingerprint and one byte back.
    let second = ClientKeySource {
        seed: &seed,
        known: Some(client.fingerprint),
    };
    let (again, server) = run_with(&s, &text, &second);
    check(&s, &text, &again, &server);
    assert!(server.report.keys_reused && again.report.keys_reused);
    assert_eq!(again.report.key_bytes, 0);
    assert!(
        again.report.setup_bytes < 400,
        "{}",
        again.report.setup_bytes
    );
    // A fingerprint that the server does not know: the keys are sent again.
    let mut unknown = client.fingerprint;
    unknown.0[0] ^= 1;
    let other = ClientKeySource {
        seed: &seed,
        known: Some(unknown),
    };
    let (client, server) = run_with(&s, &text, &other);
    check(&s, &text, &client, &server);
    assert!(!server.report.keys_reused);
}

#[test]
fn sixty_four_tokens_in_four_blocks_with_both_carries_and_a_schedule_that_ignores_the_text() {
    let mut schedules = Vec::new();
    for carry in [Carry::Serial, Carry::BrentKung] {
        let s = setup(64, Some(16), carry);
        let text = encode(&s, TEXT, 64);
        let (client, server) = run(&s, &text);
        check(&s, &text, &client, &server);
        if carry == Carry::Serial {
            schedules.push((client.schedule, server.schedule));
            // Three tokens: the same messages in the same order, both ways.
            let short = encode(&s, "very good .", 64);
            assert!(short.real <= 4, "{} tokens", short.real);
            let (client, server) = run(&s, &short);
            check(&s, &short, &client, &server);
            schedules.push((client.schedule, server.schedule));
        }
    }
    assert!(schedules[0].0.len() > 100);
    assert_eq!(schedules[0].0, schedules[1].0);
    assert_eq!(schedules[0].1, schedules[1].1);
}

/// The same setup for an answer that is the label alone: the same weights, and the same store of keys.
fn label_variant(s: &Setup) -> Setup {
    let side = s.side.with_answer(Answer::Label).unwrap();
    Setup {
        model: s.model.clone(),
        surrogate: s.surrogate.clone(),
        plan: Arc::clone(&side.plan),
        side,
    }
}

#[test]
fn a_session_that_opens_the_label_gives_that_of_the_logits_and_ignores_the_text() {
    let s = setup(16, None, Carry::Serial);
    let by_label = label_variant(&s);
    assert_ne!(s.plan.hash(), by_label.plan.hash());
    let shipped = model_dir().join("../../documents/documents.jsonl");
    let texts = Document::read_all(&shipped, None).unwrap();
    let seed = SecretSeed::from_os().unwrap();
    let mut known = None;
    let mut labels = Vec::new();
    let mut schedules = Vec::new();
    for document in &texts {
        let text = encode(&s, &document.text, 16);
        let source = ClientKeySource { seed: &seed, known };
        let (logits, server) = run_with(&s, &text, &source);
        check(&s, &text, &logits, &server);
        // Keys that the logits session left serve the label session.
        let source = ClientKeySource {
            seed: &seed,
            known: Some(logits.fingerprint),
        };
        let (label, server) = run_with(&by_label, &text, &source);
        assert!(server.report.keys_reused);
        assert_eq!(label.logits, None);
        assert_eq!(label.label, logits.label, "{:?}", logits.logits);
        labels.push(label.label);
        schedules.push((label.schedule, server.schedule));
        known = Some(logits.fingerprint);
    }
    println!("labels {labels:?}");
    assert!(labels.contains(&0) && labels.contains(&1), "{labels:?}");
    for s in &schedules {
        assert_eq!(s, &schedules[0]);
    }
    // The last message of the server is one byte, whatever the label.
    let last = schedules[0]
        .1
        .iter()
        .rfind(|m| m.sent && m.len > 0)
        .unwrap();
    assert_eq!((last.kind, last.len), (FrameKind::Output, 1));

    // A server of labels gives no logits.
    assert!(by_label.side.with_answer(Answer::Logits).is_err());
}
