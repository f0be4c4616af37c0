//! Approximations of the nonlinear functions: coefficients, domain, error, and their value in `f64`.
//!
//! Each entry states where its error bound holds and what happens outside. The protocols in the crate
//! `nonlinear` evaluate the same formulas on shares; the plaintext surrogate in the crate `model`
//! evaluates them through the `eval` methods of this module.
//!
//! | module | function | form |
//! |---|---|---|
//! | [`even`] | SiLU, softplus | half the input plus an even polynomial, fixed tails |
//! | [`exp`] | exp on non-positive numbers | polynomial, two squarings, cut below -8 |
//! | [`rms`] | 1/sqrt | eight buckets and one or two Newton steps |
//!
//! A [`Stack`] names one choice of all three.

pub mod even;
pub mod exp;
pub mod rms;
mod stack;

pub use even::EvenResidual;
pub use exp::ExpApprox;
pub use rms::{NeRms, RmsTableError};
pub use stack::{Stack, StackSpec, UnknownStack};

/// Value of a polynomial in the power basis, lowest degree first, by Horner's rule.
pub fn horner(coeffs: &[f64], x: f64) -> f64 {
    coeffs.iter().rev().fold(0.0, |acc, c| acc * x + c)
}
