//! The failure budget: log2 probabilities of stages and of an inference (protocols.md R14).

use crate::stage::Stage;
use crate::{PlanError, Request};
use cipherloom_spec::chain::CkksChain;
use cipherloom_spec::cost::MpcCounts;
use cipherloom_spec::fixed::{DEFAULT_FRAC, EXTENDED_BITS};

/// Aim: a plan above it is not refused, but says so.
pub const AIM_LOG2: f64 = -30.0;
/// A plan above it is refused.
pub const LIMIT_LOG2: f64 = -20.0;
/// Spare bits on top of the largest calibrated range, for slots that nobody reads (the other lane of the scan, padding) and
/// for documents that leave the domain.
const SPARE_BITS: f64 = 4.0;

/// log2 bounds of what crosses between CKKS and shares, from the plan's ranges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Every slot at a boundary to shares, both lanes.
    pub slot: f64,
    /// Every value that enters CKKS from shares.
    pub value: f64,
}

impl Bounds {
    /// The bounds of a request: the largest range of any tensor that crosses. Normalised rows are at most `1.25 sqrt(width)`.
    #[must_use]
    pub fn of(r: &Request) -> Self {
        let mut most = 1.25 * (r.shape.hidden.max(r.shape.inner()) as f64).sqrt();
        for b in &r.blocks {
            let x = &b.ranges;
            for v in [
                x.conv_abs,
                x.gate_abs,
                x.step_abs,
                x.scan_abs,
                x.step_abs * x.conv_abs,
            ] {
                most = most.max(v);
            }
        }
        let most = most.max(r.pool.hidden_max).log2();
        Self {
            slot: most + SPARE_BITS,
            value: most + SPARE_BITS,
        }
    }
}

/// One exported coefficient of a product is read wrong with at most this log2 probability: `t = 2^44`, `q' = 2^115`, error
/// after the fresh zero below `2^9` (protocols.md R19).
pub const PRODUCT_COEFFICIENT_LOG2: f64 = 44.0 + 9.0 - 115.0;
/// Plaintext primes of a product, each a coefficient.
const PRODUCT_PRIMES: f64 = 3.0;
/// Slots of a product ciphertext: a batch is padded to whole ciphertexts.
const PRODUCT_SLOTS: f64 = 8192.0;

/// `log2(2^a + 2^b)`.
#[must_use]
pub fn log2_sum(a: f64, b: f64) -> f64 {
    let (hi, lo) = if a >= b { (a, b) } else { (b, a) };
    if lo == f64::NEG_INFINITY {
        hi
    } else {
        hi + (lo - hi).exp2().ln_1p() / std::f64::consts::LN_2
    }
}

/// Conversions of `count` ciphertexts to shares: `count sqrt(N) sqrt(2) Delta Bmax / q` (R15).
#[must_use]
pub fn to_shares(chain: &CkksChain, count: usize, bounds: Bounds) -> f64 {
    let base = chain.base_level();
    (count as f64).log2()
        + f64::from(chain.log_n()) / 2.0
        + 0.5
        + chain.scale(base).log2()
        + bounds.slot
        - chain.log_q(base)
}

/// Extension of `values` shares: `values |word| / 2^88`.
#[must_use]
pub fn to_ckks(values: usize, bounds: Bounds) -> f64 {
    (values as f64).log2() + bounds.value + f64::from(DEFAULT_FRAC.0) - f64::from(EXTENDED_BITS)
}

/// Products of a stage.
#[must_use]
pub fn products(c: &MpcCounts) -> f64 {
    let n = (c.products + c.squares + c.known_products) as f64;
    if n == 0.0 {
        return f64::NEG_INFINITY;
    }
    // Every batch may add one padded ciphertext; a stage has at most 32 batches.
    (PRODUCT_PRIMES * (n + 32.0 * PRODUCT_SLOTS)).log2() + PRODUCT_COEFFICIENT_LOG2
}

/// The inference: refuses above [`LIMIT_LOG2`], naming the worst stage.
///
/// # Errors
/// `Failure`.
pub fn total(stages: &[Stage], failures: &[f64]) -> Result<f64, PlanError> {
    let have = failures.iter().copied().fold(f64::NEG_INFINITY, log2_sum);
    if have > LIMIT_LOG2 {
        let worst = stages
            .iter()
            .zip(failures)
            .max_by(|a, b| a.1.total_cmp(b.1))
            .map_or_else(String::new, |(s, _)| s.name.clone());
        return Err(PlanError::Failure {
            have,
            limit: LIMIT_LOG2,
            stage: worst,
        });
    }
    Ok(have)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_add_up() {
        assert!((log2_sum(-30.0, -30.0) + 29.0).abs() < 1e-12);
        assert_eq!(log2_sum(-30.0, f64::NEG_INFINITY), -30.0);
        assert!(total(&[], &[-21.0, -21.0]).is_ok());
        assert!(matches!(
            total(&[], &[-20.0, -25.0]),
            Err(PlanError::Failure { .. })
        ));
    }
}
