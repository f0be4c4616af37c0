//! What a provider or a client can get wrong: each mistake has its exit code and a message that names the thing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use support::{classify, command, fails, publish, refusal, root, Published, Server, MODEL, TINY};

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

fn flip_in_the_middle(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut all: Vec<String> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    all.sort();
    all
}

/// An address where nobody listens.
fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

struct Bench {
    dir: tempfile::TempDir,
    published: Published,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let published = publish(&dir.path().join("published"), &[]);
        Self { dir, published }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What `classify` says of a bundle and a text, with no server.
    fn client(&self, bundle: &Path, text: &str, more: &[&str], code: i32) -> String {
        let mut c = classify(bundle, text, nobody(), &self.at("keys"), more);
        refusal(&c.output().unwrap(), code)
    }

    fn serve(&self, model: &Path, deployment: &Path, more: &[&str]) -> String {
        let mut c = command(&["serve"]);
        c.arg(model)
            .args(["--listen", "127.0.0.1:0", "--log", "error", "--deployment"]);
        c.arg(deployment).arg("--key-store").arg(self.at("store"));
        refusal(&c.args(more).output().unwrap(), 2)
    }
}

#[test]
fn bundles_that_were_changed_name_the_file() {
    let bench = Bench::new();
    let files = names(&bench.published.client);
    assert!(files.len() >= 5, "{files:?}");
    for (i, file) in files.iter().enumerate() {
        let changed = bench.at(&format!("changed{i}"));
        copy(&bench.published.client, &changed);
        flip_in_the_middle(&changed.join(file));
        let said = bench.client(&changed, TINY, &[], 2);
        assert!(said.contains(file), "{file}: {said}");
        std::fs::remove_file(changed.join(file)).unwrap();
        let said = bench.client(&changed, TINY, &[], 2);
        assert!(said.contains(file), "{file}: {said}");
        assert!(said.contains("missing"), "{file}: {said}");
    }
    let extra = bench.at("extra");
    copy(&bench.published.client, &extra);
    std::fs::write(extra.join("model.safetensors"), b"weights").unwrap();
    let said = bench.client(&extra, TINY, &[], 2);
    assert!(said.contains("model.safetensors"), "{said}");
    let said = bench.client(&bench.at("nowhere"), TINY, &[], 2);
    assert!(said.contains("nowhere"), "{said}");
}

#[test]
fn texts_that_cannot_be_classified_name_what_is_wrong() {
    let bench = Bench::new();
    let file = |name: &str, bytes: &[u8]| {
        std::fs::write(bench.at(name), bytes).unwrap();
        bench.at(name).to_str().unwrap().to_owned()
    };
    let bundle = &bench.published.client;
    let said = bench.client(bundle, &file("empty.txt", b" \n"), &[], 2);
    assert!(said.contains("empty"), "{said}");
    let said = bench.client(bundle, &file("latin1.txt", b"caf\xe9"), &[], 2);
    assert!(
        said.contains("latin1.txt") && said.contains("UTF-8"),
        "{said}"
    );
    let said = bench.client(bundle, "no/such.txt", &[], 2);
    assert!(said.contains("no/such.txt"), "{said}");
    // Without --truncate.
    let long = root().join("documents/long-positive.txt");
    let server = nobody().to_string();
    let (bundle, keys) = (bundle.to_str().unwrap(), bench.at("keys"));
    let args = [
        "classify",
        bundle,
        long.to_str().unwrap(),
        "--server",
        &server,
        "--keys",
        keys.to_str().unwrap(),
    ];
    let said = fails(&args, 2);
    assert!(said.contains("--truncate") && said.contains("16"), "{said}");
}

#[test]
fn servers_that_cannot_be_reached_are_named() {
    let bench = Bench::new();
    let at = |server: &str, more: &[&str], code: i32| {
        let keys = bench.at("keys");
        let mut c = command(&["classify", "--server", server, "--keys"]);
        c.arg(keys)
            .arg(&bench.published.client)
            .arg(TINY)
            .args(more);
        refusal(&c.output().unwrap(), code)
    };
    for malformed in [
        "localhost",
        "localhost:",
        ":7443",
        "localhost:0",
        "host:99999",
    ] {
        let said = at(malformed, &[], 2);
        assert!(
            said.contains("--server") && said.contains(malformed),
            "{said}"
        );
    }
    let closed = nobody().to_string();
    let said = at(&closed, &[], 3);
    assert!(said.contains(&closed) && said.contains("refused"), "{said}");
    let said = at("model.invalid:7443", &[], 3);
    assert!(said.contains("model.invalid:7443"), "{said}");
    // A pin that is none is the user's mistake; one of another certificate may be somebody in between.
    let said = at(&closed, &["--pin", "12:zz"], 2);
    assert!(said.contains("--pin"), "{said}");
    let server = Server::start(&bench.published.server, &bench.at("store"), &[]);
    let other = "ab".repeat(32);
    let said = at(&server.addr.to_string(), &["--pin", &other], 3);
    assert!(said.contains(&other) && said.contains("pin"), "{said}");
    assert!(server.ends().is_empty());
    server.stop();
}

