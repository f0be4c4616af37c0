//! A model of the error: its standard deviation after every operation, before anything is encrypted.
//!
//! A decrypted polynomial is `scale * message + error`. The model carries the variance V of one coefficient of the
//! error, as an integer polynomial, and a bound B on the absolute value of a slot of the message. A slot is a sum of
//! the N coefficients times roots of unity: its error has the standard deviation `sqrt(N V) / scale`
//! ([`NoiseEstimate::slot_deviation`]).
//!
//! | operation | V afterwards |
//! |---|---|
//! | encoding at a scale | 1/12, from rounding every coefficient |
//! | encryption under the secret key, the public key | + 10.5, + 10.5 (4N/3 + 1) |
//! | sum, difference (plaintext or ciphertext) | V_a + V_b |
//! | product (plaintext or ciphertext) | V_a (B_b s_b)^2 + V_b (B_a s_a)^2 + N V_a V_b |
//! | square | 4 V (B s)^2 + 2 N V^2 |
//! | rescale by q | V / q^2 + R with R = (1 + 2N/3) / 12, from rounding both parts |
//! | relinearisation, rotation, conjugation at a level | V + K + R with K = 10.5 (N/12) sum over digits of (D / P)^2 |
//! | relinearisation with a rescale by q | (V + K) / q^2 + R |
//! | drop of levels | V |
//!
//! Sources: Gentry, Halevi, Smart 2012 (ePrint 2012/099, appendix A.5) and Costache, Curtis, Hales, Murphy,
//! Ogilvie, Player 2022 (ePrint 2022/162) for the average case; Han, Ki 2019 (ePrint 2019/688) for the digits. 10.5 is the
//! variance of a centred binomial error, 2/3 that of a uniform ternary secret, D the product of the primes of a
//! digit, P that of the special primes. A raised digit is uniform in (-D/2, D/2).
//!
//! With B the root of the mean square of the slots instead of a bound, the figures are those of the average slot.
//! Errors are taken as independent: summing a ciphertext with itself (`x + x`) gives twice the deviation, not sqrt(2) times;
//! use a product with a constant there. The test suite holds every formula to the measured deviation.

use cipherloom_spec::Scale;

use crate::error::CkksError;
use crate::params::CkksParameters;

/// Variance of one coefficient of an error: centred binomial of 42 bits.
const ERROR_VARIANCE: f64 = 10.5;
/// Variance of one coefficient of the secret: uniform ternary.
const SECRET_VARIANCE: f64 = 2.0 / 3.0;
/// Variance of rounding to an integer.
const ROUNDING: f64 = 1.0 / 12.0;

/// What is known about a plaintext or ciphertext before it exists. Carried along by the caller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoiseEstimate {
    level: usize,
    scale: Scale,
    message: f64,
    variance: f64,
    degree: usize,
}

impl NoiseEstimate {
    /// Level.
    #[must_use]
    pub fn level(&self) -> usize {
        self.level
    }

    /// Scale.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// Bound on the absolute value of a slot.
    #[must_use]
    pub fn message(&self) -> f64 {
        self.message
    }

    /// Replaces the bound, where the caller knows a better one.
    #[must_use]
    pub fn with_message(mut self, message: f64) -> Self {
        self.message = message;
        self
    }

    /// Variance of one coefficient of the error.
    #[must_use]
    pub fn variance(&self) -> f64 {
        self.variance
    }

    /// Standard deviation of one coefficient of the error.
    #[must_use]
    pub fn coefficient_deviation(&self) -> f64 {
        self.variance.sqrt()
    }

    /// Root of the mean square of the error of a slot (as a complex number).
    #[must_use]
    pub fn slot_deviation(&self) -> f64 {
        (self.degree as f64 * self.variance).sqrt() / self.scale.to_f64()
    }

    /// An error that no slot exceeds, but for a probability `failure` (about: slots as complex Gaussians):
    /// `deviation * sqrt(ln(slots / failure))`.
    #[must_use]
    pub fn largest_slot_error(&self, failure: f64) -> f64 {
        let slots = self.degree as f64 / 2.0;
        self.slot_deviation() * (slots / failure).max(1.0).ln().sqrt()
    }

    /// Bits after the binary point that hold in the average slot: `-log2` of the slot deviation.
    #[must_use]
    pub fn precision_bits(&self) -> f64 {
        -self.slot_deviation().log2()
    }
}

