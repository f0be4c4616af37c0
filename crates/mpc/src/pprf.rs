//! Puncturable PRFs from base OTs: the key owner knows all `2^k` leaf seeds, the other party all but the one at its
//! secret point (GGM tree with one OT a level; Boyle et al., ePrint 2019/1159, as used by SoftSpoken OT).

use zeroize::{Zeroize, Zeroizing};

/// Two children of a node.
fn children(session: &[u8; 32], node: u128) -> [u128; 2] {
    let mut h = blake3::Hasher::new_derive_key("cipherloom 2026 GGM tree v1");
    h.update(session).update(&node.to_le_bytes());
    let mut out = Zeroizing::new([0u8; 32]);
    h.finalize_xof().fill(&mut *out);
    h.zeroize();
    let half = |r: std::ops::Range<usize>| {
        let mut b = [0u8; 16];
        b.copy_from_slice(&out[r]);
        u128::from_le_bytes(b)
    };
    [half(0..16), half(16..32)]
}

/// The owner's side: all leaves, and for each level the sums of its left and of its right nodes masked by the OT keys.
pub(crate) fn full(
    session: &[u8; 32],
    root: u128,
    keys: &[[u128; 2]],
) -> (Zeroizing<Vec<u128>>, Vec<[u128; 2]>) {
    let mut level = Zeroizing::new(vec![root]);
    let mut messages = Vec::with_capacity(keys.len());
    for key in keys {
        let mut next = Zeroizing::new(Vec::with_capacity(2 * level.len()));
        let mut sums = [0u128; 2];
        for &n in level.iter() {
            let c = children(session, n);
            sums[0] ^= c[0];
            sums[1] ^= c[1];
            next.extend_from_slice(&c);
        }
        messages.push([sums[0] ^ key[0], sums[1] ^ key[1]]);
        level = next;
    }
    (level, messages)
}

/// Which side of a level the punctured party must choose in its OT: the complement of the point's bit.
pub(crate) fn choice(point: u32, k: usize, level: usize) -> bool {
    (point >> (k - 1 - level)) & 1 == 0
}

/// The other side. Leaf `y` of the result is the leaf at position `y xor point`; leaf 0 is unknown and must not be used.
/// No branch and no index depends on the point.
pub(crate) fn punctured(
    session: &[u8; 32],
    point: u32,
    chosen_keys: &[u128],
    messages: &[[u128; 2]],
) -> Zeroizing<Vec<u128>> {
    let k = chosen_keys.len();
    let mut level = Zeroizing::new(vec![0u128]);
    for (j, (key, message)) in chosen_keys.iter().zip(messages).enumerate() {
        let bit = u128::from((point >> (k - 1 - j)) & 1).wrapping_neg();
        let mut next = Zeroizing::new(Vec::with_capacity(2 * level.len()));
        // Sum over the side away from the path, which is the odd relative positions.
        let mut odd = 0u128;
        for (y, &n) in level.iter().enumerate() {
            let [a, b] = children(session, n);
            let swap = (a ^ b) & bit;
            let (on, off) = (a ^ swap, b ^ swap);
            next.push(on);
            next.push(off);
            if y > 0 {
                odd ^= off;
            }
        }
        let off_path = message[1] ^ ((message[0] ^ message[1]) & bit);
        next[0] = 0;
        next[1] = off_path ^ key ^ odd;
        level = next;
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_leaves_but_the_punctured_one_agree() {
        let session = [1u8; 32];
        for k in [1usize, 2, 4, 8] {
            for point in [0u32, 1, (1 << k) - 1, (1 << k) / 3] {
                let keys: Vec<[u128; 2]> =
                    (0..k as u128).map(|i| [i * 3 + 7, i * 5 + 11]).collect();
                let (all, messages) = full(&session, 42, &keys);
                let chosen: Vec<u128> = (0..k)
                    .map(|j| keys[j][usize::from(choice(point, k, j))])
                    .collect();
                let got = punctured(&session, point, &chosen, &messages);
                assert_eq!(got.len(), 1 << k);
                for y in 1..1u32 << k {
                    assert_eq!(got[y as usize], all[(y ^ point) as usize], "k {k} y {y}");
                }
                assert_ne!(got[0], all[point as usize]);
            }
        }
    }
}
