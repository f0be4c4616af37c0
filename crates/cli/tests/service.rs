//! A provider's server and its clients, as processes: answers, keys that are sent once, limits, and the stop.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};
use support::{
    begins, classify, fails, json, json_of, publish, refusal, Client, Published, Server, LONG,
    SOON, TINY,
};

/// Rounding of the logits (12 fraction bits) and noise, as in the demo's own tests.
const LOGIT_TOLERANCE: f64 = 0.002;

fn numbers(v: &Value) -> Vec<f64> {
    v.as_array()
        .unwrap()
        .iter()
        .map(|x| x.as_f64().unwrap())
        .collect()
}

fn close(a: &Value, b: &Value) {
    let (a, b) = (numbers(a), numbers(b));
    assert_eq!(a.len(), b.len());
    let worst = a.iter().zip(&b).map(|(x, y)| (x - y).abs());
    assert!(
        worst.fold(0.0, f64::max) <= LOGIT_TOLERANCE,
        "{a:?} against {b:?}"
    );
}

/// Bytes and flights of every stage, in order.
fn stages(report: &Value) -> Vec<(&Value, &Value)> {
    let all = report["stages"].as_array().unwrap().iter();
    all.map(|s| (&s["name"], &s["cost"]["traffic"])).collect()
}

/// Both parties saw the same session.
fn agree(client: &Value, end: &Value) {
    assert_eq!(end["outcome"], "answered", "{end}");
    let server = &end["report"];
    for field in ["traffic", "setup_bytes", "plan", "keys_reused"] {
        assert_eq!(client[field], server[field], "{field}");
    }
    assert_eq!(client["keys_reused"] == true, client["key_bytes"] == 0);
    assert!(server["key_bytes"].as_u64().unwrap() > 0);
    assert!(stages(client).len() > 20);
    assert_eq!(stages(client), stages(server));
}

/// One document, and the server's report of it.
fn ask(p: &Published, server: &Server, text: &str, keys: &Path, more: &[&str]) -> Value {
    let known = server.ends().len();
    let out = classify(&p.client, text, server.addr, keys, more);
    let answer = json_of(&{ out }.output().unwrap());
    agree(&answer, &server.end_after(known));
    answer
}

#[test]
fn three_documents_send_keys_once_and_answers_are_those_of_the_demo() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let p = publish(&at("published"), &[]);
    let (store, keys) = (at("store"), at("keys"));
    let server = Server::start(&p.server, &store, &[]);
    let texts = [
        TINY,
        "documents/short-negative.txt",
        "documents/medium-negative.txt",
    ];
    let mut answers = Vec::new();
    for (i, text) in texts.into_iter().enumerate() {
        let a = ask(&p, &server, text, &keys, &[]);
        let setup = a["setup_bytes"].as_u64().unwrap();
        if i == 0 {
            assert_eq!(a["keys_reused"], false);
            assert!(a["key_bytes"].as_u64().unwrap() > 10_000_000);
            assert!(setup > a["key_bytes"].as_u64().unwrap());
        } else {
            assert_eq!(a["keys_reused"], true);
            assert_eq!(a["key_bytes"], 0);
            assert!(setup < 1000, "{setup}");
        }
        let demo = json(&["demo", "--length", "16", "--text", text, "--json"]);
        assert_eq!(a["label"], demo["label"]);
        close(&a["logits"], &demo["logits"]);
        // An independent reference: the plaintext surrogate.
        assert_eq!(a["label"], demo["surrogate_label"]);
        close(&a["logits"], &demo["surrogate_logits"]);
        assert_eq!(a["tokens_in_text"], demo["tokens_in_text"]);
        answers.push(a);
    }
    assert_ne!(answers[0]["logits"], answers[1]["logits"]);

    // The label alone, from the same server with the same keys.
    let by_label = ask(&p, &server, TINY, &keys, &["--answer", "label"]);
    assert_eq!(by_label["label"], answers[0]["label"]);
    assert!(by_label.get("logits").is_none(), "{by_label}");
    assert_eq!(by_label["keys_reused"], true);

    // Another server process may not have the folder at the same time.
    let store_name = store.to_str().unwrap();
    let deployment = p.server.to_str().unwrap();
    let args = [
        "serve",
        support::MODEL,
        "--deployment",
        deployment,
        "--key-store",
        store_name,
        "--listen",
        "127.0.0.1:0",
    ];
    let said = fails(&args, 2);
    assert!(
        said.contains(store_name) && said.contains("in use"),
        "{said}"
    );

    // The keys outlive the server process.
    server.stop();
    let server = Server::start(&p.server, &store, &[]);
    let again = ask(&p, &server, TINY, &keys, &[]);
    assert_eq!(again["keys_reused"], true);
    close(&again["logits"], &answers[0]["logits"]);

    // A stored entry that was damaged: the log says so, and the client uploads again.
    let entries = std::fs::read_dir(&store)
        .unwrap()
        .map(|e| e.unwrap().path());
    let entries: Vec<_> = entries
        .filter(|p| p.extension().is_some_and(|e| e == "keys"))
        .collect();
    assert_eq!(entries.len(), 1, "one client");
    let mut bytes = std::fs::read(&entries[0]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&entries[0], bytes).unwrap();
    let repaired = ask(&p, &server, TINY, &keys, &[]);
    assert_eq!(repaired["keys_reused"], false);
    close(&repaired["logits"], &answers[0]["logits"]);
    server.log.wait(0, SOON, |l| l.contains("corrupt"));

    // A new key is sent, and then known.
    let fresh = ask(&p, &server, TINY, &keys, &["--fresh-key"]);
    assert_eq!(fresh["keys_reused"], false);
    close(&fresh["logits"], &answers[0]["logits"]);
    server.stop();
}

