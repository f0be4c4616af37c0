//! Command-line arguments.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Private classification of documents: the model's owner never sees the text, the text's owner never sees the weights.
#[derive(Debug, Parser)]
#[command(name = "cipherloom", version, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Classify a document privately, both parties on this machine.
    ///
    /// Publishes the model to a temporary folder, starts its server as a second process, classifies the text over loopback TLS,
    /// and prints the encrypted answer beside the plaintext ones with a table of time, bytes and flights a stage.
    #[command(after_help = "Example: cipherloom demo --text review.txt --length 512 --json")]
    Demo(DemoArgs),
    /// Make a deployment: a folder for clients and one for the server.
    ///
    /// `client/` goes to every client: plan, tokenizer, embedding table, labels and the pin of the server's certificate, no
    /// other weight. `server/` stays with the model: plan, certificate and private key.
    #[command(
        after_help = "Examples:\n  cipherloom publish models/mamba2-moviedoc --length 512 --out deployment\n  cipherloom publish models/mamba2-moviedoc --length 512 --certificate cert.pem --key key.pem --out deployment"
    )]
    Publish(PublishArgs),
    /// Serve a model to clients that hold its bundle.
    ///
    /// Runs until SIGTERM or SIGINT; then running sessions may finish. Logs go to standard error and hold stage and code only.
    #[command(
        after_help = "Example: cipherloom serve models/mamba2-moviedoc --deployment deployment/server --listen 0.0.0.0:7443 --metrics 127.0.0.1:9443"
    )]
    Serve(ServeArgs),
    /// Classify a document at a server that never sees it.
    ///
    /// The first document sends evaluation keys; the server keeps them, and later documents send none.
    #[command(
        after_help = "Examples:\n  cipherloom classify deployment/client --server model.example.org:7443 review.txt\n  cat review.txt | cipherloom classify deployment/client --server 127.0.0.1:7443 - --truncate --json"
    )]
    Classify(ClassifyArgs),
    /// Show what a deployment would do and cost, without running anything.
    #[command(
        after_help = "Examples:\n  cipherloom plan models/mamba2-moviedoc --length 128\n  cipherloom plan --shape mamba-base --length 4096 --block 512 --json"
    )]
    Plan(PlanArgs),
    /// Measure this machine's primitive costs and keep them as the profile that predictions use.
    #[command(after_help = "Example: cipherloom measure --out profile.json")]
    Measure(MeasureArgs),
    /// Measure a model's activation ranges on documents and write calibration.json beside it.
    #[command(
        after_help = "Example: cipherloom calibrate models/mamba2-moviedoc documents/documents.jsonl"
    )]
    Calibrate(CalibrateArgs),
    /// Run documents exactly, with the surrogate and encrypted, and compare.
    #[command(
        after_help = "Example: cipherloom audit models/mamba2-moviedoc reviews.jsonl --length 128 --limit 20 --json"
    )]
    Audit(AuditArgs),
    /// The server process of a demo (internal).
    #[command(hide = true)]
    DemoServer(DemoServerArgs),
}

/// How the state is carried over scan blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CarryArg {
    /// One block after the other.
    Serial,
    /// Brent-Kung prefix over the block summaries: fewer levels.
    BrentKung,
}

/// Choices that every planning command shares.
#[derive(Debug, Clone, Args)]
pub struct PlanChoices {
    /// Sequence length in tokens; shorter texts are padded, longer ones cut.
    #[arg(long, default_value_t = 128)]
    pub length: usize,
    /// Scan block in tokens (default: one block if the chain is long enough, else the largest that fits).
    #[arg(long)]
    pub block: Option<usize>,
    /// Carry over scan blocks.
    #[arg(long, value_enum, default_value_t = CarryArg::Serial)]
    pub carry: CarryArg,
    /// Approximations: paper, d4, mid or tight (default: what calibration.json says).
    #[arg(long)]
    pub stack: Option<String>,
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Model folder (default: the shipped Mamba-2 film-review classifier).
    #[arg(long)]
    pub model: Option<PathBuf>,
    /// Text file, or - for standard input (default: a shipped review).
    #[arg(long)]
    pub text: Option<PathBuf>,
    #[command(flatten)]
    pub choices: PlanChoices,
    /// Emulated link: none, lan, wan1, wan2 or wan3.
    #[arg(long, default_value = "none")]
    pub network: String,
    /// What the client learns.
    #[arg(long, value_enum, default_value_t = AnswerArg::Logits)]
    pub answer: AnswerArg,
    /// Also compare every stage with the plaintext, from local files that each party writes (both sides are yours here).
    #[arg(long)]
    pub compare_plain: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}