#[test]
fn deployments_that_do_not_fit_are_refused_before_anybody_is_served() {
    let bench = Bench::new();
    let model = root().join(MODEL);
    let own = &bench.published.server;
    let variant = |name: &str| {
        let dir = bench.at(name);
        copy(own, &dir);
        dir
    };

    for (i, file) in ["deployment.json", "plan.json", "certificate.pem", "key.pem"]
        .into_iter()
        .enumerate()
    {
        let dir = variant(&format!("d{i}"));
        flip_in_the_middle(&dir.join(file));
        let said = bench.serve(&model, &dir, &[]);
        assert!(said.contains(file), "{file}: {said}");
        std::fs::remove_file(dir.join(file)).unwrap();
        let said = bench.serve(&model, &dir, &[]);
        assert!(said.contains(file), "{file}: {said}");
    }

    // Another identity: the key alone, then both.
    let other = publish(&bench.at("other"), &[]);
    let dir = variant("pair");
    std::fs::copy(other.server.join("key.pem"), dir.join("key.pem")).unwrap();
    let said = bench.serve(&model, &dir, &[]);
    assert!(
        said.contains("key.pem") && said.contains("another certificate"),
        "{said}"
    );
    std::fs::copy(
        other.server.join("certificate.pem"),
        dir.join("certificate.pem"),
    )
    .unwrap();
    let said = bench.serve(&model, &dir, &[]);
    assert!(
        said.contains("certificate.pem") && said.contains("clients of this deployment expect"),
        "{said}"
    );

    // Another model: one weight differs.
    let changed = bench.at("mamba2-moviedoc");
    copy(&model, &changed);
    let weights = changed.join("model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    let n = bytes.len();
    let last = f32::from_le_bytes(bytes[n - 4..].try_into().unwrap());
    bytes[n - 4..].copy_from_slice(&(last * 1.5 + 0.25).to_le_bytes());
    std::fs::write(&weights, bytes).unwrap();
    let said = bench.serve(&changed, own, &[]);
    assert!(
        said.contains("deployment.json") && said.contains("checksum"),
        "{said}"
    );

    // Room for nobody.
    let said = bench.serve(&model, own, &["--max-memory", "100MiB"]);
    assert!(
        said.contains("--max-memory") && said.contains(&(100u64 << 20).to_string()),
        "{said}"
    );
    let said = bench.serve(&model, own, &["--max-sessions", "0"]);
    assert!(said.contains("--max-sessions"), "{said}");
    assert!(!own.join("keys").exists(), "the given key store is used");
}

/// A key and a self-signed certificate that expires so many seconds from now.
fn certificate(dir: &Path, seconds: u64) -> (String, String, SystemTime) {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let end = SystemTime::now() + Duration::from_secs(seconds);
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(1970, 1, 1) + end.duration_since(UNIX_EPOCH).unwrap();
    let signed = params.self_signed(&key).unwrap();
    let write = |name: String, text: String| {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let cert = write(format!("certificate-{seconds}.pem"), signed.pem());
    let key = write(format!("key-{seconds}.pem"), key.serialize_pem());
    (cert, key, end)
}

#[test]
fn an_expired_certificate_is_refused_by_publish_serve_and_classify() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: String| dir.path().join(name);
    // Long enough to publish and to start on this machine, and then over.
    let began = Instant::now();
    publish(&at("first".into()), &[]);
    let seconds = 6 * began.elapsed().as_secs() + 6;
    let (cert, key, end) = certificate(dir.path(), seconds);
    let identity = ["--certificate", &cert, "--key", &key];
    let published = publish(&at("published".into()), &identity);
    let server = Server::start(&published.server, &at("store".into()), &[]);
    while SystemTime::now() <= end + Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut c = classify(
        &published.client,
        TINY,
        server.addr,
        &at("keys".into()),
        &[],
    );
    let said = refusal(&c.output().unwrap(), 3);
    assert!(said.contains("the certificate expired at"), "{said}");
    server.stop();
    let mut c = command(&["serve", MODEL, "--listen", "127.0.0.1:0", "--deployment"]);
    c.arg(&published.server);
    c.arg("--key-store").arg(at("store".into()));
    let said = refusal(&c.output().unwrap(), 2);
    assert!(said.contains("the certificate expired at"), "{said}");
    let file = |name: &str| {
        let path = published.server.join(name);
        path.to_str().unwrap().to_owned()
    };
    let (cert, key) = (file("certificate.pem"), file("key.pem"));
    let out = at("again".into());
    let args = [
        "publish",
        MODEL,
        "--length",
        "16",
        "--out",
        out.to_str().unwrap(),
        "--certificate",
        &cert,
        "--key",
        &key,
    ];
    let said = fails(&args, 2);
    assert!(said.contains("the certificate expired at"), "{said}");
    assert!(!out.join("client").exists());
}