/// The formulas for one parameter set. Every operation checks level and scale as the evaluator does.
#[derive(Clone, Debug)]
pub struct NoiseModel {
    params: CkksParameters,
}

impl NoiseModel {
    /// A model.
    #[must_use]
    pub fn new(params: &CkksParameters) -> Self {
        Self {
            params: params.clone(),
        }
    }

    fn n(&self) -> f64 {
        self.params.n() as f64
    }

    /// Rounding both parts of a ciphertext to integers: 1/12 and N/12 times the secret's variance.
    #[must_use]
    pub fn rounding_variance(&self) -> f64 {
        (1.0 + SECRET_VARIANCE * self.n()) * ROUNDING
    }

    /// What the key adds in a key switch at `level`, without the rounding of the division by P.
    ///
    /// # Errors
    /// `LevelRange`.
    pub fn key_variance(&self, level: usize) -> Result<f64, CkksError> {
        self.params.check_level("noise of a key switch", level)?;
        let chain = self.params.chain();
        let sum: f64 = chain
            .digits(level)
            .into_iter()
            .map(|digit| {
                let log_d: f64 = chain.q()[digit].iter().map(|&q| (q as f64).log2()).sum();
                (2.0 * (log_d - chain.log_p())).exp2()
            })
            .sum();
        Ok(ERROR_VARIANCE * self.n() * ROUNDING * sum)
    }

    /// An encoded vector with slots up to `message`.
    ///
    /// # Errors
    /// `LevelRange`.
    pub fn encode(
        &self,
        level: usize,
        scale: Scale,
        message: f64,
    ) -> Result<NoiseEstimate, CkksError> {
        self.encode_repeated(self.params.slots(), level, scale, message)
    }

    /// A vector of `period` values, repeated: only `2 period` of the N coefficients are not zero and rounded.
    /// A constant in all slots has period 1.
    ///
    /// # Errors
    /// `LevelRange`, `Period` unless the period divides the slots.
    pub fn encode_repeated(
        &self,
        period: usize,
        level: usize,
        scale: Scale,
        message: f64,
    ) -> Result<NoiseEstimate, CkksError> {
        self.params.check_level("noise of an encoding", level)?;
        let slots = self.params.slots();
        if !period.is_power_of_two() || period > slots {
            return Err(CkksError::Period { got: period, slots });
        }
        Ok(NoiseEstimate {
            level,
            scale,
            message,
            variance: ROUNDING * period as f64 / slots as f64,
            degree: self.params.n(),
        })
    }

    /// A fresh encryption under the secret key.
    #[must_use]
    pub fn encrypt_secret(&self, plain: &NoiseEstimate) -> NoiseEstimate {
        self.plus(plain, ERROR_VARIANCE)
    }

    /// A fresh encryption under the public key: `v e + e0 + e1 s`.
    #[must_use]
    pub fn encrypt_public(&self, plain: &NoiseEstimate) -> NoiseEstimate {
        self.plus(
            plain,
            ERROR_VARIANCE * (2.0 * SECRET_VARIANCE * self.n() + 1.0),
        )
    }

    fn plus(&self, a: &NoiseEstimate, variance: f64) -> NoiseEstimate {
        NoiseEstimate {
            variance: a.variance + variance,
            ..*a
        }
    }

    /// A sum or difference of independent operands, of ciphertexts and plaintexts alike. The message bounds add up.
    ///
    /// # Errors
    /// `LevelMismatch`, `ScaleMismatch`.
    pub fn add(&self, a: &NoiseEstimate, b: &NoiseEstimate) -> Result<NoiseEstimate, CkksError> {
        self.same_level("noise of a sum", a, b)?;
        if !a.scale.matches(b.scale) {
            return Err(CkksError::ScaleMismatch {
                op: "noise of a sum",
                left: a.scale,
                right: b.scale,
            });
        }
        Ok(NoiseEstimate {
            message: a.message + b.message,
            variance: a.variance + b.variance,
            ..*a
        })
    }

    fn same_level(
        &self,
        op: &'static str,
        a: &NoiseEstimate,
        b: &NoiseEstimate,
    ) -> Result<(), CkksError> {
        if a.level == b.level {
            Ok(())
        } else {
            Err(CkksError::LevelMismatch {
                op,
                left: a.level,
                right: b.level,
            })
        }
    }

