//! `demo`: one document, both parties here.

use crate::args::DemoArgs;
use crate::error::{file_error, CliError};
use crate::format::{bytes, seconds, table};
use crate::pair::{answer, opened_diff, prepare, Answer, Pair, Prepared};
use crate::progress::Progress;
use crate::shipped::{ModelFolder, DOCUMENT, DOCUMENT_NAME};
use crate::text::read_text;
use cipherloom_engine::{compare, link, PartyReport, StageReport};
use cipherloom_model::forward::label;
use cipherloom_model::{Encoded, Surrogate, Truncation};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Serialize)]
struct Bytes {
    client_to_server: u64,
    server_to_client: u64,
    setup: u64,
}

#[derive(Serialize)]
struct Peak {
    client: u64,
    server: u64,
}

#[derive(Serialize)]
struct StageLine {
    name: String,
    variant: String,
    seconds: f64,
    client_seconds: f64,
    cpu_seconds: f64,
    bytes: u64,
    client_to_server: u64,
    server_to_client: u64,
    flights: u64,
    key_switches: u64,
    #[serde(flatten)]
    he: cipherloom_spec::cost::HeCounts,
    #[serde(flatten)]
    mpc: cipherloom_spec::cost::MpcCounts,
    peak_live_ciphertexts: u64,
}

#[derive(Serialize)]
struct DemoReport {
    label: String,
    surrogate_label: String,
    exact_label: String,
    logits: Option<Vec<f64>>,
    surrogate_logits: Vec<f64>,
    exact_logits: Vec<f64>,
    max_logit_diff_surrogate: Option<f64>,
    max_logit_diff_exact: Option<f64>,
    model: String,
    tokens: usize,
    tokens_in_text: usize,
    cut: Option<String>,
    length: usize,
    stack: String,
    network: String,
    plan: String,
    seconds: cipherloom_engine::Seconds,
    bytes: Bytes,
    flights: u64,
    key_switches: u64,
    peak_rss_bytes: Peak,
    failure_log2: f64,
    stages: Vec<StageLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compare_plain: Option<compare::Comparison>,
}

/// The text of `--text`, or the shipped one, with its name.
fn text(given: Option<&PathBuf>) -> Result<(String, String), CliError> {
    match given {
        None => Ok((DOCUMENT.to_string(), DOCUMENT_NAME.to_string())),
        Some(p) if p.as_os_str() == "-" => Ok((read_text(p)?, "standard input".into())),
        Some(p) => Ok((read_text(p)?, p.display().to_string())),
    }
}

/// Runs the command.
///
/// # Errors
/// Loading, planning and session errors.
pub fn run(args: &DemoArgs) -> Result<(), CliError> {
    // A wrong name is the user's mistake, not the server process's.
    link::profile(&args.network)?;
    let mut progress = Progress::new(args.json);
    progress.say("loading the model");
    let folder = ModelFolder::open(args.model.as_ref())?;
    let mut prepared = prepare(&folder, &args.choices)?;
    prepared.plan = prepared.plan.with_answer(answer(args.answer))?;
    let (text, source) = text(args.text.as_ref())?;
    let encoded = prepared
        .tokenizer
        .encode(&text, args.choices.length, Truncation::Allow)?;
    if !args.json {
        intro(&prepared, &folder, &encoded, &source);
    }
    let dump = args
        .compare_plain
        .then(|| {
            tempfile::Builder::new()
                .prefix("cipherloom-shares-")
                .tempdir()
        })
        .transpose()
        .map_err(|e| file_error(&std::env::temp_dir(), e))?;
    let dir = dump.as_ref().map(|d| d.path().to_path_buf());
    progress.say("the server encodes its weights");
    let mut pair = Pair::start(&prepared, &folder, 1, &args.network, dir.as_deref())?;
    progress.expect(&prepared.plan);
    let answer = pair.classify(&prepared, &encoded, dir.clone(), &mut progress)?;
    progress.done();
    let comparison = dir
        .map(|d| {
            compare::compare(
                &d,
                &prepared.model,
                &Surrogate::new(&prepared.calibration),
                &prepared.plan,
                &encoded,
            )
        })
        .transpose()?;
    let report = report(
        &prepared,
        &folder,
        &encoded,
        answer,
        &args.network,
        comparison,
    );
    if args.json {
        let text =
            serde_json::to_string_pretty(&report).map_err(|e| CliError::Reports(e.to_string()))?;
        println!("{text}");
    } else {
        print(&report);
    }
    Ok(())
}

fn intro(p: &Prepared, folder: &ModelFolder, text: &Encoded, source: &str) {
    let d = p.plan.document();
    println!(
        "model     {} ({} layers, stack {})",
        folder.name(),
        d.request.shape.layers,
        p.calibration.stack
    );
    let cut = match text.cut {
        Some(side) => format!(", the {side} of the text is cut to fit"),
        None => String::new(),
    };
    println!(
        "document  {source}: {} tokens, {} used of {}{cut}",
        text.total, text.real, d.request.length
    );
    println!(
        "plan      {} stages, {} evaluation keys ({} to send once), failure 2^{:.0}, {}-bit security\n",
        d.stages.len(),
        d.keys.iter().map(cipherloom_plan::KeyRequest::len).sum::<usize>(),
        bytes(d.setup_bytes),
        d.failure_log2,
        d.security_bits
    );
}

