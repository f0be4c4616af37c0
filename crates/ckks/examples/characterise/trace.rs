//! Level-by-level traces.

use std::time::{Duration, Instant};

use cipherloom_ckks::{Ciphertext, Evaluator};
use cipherloom_spec::cost::HeCounts;
use serde::Serialize;

/// One step of a circuit.
#[derive(Clone, Serialize)]
pub struct Step {
    pub name: String,
    /// Level before and after, on the path to the result.
    pub from: usize,
    pub to: usize,
    pub counts: HeCounts,
    pub ms: f64,
}

/// Collects steps: each from the end of the one before.
pub struct Tracer<'a> {
    ev: &'a Evaluator,
    steps: Vec<Step>,
    level: usize,
    counts: HeCounts,
    since: Instant,
}

impl<'a> Tracer<'a> {
    /// Starts at a level.
    pub fn new(ev: &'a Evaluator, level: usize) -> Self {
        Self {
            ev,
            steps: vec![],
            level,
            counts: ev.counts(),
            since: Instant::now(),
        }
    }

    /// Ends a step whose result is `ct`.
    pub fn step(&mut self, name: &str, ct: &Ciphertext) {
        let counts = self.ev.counts();
        self.steps.push(Step {
            name: name.into(),
            from: self.level,
            to: ct.level(),
            counts: counts.since(&self.counts),
            ms: self.since.elapsed().as_secs_f64() * 1e3,
        });
        (self.level, self.counts, self.since) = (ct.level(), counts, Instant::now());
    }

    /// Leaves this much out of the time of the next step.
    pub fn exclude(&mut self, time: Duration) {
        self.since += time;
    }

    /// The next step starts from `ct`, not from the last result; what was done to make it counts.
    pub fn rewind(&mut self, ct: &Ciphertext) {
        self.level = ct.level();
    }

    /// Steps so far.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// The steps.
    pub fn finish(self) -> Vec<Step> {
        self.steps
    }
}

/// Levels of all steps.
pub fn levels(steps: &[Step]) -> usize {
    steps.iter().map(|s| s.from - s.to).sum()
}

/// Counts of all steps.
pub fn counts(steps: &[Step]) -> HeCounts {
    steps.iter().map(|s| s.counts).sum()
}
