//! The index of the largest of `n` shared words: a tournament of neighbours (docs/protocols/answer.md).
//!
//! A round of `p` pairs is one comparison of `p` differences with zero and one mux of their differences in value and in
//! index; an odd word moves up unchanged. Neighbours stay in order, so among equal words the lowest index wins. The last
//! round selects an index only, since nobody needs the largest value.
//!
//! For `n` words whose differences take `l = int_bits + frac` bits beside the sign, with `D` digits (`super::compare`):
//!
//! - `ceil(log2 n)` rounds, `n - 1` comparisons, `2 n - 3` muxes (none for one word);
//! - `(n - 1)(l + 2 (D - 1)) + 2 (2 n - 3)` COTs;
//! - a round has `2 ceil(log2 D) + 5` flights: choices and answer of the digits, the AND layers, the two steps of the mux.

use crate::{CompareFormat, Domain, MpcError, Shares, TwoParty};
use cipherloom_spec::FracBits;

/// Bits of the ring in which an index below `n` is opened: `ceil(log2 n)`, and one for a single word.
#[must_use]
pub fn index_bits(n: usize) -> u32 {
    n.saturating_sub(1).checked_ilog2().map_or(1, |k| k + 1)
}

impl TwoParty {
    /// Shares modulo 2^64 of the index of the largest word, the lowest among equals. Read modulo `2^index_bits(n)` it may
    /// be opened to the client.
    ///
    /// The words may live in any ring `Z_2^w` with `w >= 1 + int_bits + frac` (logits: `Z_2^32`). `int_bits` declares that
    /// all differences are below `2^int_bits` in absolute value; all fraction bits are compared, so the index is exact and
    /// a function of the words, not of how they are shared. Differences beyond the bound compare wrongly, and the
    /// result is still one of the indices (protocols.md R20).
    ///
    /// Cost: see the module; [`crate::CostModel::argmax`] gives bytes. One word costs nothing.
    ///
    /// # Errors
    /// `Length` for no word; `Format` when `1 + int_bits + frac` exceeds 64; transport errors.
    pub fn argmax(&mut self, x: &Shares, int_bits: u32) -> Result<Shares, MpcError> {
        let op = "argmax";
        if x.is_empty() {
            return Err(MpcError::Length {
                op,
                left: 0,
                right: 1,
            });
        }
        let format = CompareFormat {
            kept_frac: x.frac.0,
            int_bits,
        };
        let positions: Vec<u64> = (0..x.len() as u64).collect();
        let mut index = self.add_public(&Shares::zeros(x.len(), FracBits(0)), &positions)?;
        let mut value = x.clone();
        while index.len() > 1 {
            let (low, high) = neighbours(&value);
            let (low_index, high_index) = neighbours(&index);
            // The higher index wins only when its word is strictly larger.
            let wins = self.less_than(&low.minus(&high)?, &[0.0], format)?;
            let [wins] = &wins[..] else {
                return Err(MpcError::Length {
                    op,
                    left: wins.len(),
                    right: 1,
                });
            };
            let step = high_index.minus(&low_index)?;
            if index.len() == 2 {
                let moved = self.mux(&[(wins, &step)])?;
                return advance(&index, &low_index, &moved, 0);
            }
            let rise = high.minus(&low)?;
            let moved = self.mux(&[(wins, &step), (wins, &rise)])?;
            index = advance(&index, &low_index, &moved, 0)?;
            value = advance(&value, &low, &moved, 1)?;
        }
        Ok(index)
    }
}

/// Words at even positions and their right neighbours; an odd last word is in neither.
fn neighbours(x: &Shares) -> (Shares, Shares) {
    let side = |k: usize| Shares {
        v: x.v.chunks_exact(2).map(|pair| pair[k]).collect(),
        frac: x.frac,
    };
    (side(0), side(1))
}

/// The winners `low + moved[k]`, and the odd last word of `all` after them.
fn advance(all: &Shares, low: &Shares, moved: &[Shares], k: usize) -> Result<Shares, MpcError> {
    let moved = moved.get(k).ok_or(MpcError::Index {
        index: k,
        len: moved.len(),
    })?;
    let mut out = low.plus(moved)?;
    out.v.extend_from_slice(all.v.chunks_exact(2).remainder());
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::index_bits;

    #[test]
    fn an_index_takes_the_bits_of_the_largest_one() {
        for (n, bits) in [
            (1, 1),
            (2, 1),
            (3, 2),
            (4, 2),
            (5, 3),
            (1000, 10),
            (1024, 10),
        ] {
            assert_eq!(index_bits(n), bits, "{n}");
        }
    }
}
