//! Exponential of a non-positive number: the decay factor `a = exp(Δ·A)` of a state-space layer.
//!
//! Below -8 the result is 0 (one comparison, one mux). Source: FESC, MMExp (degree-4 minimax on
//! `[-8, 0]`); the graph G-D evaluates a degree-4 polynomial on `z/4` and squares it twice, which has
//! the published product count and is far more accurate.

use super::horner;
use serde::{Deserialize, Serialize};

/// Which polynomial graph computes `exp(z)` for `z` in `[-8, 0]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExpApprox {
    /// Graph G-D with `q(0) = 1` and `q <= 1`: `q(z/4)^4`. The decay never exceeds 1 on `[-8, 0]`, and
    /// a zero step keeps the state exactly. Error at most 6.0e-5 in range.
    #[default]
    Gd,
    /// Graph G-D with the plain minimax polynomial on `[-2, 0]`. Error at most 8.1e-4 in range.
    GdMinimax,
    /// The literal degree-4 minimax polynomial on `[-8, 0]`. Error at most 0.0204 in range. It forgets
    /// 2 % of the state per token even at `z = 0`: only for models trained with it.
    D4,
}

/// Constrained polynomial of graph G-D, minimax under `q(0) = 1`, `q <= 1` after the fourth power.
const GD: [f64; 5] = [
    1.0,
    0.999_414_201_728_557_5,
    0.493_816_764_393_489_15,
    0.148_661_096_464_829_64,
    0.022_110_383_608_065_987,
];
/// Minimax polynomial of exp on `[-2, 0]`, error 2.01e-4 before the two squarings.
const GD_MINIMAX: [f64; 5] = [
    0.999_798_892_228_616_5,
    0.994_612_608_283_378_7,
    0.476_699_668_285_909,
    0.130_217_309_020_169_23,
    0.016_243_907_147_740_95,
];
/// Minimax polynomial of exp on `[-8, 0]`.
const D4: [f64; 5] = [
    0.979_672_060_420_295,
    0.830_917_198_136_501_6,
    0.265_791_077_491_415_95,
    0.036_602_293_999_038_686,
    0.001_811_053_343_490_359_4,
];

impl ExpApprox {
    /// Inputs below this give exactly 0.
    pub const CUT: f64 = -8.0;

    /// Approximate `exp(z)`. Domain: `z <= 0`, tails included; a positive `z` is evaluated by the same
    /// polynomial (a surrogate softplus can return about -0.0005, which makes `z` slightly positive).
    pub fn eval(self, z: f64) -> f64 {
        if z < Self::CUT {
            return 0.0;
        }
        let q = horner(self.coeffs(), z * self.input_factor());
        let mut out = q;
        for _ in 0..self.squarings() {
            out *= out;
        }
        out
    }

    /// Coefficients of the inner polynomial, lowest degree first, in `w = z·input_factor`.
    pub fn coeffs(self) -> &'static [f64; 5] {
        match self {
            Self::Gd => &GD,
            Self::GdMinimax => &GD_MINIMAX,
            Self::D4 => &D4,
        }
    }

    /// Factor on `z` before the polynomial: 1/4 for the graphs with two squarings, else 1. It can be
    /// folded into the constant `A`.
    pub fn input_factor(self) -> f64 {
        match self {
            Self::Gd | Self::GdMinimax => 0.25,
            Self::D4 => 1.0,
        }
    }

    /// Number of squarings after the polynomial.
    pub fn squarings(self) -> u32 {
        match self {
            Self::Gd | Self::GdMinimax => 2,
            Self::D4 => 0,
        }
    }

    /// Secure products an element, the product `Δ·A` included.
    pub fn products(self) -> u32 {
        3 + self.squarings()
    }

    /// Largest error on `[-8, 0]`.
    pub fn max_error_in_range(self) -> f64 {
        match self {
            Self::Gd => 5.93e-5,
            Self::GdMinimax => 8.05e-4,
            Self::D4 => 0.020_327_941,
        }
    }

    /// Largest error of the cut, reached just below -8: `e^-8`.
    pub fn tail_error(self) -> f64 {
        3.354_626_28e-4
    }

    /// Largest error over all `z <= 0`.
    pub fn max_error(self) -> f64 {
        self.max_error_in_range().max(self.tail_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(a: ExpApprox) -> f64 {
        let n = 400_000;
        (0..=n)
            .map(|i| {
                let z = -8.0 * f64::from(i) / f64::from(n);
                (a.eval(z) - z.exp()).abs()
            })
            .fold(0.0, f64::max)
    }

    #[test]
    fn stated_errors_are_reached_and_not_exceeded() {
        for a in [ExpApprox::Gd, ExpApprox::GdMinimax, ExpApprox::D4] {
            let e = measured(a);
            let stated = a.max_error_in_range();
            assert!(e <= stated && e >= 0.99 * stated, "{a:?}: {e} vs {stated}");
        }
    }

    #[test]
    fn tail_is_cut_to_zero() {
        for a in [ExpApprox::Gd, ExpApprox::GdMinimax, ExpApprox::D4] {
            assert_eq!(a.eval(-8.000_001), 0.0);
            assert!(a.eval(-8.0) > 0.0);
            assert!(((-8.0f64).exp() - a.tail_error()).abs() < 1e-10);
        }
    }

    #[test]
    fn constrained_graph_never_exceeds_one() {
        assert_eq!(ExpApprox::Gd.eval(0.0), 1.0);
        for i in 0..=80_000 {
            let a = ExpApprox::Gd.eval(-f64::from(i) * 1e-4);
            assert!((0.0..=1.0).contains(&a));
        }
    }

    #[test]
    fn product_counts() {
        assert_eq!(ExpApprox::Gd.products(), 5);
        assert_eq!(ExpApprox::D4.products(), 3);
    }
}
