//! Errors of evaluation.

use cipherloom_mpc::MpcError;
use cipherloom_spec::formats::FormatError;
use thiserror::Error;

/// What went wrong. No message contains a share; the numbers come from the plan.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NonlinearError {
    /// A configuration made for another function.
    #[error("{op} was given the formats of {given}")]
    Kind {
        /// Function that was called.
        op: &'static str,
        /// Name of the approximation in the formats.
        given: &'static str,
    },
    /// A vector of the wrong length.
    #[error("{op}: {what} has {have} elements, the shape needs {need}")]
    Shape {
        /// Function that was called.
        op: &'static str,
        /// Which vector.
        what: &'static str,
        /// Elements given.
        have: usize,
        /// Elements needed.
        need: usize,
    },
    /// A vector with other fraction bits than the formats.
    #[error("{op}: {what} has {have} fraction bits, the formats need {need}; truncate or raise it first")]
    Frac {
        /// Function that was called.
        op: &'static str,
        /// Which vector.
        what: &'static str,
        /// Fraction bits given.
        have: u32,
        /// Fraction bits needed.
        need: u32,
    },
    /// A domain returned another number of results than asked for.
    #[error("{op}: the domain returned {have} results for {need} requests")]
    Results {
        /// Function that was called.
        op: &'static str,
        /// Results given.
        have: usize,
        /// Results needed.
        need: usize,
    },
    /// A format that cannot be built.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A two-party operation failed.
    #[error(transparent)]
    Mpc(#[from] MpcError),
}
