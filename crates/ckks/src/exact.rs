//! The product of a double and a scale, rounded once.

use cipherloom_spec::Scale;

/// The integer nearest to `value * scale`, ties to even, from the exact product of 53 and 128 bits.
///
/// For finite values whose product is below 2^126 in magnitude; others give unspecified integers. No branch
/// on the value.
pub(crate) fn scaled(value: f64, scale: Scale) -> i128 {
    let bits = value.to_bits();
    let biased = (bits >> 52) & 0x7ff;
    let significand = u128::from((bits & ((1 << 52) - 1)) | (u64::from(biased != 0) << 52));
    let exponent = biased.max(1) as i32 - 1075;
    let (mantissa, scale_exponent) = scale.parts();
    // The product is `top 2^64 + low`, 181 bits.
    let low = significand * (mantissa & u128::from(u64::MAX));
    let top = significand * (mantissa >> 64) + (low >> 64);
    let low = low & u128::from(u64::MAX);
    // It is shifted right by all bits after the binary point but one, the bit that decides the rounding. A product
    // below 2^126 has such bits: the mantissa alone has 128.
    let shift = (-1 - exponent - scale_exponent).clamp(0, 190) as u32;
    let (first, second) = (shift.min(64), shift.max(64) - 64);
    let twice = ((top << (64 - first)) | (low >> first)) >> second;
    let lost = (low & ((1 << first) - 1)) | (top & ((1 << second) - 1));
    let floor = twice >> 1;
    let up = (twice & 1) & (u128::from(lost != 0) | (floor & 1));
    let magnitude = (floor + up) as i128;
    let sign = -i128::from(bits >> 63);
    (magnitude ^ sign) - sign
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigInt;

    /// By big integers: numerator over a power of two, rounded.
    fn reference(value: f64, scale: Scale) -> BigInt {
        let bits = value.abs().to_bits();
        let (frac, biased) = (bits & ((1 << 52) - 1), (bits >> 52) as i64);
        let (m, e) = if biased == 0 {
            (frac, -1074)
        } else {
            (frac | 1 << 52, biased - 1075)
        };
        let (mant, exp) = scale.parts();
        let e = e + i64::from(exp);
        let product = BigInt::from(m) * BigInt::from(mant);
        let magnitude = if e >= 0 {
            product << e
        } else {
            let unit = BigInt::from(1) << -e;
            let (q, r) = (&product / &unit, &product % &unit);
            let odd = &q % 2 == BigInt::from(1);
            let twice: BigInt = r * 2;
            q + i32::from(twice > unit || (twice == unit && odd))
        };
        if value < 0.0 {
            -magnitude
        } else {
            magnitude
        }
    }

    #[test]
    fn the_product_is_rounded_once_to_the_nearest_integer() {
        let mut state = 3u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state ^ (state >> 29)
        };
        let mut above_53_bits = 0;
        for _ in 0..20_000 {
            let mant = (u128::from(next()) << 64 | u128::from(next())) | 1 << 127;
            let mant = if next() % 4 == 0 { 1 << 127 } else { mant };
            let value = f64::from_bits(next());
            if !value.is_finite() {
                continue;
            }
            // Products of every size from far below 1 to just below 2^126.
            let log = (next() % 250) as i32 - 125;
            let exp = log - 127 - value.abs().log2().floor().max(-1074.0) as i32;
            let Some(scale) = Scale::from_parts(mant, exp) else {
                continue;
            };
            let want = reference(value, scale);
            assert_eq!(
                BigInt::from(scaled(value, scale)),
                want,
                "{value} {scale:?}"
            );
            above_53_bits += usize::from(want.bits() > 53);
        }
        assert!(above_53_bits > 4000);
    }

    #[test]
    fn ties_zeros_and_tiny_values() {
        let one = Scale::pow2(0);
        for (value, want) in [
            (0.5, 0),
            (1.5, 2),
            (2.5, 2),
            (-0.5, 0),
            (-1.5, -2),
            (-3.5, -4),
            (0.5f64.next_up(), 1),
            (0.5f64.next_down(), 0),
            (0.0, 0),
            (-0.0, 0),
            (5e-324, 0),
        ] {
            assert_eq!(scaled(value, one), want, "{value}");
        }
        for e in [-19_000, -2000, 2000, 19_000] {
            assert_eq!(scaled(0.0, Scale::pow2(e)), 0);
        }
        assert_eq!(scaled(1.0, Scale::pow2(-19_000)), 0);
        assert_eq!(scaled(5e-324, Scale::pow2(1074)), 1);
        assert_eq!(scaled(-1.0, Scale::pow2(125)), -(1i128 << 125));
    }
}
