//! Exact bookkeeping of CKKS scales.
//!
//! A scale is a product and quotient of primes, squared at every multiplication: as a rational number it
//! would double its size with every level. It is kept as a 128-bit floating-point number with
//! deterministic rounding instead: every operation has relative error at most 2^-127, so after a
//! thousand operations two ways of computing the same scale still agree to 2^-110, and two scales that
//! really differ (by one prime of 40 bits for another) differ by at least 2^-40. [`Scale::matches`] draws the line at
//! 2^-80. Both parties compute the same bits from the same plan.

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// A positive scale `mantissa * 2^exponent` with the top bit of the mantissa set.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scale {
    mant: u128,
    exp: i32,
}

/// Two scales are the same when they agree to this many bits.
const MATCH_BITS: u32 = 80;

impl Scale {
    /// `2^e`.
    #[must_use]
    pub const fn pow2(e: i32) -> Self {
        Self {
            mant: 1 << 127,
            exp: e - 127,
        }
    }

    /// An integer scale; `None` for zero.
    #[must_use]
    pub const fn from_u128(v: u128) -> Option<Self> {
        if v == 0 {
            return None;
        }
        let s = v.leading_zeros();
        Some(Self {
            mant: v << s,
            exp: -(s as i32),
        })
    }

    /// A prime as a scale.
    #[must_use]
    pub const fn prime(q: u64) -> Self {
        match Self::from_u128(q as u128) {
            Some(s) => s,
            None => Self::pow2(0),
        }
    }

    /// The mantissa (top bit set) and exponent: `mantissa * 2^exponent`.
    #[must_use]
    pub const fn parts(self) -> (u128, i32) {
        (self.mant, self.exp)
    }

    /// Rebuilds a scale from [`Scale::parts`]; `None` when the mantissa is not normalised or the exponent is absurd.
    #[must_use]
    pub const fn from_parts(mant: u128, exp: i32) -> Option<Self> {
        if mant >> 127 == 1 && exp > -20_000 && exp < 20_000 {
            Some(Self { mant, exp })
        } else {
            None
        }
    }

    /// Product, rounded to nearest.
    #[must_use]
    pub fn times(self, o: Self) -> Self {
        let (a1, a0) = (self.mant >> 64, self.mant & u128::from(u64::MAX));
        let (b1, b0) = (o.mant >> 64, o.mant & u128::from(u64::MAX));
        let low = a0 * b0;
        let m1 = a1 * b0 + (low >> 64);
        let m2 = a0 * b1 + (m1 & u128::from(u64::MAX));
        let hi = a1 * b1 + (m1 >> 64) + (m2 >> 64);
        let lo = (m2 << 64) | (low & u128::from(u64::MAX));
        let mut exp = self.exp + o.exp + 128;
        let (mut mant, round) = if hi >> 127 == 1 {
            (hi, lo >> 127 == 1)
        } else {
            exp -= 1;
            ((hi << 1) | (lo >> 127), (lo >> 126) & 1 == 1)
        };
        if round {
            match mant.checked_add(1) {
                Some(m) => mant = m,
                None => {
                    mant = 1 << 127;
                    exp += 1;
                }
            }
        }
        Self { mant, exp }
    }

    /// Quotient, truncated.
    #[must_use]
    pub fn over(self, o: Self) -> Self {
        // Long division of mant * 2^128 by o.mant, one bit at a time: the quotient has 128 or 129 bits.
        let mut rem = self.mant;
        let mut exp = self.exp - o.exp - 127;
        if rem < o.mant {
            exp -= 1;
        } else {
            rem -= o.mant;
            // The leading one is consumed here.
            let mut mant = 1u128;
            for _ in 0..127 {
                let top = rem >> 127 == 1;
                rem <<= 1;
                mant <<= 1;
                if top || rem >= o.mant {
                    rem = rem.wrapping_sub(o.mant);
                    mant |= 1;
                }
            }
            return Self { mant, exp };
        }
        let mut mant = 0u128;
        for _ in 0..128 {
            let top = rem >> 127 == 1;
            rem <<= 1;
            mant <<= 1;
            if top || rem >= o.mant {
                rem = rem.wrapping_sub(o.mant);
                mant |= 1;
            }
        }
        Self { mant, exp }
    }

    /// Scale after the product of two ciphertexts and a rescale by the prime `q`.
    #[must_use]
    pub fn rescaled(self, q: u64) -> Self {
        self.over(Self::prime(q))
    }

