//! What the SIMD backends check before they use pointers.

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
