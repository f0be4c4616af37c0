//! Conversion between CKKS ciphertexts and additive shares.
//!
//! - [`CkksToShares`]: the server's ciphertexts, masked and re-randomised, become integer shares of their slots at both
//!   parties. One flight, no oblivious transfer.
//! - [`extend`] and [`SharesToCkks`]: shares become ciphertexts at any level, at its exact canonical scale. Shares modulo 2^64 are
//!   extended by one COT each; integer shares that came from CKKS go back as they are.
//! - [`SlotWords`]: both lanes of one ciphertext, 64-bit words modulo 2^64 or the integers themselves.
//! - [`arrange`], [`arrange_slots`]: public index maps from values to slots.
//! - [`size`] and [`failure`]: bytes, flights and failure probabilities, for the plan.
//! - [`WideFft`]: the special FFT in 128-bit fixed point that makes the sum of two decoded shares right to one unit.

mod arrange;
mod codec;
mod error;
mod extend;
pub mod failure;
pub mod size;
mod to_ckks;
mod to_shares;
mod wide;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod stream;

pub use arrange::{arrange, arrange_slots, SlotMap, NO_VALUE};
pub use codec::{decode_shares, encode_shares, SlotFormat, SlotWords};
pub use error::BridgeError;
pub use extend::extend;
pub use failure::{to_ckks_failure_log2, to_shares_failure_log2};
pub use to_ckks::SharesToCkks;
pub use to_shares::{CkksToShares, ExportDecryptor};
pub use wide::WideFft;
