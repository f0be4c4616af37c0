//! Arithmetic modulo one odd prime below 2^50.
//!
//! All values at the API boundary are fully reduced, in `[0, q)`. No function branches on a value.

use crate::error::RingError;

/// Bits of the largest supported prime. 4q < 2^52 leaves the two bits that lazy 52-bit
/// butterflies need.
pub const MAX_MODULUS_BITS: u32 = 50;

/// An odd prime `q < 2^50` with the constants for reduction without division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modulus {
    q: u64,
    /// floor(2^64 / q).
    one_quotient: u64,
    /// 2^64 mod q with its Shoup quotient.
    two64: Shoup,
    /// 2^52 mod q with its Shoup quotient.
    two52: Shoup,
}

/// A constant factor `value < q` with `quotient = floor(value * 2^64 / q)` (Shoup's trick):
/// multiplying by it costs two multiplications and one correction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Shoup {
    /// The factor, in `[0, q)`.
    pub value: u64,
    /// floor(value * 2^64 / q). The top 52 bits of a 2^52-based quotient are `quotient >> 12`.
    pub quotient: u64,
}

/// `x` if `x < m`, else `x - m`, without a branch. Needs `x < 2m` and `m < 2^63`.
#[inline(always)]
pub(crate) fn reduce_once(x: u64, m: u64) -> u64 {
    let y = x.wrapping_sub(m);
    // The sign of y is spread over the word: all ones if x < m.
    let mask = ((y as i64) >> 63) as u64;
    y.wrapping_add(m & mask)
}

