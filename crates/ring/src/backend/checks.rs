//! What the SIMD backends check before they use pointers.

use super::Destination;
use crate::ntt::NttTable;

pub(super) fn check_row(table: &NttTable, quotient_bits: u32, s: usize, row: &[u64]) {
    assert_eq!(
        table.quotient_bits(),
        quotient_bits,
        "table of another backend"
    );
    assert!(s < table.rows(), "NTT row");
    assert_eq!(row.len(), table.n() / table.rows(), "NTT row length");
}

pub(super) fn check_tile(table: &NttTable, quotient_bits: u32, tile: &[u64]) {
    assert_eq!(
        table.quotient_bits(),
        quotient_bits,
        "table of another backend"
    );
    assert!(tile.len() <= table.n(), "NTT tile length");
    assert!(
        tile.len().is_multiple_of(8 * table.rows()),
        "NTT tile columns"
    );
}

/// `count` terms, each of `len` words from a multiple of `stride` on.
pub(super) fn check_terms(len: usize, terms: &[u64], stride: usize, count: usize) {
    let end = count.checked_sub(1).map_or(Some(0), |before| {
        before.checked_mul(stride)?.checked_add(len)
    });
    assert!(
        end.is_some_and(|end| end <= terms.len()),
        "terms of a conversion"
    );
}

/// The blocks of 8 of the outputs that the blocks of the rows go to.
pub(super) fn check_destination<'a>(
    out: &[&mut [u64]; 2],
    rows: [&[u64]; 2],
    add: Option<&[u64]>,
    to: Destination<'a>,
) -> &'a [u32] {
    let (n, len) = (to.automorphism.n(), rows[0].len());
    assert!(out.iter().all(|o| o.len() == n), "permuted limb");
    assert!(
        rows[1].len() == len && add.is_none_or(|a| a.len() == len) && len.is_multiple_of(8),
        "permuted rows"
    );
    assert!(
        to.offset.is_multiple_of(8) && to.offset <= n && len <= n - to.offset,
        "place of permuted rows"
    );
    &to.automorphism.destinations()[to.offset / 8..(to.offset + len) / 8]
}
