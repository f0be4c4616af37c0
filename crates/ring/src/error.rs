//! The error type of this crate.

/// What can go wrong in ring arithmetic. Messages carry both sides of a mismatch and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// The modulus is out of the supported range.
    #[error("modulus {value} is not an odd number in [3, 2^50); choose a prime below 2^50")]
    ModulusRange {
        /// The rejected modulus.
        value: u64,
    },
    /// The modulus is composite.
    #[error("modulus {value} is not prime; generate NTT primes q = 1 mod 2N")]
    NotPrime {
        /// The rejected modulus.
        value: u64,
    },
    /// The prime does not support a negacyclic NTT of this length.
    #[error("prime {value} is not 1 mod 2N = {two_n}; choose q = 1 mod 2N")]
    NotNttPrime {
        /// The rejected prime.
        value: u64,
        /// Twice the ring degree.
        two_n: u64,
    },
    /// The ring degree is not a supported power of two.
    #[error("ring degree {n} is not a power of two in [16, 131072]")]
    Degree {
        /// The rejected degree.
        n: usize,
    },
    /// The same prime occurs twice in one basis.
    #[error("prime {value} occurs twice in one basis; residues need pairwise distinct primes")]
    RepeatedPrime {
        /// The repeated prime.
        value: u64,
    },
    /// A basis needs at least one prime.
    #[error("a basis needs at least one prime")]
    EmptyBasis,
    /// A limb index or limb count is out of range.
    #[error("limb count or index {got} is outside 0..={max}; check the level")]
    LimbRange {
        /// The requested count or index.
        got: usize,
        /// The largest admissible value.
        max: usize,
    },
    /// Two operands live over different bases.
    #[error(
        "basis mismatch: left has {left} limbs over N={left_n}, right has {right} limbs over N={right_n}, \
         first difference at limb {limb}; bring both operands to the same primes"
    )]
    BasisMismatch {
        /// Limbs of the left operand.
        left: usize,
        /// Degree of the left operand.
        left_n: usize,
        /// Limbs of the right operand.
        right: usize,
        /// Degree of the right operand.
        right_n: usize,
        /// First limb at which the primes differ.
        limb: usize,
    },
    /// A slice has the wrong length.
    #[error("{what}: got length {got}, expected {expected}")]
    Length {
        /// What was measured.
        what: &'static str,
        /// The length found.
        got: usize,
        /// The length needed.
        expected: usize,
    },
    /// A residue is not reduced. The value is not shown, it may be secret.
    #[error("residue at position {position} of limb {limb} is not below its modulus; reject the message")]
    NotReduced {
        /// Limb index.
        limb: usize,
        /// Coefficient index.
        position: usize,
    },
    /// A packed encoding sets bits behind its last residue.
    #[error("packed residues have nonzero padding bits; reject the message")]
    Padding,
    /// The Galois element is even or zero.
    #[error("Galois element {g} is not odd modulo 2N = {two_n}")]
    GaloisElement {
        /// The rejected element.
        g: u64,
        /// Twice the ring degree.
        two_n: u64,
    },
    /// The product of the primes is too large for the exact lift.
    #[error(
        "the basis has {bits} bits, the exact lift to i128 takes at most 126; drop limbs first"
    )]
    LiftTooWide {
        /// Bits of the product of the primes.
        bits: u32,
    },
    /// A value has no inverse.
    #[error("0 has no inverse modulo {modulus}")]
    NoInverse {
        /// The modulus.
        modulus: u64,
    },
    /// The requested SIMD backend is unknown or the processor does not have it.
    #[error("SIMD backend '{name}' is not available on this processor; use 'scalar' or 'auto'")]
    Backend {
        /// The requested backend.
        name: String,
    },
    /// The operating system gave no randomness.
    #[error("the operating system's random generator failed: {reason}")]
    Entropy {
        /// The system's message.
        reason: String,
    },
}
