//! Errors of formats.

use crate::approx::RmsTableError;
use thiserror::Error;

/// Why a format cannot be built. The numbers come from the plan.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// A public parameter is outside what the fixed-point graph supports.
    #[error("{what} = {value} is outside [{min}, {max}]; {remedy}")]
    Parameter {
        /// Name of the parameter.
        what: &'static str,
        /// Given value.
        value: f64,
        /// Smallest value accepted.
        min: f64,
        /// Largest value accepted.
        max: f64,
        /// What to change.
        remedy: &'static str,
    },
    /// A calibrated range is so wide that a word before a truncation would reach 2^62.
    #[error("{what}: the largest value {value:.4e} needs {bits} bits in the word, {max} are available; {remedy}")]
    Overflow {
        /// Which intermediate value.
        what: &'static str,
        /// Its largest value in the calibrated range.
        value: f64,
        /// Bits of the word, sign excluded.
        bits: i32,
        /// Bits that are available.
        max: i32,
        /// What to change.
        remedy: &'static str,
    },
    /// Two thresholds of one value are closer than the comparison can separate.
    #[error("{what}: thresholds {low} and {high} are not more than 2^-{kept_frac} apart; widen the range or keep more fraction bits")]
    Thresholds {
        /// Which function.
        what: &'static str,
        /// Lower threshold.
        low: f64,
        /// Upper threshold.
        high: f64,
        /// Fraction bits kept by the comparison.
        kept_frac: u32,
    },
    /// A polynomial of a degree for which there is no graph.
    #[error("{name}: degree {degree} has no graph; degrees 2, 4, 6 and 8 are supported")]
    Degree {
        /// Name of the approximation.
        name: &'static str,
        /// Its degree.
        degree: usize,
    },
    /// The table of a reciprocal square root cannot be built.
    #[error(transparent)]
    Table(#[from] RmsTableError),
}
