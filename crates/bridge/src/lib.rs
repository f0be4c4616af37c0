//! Conversion between CKKS ciphertexts and additive shares.

pub mod arrange;
pub mod codec;
pub mod error;
pub mod failure;
pub mod size;
pub mod to_ckks;
pub mod to_shares;
pub mod wide;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod stream;

pub use arrange::{arrange, NO_VALUE};
pub use codec::{decode_shares, encode_shares, SlotFormat, SlotWords};
pub use error::BridgeError;
pub use failure::{to_ckks_failure_log2, to_shares_failure_log2};
pub use to_ckks::SharesToCkks;
pub use to_shares::{CkksToShares, ExportDecryptor};
pub use wide::WideFft;
