//! Clients and servers that are killed in every phase: the other side ends soon with a typed error, the server goes on, and
//! nothing of a dead session stays in memory.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use support::{
    begins, classify, json, json_of, publish, refusal, Client, Published, Relay, Server, LONG,
    MODEL, SOON, TINY,
};

/// Every kind of stage, and the phases before: what the server's log says when they begin.
const KINDS: [&str; 16] = [
    "embed",
    "layer0.pre_norm",
    "layer0.to_ckks",
    "layer0.in_projection",
    "layer0.convolution",
    "layer0.to_shares",
    "layer0.factors",
    "layer0.packet",
    "layer0.scan",
    "layer0.scan_to_shares",
    "layer0.post",
    "layer0.post_to_ckks",
    "layer0.out_projection",
    "layer0.residual",
    "classify",
    "output",
];
/// Killed sessions whose memory is asked for.
const KILLS: usize = 50;

/// Sent by a client whose keys are known until its TLS handshake ends; a hello follows.
const IN_TLS: u64 = 100;

struct Bench {
    dir: tempfile::TempDir,
    published: Published,
    /// Names of all stages, in order.
    stages: Vec<String>,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let published = publish(&dir.path().join("published"), &[]);
        let plan = json(&["plan", MODEL, "--length", "16", "--json"]);
        let names = plan["document"]["stages"].as_array().unwrap().iter();
        let stages: Vec<String> = names
            .map(|s| s["name"].as_str().unwrap().to_owned())
            .collect();
        // Nothing is left out: each stage of the plan is of a kind in the list.
        for s in &stages {
            let general = s.replace("layer1.", "layer0.");
            assert!(KINDS.contains(&general.as_str()), "{s}");
        }
        Self {
            dir,
            published,
            stages,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn server(&self) -> Server {
        Server::start(&self.published.server, &self.at("store"), &[])
    }

    fn client(&self, at: std::net::SocketAddr, keys: &str) -> Client {
        Client::start(&mut classify(
            &self.published.client,
            TINY,
            at,
            &self.at(keys),
            &[],
        ))
    }

    fn answered(&self, server: &Server) -> Value {
        let known = server.ends().len();
        let a = json_of(&self.client(server.addr, "keys").end(LONG));
        assert_eq!(a["label"], "positive");
        assert_eq!(server.end_after(known)["outcome"], "answered");
        a
    }

    /// Position of a phase or stage in a session.
    fn position(&self, place: &str) -> usize {
        let phases = ["setup", "offline", "online"];
        let before = phases.iter().position(|p| *p == place);
        let stage = || self.stages.iter().position(|s| s == place).map(|i| i + 3);
        before.or_else(stage).unwrap_or_else(|| panic!("{place}"))
    }

    /// Kills a client when the server's log says that it enters `place`. The server reports it where it notices.
    fn kill_client(&self, server: &Server, field: &str, place: &str) -> Value {
        let (known, from) = (server.ends().len(), server.log.len());
        let mut client = self.client(server.addr, "keys");
        let enters = |l: &str| begins(l, field) == Some(place);
        server.log.wait(from, LONG, enters);
        client.kill();
        let end = server.end_after(known);
        // The last message may have been on its way already.
        if place == "output" && end["outcome"] == "answered" {
            return end;
        }
        self.lost(&end, place);
        end
    }

    /// Kills a client after it sent so many bytes.
    fn kill_client_after(&self, server: &Server, bytes: u64, keys: &str) {
        let relay = Relay::start(server.addr, bytes);
        let mut client = self.client(relay.addr, keys);
        relay.held();
        client.kill();
        drop(relay);
    }

    /// A session whose client was lost in `place`, or noticed a little later.
    fn lost(&self, end: &Value, place: &str) {
        assert_eq!(end["outcome"], "failed", "killed in {place}");
        assert_eq!(end["kind"], "peer-lost", "{end}");
        assert_eq!(end["code"], 1);
        let noticed = end["stage"].as_str().unwrap();
        assert!(
            self.position(noticed) >= self.position(place),
            "killed in {place}, noticed in {noticed}"
        );
    }
}

/// Resident memory once the server has given back what the last session left.
fn at_rest(server: &Server) -> u64 {
    std::thread::sleep(Duration::from_secs(3));
    server.resident()
}

#[test]
fn fifty_killed_clients_leave_the_server_as_it_was() {
    let bench = Bench::new();
    let server = bench.server();
    // Warm: what every session leaves once is there.
    bench.answered(&server);
    bench.kill_client(&server, "stage", "layer0.factors");
    bench.answered(&server);
    let before = at_rest(&server);

    let mut killed = 0;
    for kind in KINDS {
        bench.kill_client(&server, "stage", kind);
        killed += 1;
    }
    // In the TLS handshake: no session begins.
    let known = server.ends().len();
    for bytes in [1, IN_TLS, 2 * IN_TLS] {
        bench.kill_client_after(&server, bytes, "keys");
        killed += 1;
    }
    assert_eq!(server.ends().len(), known);
    // In the middle of its keys, which are not stored then.
    for mib in [1, 2, 5, 10, 20, 40, 60] {
        let known = server.ends().len();
        bench.kill_client_after(&server, mib << 20, "unfinished");
        killed += 1;
        bench.lost(&server.end_after(known), "setup");
    }
    let stored = std::fs::read_dir(bench.at("store")).unwrap();
    let entries = stored.filter(|e| {
        let path = e.as_ref().unwrap().path();
        path.extension().is_some_and(|e| e == "keys")
    });
    assert_eq!(entries.count(), 1, "half an upload is no entry");
    for phase in ["setup", "offline", "online"] {
        bench.kill_client(&server, "phase", phase);
        killed += 1;
    }
    let early = ["embed", "layer0.pre_norm", "layer0.in_projection"];
    for place in early.into_iter().cycle().take(KILLS - killed) {
        bench.kill_client(&server, "stage", place);
        killed += 1;
    }
    assert_eq!(killed, KILLS);

    let after = at_rest(&server);
    println!("resident before {before} KiB, after {after} KiB");
    assert!(
        after.abs_diff(before) * 20 <= before,
        "{before} KiB before, {after} KiB after {KILLS} killed sessions"
    );
    assert_eq!(bench.answered(&server)["keys_reused"], true);
    server.stop();
}

/// The client's last words when its server is gone.
fn left_alone(client: Client) {
    let began = Instant::now();
    let said = refusal(&client.end(SOON), 3);
    assert!(
        said.contains("the peer is gone") || said.contains("ended the session"),
        "{said}"
    );
    assert!(began.elapsed() < SOON);
}

fn store_is_usable(bench: &Bench, deployment: &Path) {
    // A killed server leaves no lock and no half entry that the next one would trip over.
    let server = Server::start(deployment, &bench.at("store"), &[]);
    bench.answered(&server);
    server.stop();
}

#[test]
fn a_killed_server_is_noticed_in_every_phase() {
    let bench = Bench::new();
    // In the TLS handshake, and in the middle of the keys.
    for bytes in [IN_TLS, 20 << 20] {
        let mut server = bench.server();
        let relay = Relay::start(server.addr, bytes);
        let client = bench.client(relay.addr, "unfinished");
        relay.held();
        server.kill();
        left_alone(client);
    }
    let server = bench.server();
    bench.answered(&server);
    server.stop();
    let places = [
        ("phase", "offline"),
        ("stage", "layer0.pre_norm"),
        ("stage", "layer0.packet"),
        ("stage", "layer0.scan"),
        ("stage", "layer0.scan_to_shares"),
    ];
    for (field, place) in places {
        let mut server = bench.server();
        let client = bench.client(server.addr, "keys");
        let enters = |l: &str| begins(l, field) == Some(place);
        server.log.wait(0, LONG, enters);
        server.kill();
        left_alone(client);
    }
    store_is_usable(&bench, &bench.published.server);
}
