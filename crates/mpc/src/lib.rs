//! Semi-honest two-party computation on additive shares over Z_2^64.

pub mod domain;
pub mod error;

pub use domain::{Bits, CompareFormat, Domain, Party, Shares};
pub use error::MpcError;
