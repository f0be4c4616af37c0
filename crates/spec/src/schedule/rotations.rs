//! The rotations that the scan needs keys for.

use super::copies::copy_groups;
use super::{Carry, ScanSchedule};
use crate::layout::ScanLayout;
use crate::SpecError;
use std::collections::BTreeSet;

impl ScanSchedule {
    /// Row distances by which a row tile is doubled after the copies: left rotations by that many rows.
    #[must_use]
    pub fn row_doublings(&self) -> Vec<usize> {
        doublings(self.row_copies, self.layout.rows())
    }

    /// Column-group distances by which a column tile is doubled after the copies; the side depends on the step.
    #[must_use]
    pub fn column_doublings(&self) -> Vec<usize> {
        doublings(self.column_copies, self.layout.rows())
    }

    /// Segment distances of the composition over segments (Kogge-Stone): 1, 2, 4, .. S/2.
    #[must_use]
    pub fn segment_distances(&self) -> Vec<usize> {
        doublings(1, self.layout.segments())
    }

    /// All left rotations of the schedule in slots, `1..slots`, ascending: the key list.
    #[must_use]
    pub fn rotations(&self) -> Vec<usize> {
        let l = self.layout;
        let used = self.steps().min(l.rows());
        let (row, w, n) = (l.row_stride(), l.replicas(), l.slots());
        let mut set = BTreeSet::new();
        for (_, distances) in copy_groups(self.row_copies) {
            set.extend(distances.iter().map(|d| d * row));
        }
        set.extend(self.row_doublings().iter().map(|d| d * row));
        for (_, distances) in copy_groups(self.column_copies) {
            set.extend(distances.iter().map(|d| d * w));
        }
        if self.column_copies > 1 {
            set.insert(n - self.column_copies * w);
        }
        for d in self.column_doublings() {
            set.insert(n - d * w);
            if used > d {
                set.insert(d * w);
            }
        }
        for d in self.segment_distances() {
            set.insert(n - d * l.channels());
        }
        set.into_iter().map(|r| r % n).filter(|&r| r != 0).collect()
    }
}

fn doublings(from: usize, to: usize) -> Vec<usize> {
    std::iter::successors(Some(from), |d| Some(2 * d))
        .take_while(|&d| d < to)
        .collect()
}

/// The rotation key list of a scan: left rotations in slots, ascending.
///
/// # Errors
/// As [`ScanSchedule::new`].
pub fn scan_rotations(
    layout: ScanLayout,
    tokens: usize,
    block: usize,
    carry: Carry,
) -> Result<Vec<usize>, SpecError> {
    Ok(ScanSchedule::new(layout, tokens, block, carry)?.rotations())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fixture_needs_twelve_keys() {
        let l = ScanLayout::new(8, 16, 128).unwrap();
        let r = scan_rotations(l, 128, 128, Carry::Serial).unwrap();
        // copies 1..4 columns of 16 and rows of 2048, then segments 8, 4, 2, 1 to the right
        let want = [
            16, 32, 48, 64, 2048, 4096, 6144, 8192, 15360, 15872, 16128, 16256,
        ];
        assert_eq!(r, want);
    }
}
