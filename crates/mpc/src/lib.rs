//! Semi-honest two-party computation on additive shares over Z_2^64.

mod argmax;
mod base_ot;
mod bits;
mod boolean;
mod compare;
pub mod cost;
mod cot;
pub mod cot_products;
pub mod domain;
pub mod error;
pub mod harness;
mod hash;
mod mux;
mod one_of_n;
pub mod plain;
mod pprf;
pub mod product_source;
pub mod session;
mod softspoken;
mod truncate;
pub mod two_party;

pub mod export;
pub mod rlwe;

pub use argmax::index_bits;
pub use cost::CostModel;
pub use cot_products::CotProducts;
pub use domain::{Bits, CompareFormat, Domain, Party, Shares};
pub use error::MpcError;
pub use plain::Plain;
pub use product_source::ProductSource;
pub use session::{MpcConfig, OpenFailure, Session};
pub use softspoken::refill_bytes;
pub use truncate::centred_88;
pub use two_party::TwoParty;
