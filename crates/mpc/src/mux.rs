//! Selection of a shared word by a shared bit, and conversion of bits to words.

use crate::cot::{self, Widths};
use crate::{MpcError, Session};

/// Shares of `b u` modulo 2^64. Two opposite COTs an element with correlation `u_p (1 - 2 b_p)` and choice `b_{1-p}`.
/// Cost of `n`: one COT in each direction, `n` bits and then `64 n` bits each way, both parties at once both times.
pub(crate) fn mux(s: &mut Session, bits: &[u8], words: &[u64]) -> Result<Vec<u64>, MpcError> {
    if bits.is_empty() {
        return Ok(Vec::new());
    }
    let widths = Widths::Same(64);
    let pending = cot::receive_begin(s, bits)?;
    let sent = cot::send(s, bits.len(), widths, |j| {
        // u (1 - 2b) without a branch: negate when b = 1.
        let m = u64::from(bits[j]).wrapping_neg();
        (words[j] ^ m).wrapping_sub(m)
    })?;
    let mut out: Vec<u64> = cot::receive_finish(s, &pending, widths)?;
    for (j, o) in out.iter_mut().enumerate() {
        let own = words[j] & u64::from(bits[j]).wrapping_neg();
        *o = o.wrapping_add(own).wrapping_sub(sent[j]);
    }
    Ok(out)
}

/// Shares of the bits as integers modulo `2^width`, `width <= 64`. One COT an element, client to server, correlation `-2 b_0`.
/// Cost of `n`: server to client `n` bits, client to server `width n` bits.
pub(crate) fn bits_to_words(
    s: &mut Session,
    bits: &[u8],
    width: u32,
) -> Result<Vec<u64>, MpcError> {
    one_sided(
        s,
        bits,
        width,
        |b0| (2 * u64::from(b0)).wrapping_neg(),
        u64::from,
    )
}

/// Shares modulo `2^width` of `w = [x0 + x1 >= 2^64]` for words whose sum modulo 2^64 is below `2^63`: the wrap is the
/// OR of the top bits, `m0 + m1 - m0 m1` (protocols.md 6.4, 6.5). One COT an element, client to server, correlation
/// `1 - m0`, choice `m1`. Cost of `n`: server to client `n` bits, client to server `width n` bits.
pub(crate) fn wrap_known_sign(
    s: &mut Session,
    words: &[u64],
    width: u32,
) -> Result<Vec<u64>, MpcError> {
    let top: Vec<u8> = words.iter().map(|w| (w >> 63) as u8).collect();
    // The server's own part is inside the COT.
    let server = |_| 0;
    one_sided(s, &top, width, |m0| u64::from(1 - m0), server)
}

/// Client: `bit - s` with the COT correlation `corr(bit)`; server: `local(bit) + received`.
fn one_sided(
    s: &mut Session,
    bits: &[u8],
    width: u32,
    corr: impl Fn(u8) -> u64 + Sync,
    local: impl Fn(u8) -> u64,
) -> Result<Vec<u64>, MpcError> {
    if bits.is_empty() {
        return Ok(Vec::new());
    }
    let mask = crate::bits::mask64(width);
    let widths = Widths::Same(width);
    if s.is_client() {
        let sent: Vec<u64> = cot::send(s, bits.len(), widths, |j| corr(bits[j]))?;
        Ok(bits
            .iter()
            .zip(sent)
            .map(|(&b, r)| u64::from(b).wrapping_sub(r) & mask)
            .collect())
    } else {
        let pending = cot::receive_begin(s, bits)?;
        let got: Vec<u64> = cot::receive_finish(s, &pending, widths)?;
        Ok(bits
            .iter()
            .zip(got)
            .map(|(&b, r)| local(b).wrapping_add(r) & mask)
            .collect())
    }
}
