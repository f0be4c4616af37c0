//! Sines and cosines to 125 bits, by integer arithmetic only.
//!
//! Both parties must decode with the same precision on any machine, so nothing here uses a floating-point unit. An
//! angle is folded into `[0, pi/4]` by the symmetries of the circle and evaluated there by its Taylor series in nested
//! form: `cos x = 1 - x^2/2 (1 - x^2/12 (1 - x^2/30 (...)))`. Each step shrinks the error of the step before by
//! `x^2 / (k (k+1)) < 0.31`, so the series ends within two units of 2^-127.

use super::fixed::mul_wide;

/// `round(pi/4 * 2^128)`, rounded down.
const PI_OVER_4: u128 = 0xC90F_DAA2_2168_C234_C4C6_628B_80DC_1CD1;

/// Terms of the series: `(pi/4)^36 / 36!` is below 2^-150.
const TERMS: u32 = 18;

/// `1.0` with 127 fraction bits.
const ONE: u128 = 1 << 127;

/// `(cos, sin)` of `x / 2^128`, `x <= pi/4`, with 127 fraction bits.
fn series(x: u128) -> (u128, u128) {
    let x2 = mul_wide(x, x).0;
    let (mut c, mut s) = (ONE, ONE);
    for j in (1..=TERMS).rev() {
        let k = u128::from(2 * j);
        c = ONE - mul_wide(x2, c).0 / (k * (k - 1));
        s = ONE - mul_wide(x2, s).0 / (k * (k + 1));
    }
    (c, mul_wide(x, s).0)
}

/// Values `exp(i pi e / N)` for `e = 0 ..= N/4`, as `(cos, sin)` with 126 fraction bits.
pub(crate) struct Octant {
    log_n: u32,
    values: Vec<(i128, i128)>,
}

impl Octant {
    /// Table for `N = 2^log_n`, `log_n >= 2`: `N/4 + 1` entries of 32 bytes, about 0.4 us each.
    pub(crate) fn new(log_n: u32) -> Self {
        let quarter = 1usize << (log_n - 2);
        let half_up = |v: u128| ((v >> 1) + (v & 1)) as i128;
        let values = (0..=quarter)
            .map(|e| {
                let x = if e == quarter {
                    PI_OVER_4
                } else {
                    // e / quarter as a fraction of 2^128; e = 0 gives 0 and any shift is right.
                    mul_wide(PI_OVER_4, (e as u128) << (130 - log_n).min(127)).0
                };
                let (c, s) = series(x);
                (half_up(c), half_up(s))
            })
            .collect();
        Self { log_n, values }
    }

    /// `exp(i pi e / N)` for any `e` modulo `2N`.
    pub(crate) fn root(&self, e: usize) -> (i128, i128) {
        let n = 1usize << self.log_n;
        let e = e & (2 * n - 1);
        // Half turn, quarter turn, then the mirror at pi/4.
        let (half, e) = (e >= n, e & (n - 1));
        let (quarter, e) = (e >= n / 2, e & (n / 2 - 1));
        let (mut c, mut s) = if e <= n / 4 {
            self.values[e]
        } else {
            let (c, s) = self.values[n / 2 - e];
            (s, c)
        };
        if quarter {
            (c, s) = (-s, c);
        }
        if half {
            (c, s) = (-c, -s);
        }
        (c, s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::RefTrig;
    use num_bigint::BigInt;

    #[test]
    fn roots_agree_with_a_two_hundred_bit_reference() {
        // The reference halves the angle with integer square roots: another method, another precision.
        for log_n in [2u32, 3, 4, 8] {
            let table = Octant::new(log_n);
            let reference = RefTrig::new(log_n);
            let mut worst = BigInt::from(0);
            for e in 0..2usize << log_n {
                let (c, s) = table.root(e);
                let (rc, rs) = reference.root(e);
                for (got, want) in [(c, rc), (s, rs)] {
                    let got = BigInt::from(got) << (RefTrig::BITS - 126);
                    let err = if got > *want { got - want } else { want - got };
                    worst = worst.max(err);
                }
            }
            // Two units of 2^-126.
            assert!(
                worst <= BigInt::from(2) << (RefTrig::BITS - 126),
                "log_n={log_n}"
            );
        }
    }

    #[test]
    fn roots_of_a_large_ring_lie_on_the_circle_and_compose() {
        let log_n = 16;
        let table = Octant::new(log_n);
        let big = |v: i128| BigInt::from(v);
        for e in [
            1usize, 3, 12_345, 16_384, 16_385, 40_000, 65_535, 65_537, 131_071,
        ] {
            let (c, s) = table.root(e);
            let norm: BigInt = big(c) * big(c) + big(s) * big(s) - (BigInt::from(1) << 252usize);
            assert!(norm.magnitude().bits() <= 126 + 3, "e={e}");
            // exp(i e) exp(i) = exp(i (e+1)) ties neighbours, hence all angles, to exp(i).
            let (c1, s1) = table.root(1);
            let (c2, s2) = table.root(e + 1);
            let dc: BigInt = big(c) * big(c1) - big(s) * big(s1) - (big(c2) << 126usize);
            let ds: BigInt = big(c) * big(s1) + big(s) * big(c1) - (big(s2) << 126usize);
            assert!(dc.magnitude().bits() <= 126 + 3 && ds.magnitude().bits() <= 126 + 3);
        }
    }
}
