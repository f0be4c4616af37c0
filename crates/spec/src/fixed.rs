//! Fixed-point formats of shares.

use serde::{Deserialize, Serialize};

/// Number of fraction bits of a fixed-point tensor. A value `v` is stored as `round(v * 2^F)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FracBits(pub u32);

/// Fraction bits of every stored tensor by default (protocols.md R13).
pub const DEFAULT_FRAC: FracBits = FracBits(19);

/// Bits of the arithmetic ring of stored shares: `Z_2^64`, wrapping `u64`.
pub const SHARE_BITS: u32 = 64;

/// Bits of the ring that shares are extended to before they enter CKKS (protocols.md R14).
pub const EXTENDED_BITS: u32 = 88;

/// Fraction bits of the logits that the client receives (protocols.md R4).
pub const OUTPUT_FRAC: FracBits = FracBits(12);

/// Bits of the ring in which the logits are opened to the client (protocols.md R4).
pub const OUTPUT_BITS: u32 = 32;

impl FracBits {
    /// `2^F` as a float.
    #[must_use]
    pub fn unit(self) -> f64 {
        (self.0 as f64).exp2()
    }
    /// The two's complement word of `v`, rounded to nearest, wrapping modulo `2^64`.
    #[must_use]
    pub fn encode(self, v: f64) -> u64 {
        (v * self.unit()).round() as i64 as u64
    }
    /// The value of a word read as a signed number.
    #[must_use]
    pub fn decode(self, w: u64) -> f64 {
        w as i64 as f64 / self.unit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_to_the_nearest_unit() {
        let f = FracBits(19);
        for v in [-3.25, 0.0, 1.0 / 3.0, 255.999] {
            assert!((f.decode(f.encode(v)) - v).abs() <= 0.5 / f.unit());
        }
    }
}
