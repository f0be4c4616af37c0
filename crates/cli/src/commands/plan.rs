//! `plan`: what a deployment would do and cost.

use crate::args::PlanArgs;
use crate::commands::measure::load_profile;
use crate::error::CliError;
use crate::format::{bytes, seconds, table};
use crate::pair::{prepare, shape_plan};
use crate::shipped::ModelFolder;
use cipherloom_engine::link;
use cipherloom_plan::predict::predict;
use cipherloom_plan::{
    Answer, Document, LinkRate, MachineProfile, MemoryEstimate, Plan, Prediction, Ring,
};
use cipherloom_spec::cost::{HeCounts, MpcCounts, Traffic};
use serde::Serialize;

#[derive(Serialize)]
struct KeyList {
    ring: &'static str,
    count: usize,
    bytes: u64,
    rotations: Vec<usize>,
}

#[derive(Serialize)]
struct RingLine {
    name: &'static str,
    log_n: u32,
    log_qp: f64,
    depth: usize,
    digits: usize,
    security_bits: u32,
}

#[derive(Serialize)]
struct PlanReport<'a> {
    model: &'a str,
    length: usize,
    block: usize,
    carry: &'a str,
    answer: Answer,
    scan_depth: usize,
    rings: Vec<RingLine>,
    keys: Vec<KeyList>,
    setup_bytes: u64,
    offline: Traffic,
    total: Traffic,
    key_switches: u64,
    he: HeCounts,
    mpc: MpcCounts,
    security_bits: u32,
    failure_log2: f64,
    memory: Memory,
    network: &'a str,
    link_seconds: f64,
    predicted: Prediction,
    document: &'a Document,
}

#[derive(Serialize)]
struct Memory {
    server: MemoryEstimate,
    client: MemoryEstimate,
}

/// Runs the command.
///
/// # Errors
/// Loading and planning errors.
pub fn run(args: &PlanArgs) -> Result<(), CliError> {
    let plan: Plan = match (&args.model, &args.shape) {
        (_, Some(shape)) => shape_plan(shape, &args.choices)?,
        (model, None) => prepare(&ModelFolder::open(model.as_ref())?, &args.choices)?.plan,
    };
    let profile = load_profile(args.profile.as_deref())?;
    let report = report(&plan, &profile, &args.network)?;
    if args.json {
        let text =
            serde_json::to_string_pretty(&report).map_err(|e| CliError::Reports(e.to_string()))?;
        println!("{text}");
    } else {
        print(&plan, &report);
    }
    Ok(())
}

fn report<'a>(
    plan: &'a Plan,
    profile: &MachineProfile,
    network: &'a str,
) -> Result<PlanReport<'a>, CliError> {
    let d = plan.document();
    let rings = [Ring::Projection, Ring::Scan];
    let mut total = d.offline;
    for s in &d.stages {
        total += s.cost.traffic;
    }
    let he: HeCounts = d.stages.iter().map(|s| s.cost.he).sum();
    let mpc: MpcCounts = d.stages.iter().map(|s| s.cost.mpc).sum();
    let link = link::profile(network)?.map(|p| LinkRate {
        bits_per_second: p.bits_per_second,
        rtt_seconds: p.rtt.as_secs_f64(),
    });
    let predicted = predict(plan, profile, link);
    Ok(PlanReport {
        model: &d.request.shape.name,
        length: d.request.length,
        block: d.scan_block,
        carry: d.request.carry.name(),
        answer: d.request.answer,
        scan_depth: plan.scan().schedule.depth(),
        rings: rings
            .iter()
            .map(|&r| {
                let c = plan.chain(r);
                RingLine {
                    name: r.name(),
                    log_n: c.log_n(),
                    log_qp: c.log_qp(),
                    depth: c.depth(),
                    digits: c.digits(c.top_level()).len(),
                    security_bits: d.security_bits,
                }
            })
            .collect(),
        keys: rings
            .iter()
            .map(|&r| {
                let k = plan.keys(r);
                KeyList {
                    ring: r.name(),
                    count: k.len(),
                    bytes: k
                        .levels()
                        .into_iter()
                        .map(|l| {
                            cipherloom_plan::describe::boundary::evaluation_key_bytes(
                                plan.chain(r),
                                l,
                            )
                        })
                        .sum(),
                    rotations: k.rotations.iter().map(|k| k.rotation).collect(),
                }
            })
            .collect(),
        setup_bytes: d.setup_bytes,
        offline: d.offline,
        total,
        key_switches: he.key_switches(),
        he,
        mpc,
        security_bits: d.security_bits,
        failure_log2: d.failure_log2,
        memory: Memory {
            server: d.server_memory,
            client: d.client_memory,
        },
        network,
        link_seconds: predicted.link_seconds,
        predicted,
        document: d,
    })
}

fn print(plan: &Plan, r: &PlanReport<'_>) {
    println!(
        "{} at {} tokens, scan block {}, carry {}, answer {}\n",
        r.model,
        r.length,
        r.block,
        r.carry,
        r.answer.name()
    );
    let rows: Vec<Vec<String>> = plan
        .stages()
        .iter()
        .zip(&r.predicted.stages)
        .map(|(s, p)| {
            let t = s.cost.traffic;
            vec![
                s.name.clone(),
                s.variant.clone(),
                s.depth.to_string(),
                s.cost.he.key_switches().to_string(),
                (s.cost.mpc.products + s.cost.mpc.squares + s.cost.mpc.known_products).to_string(),
                s.cost.mpc.comparisons.to_string(),
                bytes(t.client_to_server + t.server_to_client),
                t.flights.to_string(),
                s.cost.peak_live_ciphertexts.to_string(),
                format!("{:.3}", p.total_seconds),
            ]
        })
        .collect();
    print!(
        "{}",
        table(
            &[
                "stage",
                "variant",
                "levels",
                "key switches",
                "products",
                "comparisons",
                "bytes",
                "flights",
                "live ciphertexts",
                "predicted s"
            ],
            &rows
        )
    );
    println!();
    for c in &r.rings {
        println!(
            "ring {:<11} N=2^{}, log QP {:.0} bits, depth {}, {} digits, {}-bit security",
            c.name, c.log_n, c.log_qp, c.depth, c.digits, c.security_bits
        );
    }
    for k in &r.keys {
        println!(
            "keys {:<11} {} keys, {}; rotations {:?}",
            k.ring,
            k.count,
            bytes(k.bytes),
            k.rotations
        );
    }
    println!("scan depth  {}", r.scan_depth);
    println!(
        "traffic     {} to the server, {} to the client, {} flights; set-up {} once a key",
        bytes(r.total.client_to_server),
        bytes(r.total.server_to_client),
        r.total.flights,
        bytes(r.setup_bytes)
    );
    println!(
        "link        {} on {} (transmission of the slower direction and half a round trip a flight)",
        seconds(r.link_seconds),
        r.network
    );
    let p = &r.predicted;
    println!(
        "predicted   {}: server {}, client {}, link {}; one core a party, nothing overlaps, set-up apart",
        seconds(p.total_seconds),
        seconds(p.cpu_seconds.server),
        seconds(p.cpu_seconds.client),
        seconds(p.link_seconds)
    );
    println!("profile     {}", p.profile);
    println!(
        "memory      server {}, client {}",
        bytes(r.memory.server.total()),
        bytes(r.memory.client.total())
    );
    println!("failure     2^{:.1} an inference", r.failure_log2);
}
