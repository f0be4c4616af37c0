//! Products of 128-bit fixed-point numbers, rounded to nearest.

/// Fraction bits of a twiddle factor: 1.0 is `2^126`.
pub(crate) const TWIDDLE_BITS: u32 = 126;

/// Full product: high and low half.
#[inline(always)]
pub(crate) fn mul_wide(a: u128, b: u128) -> (u128, u128) {
    let (a1, a0) = (a >> 64, a & u128::from(u64::MAX));
    let (b1, b0) = (b >> 64, b & u128::from(u64::MAX));
    let low = a0 * b0;
    let m1 = a1 * b0 + (low >> 64);
    let m2 = a0 * b1 + (m1 & u128::from(u64::MAX));
    let hi = a1 * b1 + (m1 >> 64) + (m2 >> 64);
    (hi, (m2 << 64) | (low & u128::from(u64::MAX)))
}

/// Full signed product: high half (signed) and low half. No branch.
#[inline(always)]
fn mul_wide_signed(a: i128, b: i128) -> (i128, u128) {
    let (hi, lo) = mul_wide(a as u128, b as u128);
    // Two's complement: a negative operand was read 2^128 too large.
    let hi = (hi as i128)
        .wrapping_sub((a >> 127) & b)
        .wrapping_sub((b >> 127) & a);
    (hi, lo)
}

/// `round(a * w / 2^126)` for `|a| < 2^126` and a twiddle component `|w| <= 2^126`. Error at most one half.
#[inline(always)]
pub(crate) fn mul_twiddle(a: i128, w: i128) -> i128 {
    let (hi, lo) = mul_wide_signed(a, w);
    let round = ((lo >> (TWIDDLE_BITS - 1)) & 1) as i128;
    ((hi << 2) | (lo >> TWIDDLE_BITS) as i128).wrapping_add(round)
}

/// `round(a * mant / 2^shift)`, halves upwards, modulo 2^128. The product is exact; the only error is the one rounding.
///
/// `shift >= 256` gives 0; a result outside `i128` wraps, so the caller bounds it from public sizes.
#[inline]
pub(crate) fn mul_round(a: i128, mant: u128, shift: u32) -> i128 {
    let (hi, lo) = mul_wide(a as u128, mant);
    let hi = (hi as i128).wrapping_sub((a >> 127) & mant as i128);
    match shift {
        0 => lo as i128,
        1..=127 => {
            let round = ((lo >> (shift - 1)) & 1) as i128;
            ((hi << (128 - shift)) | (lo >> shift) as i128).wrapping_add(round)
        }
        128 => hi.wrapping_add((lo >> 127) as i128),
        129..=255 => {
            let s = shift - 128;
            (hi >> s).wrapping_add((hi >> (s - 1)) & 1)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigInt;
    use proptest::prelude::*;

    fn rounded(v: BigInt, shift: u32) -> BigInt {
        // Floor of (v + half) / 2^shift.
        if shift == 0 {
            return v;
        }
        (v + (BigInt::from(1) << (shift - 1))) >> shift
    }

    proptest! {
        #[test]
        fn products_match_big_integers(a in any::<i128>(), b in any::<i128>(), m in any::<u128>(), shift in 128u32..256) {
            let a = a >> 2;
            let w = (b >> 1).clamp(-(1 << 126), 1 << 126);
            prop_assert_eq!(BigInt::from(mul_twiddle(a, w)), rounded(BigInt::from(a) * BigInt::from(w), TWIDDLE_BITS));
            prop_assert_eq!(BigInt::from(mul_round(a, m, shift)), rounded(BigInt::from(a) * BigInt::from(m), shift));
            // Small operands, small shifts.
            let (a, m) = (a >> 70, m >> 70);
            for s in [0, 1, 5, 63, 64, 100, 127] {
                prop_assert_eq!(BigInt::from(mul_round(a, m, s)), rounded(BigInt::from(a) * BigInt::from(m), s));
            }
        }
    }

    #[test]
    fn edges() {
        assert_eq!(mul_twiddle(-5, 1 << 126), -5);
        assert_eq!(mul_twiddle(-5, -(1 << 126)), 5);
        assert_eq!(mul_round(-1, u128::MAX, 128), -1);
        assert_eq!(mul_round(-1, u128::MAX, 300), 0);
    }
}
