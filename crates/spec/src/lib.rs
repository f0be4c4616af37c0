//! Plain data shared by every crate: parameters, security table, levels, scales, approximation
//! coefficients, schedules, costs. No cryptography, no I/O.

pub mod approx;
pub mod chain;
pub mod cost;
pub mod error;
pub mod fixed;
pub mod formats;
pub mod layout;
pub mod primes;
pub mod projection;
pub mod scale;
pub mod schedule;
pub mod security;

pub use chain::{CkksChain, CkksLiteral};
pub use error::SpecError;
pub use fixed::FracBits;
pub use scale::Scale;
