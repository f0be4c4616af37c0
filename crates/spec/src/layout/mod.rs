//! How the tensors of the state-space scan sit in slots.
//!
//! A scan ciphertext holds `R` state rows x `S` sequence segments x `CH` channels:
//! `slot(i, s, c) = i*S*CH + s*CH + c`. A row holds two state components as real and imaginary part
//! (protocols 3.7a), so `R = d_state / 2`. When one chunk of channels does not fill a ciphertext, `S`
//! segments of the sequence share it.

mod map;
mod tensors;

pub use map::{SlotMap, ZERO_SLOT};
pub use tensors::ScanTensors;

use crate::SpecError;
use serde::{Deserialize, Serialize};

/// Largest supported slot count.
const MAX_SLOTS: usize = 1 << 16;

/// Slot layout of one scan chunk: rows x segments x channels, all powers of two, channels at least rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawLayout", into = "RawLayout")]
pub struct ScanLayout {
    rows: usize,
    segments: usize,
    channels: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLayout {
    rows: usize,
    segments: usize,
    channels: usize,
}

impl From<ScanLayout> for RawLayout {
    fn from(l: ScanLayout) -> Self {
        Self {
            rows: l.rows,
            segments: l.segments,
            channels: l.channels,
        }
    }
}

impl TryFrom<RawLayout> for ScanLayout {
    type Error = SpecError;
    fn try_from(r: RawLayout) -> Result<Self, SpecError> {
        Self::new(r.rows, r.segments, r.channels)
    }
}

impl ScanLayout {
    /// A layout of `rows` complex state rows, `segments` sequence segments and `channels` channels.
    ///
    /// # Errors
    /// `Shape` when a factor is not a power of two, when the product is above 65536 slots, or when there are
    /// fewer channels than rows (a column map holds one step per `channels / rows` columns).
    pub fn new(rows: usize, segments: usize, channels: usize) -> Result<Self, SpecError> {
        for (name, v) in [
            ("rows", rows),
            ("segments", segments),
            ("channels", channels),
        ] {
            if !v.is_power_of_two() || v > MAX_SLOTS {
                return Err(shape(format!(
                    "{name} = {v} must be a power of two of at most {MAX_SLOTS}"
                )));
            }
        }
        if channels < rows {
            return Err(shape(format!(
                "{channels} channels are fewer than {rows} state rows; use a larger ring or wider chunks"
            )));
        }
        match rows
            .checked_mul(segments)
            .and_then(|v| v.checked_mul(channels))
        {
            Some(n) if n <= MAX_SLOTS => Ok(Self {
                rows,
                segments,
                channels,
            }),
            _ => Err(shape(format!(
                "{rows} rows x {segments} segments x {channels} channels exceed {MAX_SLOTS} slots"
            ))),
        }
    }

    /// The layout that fills `slots` slots for a state of `d_state` components and `inner` channels in `groups` groups:
    /// the widest power-of-two chunk that divides a group and fits, the rest of the slots as segments.
    ///
    /// # Errors
    /// `Shape` when a number is not a power of two where it must be, or a chunk would have fewer channels than rows.
    pub fn for_state(
        slots: usize,
        d_state: usize,
        inner: usize,
        groups: usize,
    ) -> Result<Self, SpecError> {
        if !slots.is_power_of_two() || slots > MAX_SLOTS {
            return Err(shape(format!(
                "{slots} slots must be a power of two of at most {MAX_SLOTS}"
            )));
        }
        if !d_state.is_power_of_two() || d_state < 2 {
            return Err(shape(format!(
                "d_state = {d_state} must be a power of two of at least 2"
            )));
        }
        if groups == 0 || inner == 0 || !inner.is_multiple_of(groups) {
            return Err(shape(format!(
                "{inner} channels do not divide into {groups} groups"
            )));
        }
        let rows = d_state / 2;
        if rows > slots {
            return Err(shape(format!(
                "{rows} state rows exceed {slots} slots; use a larger ring"
            )));
        }
        let divides = 1usize << (inner / groups).trailing_zeros().min(31);
        let channels = divides.min(slots / rows);
        Self::new(rows, slots / (rows * channels), channels)
    }

