//! `classify`: one document at a server.

use crate::args::ClassifyArgs;
use crate::error::{file_error, CliError};
use crate::format::{bytes, seconds};
use crate::pair::answer;
use crate::progress::Progress;
use crate::text::read_text;
use cipherloom_engine::bundle::ClientBundle;
use cipherloom_engine::keystore::ClientKeyFile;
use cipherloom_engine::link::{self, Waits};
use cipherloom_engine::remote::{classify, Server};
use cipherloom_engine::{EngineError, PartyReport, Pin, SessionOptions};
use cipherloom_model::{ModelError, Truncation};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

#[derive(Serialize)]
struct ClassifyReport {
    label: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    logits: Option<Vec<f64>>,
    labels: Vec<String>,
    model: String,
    tokens: usize,
    tokens_in_text: usize,
    cut: Option<String>,
    length: usize,
    server: String,
    pin: String,
    failure_log2: f64,
    #[serde(flatten)]
    report: PartyReport,
}

/// Runs the command.
///
/// # Errors
/// A bad bundle, text, pin or key folder (exit code 2); the server or the link (exit code 3).
pub fn run(args: &ClassifyArgs) -> Result<(), CliError> {
    let network = link::profile(&args.network)?;
    check_address(&args.server)?;
    let mut progress = Progress::new(args.json);
    progress.say("reading the bundle");
    let bundle = ClientBundle::load(&args.bundle)?;
    let pin = match &args.pin {
        None => Pin::from_bytes(bundle.pin),
        Some(text) => Pin::from_str(text).map_err(|e| CliError::Argument {
            argument: "--pin",
            detail: e.to_string(),
        })?,
    };
    let text = read_text(&args.file)?;
    let truncation = if args.truncate {
        Truncation::Allow
    } else {
        Truncation::Refuse
    };
    let document = bundle.encode(&text, truncation).map_err(|e| match e {
        ModelError::TooLong { tokens, fit, side } => CliError::TooLong { tokens, fit, side },
        e => e.into(),
    })?;
    drop(text);
    let keys = ClientKeyFile::at(&keys_folder(args.keys.as_deref())?, &pin.bytes())
        .map_err(EngineError::from)?;
    if args.fresh_key {
        keys.replace().map_err(EngineError::from)?;
    }
    let server = Server {
        address: &args.server,
        pin,
        waits: Waits {
            message: Duration::from_secs(args.timeout),
            ..Waits::default()
        },
        network,
    };
    let variant = args.answer.map(|a| bundle.plan.with_answer(answer(a)));
    let variant = variant.transpose()?;
    let plan = variant.as_ref().unwrap_or(&bundle.plan);
    progress.expect(plan);
    let options = SessionOptions::default();
    let outcome = classify(
        &bundle,
        plan,
        &document,
        &server,
        &keys,
        &options,
        &mut progress,
    )?;
    progress.done();
    let name = |i: usize| bundle.labels.get(i).cloned().unwrap_or_default();
    let report = ClassifyReport {
        label: name(outcome.label),
        logits: outcome.logits,
        labels: bundle.labels.clone(),
        model: plan.request().shape.name.clone(),
        tokens: document.real,
        tokens_in_text: document.total,
        cut: document.cut.map(|s| s.to_string()),
        length: plan.request().length,
        server: args.server.clone(),
        pin: pin.to_string(),
        failure_log2: plan.document().failure_log2,
        report: outcome.report,
    };
    if args.json {
        let text =
            serde_json::to_string_pretty(&report).map_err(|e| CliError::Reports(e.to_string()))?;
        println!("{text}");
    } else {
        print(&report);
    }
    Ok(())
}

fn print(r: &ClassifyReport) {
    println!("{}", r.label);
    if let Some(logits) = &r.logits {
        for (name, x) in r.labels.iter().zip(logits) {
            println!("  {name:<16} {x:+.4}");
        }
    }
    let cut = match &r.cut {
        Some(side) => format!(", the {side} of the text was cut to fit"),
        None => String::new(),
    };
    println!(
        "\n{} of {} tokens{cut}; {} ({} sent, {} received, keys {})",
        r.tokens,
        r.length,
        seconds(r.report.seconds.total),
        bytes(r.report.traffic.client_to_server + r.report.key_bytes),
        bytes(r.report.traffic.server_to_client),
        if r.report.keys_reused {
            "known to the server".to_owned()
        } else {
            format!("sent, {}", bytes(r.report.key_bytes))
        }
    );
}

/// Host and port; whether the host exists is found out when connecting.
fn check_address(address: &str) -> Result<(), CliError> {
    let port = address
        .rsplit_once(':')
        .map(|(host, port)| (host, port.parse::<u16>()));
    match port {
        Some((host, Ok(1..))) if !host.is_empty() => Ok(()),
        _ => Err(CliError::Argument {
            argument: "--server",
            detail: format!("{address:?} is no HOST:PORT, for example model.example.org:7443"),
        }),
    }
}

/// The given folder, or `cipherloom/keys` among the user's data.
fn keys_folder(given: Option<&Path>) -> Result<PathBuf, CliError> {
    if let Some(dir) = given {
        return Ok(dir.to_path_buf());
    }
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|h| h.join(".local/share")))
        .map(|d| d.join("cipherloom/keys"))
        .ok_or_else(|| {
            file_error(
                Path::new("the folder for keys"),
                "neither XDG_DATA_HOME nor HOME is set; give one with --keys",
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_need_a_host_and_a_port() {
        for good in ["localhost:7443", "127.0.0.1:1", "[::1]:7443"] {
            assert!(check_address(good).is_ok(), "{good}");
        }
        for bad in [
            "localhost",
            ":7443",
            "localhost:0",
            "localhost:99999",
            "a:b",
            "",
        ] {
            assert!(check_address(bad).is_err(), "{bad}");
        }
    }
}
