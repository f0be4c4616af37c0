//! Roots of unity as doubles, rounded correctly.
//!
//! The sine and cosine of the system's library differ between systems in the last place, and an angle that is a double is
//! off already. These come from sums of two doubles (Dekker 1971) and basic arithmetic, which is the same everywhere.

/// The unevaluated sum of a double and one that is at most half a unit in its last place: 106 bits.
#[derive(Clone, Copy)]
struct Pair(f64, f64);

const ONE: Pair = Pair(1.0, 0.0);
/// pi to 107 bits.
const PI: Pair = Pair(std::f64::consts::PI, 1.224_646_799_147_353_2e-16);
/// Steps of the series up to pi/4: the first term left out is below 2^-110.
const STEPS: u32 = 14;

/// `a + b` exactly, for `|a| >= |b|`.
fn fast_sum(a: f64, b: f64) -> Pair {
    let s = a + b;
    Pair(s, b - (s - a))
}

/// `a * b` exactly: the factors are cut in halves of 26 bits.
fn product(a: f64, b: f64) -> Pair {
    let halves = |x: f64| {
        let t = 134_217_729.0 * x;
        let high = t - (t - x);
        (high, x - high)
    };
    let p = a * b;
    let ((ah, al), (bh, bl)) = (halves(a), halves(b));
    Pair(p, ((ah * bh - p) + ah * bl + al * bh) + al * bl)
}

impl Pair {
    fn times(self, o: Self) -> Self {
        let Pair(p, e) = product(self.0, o.0);
        fast_sum(p, e + (self.0 * o.1 + self.1 * o.0))
    }

    /// Over a small integer.
    fn over(self, d: f64) -> Self {
        let q = self.0 / d;
        let Pair(p, e) = product(q, d);
        fast_sum(q, (((self.0 - p) - e) + self.1) / d)
    }

    fn plus(self, o: Self) -> Self {
        let s = self.0 + o.0;
        let b = s - self.0;
        let e = (self.0 - (s - b)) + (o.0 - b);
        fast_sum(s, e + (self.1 + o.1))
    }

    /// `1 - self` for `|self| < 1`.
    fn one_minus(self) -> Self {
        let Pair(s, e) = fast_sum(1.0, -self.0);
        fast_sum(s, e - self.1)
    }
}

/// `1 - x^2/(k+1)(k+2) (1 - x^2/(k+3)(k+4) (1 - ...))`: the cosine for k = 0, the sine over x for k = 1.
fn series(square: Pair, k: u32) -> Pair {
    (0..STEPS).rev().fold(ONE, |sum, i| {
        let k = f64::from(2 * i + k);
        sum.times(square).over((k + 1.0) * (k + 2.0)).one_minus()
    })
}

/// Cosine and sine of `2 pi k / order`, an angle up to pi/4.
fn by_series(order: usize, k: usize) -> [Pair; 2] {
    // Dividing by the order is exact.
    let Pair(p, e) = product(2.0 * PI.0, k as f64);
    let angle = fast_sum(p, e + 2.0 * PI.1 * k as f64);
    let scale = 1.0 / order as f64;
    let x = Pair(angle.0 * scale, angle.1 * scale);
    let square = x.times(x);
    [series(square, 0), series(square, 1).times(x)]
}

/// The powers of exp(2 pi i / order), for an order that is a power of two from 8.
pub(super) struct Roots {
    order: usize,
    /// Cosine and sine of the angles from 0 to pi/4.
    first: Vec<[f64; 2]>,
}

impl Roots {
    /// Cost: a complex product of pairs for each root up to pi/4.
    pub(super) fn new(order: usize) -> Self {
        let count = order / 8 + 1;
        // Every angle is a coarse one and a fine one.
        let step = 1 << (order.trailing_zeros() / 2 - 1);
        let fine: Vec<_> = (0..step).map(|k| by_series(order, k)).collect();
        let coarse = (0..count).step_by(step).map(|k| by_series(order, k));
        let mut first = Vec::with_capacity(count + step);
        for [c, s] in coarse {
            first.extend(fine.iter().map(|&[d, t]| {
                let (re, im) = (c.times(d), s.times(t));
                let (x, y) = (c.times(t), s.times(d));
                [re.plus(Pair(-im.0, -im.1)).0, x.plus(y).0]
            }));
        }
        first.truncate(count);
        Self { order, first }
    }

    /// Real and imaginary part of the power `e < order`.
    pub(super) fn power(&self, e: usize) -> [f64; 2] {
        let quarter = self.order / 4;
        let (turns, rest) = (e / quarter, e % quarter);
        let [c, s] = if rest <= quarter / 2 {
            self.first[rest]
        } else {
            let [s, c] = self.first[quarter - rest];
            [c, s]
        };
        match turns {
            0 => [c, s],
            1 => [-s, c],
            2 => [-c, -s],
            _ => [s, -c],
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use num_bigint::BigInt;

    const BITS: u32 = 220;

    /// A fixed-point number as the nearest double, by its decimal digits.
    fn rounded(x: &BigInt) -> f64 {
        let x: f64 = x.to_string().parse().unwrap();
        x * f64::from(BITS).exp2().recip()
    }

    /// In fixed point: the angle halved by square roots, then multiplied up.
    #[test]
    fn roots_are_the_nearest_doubles() {
        for order in [8usize, 16, 32, 1024, 1 << 13, 1 << 16] {
            let one = BigInt::from(1) << BITS;
            let (mut c, mut s) = (BigInt::from(0), one.clone());
            for _ in 2..order.trailing_zeros() {
                let squares = [&one + &c, &one - &c].map(|x: BigInt| (x << (BITS - 1)).sqrt());
                [c, s] = squares;
            }
            let roots = Roots::new(order);
            let (mut re, mut im) = (one.clone(), BigInt::from(0));
            for e in 0..order {
                let got = roots.power(e);
                let exact = [&re, &im].map(|x| {
                    // What is zero is not quite in fixed point.
                    if x.bits() < 64 {
                        0.0
                    } else {
                        rounded(x)
                    }
                });
                assert_eq!(got, exact, "{e} of {order}");
                (re, im) = ((&re * &c - &im * &s) >> BITS, (&re * &s + &im * &c) >> BITS);
            }
        }
    }
}
