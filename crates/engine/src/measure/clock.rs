//! Processor time of the calling thread.

use std::time::{Duration, Instant};

/// What Linux books for the calling thread: nanoseconds on a processor, nanoseconds waiting, time slices.
const SCHEDSTAT: &str = "/proc/thread-self/schedstat";
/// A running time slice is booked when the thread stops running, so it stops for a moment before each reading.
const PAUSE: Duration = Duration::from_micros(50);

/// Reads the processor time of the calling thread, or wall time where the system does not tell. All work that is timed must
/// be done by the thread that reads.
#[derive(Debug, Clone, Copy)]
pub struct ThreadClock {
    origin: Instant,
    processor: bool,
}

impl ThreadClock {
    /// The best clock that this system has.
    #[must_use]
    pub fn new() -> Self {
        Self {
            origin: Instant::now(),
            processor: booked().is_some(),
        }
    }

    /// What it reads, for people.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if self.processor {
            "processor time of one thread"
        } else {
            "wall time"
        }
    }

    /// Seconds so far; only differences mean anything.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        if !self.processor {
            return self.origin.elapsed().as_secs_f64();
        }
        std::thread::sleep(PAUSE);
        booked().unwrap_or(0.0) * 1e-9
    }
}

impl Default for ThreadClock {
    fn default() -> Self {
        Self::new()
    }
}

fn booked() -> Option<f64> {
    let text = std::fs::read_to_string(SCHEDSTAT).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// The middle one; of an even number the lower of both. Zero of none.
#[must_use]
pub(super) fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples
        .get(samples.len().saturating_sub(1) / 2)
        .copied()
        .unwrap_or(0.0)
}

/// Seconds of one call: the median of `repeats` samples, each of so many calls that it takes `at_least` seconds.
///
/// # Errors
/// Those of `f`.
pub(super) fn time<T, E>(
    clock: &ThreadClock,
    repeats: usize,
    at_least: f64,
    f: &mut dyn FnMut() -> Result<T, E>,
) -> Result<f64, E> {
    // Fills caches and tables, and tells how long a call takes.
    f()?;
    let start = clock.seconds();
    f()?;
    let once = (clock.seconds() - start).max(1e-7);
    let calls = (at_least / once).ceil().clamp(1.0, 10_000.0) as usize;
    let mut samples = Vec::with_capacity(repeats);
    for _ in 0..repeats.max(1) {
        let start = clock.seconds();
        for _ in 0..calls {
            f()?;
        }
        samples.push((clock.seconds() - start) / calls as f64);
    }
    // A clock without progress must not give a cost of zero.
    Ok(median(samples).max(1e-12))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time_and_sleep_does_not() {
        let clock = ThreadClock::new();
        let spin = || {
            let (start, mut x) = (Instant::now(), 1u64);
            while start.elapsed() < Duration::from_millis(40) {
                x = std::hint::black_box(x.wrapping_mul(3));
            }
        };
        let start = clock.seconds();
        spin();
        assert!(clock.seconds() > start);
        if clock.processor {
            let start = clock.seconds();
            std::thread::sleep(Duration::from_millis(100));
            assert!(clock.seconds() - start < 0.05);
        }
    }

    #[test]
    fn the_median_is_the_middle_sample() {
        assert_eq!(median(vec![3.0, 1.0, 100.0]), 3.0);
        assert_eq!(median(vec![4.0, 1.0]), 1.0);
        assert_eq!(median(Vec::new()), 0.0);
    }

    #[test]
    fn errors_end_a_measurement() {
        let mut calls = 0;
        let r = time(&ThreadClock::new(), 3, 0.0, &mut || {
            calls += 1;
            if calls == 3 {
                Err("third")
            } else {
                Ok(())
            }
        });
        assert_eq!((r, calls), (Err("third"), 3));
    }
}
