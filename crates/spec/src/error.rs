//! Errors of parameter literals and plain data.

use thiserror::Error;

/// What is wrong with a literal. Every variant names the field and the values.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The ring degree is outside the security table.
    #[error("ring degree 2^{log_n} is outside the security table; use 2^{min} to 2^{max}")]
    RingDegree {
        /// Asked-for exponent.
        log_n: u32,
        /// Smallest exponent.
        min: u32,
        /// Largest exponent.
        max: u32,
    },
    /// The modulus is too large for 128-bit security.
    #[error("log2(QP) = {have:.1} bits exceeds {max} bits, the 128-bit bound at ring degree 2^{log_n}; use fewer or smaller primes or a larger ring")]
    Insecure {
        /// Ring degree exponent.
        log_n: u32,
        /// Bits of the product of all primes.
        have: f64,
        /// The table's bound.
        max: u32,
    },
    /// A prime size that the arithmetic does not support.
    #[error("{field}[{index}] = {bits} bits; supported prime sizes are {min} to {max} bits: choose one of them")]
    PrimeBits {
        /// Name of the literal's field.
        field: &'static str,
        /// Position in the field.
        index: usize,
        /// Asked-for size.
        bits: u32,
        /// Smallest size.
        min: u32,
        /// Largest size.
        max: u32,
    },
    /// There are not enough primes of this size for this ring.
    #[error(
        "no unused prime of {bits} bits congruent to 1 modulo 2^{log_2n} is left; use another size"
    )]
    NoPrime {
        /// Size in bits.
        bits: u32,
        /// log2 of 2N.
        log_2n: u32,
    },
    /// A field outside its range.
    #[error("{field} = {value} is outside {min}..={max}; choose a value in that range")]
    Field {
        /// Name of the literal's field.
        field: &'static str,
        /// Given value.
        value: i64,
        /// Smallest allowed value.
        min: i64,
        /// Largest allowed value.
        max: i64,
    },
    /// The special primes are smaller than a key-switching digit, so key-switching noise would explode.
    #[error("special primes hold {have:.1} bits but digit {digit} of the chain holds {need:.1} bits; add special primes or digits (dnum = {dnum})")]
    SpecialPrimes {
        /// Bits of the product of special primes.
        have: f64,
        /// Bits of the largest digit.
        need: f64,
        /// Which digit.
        digit: usize,
        /// Number of digits.
        dnum: usize,
    },
    /// A level whose modulus cannot hold its scale.
    #[error(
        "the scale of level {level} is 2^{log_scale:.1}, outside 2^{min:.1} to 2^{max:.1}, N and half the modulus of that level; \
         in q_bits make the first primes larger than log_scale and the others of its size"
    )]
    LevelScale {
        /// The level.
        level: usize,
        /// log2 of its canonical scale.
        log_scale: f64,
        /// log2 of the smallest scale.
        min: f64,
        /// log2 of half the modulus.
        max: f64,
    },
    /// A shape that a layout or schedule cannot hold.
    #[error("{what}: {detail}")]
    Shape {
        /// Which object.
        what: &'static str,
        /// What does not fit, with the numbers.
        detail: String,
    },
    /// More multiplicative depth is needed than the chain has.
    #[error("{op} needs {need} levels but {have} are available; use a longer chain, a smaller block or another carry topology")]
    LevelExhausted {
        /// Operation.
        op: String,
        /// Levels needed.
        need: usize,
        /// Levels available.
        have: usize,
    },
}
