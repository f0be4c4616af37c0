//! Public index maps from a vector of values to slots.

use crate::{BridgeError, SlotWords};

/// Map entry of a slot that holds no value; it gets the default (zero) word.
pub const NO_VALUE: u32 = u32::MAX;

/// `out[j] = words[map[j]]`, or zero where `map[j]` is [`NO_VALUE`]. Local; the map is public (part of the plan).
///
/// One value may fill many slots: extend each value once, then arrange.
///
/// # Errors
/// `Index` when an entry is outside `words`.
pub fn arrange<W: Copy + Default>(words: &[W], map: &[u32]) -> Result<Vec<W>, BridgeError> {
    map.iter()
        .enumerate()
        .map(|(slot, &index)| {
            if index == NO_VALUE {
                return Ok(W::default());
            }
            words
                .get(index as usize)
                .copied()
                .ok_or(BridgeError::Index {
                    slot,
                    index,
                    len: words.len(),
                })
        })
        .collect()
}

/// Where the slots of one ciphertext take their values from: an index a slot, or [`NO_VALUE`]. An empty imaginary map
/// stands for zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotMap {
    /// Real lane.
    pub re: Vec<u32>,
    /// Imaginary lane.
    pub im: Vec<u32>,
}

/// Arranges integer shares into the slots of several ciphertexts. Local.
///
/// # Errors
/// `Index` when an entry is outside `words`; `Length` when the lanes of a map differ.
pub fn arrange_slots(words: &[i128], maps: &[SlotMap]) -> Result<Vec<SlotWords>, BridgeError> {
    maps.iter()
        .map(|m| SlotWords::new(arrange(words, &m.re)?, arrange(words, &m.im)?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_replicate_and_gaps_are_zero() {
        assert_eq!(
            arrange(&[7u64, 9], &[1, NO_VALUE, 0, 1]).unwrap(),
            vec![9, 0, 7, 9]
        );
        assert!(matches!(
            arrange(&[7i128, 9], &[0, 2]),
            Err(BridgeError::Index {
                slot: 1,
                index: 2,
                len: 2
            })
        ));
    }
}
