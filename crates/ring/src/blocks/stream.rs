//! AES-128 in counter mode: the streams of tree leaves.

use aes::cipher::{Array, Block, BlockCipherEncrypt, KeyInit};
use aes::Aes128Enc;
use zeroize::{Zeroize, ZeroizeOnDrop};

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

impl StreamKey {
    /// Writes blocks `first` and on of the stream: block i is the encryption of i as a little-endian word. The length of `out` is a
    /// multiple of 16.
    ///
    /// # Panics
    /// For another length.
    pub fn fill(&self, first: u64, out: &mut [u8]) {
        assert!(out.len().is_multiple_of(16), "whole blocks of a stream");
        #[cfg(target_arch = "x86_64")]
        if self.blocks.wide_aes {
            return super::vaes::fill(&self.rounds, first, out);
        }
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

    #[test]
    fn streams_are_encrypted_counters() {
        for blocks in Blocks::available() {
            for (seed, first) in [(0u128, 0u64), (u128::MAX / 3, 77), (9, u64::MAX - 1)] {
                let key = blocks.stream_key(seed);
                for count in [0, 1, 3, 4, 31, 32, 33, 64, 100] {
                    let mut out = vec![1u8; 16 * count];
                    key.fill(first, &mut out);
                    let cipher = Aes128::new(&Array(seed.to_le_bytes()));
                    for (i, got) in out.chunks_exact(16).enumerate() {
                        let counter = u128::from(first.wrapping_add(i as u64));
                        let mut b = Array(counter.to_le_bytes());
                        cipher.encrypt_block(&mut b);
                        assert_eq!(got, b.0, "{blocks:?} block {i} of {count}");
                    }
                }
            }
        }
    }
}
