//! The hash that turns correlated OTs into pads: `H(x, i) = AES_{S xor i}(x) xor x` (protocols.md R9; Guo, Katz,
//! Wang, Weng, Yu, ePrint 2019/1168). `S` is public and fresh for each session; an index `i` is used for one OT of each
//! direction (each has its own Delta), and there for every candidate input of that OT.

use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use aes::Aes128Enc;
use std::mem::ManuallyDrop;

/// The hash of one session.
#[derive(Clone)]
pub(crate) struct CotHash {
    s: u128,
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
        }
    }

    /// The key is public, so its schedule need not be wiped, which would cost as much as the encryption.
    #[inline]
    fn cipher(&self, index: u64) -> ManuallyDrop<Aes128Enc> {
        ManuallyDrop::new(Aes128Enc::new(&Array(
            (self.s ^ u128::from(index)).to_le_bytes(),
        )))
    }

    /// The hashes of `x`, all under one index, in place.
    #[inline]
    pub fn many<const N: usize>(&self, index: u64, x: [u128; N]) -> [u128; N] {
        let mut b = [[0u8; 16]; N];
        for (b, x) in b.iter_mut().zip(&x) {
            *b = x.to_le_bytes();
        }
        self.cipher(index)
            .encrypt_blocks(Array::cast_slice_from_core_mut(&mut b));
        let mut out = x;
        for (o, b) in out.iter_mut().zip(&b) {
            *o ^= u128::from_le_bytes(*b);
        }
        out
    }

    /// The hash of one input.
    #[inline]
    pub fn one(&self, index: u64, x: u128) -> u128 {
        self.many(index, [x])[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aes::Aes128;

    #[test]
    fn the_index_enters_the_key() {
        let s = 0x0123_4567_89ab_cdef_0011_2233_4455_6677_u128;
        let h = CotHash { s };
        for (x, i) in [(0u128, 0u64), (5, 1), (u128::MAX, u64::MAX)] {
            let mut b = Array(x.to_le_bytes());
            Aes128::new(&Array((s ^ u128::from(i)).to_le_bytes())).encrypt_block(&mut b);
            assert_eq!(h.one(i, x), u128::from_le_bytes(b.0) ^ x);
        }
        let many = h.many(7, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        for (k, v) in many.iter().enumerate() {
            assert_eq!(*v, h.one(7, k as u128 + 1));
        }
    }
}
