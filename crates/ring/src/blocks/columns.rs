//! Matrices of bits that are kept by columns.

use super::Blocks;
use crate::vector::for_each_width;
use zeroize::Zeroizing;

/// Columns of a matrix.
pub const COLUMNS: usize = 128;
/// Rows that are turned together.
const ROWS: usize = 512;
/// Words of eight rows of words, one from each group of 64 rows.
type Lanes = [u64; 8];

impl Blocks {
    /// Turns 128 columns into rows: bit c of `rows[r]` is bit r of column c, which starts at byte `c * stride` of `columns`, lowest
    /// bits first. The number of rows is a multiple of 512.
    ///
    /// # Panics
    /// For another number of rows, or columns shorter than that.
    pub fn transpose(self, columns: &[u8], stride: usize, rows: &mut [u128]) {
        assert!(
            rows.len().is_multiple_of(ROWS)
                && stride >= rows.len() / 8
                && columns.len() >= COLUMNS * stride,
            "128 columns of {} rows",
            rows.len()
        );
        // Compiled for 512 bits it takes a third longer.
        turn(self.width.half(), columns, stride, rows);
    }

    /// `a = a xor b`.
    pub fn xor_into(self, a: &mut [u8], b: &[u8]) {
        xor_masked(self.width, a, b, u8::MAX);
    }

    /// `a = a xor (b and mask)`, the mask at every byte.
    pub fn xor_masked(self, a: &mut [u8], b: &[u8], mask: u8) {
        xor_masked(self.width, a, b, mask);
    }
}

/// A cache line: loops over lines become vector code, loops over bytes of unknown number do not.
const LINE: usize = 64;

for_each_width! {
    fn xor_masked(a: &mut [u8], b: &[u8], mask: u8) {
        let ((a, a_rest), (b, b_rest)) = (a.as_chunks_mut::<LINE>(), b.as_chunks::<LINE>());
        for (a, b) in a.iter_mut().zip(b) {
            for (a, b) in a.iter_mut().zip(b) {
                *a ^= *b & mask;
            }
        }
        for (a, b) in a_rest.iter_mut().zip(b_rest) {
            *a ^= *b & mask;
        }
    }
}

/// Stages of the transposition of 64 by 64 bits, eight matrices side by side.
#[inline(always)]
fn turn_64(a: &mut [Lanes; 64]) {
    let mut width = 32;
    let mut mask: u64 = 0x0000_0000_ffff_ffff;
    while width > 0 {
        for pair in a.chunks_exact_mut(2 * width) {
            let (lo, hi) = pair.split_at_mut(width);
            for (x, y) in lo.iter_mut().zip(hi) {
                for (x, y) in x.iter_mut().zip(y) {
                    let t = ((*x >> width) ^ *y) & mask;
                    *y ^= t;
                    *x ^= t << width;
                }
            }
        }
        width /= 2;
        mask ^= mask << width;
    }
}

for_each_width! {
    fn turn(columns: &[u8], stride: usize, rows: &mut [u128]) {
        let mut halves = Zeroizing::new([[[0u64; 8]; 64]; 2]);
        for (g, rows) in rows.chunks_exact_mut(ROWS).enumerate() {
            for (h, half) in halves.iter_mut().enumerate() {
                for (c, lanes) in half.iter_mut().enumerate() {
                    let start = (64 * h + c) * stride + g * ROWS / 8;
                    let bytes = &columns[start..start + ROWS / 8];
                    for (lane, b) in lanes.iter_mut().zip(bytes.chunks_exact(8)) {
                        let mut word = [0; 8];
                        word.copy_from_slice(b);
                        *lane = u64::from_le_bytes(word);
                    }
                }
                turn_64(half);
            }
            let [low, high] = &*halves;
            for (l, rows) in rows.chunks_exact_mut(64).enumerate() {
                for ((row, low), high) in rows.iter_mut().zip(low).zip(high) {
                    *row = u128::from(low[l]) | u128::from(high[l]) << 64;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(len: usize, seed: u64) -> Vec<u8> {
        let mut x = seed;
        (0..len)
            .map(|_| {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (x >> 56) as u8
            })
            .collect()
    }

    #[test]
    fn every_bit_moves_to_its_mirror_place() {
        for (rows, stride) in [(0, 0), (512, 64), (1024, 128), (1024, 131)] {
            let columns = noise(COLUMNS * stride, 3);
            for blocks in Blocks::available() {
                let mut got = vec![0u128; rows];
                blocks.transpose(&columns, stride, &mut got);
                for (r, row) in got.iter().enumerate() {
                    for c in 0..COLUMNS {
                        let bit = columns[c * stride + r / 8] >> (r % 8) & 1;
                        assert_eq!((row >> c) as u8 & 1, bit, "{blocks:?} row {r} column {c}");
                    }
                }
            }
        }
    }

    #[test]
    fn masked_sums_take_the_bits_of_the_mask() {
        let (a, b) = (noise(150, 1), noise(150, 2));
        for blocks in Blocks::available() {
            for mask in [0, u8::MAX, 0x5a] {
                let mut got = a.clone();
                blocks.xor_masked(&mut got, &b, mask);
                let want: Vec<u8> = a.iter().zip(&b).map(|(a, b)| a ^ b & mask).collect();
                assert_eq!(got, want);
            }
            let mut got = a.clone();
            blocks.xor_into(&mut got, &b);
            assert!(got.iter().zip(&a).zip(&b).all(|((g, a), b)| *g == a ^ b));
        }
    }
}