fn report(
    p: &Prepared,
    folder: &ModelFolder,
    text: &Encoded,
    a: Answer,
    network: &str,
    compare_plain: Option<compare::Comparison>,
) -> DemoReport {
    let name = |label: usize| {
        let labels = &p.model.config.labels;
        labels.get(label).cloned().unwrap_or_default()
    };
    let opened = a.client.logits.as_deref();
    let stages: Vec<StageLine> = a
        .server
        .stages
        .iter()
        .zip(&a.client.report.stages)
        .map(|(s, c)| line(s, c))
        .collect();
    let c: &PartyReport = &a.client.report;
    DemoReport {
        label: name(a.client.label),
        surrogate_label: name(label(&a.surrogate)),
        exact_label: name(label(&a.exact)),
        max_logit_diff_surrogate: opened_diff(opened, &a.surrogate),
        max_logit_diff_exact: opened_diff(opened, &a.exact),
        model: folder.name(),
        tokens: text.real,
        tokens_in_text: text.total,
        cut: text.cut.map(|s| s.to_string()),
        length: p.plan.request().length,
        stack: p.calibration.stack.name().to_string(),
        network: network.to_string(),
        plan: c.plan.clone(),
        seconds: c.seconds,
        bytes: Bytes {
            client_to_server: c.traffic.client_to_server,
            server_to_client: c.traffic.server_to_client,
            setup: c.setup_bytes,
        },
        flights: c.traffic.flights,
        key_switches: stages.iter().map(|s| s.key_switches).sum(),
        peak_rss_bytes: Peak {
            client: c.peak_rss_bytes,
            server: a.server.peak_rss_bytes,
        },
        failure_log2: p.plan.document().failure_log2,
        stages,
        compare_plain,
        logits: a.client.logits,
        surrogate_logits: a.surrogate,
        exact_logits: a.exact,
    }
}

fn line(server: &StageReport, client: &StageReport) -> StageLine {
    let t = server.cost.traffic;
    StageLine {
        name: server.name.clone(),
        variant: server.variant.clone(),
        seconds: server.seconds,
        client_seconds: client.seconds,
        cpu_seconds: server.cpu_seconds + client.cpu_seconds,
        bytes: t.client_to_server + t.server_to_client,
        client_to_server: t.client_to_server,
        server_to_client: t.server_to_client,
        flights: t.flights,
        key_switches: server.cost.he.key_switches(),
        he: server.cost.he,
        mpc: server.cost.mpc,
        peak_live_ciphertexts: server.cost.peak_live_ciphertexts,
    }
}

fn print(r: &DemoReport) {
    let rows: Vec<Vec<String>> = r
        .stages
        .iter()
        .map(|s| {
            vec![
                s.name.clone(),
                s.variant.clone(),
                format!("{:.2}", s.seconds),
                bytes(s.client_to_server),
                bytes(s.server_to_client),
                s.flights.to_string(),
                s.key_switches.to_string(),
            ]
        })
        .collect();
    print!(
        "{}",
        table(
            &[
                "stage",
                "variant",
                "seconds",
                "to server",
                "to client",
                "flights",
                "key switches"
            ],
            &rows
        )
    );
    println!();
    let logits = |v: &[f64]| {
        v.iter()
            .map(|x| format!("{x:+.4}"))
            .collect::<Vec<_>>()
            .join("  ")
    };
    let beside =
        |d: Option<f64>| d.map_or_else(String::new, |d| format!("   largest difference {d:.5}"));
    let opened = r.logits.as_deref();
    println!(
        "encrypted   {:<10} {}",
        r.label,
        opened.map_or_else(|| "logits not opened".into(), logits)
    );
    println!(
        "surrogate   {:<10} {}{}",
        r.surrogate_label,
        logits(&r.surrogate_logits),
        beside(r.max_logit_diff_surrogate)
    );
    println!(
        "exact       {:<10} {}{}",
        r.exact_label,
        logits(&r.exact_logits),
        beside(r.max_logit_diff_exact)
    );
    if let Some(c) = &r.compare_plain {
        println!("\nstages against the plaintext surrogate (largest difference):");
        for s in &c.stages {
            println!("  {:<24} {:<8} {:.2e}", s.stage, s.tensor, s.max_diff);
        }
        match &c.first_divergence {
            Some(s) => println!("first stage that diverges: {s}"),
            None => println!("no stage diverges"),
        }
    }
    println!(
        "\ntime        {} (set-up {}, offline {}, online {})",
        seconds(r.seconds.total),
        seconds(r.seconds.setup),
        seconds(r.seconds.offline),
        seconds(r.seconds.online)
    );
    println!(
        "traffic     {} to the server, {} to the client, {} flights; set-up {}",
        bytes(r.bytes.client_to_server),
        bytes(r.bytes.server_to_client),
        r.flights,
        bytes(r.bytes.setup)
    );
    println!(
        "memory      client {}, server {} (peaks)",
        bytes(r.peak_rss_bytes.client),
        bytes(r.peak_rss_bytes.server)
    );
}
