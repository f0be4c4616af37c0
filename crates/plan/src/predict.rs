//! Predicted times: the counts of a plan's stages times the costs of a [`MachineProfile`], and the time of the link.
//!
//! What is predicted is the processor time of one inference's stages, on one core a party. Not in it: the set-up and the offline
//! phase, the encoding of the weights (once a model), and local work on shares, which is small beside the protocols. Protocols
//! are charged by the element; a product of few elements costs a whole RLWE ciphertext, so short vectors are under-estimated.

use crate::describe::scan::describe_scan;
use crate::profile::{ring_work, CkksCosts, MachineProfile};
use crate::stage::{Domain, Port, Ring, Stage, StageKind};
use crate::Plan;
use cipherloom_spec::cost::{HeCounts, MpcCounts, Traffic};
use serde::Serialize;

/// A full-duplex link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkRate {
    /// Bits a second in each direction.
    pub bits_per_second: f64,
    /// Round-trip time in seconds.
    pub rtt_seconds: f64,
}

impl LinkRate {
    /// Transmission of the slower direction, and half a round trip a flight, in seconds.
    #[must_use]
    pub fn seconds(&self, t: &Traffic) -> f64 {
        let slower = t.client_to_server.max(t.server_to_client);
        slower as f64 * 8.0 / self.bits_per_second + t.flights as f64 * self.rtt_seconds / 2.0
    }
}

/// Seconds of each party.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PartySeconds {
    /// The client's.
    pub client: f64,
    /// The server's.
    pub server: f64,
}

/// One stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StagePrediction {
    /// Stage name.
    pub name: String,
    /// Processor time of one core.
    pub cpu_seconds: PartySeconds,
    /// Time on the link.
    pub link_seconds: f64,
    /// Sum of the three.
    pub total_seconds: f64,
}

/// A whole inference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// Which profile.
    pub profile: String,
    /// Processor time of one core, all stages.
    pub cpu_seconds: PartySeconds,
    /// Time on the link: the stages and the offline phase.
    pub link_seconds: f64,
    /// Sum of the three: one core a party, nothing overlaps.
    pub total_seconds: f64,
    /// The stages in order.
    pub stages: Vec<StagePrediction>,
}

/// Predicts an inference; without a link, its time is zero.
#[must_use]
pub fn predict(plan: &Plan, profile: &MachineProfile, link: Option<LinkRate>) -> Prediction {
    let on_link = |t: &Traffic| link.map_or(0.0, |l| l.seconds(t));
    let stages: Vec<StagePrediction> = plan
        .stages()
        .iter()
        .map(|s| {
            let cpu = stage_seconds(plan, s, profile);
            let link_seconds = on_link(&s.cost.traffic);
            StagePrediction {
                name: s.name.clone(),
                cpu_seconds: cpu,
                link_seconds,
                total_seconds: cpu.client + cpu.server + link_seconds,
            }
        })
        .collect();
    let cpu_seconds = PartySeconds {
        client: stages.iter().map(|s| s.cpu_seconds.client).sum(),
        server: stages.iter().map(|s| s.cpu_seconds.server).sum(),
    };
    let link_seconds =
        on_link(&plan.document().offline) + stages.iter().map(|s| s.link_seconds).sum::<f64>();
    Prediction {
        profile: profile.description.clone(),
        cpu_seconds,
        link_seconds,
        total_seconds: cpu_seconds.client + cpu_seconds.server + link_seconds,
        stages,
    }
}

fn stage_seconds(plan: &Plan, stage: &Stage, profile: &MachineProfile) -> PartySeconds {
    let mut out = protocols(&stage.cost.mpc, profile);
    if let Some((ring, levels)) = levels(stage) {
        let point = Point::new(plan, ring, levels, profile);
        // What is known by level is charged by level, the rest at the average of the stage.
        let by_level = scan_levels(plan, stage);
        let known: HeCounts = by_level.iter().map(|(_, he)| *he).sum();
        for (level, he) in &by_level {
            let point = Point::new(plan, ring, (*level, *level), profile);
            out.server += kernel(he, 0, &point);
        }
        let rest = stage.cost.he.since(&known);
        out.server += kernel(&rest, hoisted(plan, stage), &point);
        let (in_ckks, in_shares) = crossings(plan, stage);
        if let Some(c) = point.costs {
            out.client += in_ckks as f64 * c.encrypt_seeded * point.limb
                + in_shares as f64 * c.decode * point.ring;
            out.server +=
                in_ckks as f64 * c.expand * point.limb + in_shares as f64 * c.export * point.ring;
        }
    }
    out
}

