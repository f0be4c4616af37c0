//! Test-only helpers: toy parameter sets, golden vectors, two-party harness. Never a normal dependency.

// Only tests link this crate: a failure here is a failed test.
#![allow(clippy::expect_used)]

pub mod fixture;
pub mod params;

pub use fixture::CkksFixture;
pub use params::*;
