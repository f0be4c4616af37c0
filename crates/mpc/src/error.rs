//! Errors of the two-party layer.

use cipherloom_net::NetError;
use thiserror::Error;

/// What went wrong in a two-party operation. Messages never contain a share.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MpcError {
    /// Two operands (or an operand and a request) differ in length.
    #[error("{op}: lengths {left} and {right} do not fit together")]
    Length {
        /// Operation.
        op: &'static str,
        /// Left length.
        left: usize,
        /// Right length.
        right: usize,
    },
    /// Two operands differ in fraction bits.
    #[error("{op}: fraction bits {left} and {right} differ; raise or truncate one operand")]
    Frac {
        /// Operation.
        op: &'static str,
        /// Left fraction bits.
        left: u32,
        /// Right fraction bits.
        right: u32,
    },
    /// An index outside a vector.
    #[error("index {index} is outside a vector of {len} elements")]
    Index {
        /// The index.
        index: usize,
        /// The length.
        len: usize,
    },
    /// A format that a protocol does not support.
    #[error("{op}: {detail}")]
    Format {
        /// Operation.
        op: &'static str,
        /// What does not fit, with the numbers.
        detail: String,
    },
    /// Values known to one party were not given by it, or were given by the other one.
    #[error("{op}: the values must be given by their owner only")]
    Owner {
        /// Operation.
        op: &'static str,
    },
    /// The channel failed.
    #[error(transparent)]
    Net(#[from] NetError),
    /// A received object is malformed.
    #[error("{op}: malformed message: {detail}")]
    Malformed {
        /// Operation.
        op: &'static str,
        /// What is wrong, with the numbers.
        detail: String,
    },
    /// Ring arithmetic refused a parameter.
    #[error("{op}: {detail}")]
    Ring {
        /// Operation.
        op: &'static str,
        /// The ring's message.
        detail: String,
    },
}
