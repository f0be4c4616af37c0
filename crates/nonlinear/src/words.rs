//! Small helpers on words and formats. All local.

use crate::NonlinearError;
use cipherloom_mpc::{CompareFormat, Domain, Shares};
use cipherloom_spec::FracBits;

/// Bits of a word before a truncation, sign excluded: `|word| < 2^62`.
pub(crate) const WORD_BITS: i32 = 62;
/// Spare integer bits of every comparison (protocols.md R16, R20).
const SPARE_BITS: i32 = 2;
/// Widest comparison accepted here.
const MAX_COMPARE_BITS: i32 = 62;

/// Smallest `k` with `|v| < 2^k`, for a positive finite `v`.
///
/// Reads the exponent of the IEEE number, so both parties get the same result on every machine.
pub(crate) fn bits_above(v: f64) -> i32 {
    let e = ((v.abs().to_bits() >> 52) & 0x7ff) as i32 - 1023;
    e + 1
}

/// Smallest `k` with `v <= 2^k`.
pub(crate) fn ceil_log2(v: f64) -> i32 {
    let k = bits_above(v);
    if v == f64::from(k - 1).exp2() {
        k - 1
    } else {
        k
    }
}

/// A checked public parameter.
pub(crate) fn in_range(
    what: &'static str,
    value: f64,
    min: f64,
    max: f64,
    remedy: &'static str,
) -> Result<f64, NonlinearError> {
    if value >= min && value <= max {
        Ok(value)
    } else {
        Err(NonlinearError::Parameter {
            what,
            value,
            min,
            max,
            remedy,
        })
    }
}

/// Checks that values below `value` fit a word at `frac` fraction bits before a truncation.
pub(crate) fn fits(
    what: &'static str,
    value: f64,
    frac: u32,
    remedy: &'static str,
) -> Result<(), NonlinearError> {
    let bits = bits_above(value) + frac as i32;
    if bits > WORD_BITS {
        return Err(NonlinearError::Overflow {
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
pub(crate) fn compare_format(
    what: &'static str,
    distance: f64,
    kept_frac: u32,
) -> Result<CompareFormat, NonlinearError> {
    // Two spare bits leave a factor four, far more than the unit 2^-g that R16 asks for.
    let int_bits = (bits_above(distance) + SPARE_BITS).max(0);
    let bits = 1 + int_bits + kept_frac as i32;
    if bits > MAX_COMPARE_BITS {
        return Err(NonlinearError::Overflow {
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
pub(crate) fn check_thresholds(
    what: &'static str,
    thresholds: &[f64],
    kept_frac: u32,
) -> Result<(), NonlinearError> {
    let unit = (-f64::from(kept_frac)).exp2();
    for w in thresholds.windows(2) {
        if w[1] - w[0] <= unit || w[1].is_nan() || w[0].is_nan() {
            return Err(NonlinearError::Thresholds {
                what,
                low: w[0],
                high: w[1],
                kept_frac,
            });
        }
    }
    Ok(())
}

/// Product with a public word at `frac` fraction bits.
pub(crate) fn times_word(x: &Shares, word: u64, frac: FracBits) -> Shares {
    let mut y = x.times_int(word as i64);
    y.frac = FracBits(x.frac.0 + frac.0);
    y
}

/// Product with a public real that brings the fraction bits to `total`.
pub(crate) fn times_real(x: &Shares, c: f64, total: u32) -> Shares {
    x.times_const(c, FracBits(total.saturating_sub(x.frac.0)))
}

/// Truncation to `frac` fraction bits; one batch, none when nothing is to be cut.
pub(crate) fn truncate_to<D: Domain>(
    dom: &mut D,
    x: &Shares,
    frac: u32,
) -> Result<Shares, NonlinearError> {
    match x.frac.0.checked_sub(frac) {
        Some(0) => Ok(x.clone()),
        Some(bits) => Ok(dom.truncate(x, bits)?),
        None => Err(NonlinearError::Frac {
            op: "truncate",
            what: "operand",
            have: x.frac.0,
            need: frac,
        }),
    }
}

/// Checks length and fraction bits of an operand.
pub(crate) fn expect(
    op: &'static str,
    what: &'static str,
    x: &Shares,
    len: usize,
    frac: FracBits,
) -> Result<(), NonlinearError> {
    if x.len() != len {
        return Err(NonlinearError::Shape {
            op,
            what,
            have: x.len(),
            need: len,
        });
    }
    if x.frac != frac {
        return Err(NonlinearError::Frac {
            op,
            what,
            have: x.frac.0,
            need: frac.0,
        });
    }
    Ok(())
}

/// The product of two lengths, or an error instead of an overflow.
pub(crate) fn area(op: &'static str, dims: &[usize]) -> Result<usize, NonlinearError> {
    dims.iter()
        .try_fold(1usize, |a, &d| a.checked_mul(d))
        .ok_or(NonlinearError::Shape {
            op,
            what: "shape (its product overflows)",
            have: usize::MAX,
            need: 0,
        })
}

/// The known vector, checked, encoded at `frac`, as `rows` copies with every element repeated `each` times.
pub(crate) fn spread_known(
    op: &'static str,
    what: &'static str,
    known: Option<&[f64]>,
    len: usize,
    frac: FracBits,
    rows: usize,
    each: usize,
) -> Result<Option<Vec<u64>>, NonlinearError> {
    let Some(k) = known else { return Ok(None) };
    if k.len() != len {
        return Err(NonlinearError::Shape {
            op,
            what,
            have: k.len(),
            need: len,
        });
    }
    let one: Vec<u64> = k
        .iter()
        .flat_map(|&v| std::iter::repeat_n(frac.encode(v), each))
        .collect();
    Ok(Some(one.repeat(rows)))
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
