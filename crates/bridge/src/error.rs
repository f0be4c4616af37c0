//! Errors of the boundary between ciphertexts and shares.

use cipherloom_spec::Scale;
use thiserror::Error;

/// What went wrong at the boundary. Messages carry public numbers only, never a share.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BridgeError {
    /// The ring degree is out of range.
    #[error("ring degree 2^{log_n} is outside 2^{min}..=2^{max}")]
    RingDegree {
        /// The rejected log2 of the degree.
        log_n: u32,
        /// Smallest.
        min: u32,
        /// Largest.
        max: u32,
    },
    /// A vector or a batch has the wrong length.
    #[error("{what}: got {got}, expected {expected}")]
    Length {
        /// What was measured.
        what: &'static str,
        /// The length found.
        got: usize,
        /// The length needed.
        expected: usize,
    },
    /// A ciphertext's scale is not the boundary's.
    #[error("{op}: the ciphertext has scale {got}, the plan's boundary scale is {want}; rescale it to the level's canonical scale first")]
    ScaleMismatch {
        /// Operation.
        op: &'static str,
        /// Scale of the ciphertext.
        got: Scale,
        /// Scale of the plan.
        want: Scale,
    },
    /// A ciphertext is below the boundary level.
    #[error("{op}: the ciphertext is at level {got}, the boundary needs level {min} or more; plan one level less before it")]
    Level {
        /// Operation.
        op: &'static str,
        /// Level found.
        got: usize,
        /// Lowest admissible level.
        min: usize,
    },
    /// 128-bit fixed point has no room for values of this size.
    #[error("{op}: values of {bits} bits do not fit 128-bit fixed point, at most {max}; use a smaller boundary modulus or scale")]
    Headroom {
        /// Operation.
        op: &'static str,
        /// Bits needed.
        bits: i64,
        /// Bits available.
        max: i64,
    },
    /// An index map points outside its source.
    #[error("index {index} at slot {slot} is outside a vector of {len} values; use NO_VALUE for an empty slot")]
    Index {
        /// The slot.
        slot: usize,
        /// The index.
        index: u32,
        /// Length of the source.
        len: usize,
    },
    /// Two fixed-point formats differ.
    #[error("{op}: the values have {got} fraction bits, the boundary expects {want}; raise or truncate them first")]
    Frac {
        /// Operation.
        op: &'static str,
        /// Fraction bits found.
        got: u32,
        /// Fraction bits of the boundary.
        want: u32,
    },
    /// A CKKS operation refused.
    #[error(transparent)]
    Ckks(#[from] cipherloom_ckks::CkksError),
    /// A two-party operation or the channel failed.
    #[error(transparent)]
    Mpc(#[from] cipherloom_mpc::MpcError),
    /// Ring arithmetic refused.
    #[error(transparent)]
    Ring(#[from] cipherloom_ring::RingError),
}