#[inline(always)]
fn mul_high(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

impl Modulus {
    /// Checks that `q` is an odd prime below 2^50. Cost: a deterministic Miller-Rabin test.
    ///
    /// # Errors
    /// [`RingError::ModulusRange`] or [`RingError::NotPrime`].
    pub fn new(q: u64) -> Result<Self, RingError> {
        if q < 3 || q.is_multiple_of(2) || q >> MAX_MODULUS_BITS != 0 {
            return Err(RingError::ModulusRange { value: q });
        }
        if !is_prime(q) {
            return Err(RingError::NotPrime { value: q });
        }
        let one_quotient = ((1u128 << 64) / u128::from(q)) as u64;
        let power = |bits: u32| {
            let value = ((1u128 << bits) % u128::from(q)) as u64;
            Shoup {
                value,
                quotient: ((u128::from(value) << 64) / u128::from(q)) as u64,
            }
        };
        Ok(Self {
            q,
            one_quotient,
            two64: power(64),
            two52: power(52),
        })
    }

    /// The prime itself.
    #[inline(always)]
    pub fn value(&self) -> u64 {
        self.q
    }

    /// ceil(log2 q): bits of one packed residue.
    #[inline(always)]
    pub fn bits(&self) -> u32 {
        64 - self.q.leading_zeros()
    }

    /// floor(2^64 / q), the Shoup quotient of 1.
    #[inline(always)]
    pub fn one_quotient(&self) -> u64 {
        self.one_quotient
    }

    /// 2^52 mod q as a constant factor, for kernels on 52-bit words.
    #[inline(always)]
    pub fn two52(&self) -> Shoup {
        self.two52
    }

    /// Any `x` modulo q.
    #[inline(always)]
    pub fn reduce(&self, x: u64) -> u64 {
        let r = x.wrapping_sub(mul_high(x, self.one_quotient).wrapping_mul(self.q));
        reduce_once(r, self.q)
    }

    /// Any 128-bit `x` modulo q: the high word times 2^64 mod q, plus the low word.
    #[inline(always)]
    pub fn reduce_u128(&self, x: u128) -> u64 {
        let (hi, lo) = ((x >> 64) as u64, x as u64);
        let a = self.mul_shoup_lazy(hi, self.two64);
        let b = lo.wrapping_sub(mul_high(lo, self.one_quotient).wrapping_mul(self.q));
        reduce_once(reduce_once(a + b, self.q << 1), self.q)
    }

    /// A signed value modulo q, in `[0, q)`. Constant time.
    #[inline(always)]
    pub fn reduce_i64(&self, x: i64) -> u64 {
        let r = self.reduce(x.unsigned_abs());
        let mask = (x >> 63) as u64;
        self.negate_if(r, mask)
    }

    /// A signed 128-bit value modulo q, in `[0, q)`. Constant time.
    #[inline(always)]
    pub fn reduce_i128(&self, x: i128) -> u64 {
        let r = self.reduce_u128(x.unsigned_abs());
        let mask = (x >> 127) as u64;
        self.negate_if(r, mask)
    }

    /// `-r mod q` if `mask` is all ones, `r` if it is zero.
    #[inline(always)]
    fn negate_if(&self, r: u64, mask: u64) -> u64 {
        let n = self.neg(r);
        (n & mask) | (r & !mask)
    }

    /// `a + b mod q` for reduced operands.
    #[inline(always)]
    pub fn add(&self, a: u64, b: u64) -> u64 {
        reduce_once(a + b, self.q)
    }

    /// `a - b mod q` for reduced operands.
    #[inline(always)]
    pub fn sub(&self, a: u64, b: u64) -> u64 {
        let y = a.wrapping_sub(b);
        let mask = ((y as i64) >> 63) as u64;
        y.wrapping_add(self.q & mask)
    }

    /// `-a mod q` for a reduced operand.
    #[inline(always)]
    pub fn neg(&self, a: u64) -> u64 {
        self.sub(0, a)
    }

    /// `a * b mod q` for any operands.
    #[inline(always)]
    pub fn mul(&self, a: u64, b: u64) -> u64 {
        self.reduce_u128(u128::from(a) * u128::from(b))
    }

    /// `a * b + c mod q` for `a, b, c` whose product and sum fit 128 bits.
    #[inline(always)]
    pub fn mul_add(&self, a: u64, b: u64, c: u64) -> u64 {
        self.reduce_u128(u128::from(a) * u128::from(b) + u128::from(c))
    }

    /// `base^exp mod q`. Time depends on `exp`, which must be public.
    pub fn pow(&self, base: u64, mut exp: u64) -> u64 {
        let mut base = self.reduce(base);
        let mut acc = 1u64;
        while exp != 0 {
            if exp & 1 == 1 {
                acc = self.mul(acc, base);
            }
            base = self.mul(base, base);
            exp >>= 1;
        }
        acc
    }

    /// `a^-1 mod q`.
    ///
    /// # Errors
    /// [`RingError::NoInverse`] if `a = 0 mod q`.
    pub fn inv(&self, a: u64) -> Result<u64, RingError> {
        let a = self.reduce(a);
        if a == 0 {
            return Err(RingError::NoInverse { modulus: self.q });
        }
        // Fermat: a^(q-2); q is prime by construction.
        Ok(self.pow(a, self.q - 2))
    }

    /// Precomputes the constant factor `value mod q`.
    pub fn shoup(&self, value: u64) -> Shoup {
        let value = self.reduce(value);
        Shoup {
            value,
            quotient: ((u128::from(value) << 64) / u128::from(self.q)) as u64,
        }
    }

    /// `x * w mod q` for any `x`, result in `[0, 2q)`.
    #[inline(always)]
    pub fn mul_shoup_lazy(&self, x: u64, w: Shoup) -> u64 {
        x.wrapping_mul(w.value)
            .wrapping_sub(mul_high(x, w.quotient).wrapping_mul(self.q))
    }

    /// `x * w mod q` for any `x`.
    #[inline(always)]
    pub fn mul_shoup(&self, x: u64, w: Shoup) -> u64 {
        reduce_once(self.mul_shoup_lazy(x, w), self.q)
    }

    /// The representative of a reduced `x` in `(-q/2, q/2)`. Constant time.
    #[inline(always)]
    pub fn center(&self, x: u64) -> i64 {
        let half = self.q >> 1;
        // All ones if x > half.
        let mask = ((half.wrapping_sub(x) as i64) >> 63) as u64;
        (x.wrapping_sub(self.q & mask)) as i64
    }
}

/// Deterministic Miller-Rabin; these bases decide every number below 3.3 * 10^24
/// (Sorenson, Webster, 2015).
fn is_prime(n: u64) -> bool {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if n < 2 {
        return false;
    }
    for p in BASES {
        if n.is_multiple_of(p) {
            return n == p;
        }
    }
    let mul = |a: u64, b: u64| ((u128::from(a) * u128::from(b)) % u128::from(n)) as u64;
    let pow = |mut b: u64, mut e: u64| {
        let mut acc = 1;
        while e != 0 {
            if e & 1 == 1 {
                acc = mul(acc, b);
            }
            b = mul(b, b);
            e >>= 1;
        }
        acc
    };
    let s = (n - 1).trailing_zeros();
    let d = (n - 1) >> s;
    BASES.iter().all(|&a| {
        let mut x = pow(a, d);
        if x == 1 || x == n - 1 {
            return true;
        }
        for _ in 1..s {
            x = mul(x, x);
            if x == n - 1 {
                return true;
            }
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PRIMES: [u64; 5] = [
        3,
        97,
        1_099_511_480_321,
        1_125_899_904_679_937,
        1_125_899_906_842_597,
    ];

    #[test]
    fn rejects_bad_moduli() {
        assert!(matches!(
            Modulus::new(2),
            Err(RingError::ModulusRange { .. })
        ));
        assert!(matches!(
            Modulus::new(1 << 50),
            Err(RingError::ModulusRange { .. })
        ));
        assert!(matches!(
            Modulus::new((1 << 50) + 1),
            Err(RingError::ModulusRange { .. })
        ));
        assert!(matches!(Modulus::new(561), Err(RingError::NotPrime { .. })));
        // 2^50 - 27 is the largest prime below 2^50; 2^50 - 25 is composite.
        assert!(Modulus::new((1 << 50) - 27).is_ok());
        assert!(matches!(
            Modulus::new((1 << 50) - 25),
            Err(RingError::NotPrime { .. })
        ));
    }

    #[test]
    fn primality_agrees_with_trial_division() {
        for n in 0u64..5000 {
            let trial = n > 1
                && (2..n)
                    .take_while(|d| d * d <= n)
                    .all(|d| !n.is_multiple_of(d));
            assert_eq!(is_prime(n), trial, "{n}");
        }
    }

    fn primes() -> Vec<Modulus> {
        PRIMES
            .iter()
            .filter_map(|&q| Modulus::new(q).ok())
            .collect()
    }

    proptest! {
        #[test]
        fn agrees_with_u128_division(a: u64, b: u64, x: u128, s: i128) {
            for m in primes() {
                let q = u128::from(m.value());
                prop_assert_eq!(u128::from(m.reduce(a)), u128::from(a) % q);
                prop_assert_eq!(u128::from(m.reduce_u128(x)), x % q);
                prop_assert_eq!(u128::from(m.mul(a, b)), u128::from(a) * u128::from(b) % q);
                prop_assert_eq!(i128::from(m.reduce_i128(s)), s.rem_euclid(q as i128));
                prop_assert_eq!(i128::from(m.reduce_i64(a as i64)), i128::from(a as i64).rem_euclid(q as i128));
                let (ra, rb) = (m.reduce(a), m.reduce(b));
                prop_assert_eq!(u128::from(m.add(ra, rb)), (u128::from(ra) + u128::from(rb)) % q);
                prop_assert_eq!(u128::from(m.sub(ra, rb)), (u128::from(ra) + q - u128::from(rb)) % q);
                prop_assert_eq!(u128::from(m.mul_shoup(a, m.shoup(b))), u128::from(a) * u128::from(rb) % q);
                let c = m.center(ra);
                prop_assert!(2 * c.unsigned_abs() < m.value());
                prop_assert_eq!(m.reduce_i64(c), ra);
                if ra != 0 {
                    let inv = m.inv(ra).unwrap();
                    prop_assert_eq!(m.mul(inv, ra), 1);
                }
            }
        }
    }

    #[test]
    fn extremes_reduce() {
        for m in primes() {
            let q = u128::from(m.value());
            for x in [
                0,
                u128::MAX,
                u128::from(u64::MAX),
                q - 1,
                q,
                q * q - 1,
                (q - 1) * (q - 1),
            ] {
                assert_eq!(u128::from(m.reduce_u128(x)), x % q);
            }
            assert_eq!(
                m.reduce_i128(i128::MIN),
                (i128::MIN).rem_euclid(q as i128) as u64
            );
            assert!(matches!(m.inv(0), Err(RingError::NoInverse { .. })));
        }
    }
}
