//! Counts for a Prometheus scraper. No label holds anything of a document, a client or an address.

use super::one::SessionResult;
use crate::keystore::KeyStore;
use crate::session::Observer;
use crate::StageReport;
use cipherloom_plan::Stage;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{exponential_buckets, Histogram};
use prometheus_client::registry::{Registry, Unit};
use std::sync::Arc;
use std::time::Instant;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failure {
    code: u32,
    kind: &'static str,
    stage: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Direction {
    direction: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageName {
    stage: String,
}

type Histograms = Family<StageName, Histogram, fn() -> Histogram>;

/// 10 ms to 11 minutes.
fn histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.01, 2.0, 17))
}

/// All counts of a service.
pub struct Metrics {
    registry: Registry,
    sessions: Family<Outcome, Counter>,
    running: Gauge,
    refusals: Family<Reason, Counter>,
    errors: Family<Failure, Counter>,
    bytes: Family<Direction, Counter>,
    stages: Histograms,
    store: Arc<dyn KeyStore>,
    stored_keys: Gauge,
    stored_bytes: Gauge,
    evicted: Gauge,
}

impl Metrics {
    /// All zero, for a server whose certificate ends at the given Unix time.
    #[must_use]
    pub fn new(store: Arc<dyn KeyStore>, certificate_end: i64) -> Self {
        let mut registry = Registry::with_prefix("cipherloom");
        let sessions = Family::<Outcome, Counter>::default();
        let running = Gauge::default();
        let refusals = Family::<Reason, Counter>::default();
        let errors = Family::<Failure, Counter>::default();
        let bytes = Family::<Direction, Counter>::default();
        let stages = Histograms::new_with_constructor(histogram);
        let [stored_keys, stored_bytes, evicted] = [(); 3].map(|()| Gauge::default());
        registry.register(
            "sessions",
            "Sessions that ended, by outcome",
            sessions.clone(),
        );
        registry.register("sessions_running", "Sessions that run", running.clone());
        registry.register(
            "refusals",
            "Connections that became no session",
            refusals.clone(),
        );
        registry.register("errors", "Failed sessions by code", errors.clone());
        registry.register_with_unit(
            "traffic",
            "Bytes of sessions, frame headers included",
            Unit::Bytes,
            bytes.clone(),
        );
        registry.register_with_unit(
            "stage",
            "Wall time of a stage; setup, offline and whole sessions too",
            Unit::Seconds,
            stages.clone(),
        );
        registry.register(
            "stored_keys",
            "Clients' keys in the store",
            stored_keys.clone(),
        );
        registry.register_with_unit(
            "stored_keys",
            "Size of the key store",
            Unit::Bytes,
            stored_bytes.clone(),
        );
        registry.register(
            "evicted_keys",
            "Keys that left the store for want of room",
            evicted.clone(),
        );
        let expiry: Gauge = Gauge::default();
        expiry.set(certificate_end);
        registry.register(
            "certificate_expiry_timestamp",
            "Unix time at which clients begin to refuse the certificate",
            expiry,
        );
        Self {
            registry,
            sessions,
            running,
            refusals,
            errors,
            bytes,
            stages,
            store,
            stored_keys,
            stored_bytes,
            evicted,
        }
    }

    /// The OpenMetrics text.
    #[must_use]
    pub fn text(&self) -> String {
        let usage = self.store.usage();
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.stored_keys.set(signed(usage.entries as u64));
        self.stored_bytes.set(signed(usage.bytes));
        self.evicted.set(signed(usage.evicted));
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut out, &self.registry);
        out
    }

    pub(super) fn refused(&self, reason: &'static str) {
        self.refusals.get_or_create(&Reason { reason }).inc();
    }

    fn seconds(&self, stage: &str, seconds: f64) {
        let stage = StageName {
            stage: stage.to_owned(),
        };
        self.stages.get_or_create(&stage).observe(seconds);
    }

    fn traffic(&self, direction: &'static str, bytes: u64) {
        let direction = Direction { direction };
        self.bytes.get_or_create(&direction).inc_by(bytes);
    }
}

/// Watches one session.
pub(super) struct Watch<'a> {
    metrics: &'a Metrics,
    session: u64,
    begin: Instant,
    phase: Instant,
    /// Current phase or stage.
    place: String,
    sent: u64,
    received: u64,
}

impl<'a> Watch<'a> {
    pub(super) fn begin(metrics: &'a Metrics, session: u64) -> Self {
        metrics.running.inc();
        Self {
            metrics,
            session,
            begin: Instant::now(),
            phase: Instant::now(),
            place: "setup".to_owned(),
            sent: 0,
            received: 0,
        }
    }

    /// Where the session is.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn end(self, result: &SessionResult) {
        let outcome = match result {
            SessionResult::Answered { .. } => {
                let seconds = self.begin.elapsed().as_secs_f64();
                self.metrics.seconds("session", seconds);
                "answered"
            }
            SessionResult::Failed {
                code, kind, stage, ..
            } => {
                let failure = Failure {
                    code: u32::from(*code),
                    kind,
                    stage: general(stage).to_owned(),
                };
                self.metrics.errors.get_or_create(&failure).inc();
                "failed"
            }
            SessionResult::Refused { .. } => "refused",
        };
        self.metrics
            .sessions
            .get_or_create(&Outcome { outcome })
            .inc();
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.metrics.running.dec();
    }
}

/// A stage's name without its layer, so that the number of series does not grow with the model.
fn general(stage: &str) -> &str {
    stage.rsplit('.').next().unwrap_or(stage)
}

impl Observer for Watch<'_> {
    fn phase(&mut self, name: &str) {
        tracing::debug!(session = self.session, phase = name, "phase");
        if name != "setup" {
            let seconds = self.phase.elapsed().as_secs_f64();
            self.metrics.seconds(&self.place, seconds);
        }
        self.phase = Instant::now();
        name.clone_into(&mut self.place);
    }

    fn stage(&mut self, stage: &Stage, _: usize, _: usize) {
        tracing::debug!(session = self.session, stage = stage.name, "stage");
        self.place.clone_from(&stage.name);
    }

    fn stage_done(&mut self, report: &StageReport) {
        self.metrics.seconds(general(&report.name), report.seconds);
    }

    fn warning(&mut self, text: &dyn std::fmt::Display) {
        tracing::warn!(session = self.session, "{text}");
    }

    fn traffic(&mut self, sent: u64, received: u64) {
        self.metrics.traffic("sent", sent - self.sent);
        self.metrics.traffic("received", received - self.received);
        (self.sent, self.received) = (sent, received);
    }
}