    /// A product of independent operands, not relinearised and not rescaled; either one may be a plaintext.
    ///
    /// # Errors
    /// `LevelMismatch`.
    pub fn mul(&self, a: &NoiseEstimate, b: &NoiseEstimate) -> Result<NoiseEstimate, CkksError> {
        self.same_level("noise of a product", a, b)?;
        let size = |x: &NoiseEstimate| (x.message * x.scale.to_f64()).powi(2);
        Ok(NoiseEstimate {
            scale: a.scale.times(b.scale),
            message: a.message * b.message,
            variance: a.variance * size(b)
                + b.variance * size(a)
                + self.n() * a.variance * b.variance,
            ..*a
        })
    }

    /// The square of a ciphertext, whose two errors are the same: `2 m e + e^2`.
    #[must_use]
    pub fn square(&self, a: &NoiseEstimate) -> NoiseEstimate {
        let size = (a.message * a.scale.to_f64()).powi(2);
        NoiseEstimate {
            scale: a.scale.times(a.scale),
            message: a.message * a.message,
            variance: 4.0 * a.variance * size + 2.0 * self.n() * a.variance * a.variance,
            ..*a
        }
    }

    /// A sum of products with plaintexts or ciphertexts, all at one level and one product scale.
    ///
    /// # Errors
    /// `Empty`, `LevelMismatch`, `ScaleMismatch`.
    pub fn mul_sum(
        &self,
        terms: &[(NoiseEstimate, NoiseEstimate)],
    ) -> Result<NoiseEstimate, CkksError> {
        let mut products = terms.iter().map(|(a, b)| self.mul(a, b));
        let first = products.next().ok_or(CkksError::Empty {
            op: "noise of a sum of products",
        })??;
        products.try_fold(first, |sum, term| self.add(&sum, &term?))
    }

    /// A relinearisation, rotation or conjugation, hoisted or not.
    ///
    /// # Errors
    /// `LevelRange` for an estimate of other, longer parameters.
    pub fn key_switch(&self, a: &NoiseEstimate) -> Result<NoiseEstimate, CkksError> {
        let added = self.key_variance(a.level)? + self.rounding_variance();
        Ok(self.plus(a, added))
    }

    /// A rescale of a ciphertext of two parts.
    ///
    /// # Errors
    /// `LevelExhausted` at or below the base level.
    pub fn rescale(&self, a: &NoiseEstimate) -> Result<NoiseEstimate, CkksError> {
        self.divided(a, 0.0)
    }

    /// A relinearisation and a rescale with one rounding.
    ///
    /// # Errors
    /// `LevelExhausted` at or below the base level.
    pub fn relinearize_rescale(&self, a: &NoiseEstimate) -> Result<NoiseEstimate, CkksError> {
        self.divided(a, self.key_variance(a.level)?)
    }

    fn divided(&self, a: &NoiseEstimate, key: f64) -> Result<NoiseEstimate, CkksError> {
        let base = self.params.base_level();
        if a.level <= base {
            return Err(CkksError::LevelExhausted {
                op: "noise of a rescale",
                level: a.level,
                base,
            });
        }
        let q = self.params.chain().q()[a.level];
        Ok(NoiseEstimate {
            level: a.level - 1,
            scale: a.scale.rescaled(q),
            variance: (a.variance + key) / (q as f64).powi(2) + self.rounding_variance(),
            ..*a
        })
    }

    /// A drop to a lower level: value, scale and error stay.
    ///
    /// # Errors
    /// `LevelRange` above the operand's level.
    pub fn drop_level(&self, a: &NoiseEstimate, level: usize) -> Result<NoiseEstimate, CkksError> {
        if level > a.level {
            return Err(CkksError::LevelRange {
                op: "noise of a drop",
                level,
                max: a.level,
            });
        }
        Ok(NoiseEstimate { level, ..*a })
    }

    /// [`crate::Evaluator::align`]: to the canonical scale of a lower level. Rounding the constant changes the message by a
    /// relative 2^-40, which is not counted.
    ///
    /// # Errors
    /// `LevelRange` above the operand's level, `LevelExhausted` below the base level.
    pub fn align(&self, a: &NoiseEstimate, level: usize) -> Result<NoiseEstimate, CkksError> {
        if level == a.level {
            return Ok(*a);
        }
        let mut low = self.drop_level(a, level + 1)?;
        let factor = self.params.product_scale(level + 1, a.scale)?;
        low.variance *= factor.to_f64().powi(2);
        low.scale = a.scale.times(factor);
        self.rescale(&low)
    }
}
