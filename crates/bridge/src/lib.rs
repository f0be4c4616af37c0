//! Conversion between CKKS ciphertexts and additive shares.

pub mod arrange;
pub mod codec;
pub mod error;
pub mod wide;

#[cfg(test)]
mod reference;

pub use arrange::{arrange, NO_VALUE};
pub use codec::{decode_shares, encode_shares, SlotFormat, SlotWords};
pub use error::BridgeError;
pub use wide::WideFft;
