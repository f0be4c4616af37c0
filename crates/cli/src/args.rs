//! Command-line arguments.

use clap::{Args, Parser, Subcommand, ValueEnum};
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
    /// Starts the server as a second process, classifies the text over loopback TCP, and prints the encrypted answer beside
    /// the plaintext ones with a table of time, bytes and flights a stage.
    #[command(after_help = "Example: cipherloom demo --text review.txt --length 512 --json")]
    Demo(DemoArgs),
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
    /// Also compare every stage with the plaintext, from local files that each party writes (both sides are yours here).
    #[arg(long)]
    pub compare_plain: bool,
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
    /// Plan document.
    #[arg(long)]
    pub plan: PathBuf,
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