/// Elements times the protocol's time for an element.
fn protocols(n: &MpcCounts, profile: &MachineProfile) -> PartySeconds {
    let mut out = PartySeconds::default();
    for (count, name, share) in [
        (n.products, "product", 1.0),
        (n.squares, "square", 1.0),
        (n.known_products, "product_known", 1.0),
        // Counted by the threshold; nearly all are made two at a time.
        (n.comparisons, "compare17_two_thresholds", 0.5),
        (n.muxes, "mux", 1.0),
        (n.b2a, "b2a", 1.0),
        (n.truncations, "truncate_known_sign", 1.0),
        (n.faithful_truncations, "truncate_faithful", 1.0),
        (n.extensions, "extend_64_88", 1.0),
    ] {
        let (client, server) = profile.protocol_ns(name);
        out.client += count as f64 * share * client * 1e-9;
        out.server += count as f64 * share * server * 1e-9;
    }
    out
}

/// A measured point and the factors that take it to the stage's ring and levels.
struct Point<'a> {
    costs: Option<&'a CkksCosts>,
    /// Key switches: digits times primes of the extended basis.
    switch: f64,
    /// What handles each prime once.
    limb: f64,
    /// What depends on the ring degree only.
    ring: f64,
}

impl<'a> Point<'a> {
    /// Averages over the levels that the stage passes through.
    fn new(
        plan: &Plan,
        ring: Ring,
        (high, low): (usize, usize),
        profile: &'a MachineProfile,
    ) -> Self {
        let chain = plan.chain(ring);
        let levels = (low..=high).map(|l| (l + 1, chain.digits(l).len()));
        let count = (high - low + 1) as f64;
        let limbs = levels.clone().map(|(l, _)| l as f64).sum::<f64>() / count;
        let special = chain.p().len();
        let work = levels.map(|(l, d)| (d * (l + special)) as f64).sum::<f64>() / count;
        let costs = profile.nearest(chain.log_n(), limbs);
        let ring = ring_work(chain.log_n());
        let times = |have: f64, measured: fn(&CkksCosts) -> f64| {
            costs.map_or(0.0, |c| ring * have / measured(c))
        };
        Self {
            costs,
            switch: times(work, CkksCosts::switch_work),
            limb: times(limbs, CkksCosts::limb_work),
            ring: times(1.0, |c| ring_work(c.log_n)),
        }
    }
}

/// The server's kernel. `hoisted` rotations share the decomposition of their digits with another one.
fn kernel(n: &HeCounts, hoisted: u64, p: &Point<'_>) -> f64 {
    let Some(c) = p.costs else {
        return 0.0;
    };
    let hoisted = hoisted.min(n.rotations);
    // A relinearisation includes its product and its rescale.
    let rescales = n.rescales.saturating_sub(n.relinearizations);
    p.switch
        * ((n.rotations - hoisted) as f64 * c.rotate
            + hoisted as f64 * c.rotate_hoisted
            + n.conjugations as f64 * c.conjugate
            + n.relinearizations as f64 * c.mul_relin_rescale)
        + p.limb
            * (n.pt_ct as f64 * c.mul_plain_accumulate
                + rescales as f64 * c.rescale
                + n.aligns as f64 * c.align)
}

/// Ring, highest and lowest level of the ciphertexts that a stage handles.
fn levels(stage: &Stage) -> Option<(Ring, (usize, usize))> {
    let at = |p: &Port| match p.domain {
        Domain::Ckks { ring, level } => Some((ring, level)),
        _ => None,
    };
    let mut all = stage.inputs.iter().chain(&stage.outputs).filter_map(at);
    let (ring, first) = all.next()?;
    let (high, low) = all.fold((first, first), |(h, l), (_, level)| {
        (h.max(level), l.min(level))
    });
    Some((ring, (high, low)))
}

