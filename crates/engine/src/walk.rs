//! The walk through a plan's stages, and the check that each was executed as planned.

use crate::configs::Configs;
use crate::dump::Dump;
use crate::face::Face;
use crate::report::{cpu_seconds, StageReport};
use crate::session::{Observer, SessionOptions};
use crate::stages::{run_stage, Opened, Tensors};
use crate::EngineError;
use cipherloom_mpc::{Domain, Party};
use cipherloom_net::{Channel, StageTraffic};
use cipherloom_plan::{Plan, Stage, StageCost};
use cipherloom_spec::cost::Traffic;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// What the stages opened to this party, and their reports.
type StagesDone = (Option<Opened>, Vec<StageReport>);

/// Runs all stages in order; each is held against its description in the plan.
///
/// # Errors
/// Whatever a stage raises; `NotAsPlanned`; `Stopping` when the session was told to end.
pub(crate) fn run_stages<F: Face>(
    face: &mut F,
    plan: &Plan,
    options: &SessionOptions,
    observer: &mut dyn Observer,
) -> Result<StagesDone, EngineError> {
    let cfg = Configs::new(plan)?;
    let party = face.two().party();
    let mut dump = options
        .dump
        .as_deref()
        .map(|d| Dump::new(d, party))
        .transpose()?;
    let mut tensors = Tensors::default();
    let mut answer = None;
    let total = plan.stages().len();
    let mut reports = Vec::with_capacity(total);
    for (i, stage) in plan.stages().iter().enumerate() {
        if stopped(options) {
            return Err(EngineError::Stopping);
        }
        observer.stage(stage, i, total);
        face.two()
            .session()
            .channel()
            .set_stage(stage.id, &stage.name);
        let (wall, cpu) = (Instant::now(), cpu_seconds());
        let (he, mpc) = (face.he_counts(), face.two().counts());
        // Ciphertexts from before the stage count only in stages that run a kernel, which start their own measurement.
        face.take_peak_live();
        let opened = run_stage(face, plan, &cfg, stage, &mut tensors)?;
        answer = opened.or(answer);
        let he = face.he_counts().since(&he);
        let peak = if he == cipherloom_spec::cost::HeCounts::default() {
            0
        } else {
            face.take_peak_live()
        };
        let mpc = face.two().counts().since(&mpc);
        let traffic = traffic(
            party,
            &face
                .two()
                .session_ref()
                .channel_ref()
                .snapshot()
                .stage(stage.id),
        );
        let report = StageReport {
            id: stage.id,
            name: stage.name.clone(),
            variant: stage.variant.clone(),
            seconds: wall.elapsed().as_secs_f64(),
            cpu_seconds: cpu_seconds() - cpu,
            cost: StageCost {
                he,
                mpc,
                traffic,
                peak_live_ciphertexts: peak,
            },
        };
        check(party, stage, &report.cost)?;
        if let Some(d) = &mut dump {
            d.write(stage, &tensors)?;
        }
        observer.stage_done(&report);
        tell_traffic(face.two().session().channel(), observer);
        reports.push(report);
    }
    Ok((answer, reports))
}

fn stopped(options: &SessionOptions) -> bool {
    let flag = options.stop.as_deref();
    flag.is_some_and(|s| s.load(Ordering::Relaxed))
}

/// Tells the observer what has crossed the link so far.
pub(crate) fn tell_traffic(channel: &Channel, observer: &mut dyn Observer) {
    let total = channel.snapshot().total();
    observer.traffic(total.sent.bytes, total.received.bytes);
}

/// A stage's traffic as client-to-server and server-to-client.
pub(crate) fn traffic(party: Party, s: &StageTraffic) -> Traffic {
    let (up, down) = match party {
        Party::Client => (&s.sent, &s.received),
        Party::Server => (&s.received, &s.sent),
    };
    Traffic {
        client_to_server: up.bytes,
        server_to_client: down.bytes,
        flights: s.flights(),
    }
}

/// Holds an executed stage against the plan. The client executes no homomorphic operation.
fn check(party: Party, stage: &Stage, done: &StageCost) -> Result<(), EngineError> {
    let plan = &stage.cost;
    let mut pairs = vec![
        (
            "client to server bytes",
            done.traffic.client_to_server,
            plan.traffic.client_to_server,
        ),
        (
            "server to client bytes",
            done.traffic.server_to_client,
            plan.traffic.server_to_client,
        ),
        ("flights", done.traffic.flights, plan.traffic.flights),
        ("products", done.mpc.products, plan.mpc.products),
        ("squares", done.mpc.squares, plan.mpc.squares),
        (
            "products with known values",
            done.mpc.known_products,
            plan.mpc.known_products,
        ),
        ("comparisons", done.mpc.comparisons, plan.mpc.comparisons),
        ("muxes", done.mpc.muxes, plan.mpc.muxes),
        ("bit conversions", done.mpc.b2a, plan.mpc.b2a),
        ("truncations", done.mpc.truncations, plan.mpc.truncations),
        (
            "faithful truncations",
            done.mpc.faithful_truncations,
            plan.mpc.faithful_truncations,
        ),
        ("extensions", done.mpc.extensions, plan.mpc.extensions),
        ("COTs", done.mpc.cots, plan.mpc.cots),
    ];
    if party == Party::Server {
        pairs.extend([
            ("rotations", done.he.rotations, plan.he.rotations),
            ("conjugations", done.he.conjugations, plan.he.conjugations),
            (
                "relinearizations",
                done.he.relinearizations,
                plan.he.relinearizations,
            ),
            ("ciphertext products", done.he.ct_ct, plan.he.ct_ct),
            ("plaintext products", done.he.pt_ct, plan.he.pt_ct),
            ("rescales", done.he.rescales, plan.he.rescales),
            ("aligns", done.he.aligns, plan.he.aligns),
            (
                "peak live ciphertexts",
                done.peak_live_ciphertexts,
                plan.peak_live_ciphertexts,
            ),
        ]);
    }
    for (field, executed, planned) in pairs {
        if executed != planned {
            return Err(EngineError::NotAsPlanned {
                stage: stage.name.clone(),
                field,
                executed,
                planned,
            });
        }
    }
    Ok(())
}
