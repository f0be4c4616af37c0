//! Progress on a terminal; nothing when the output is not one or JSON was asked for.

use cipherloom_engine::{Observer, StageReport};
use cipherloom_plan::Stage;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A spinner with the current step, then a bar over the stages.
pub struct Progress {
    bar: ProgressBar,
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
        Self { bar }
    }

    /// Says what is going on.
    pub fn say(&self, text: impl Into<String>) {
        self.bar.set_message(text.into());
    }

    /// Removes the bar.
    pub fn done(&self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Progress {
    fn phase(&mut self, name: &str) {
        self.say(match name {
            "setup" => "set-up: making and sending keys",
            "offline" => "offline: base OTs",
            _ => "online",
        });
    }

    fn stage(&mut self, stage: &Stage, index: usize, total: usize) {
        if index == 0 {
            self.bar.set_length(total as u64);
            if let Ok(style) = ProgressStyle::with_template(
                "[{elapsed}] {bar:30} {pos}/{len} eta {eta} {wide_msg}",
            ) {
                self.bar.set_style(style);
            }
        }
        self.bar.set_position(index as u64);
        self.say(format!("{} ({})", stage.name, stage.variant));
    }

    fn stage_done(&mut self, _: &StageReport) {
        self.bar.inc(1);
    }
}

impl Progress {
    /// Prints without disturbing the bar.
    pub fn suspend(&self, f: impl FnOnce()) {
        self.bar.suspend(f);
    }
}
