//! `publish`: the folders of a deployment.

use crate::args::PublishArgs;
use crate::error::CliError;
use crate::format::bytes;
use crate::pair::{answer, prepare};
use crate::progress::Progress;
use crate::shipped::ModelFolder;
use cipherloom_engine::bundle::{deploy, IdentitySource};
use cipherloom_engine::handshake::hex;
use cipherloom_engine::service::ServiceMemory;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Serialize)]
struct PublishReport {
    client: PathBuf,
    server: PathBuf,
    /// SHA-256 of the certificate.
    pin: String,
    /// Unix time.
    certificate_expires: i64,
    plan: String,
    length: usize,
    labels: Vec<String>,
    answer: &'static str,
    security_bits: u32,
    failure_log2: f64,
    setup_bytes: u64,
    model_bytes: u64,
    session_bytes: u64,
}

/// Runs the command.
///
/// # Errors
/// Loading, planning, a certificate that cannot be used, folders that exist or cannot be written.
pub fn run(args: &PublishArgs) -> Result<(), CliError> {
    let progress = Progress::new(args.json);
    progress.say("loading and planning");
    let folder = ModelFolder::open(Some(&args.model))?;
    let mut prepared = prepare(&folder, &args.choices)?;
    prepared.plan = prepared.plan.with_answer(answer(args.answer))?;
    let names: Vec<&str> = args.names.iter().map(String::as_str).collect();
    let source = match (&args.certificate, &args.key) {
        (Some(certificate), Some(key)) => IdentitySource::Files { certificate, key },
        _ => IdentitySource::SelfSigned {
            names: &names,
            days: args.days,
        },
    };
    progress.say("writing");
    let done = deploy(
        &folder.path,
        &prepared.model,
        &prepared.plan,
        source,
        &args.out,
    )?;
    progress.done();
    let d = prepared.plan.document();
    let memory = ServiceMemory::of(&prepared.plan);
    let report = PublishReport {
        client: done.folders.client,
        server: done.folders.server,
        pin: done.pin.to_string(),
        certificate_expires: done.validity.not_after,
        plan: hex(&prepared.plan.hash()),
        length: d.request.length,
        labels: d.request.labels.clone(),
        answer: d.request.answer.name(),
        security_bits: d.security_bits,
        failure_log2: d.failure_log2,
        setup_bytes: d.setup_bytes,
        model_bytes: memory.fixed,
        session_bytes: memory.session,
    };
    if args.json {
        let text =
            serde_json::to_string_pretty(&report).map_err(|e| CliError::Reports(e.to_string()))?;
        println!("{text}");
        return Ok(());
    }
    println!("for clients    {}", report.client.display());
    println!("for the server {}", report.server.display());
    println!("pin            {}", report.pin);
    println!(
        "plan           {} tokens, {}-bit security, failure 2^{:.0}, answers {}",
        report.length, report.security_bits, report.failure_log2, report.answer
    );
    println!(
        "a client sends {} of keys once; the server needs {} for the model and {} for each session",
        bytes(report.setup_bytes),
        bytes(report.model_bytes),
        bytes(report.session_bytes)
    );
    println!(
        "\nnext: cipherloom serve {} --deployment {} --listen 0.0.0.0:7443",
        args.model.display(),
        report.server.display()
    );
    Ok(())
}
