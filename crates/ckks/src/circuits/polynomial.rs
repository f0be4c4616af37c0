//! Polynomials of one variable, in the clear.

use cipherloom_spec::Scale;

use crate::ciphertext::Ciphertext;
use crate::complex::Complex64;
use crate::error::CkksError;
use crate::params::CkksParameters;

/// Largest degree: a depth of 16 levels.
pub(super) const MAX_DEGREE: usize = (1 << 16) - 1;

/// The functions that the coefficients belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolynomialBasis {
    /// `u^k`. Fit for low degrees: the coefficients of higher ones cancel.
    Monomial,
    /// The Chebyshev polynomials `T_k(u) = cos(k acos(u))`. Every power stays in [-1, 1] on the interval.
    Chebyshev,
}

/// What the ciphertext that a polynomial is evaluated on holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// `x`, at the canonical scale. The factor `2 / (b - a)` of the affine map costs nothing where it is an
    /// integer (so on [-1, 1]), else one product with a constant and one level.
    Raw,
    /// `2 x / (b - a)`, at the canonical scale: the factor was folded into an earlier plaintext product, or into the
    /// scale of the encryption ([`Polynomial::encryption_scale`]). The shift of the map is free.
    Mapped,
}

/// `sum of c_k f_k(u)` with `u = (2x - a - b) / (b - a)`: f_k are monomials or Chebyshev polynomials.
#[derive(Clone, Debug, PartialEq)]
pub struct Polynomial {
    basis: PolynomialBasis,
    coefficients: Vec<Complex64>,
    interval: [f64; 2],
}

impl Polynomial {
    /// A polynomial on the interval [a, b], coefficients from degree 0 up. Zeros at the top are cut off.
    /// Zero coefficients cost nothing: an even or odd polynomial has half the products with constants and fewer powers.
    ///
    /// # Errors
    /// `Empty` without coefficients, `NotFinite`, `Interval` unless a < b, `PolynomialDegree` above 65535.
    pub fn new(
        basis: PolynomialBasis,
        coefficients: &[Complex64],
        [a, b]: [f64; 2],
    ) -> Result<Self, CkksError> {
        if coefficients.is_empty() {
            return Err(CkksError::Empty { op: "polynomial" });
        }
        if let Some(index) = coefficients.iter().position(|c| !c.is_finite()) {
            return Err(CkksError::NotFinite { index });
        }
        // The width must be finite and its inverse too.
        let width = b - a;
        if !(a.is_finite() && b.is_finite() && a < b && width.is_finite() && width >= 1e-100) {
            return Err(CkksError::Interval { a, b });
        }
        let degree = degree(coefficients).unwrap_or(0);
        if degree > MAX_DEGREE {
            return Err(CkksError::PolynomialDegree {
                degree,
                min: 0,
                max: MAX_DEGREE,
            });
        }
        Ok(Self {
            basis,
            coefficients: coefficients[..=degree].to_vec(),
            interval: [a, b],
        })
    }

    /// `sum of c_k x^k` with real coefficients.
    ///
    /// # Errors
    /// As [`Polynomial::new`].
    pub fn monomial(coefficients: &[f64]) -> Result<Self, CkksError> {
        Self::new(
            PolynomialBasis::Monomial,
            &to_complex(coefficients),
            [-1.0, 1.0],
        )
    }

    /// `sum of c_k T_k(u)` on [a, b] with real coefficients.
    ///
    /// # Errors
    /// As [`Polynomial::new`].
    pub fn chebyshev(coefficients: &[f64], interval: [f64; 2]) -> Result<Self, CkksError> {
        Self::new(
            PolynomialBasis::Chebyshev,
            &to_complex(coefficients),
            interval,
        )
    }

    /// The basis.
    #[must_use]
    pub fn basis(&self) -> PolynomialBasis {
        self.basis
    }

    /// The coefficients, degree 0 first.
    #[must_use]
    pub fn coefficients(&self) -> &[Complex64] {
        &self.coefficients
    }

    /// The interval [a, b].
    #[must_use]
    pub fn interval(&self) -> [f64; 2] {
        self.interval
    }

    /// The degree; 0 for the zero polynomial.
    #[must_use]
    pub fn degree(&self) -> usize {
        self.coefficients.len() - 1
    }

    /// Levels from `T_1` to the result: `ceil(log2(degree + 1))`, without the affine map.
    #[must_use]
    pub fn depth(&self) -> usize {
        (usize::BITS - self.degree().leading_zeros()) as usize
    }

    /// The affine map `u = factor x + shift`.
    #[must_use]
    pub fn affine_map(&self) -> (f64, f64) {
        let [a, b] = self.interval;
        let width = b - a;
        // Exact for symmetric intervals, and free of overflow.
        (2.0 / width, -(a / width + b / width))
    }