    /// Complex state rows `R`.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// Sequence segments `S`.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.segments
    }
    /// Channels `CH` of one chunk.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.channels
    }
    /// Real state components, `2 R`.
    #[must_use]
    pub fn d_state(&self) -> usize {
        2 * self.rows
    }
    /// Slots of a ciphertext, `R S CH`.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.rows * self.segments * self.channels
    }
    /// Distance in slots between neighbouring rows, `S CH`.
    #[must_use]
    pub fn row_stride(&self) -> usize {
        self.segments * self.channels
    }
    /// Columns that hold the same step in the maps of B and C, `w = CH / R`.
    #[must_use]
    pub fn replicas(&self) -> usize {
        self.channels / self.rows
    }
    /// Slot of row `i`, segment `s`, channel `c`.
    #[must_use]
    pub fn slot(&self, i: usize, s: usize, c: usize) -> usize {
        (i * self.segments + s) * self.channels + c
    }
    /// Row, segment and channel of a slot.
    #[must_use]
    pub fn place(&self, slot: usize) -> (usize, usize, usize) {
        let rest = slot / self.channels;
        (
            rest / self.segments,
            rest % self.segments,
            slot % self.channels,
        )
    }
    /// 0/1 vector of the slots of row `i`.
    #[must_use]
    pub fn row_mask(&self, i: usize) -> Vec<f64> {
        (0..self.slots())
            .map(|k| f64::from(u8::from(self.place(k).0 == i)))
            .collect()
    }
    /// 0/1 vector of the columns of group `g`: channels `g w .. (g+1) w` of every row and segment.
    #[must_use]
    pub fn group_mask(&self, g: usize) -> Vec<f64> {
        let w = self.replicas();
        (0..self.slots())
            .map(|k| f64::from(u8::from(self.place(k).2 / w == g)))
            .collect()
    }
}

pub(crate) fn shape(detail: String) -> SpecError {
    SpecError::Shape {
        what: "scan layout",
        detail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_models_get_the_designed_layouts() {
        let l = |n, ds, e| ScanLayout::for_state(n, ds, e, 1).unwrap();
        assert_eq!(l(16384, 16, 128), ScanLayout::new(8, 16, 128).unwrap());
        assert_eq!(l(8192, 16, 128), ScanLayout::new(8, 8, 128).unwrap());
        assert_eq!(l(32768, 128, 1536), ScanLayout::new(64, 1, 512).unwrap());
    }

    #[test]
    fn slots_and_places_are_inverse() {
        let l = ScanLayout::new(4, 2, 16).unwrap();
        for k in 0..l.slots() {
            let (i, s, c) = l.place(k);
            assert_eq!(l.slot(i, s, c), k);
        }
        assert_eq!(l.row_mask(1).iter().sum::<f64>(), 32.0);
        assert_eq!(l.group_mask(3)[12], 1.0);
        assert_eq!(l.group_mask(3)[11], 0.0);
    }

    #[test]
    fn impossible_shapes_are_refused() {
        assert!(ScanLayout::new(8, 1, 4).is_err());
        assert!(ScanLayout::new(3, 1, 8).is_err());
        assert!(ScanLayout::new(256, 256, 512).is_err());
        assert!(ScanLayout::for_state(1000, 16, 128, 1).is_err());
        assert!(ScanLayout::for_state(8192, 24, 128, 1).is_err());
        assert!(ScanLayout::for_state(8192, 128, 96, 1).is_err());
        assert!(ScanLayout::for_state(8192, 16, 128, 3).is_err());
        assert!(ScanLayout::for_state(8192, 16, 0, 1).is_err());
        let json = r#"{"rows":8,"segments":1,"channels":4}"#;
        assert!(serde_json::from_str::<ScanLayout>(json).is_err());
    }
}
