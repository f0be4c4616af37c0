//! The 0/1 masks of the scan, encoded once and reused by every run.

use crate::{KernelError, SlotDomain};
use cipherloom_spec::schedule::ScanSchedule;

/// Encoded masks of rows or column groups for products at one level.
pub(super) struct MaskSet<P> {
    level: usize,
    copies: usize,
    masks: Vec<Option<P>>,
}

impl<P> MaskSet<P> {
    /// Level of the ciphertexts that the masks multiply.
    pub(super) fn level(&self) -> usize {
        self.level
    }

    /// Copies of a tile that are combined into one expansion.
    pub(super) fn copies(&self) -> usize {
        self.copies
    }

    pub(super) fn get(&self, index: usize) -> Result<&P, KernelError> {
        self.masks
            .get(index)
            .and_then(Option::as_ref)
            .ok_or(KernelError::Order {
                op: "scan mask",
                detail: "a mask that no step needs was asked for",
            })
    }
}

/// Masks of the rows that expanding a row tile from its copies reads.
pub(super) fn expand_rows<D: SlotDomain>(
    d: &D,
    s: &ScanSchedule,
    level: usize,
) -> Result<MaskSet<D::Plain>, KernelError> {
    let (rows, q) = (s.layout().rows(), s.row_copies());
    let needed = |row: usize| (0..q).any(|copy| (row + copy) % rows < s.steps());
    rows_where(d, s, level, needed)
}

/// Masks of the rows that folding products into an output tile reads.
pub(super) fn fold_rows<D: SlotDomain>(
    d: &D,
    s: &ScanSchedule,
    level: usize,
) -> Result<MaskSet<D::Plain>, KernelError> {
    let (rows, q) = (s.layout().rows(), s.row_copies());
    let needed = |row: usize| (0..q).any(|part| (row + rows - part) % rows < s.steps());
    rows_where(d, s, level, needed)
}

fn rows_where<D: SlotDomain>(
    d: &D,
    s: &ScanSchedule,
    level: usize,
    needed: impl Fn(usize) -> bool,
) -> Result<MaskSet<D::Plain>, KernelError> {
    let l = s.layout();
    let masks = (0..l.rows())
        .map(|row| encode(d, needed(row), || l.row_mask(row), level))
        .collect::<Result<_, _>>()?;
    Ok(MaskSet {
        level,
        copies: s.row_copies(),
        masks,
    })
}

/// Masks of the column groups that expanding a column tile reads.
pub(super) fn expand_columns<D: SlotDomain>(
    d: &D,
    s: &ScanSchedule,
    level: usize,
) -> Result<MaskSet<D::Plain>, KernelError> {
    let (l, q) = (s.layout(), s.column_copies());
    let masks = (0..l.rows())
        .map(|group| encode(d, group / q * q < s.steps(), || l.group_mask(group), level))
        .collect::<Result<_, _>>()?;
    Ok(MaskSet {
        level,
        copies: q,
        masks,
    })
}

fn encode<D: SlotDomain>(
    d: &D,
    needed: bool,
    mask: impl Fn() -> Vec<f64>,
    level: usize,
) -> Result<Option<D::Plain>, KernelError> {
    needed
        .then(|| d.encode_real_factor(&mask(), level))
        .transpose()
}