    /// The scale at which to encrypt x at `level` so that the factor of the affine map costs nothing: factor times the
    /// canonical scale. Relabel the received ciphertext with [`Polynomial::fold_scale`].
    #[must_use]
    pub fn encryption_scale(&self, params: &CkksParameters, level: usize) -> Scale {
        params.scale(level).times(from_f64(self.affine_map().0))
    }

    /// Reads an encryption of x at [`Polynomial::encryption_scale`] as one of `factor x` at the canonical scale: the
    /// same polynomials under another label. Evaluate it as [`Argument::Mapped`].
    ///
    /// # Errors
    /// `ScaleMismatch` at any other scale, `ParamsMismatch`.
    pub fn fold_scale(
        &self,
        params: &CkksParameters,
        ct: &Ciphertext,
    ) -> Result<Ciphertext, CkksError> {
        params.check_digest("ciphertext", ct.digest())?;
        let want = self.encryption_scale(params, ct.level());
        if !ct.scale().matches(want) {
            return Err(CkksError::ScaleMismatch {
                op: "fold_scale",
                left: ct.scale(),
                right: want,
            });
        }
        Ciphertext::from_parts(params, ct.parts().to_vec(), params.scale(ct.level()))
    }

    /// The value at x, in double precision (Horner or Clenshaw).
    #[must_use]
    pub fn value_at(&self, x: Complex64) -> Complex64 {
        let (factor, shift) = self.affine_map();
        let u = x.scaled(factor) + shift.into();
        match self.basis {
            PolynomialBasis::Monomial => self
                .coefficients
                .iter()
                .rev()
                .fold(Complex64::ZERO, |acc, &c| acc * u + c),
            PolynomialBasis::Chebyshev => {
                let (mut b1, mut b2) = (Complex64::ZERO, Complex64::ZERO);
                for &c in self.coefficients.iter().skip(1).rev() {
                    (b1, b2) = ((u * b1).scaled(2.0) - b2 + c, b1);
                }
                u * b1 - b2 + self.coefficients[0]
            }
        }
    }
}

fn to_complex(values: &[f64]) -> Vec<Complex64> {
    values.iter().map(|&v| v.into()).collect()
}

/// Index of the last non-zero coefficient.
pub(super) fn degree(coefficients: &[Complex64]) -> Option<usize> {
    coefficients.iter().rposition(|&c| c != Complex64::ZERO)
}

/// A positive normal number as a scale, exactly.
fn from_f64(v: f64) -> Scale {
    let bits = v.to_bits();
    let mantissa = (bits & ((1 << 52) - 1)) | (1 << 52);
    let exponent = (bits >> 52) as i32 - 1075;
    Scale::prime(mantissa).times(Scale::pow2(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_becomes_a_scale_exactly() {
        for v in [0.125, 1.0, 1.0 / 3.0, 2.0 / 7.5, 1e20, 1e-20] {
            assert_eq!(from_f64(v).to_f64(), v);
        }
    }

    #[test]
    fn clenshaw_and_horner_agree_with_the_definition() {
        let c = [0.3, -0.5, 0.25, 1.5, -0.125];
        let p = Polynomial::chebyshev(&c, [-2.0, 6.0]).unwrap();
        let q = Polynomial::monomial(&c).unwrap();
        for i in 0..=16 {
            let x = -2.0 + 0.5 * f64::from(i);
            let u = (x - 2.0) / 4.0;
            let want: f64 = (0..5).map(|k| c[k] * (k as f64 * u.acos()).cos()).sum();
            assert!((p.value_at(x.into()).re - want).abs() < 1e-14);
            let want: f64 = (0..5).map(|k| c[k] * u.powi(k as i32)).sum();
            assert!((q.value_at(u.into()).re - want).abs() < 1e-14);
        }
    }

    #[test]
    fn depth_is_the_logarithm_of_the_number_of_coefficients() {
        for (degree, depth) in [
            (0, 0),
            (1, 1),
            (2, 2),
            (3, 2),
            (4, 3),
            (7, 3),
            (8, 4),
            (255, 8),
        ] {
            let p = Polynomial::monomial(&vec![1.0; degree + 1]).unwrap();
            assert_eq!(p.depth(), depth, "degree {degree}");
        }
    }

    #[test]
    fn bad_input_is_named() {
        let new = |c: &[f64], i| Polynomial::chebyshev(c, i).unwrap_err();
        assert!(matches!(new(&[], [0.0, 1.0]), CkksError::Empty { .. }));
        assert!(matches!(
            new(&[1.0, f64::NAN], [0.0, 1.0]),
            CkksError::NotFinite { index: 1 }
        ));
        for i in [
            [1.0, 1.0],
            [2.0, 1.0],
            [f64::NAN, 1.0],
            [0.0, f64::INFINITY],
            [-f64::MAX, f64::MAX],
        ] {
            assert!(matches!(new(&[1.0, 1.0], i), CkksError::Interval { .. }));
        }
        let trimmed = Polynomial::monomial(&[1.0, 2.0, 0.0, 0.0]).unwrap();
        assert_eq!(trimmed.degree(), 1);
    }
}
