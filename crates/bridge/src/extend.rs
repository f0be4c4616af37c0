//! Shares modulo 2^64 to integer shares that sum to the value itself (protocols.md 6.5, R14).

use crate::BridgeError;
use cipherloom_mpc::{centred_88, TwoParty};
use zeroize::Zeroizing;

/// Integer shares in `[-2^87, 2^87)` of the signed words that `words` share modulo 2^64, for `|word| < 2^62`.
///
/// The two parties' results add up to the word as integers, except with probability `|word| / 2^88` each
/// ([`crate::to_ckks_failure_log2`]). One batch: the server sends, then the client ([`crate::size::extend_bytes`]); one COT a word.
/// Extend each value once and [`crate::arrange_slots`] the result, also where it fills many slots.
///
/// # Errors
/// Transport errors.
pub fn extend(parties: &mut TwoParty, words: &[u64]) -> Result<Zeroizing<Vec<i128>>, BridgeError> {
    let extended = Zeroizing::new(parties.extend_64_88(words)?);
    Ok(Zeroizing::new(
        extended.iter().map(|&w| centred_88(w)).collect(),
    ))
}
