//! SiLU and softplus as half the input plus an even polynomial.
//!
//! Both functions are `f(x) = x/2 + r(x)` with an even `r`:
//! SiLU has `r(x) = (x/2)·tanh(x/2)`, softplus has `r(x) = ln(2·cosh(x/2))`.
//! Inside `[-tau, tau)` the residual is a minimax polynomial in `t = x²` (Remez on `[0, tau²]`).
//! Outside, a fixed rule holds: `x` for `x >= tau`, `0` for `x < -tau`.
//!
//! Source: FESC, MoSiLU and MoSoft ("even residual", tau = 4, degree 4). The coefficients were
//! computed with the Remez exchange at 50 digits.

use super::horner;
use serde::Serialize;

/// One even-residual approximation: `x/2 + q(x²)` inside `[-tau, tau)`, fixed tails outside.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EvenResidual {
    /// Name for reports, for example `silu-d4-tau4`.
    pub name: &'static str,
    /// Half width of the polynomial range.
    pub tau: f64,
    /// Coefficients of `q` in the power basis in `t = x²`, lowest degree first.
    pub coeffs: &'static [f64],
    /// Largest error of the polynomial on `[-tau, tau]`.
    pub max_error_in_range: f64,
    /// Largest error of the tail rule outside; it occurs at `|x| = tau`.
    pub tail_error: f64,
}

impl EvenResidual {
    /// Approximate value for any finite `x`. The error is at most [`Self::max_error`] everywhere.
    pub fn eval(&self, x: f64) -> f64 {
        if x >= self.tau {
            x
        } else if x < -self.tau {
            0.0
        } else {
            0.5 * x + horner(self.coeffs, x * x)
        }
    }

    /// Degree of the polynomial in `x` (twice the degree in `t`).
    pub fn degree(&self) -> usize {
        2 * self.coeffs.len().saturating_sub(1)
    }

    /// Coefficients in `s = t/tau²`, so that the variable stays in `[0, 1]` inside the range.
    ///
    /// `q(t) = Σ c_k t^k = Σ (c_k tau^(2k)) s^k`. At degrees above 4 the plain coefficients fall below
    /// one unit of a 19-bit fraction; the rescaled ones do not.
    pub fn coeffs_unit(&self) -> Vec<f64> {
        let tau2 = self.tau * self.tau;
        let mut power = 1.0;
        self.coeffs
            .iter()
            .map(|c| {
                let scaled = c * power;
                power *= tau2;
                scaled
            })
            .collect()
    }

    /// Largest error over all real inputs.
    pub fn max_error(&self) -> f64 {
        self.max_error_in_range.max(self.tail_error)
    }

    /// Smallest value that [`Self::eval`] can return for the softplus entries, as a lower bound.
    ///
    /// Softplus at `-tau` is `tail_error`, and the polynomial may lie below it by the in-range error.
    /// A small negative time step is possible with `SOFTPLUS_D8_TAU6` (about -0.0005).
    pub fn softplus_lower_bound(&self) -> f64 {
        (self.tail_error - self.max_error_in_range).min(0.0)
    }
}

/// `tau·(1 - sigmoid(tau))` at 4: where the tail rule of SiLU is worst.
const SILU_TAIL_4: f64 = 0.071_944_839_9;
/// The same at 6.
const SILU_TAIL_6: f64 = 0.014_835_739_4;
/// `ln(1 + e^-tau)` at 4: where the tail rule of softplus is worst.
const SOFTPLUS_TAIL_4: f64 = 0.018_149_927_9;
/// The same at 6.
const SOFTPLUS_TAIL_6: f64 = 0.002_475_685_2;

/// SiLU, degree 2, tau = 4. In-range error 0.1537, tail 0.0720.
pub const SILU_D2: EvenResidual = EvenResidual {
    name: "silu-d2-tau4",
    tau: 4.0,
    coeffs: &[0.153_613_745_005_844_38, 0.120_503_447_509_477_11],
    max_error_in_range: 0.153_613_746,
    tail_error: SILU_TAIL_4,
};