    /// Nearest `f64`.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        (self.mant >> 64) as f64 * f64::from(self.exp + 64).exp2()
            + (self.mant as u64) as f64 * f64::from(self.exp).exp2()
    }

    /// `log2` of the scale.
    #[must_use]
    pub fn log2(self) -> f64 {
        ((self.mant >> 64) as f64).log2() + f64::from(self.exp + 64)
    }

    /// Whether two scales are the same up to the rounding of their computation (relative 2^-80).
    #[must_use]
    pub fn matches(self, o: Self) -> bool {
        let (hi, lo) = if self.cmp(&o) == Ordering::Less {
            (o, self)
        } else {
            (self, o)
        };
        let d = hi.exp - lo.exp;
        let diff = match d {
            0 => hi.mant - lo.mant,
            // 1.000... against 0.111...: the difference of neighbours across a power of two.
            1 => match hi.mant.checked_mul(2) {
                Some(_) => return false,
                None => {
                    let top = hi.mant - (1 << 127);
                    let gap = u128::MAX - lo.mant + 1;
                    match top.checked_mul(2).and_then(|t| t.checked_add(gap)) {
                        Some(v) => v,
                        None => return false,
                    }
                }
            },
            _ => return false,
        };
        diff >> (127 - MATCH_BITS) == 0
    }
}

impl PartialOrd for Scale {
    fn partial_cmp(&self, o: &Self) -> Option<Ordering> {
        Some(self.cmp(o))
    }
}

impl Ord for Scale {
    fn cmp(&self, o: &Self) -> Ordering {
        self.exp.cmp(&o.exp).then(self.mant.cmp(&o.mant))
    }
}

impl fmt::Debug for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "2^{:.12}", self.log2())
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "2^{:.9}", self.log2())
    }
}

#[derive(Serialize, Deserialize)]
struct Wire {
    mantissa: String,
    exponent: i32,
}

impl Serialize for Scale {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        Wire {
            mantissa: format!("{:032x}", self.mant),
            exponent: self.exp,
        }
        .serialize(s)
    }
}

impl<'de> Deserialize<'de> for Scale {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let w = Wire::deserialize(d)?;
        let m = u128::from_str_radix(&w.mantissa, 16)
            .map_err(|e| D::Error::custom(format!("scale mantissa: {e}")))?;
        Self::from_parts(m, w.exponent).ok_or_else(|| D::Error::custom("scale is not normalised"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigUint;
    use proptest::prelude::*;

    fn big(s: Scale) -> BigUint {
        // value * 2^400, exact for the exponents used here
        let (m, e) = s.parts();
        BigUint::from(m) << usize::try_from(e + 400).unwrap()
    }

    proptest! {
        #[test]
        fn products_and_quotients_agree_with_big_integers(a in 1u128.., b in 1u128..) {
            let (x, y) = (Scale::from_u128(a).unwrap(), Scale::from_u128(b).unwrap());
            let exact = (BigUint::from(a) * BigUint::from(b)) << 400usize;
            let got = big(x.times(y));
            let diff = if got > exact { &got - &exact } else { &exact - &got };
            prop_assert!(diff << 127usize <= exact);
            let q = big(x.over(y)) * BigUint::from(b);
            let exact = BigUint::from(a) << 400usize;
            let diff = if q > exact { &q - &exact } else { &exact - &q };
            prop_assert!(diff << 126usize <= exact);
            prop_assert!(x.times(y).over(y).matches(x));
        }
    }

    #[test]
    fn different_primes_do_not_match_and_rounding_does() {
        let s = Scale::pow2(40);
        let (q, r) = ((1u64 << 40) - 87, (1u64 << 40) + 15);
        let a = s.times(s).rescaled(q);
        assert!(!a.matches(s));
        assert!(!a.matches(s.times(s).rescaled(r)));
        assert!(a.times(Scale::prime(q)).over(s).matches(s));
        assert!(Scale::pow2(0).matches(Scale::from_parts(u128::MAX, -128).unwrap()));
        assert!(Scale::from_parts(u128::MAX, -128)
            .unwrap()
            .matches(Scale::pow2(0)));
        assert!(!Scale::pow2(0).matches(Scale::pow2(1)));
    }

    #[test]
    fn serialises_exactly() {
        let s = Scale::pow2(80).over(Scale::prime(1_099_511_480_321));
        let j = serde_json::to_string(&s).unwrap();
        assert_eq!(serde_json::from_str::<Scale>(&j).unwrap(), s);
        assert!(serde_json::from_str::<Scale>(r#"{"mantissa":"1","exponent":0}"#).is_err());
    }
}
