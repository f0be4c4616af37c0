//! This machine's primitive costs, measured with the code that sessions run.
//!
//! Times are processor times of one thread ([`clock`]), so other load on the machine matters little; medians of a few
//! samples. Bytes, flights and COTs are exact counts.

mod ckks;
pub mod clock;
mod protocols;

use crate::EngineError;
use cipherloom_mpc::MpcError;
use cipherloom_plan::profile::{CkksCosts, Machine, MachineProfile, FORMAT, VERSION};
use cipherloom_plan::rings::chain_for_depth;
use cipherloom_ring::{Modulus, NttTable, RingError, SecretPrg, SimdChoice};
use cipherloom_spec::primes::largest_below;
use clock::{time, ThreadClock};
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Most elements of a protocol measurement.
pub const MAX_ELEMENTS: usize = 1 << 20;

/// log2 of the degree of the yardstick's NTT.
const YARDSTICK_LOG_N: u32 = 14;

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasureOptions {
    /// Elements of each protocol call, rounded up to a multiple of 2048.
    pub elements: usize,
    /// Samples of which the median counts.
    pub repeats: usize,
    /// Least processor time of one sample of a CKKS operation, in seconds.
    pub sample_seconds: f64,
    /// CKKS rings: log2 of the degree, and the depth of the chain.
    pub rings: Vec<(u32, usize)>,
}

impl Default for MeasureOptions {
    /// The rings of the shipped model's plans: projections, and the scan at 128 and at 512 tokens.
    fn default() -> Self {
        Self {
            elements: 1 << 14,
            repeats: 3,
            sample_seconds: 0.01,
            rings: vec![(14, 2), (15, 12), (15, 14)],
        }
    }
}

/// Measures; `progress` hears what is being done.
///
/// # Errors
/// `Argument` for no or too many elements; parameters that the security table refuses; errors of the operations.
pub fn measure(
    options: &MeasureOptions,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<MachineProfile, EngineError> {
    if !(1..=MAX_ELEMENTS).contains(&options.elements) {
        return Err(EngineError::Measure {
            detail: format!("{} elements; use 1 to {MAX_ELEMENTS}", options.elements),
        });
    }
    let clock = ThreadClock::new();
    let pool = one_thread()?;
    let simd = SimdChoice::from_env().and_then(SimdChoice::backend);
    let simd = simd.map_err(ring_error)?.name();
    progress("one NTT");
    let yardstick_ns = pool.install(|| yardstick(&clock, options))? * 1e9;
    let mut ckks: Vec<CkksCosts> = Vec::new();
    for &(log_n, depth) in &options.rings {
        let chain = chain_for_depth(log_n, depth)?;
        let (top, base) = (chain.top_level(), chain.base_level());
        let mut levels = vec![top, (top + base).div_ceil(2), base + 1];
        levels.retain(|l| *l > base);
        levels.dedup();
        ckks.extend(
            pool.install(|| ckks::chain_costs(&chain, &levels, &clock, options, &mut *progress))?,
        );
    }
    let protocols = protocols::protocol_costs(&clock, options, progress)?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    Ok(MachineProfile {
        format: FORMAT.into(),
        version: VERSION,
        description: format!(
            "measured on a {cores}-core {} machine with {simd}",
            std::env::consts::ARCH
        ),
        machine: Machine {
            cores,
            simd: simd.into(),
            architecture: std::env::consts::ARCH.into(),
            clock: clock.name().into(),
        },
        yardstick_ns,
        ckks,
        protocols,
    })
}

/// Fresh randomness of the keys and shares of a measurement.
fn randomness() -> Result<SecretPrg, EngineError> {
    SecretPrg::from_os().map_err(|e| EngineError::Entropy(e.to_string()))
}

/// A pool in which everything runs on one thread, so that the thread's clock sees all of it.
fn one_thread() -> Result<ThreadPool, EngineError> {
    ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .map_err(|e| EngineError::Measure {
            detail: format!("no thread to measure on: {e}"),
        })
}

fn ring_error(e: RingError) -> EngineError {
    EngineError::Mpc(MpcError::Ring {
        op: "measurement",
        detail: e.to_string(),
    })
}

/// Seconds of one forward NTT.
fn yardstick(clock: &ThreadClock, options: &MeasureOptions) -> Result<f64, EngineError> {
    let prime =
        largest_below(50, YARDSTICK_LOG_N + 1, &[]).map_err(|e| EngineError::Plan(e.into()))?;
    let table = || {
        let backend = SimdChoice::from_env()?.backend()?;
        NttTable::new(1 << YARDSTICK_LOG_N, Modulus::new(prime)?, backend)
    };
    let table = table().map_err(ring_error)?;
    let mut a: Vec<u64> = (0..1u64 << YARDSTICK_LOG_N).collect();
    // Short, so more samples than the rest: one number stands for the machine.
    let repeats = 3 * options.repeats;
    time(clock, repeats, options.sample_seconds, &mut || {
        table.forward(&mut a)
    })
    .map_err(ring_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cipherloom_plan::profile::PROTOCOLS;

    fn tiny() -> MeasureOptions {
        MeasureOptions {
            elements: 1000,
            repeats: 1,
            sample_seconds: 0.0,
            rings: vec![(13, 1)],
        }
    }

    #[test]
    fn a_tiny_measurement_is_a_complete_profile_with_exact_counts() {
        let mut said = Vec::new();
        let p = measure(&tiny(), &mut |s| said.push(s.to_string())).unwrap();
        // Writing and reading checks every required key and number.
        let text = p.to_json().unwrap();
        assert_eq!(MachineProfile::from_json("t", text.as_bytes()).unwrap(), p);
        assert!(PROTOCOLS
            .iter()
            .all(|n| said.iter().any(|s| s.ends_with(n))));
        assert_eq!(
            p.ckks
                .iter()
                .map(|c| (c.log_n, c.limbs))
                .collect::<Vec<_>>(),
            [(13, 3)]
        );
        // One COT of k = 4 takes 31 bits; headers of the frames come on top.
        let refill = 31.0 / 8.0;
        let near = |name: &str, cots: f64, bits: f64| {
            let c = &p.protocols[name];
            assert_eq!(c.cots, cots, "{name}");
            let want = cots * refill + bits / 8.0;
            assert!(
                c.bytes_per_element >= want && c.bytes_per_element < want + 0.1,
                "{name}: {} bytes, {want} of payload",
                c.bytes_per_element
            );
        };
        near("cot_softspoken4", 1.0, 0.0);
        near("mux", 2.0, 2.0 * (1.0 + 64.0));
        near("b2a", 1.0, 1.0 + 64.0);
        near("truncate_known_sign", 1.0, 1.0 + 19.0);
        near("extend_64_88", 1.0, 1.0 + 24.0);
        // Upload, answer with choice bits, OT.
        assert_eq!(p.protocols["product"].flights, 3);
        assert_eq!(p.protocols["mux"].flights, 4);
        assert_eq!(p.protocols["b2a"].flights, 2);
        assert!(p.protocols["product"].bytes_per_element > p.protocols["square"].bytes_per_element);
    }

    #[test]
    fn element_counts_out_of_range_are_refused() {
        for elements in [0, MAX_ELEMENTS + 1] {
            let o = MeasureOptions { elements, ..tiny() };
            let e = measure(&o, &mut |_| {}).unwrap_err();
            assert!(e.to_string().contains(&elements.to_string()), "{e}");
        }
    }
}
