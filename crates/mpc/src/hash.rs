//! The hash that turns correlated OTs into pads: `H(x, i) = AES_{S xor i}(x) xor x` (protocols.md R9; Guo, Katz,
//! Wang, Weng, Yu, ePrint 2019/1168). `S` is public and fresh for each session; an index `i` is used for one OT of each
//! direction (each has its own Delta), and there for every candidate input of that OT.

use crate::cot::GRAIN;
use cipherloom_ring::Blocks;
use rayon::prelude::*;

/// The hash of one session.
#[derive(Clone)]
pub(crate) struct CotHash {
    s: u128,
    blocks: Blocks,
}

impl CotHash {
    /// `S` from the public session id, to which both parties contributed a nonce.
    pub fn for_session(id: &[u8; 32]) -> Self {
        let mut h = blake3::Hasher::new_derive_key("cipherloom 2026 COT hash key v1");
        h.update(id);
        let mut s = [0u8; 16];
        h.finalize_xof().fill(&mut s);
        Self {
            s: u128::from_le_bytes(s),
            blocks: Blocks::detect(),
        }
    }

    /// Replaces every block of row e by its hash under the index `first + step e`.
    pub fn each<const N: usize>(&self, (first, step): (u64, u64), rows: &mut [[u128; N]]) {
        if rows.len() <= GRAIN {
            return self.blocks.hash_each(self.s, (first, step), rows);
        }
        rows.par_chunks_mut(GRAIN)
            .enumerate()
            .for_each(|(i, rows)| {
                let first = first + step * (i * GRAIN) as u64;
                self.blocks.hash_each(self.s, (first, step), rows);
            });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
    use aes::Aes128;

    #[test]
    fn the_index_enters_the_key() {
        let s = 0x0123_4567_89ab_cdef_0011_2233_4455_6677_u128;
        let h = CotHash {
            s,
            blocks: Blocks::detect(),
        };
        for (first, step, len) in [(0u64, 1u64, 1), (7, 4, 100), (1 << 40, 3, 2 * GRAIN + 5)] {
            let rows: Vec<[u128; 2]> = (0..len).map(|e| [e as u128, !(e as u128) << 9]).collect();
            let mut got = rows.clone();
            h.each((first, step), &mut got);
            for (e, (got, x)) in got.iter().zip(&rows).enumerate() {
                let i = first + step * e as u64;
                for (got, x) in got.iter().zip(x) {
                    let mut b = Array(x.to_le_bytes());
                    Aes128::new(&Array((s ^ u128::from(i)).to_le_bytes())).encrypt_block(&mut b);
                    assert_eq!(*got, u128::from_le_bytes(b.0) ^ x);
                }
            }
        }
    }
}
