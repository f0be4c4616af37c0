//! `H(x, i) = AES_{S xor i}(x) xor x`: one key schedule for each index.

use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use aes::Aes128Enc;
use std::mem::ManuallyDrop;

use super::Blocks;

impl Blocks {
    /// Replaces the blocks of each row, row e having index `first + step e`, by their hashes: `x` becomes `AES_k(x) xor x` for
    /// `k = key xor index`. Blocks are little-endian words. The keys are public: their schedules are not wiped.
    pub fn hash_each<const N: usize>(
        self,
        key: u128,
        (first, step): (u64, u64),
        rows: &mut [[u128; N]],
    ) {
        let done = self.hash_wide(key, (first, step), rows);
        for (e, row) in rows.iter_mut().enumerate().skip(done) {
            hash_row(key ^ u128::from(index(first, step, e)), row);
        }
    }

    /// The first rows, as many as go with wide registers. Returns how many.
    fn hash_wide<const N: usize>(
        self,
        key: u128,
        (first, step): (u64, u64),
        rows: &mut [[u128; N]],
    ) -> usize {
        #[cfg(target_arch = "x86_64")]
        if self.wide_aes {
            return super::vaes::hash_each(key, (first, step), rows);
        }
        let _ = (key, first, step, rows);
        0
    }
}

pub(super) fn index(first: u64, step: u64, e: usize) -> u64 {
    first.wrapping_add(step.wrapping_mul(e as u64))
}

fn hash_row<const N: usize>(key: u128, row: &mut [u128; N]) {
    let cipher = ManuallyDrop::new(Aes128Enc::new(&Array(key.to_le_bytes())));
    let mut blocks = row.map(u128::to_le_bytes);
    cipher.encrypt_blocks(Array::cast_slice_from_core_mut(&mut blocks));
    for (x, b) in row.iter_mut().zip(&blocks) {
        *x ^= u128::from_le_bytes(*b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aes::Aes128;

    fn check<const N: usize>(blocks: Blocks, len: usize, (first, step): (u64, u64)) {
        let key = 0x0123_4567_89ab_cdef_0011_2233_4455_6677_u128;
        let mut x = 1u128;
        let mut next = || {
            x = x.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645) ^ 0x1d;
            x ^ (x >> 64)
        };
        let input: Vec<[u128; N]> = (0..len).map(|_| std::array::from_fn(|_| next())).collect();
        let mut got = input.clone();
        blocks.hash_each(key, (first, step), &mut got);
        for (e, (got, input)) in got.iter().zip(&input).enumerate() {
            let i = first.wrapping_add(step.wrapping_mul(e as u64));
            let cipher = Aes128::new(&Array((key ^ u128::from(i)).to_le_bytes()));
            for (got, x) in got.iter().zip(input) {
                let mut b = Array(x.to_le_bytes());
                cipher.encrypt_block(&mut b);
                assert_eq!(
                    *got,
                    u128::from_le_bytes(b.0) ^ x,
                    "{blocks:?} {N} {e} of {len}"
                );
            }
        }
    }

    #[test]
    fn hashes_are_those_of_the_cipher_for_all_shapes() {
        for blocks in Blocks::available() {
            for len in (0..18).chain([64, 131]) {
                for at in [(0, 1), (5, 3), (u64::MAX - 6, 4)] {
                    check::<1>(blocks, len, at);
                    check::<2>(blocks, len, at);
                    check::<3>(blocks, len, at);
                    check::<4>(blocks, len, at);
                    check::<5>(blocks, len, at);
                    check::<8>(blocks, len, at);
                    check::<16>(blocks, len, at);
                    check::<32>(blocks, len, at);
                }
            }
        }
    }
}
