//! Progress on a terminal; nothing when the output is not one or JSON was asked for.

use crate::commands::measure::load_profile;
use crate::format::bytes;
use cipherloom_engine::{Observer, StageReport};
use cipherloom_plan::predict::predict;
use cipherloom_plan::{Plan, Stage};
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A spinner with the current step, then a bar over the stages with the time that is left.
pub struct Progress {
    bar: ProgressBar,
    /// Predicted milliseconds until each stage begins, and the total at the end.
    until: Vec<u64>,
    current: String,
    traffic: String,
    keys: u64,
}

impl Progress {
    /// Visible unless `quiet`.
    #[must_use]
    pub fn new(quiet: bool) -> Self {
        let bar = if quiet {
            ProgressBar::hidden()
        } else {
            ProgressBar::new_spinner()
        };
        if let Ok(style) = ProgressStyle::with_template("{spinner} [{elapsed}] {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self {
            bar,
            until: Vec::new(),
            current: String::new(),
            traffic: String::new(),
            keys: 0,
        }
    }

    /// Weighs the bar by the stages' predicted times, so that it moves evenly. Without it every stage counts the same.
    pub fn expect(&mut self, plan: &Plan) {
        self.keys = plan.document().setup_bytes;
        // A damaged profile is the business of `plan`; here it only makes the bar uneven.
        let Ok(profile) = load_profile(None) else {
            return;
        };
        let mut sum = 0.0;
        self.until = vec![0];
        for s in predict(plan, &profile, None).stages {
            sum += 1000.0 * s.total_seconds;
            self.until.push(1 + sum as u64);
        }
    }

    /// Says what is going on.
    pub fn say(&self, text: impl Into<String>) {
        self.bar.set_message(text.into());
    }

    /// Removes the bar.
    pub fn done(&self) {
        self.bar.finish_and_clear();
    }

    /// Prints without disturbing the bar.
    pub fn suspend(&self, f: impl FnOnce()) {
        self.bar.suspend(f);
    }

    fn at(&self, stage: usize) -> u64 {
        self.until.get(stage).copied().unwrap_or(stage as u64)
    }

    fn show(&self) {
        self.say(format!("{}{}", self.current, self.traffic));
    }
}

impl Observer for Progress {
    fn phase(&mut self, name: &str) {
        self.current = match name {
            "connect" => "connecting".to_owned(),
            "setup" => format!("set-up: keys, {} once", bytes(self.keys)),
            "offline" => "offline: base OTs".to_owned(),
            _ => "online".to_owned(),
        };
        self.show();
    }

    fn stage(&mut self, stage: &Stage, index: usize, total: usize) {
        if index == 0 {
            self.bar.set_length(self.at(total));
            self.bar.reset_eta();
            let template = "[{elapsed}] {bar:30} {percent} % eta {eta} {wide_msg}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                self.bar.set_style(style);
            }
        }
        self.bar.set_position(self.at(index));
        self.current = format!("{}/{total} {} ({})", index + 1, stage.name, stage.variant);
        self.show();
    }

    fn stage_done(&mut self, _: &StageReport) {}

    fn traffic(&mut self, sent: u64, received: u64) {
        self.traffic = format!(", {} sent, {} received", bytes(sent), bytes(received));
        self.show();
    }
}
