//! Both parties on this machine: the server as a second process of this program, the client here.

use crate::args::PlanChoices;
use crate::error::{file_error, CliError};
use crate::progress::Progress;
use crate::serving::LISTENING;
use crate::shipped::ModelFolder;
use cipherloom_engine::bundle::{deploy, ClientBundle, IdentitySource};
use cipherloom_engine::keystore::ClientKeyFile;
use cipherloom_engine::link::{self, Waits};
use cipherloom_engine::remote::{classify, Server};
use cipherloom_engine::report::same_traffic;
use cipherloom_engine::{
    ClientOutcome, EngineError, LinkProfile, PartyReport, Pin, SessionOptions,
};
use cipherloom_model::{
    forward, observe::Silent, Calibration, Encoded, Exact, Mamba2, Surrogate, Tokenizer,
};
use cipherloom_plan::{Plan, PlanError, Request};
use cipherloom_spec::approx::Stack;
use cipherloom_spec::schedule::Carry;
use serde::Deserialize;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::str::FromStr;
use std::time::Instant;
use tempfile::TempDir;

/// Everything that is known before a session: both sides, since they are one person's here.
pub struct Prepared {
    /// The model.
    pub model: Mamba2,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// Its calibration, with the asked-for stack.
    pub calibration: Calibration,
    /// The plan.
    pub plan: Plan,
}

/// The carry of a command line.
#[must_use]
pub fn carry(c: crate::args::CarryArg) -> Carry {
    match c {
        crate::args::CarryArg::Serial => Carry::Serial,
        crate::args::CarryArg::BrentKung => Carry::BrentKung,
    }
}

/// An answer of a command line.
#[must_use]
pub fn answer(a: crate::args::AnswerArg) -> cipherloom_plan::Answer {
    match a {
        crate::args::AnswerArg::Logits => cipherloom_plan::Answer::Logits,
        crate::args::AnswerArg::Label => cipherloom_plan::Answer::Label,
    }
}

/// A stack by name.
///
/// # Errors
/// `Argument` listing the names.
pub fn stack(name: &str) -> Result<Stack, CliError> {
    Stack::from_str(name).map_err(|e| CliError::Argument {
        argument: "--stack",
        detail: e.to_string(),
    })
}

/// Loads a model folder and builds its plan.
///
/// # Errors
/// Loading and planning errors.
pub fn prepare(folder: &ModelFolder, choices: &PlanChoices) -> Result<Prepared, CliError> {
    let model = Mamba2::load(&folder.path)?;
    let tokenizer = Tokenizer::load(&folder.path, &model.config)?;
    let file = folder.path.join("calibration.json");
    if !file.exists() {
        return Err(CliError::Argument {
            argument: "MODEL",
            detail: format!(
                "{} does not exist; make it with `cipherloom calibrate {} DATA.jsonl` on representative documents",
                file.display(),
                folder.path.display()
            ),
        });
    }
    let mut calibration = Calibration::load(&folder.path, &model)?;
    if let Some(name) = &choices.stack {
        let stack = stack(name)?;
        if stack != calibration.stack {
            calibration = calibration.with_stack(stack, &model)?;
        }
    }
    let request = Request::for_model(
        &folder.name(),
        &model,
        &calibration,
        choices.length,
        choices.block,
        carry(choices.carry),
    )?;
    let plan = Plan::build(request)?;
    Ok(Prepared {
        model,
        tokenizer,
        calibration,
        plan,
    })
}

/// Both parties of a demo: a deployment in a temporary folder, its server as a process of its own, and this process as client.
/// The server is killed when this is dropped before its end.
pub struct Pair {
    child: Child,
    out: BufReader<ChildStdout>,
    addr: String,
    network: Option<LinkProfile>,
    bundle: ClientBundle,
    keys: ClientKeyFile,
    _files: TempDir,
}