/// The operations of a scan stage by level, highest first; nothing for other stages.
fn scan_levels(plan: &Plan, stage: &Stage) -> Vec<(usize, HeCounts)> {
    if stage.kind != StageKind::ScanContract {
        return Vec::new();
    }
    let (scan, request) = (plan.scan(), plan.request());
    let description = describe_scan(
        scan.schedule.layout(),
        request.length,
        scan.block,
        request.carry,
        scan.chain.top_level(),
        scan.chain.base_level(),
    );
    // A plan was built from this very description.
    let by_level = description.map(|d| d.by_level).unwrap_or_default();
    let chunks = scan.tensors.chunks();
    by_level
        .into_iter()
        .map(|(level, he)| (level, std::iter::repeat_n(he, chunks).sum()))
        .collect()
}

/// Rotations of a stage that share a decomposition: all but the first of each rotated ciphertext. The scan's are not known
/// from the layouts, so none there.
fn hoisted(plan: &Plan, stage: &Stage) -> u64 {
    let l = plan.linear();
    let pairs = l.tokens.pairs();
    let babies = |m: &cipherloom_spec::projection::MatrixLayout| {
        (pairs * m.groups() * m.babies.saturating_sub(2)) as u64
    };
    match stage.kind {
        StageKind::InProjection => babies(&l.input),
        StageKind::OutProjection => babies(&l.output),
        StageKind::Convolution => {
            let rotated = l.convolved.blocks() * (pairs + usize::from(l.tokens.paired()));
            stage.cost.he.rotations.saturating_sub(rotated as u64)
        }
        _ => 0,
    }
}

