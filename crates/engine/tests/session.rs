//! Whole sessions in one process, two threads over memory channels: the encrypted answer equals the surrogate's.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cipherloom_engine::compare::compare;
use cipherloom_engine::document::client_input;
use cipherloom_engine::handshake::{client_handshake, server_handshake, Binding, HELLO_BYTES};
use cipherloom_engine::keystore::{FileKeyStore, StoreLimits};
use cipherloom_engine::link::Link;
use cipherloom_engine::report::same_traffic;
use cipherloom_engine::{
    run_client, run_server, ClientKeySource, ClientOutcome, EngineError, Observer, Quiet,
    SecretSeed, ServerOutcome, ServerSide, ServerWeights, SessionOptions,
};
use cipherloom_model::forward::label;
use cipherloom_model::{
    forward, Calibration, Document, Encoded, Mamba2, Surrogate, Tokenizer, Truncation,
};
use cipherloom_net::{message_bytes, Channel, ChannelConfig, FrameKind, MessageRecord};
use cipherloom_plan::{Answer, Plan, Request, OFFLINE_STAGE};
use cipherloom_ring::SecretPrg;
use cipherloom_spec::schedule::Carry;
use std::io::{Seek, SeekFrom, Write};
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
    let mut log = Log::default();
    let done = run_observed(s, text, source, &mut log);
    assert!(log.0.is_empty(), "{:?}", log.0);
    done
}

/// The server's warnings.
#[derive(Default)]
struct Log(Vec<String>);

impl Observer for Log {
    fn warning(&mut self, text: &dyn std::fmt::Display) {
        self.0.push(text.to_string());
    }
}

fn run_observed(
    s: &Setup,
    text: &Encoded,
    source: &ClientKeySource<'_>,
    log: &mut Log,
) -> (ClientOutcome, ServerOutcome) {
    let (a, b) = Channel::memory_pair(ChannelConfig::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = SessionOptions {
        dump: Some(dir.path().to_path_buf()),
        record_schedule: true,
        stop: None,
    };
    let input = client_input(&s.model, text).unwrap();
    let done = std::thread::scope(|scope| {
        let server = scope.spawn(|| run_server(Link::insecure_local(b), &s.side, &options, log));
        let client = run_client(
            Link::insecure_local(a),
            &s.plan,
            source,
            input,
            &options,
            &mut Quiet,
        );
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

/// Fingerprint and answer, from the client's side.
const OFFER: [(bool, u64); 2] = [(true, 32), (false, 1)];

/// Direction and length of the set-up messages of a whole session.
fn setup_messages(schedule: &[MessageRecord]) -> Vec<(bool, u64)> {
    schedule
        .iter()
        .filter(|m| m.kind == FrameKind::Setup)
        .map(|m| (m.sent, m.len))
        .collect()
}

/// The offline phase is the opening of the two-party session, as planned, and sends no key.
fn check_offline(s: &Setup, schedule: &[MessageRecord]) {
    let offline = || schedule.iter().filter(|m| m.stage == OFFLINE_STAGE);
    assert!(offline().all(|m| m.kind == FrameKind::Ot));
    let bytes = |sent: bool| -> u64 {
        offline()
            .filter(|m| m.sent == sent)
            .map(|m| message_bytes(m.len))
            .sum()
    };
    let planned = s.plan.document().offline;
    assert_eq!(
        (bytes(true), bytes(false)),
        (planned.client_to_server, planned.server_to_client)
    );
}

#[test]
fn sixteen_tokens_end_to_end() {
    let mut s = setup(16, None, Carry::Serial);
    let dir = tempfile::tempdir().unwrap();
    let limits = StoreLimits {
        max_bytes: 4 << 30,
        max_entries: 4,
    };
    s.side.store = Arc::new(FileKeyStore::open(dir.path(), limits).unwrap().0);
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
    // Offer, answer, and every key of the plan's list in order, the product key last.
    let list = s.side.list.keys().iter().map(|k| (true, k.bytes as u64));
    let sent: Vec<_> = OFFER.into_iter().chain(list).collect();
    assert_eq!(setup_messages(&client.schedule), sent);
    assert_eq!(sent.last(), Some(&(true, 32 + 8192 * 115 / 8)));
    check_offline(&s, &client.schedule);
    // The second and the third document of the same client send no key: hello, fingerprint and one byte back.
    for _ in 0..2 {
        let again = ClientKeySource {
            seed: &seed,
            known: Some(client.fingerprint),
        };
        let (again, server) = run_with(&s, &text, &again);
        check(&s, &text, &again, &server);
        assert!(server.report.keys_reused && again.report.keys_reused);
        assert_eq!(again.report.key_bytes, 0);
        assert_eq!(again.fingerprint, client.fingerprint);
        assert_eq!(setup_messages(&again.schedule), OFFER);
        assert_eq!(
            again.report.setup_bytes,
            2 * (16 + HELLO_BYTES as u64) + (16 + 32) + (16 + 1)
        );
        check_offline(&s, &again.schedule);
    }
    // A stored file that was changed: the server's log says so, and the keys are sent again.
    let path = dir.path().join(format!("{}.keys", client.fingerprint));
    let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::End(-1000)).unwrap();
    file.write_all(&[0x55; 8]).unwrap();
    drop(file);
    let source = ClientKeySource {
        seed: &seed,
        known: Some(client.fingerprint),
    };
    let mut log = Log::default();
    let (other, server) = run_observed(&s, &text, &source, &mut log);
    check(&s, &text, &other, &server);
    assert!(!server.report.keys_reused);
    assert_eq!(setup_messages(&other.schedule), sent);
    // Other uniform parts, hence other keys under another name.
    assert_ne!(other.fingerprint, client.fingerprint);
    assert!(
        matches!(&log.0[..], [one] if one.contains("corrupt")),
        "{:?}",
        log.0
    );
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

/// The same server, asked by a client that wants the label alone.
fn label_variant(s: &Setup) -> Setup {
    let plan = Arc::new(s.plan.with_answer(Answer::Label).unwrap());
    Setup {
        model: s.model.clone(),
        surrogate: s.surrogate.clone(),
        side: ServerSide {
            plans: s.side.plans.clone(),
            weights: Arc::clone(&s.side.weights),
            list: Arc::clone(&s.side.list),
            store: Arc::clone(&s.side.store),
        },
        plan,
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

    // A server of labels gives no logits: both sides say so.
    let plans = [Arc::clone(&by_label.plan)];
    let (mut a, mut b) = Channel::memory_pair(ChannelConfig::default()).unwrap();
    let binding = Binding::insecure_none();
    let prg = || SecretPrg::from_os().unwrap();
    let (client, server) = std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let end = server_handshake(&mut b, &plans, &binding, &mut prg());
            end.map(|_| ()).unwrap_err()
        });
        let client = client_handshake(&mut a, &s.plan, &binding, &mut prg()).unwrap_err();
        (client, server.join().unwrap())
    });
    for e in [client, server] {
        assert!(
            matches!(e, EngineError::Mismatch { what: "answer", .. }),
            "{e}"
        );
    }
}
