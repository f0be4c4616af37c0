//! The error type of this crate.

use crate::params::ParamsDigest;
use cipherloom_ring::RingError;
use cipherloom_spec::{Scale, SpecError};

/// What can go wrong in CKKS. Messages carry both sides of a mismatch and the remedy.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CkksError {
    /// A parameter literal or chain was rejected.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Ring arithmetic rejected an operand.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The chain did not pass the security table.
    #[error(
        "the chain (N = 2^{log_n}, log2 QP = {log_qp:.1}) did not pass the security table; build it with \
         CkksLiteral::check"
    )]
    InsecureChain {
        /// log2 of the ring degree.
        log_n: u32,
        /// log2 of the product of all primes.
        log_qp: f64,
    },
    /// A level does not exist, or is above that of the operand.
    #[error("{op}: level {level} is outside 0..={max}; choose a level of the chain, not above the operand's")]
    LevelRange {
        /// Operation.
        op: &'static str,
        /// The level asked for.
        level: usize,
        /// The highest admissible level.
        max: usize,
    },
    /// Operands of different levels.
    #[error(
        "{op}: left is at level {left}, right at level {right}; drop or align the higher one first"
    )]
    LevelMismatch {
        /// Operation.
        op: &'static str,
        /// Level of the left operand.
        left: usize,
        /// Level of the right operand.
        right: usize,
    },
    /// Operands of different scales.
    #[error("{op}: left has scale {left}, right has scale {right}; rescale, align or encode at the other's scale first")]
    ScaleMismatch {
        /// Operation.
        op: &'static str,
        /// Scale of the left operand.
        left: Scale,
        /// Scale of the right operand.
        right: Scale,
    },
    /// The scale of a result leaves no room for its values.
    #[error(
        "{op}: a result of scale {scale} does not fit level {level}, whose modulus has {log_modulus:.1} bits: the scale must be \
         below half of it; rescale before, use a smaller scale, or work at a higher level"
    )]
    ScaleTooLarge {
        /// Operation.
        op: &'static str,
        /// Scale of the result.
        scale: Scale,
        /// Level of the result, before a rescale.
        level: usize,
        /// log2 of the modulus of that level.
        log_modulus: f64,
    },
    /// The scale of a result or of a constant is below what rounding adds.
    #[error(
        "{op}: the scale {scale} is below 2^{log_min}, and rounding would take the place of the values (level {level}); multiply \
         before the rescale, or use a larger scale"
    )]
    ScaleTooSmall {
        /// Operation.
        op: &'static str,
        /// Scale of the result, or of the constant.
        scale: Scale,
        /// Level of the result.
        level: usize,
        /// log2 of the smallest scale.
        log_min: u32,
    },
    /// No prime is left to rescale by.
    #[error(
        "{op}: a ciphertext at level {level} cannot be rescaled, the base level is {base}; \
         use a longer chain, or return to shares earlier"
    )]
    LevelExhausted {
        /// Operation.
        op: &'static str,
        /// Level of the operand.
        level: usize,
        /// Base level of the chain.
        base: usize,
    },
    /// The alignment constant would be too small to hold the scale.
    #[error(
        "align: the constant is 2^{log_constant:.1}, below 2^39, and would not hold the scale to 2^-40 \
         (ciphertext scale {scale}, target level {target}); rescale first"
    )]
    AlignPrecision {
        /// log2 of the constant.
        log_constant: f64,
        /// Scale of the ciphertext.
        scale: Scale,
        /// Target level.
        target: usize,
    },
    /// A ciphertext has the wrong number of parts.
    #[error("{op}: the ciphertext has {got} parts, needs {expected}; relinearize a degree-2 ciphertext first")]
    Parts {
        /// Operation.
        op: &'static str,
        /// Parts found.
        got: usize,
        /// Parts needed.
        expected: usize,
    },
    /// Objects of different parameter sets.
    #[error("{what}: parameter digest {got} differs from {expected}; both sides must use the same literal")]
    ParamsMismatch {
        /// What was checked.
        what: &'static str,
        /// Digest of the object.
        got: ParamsDigest,
        /// Digest of the parameters in use.
        expected: ParamsDigest,
    },
    /// Too many values for the slots.
    #[error("{got} values do not fit {slots} slots; split the vector")]
    TooManyValues {
        /// Values given.
        got: usize,
        /// Slots available.
        slots: usize,
    },
    /// A repeated vector must have a power-of-two length.
    #[error("a repeated vector needs a power-of-two length in 1..={slots}, got {got}; pad it")]
    Period {
        /// Values given.
        got: usize,
        /// Slots available.
        slots: usize,
    },
    /// A value to encode is infinite or not a number.
    #[error("value {index} is not finite; only finite values can be encoded")]
    NotFinite {
        /// Position in the input.
        index: usize,
    },
    /// The encoded polynomial does not fit.
    #[error(
        "the values need coefficients of 2^{log_coefficient:.1}, the limit at level {level} with scale {scale} is \
         2^{log_limit:.1}; lower the scale or the values, or use a higher level"
    )]
    ValueTooLarge {
        /// log2 of the largest coefficient, rounded up to a multiple of 8 bits.
        log_coefficient: f64,
        /// log2 of the limit: half the modulus, or the rounding range.
        log_limit: f64,
        /// Level of the plaintext.
        level: usize,
        /// Scale of the plaintext.
        scale: Scale,
    },
    /// An evaluation key is missing.
    #[error("no key for {operation} (Galois element {galois}); {held} keys are held: generate it from the plan's key list")]
    MissingKey {
        /// The operation, with the rotation amount.
        operation: String,
        /// The Galois element, 0 for relinearisation.
        galois: u64,
        /// How many keys are held.
        held: usize,
    },
    /// An evaluation key reaches only up to a lower level.
    #[error("the key for {operation} reaches level {have}, the ciphertext is at level {need}; drop the ciphertext or generate a longer key")]
    KeyLevel {
        /// The operation, with the rotation amount.
        operation: String,
        /// Highest level of the key.
        have: usize,
        /// Level needed.
        need: usize,
    },
    /// A sum needs at least one term.
    #[error("{op}: needs at least one term")]
    Empty {
        /// Operation.
        op: &'static str,
    },
    /// Two lists must have the same length.
    #[error("{op}: {left} left operands, {right} right operands; give one for each")]
    Count {
        /// Operation.
        op: &'static str,
        /// Length of the left list.
        left: usize,
        /// Length of the right list.
        right: usize,
    },
    /// The bytes do not start with the magic of this format.
    #[error("not a Cipherloom CKKS object: the magic bytes differ")]
    Magic,
    /// The format version is unknown.
    #[error("format version {got} is not supported, this build reads version {known}; use matching releases")]
    Version {
        /// Version found.
        got: u16,
        /// Version that this build reads.
        known: u16,
    },
    /// The object is of another kind.
    #[error("object kind {got} found, kind {expected} ({name}) expected")]
    Kind {
        /// Kind found.
        got: u16,
        /// Kind expected.
        expected: u16,
        /// Name of the expected kind.
        name: &'static str,
    },
    /// A length does not follow from the parameters.
    #[error("{what}: got {got} bytes, expected {expected}; reject the message")]
    Length {
        /// What was measured.
        what: &'static str,
        /// Bytes found.
        got: usize,
        /// Bytes needed.
        expected: usize,
    },
    /// A field of an encoding is out of range.
    #[error("field {field} has value {value}, allowed are {min}..={max}; reject the message")]
    Field {
        /// Field.
        field: &'static str,
        /// Value found.
        value: u64,
        /// Smallest allowed value.
        min: u64,
        /// Largest allowed value.
        max: u64,
    },
    /// A polynomial of this degree cannot be used here.
    #[error("a polynomial of degree {degree} is outside {min}..={max}; add a constant with add_constant, split a higher degree")]
    PolynomialDegree {
        /// Degree.
        degree: usize,
        /// Smallest allowed degree.
        min: usize,
        /// Largest allowed degree.
        max: usize,
    },
    /// An interval without an inside.
    #[error("the interval [{a}, {b}] is empty or not finite; give finite ends with a < b")]
    Interval {
        /// Left end.
        a: f64,
        /// Right end.
        b: f64,
    },
    /// A circuit needs more levels than there are.
    #[error(
        "{op}: needs {depth} levels, the ciphertext is at level {level} and the base level is {base}; use a longer \
         chain or a circuit of less depth"
    )]
    CircuitDepth {
        /// Circuit.
        op: &'static str,
        /// Levels needed.
        depth: usize,
        /// Level of the argument.
        level: usize,
        /// Base level of the chain.
        base: usize,
    },
    /// A dimension of a matrix does not fit.
    #[error("{what} is {got}, must be {rule} up to {max}; pad or split the matrix")]
    Matrix {
        /// What was measured.
        what: &'static str,
        /// Value found.
        got: usize,
        /// What it must be.
        rule: &'static str,
        /// Largest allowed value.
        max: usize,
    },
    /// The store of plaintexts failed.
    #[error("plaintext store: {action} failed: {detail}; check the file and its disk")]
    Store {
        /// What was tried.
        action: &'static str,
        /// The system's message.
        detail: String,
    },
    /// The scale in an encoding is not a normalised number.
    #[error("the scale in the encoding is not normalised; reject the message")]
    ScaleEncoding,
}
