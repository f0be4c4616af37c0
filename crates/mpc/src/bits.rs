//! Bit streams: messages carry words of any width without padding between them.

use crate::MpcError;

/// Bytes of a message of `bits` bits.
#[must_use]
pub fn packed_len(bits: u64) -> usize {
    bits.div_ceil(8) as usize
}

/// The low `width` bits set, `width <= 64`.
#[must_use]
pub(crate) fn mask64(width: u32) -> u64 {
    if width >= 64 {
        u64::MAX
    } else {
        (1u64 << width) - 1
    }
}

/// The low `width` bits set, `width <= 128`.
#[must_use]
pub(crate) fn mask128(width: u32) -> u128 {
    if width >= 128 {
        u128::MAX
    } else {
        (1u128 << width) - 1
    }
}

/// Bytes of 0 or 1 as a bit each, lowest first.
pub(crate) fn pack(bits: &[u8]) -> Vec<u8> {
    let (eights, rest) = bits.as_chunks::<8>();
    let mut out = Vec::with_capacity(packed_len(bits.len() as u64));
    // The product moves bit 0 of byte i to bit 56 + i; no two terms meet.
    let byte =
        |b: &[u8; 8]| (u64::from_le_bytes(*b).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
    out.extend(eights.iter().map(byte));
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        out.push(byte(&last));
    }
    out
}

/// The bits of a byte, lowest first, as a byte of 0 or 1 each.
#[inline]
pub(crate) fn spread(b: u8) -> [u8; 8] {
    // Bit i alone in byte i, then moved to the lowest place.
    let alone = u64::from(b).wrapping_mul(0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
    ((alone + 0x7f7f_7f7f_7f7f_7f7f) >> 7 & 0x0101_0101_0101_0101).to_le_bytes()
}

/// As [`spread`] for all bytes.
pub(crate) fn unpack(bytes: &[u8]) -> impl Iterator<Item = u8> + '_ {
    bytes.iter().flat_map(|&b| spread(b))
}

/// Appends words of given widths, lowest bit first.
pub(crate) struct BitWriter {
    bytes: Vec<u8>,
    acc: u128,
    held: u32,
}

impl BitWriter {
    pub fn with_bits(bits: u64) -> Self {
        Self {
            bytes: Vec::with_capacity(packed_len(bits) + 8),
            acc: 0,
            held: 0,
        }
    }

    /// `v < 2^width`, `width <= 64`.
    #[inline]
    pub fn push(&mut self, v: u64, width: u32) {
        self.acc |= u128::from(v) << self.held;
        self.held += width;
        if self.held >= 64 {
            self.bytes
                .extend_from_slice(&(self.acc as u64).to_le_bytes());
            self.acc >>= 64;
            self.held -= 64;
        }
    }

    /// `v < 2^width`, `width <= 128`.
    #[inline]
    pub fn push_wide(&mut self, v: u128, width: u32) {
        if width <= 64 {
            self.push(v as u64, width);
        } else {
            self.push(v as u64, 64);
            self.push((v >> 64) as u64, width - 64);
        }
    }

    pub fn finish(mut self) -> Vec<u8> {
        let tail = self.held.div_ceil(8) as usize;
        self.bytes
            .extend_from_slice(&(self.acc as u64).to_le_bytes()[..tail]);
        self.bytes
    }
}

/// Reads what [`BitWriter`] wrote.
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
    acc: u128,
    held: u32,
}

impl<'a> BitReader<'a> {
    /// Checks that the message has exactly the bytes of `bits` bits.
    pub fn new(bytes: &'a [u8], bits: u64, op: &'static str) -> Result<Self, MpcError> {
        if bytes.len() != packed_len(bits) {
            return Err(MpcError::Malformed {
                op,
                detail: format!("{} bytes for {bits} bits", bytes.len()),
            });
        }
        Ok(Self {
            bytes,
            at: 0,
            acc: 0,
            held: 0,
        })
    }

    /// The next `width <= 64` bits; zeros past the end.
    #[inline]
    pub fn pull(&mut self, width: u32) -> u64 {
        if self.held < width {
            let mut w = [0u8; 8];
            let n = (self.bytes.len() - self.at).min(8);
            w[..n].copy_from_slice(&self.bytes[self.at..self.at + n]);
            self.at += n;
            self.acc |= u128::from(u64::from_le_bytes(w)) << self.held;
            self.held += 64;
        }
        let v = self.acc as u64 & mask64(width);
        self.acc >>= width;
        self.held -= width;
        v
    }

    /// The next `width <= 128` bits.
    #[inline]
    pub fn pull_wide(&mut self, width: u32) -> u128 {
        if width <= 64 {
            u128::from(self.pull(width))
        } else {
            let lo = self.pull(64);
            u128::from(lo) | u128::from(self.pull(width - 64)) << 64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_packed_lowest_first_and_come_back() {
        for n in 0..40usize {
            let bits: Vec<u8> = (0..n).map(|i| (i * i + i / 3) as u8 & 1).collect();
            let packed = pack(&bits);
            let mut want = vec![0u8; n.div_ceil(8)];
            for (i, b) in bits.iter().enumerate() {
                want[i / 8] |= b << (i % 8);
            }
            assert_eq!(packed, want);
            let back: Vec<u8> = unpack(&packed).collect();
            assert_eq!(back[..n], bits);
            assert!(back[n..].iter().all(|&b| b == 0));
        }
        for b in 0..=u8::MAX {
            assert_eq!(pack(&unpack(&[b]).collect::<Vec<_>>()), [b]);
        }
    }

    #[test]
    fn words_of_mixed_widths_survive() {
        let words: Vec<(u128, u32)> = (0..500u32)
            .map(|i| {
                let w = 1 + (i * 37) % 128;
                let v = (u128::from(i) * 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) & mask128(w);
                (v, w)
            })
            .collect();
        let total: u64 = words.iter().map(|w| u64::from(w.1)).sum();
        let mut out = BitWriter::with_bits(total);
        for &(v, w) in &words {
            out.push_wide(v, w);
        }
        let bytes = out.finish();
        assert_eq!(bytes.len(), packed_len(total));
        let mut r = BitReader::new(&bytes, total, "test").unwrap();
        for &(v, w) in &words {
            assert_eq!(r.pull_wide(w), v);
        }
        assert!(BitReader::new(&bytes, total + 8, "test").is_err());
    }
}
