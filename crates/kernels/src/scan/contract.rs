//! Contraction of the states with C and folding into output tiles.
//!
//! The product `C h` of step `r` must be summed over the rows, and the sum of step `r` must land in row `r` of the output
//! tile: `M[r] = sum_i z_r[i] = sum_d z_r[r + d]`. So partial sum `d` collects row `r + d` of `z_r` under a
//! mask, for all steps of a tile, and the tile is `sum_d rot(partial_d, d rows)`: `q - 1` rotations a tile.

use super::expand::Expander;
use super::masks::MaskSet;
use crate::{KernelError, SlotDomain};
use cipherloom_spec::schedule::ScanSchedule;

pub(super) struct Contraction<'a, D: SlotDomain> {
    d: &'a D,
    s: &'a ScanSchedule,
    c: Expander<'a, D>,
    masks: &'a MaskSet<D::Plain>,
    partial: Vec<Option<D::Acc>>,
    outputs: Vec<D::Ct>,
}

impl<'a, D: SlotDomain> Contraction<'a, D> {
    pub(super) fn new(
        d: &'a D,
        s: &'a ScanSchedule,
        c: Expander<'a, D>,
        masks: &'a MaskSet<D::Plain>,
    ) -> Self {
        Self {
            d,
            s,
            c,
            masks,
            partial: std::iter::repeat_with(|| None)
                .take(masks.copies())
                .collect(),
            outputs: Vec::with_capacity(s.tiles()),
        }
    }

    /// Takes the state after `step`. The state is aligned to the lowest level that the output allows, where rotations
    /// and products are cheapest.
    pub(super) fn push(&mut self, step: usize, state: &D::Ct) -> Result<(), KernelError> {
        let d = self.d;
        let layout = self.s.layout();
        let rows = layout.rows();
        let stride = layout.row_stride() as i64;
        let level = self.masks.level() + 1;
        let c = self.c.expand(step)?;
        self.c.release_after(step);
        let mut z = if d.level(state) == level {
            d.mul(&c, state)?
        } else {
            d.mul(&c, &d.align(state, level)?)?
        };
        drop(c);
        for distance in self.s.row_doublings() {
            let turned = d.rotate(&z, distance as i64 * stride)?;
            d.add_assign(&mut z, &turned)?;
        }
        let r = step % rows;
        for (part, sum) in self.partial.iter_mut().enumerate() {
            d.accumulate(sum, &z, self.masks.get((r + part) % rows)?)?;
        }
        drop(z);
        if r + 1 == rows || step + 1 == self.s.steps() {
            self.close_tile(stride)?;
        }
        Ok(())
    }

    fn close_tile(&mut self, stride: i64) -> Result<(), KernelError> {
        let d = self.d;
        let mut tile: Option<D::Ct> = None;
        for sum in self.partial.iter_mut().rev() {
            let sum = d.finish(sum.take().ok_or(EMPTY)?)?;
            tile = Some(match tile.take() {
                None => sum,
                Some(so_far) => {
                    let mut turned = d.rotate(&so_far, stride)?;
                    drop(so_far);
                    d.add_assign(&mut turned, &sum)?;
                    turned
                }
            });
        }
        self.outputs.push(tile.ok_or(EMPTY)?);
        Ok(())
    }

    pub(super) fn into_outputs(self) -> Vec<D::Ct> {
        self.outputs
    }
}

const EMPTY: KernelError = KernelError::Order {
    op: "scan contraction",
    detail: "a tile was closed before a state reached it",
};
