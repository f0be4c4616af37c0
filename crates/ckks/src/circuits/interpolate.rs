//! Chebyshev interpolation.

use super::polynomial::{Polynomial, MAX_DEGREE};
use crate::complex::Complex64;
use crate::error::CkksError;

/// Coefficients this much below the largest one are rounding errors of the transform.
const NEGLIGIBLE: f64 = 4.0 * f64::EPSILON;
/// Points of the error grid for each coefficient.
const GRID: usize = 64;

/// A Chebyshev interpolant of a function with its error.
///
/// Error. Interpolation at the n + 1 zeros of `T_(n+1)` is within a factor `2 + (2/pi) ln(n + 1)` of the best polynomial
/// of degree n. With `a_k` the Chebyshev coefficients of f, the error is at most `2 sum over k > n of |a_k|`, for every x of
/// the interval; for f analytic in the ellipse with foci -1, 1 and semi-axes' sum r (after the affine map), bounded by M
/// there, at most `4 M r^-n / (r - 1)` (Trefethen 2013, Approximation Theory and Approximation Practice, theorems 4.2, 8.2
/// and 15.2).
#[derive(Clone, Debug, PartialEq)]
pub struct Interpolation {
    /// The interpolant.
    pub polynomial: Polynomial,
    /// Largest `|f - p|` over a grid of 64 (n + 1) + 1 points, ends included: a lower bound of the largest error, close to
    /// it for smooth f, as the error has about n + 2 extrema.
    pub max_error: f64,
    /// Where it was found.
    pub max_error_at: f64,
    /// `2 sum of |a_k|` for n < k < 4 (n + 1), the a_k from 4 (n + 1) samples: bounds the error up to the (for
    /// smooth f much smaller) tail beyond.
    pub tail: f64,
}

impl Interpolation {
    /// Interpolates `f` on [a, b] by a polynomial of this degree. Coefficients below 2^-50 of the largest are set
    /// to zero, so the interpolant of an even or odd function on a symmetric interval is even or odd; the errors
    /// are those of the result. Cost: about 70 (degree + 1) calls of `f`, O(degree^2) operations.
    ///
    /// # Errors
    /// `Interval`, `PolynomialDegree` above 4095, `NotFinite` where f is not finite.
    pub fn new(
        f: impl Fn(f64) -> f64,
        degree: usize,
        interval: [f64; 2],
    ) -> Result<Self, CkksError> {
        let max = MAX_DEGREE / 16;
        if degree > max {
            return Err(CkksError::PolynomialDegree {
                degree,
                min: 0,
                max,
            });
        }
        // Rejects a bad interval before any call of f.
        Polynomial::chebyshev(&[1.0], interval)?;
        let count = degree + 1;
        let mut coefficients = transform(&f, count, interval)?;
        let largest = coefficients.iter().fold(0.0, |m: f64, c| m.max(c.abs()));
        for c in &mut coefficients {
            if c.abs() < NEGLIGIBLE * largest {
                *c = 0.0;
            }
        }
        let polynomial = Polynomial::chebyshev(&coefficients, interval)?;
        let tail = transform(&f, 4 * count, interval)?[count..]
            .iter()
            .map(|c| 2.0 * c.abs())
            .sum();
        let points = GRID * count;
        let (mut max_error, mut max_error_at) = (0.0, interval[0]);
        for i in 0..=points {
            let x = at(interval, 1.0 - 2.0 * i as f64 / points as f64);
            let e = (checked(f(x), i)? - polynomial.value_at(x.into()).re).abs();
            if e > max_error {
                (max_error, max_error_at) = (e, x);
            }
        }
        Ok(Self {
            polynomial,
            max_error,
            max_error_at,
            tail,
        })
    }
}

/// The point of [a, b] for u in [-1, 1]; the ends exactly.
fn at([a, b]: [f64; 2], u: f64) -> f64 {
    a * (0.5 * (1.0 - u)) + b * (0.5 * (1.0 + u))
}

fn checked(value: f64, index: usize) -> Result<f64, CkksError> {
    if value.is_finite() {
        Ok(value)
    } else {
        Err(CkksError::NotFinite { index })
    }
}

/// Coefficients of the interpolant at the `count` zeros of `T_count`: a discrete cosine transform.
fn transform(
    f: &impl Fn(f64) -> f64,
    count: usize,
    interval: [f64; 2],
) -> Result<Vec<f64>, CkksError> {
    let step = std::f64::consts::PI / (2 * count) as f64;
    let values = (0..count)
        .map(|j| checked(f(at(interval, ((2 * j + 1) as f64 * step).cos())), j))
        .collect::<Result<Vec<_>, _>>()?;
    // cos(k (2j + 1) pi / (2 count)) from one table of the full circle, indexed exactly.
    let circle: Vec<f64> = (0..4 * count)
        .map(|i| Complex64::cis(i as f64 * step).re)
        .collect();
    Ok((0..count)
        .map(|k| {
            let sum: f64 = values
                .iter()
                .enumerate()
                .map(|(j, v)| v * circle[k * (2 * j + 1) % (4 * count)])
                .sum();
            sum * if k == 0 { 1.0 } else { 2.0 } / count as f64
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polynomials_are_reproduced_and_parity_is_found() {
        // 4x^3 - 3x = T_3.
        let i = Interpolation::new(|x| 4.0 * x * x * x - 3.0 * x, 5, [-1.0, 1.0]).unwrap();
        assert_eq!(i.polynomial.degree(), 3);
        let c = i.polynomial.coefficients();
        assert!(c[0].re.abs() < 1e-14 && (c[3].re - 1.0).abs() < 1e-14);
        assert!(i.max_error < 1e-14 && i.tail < 1e-13);
        let odd = Interpolation::new(f64::tanh, 31, [-4.0, 4.0]).unwrap();
        assert!(odd
            .polynomial
            .coefficients()
            .iter()
            .step_by(2)
            .all(|c| c.re == 0.0));
    }

    #[test]
    fn the_error_is_that_of_the_theory() {
        // exp on [-1, 1], degree n: about 2^-n / (n + 1)!.
        for n in [3usize, 6, 9] {
            let i = Interpolation::new(f64::exp, n, [-1.0, 1.0]).unwrap();
            let factorial: f64 = (1..=n + 1).map(|k| k as f64).product();
            let theory = (-(n as f64)).exp2() / factorial;
            assert!(i.max_error > theory && i.max_error < 2.0 * theory, "{n}");
            assert!(i.tail >= i.max_error && i.tail < 3.0 * i.max_error);
        }
        // 1/(1 + 25 x^2): the ellipse through i/5 has r = (1 + sqrt(26))/5.
        let runge = |n| {
            Interpolation::new(|x| 1.0 / (1.0 + 25.0 * x * x), n, [-1.0, 1.0])
                .unwrap()
                .max_error
        };
        let rate = (runge(40) / runge(80)).powf(1.0 / 40.0);
        let r = (1.0 + 26f64.sqrt()) / 5.0;
        assert!((rate / r - 1.0).abs() < 0.01, "{rate} {r}");
    }

    #[test]
    fn a_pole_is_an_error() {
        assert!(matches!(
            Interpolation::new(|x| 1.0 / x, 4, [-1.0, 1.0]),
            Err(CkksError::NotFinite { .. })
        ));
        assert!(Interpolation::new(f64::exp, 4, [1.0, 1.0]).is_err());
        assert!(Interpolation::new(f64::exp, 5000, [0.0, 1.0]).is_err());
    }
}
