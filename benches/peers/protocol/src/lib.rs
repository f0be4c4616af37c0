//! The workers' side of the line protocol: one JSON request a line in, one JSON reply a line out.
//!
//! Requests: `{"cmd": "prepare", "point", "params"}`, `{"cmd": "check", "op"}`, `{"cmd": "time", "op", "repeats"}`,
//! `{"cmd": "quit"}`. A reply has `"ok"`; a failed one has `"error"`. Times are processor time of this process.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::time::Instant;

use rustix::time::{clock_gettime, ClockId};
use serde_json::{json, Value};

/// Any error; its text goes to the driver.
pub type Error = Box<dyn std::error::Error>;

/// Processor time of all threads of this process, in milliseconds.
#[must_use]
pub fn processor_ms() -> f64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as f64 * 1e3 + t.tv_nsec as f64 / 1e6
}

/// Deterministic reals in [-1, 1) from a linear congruential generator; the same in every worker.
#[must_use]
pub fn test_values(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03;
    (0..count)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        })
        .collect()
}

/// Largest absolute difference; infinite for different lengths or a NaN.
#[must_use]
pub fn max_error(got: &[f64], want: &[f64]) -> f64 {
    if got.len() != want.len() {
        return f64::INFINITY;
    }
    got.iter().zip(want).fold(0.0, |acc, (g, w)| {
        let d = (g - w).abs();
        if d.is_nan() {
            f64::INFINITY
        } else {
            d.max(acc)
        }
    })
}

/// An operation as the server of requests sees it.
trait Timed {
    fn check(&mut self) -> Result<Value, Error>;
    fn time(&mut self, repeats: usize) -> Result<Value, Error>;
}

struct Operation<R, E> {
    run: R,
    error: E,
    tolerance: f64,
    options: Options,
    checked: bool,
}

impl<R, E> Operation<R, E> {
    fn before(&mut self) {
        if let Some(before) = &mut self.options.before {
            before();
        }
    }
}

impl<T, R, E> Timed for Operation<R, E>
where
    R: FnMut() -> Result<T, Error>,
    E: FnMut(T) -> Result<f64, Error>,
{
    fn check(&mut self) -> Result<Value, Error> {
        self.before();
        let start = processor_ms();
        let result = (self.run)()?;
        let ms = (processor_ms() - start) / self.options.batch as f64;
        let error = (self.error)(result)?;
        if error.is_nan() || error > self.tolerance {
            return Err(format!(
                "wrong result: error {error:.3e} is above {:.3e}",
                self.tolerance
            )
            .into());
        }
        self.checked = true;
        let mut reply = json!({ "ms": ms, "max_error": error });
        if let Some(note) = self.options.note {
            reply["note"] = note.into();
        }
        Ok(reply)
    }

    fn time(&mut self, repeats: usize) -> Result<Value, Error> {
        if !self.checked {
            return Err("not checked: send check first".into());
        }
        let mut out = Vec::with_capacity(repeats);
        let wall = Instant::now();
        for _ in 0..repeats {
            self.before();
            let start = processor_ms();
            let result = (self.run)()?;
            out.push((processor_ms() - start) / self.options.batch as f64);
            drop(result);
        }
        Ok(
            json!({ "ms": out, "wall_ms": wall.elapsed().as_secs_f64() * 1e3 / self.options.batch as f64 }),
        )
    }
}

/// How an operation is run.
pub struct Options {
    /// How often one run does the operation; times are divided by it.
    pub batch: usize,
    /// A note for the row.
    pub note: Option<&'static str>,
    /// Work before each run that is not timed.
    pub before: Option<Box<dyn FnMut()>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            batch: 1,
            note: None,
            before: None,
        }
    }
}

impl Options {
    /// One run does the operation `batch` times.
    #[must_use]
    pub fn batch(batch: usize) -> Self {
        Self {
            batch,
            ..Self::default()
        }
    }
}

/// The operations of one prepared point.
#[derive(Default)]
pub struct Operations(BTreeMap<&'static str, Box<dyn Timed>>);

impl Operations {
    /// No operations.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an operation: `run` does it once and is timed, `error` says how wrong a result is.
    pub fn add<T: 'static>(
        &mut self,
        name: &'static str,
        tolerance: f64,
        run: impl FnMut() -> Result<T, Error> + 'static,
        error: impl FnMut(T) -> Result<f64, Error> + 'static,
    ) {
        self.add_with(name, tolerance, Options::default(), run, error);
    }

    /// As [`Operations::add`], with options.
    pub fn add_with<T: 'static>(
        &mut self,
        name: &'static str,
        tolerance: f64,
        options: Options,
        run: impl FnMut() -> Result<T, Error> + 'static,
        error: impl FnMut(T) -> Result<f64, Error> + 'static,
    ) {
        let operation = Operation {
            run,
            error,
            tolerance,
            options,
            checked: false,
        };
        self.0.insert(name, Box::new(operation));
    }
}

/// Serves requests until `quit` or the end of input. `prepare` returns facts about the point and its operations.
///
/// # Errors
/// Those of standard input and output.
pub fn serve(
    mut prepare: impl FnMut(&Value) -> Result<(Value, Operations), Error>,
) -> std::io::Result<()> {
    let mut operations = Operations::new();
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let reply = match serde_json::from_str::<Value>(&line) {
            Ok(request) if request["cmd"] == "quit" => break,
            Ok(request) => answer(&request, &mut operations, &mut prepare),
            Err(e) => Err(e.into()),
        };
        let reply = match reply {
            Ok(mut reply) => {
                reply["ok"] = true.into();
                reply
            }
            Err(e) => json!({ "ok": false, "error": e.to_string() }),
        };
        writeln!(out, "{reply}")?;
        out.flush()?;
    }
    Ok(())
}

fn answer(
    request: &Value,
    operations: &mut Operations,
    prepare: &mut impl FnMut(&Value) -> Result<(Value, Operations), Error>,
) -> Result<Value, Error> {
    match request["cmd"].as_str() {
        Some("prepare") => {
            // The last point's memory goes before the next one's comes.
            *operations = Operations::new();
            let (info, new) = prepare(&request["params"])?;
            *operations = new;
            let names: Vec<_> = operations.0.keys().collect();
            Ok(json!({ "info": info, "ops": names }))
        }
        Some(cmd @ ("check" | "time")) => {
            let name = request["op"].as_str().unwrap_or_default();
            let operation = operations
                .0
                .get_mut(name)
                .ok_or_else(|| format!("no operation {name:?} at this point"))?;
            if cmd == "check" {
                operation.check()
            } else {
                operation.time(request["repeats"].as_u64().unwrap_or(1) as usize)
            }
        }
        _ => Err(format!("no such request: {request}").into()),
    }
}
