//! What the tests of the service share: a deployment, server and client processes, and a relay that counts bytes.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// More than any wait of a sound run on a busy machine. Running into it fails the test.
pub const LONG: Duration = Duration::from_secs(120);
/// How soon a side must notice that the other one is gone: the longest kernel, on a busy machine.
pub const SOON: Duration = Duration::from_secs(30);

pub const MODEL: &str = "models/mamba2-moviedoc";
/// Fits into 16 tokens.
pub const TINY: &str = "documents/tiny-positive.txt";

pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

pub fn command(args: &[&str]) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_cipherloom"));
    c.args(args).current_dir(root()).stdin(Stdio::null());
    c
}

pub fn json_of(out: &Output) -> Value {
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{}: {said}", out.status);
    serde_json::from_slice(&out.stdout).unwrap()
}

pub fn json(args: &[&str]) -> Value {
    json_of(&command(args).output().unwrap())
}

/// What a failed command says, with its exit code checked.
pub fn refusal(out: &Output, code: i32) -> String {
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(code), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    assert!(out.stdout.is_empty(), "a failed command printed an answer");
    said
}

pub fn fails(args: &[&str], code: i32) -> String {
    refusal(&command(args).output().unwrap(), code)
}

/// Both folders of a deployment at 16 tokens.
pub struct Published {
    pub client: PathBuf,
    pub server: PathBuf,
}

pub fn publish(out: &Path, more: &[&str]) -> Published {
    let mut args = vec!["publish", MODEL, "--out", out.to_str().unwrap(), "--json"];
    args.extend(more);
    if !more.contains(&"--length") {
        args.extend(["--length", "16"]);
    }
    json(&args);
    Published {
        client: out.join("client"),
        server: out.join("server"),
    }
}

#[derive(Default)]
struct Lines {
    all: Mutex<Vec<String>>,
    changed: Condvar,
}

/// Lines of a stream, read by a thread as they come.
#[derive(Clone, Default)]
pub struct Reader(Arc<Lines>);

impl Reader {
    fn start(stream: impl Read + Send + 'static) -> (Self, JoinHandle<()>) {
        let reader = Self::default();
        let lines = Arc::clone(&reader.0);
        let thread = std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                lines.all.lock().unwrap().push(line);
                lines.changed.notify_all();
            }
        });
        (reader, thread)
    }

    pub fn all(&self) -> Vec<String> {
        self.0.all.lock().unwrap().clone()
    }

    pub fn len(&self) -> usize {
        self.0.all.lock().unwrap().len()
    }

    /// The first line from number `from` on that `pick` takes, with the number after it.
    pub fn wait(
        &self,
        from: usize,
        limit: Duration,
        pick: impl Fn(&str) -> bool,
    ) -> (String, usize) {
        let end = Instant::now() + limit;
        let mut all = self.0.all.lock().unwrap();
        let mut at = from;
        loop {
            while let Some(line) = all.get(at) {
                at += 1;
                if pick(line) {
                    return (line.clone(), at);
                }
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "no such line in {limit:?}: {:#?}",
                &all[from.min(all.len())..]
            );
            all = self.0.changed.wait_timeout(all, left).unwrap().0;
        }
    }
}

/// A `serve` process. Killed, by its id, when dropped.
pub struct Server {
    child: Child,
    readers: Vec<JoinHandle<()>>,
    pub addr: SocketAddr,
    /// JSON lines.
    pub out: Reader,
    /// The log.
    pub log: Reader,
}

impl Server {
    pub fn start(deployment: &Path, store: &Path, more: &[&str]) -> Self {
        let mut c = command(&["serve", MODEL, "--listen", "127.0.0.1:0", "--json"]);
        c.args(["--log", "debug", "--deployment"]).arg(deployment);
        c.arg("--key-store").arg(store).args(more);
        c.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = c.spawn().unwrap();
        let (out, a) = Reader::start(child.stdout.take().unwrap());
        let (log, b) = Reader::start(child.stderr.take().unwrap());
        let (first, _) = out.wait(0, LONG, |_| true);
        let first: Value = serde_json::from_str(&first).unwrap();
        Self {
            child,
            readers: vec![a, b],
            addr: first["listening"].as_str().unwrap().parse().unwrap(),
            out,
            log,
        }
    }

