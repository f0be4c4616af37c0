//! The error type of this crate.

use cipherloom_ckks::CkksError;
use cipherloom_spec::SpecError;

/// What can go wrong in a kernel.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// A shape, schedule or depth that does not fit.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The CKKS evaluator refused an operation.
    #[error(transparent)]
    Ckks(CkksError),
    /// No level is left to rescale.
    #[error("{op}: a ciphertext at level {level} cannot be rescaled, the base level is {base}; use a longer chain")]
    LevelExhausted {
        /// Operation.
        op: &'static str,
        /// Level of the operand.
        level: usize,
        /// Base level of the chain.
        base: usize,
    },
    /// Two operands are at different levels where they must agree.
    #[error("{op}: the ciphertext is at level {left}, the other operand at level {right}; align the one or encode at the level of the other")]
    LevelMismatch {
        /// Operation.
        op: &'static str,
        /// Level of the ciphertext.
        left: usize,
        /// Level of the other operand.
        right: usize,
    },
    /// A level cannot be raised.
    #[error("align: a ciphertext at level {level} cannot go up to level {target}; align to a level at or below its own")]
    AlignUp {
        /// Level of the ciphertext.
        level: usize,
        /// The level asked for.
        target: usize,
    },
    /// A vector does not have one value a slot.
    #[error("{op}: {got} values given for {slots} slots; give one value a slot")]
    Slots {
        /// Operation.
        op: &'static str,
        /// Values given.
        got: usize,
        /// Slots of the domain.
        slots: usize,
    },
    /// A plaintext that was encoded for a product is used in a sum, or the other way round.
    #[error("{op}: the plaintext was encoded for a {have}; encode it for a {want}")]
    PlainUse {
        /// Operation.
        op: &'static str,
        /// What it was encoded for.
        have: &'static str,
        /// What it is used for.
        want: &'static str,
    },
    /// A sum needs at least one term.
    #[error("{op}: needs at least one term")]
    Empty {
        /// Operation.
        op: &'static str,
    },
    /// A kernel was given another number of ciphertexts than its schedule has.
    #[error("{what}: {got} ciphertexts given, the schedule has {expected}")]
    Count {
        /// Which input.
        what: &'static str,
        /// Ciphertexts given.
        got: usize,
        /// Ciphertexts needed.
        expected: usize,
    },
    /// The order of a kernel's steps was violated.
    #[error("{op}: {detail}")]
    Order {
        /// Part of the kernel.
        op: &'static str,
        /// What was out of order.
        detail: &'static str,
    },
}

impl From<CkksError> for KernelError {
    fn from(e: CkksError) -> Self {
        match e {
            CkksError::LevelExhausted { op, level, base } => {
                Self::LevelExhausted { op, level, base }
            }
            CkksError::LevelMismatch { op, left, right } => Self::LevelMismatch { op, left, right },
            other => Self::Ckks(other),
        }
    }
}