/// SiLU, degree 4, tau = 4 (the published MoSiLU). In-range error 0.0349, tail 0.0720.
pub const SILU_D4: EvenResidual = EvenResidual {
    name: "silu-d4-tau4",
    tau: 4.0,
    coeffs: &[
        0.034_817_132_688_207_38,
        0.193_108_211_964_754_25,
        -0.004_809_806_627_581_441_5,
    ],
    max_error_in_range: 0.034_817_134,
    tail_error: SILU_TAIL_4,
};

/// SiLU, degree 6, tau = 4. In-range error 0.0082, tail 0.0720.
pub const SILU_D6: EvenResidual = EvenResidual {
    name: "silu-d6-tau4",
    tau: 4.0,
    coeffs: &[
        0.008_176_177_078_201_088,
        0.228_200_537_110_995_53,
        -0.011_084_574_334_159_434,
        0.000_272_094_139_629_033_34,
    ],
    max_error_in_range: 0.008_176_178,
    tail_error: SILU_TAIL_4,
};

/// SiLU, degree 8, tau = 6. In-range error 0.0142, tail 0.0149.
pub const SILU_D8_TAU6: EvenResidual = EvenResidual {
    name: "silu-d8-tau6",
    tau: 6.0,
    coeffs: &[
        0.014_135_650_391_090_39,
        0.220_248_346_327_515_9,
        -0.009_968_636_046_575_791,
        0.000_276_619_168_662_550_4,
        -2.952245706322331e-06,
    ],
    max_error_in_range: 0.014_135_7,
    tail_error: SILU_TAIL_6,
};

/// Softplus, degree 2, tau = 4. In-range error 0.0594, tail 0.0182.
pub const SOFTPLUS_D2: EvenResidual = EvenResidual {
    name: "softplus-d2-tau4",
    tau: 4.0,
    coeffs: &[0.752_489_242_959_366_9, 0.082_812_671_709_866_53],
    max_error_in_range: 0.059_342_063,
    tail_error: SOFTPLUS_TAIL_4,
};

/// Softplus, degree 4, tau = 4 (the published MoSoft). In-range error 0.0092, tail 0.0182.
/// It is at least 0.009 inside the range and exactly 0 below -4: a head with a very small time step
/// stands still.
pub const SOFTPLUS_D4: EvenResidual = EvenResidual {
    name: "softplus-d4-tau4",
    tau: 4.0,
    coeffs: &[
        0.702_285_548_801_861_4,
        0.111_448_544_190_654_5,
        -0.001_861_135_531_939_218_7,
    ],
    max_error_in_range: 0.009_138_369,
    tail_error: SOFTPLUS_TAIL_4,
};

/// Softplus, degree 6, tau = 4. In-range error 0.0017, tail 0.0182.
pub const SOFTPLUS_D6: EvenResidual = EvenResidual {
    name: "softplus-d6-tau4",
    tau: 4.0,
    coeffs: &[
        0.694_766_954_592_169_7,
        0.120_941_209_901_490_97,
        -0.003_527_897_735_768_013,
        7.155400617446781e-05,
    ],
    max_error_in_range: 0.001_619_775,
    tail_error: SOFTPLUS_TAIL_4,
};

/// Softplus, degree 8, tau = 6. In-range error 0.0030, tail 0.0025.
pub const SOFTPLUS_D8_TAU6: EvenResidual = EvenResidual {
    name: "softplus-d8-tau6",
    tau: 6.0,
    coeffs: &[
        0.696_058_284_114_677_7,
        0.119_351_156_967_285_5,
        -0.003_337_065_564_758_964,
        7.718231177933895e-05,
        -7.55718164034623e-07,
    ],
    max_error_in_range: 0.002_911_11,
    tail_error: SOFTPLUS_TAIL_6,
};

#[cfg(test)]
mod tests {
    use super::*;

    fn silu(x: f64) -> f64 {
        x / (1.0 + (-x).exp())
    }

    fn softplus(x: f64) -> f64 {
        x.max(0.0) + (-x.abs()).exp().ln_1p()
    }