/// Ciphertexts that a stage makes from shares, and that it turns into shares.
fn crossings(plan: &Plan, stage: &Stage) -> (usize, usize) {
    let (l, s) = (plan.linear(), plan.scan().tensors);
    let pairs = l.tokens.pairs();
    match stage.kind {
        StageKind::ToCkks => (pairs * l.input.groups(), 0),
        StageKind::PostToCkks => (pairs * l.output.groups(), 0),
        StageKind::Packet => ((2 * s.chunks() + 2 * s.groups()) * s.tiles(), 0),
        StageKind::ToShares => (0, pairs * (l.z_blocks + l.convolved.blocks())),
        StageKind::ScanToShares => (0, s.chunks() * s.tiles()),
        StageKind::Residual => (0, pairs * l.output.blocks()),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ModelShape, Request};
    use cipherloom_spec::approx::Stack;
    use cipherloom_spec::schedule::Carry;

    const LAN: LinkRate = LinkRate {
        bits_per_second: 1e9,
        rtt_seconds: 3e-4,
    };

    fn plan(length: usize) -> Plan {
        let shape = ModelShape::named("moviedoc").unwrap();
        let r = Request::for_shape(shape, length, None, Carry::Serial, Stack::default()).unwrap();
        Plan::build(r).unwrap()
    }

    fn shipped() -> MachineProfile {
        MachineProfile::shipped().unwrap()
    }

    #[test]
    fn a_link_takes_the_slower_direction_and_half_a_round_trip_a_flight() {
        let t = Traffic {
            client_to_server: 1_000_000,
            server_to_client: 250_000_000,
            flights: 10,
        };
        let s = LAN.seconds(&t);
        assert!((s - (2.0 + 10.0 * 1.5e-4)).abs() < 1e-12, "{s}");
    }

    #[test]
    fn stages_add_up_and_every_stage_that_works_takes_time() {
        let (plan, profile) = (plan(128), shipped());
        let p = predict(&plan, &profile, Some(LAN));
        assert_eq!(p.profile, profile.description);
        let sum: f64 = p.stages.iter().map(|s| s.total_seconds).sum();
        let offline = LAN.seconds(&plan.document().offline);
        assert!((sum + offline - p.total_seconds).abs() < 1e-9);
        for (s, stage) in p.stages.iter().zip(plan.stages()) {
            let cpu = s.cpu_seconds;
            let (he, mpc) = (stage.cost.he, stage.cost.mpc);
            let (in_ckks, in_shares) = crossings(&plan, stage);
            assert_eq!(
                cpu.server > 0.0,
                he != HeCounts::default() || mpc != MpcCounts::default() || in_shares > 0,
                "{}",
                s.name
            );
            // The client executes no kernel.
            assert_eq!(
                cpu.client > 0.0,
                mpc != MpcCounts::default() || in_ckks + in_shares > 0
            );
        }
        assert_eq!(predict(&plan, &profile, None).link_seconds, 0.0);
    }

    #[test]
    fn the_prediction_grows_with_every_count_and_with_the_length() {
        let (plan, profile) = (plan(128), shipped());
        for stage in plan.stages() {
            let before = stage_seconds(&plan, stage, &profile);
            let grown = |change: &dyn Fn(&mut Stage)| {
                let mut s = stage.clone();
                change(&mut s);
                stage_seconds(&plan, &s, &profile)
            };
            let shares: [&dyn Fn(&mut Stage); 9] = [
                &|s| s.cost.mpc.products += 1000,
                &|s| s.cost.mpc.squares += 1000,
                &|s| s.cost.mpc.known_products += 1000,
                &|s| s.cost.mpc.comparisons += 1000,
                &|s| s.cost.mpc.muxes += 1000,
                &|s| s.cost.mpc.b2a += 1000,
                &|s| s.cost.mpc.truncations += 1000,
                &|s| s.cost.mpc.faithful_truncations += 1000,
                &|s| s.cost.mpc.extensions += 1000,
            ];
            for change in shares {
                let after = grown(change);
                assert!(after.client > before.client && after.server > before.server);
            }
            if levels(stage).is_none() {
                continue;
            }
            let kernels: [&dyn Fn(&mut Stage); 6] = [
                &|s| s.cost.he.rotations += 1,
                &|s| s.cost.he.conjugations += 1,
                &|s| s.cost.he.relinearizations += 1,
                &|s| s.cost.he.pt_ct += 1,
                &|s| s.cost.he.rescales += 1 + s.cost.he.relinearizations,
                &|s| s.cost.he.aligns += 1,
            ];
            for change in kernels {
                let after = grown(change);
                assert!(after.server > before.server && after.client == before.client);
            }
        }
        let long = predict(&self::plan(512), &profile, Some(LAN));
        assert!(long.total_seconds > 2.0 * predict(&plan, &profile, Some(LAN)).total_seconds);
    }

    #[test]
    fn the_levels_of_a_scan_add_up_to_its_stage() {
        for length in [128, 512] {
            let plan = plan(length);
            let scans = plan
                .stages()
                .iter()
                .filter(|s| s.kind == StageKind::ScanContract);
            for s in scans {
                let all = scan_levels(&plan, s);
                assert_eq!(all.iter().map(|(_, he)| *he).sum::<HeCounts>(), s.cost.he);
                assert!(all.windows(2).all(|w| w[0].0 > w[1].0));
                assert_eq!(all[0].0, plan.chain(Ring::Scan).top_level());
            }
        }
    }

    #[test]
    fn a_machine_twice_as_fast_takes_half_the_processor_time() {
        let plan = plan(128);
        let mut fast = shipped();
        for c in &mut fast.ckks {
            for v in [
                &mut c.rotate,
                &mut c.rotate_hoisted,
                &mut c.conjugate,
                &mut c.mul_relin_rescale,
                &mut c.mul_plain_accumulate,
                &mut c.rescale,
                &mut c.align,
                &mut c.encrypt_seeded,
                &mut c.expand,
                &mut c.export,
                &mut c.decode,
            ] {
                *v /= 2.0;
            }
        }
        for p in fast.protocols.values_mut() {
            p.client_ns_per_element /= 2.0;
            p.server_ns_per_element /= 2.0;
        }
        let (a, b) = (
            predict(&plan, &shipped(), None),
            predict(&plan, &fast, None),
        );
        assert!((a.total_seconds / b.total_seconds - 2.0).abs() < 1e-9);
    }
}