impl Drop for Pair {
    fn drop(&mut self) {
        // Already gone in the ordinary case.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Days of a demo's certificate.
const DAYS: u32 = 1;

impl Pair {
    /// Publishes the model, starts the server and waits until it listens (it encodes its weights first).
    ///
    /// # Errors
    /// Those of publishing; `Process` with what the server said when it does not come up.
    pub fn start(
        prepared: &Prepared,
        folder: &ModelFolder,
        sessions: usize,
        network: &str,
        dump: Option<&Path>,
    ) -> Result<Self, CliError> {
        let profile = link::profile(network)?;
        let files = tempfile::Builder::new()
            .prefix("cipherloom-demo-")
            .tempdir()
            .map_err(|e| file_error(&std::env::temp_dir(), e))?;
        let source = IdentitySource::SelfSigned {
            names: &["localhost"],
            days: DAYS,
        };
        let (model, plan) = (&prepared.model, &prepared.plan);
        let folders = deploy(&folder.path, model, plan, source, files.path())?.folders;
        let bundle = ClientBundle::load(&folders.client)?;
        let keys = ClientKeyFile::at(&files.path().join("keys"), &bundle.pin)
            .map_err(EngineError::from)?;
        let program =
            std::env::current_exe().map_err(|e| file_error(Path::new("this program"), e))?;
        let mut command = Command::new(program);
        command
            .arg("demo-server")
            .arg("--deployment")
            .arg(&folders.server)
            .arg("--model")
            .arg(&folder.path)
            .args(["--sessions", &sessions.to_string(), "--network", network])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(d) = dump {
            command.arg("--dump").arg(d);
        }
        let mut child = command
            .spawn()
            .map_err(|e| file_error(Path::new("the server process"), e))?;
        let Some(stdout) = child.stdout.take() else {
            return Err(process("it has no output"));
        };
        let mut out = BufReader::new(stdout);
        let mut line = String::new();
        let read = out.read_line(&mut line);
        match (read, line.trim().strip_prefix(LISTENING)) {
            (Ok(_), Some(addr)) => Ok(Self {
                child,
                out,
                addr: addr.to_owned(),
                network: profile,
                bundle,
                keys,
                _files: files,
            }),
            _ => {
                let _ = child.kill();
                let mut said = String::new();
                if let Some(mut e) = child.stderr.take() {
                    let _ = e.read_to_string(&mut said);
                }
                let _ = child.wait();
                Err(process(said.trim()))
            }
        }
    }

    /// The server's report of the session that just ended.
    fn report(&mut self) -> Result<PartyReport, CliError> {
        let mut line = String::new();
        match self.out.read_line(&mut line) {
            Ok(n) if n > 0 => match serde_json::from_str(&line) {
                Ok(Line { report: Some(r) }) => Ok(r),
                Ok(Line { report: None }) => Err(process(line.trim())),
                Err(e) => Err(process(&e.to_string())),
            },
            _ => {
                let mut said = String::new();
                if let Some(e) = self.child.stderr.as_mut() {
                    let _ = e.read_to_string(&mut said);
                }
                Err(process(said.trim()))
            }
        }
    }

    /// Classifies one text at the server, and in the clear.
    ///
    /// # Errors
    /// Session errors; `Reports` when the parties' reports differ.
    pub fn classify(
        &mut self,
        prepared: &Prepared,
        text: &Encoded,
        dump: Option<PathBuf>,
        progress: &mut Progress,
    ) -> Result<Answer, CliError> {
        let start = Instant::now();
        let server = Server {
            address: &self.addr,
            pin: Pin::from_bytes(self.bundle.pin),
            waits: Waits::default(),
            network: self.network,
        };
        let options = SessionOptions {
            dump,
            ..SessionOptions::default()
        };
        let plan = &self.bundle.plan;
        let outcome = classify(
            &self.bundle,
            plan,
            text,
            &server,
            &self.keys,
            &options,
            progress,
        );
        let client = match outcome {
            Ok(c) => c,
            // The server's own words are more useful than "the peer reported code n".
            Err(e) if e.is_peer() => {
                return Err(match self.report() {
                    Err(s) => s,
                    Ok(_) => e.into(),
                });
            }
            Err(e) => return Err(e.into()),
        };
        let report = self.report()?;
        let seconds = start.elapsed().as_secs_f64();
        agree(&client.report, &report)?;
        let (model, ids, real) = (&prepared.model, &text.ids, text.real);
        let surrogate = Surrogate::new(&prepared.calibration);
        let surrogate = forward(model, ids, real, &surrogate, &mut Silent)?.logits;
        let exact = forward(model, ids, real, &Exact, &mut Silent)?.logits;
        Ok(Answer {
            client,
            server: report,
            surrogate,
            exact,
            seconds,
        })
    }
}

/// A line of the server process.
#[derive(Deserialize)]
struct Line {
    report: Option<PartyReport>,
}

fn process(detail: &str) -> CliError {
    CliError::Engine(EngineError::Process {
        party: "server",
        detail: detail.to_string(),
    })
}

/// Both parties counted the same bytes and flights.
fn agree(client: &PartyReport, server: &PartyReport) -> Result<(), CliError> {
    let pairs = |r: &PartyReport| -> Vec<(String, cipherloom_plan::StageCost)> {
        r.stages.iter().map(|s| (s.name.clone(), s.cost)).collect()
    };
    let (a, b) = (pairs(client), pairs(server));
    same_traffic(
        a.iter().map(|(n, c)| (n.as_str(), c)),
        b.iter().map(|(n, c)| (n.as_str(), c)),
    )
    .map_err(|d| CliError::Reports(d.to_string()))?;
    if client.traffic != server.traffic || client.setup_bytes != server.setup_bytes {
        return Err(CliError::Reports(format!(
            "{:?} and {:?}",
            client.traffic, server.traffic
        )));
    }
    Ok(())
}

/// One encrypted classification beside the plaintext ones.
pub struct Answer {
    /// The client's outcome.
    pub client: ClientOutcome,
    /// The server's report.
    pub server: PartyReport,
    /// Logits of the surrogate network.
    pub surrogate: Vec<f64>,
    /// Logits of the exact network.
    pub exact: Vec<f64>,
    /// Wall time from connecting to the answer.
    pub seconds: f64,
}

/// [`max_diff`] of logits that a session opened; nothing when it opened the label alone.
#[must_use]
pub fn opened_diff(opened: Option<&[f64]>, plain: &[f64]) -> Option<f64> {
    opened.map(|o| max_diff(o, plain))
}

/// Largest absolute difference.
#[must_use]
pub fn max_diff(a: &[f64], b: &[f64]) -> f64 {
    a.iter()
        .zip(b)
        .map(|(x, y)| (x - y).abs())
        .fold(0.0, f64::max)
}

/// A plan for a known shape without a model, with typical ranges.
///
/// # Errors
/// Planning errors.
pub fn shape_plan(name: &str, choices: &PlanChoices) -> Result<Plan, CliError> {
    let shape = cipherloom_plan::ModelShape::named(name)?;
    let stack = choices
        .stack
        .as_deref()
        .map_or(Ok(Stack::default()), stack)?;
    let request = Request::for_shape(
        shape,
        choices.length,
        choices.block,
        carry(choices.carry),
        stack,
    )?;
    let plan: Result<Plan, PlanError> = Plan::build(request);
    Ok(plan?)
}