/// What the client learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AnswerArg {
    /// The logits, rounded to 12 fraction bits.
    Logits,
    /// The label only.
    Label,
}

/// Arguments of `publish`.
#[derive(Debug, Args)]
pub struct PublishArgs {
    /// Model folder, with its calibration.json.
    pub model: PathBuf,
    #[command(flatten)]
    pub choices: PlanChoices,
    /// What clients may learn; with `label` none gets logits.
    #[arg(long, value_enum, default_value_t = AnswerArg::Logits)]
    pub answer: AnswerArg,
    /// Certificate chain of the server, PEM (default: a new self-signed one).
    #[arg(long, requires = "key")]
    pub certificate: Option<PathBuf>,
    /// Its private key, PEM.
    #[arg(long, requires = "certificate")]
    pub key: Option<PathBuf>,
    /// Host name in a new certificate; clients check the pin, not the name. May be repeated.
    #[arg(
        long = "name",
        default_value = "localhost",
        conflicts_with = "certificate"
    )]
    pub names: Vec<String>,
    /// Days for which a new certificate is valid.
    #[arg(long, default_value_t = 825, conflicts_with = "certificate")]
    pub days: u32,
    /// Folder to write `client` and `server` into.
    #[arg(long)]
    pub out: PathBuf,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Failures of the server itself.
    Error,
    /// And failed sessions.
    Warn,
    /// And begin and end of every session.
    Info,
    /// And every stage.
    Debug,
}

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Model folder: the one that was published.
    pub model: PathBuf,
    /// The `server` folder that `publish` wrote.
    #[arg(long)]
    pub deployment: PathBuf,
    /// Address to listen on; port 0 for any free port.
    #[arg(long, default_value = "127.0.0.1:7443")]
    pub listen: SocketAddr,
    /// Sessions at a time; more clients are told to come back.
    #[arg(long, default_value_t = 4)]
    pub max_sessions: usize,
    /// Memory for the model and all sessions, for example 6GiB (default: three quarters of the machine's).
    #[arg(long, value_parser = parse_bytes)]
    pub max_memory: Option<u64>,
    /// Longest session in seconds.
    #[arg(long, default_value_t = 3600)]
    pub timeout: u64,
    /// Longest wait for a client's next message in seconds.
    #[arg(long, default_value_t = 120)]
    pub message_timeout: u64,
    /// How long running sessions may go on after SIGTERM, in seconds.
    #[arg(long, default_value_t = 60)]
    pub grace: u64,
    /// Folder for clients' evaluation keys (default: `keys` in the deployment).
    #[arg(long)]
    pub key_store: Option<PathBuf>,
    /// Size of that folder, for example 10GiB; the keys used longest ago make room.
    #[arg(long, default_value = "10GiB", value_parser = parse_bytes)]
    pub key_store_size: u64,
    /// Clients whose keys are kept.
    #[arg(long, default_value_t = 1000)]
    pub key_store_clients: usize,
    /// Serve Prometheus metrics and /health on this address; do not let clients reach it.
    #[arg(long)]
    pub metrics: Option<SocketAddr>,
    /// How much to log.
    #[arg(long, value_enum, default_value_t = LogLevel::Info)]
    pub log: LogLevel,
    /// Print one JSON object a line: the address, then every session's report.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `classify`.
