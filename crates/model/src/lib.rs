//! Checkpoints, tokenizer, plaintext reference forward and calibration of Mamba-2 classifiers.
//!
//! No cryptography here. The crate reads a model folder ([`Mamba2::load`]), turns a text into token ids
//! ([`Tokenizer`]), and evaluates the network in `f64` with the exact functions or with the
//! approximations of the encrypted protocol ([`forward()`]). [`calibrate()`] measures the ranges and bucket
//! tables that the protocol needs and refuses a model that leaves the domain.

pub mod calibrate;
pub mod calibration;
pub mod config;
pub mod documents;
pub mod domain;
pub mod embedding;
pub mod error;
pub mod forward;
mod json;
pub mod mamba2;
pub mod matrix;
pub mod nonlin;
pub mod observe;
pub mod ranges;
mod tensors;
pub mod tokenizer;

pub use calibrate::{calibrate, calibrate_folder, CalibrateOptions};
pub use calibration::Calibration;
pub use config::{Mamba2Config, Naming, Pooling, Side};
pub use documents::Document;
pub use embedding::EmbeddingTable;
pub use error::{ModelError, Problem};
pub use forward::{forward, Output};
pub use mamba2::{LayerWeights, Mamba2};
pub use matrix::Matrix;
pub use nonlin::{Exact, Nonlin, NormId, Surrogate};
pub use observe::{Observer, RangeObserver, Trace};
pub use ranges::{Range, Ranges};
pub use tokenizer::{Encoded, TextRules, Tokenizer, Truncation};