    pub fn terminate(&self) {
        let pid = self.child.id().to_string();
        let done = Command::new("/bin/kill").args(["-TERM", &pid]).status();
        assert!(done.unwrap().success());
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end and all output.
    pub fn wait(&mut self) -> ExitStatus {
        let status = wait(&mut self.child, LONG);
        self.readers.drain(..).for_each(|r| r.join().unwrap());
        status
    }

    pub fn stop(mut self) {
        self.terminate();
        assert_eq!(self.wait().code(), Some(0));
    }

    /// Ends of sessions so far, refusals included.
    pub fn ends(&self) -> Vec<Value> {
        let all = self.out.all();
        all.iter()
            .skip(1)
            .map(|l| serde_json::from_str(l).unwrap())
            .collect()
    }

    /// The end of a session after the first `known` ends.
    pub fn end_after(&self, known: usize) -> Value {
        let (line, _) = self.out.wait(known + 1, SOON, |_| true);
        serde_json::from_str(&line).unwrap()
    }

    /// Resident memory in KiB.
    pub fn resident(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"));
        let kib = line.unwrap().trim().trim_end_matches("kB").trim();
        kib.parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            for line in self.log.all().iter().rev().take(30).rev() {
                eprintln!("server: {line}");
            }
        }
    }
}

/// Waits for a process, at most `limit`.
pub fn wait(child: &mut Child, limit: Duration) -> ExitStatus {
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < end, "still running after {limit:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A `classify` command with a key folder of its own.
pub fn classify(bundle: &Path, text: &str, at: SocketAddr, keys: &Path, more: &[&str]) -> Command {
    let at = at.to_string();
    let mut c = command(&["classify", "--json", "--truncate", "--server", &at]);
    c.arg("--keys").arg(keys).args(more).arg(bundle).arg(text);
    c.stdout(Stdio::piped()).stderr(Stdio::piped());
    c
}

/// A running client. Killed, by its id, when dropped.
pub struct Client(Option<Child>);

impl Client {
    pub fn start(command: &mut Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    pub fn kill(&mut self) {
        let child = self.0.as_mut().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub fn running(&mut self) -> bool {
        self.0.as_mut().unwrap().try_wait().unwrap().is_none()
    }

    /// Its output once it has ended by itself, at most `limit` from now.
    pub fn end(mut self, limit: Duration) -> Output {
        let mut child = self.0.take().unwrap();
        wait(&mut child, limit);
        child.wait_with_output().unwrap()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(c) = &mut self.0 {
            let _ = c.kill();
            let _ = c.wait();
        }
    }
}

/// Passes one connection on and counts what the client sent. Stops passing at `hold`, so that a test can act there.
pub struct Relay {
    pub addr: SocketAddr,
    up: Arc<AtomicU64>,
    hold: u64,
    /// Set when the relay must let go of both ends.
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn pump(mut from: TcpStream, mut to: TcpStream, count: &AtomicU64, hold: u64, over: &AtomicBool) {
    let mut buf = vec![0; 64 << 10];
    from.set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    while !over.load(Ordering::SeqCst) {
        let left = hold - count.load(Ordering::SeqCst);
        if left == 0 {
            std::thread::sleep(Duration::from_millis(2));
            // The end that is gone must be seen to be gone.
            match from.peek(&mut [0]) {
                Ok(0) => break,
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => break,
                _ => continue,
            }
        }
        let most = usize::try_from(left).unwrap_or(buf.len()).min(buf.len());
        match from.read(&mut buf[..most]) {
            Ok(0) => break,
            Ok(n) => {
                if to.write_all(&buf[..n]).is_err() {
                    break;
                }
                count.fetch_add(n as u64, Ordering::SeqCst);
            }
            Err(e)
                if matches!(
                    e.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) => {}
            Err(_) => break,
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

impl Relay {
    pub fn start(server: SocketAddr, hold: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (up, over) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (count, end) = (Arc::clone(&up), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            let (client, _) = listener.accept().unwrap();
            let server = TcpStream::connect(server).unwrap();
            let (c, s) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let down = AtomicU64::new(0);
            std::thread::scope(|scope| {
                scope.spawn(|| pump(c, s, &count, hold, &end));
                scope.spawn(|| pump(server, client, &down, u64::MAX, &end));
            });
        });
        Self {
            addr,
            up,
            hold,
            over,
            thread: Some(thread),
        }
    }

    /// Waits until the client has sent as much as is passed on.
    pub fn held(&self) {
        let end = Instant::now() + LONG;
        while self.up.load(Ordering::SeqCst) < self.hold {
            assert!(
                Instant::now() < end,
                "the client sent only {:?} bytes",
                self.up
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        if let (Some(t), false) = (self.thread.take(), std::thread::panicking()) {
            t.join().unwrap();
        }
    }
}

/// The stage that a line of the log begins, or the phase.
pub fn begins<'a>(line: &'a str, field: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!(" {field}="))?;
    Some(rest.split(' ').next().unwrap_or(rest).trim_matches('"'))
}