#[derive(Debug, Args)]
pub struct ClassifyArgs {
    /// The `client` folder that the provider published.
    pub bundle: PathBuf,
    /// Text file, or - for standard input.
    pub file: PathBuf,
    /// Host and port of the server.
    #[arg(long)]
    pub server: String,
    /// Cut a text that is longer than the deployment's length (default: an error).
    #[arg(long)]
    pub truncate: bool,
    /// What to ask for; with `label` nobody learns the logits (default: what the deployment gives).
    #[arg(long, value_enum)]
    pub answer: Option<AnswerArg>,
    /// SHA-256 of the server's certificate, instead of the bundle's.
    #[arg(long)]
    pub pin: Option<String>,
    /// Make a new key; the server's copy of the old one is no longer used.
    #[arg(long)]
    pub fresh_key: bool,
    /// Folder of this client's keys (default: cipherloom/keys in $XDG_DATA_HOME or ~/.local/share).
    #[arg(long)]
    pub keys: Option<PathBuf>,
    /// Longest wait for the server's next message in seconds.
    #[arg(long, default_value_t = 600)]
    pub timeout: u64,
    /// Emulated network: none, lan, wan1, wan2 or wan3.
    #[arg(long, default_value = "none")]
    pub network: String,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Model folder.
    #[arg(required_unless_present = "shape", conflicts_with = "shape")]
    pub model: Option<PathBuf>,
    /// A known shape instead of a folder: mamba-base, mamba-130m, moviedoc.
    #[arg(long)]
    pub shape: Option<String>,
    #[command(flatten)]
    pub choices: PlanChoices,
    /// Network profile of the time estimate: lan, wan1, wan2, wan3.
    #[arg(long, default_value = "lan")]
    pub network: String,
    /// Machine profile written by `measure` (default: the one that `measure` keeps, else a shipped one).
    #[arg(long)]
    pub profile: Option<PathBuf>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `measure`.
#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// Elements of each protocol measurement.
    #[arg(long, default_value_t = 1 << 14)]
    pub elements: usize,
    /// Where to keep the profile (default: cipherloom/profile.json in $XDG_CONFIG_HOME or ~/.config, which `plan` reads).
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// Model folder; calibration.json is written into it.
    pub model: PathBuf,
    /// Documents, one JSON object {id, text, label} a line.
    pub data: PathBuf,
    /// Sequence length in tokens.
    #[arg(long, default_value_t = 512)]
    pub length: usize,
    /// Approximations: paper, d4, mid or tight.
    #[arg(long, default_value = "d4")]
    pub stack: String,
    /// Also take the ranges of this file (activation_ranges.json).
    #[arg(long)]
    pub ranges: Option<PathBuf>,
    /// Print the calibration as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// Model folder.
    pub model: PathBuf,
    /// Documents, one JSON object {id, text, label} a line.
    pub data: PathBuf,
    #[command(flatten)]
    pub choices: PlanChoices,
    /// Only the first K documents.
    #[arg(long)]
    pub limit: Option<usize>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of the internal server process.
#[derive(Debug, Args)]
pub struct DemoServerArgs {
    /// The deployment's server folder.
    #[arg(long)]
    pub deployment: PathBuf,
    /// Model folder.
    #[arg(long)]
    pub model: PathBuf,
    /// Where to write the shares of every stage (compare-plain).
    #[arg(long)]
    pub dump: Option<PathBuf>,
    /// Sessions to serve before exiting.
    #[arg(long, default_value_t = 1)]
    pub sessions: usize,
    /// Emulated link.
    #[arg(long, default_value = "none")]
    pub network: String,
}

/// Bytes with an optional unit: 512MiB, 6GiB, 8000000.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let bad = || format!("{text:?} is no size; write for example 512MiB, 6GiB or 8000000");
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return Err(bad()),
    };
    let number: u64 = number.parse().map_err(|_| bad())?;
    number.checked_mul(1 << shift).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_bytes("6GiB"), Ok(6 << 30));
        assert_eq!(parse_bytes("512 MiB"), Ok(512 << 20));
        assert_eq!(parse_bytes("8000000"), Ok(8_000_000));
        for bad in ["", "GiB", "6GB", "-1", "6.5GiB", "99999999999GiB"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
