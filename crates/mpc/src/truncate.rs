//! Division by powers of two on shares (protocols.md R17, section 7).

use crate::bits::mask64;
use crate::compare::carry;
use crate::mux::{bits_to_words, wrap_known_sign};
use crate::{MpcError, Session};

/// Keeps shares of values below 2^62 in absolute value non-negative.
const SIGN_BIAS: u64 = 1 << 62;

/// Largest `bits` of a division within one unit.
pub(crate) const MAX_ONE_UNIT: u32 = 61;

/// Shares of `x / 2^bits` modulo 2^64 with an error below one unit and mean zero over the sharing, for `|x| < 2^62`.
/// The client adds `2^62 + 2^bits - 1`, which makes the sum non-negative and centres the two lost remainders.
/// Cost of `n`: one COT an element, server to client `n` bits, client to server `bits n` bits.
pub(crate) fn one_unit(s: &mut Session, words: &[u64], bits: u32) -> Result<Vec<u64>, MpcError> {
    let client = s.is_client();
    let bias = SIGN_BIAS + mask64(bits);
    let x: Vec<u64> = if client {
        words.iter().map(|w| w.wrapping_add(bias)).collect()
    } else {
        words.to_vec()
    };
    let wraps = wrap_known_sign(s, &x, bits)?;
    let undo = if client { SIGN_BIAS >> bits } else { 0 };
    Ok(x.iter()
        .zip(wraps)
        .map(|(x, w)| {
            (x >> bits)
                .wrapping_sub(w << (64 - bits))
                .wrapping_sub(undo)
        })
        .collect())
}

/// Shares modulo `2^out_bits` of `floor((x + 2^(bits-1)) / 2^bits)`, exactly. For `out_bits <= 64 - bits` any `x`; else
/// `|x| < 2^62`.
/// Cost of `n`: a comparison of `bits`-bit words with one threshold; then one COT of `out_bits` bits an element
/// and, for the wide form, one more of `out_bits + bits - 64` bits (server to client `n` bits for each of them).
pub(crate) fn faithful(
    s: &mut Session,
    words: &[u64],
    bits: u32,
    out_bits: u32,
) -> Result<Vec<u64>, MpcError> {
    let client = s.is_client();
    let wide = out_bits + bits > 64;
    let half = if bits == 0 { 0 } else { 1u64 << (bits - 1) };
    let bias = half.wrapping_add(if wide { SIGN_BIAS } else { 0 });
    let x: Vec<u64> = if client {
        words.iter().map(|w| w.wrapping_add(bias)).collect()
    } else {
        words.to_vec()
    };
    let low: Vec<u64> = x.iter().map(|x| x & mask64(bits)).collect();
    let carries = carry(s, &low, bits)?;
    let mask = mask64(out_bits);
    let mut out: Vec<u64> = if bits == 0 {
        x.clone()
    } else {
        let c = bits_to_words(s, &carries, out_bits)?;
        x.iter()
            .zip(c)
            .map(|(x, c)| (x >> bits).wrapping_add(c))
            .collect()
    };
    if wide && bits > 0 {
        let wraps = wrap_known_sign(s, &x, out_bits + bits - 64)?;
        let undo = if client { SIGN_BIAS >> bits } else { 0 };
        for (o, w) in out.iter_mut().zip(wraps) {
            *o = o.wrapping_sub(w << (64 - bits)).wrapping_sub(undo);
        }
    }
    for o in &mut out {
        *o &= mask;
    }
    Ok(out)
}

/// Shares modulo 2^88 of the same signed values, for `|x| < 2^62` (protocols.md 6.5, R14). The centred shares add up
/// to the value as integers except with probability `|x| / 2^88` over the sharing.
/// Cost of `n`: one COT an element, server to client `n` bits, client to server `24 n` bits.
pub(crate) fn extend_64_88(s: &mut Session, words: &[u64]) -> Result<Vec<u128>, MpcError> {
    const MASK: u128 = (1 << 88) - 1;
    let client = s.is_client();
    let x: Vec<u64> = if client {
        words.iter().map(|w| w.wrapping_add(SIGN_BIAS)).collect()
    } else {
        words.to_vec()
    };
    let wraps = wrap_known_sign(s, &x, 24)?;
    let undo = if client { u128::from(SIGN_BIAS) } else { 0 };
    Ok(x.iter()
        .zip(wraps)
        .map(|(&x, w)| {
            u128::from(x)
                .wrapping_sub(u128::from(w) << 64)
                .wrapping_sub(undo)
                & MASK
        })
        .collect())
}

/// The representative of a word modulo 2^88 in `[-2^87, 2^87)`.
#[must_use]
pub fn centred_88(w: u128) -> i128 {
    ((w << 40) as i128) >> 40
}
