//! Failure bounds of slot-packed exact products (protocols.md R19), as pure functions of the parameters.
//!
//! One exported coefficient is `c = (q'/t) m + e mod q'`, masked by `r` uniform modulo `q'`. The two parties read
//! `round(t (c + r) / q')` and `-round(t r / q')`. Their sum is `m mod t` unless `t e / q'` carries the rounding of
//! the uniform value `t r / q'` over a half: probability `E|e| t / q'` (plus `t / q'` for the granularity of `r`).
//! One wrong coefficient spoils every slot of its ciphertext, so the unit of the budget is the coefficient.

/// Variance of a centred binomial with 21 coin pairs, the error of every sample.
pub const CBD21_VARIANCE: f64 = 10.5;
/// Variance of a uniform ternary coefficient.
pub const TERNARY_VARIANCE: f64 = 2.0 / 3.0;

/// Noise of one exported coefficient by origin, as standard deviations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoiseBudget {
    /// Fresh public-key zero of the export: `v e + e0 + e1 s`.
    pub zero: f64,
    /// Rounding of the modulus switch: `round(c_0) + round(c_1) s`.
    pub switch: f64,
    /// Upload noise times the server's plaintexts after the switch: `sum e_k w_k q' / q`, for the largest `|w|`.
    pub product: f64,
}

impl NoiseBudget {
    /// The budget for ring degree `2^log_n`, a sum of `terms` plaintext products, `log2 t`, and `log2 (q / q')`.
    ///
    /// Plaintexts are centred, so `||w||^2 <= N t^2 / 4` whatever they are; uniform shares have a third of that.
    #[must_use]
    pub fn new(log_n: u32, terms: usize, log2_t: f64, log2_drop: f64) -> Self {
        let n = f64::from(log_n).exp2();
        let zero = (2.0 * n * TERNARY_VARIANCE * CBD21_VARIANCE + CBD21_VARIANCE).sqrt();
        let switch = if log2_drop > 0.0 {
            ((1.0 + n * TERNARY_VARIANCE) / 12.0).sqrt()
        } else {
            0.0
        };
        // The rounding of round(q x / t) adds 1/12 to the variance of the error. It does not shrink with w.
        let per_term = n * (CBD21_VARIANCE + 1.0 / 12.0) / 4.0;
        let product = (terms as f64 * per_term).sqrt() * (log2_t - log2_drop).exp2();
        Self {
            zero,
            switch,
            product,
        }
    }

    /// Standard deviation of the sum.
    #[must_use]
    pub fn sigma(&self) -> f64 {
        (self.zero * self.zero + self.switch * self.switch + self.product * self.product).sqrt()
    }

    /// Mean of the absolute value (normal approximation), with one unit for the granularity of the mask.
    #[must_use]
    pub fn mean_abs(&self) -> f64 {
        self.sigma() * (2.0 / std::f64::consts::PI).sqrt() + 1.0
    }
}

/// `log2` of the probability that any of `coefficients` exported coefficients is read wrong (union bound).
#[must_use]
pub fn log2_failure(
    log2_t: f64,
    log2_q_export: f64,
    noise: &NoiseBudget,
    coefficients: f64,
) -> f64 {
    if coefficients <= 0.0 {
        return f64::NEG_INFINITY;
    }
    log2_t + noise.mean_abs().log2() - log2_q_export + coefficients.log2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_design_point_of_the_rule_holds_and_a_bit_less_does_not() {
        // R19: t = 2^47, N = 2^13, q' = 2^118, q = 2^166, 2^32 coefficients.
        let noise = NoiseBudget::new(13, 2, 47.0, 48.0);
        let f = log2_failure(47.0, 118.0, &noise, 2f64.powi(32));
        assert!((-31.0..-30.0).contains(&f), "{f}");
        assert!(log2_failure(47.0, 117.0, &noise, 2f64.powi(32)) > -30.0);
        // Without the switch the product noise dominates and q' is far too small.
        let raw = NoiseBudget::new(13, 2, 47.0, 0.0);
        assert!(log2_failure(47.0, 118.0, &raw, 2f64.powi(32)) > 10.0);
    }
}