    /// Largest error inside `[-tau, tau)` and outside (up to ±40) on a dense grid.
    fn measured(a: &EvenResidual, exact: fn(f64) -> f64) -> (f64, f64) {
        let n = 400_000;
        let mut inside: f64 = 0.0;
        let mut outside: f64 = 0.0;
        for i in 0..=n {
            let x = -40.0 + 80.0 * f64::from(i) / f64::from(n);
            let e = (a.eval(x) - exact(x)).abs();
            if x >= -a.tau && x < a.tau {
                inside = inside.max(e);
            } else {
                outside = outside.max(e);
            }
        }
        // The ends of both parts.
        inside = inside.max((a.eval(-a.tau) - exact(-a.tau)).abs());
        inside = inside.max((a.eval(a.tau - 1e-12) - exact(a.tau)).abs());
        outside = outside.max((a.eval(a.tau) - exact(a.tau)).abs());
        outside = outside.max((a.eval(-a.tau - 1e-12) - exact(-a.tau)).abs());
        (inside, outside)
    }

    #[test]
    fn stated_errors_are_reached_and_not_exceeded() {
        type Case = (EvenResidual, fn(f64) -> f64);
        let cases: [Case; 8] = [
            (SILU_D2, silu),
            (SILU_D4, silu),
            (SILU_D6, silu),
            (SILU_D8_TAU6, silu),
            (SOFTPLUS_D2, softplus),
            (SOFTPLUS_D4, softplus),
            (SOFTPLUS_D6, softplus),
            (SOFTPLUS_D8_TAU6, softplus),
        ];
        for (a, exact) in cases {
            let (inside, outside) = measured(&a, exact);
            let name = a.name;
            assert!(
                inside <= a.max_error_in_range,
                "{name}: {inside} inside, stated {}",
                a.max_error_in_range
            );
            assert!(
                inside >= 0.999 * a.max_error_in_range,
                "{name}: stated {} is too wide for {inside}",
                a.max_error_in_range
            );
            assert!(
                (outside - a.tail_error).abs() < 1e-9,
                "{name}: {outside} outside, stated {}",
                a.tail_error
            );
        }
    }

    #[test]
    fn errors_equioscillate_so_the_polynomials_are_minimax() {
        // A minimax polynomial with n coefficients reaches its largest error n + 1 times with
        // alternating sign (Chebyshev). Counting the alternations proves it independently of Remez.
        for (a, exact) in [
            (SILU_D4, silu as fn(f64) -> f64),
            (SOFTPLUS_D4, softplus),
            (SILU_D8_TAU6, silu),
            (SOFTPLUS_D8_TAU6, softplus),
        ] {
            let mut alternations = 0;
            let mut last = 0.0;
            let n = 200_000;
            for i in 0..=n {
                let x = (a.tau - 1e-12) * f64::from(i) / f64::from(n);
                let e = a.eval(x) - exact(x);
                if e.abs() > 0.999 * a.max_error_in_range && e.signum() != last {
                    alternations += 1;
                    last = e.signum();
                }
            }
            assert_eq!(alternations, a.coeffs.len() + 1, "{}", a.name);
        }
    }

    #[test]
    fn rescaled_coefficients_give_the_same_value() {
        for a in [SILU_D4, SILU_D8_TAU6, SOFTPLUS_D8_TAU6] {
            let unit = a.coeffs_unit();
            for i in -100..100 {
                let x = a.tau * f64::from(i) / 100.0;
                let s = x * x / (a.tau * a.tau);
                assert!((0.5 * x + horner(&unit, s) - a.eval(x)).abs() < 1e-13);
            }
        }
    }

    #[test]
    fn softplus_lower_bound_holds() {
        for a in [SOFTPLUS_D2, SOFTPLUS_D4, SOFTPLUS_D6, SOFTPLUS_D8_TAU6] {
            let least = (0..=120_000)
                .map(|i| a.eval(-6.0 + f64::from(i) * 1e-4))
                .fold(f64::INFINITY, f64::min);
            assert!(least >= a.softplus_lower_bound(), "{}: {least}", a.name);
        }
        assert!(SOFTPLUS_D4.eval(-4.0) > 0.009);
        assert!(SOFTPLUS_D8_TAU6.eval(-6.0) < 0.0);
    }

    #[test]
    fn tails_follow_the_rule() {
        assert_eq!(SILU_D4.eval(4.0), 4.0);
        assert_eq!(SILU_D4.eval(100.0), 100.0);
        assert_eq!(SILU_D4.eval(-4.000_001), 0.0);
        assert!(SILU_D4.eval(-4.0) != 0.0);
        assert_eq!(SILU_D4.degree(), 4);
        assert_eq!(SILU_D8_TAU6.degree(), 8);
    }
}
