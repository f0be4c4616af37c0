//! The schedule of the encrypted scan: blocks, prefix order, expansions, rotations, depth. Pure arithmetic on shapes.
//!
//! The kernel executes this schedule; the plan describes its cost without the kernel.

pub mod brent_kung;
pub mod copies;
mod depth;
mod rotations;

pub use rotations::scan_rotations;

use crate::layout::ScanLayout;
use crate::SpecError;
use copies::{best_column_copies, best_row_copies};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// How the state is carried over the blocks of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carry {
    /// One block after the other: one composition deep a block.
    Serial,
    /// Brent-Kung prefix over the block summaries: logarithmic depth.
    BrentKung,
}

impl Carry {
    /// The name used on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Serial => "serial",
            Self::BrentKung => "brent-kung",
        }
    }
}

/// The checked shape of one scan: `T = tokens / S` steps a segment in blocks of `block / S` steps; the last may be short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanSchedule {
    layout: ScanLayout,
    tokens: usize,
    block_steps: usize,
    carry: Carry,
    row_copies: usize,
    column_copies: usize,
}

impl ScanSchedule {
    /// The schedule of `tokens` tokens in blocks of `block` tokens; a block longer than the sequence is one block.
    ///
    /// # Errors
    /// `Shape` when `tokens` or `block` is not a positive multiple of the layout's segments.
    pub fn new(
        layout: ScanLayout,
        tokens: usize,
        block: usize,
        carry: Carry,
    ) -> Result<Self, SpecError> {
        let s = layout.segments();
        for (name, v) in [("tokens", tokens), ("block", block)] {
            if v == 0 || !v.is_multiple_of(s) {
                return Err(SpecError::Shape {
                    what: "scan schedule",
                    detail: format!("{name} = {v} must be a positive multiple of {s} segments"),
                });
            }
        }
        let steps = tokens / s;
        let used = steps.min(layout.rows());
        Ok(Self {
            layout,
            tokens,
            block_steps: (block / s).min(steps),
            carry,
            row_copies: best_row_copies(layout.rows(), used),
            column_copies: best_column_copies(layout.rows(), used),
        })
    }

    /// Slot layout.
    #[must_use]
    pub fn layout(&self) -> ScanLayout {
        self.layout
    }
    /// Tokens, padding included.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.tokens
    }
    /// Carry topology.
    #[must_use]
    pub fn carry(&self) -> Carry {
        self.carry
    }
    /// Steps of a segment, `T`.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.tokens / self.layout.segments()
    }
    /// Steps of a full block.
    #[must_use]
    pub fn block_steps(&self) -> usize {
        self.block_steps
    }
    /// Blocks of a segment.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.steps().div_ceil(self.block_steps)
    }
    /// Steps of block `j`.
    #[must_use]
    pub fn block(&self, j: usize) -> Range<usize> {
        let end = ((j + 1) * self.block_steps).min(self.steps());
        (j * self.block_steps).min(end)..end
    }
    /// Tiles of `R` steps: ciphertexts of each packet tensor and of the output, a chunk.
    #[must_use]
    pub fn tiles(&self) -> usize {
        self.steps().div_ceil(self.layout.rows())
    }
    /// Rotated copies of a row tile (x, decay), and partial sums of an output tile.
    #[must_use]
    pub fn row_copies(&self) -> usize {
        self.row_copies
    }
    /// Rotated copies of a column tile (B, C) in each direction.
    #[must_use]
    pub fn column_copies(&self) -> usize {
        self.column_copies
    }
    /// Whether blocks are built twice: only when several segments share a ciphertext and there are several blocks, because
    /// the state that enters a segment is known only after the whole of the one before. With one segment every
    /// carry depends on earlier blocks only, and one pass over the tokens suffices.
    #[must_use]
    pub fn replays(&self) -> bool {
        self.layout.segments() > 1 && self.blocks() > 1
    }
    /// Levels between the packet and the output, masks included: the longest path of the schedule.
    #[must_use]
    pub fn depth(&self) -> usize {
        depth::depth(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(layout: (usize, usize, usize), l: usize, b: usize, c: Carry) -> ScanSchedule {
        let (r, s, ch) = layout;
        ScanSchedule::new(ScanLayout::new(r, s, ch).unwrap(), l, b, c).unwrap()
    }

    #[test]
    fn blocks_cover_the_steps_and_the_last_may_be_short() {
        let s = schedule((4, 2, 8), 22, 8, Carry::Serial);
        assert_eq!((s.steps(), s.blocks(), s.tiles()), (11, 3, 3));
        assert_eq!(s.block(0), 0..4);
        assert_eq!(s.block(2), 8..11);
        assert!(s.replays());
        assert_eq!(schedule((4, 2, 8), 22, 64, Carry::Serial).blocks(), 1);
    }

    #[test]
    fn lengths_must_be_multiples_of_the_segments() {
        let l = ScanLayout::new(4, 2, 8).unwrap();
        for (tokens, block) in [(0, 2), (3, 2), (4, 0), (4, 3)] {
            assert!(ScanSchedule::new(l, tokens, block, Carry::Serial).is_err());
        }
    }

    #[test]
    fn carries_have_their_command_line_names() {
        for c in [Carry::Serial, Carry::BrentKung] {
            assert_eq!(
                serde_json::to_string(&c).unwrap(),
                format!("{:?}", c.name())
            );
        }
    }

    #[test]
    fn depths_of_the_designed_shapes() {
        let fixture = (8, 16, 128);
        let base = (64, 1, 512);
        use Carry::{BrentKung, Serial};
        for (layout, l, b, carry, depth) in [
            (fixture, 16, 16, Serial, 9),
            (fixture, 64, 64, Serial, 11),
            (fixture, 128, 128, Serial, 12),
            (fixture, 512, 512, Serial, 14),
            (base, 2048, 1024, Serial, 22),
            (base, 4096, 512, Serial, 20),
            (base, 8192, 512, Serial, 28),
            (base, 8192, 256, Serial, 43),
            (base, 8192, 256, BrentKung, 21),
        ] {
            let d = schedule(layout, l, b, carry).depth();
            assert_eq!(d, depth, "L {l} B {b} {carry:?}");
        }
    }
}