#[test]
fn a_deployment_of_labels_gives_no_logits() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let logits = publish(&at("logits"), &[]);
    // The same identity, so that a client of the other bundle gets as far as the hello.
    let file = |name: &str| logits.server.join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (file("certificate.pem"), file("key.pem"));
    let identity = ["--certificate", &certificate, "--key", &key];
    let label = publish(
        &at("label"),
        &[&identity[..], &["--answer", "label"]].concat(),
    );
    let server = Server::start(&label.server, &at("store"), &[]);
    let mut own = classify(
        &label.client,
        TINY,
        server.addr,
        &at("keys"),
        &["--answer", "logits"],
    );
    let said = refusal(&own.output().unwrap(), 2);
    assert!(said.contains("logits") && said.contains("label"), "{said}");
    assert!(server.ends().is_empty(), "the server was not asked");
    let mut other = classify(&logits.client, TINY, server.addr, &at("keys"), &[]);
    let said = refusal(&other.output().unwrap(), 3);
    assert!(said.contains("differ in answer"), "{said}");
    let end = server.end_after(0);
    assert_eq!(
        (&end["outcome"], &end["kind"], &end["what"]),
        (&"failed".into(), &"mismatch".into(), &"answer".into())
    );
    let a = ask(&label, &server, TINY, &at("keys"), &[]);
    assert_eq!(a["label"], "positive");
    assert!(a.get("logits").is_none());
    server.stop();

    // The same identity with another length: both sides name it.
    let longer = publish(
        &at("longer"),
        &[&identity[..], &["--length", "32"]].concat(),
    );
    let server = Server::start(&longer.server, &at("store2"), &[]);
    let mut c = classify(&logits.client, TINY, server.addr, &at("keys"), &[]);
    let said = refusal(&c.output().unwrap(), 3);
    for word in ["sequence length", "here 16", "peer 32"] {
        assert!(said.contains(word), "{said}");
    }
    let end = server.end_after(0);
    assert_eq!(end["what"], "sequence length", "{end}");
    assert_eq!(end["code"], 9);
    server.log.wait(0, SOON, |l| l.contains("sequence length"));
    server.stop();
}

/// Waits until a session after line `from` of the log is in its stages.
fn online(server: &Server, from: usize) -> usize {
    let in_stage = |l: &str| begins(l, "stage").is_some();
    server.log.wait(from, LONG, in_stage).1
}

#[test]
fn two_clients_at_a_time_limits_and_stops() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let p = publish(&at("published"), &[]);
    let store = at("store");
    let start = |keys: &str, text: &str, server: &Server| {
        Client::start(&mut classify(&p.client, text, server.addr, &at(keys), &[]))
    };
    let negative = "documents/short-negative.txt";

    let server = Server::start(&p.server, &store, &["--max-sessions", "2"]);
    let (a, b) = (
        start("keys-a", TINY, &server),
        start("keys-b", negative, &server),
    );
    let (a, b) = (json_of(&a.end(LONG)), json_of(&b.end(LONG)));
    assert_eq!(
        (&a["label"], &b["label"]),
        (&"positive".into(), &"negative".into())
    );
    server.stop();

    // One place: the second client hears so at once, the first one is not disturbed.
    let mut server = Server::start(&p.server, &store, &["--max-sessions", "1"]);
    let first = start("keys-a", TINY, &server);
    online(&server, 0);
    let began = Instant::now();
    let second = start("keys-b", negative, &server).end(SOON);
    let said = refusal(&second, 3);
    assert!(said.contains("limit"), "{said}");
    println!("refused in {:?}", began.elapsed());
    assert_eq!(server.end_after(0)["reason"], "busy");
    let first = json_of(&first.end(LONG));
    close(&first["logits"], &a["logits"]);
    assert_eq!(first["keys_reused"], true);

    // The stop: the running session is answered, a new client is told.
    let seen = server.log.len();
    let running = start("keys-b", negative, &server);
    let seen = online(&server, seen);
    server.terminate();
    server
        .log
        .wait(seen, SOON, |l| l.contains("stopping running="));
    let late = start("keys-a", TINY, &server).end(SOON);
    let said = refusal(&late, 3);
    assert!(said.contains("being stopped"), "{said}");
    let running = json_of(&running.end(LONG));
    close(&running["logits"], &b["logits"]);
    assert_eq!(server.wait().code(), Some(0));
    let ends = server.ends();
    let outcomes: Vec<_> = ends
        .iter()
        .map(|e| e["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(outcomes, ["refused", "answered", "refused", "answered"]);
    assert_eq!(ends[2]["reason"], "stopping");

    // No grace: the client is told before the server's next stage.
    let mut server = Server::start(&p.server, &store, &["--grace", "0"]);
    let cut = start("keys-a", TINY, &server);
    online(&server, 0);
    server.terminate();
    let began = Instant::now();
    let said = refusal(&cut.end(SOON), 3);
    assert!(said.contains("being stopped"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(15));
    assert_eq!(server.wait().code(), Some(0));
    let ends = server.ends();
    assert_eq!(ends.len(), 1);
    assert_eq!(
        (&ends[0]["outcome"], &ends[0]["code"]),
        (&"failed".into(), &20.into())
    );
}
