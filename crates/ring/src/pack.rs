//! Compact encodings of residues: ceil(log2 q) bits each, little-endian bit order.

use crate::error::RingError;
use crate::modulus::Modulus;

/// Bytes of `count` residues at `bits` bits.
pub fn packed_len(count: usize, bits: u32) -> usize {
    count.saturating_mul(bits as usize).div_ceil(8)
}

/// Packs residues modulo `m` at `m.bits()` bits each.
pub fn pack(values: &[u64], m: &Modulus) -> Vec<u8> {
    let mut out = Vec::with_capacity(packed_len(values.len(), m.bits()));
    pack_into(&mut out, values, m.bits());
    out
}

/// Appends `values`, each below 2^bits, `bits <= 56`.
pub(crate) fn pack_into(out: &mut Vec<u8>, values: &[u64], bits: u32) {
    let (mut acc, mut filled) = (0u128, 0u32);
    for &v in values {
        acc |= u128::from(v) << filled;
        filled += bits;
        if filled >= 64 {
            out.extend_from_slice(&(acc as u64).to_le_bytes());
            acc >>= 64;
            filled -= 64;
        }
    }
    let tail = (acc as u64).to_le_bytes();
    out.extend_from_slice(&tail[..filled.div_ceil(8) as usize]);
}

/// Reads `count` residues modulo `m` that [`pack`] wrote.
///
/// # Errors
/// [`RingError::Length`] (checked before allocation), [`RingError::NotReduced`],
/// [`RingError::Padding`].
pub fn unpack(bytes: &[u8], count: usize, m: &Modulus) -> Result<Vec<u64>, RingError> {
    let bits = m.bits();
    let expected = packed_len(count, bits);
    if bytes.len() != expected {
        return Err(RingError::Length {
            what: "packed residues in bytes",
            got: bytes.len(),
            expected,
        });
    }
    let mask = (1u64 << bits) - 1;
    let mut out = Vec::with_capacity(count);
    let (mut acc, mut filled) = (0u128, 0u32);
    let mut words = bytes.chunks(8);
    for position in 0..count {
        if filled < bits {
            let chunk = words.next().unwrap_or(&[]);
            let mut word = [0u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            acc |= u128::from(u64::from_le_bytes(word)) << filled;
            filled += 64;
        }
        let v = acc as u64 & mask;
        acc >>= bits;
        filled -= bits;
        if v >= m.value() {
            return Err(RingError::NotReduced { limb: 0, position });
        }
        out.push(v);
    }
    if acc != 0 {
        return Err(RingError::Padding);
    }
    Ok(out)
}
