//! Circuits on top of the scheme: polynomials and linear transforms.
//!
//! Everything here is written with the public operations of [`crate::Evaluator`] and [`crate::Encoder`], and
//! everything can be planned before it runs: levels, operation counts and the keys that it needs.
//!
//! - [`Polynomial`], [`PolynomialPlan`]: evaluation in `ceil(log2(degree + 1))` levels;
//!   [`Interpolation`]: a Chebyshev interpolant of a function with its error.
//! - [`DiagonalMatrix`], [`LinearPlan`], [`LinearTransform`]: matrix-vector products on slots in one level.
//! - [`PlaintextStore`]: encoded weights in compact form, in memory or in a file, expanded on demand.

mod baby;
mod evaluate;
mod interpolate;
mod linear;
mod matrix;
mod plan;
mod polynomial;
mod store;

pub use interpolate::Interpolation;
pub use linear::{LinearPlan, LinearTransform};
pub use matrix::DiagonalMatrix;
pub use plan::PolynomialPlan;
pub use polynomial::{Argument, Polynomial, PolynomialBasis};
pub use store::{PlaintextStore, StoreStatistics, StoredPlaintext};
