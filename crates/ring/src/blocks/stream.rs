//! AES-128 in counter mode: the streams of tree leaves.

use aes::cipher::{Array, Block, BlockCipherEncrypt, KeyInit};
use aes::Aes128Enc;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::Blocks;

/// A secret key with its schedule. Wiped on drop.
pub struct StreamKey {
    cipher: Aes128Enc,
    /// The schedule again, for wide registers; empty where there are none.
    #[cfg(target_arch = "x86_64")]
    rounds: super::vaes::Schedule,
    blocks: Blocks,
}

impl ZeroizeOnDrop for StreamKey {}

impl Drop for StreamKey {
    fn drop(&mut self) {
        // The cipher wipes itself.
        #[cfg(target_arch = "x86_64")]
        self.rounds.zeroize();
    }
}

impl std::fmt::Debug for StreamKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StreamKey")
    }
}

impl Blocks {
    /// A key for streams that are made with these instructions.
    #[must_use]
    pub fn stream_key(self, seed: u128) -> StreamKey {
        StreamKey {
            cipher: Aes128Enc::new(&Array(seed.to_le_bytes())),
            #[cfg(target_arch = "x86_64")]
            rounds: if self.wide_aes {
                super::vaes::schedule(seed)
            } else {
                super::vaes::Schedule::default()
            },
            blocks: self,
        }
    }
}

/// The leaves of a tree, numbered from 0; their number is a power of two, at least 2.
#[derive(Clone, Copy, Debug)]
pub struct Leaves<'a> {
    /// A key each.
    pub keys: &'a [StreamKey],
    /// Leaf 0 is unknown: its key is not there, and all sums leave it out.
    pub without_first: bool,
}

impl Leaves<'_> {
    /// Bits of a leaf's number.
    fn bits(&self) -> usize {
        (self.keys.len() + usize::from(self.without_first)).ilog2() as usize
    }
}

impl Blocks {
    /// Sums (exclusive-ors) of pieces of the streams of leaves, from block `first` on: part b of `by_bit` becomes the sum of all
    /// leaves whose number has bit b, `total` the sum of all. Cost: one AES block for each leaf and 16 bytes of `total`.
    ///
    /// # Panics
    /// If the leaves are not `2^k` for 1 to 8 bits, `by_bit` has not k parts of the length of `total`, or that is no multiple of 16.
    pub fn leaf_sums(self, leaves: Leaves<'_>, first: u64, by_bit: &mut [u8], total: &mut [u8]) {
        let (count, k) = (
            leaves.keys.len() + usize::from(leaves.without_first),
            leaves.bits(),
        );
        assert!(
            count == 1 << k && (1..=8).contains(&k) && by_bit.len() == k * total.len(),
            "{count} leaves, sums of {} and {} bytes",
            by_bit.len(),
            total.len()
        );
        assert!(total.len().is_multiple_of(16), "whole blocks of a stream");
        #[cfg(target_arch = "x86_64")]
        if self.wide_aes && leaves.keys.iter().all(|k| k.blocks.wide_aes) {
            return super::vaes::leaf_sums(leaves, first, by_bit, total);
        }
        let mut piece = Zeroizing::new(vec![0u8; total.len()]);
        by_bit.fill(0);
        total.fill(0);
        for (x, key) in (usize::from(leaves.without_first)..).zip(leaves.keys) {
            key.fill(first, &mut piece);
            self.xor_into(total, &piece);
            for (b, sum) in by_bit.chunks_exact_mut(piece.len().max(1)).enumerate() {
                if x >> b & 1 == 1 {
                    self.xor_into(sum, &piece);
                }
            }
        }
    }
}

impl StreamKey {
    /// The schedule for wide registers.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn rounds(&self) -> &super::vaes::Schedule {
        &self.rounds
    }

    /// Writes blocks `first` and on of the stream: block i is the encryption of i as a little-endian word.
    fn fill(&self, first: u64, out: &mut [u8]) {
        // In place: no copy of the stream stays on the stack.
        let (blocks, _) = Block::<Aes128Enc>::slice_as_chunks_mut(out);
        for (i, b) in blocks.iter_mut().enumerate() {
            let counter = u128::from(first.wrapping_add(i as u64));
            b.copy_from_slice(&counter.to_le_bytes());
        }
        self.cipher.encrypt_blocks(blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aes::Aes128;

    /// A leaf's stream by the cipher alone.
    fn stream(seed: u128, first: u64, len: usize) -> Vec<u8> {
        let cipher = Aes128::new(&Array(seed.to_le_bytes()));
        let block = |i: usize| {
            let mut b = Array(u128::from(first.wrapping_add(i as u64)).to_le_bytes());
            cipher.encrypt_block(&mut b);
            b.0
        };
        (0..len / 16).flat_map(block).collect()
    }

    #[test]
    fn sums_of_leaves_are_those_of_encrypted_counters() {
        for blocks in Blocks::available() {
            for k in [1usize, 2, 4, 8] {
                for (len, first) in [
                    (0, 0u64),
                    (16, 5),
                    (48, u64::MAX - 1),
                    (256, 7),
                    (1024, 64),
                    (1104, 9),
                ] {
                    let seed =
                        |x: usize| (x as u128 + 1) * 0x1234_5678_9abc_def0_0fed_cba9_8765_4321;
                    let all: Vec<Vec<u8>> =
                        (0..1 << k).map(|x| stream(seed(x), first, len)).collect();
                    for without_first in [false, true] {
                        let from = usize::from(without_first);
                        let keys: Vec<_> =
                            (from..1 << k).map(|x| blocks.stream_key(seed(x))).collect();
                        let leaves = Leaves {
                            keys: &keys,
                            without_first,
                        };
                        let (mut by_bit, mut total) = (vec![1; k * len], vec![1; len]);
                        blocks.leaf_sums(leaves, first, &mut by_bit, &mut total);
                        let sum = |i: usize, with: &dyn Fn(usize) -> bool| {
                            let chosen = (from..1usize << k).filter(|&x| with(x));
                            chosen.fold(0, |s, x| s ^ all[x][i])
                        };
                        for i in 0..len {
                            assert_eq!(total[i], sum(i, &|_| true), "{blocks:?} {k} {len}");
                            for b in 0..k {
                                let want = sum(i, &|x| x >> b & 1 == 1);
                                assert_eq!(
                                    by_bit[b * len + i],
                                    want,
                                    "{blocks:?} {k} {len} bit {b}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }
}
