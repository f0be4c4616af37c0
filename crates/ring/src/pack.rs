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
    check_len(bytes, count, m)?;
    let mut out = vec![0; count];
    unpack_into(bytes, m, &mut out)?;
    Ok(out)
}

fn check_len(bytes: &[u8], count: usize, m: &Modulus) -> Result<(), RingError> {
    let expected = packed_len(count, m.bits());
    if bytes.len() != expected {
        return Err(RingError::Length {
            what: "packed residues in bytes",
            got: bytes.len(),
            expected,
        });
    }
    Ok(())
}

/// [`unpack`] into a slice that tells the count.
pub(crate) fn unpack_into(bytes: &[u8], m: &Modulus, out: &mut [u64]) -> Result<(), RingError> {
    check_len(bytes, out.len(), m)?;
    let bits = m.bits() as usize;
    let mask = (1u64 << bits) - 1;
    // A residue lies within 8 bytes from its first one: at most 50 bits behind 7 others.
    let window = |start: usize| {
        let mut word = [0u8; 8];
        match bytes.get(start..start + 8) {
            Some(full) => word.copy_from_slice(full),
            None => {
                let rest = &bytes[start.min(bytes.len())..];
                word[..rest.len()].copy_from_slice(rest);
            }
        }
        u64::from_le_bytes(word)
    };
    let mut all_reduced = true;
    for (i, o) in out.iter_mut().enumerate() {
        let bit = i * bits;
        let v = (window(bit / 8) >> (bit % 8)) & mask;
        all_reduced &= v < m.value();
        *o = v;
    }
    if !all_reduced {
        let position = out.iter().position(|&v| v >= m.value()).unwrap_or(0);
        return Err(RingError::NotReduced { limb: 0, position });
    }
    let used = out.len() * bits;
    if !used.is_multiple_of(8) && window(used / 8) >> (used % 8) != 0 {
        return Err(RingError::Padding);
    }
    Ok(())
}
