//! Small helpers on words and formats.

use super::{CompareFormat, FormatError};

/// Bits of a word before a truncation, sign excluded: `|word| < 2^62`.
pub(super) const WORD_BITS: i32 = 62;
/// Spare integer bits of every comparison (protocols.md R16, R20).
pub(super) const SPARE_BITS: i32 = 2;
/// Widest comparison accepted here.
const MAX_COMPARE_BITS: i32 = 62;

/// Smallest `k` with `|v| < 2^k`, for a positive finite `v`.
///
/// Reads the exponent of the IEEE number, so both parties get the same result on every machine.
pub(super) fn bits_above(v: f64) -> i32 {
    let e = ((v.abs().to_bits() >> 52) & 0x7ff) as i32 - 1023;
    e + 1
}

/// Smallest `k` with `v <= 2^k`.
pub(super) fn ceil_log2(v: f64) -> i32 {
    let k = bits_above(v);
    if v == f64::from(k - 1).exp2() {
        k - 1
    } else {
        k
    }
}

/// A checked public parameter.
pub(super) fn in_range(
    what: &'static str,
    value: f64,
    min: f64,
    max: f64,
    remedy: &'static str,
) -> Result<f64, FormatError> {
    if value >= min && value <= max {
        Ok(value)
    } else {
        Err(FormatError::Parameter {
            what,
            value,
            min,
            max,
            remedy,
        })
    }
}

/// Checks that values below `value` fit a word at `frac` fraction bits before a truncation.
pub(super) fn fits(
    what: &'static str,
    value: f64,
    frac: u32,
    remedy: &'static str,
) -> Result<(), FormatError> {
    let bits = bits_above(value) + frac as i32;
    if bits > WORD_BITS {
        return Err(FormatError::Overflow {
            what,
            value,
            bits,
            max: WORD_BITS,
            remedy,
        });
    }
    Ok(())
}

/// Format of comparisons with thresholds that are all closer than `distance` to the value.
pub(super) fn compare_format(
    what: &'static str,
    distance: f64,
    kept_frac: u32,
) -> Result<CompareFormat, FormatError> {
    // Two spare bits leave a factor four, far more than the unit 2^-g that R16 asks for.
    let int_bits = (bits_above(distance) + SPARE_BITS).max(0);
    let bits = 1 + int_bits + kept_frac as i32;
    if bits > MAX_COMPARE_BITS {
        return Err(FormatError::Overflow {
            what,
            value: distance,
            bits,
            max: MAX_COMPARE_BITS,
            remedy: "narrow the calibrated range",
        });
    }
    Ok(CompareFormat {
        kept_frac,
        int_bits: int_bits as u32,
    })
}

/// Refuses thresholds (ascending) that are not more than `2^-kept_frac` apart.
pub(super) fn check_thresholds(
    what: &'static str,
    thresholds: &[f64],
    kept_frac: u32,
) -> Result<(), FormatError> {
    let unit = (-f64::from(kept_frac)).exp2();
    for w in thresholds.windows(2) {
        if w[1] - w[0] <= unit || w[1].is_nan() || w[0].is_nan() {
            return Err(FormatError::Thresholds {
                what,
                low: w[0],
                high: w[1],
                kept_frac,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_bounded_exactly() {
        for (v, above, ceil) in [
            (1.0, 1, 0),
            (0.75, 0, 0),
            (4.0, 3, 2),
            (4.5, 3, 3),
            (0.25, -1, -2),
        ] {
            assert_eq!(bits_above(v), above, "{v}");
            assert_eq!(ceil_log2(v), ceil, "{v}");
        }
    }

    #[test]
    fn close_thresholds_are_refused() {
        assert!(check_thresholds("t", &[0.0, 0.25], 3).is_ok());
        assert!(check_thresholds("t", &[0.0, 0.125], 3).is_err());
        assert!(check_thresholds("t", &[0.5, 0.0], 3).is_err());
    }
}
