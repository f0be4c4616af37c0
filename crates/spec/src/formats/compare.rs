//! Format of a few-bit comparison.

/// Format of a few-bit comparison (protocols.md R16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompareFormat {
    /// Fraction bits kept, `g <= F`. Exact outside a band of half a unit of 2^-g around the threshold, a centred ramp inside.
    pub kept_frac: u32,
    /// Integer bits `r`: `|x - tau| < 2^r` for every threshold, spare bits included.
    pub int_bits: u32,
}
