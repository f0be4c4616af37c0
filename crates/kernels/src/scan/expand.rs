//! Expansion of a compact tile, one step at a time: masked sums of rotated copies, then doublings.
//! See `cipherloom_spec::schedule::copies` for the cost.

use super::masks::MaskSet;
use crate::{KernelError, SlotDomain};
use cipherloom_spec::schedule::copies::copy_groups;
use cipherloom_spec::schedule::ScanSchedule;

/// Which way the tile's steps run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis {
    /// Step `r` sits in row `r` (x, decay); the expansion fills all rows.
    Rows,
    /// Step `r` sits in column group `r` (B, C); the expansion fills all groups of the same segment and row.
    Columns,
}

/// Expands the tiles of one tensor in step order; holds the copies of one tile.
pub(super) struct Expander<'a, D: SlotDomain> {
    d: &'a D,
    s: &'a ScanSchedule,
    axis: Axis,
    tiles: &'a [D::Ct],
    masks: &'a MaskSet<D::Plain>,
    open: Option<Copies<D::Ct>>,
}

struct Copies<C> {
    tile: usize,
    /// The tile at the level of the masks, when it had to be aligned.
    aligned: Option<C>,
    /// Copies 1.. of the tile, rotated to the left.
    left: Vec<C>,
    /// Columns only: copies 1.. of the tile that was rotated `q` groups to the right.
    right: Vec<C>,
}

impl<'a, D: SlotDomain> Expander<'a, D> {
    pub(super) fn new(
        d: &'a D,
        s: &'a ScanSchedule,
        axis: Axis,
        tiles: &'a [D::Ct],
        masks: &'a MaskSet<D::Plain>,
    ) -> Self {
        Self {
            d,
            s,
            axis,
            tiles,
            masks,
            open: None,
        }
    }

    /// The value of `step` in every row or column group; level: that of the masks minus 1.
    pub(super) fn expand(&mut self, step: usize) -> Result<D::Ct, KernelError> {
        let rows = self.s.layout().rows();
        let (tile, r) = (step / rows, step % rows);
        if self.open.as_ref().map(|c| c.tile) != Some(tile) {
            self.open = None;
            self.open = Some(self.copies(tile)?);
        }
        let copies = self.open.as_ref().ok_or(CLOSED)?;
        let base = copies
            .aligned
            .as_ref()
            .or(self.tiles.get(tile))
            .ok_or(CLOSED)?;
        let q = self.masks.copies();
        let mut terms = Vec::with_capacity(q);
        match self.axis {
            Axis::Rows => {
                for copy in 0..q {
                    let ct = if copy == 0 {
                        base
                    } else {
                        &copies.left[copy - 1]
                    };
                    terms.push((ct, self.masks.get((r + rows - copy) % rows)?));
                }
            }
            Axis::Columns => {
                let first = r / q * q;
                for group in first..first + q {
                    let ct = match r.cmp(&group) {
                        std::cmp::Ordering::Equal => base,
                        std::cmp::Ordering::Greater => &copies.left[r - group - 1],
                        std::cmp::Ordering::Less => &copies.right[q + r - group - 1],
                    };
                    terms.push((ct, self.masks.get(group)?));
                }
            }
        }
        let mut sum = self.d.mul_plain_sum(&terms)?;
        for rotation in self.doublings(r) {
            let turned = self.d.rotate(&sum, rotation)?;
            self.d.add_assign(&mut sum, &turned)?;
        }
        Ok(sum)
    }

    /// Frees the copies once `step` was the last one of its tile.
    pub(super) fn release_after(&mut self, step: usize) {
        if (step + 1).is_multiple_of(self.s.layout().rows()) || step + 1 == self.s.steps() {
            self.open = None;
        }
    }

    fn doublings(&self, r: usize) -> Vec<i64> {
        let l = self.s.layout();
        match self.axis {
            Axis::Rows => {
                let stride = l.row_stride() as i64;
                let all = self.s.row_doublings();
                all.iter().map(|&d| d as i64 * stride).collect()
            }
            Axis::Columns => {
                let w = l.replicas() as i64;
                // Into the neighbouring block of groups: to the right from an even block, to the left from an odd one.
                let signed = |d: usize| if r & d == 0 { -(d as i64) } else { d as i64 };
                let all = self.s.column_doublings();
                all.iter().map(|&d| signed(d) * w).collect()
            }
        }
    }

    fn copies(&self, tile: usize) -> Result<Copies<D::Ct>, KernelError> {
        let d = self.d;
        let given = self.tiles.get(tile).ok_or(CLOSED)?;
        let aligned = if d.level(given) == self.masks.level() {
            None
        } else {
            Some(d.align(given, self.masks.level())?)
        };
        let base = aligned.as_ref().unwrap_or(given);
        let q = self.masks.copies();
        let l = self.s.layout();
        let unit = match self.axis {
            Axis::Rows => l.row_stride(),
            Axis::Columns => l.replicas(),
        } as i64;
        let left = rotated_copies(d, base, q, unit)?;
        let right = if self.axis == Axis::Columns && q > 1 {
            let back = d.rotate(base, -(q as i64) * unit)?;
            rotated_copies(d, &back, q, unit)?
        } else {
            Vec::new()
        };
        Ok(Copies {
            tile,
            aligned,
            left,
            right,
        })
    }
}

const CLOSED: KernelError = KernelError::Order {
    op: "scan expansion",
    detail: "the step's tile does not exist or is not open",
};

/// `base` rotated to the left by `unit, 2 unit, .. (q-1) unit`.
fn rotated_copies<D: SlotDomain>(
    d: &D,
    base: &D::Ct,
    q: usize,
    unit: i64,
) -> Result<Vec<D::Ct>, KernelError> {
    let mut copies: Vec<Option<D::Ct>> = std::iter::repeat_with(|| None).take(q).collect();
    for (source, distances) in copy_groups(q) {
        let steps: Vec<i64> = distances.iter().map(|&k| k as i64 * unit).collect();
        let from = match source {
            0 => base,
            k => copies[k].as_ref().ok_or(CLOSED)?,
        };
        let turned = d.rotate_many(from, &steps)?;
        for (k, ct) in distances.iter().zip(turned) {
            copies[source + k] = Some(ct);
        }
    }
    Ok(copies.into_iter().flatten().collect())
}
