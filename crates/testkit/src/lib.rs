//! Test-only helpers: toy parameter sets, golden vectors, two-party harness. Never a normal dependency.

pub mod params;

pub use params::*;
