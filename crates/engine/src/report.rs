//! What a run reports: per stage and in total, by both parties.

use cipherloom_plan::StageCost;
use serde::{Deserialize, Serialize};

/// One stage of a run, as one party saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageReport {
    /// Stage number in the plan.
    pub id: u16,
    /// Stage name.
    pub name: String,
    /// Algorithm variant.
    pub variant: String,
    /// Wall time at this party.
    pub seconds: f64,
    /// Processor time of this party's process during the stage, all threads.
    pub cpu_seconds: f64,
    /// What was executed and sent; homomorphic counts are the server's.
    pub cost: StageCost,
}

/// Wall times of an inference in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Seconds {
    /// Keys, once per client key.
    pub setup: f64,
    /// Input-independent work of one inference: base OTs and the first correlations.
    pub offline: f64,
    /// The stages.
    pub online: f64,
    /// All of it.
    pub total: f64,
}

/// A party's whole report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartyReport {
    /// `client` or `server`.
    pub party: String,
    /// Hash of the plan that was run.
    pub plan: String,
    /// Wall times.
    pub seconds: Seconds,
    /// Bytes of the set-up, both directions.
    pub setup_bytes: u64,
    /// Traffic of offline and online phases.
    pub traffic: cipherloom_spec::cost::Traffic,
    /// Per stage.
    pub stages: Vec<StageReport>,
    /// Largest resident set of this party's process.
    pub peak_rss_bytes: u64,
    /// Bytes of evaluation keys in memory (server) or sent (client).
    pub key_bytes: u64,
    /// Whether the server still had the client's keys, so that none were sent.
    pub keys_reused: bool,
}

/// The first stage in which two parties' reports, or a report and its plan, disagree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disagreement {
    /// Stage name.
    pub stage: String,
    /// Which number.
    pub field: &'static str,
    /// First value.
    pub left: u64,
    /// Second value.
    pub right: u64,
}

impl std::fmt::Display for Disagreement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "stage {}: {} is {} on one side and {} on the other",
            self.stage, self.field, self.left, self.right
        )
    }
}

/// Compares the bytes and flights of two lists of stages.
///
/// # Errors
/// The first disagreement.
pub fn same_traffic<'a>(
    left: impl Iterator<Item = (&'a str, &'a StageCost)>,
    right: impl Iterator<Item = (&'a str, &'a StageCost)>,
) -> Result<(), Disagreement> {
    for ((name, a), (_, b)) in left.zip(right) {
        for (field, left, right) in [
            (
                "client_to_server bytes",
                a.traffic.client_to_server,
                b.traffic.client_to_server,
            ),
            (
                "server_to_client bytes",
                a.traffic.server_to_client,
                b.traffic.server_to_client,
            ),
            ("flights", a.traffic.flights, b.traffic.flights),
        ] {
            if left != right {
                return Err(Disagreement {
                    stage: name.to_string(),
                    field,
                    left,
                    right,
                });
            }
        }
    }
    Ok(())
}

/// Largest resident set of this process so far, in bytes; zero where the system does not tell.
#[must_use]
pub fn peak_rss_bytes() -> u64 {
    let Ok(text) = std::fs::read_to_string("/proc/self/status") else {
        return 0;
    };
    text.lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .and_then(|v| v.trim().trim_end_matches("kB").trim().parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

/// Processor time of this process so far, user and system, all threads, in seconds; zero where the system does not tell.
#[must_use]
pub fn cpu_seconds() -> f64 {
    let Ok(text) = std::fs::read_to_string("/proc/self/stat") else {
        return 0.0;
    };
    // Fields 14 and 15 (utime, stime) counted after the command name, which may contain spaces. The unit is 1/100 s on Linux.
    let Some((_, rest)) = text.rsplit_once(')') else {
        return 0.0;
    };
    let mut it = rest.split_whitespace().skip(11);
    let mut next = || it.next().and_then(|v| v.parse::<f64>().ok()).unwrap_or(0.0);
    (next() + next()) / 100.0
}
