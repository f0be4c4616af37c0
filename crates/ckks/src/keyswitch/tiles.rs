//! Columns of polynomials: the order in which base conversion and the outer layers of the NTT meet in the cache.
//!
//! A polynomial of N coefficients is a matrix of `rows` rows (see `cipherloom_ring::NttTable::rows`). A tile is a range of columns
//! of all rows. Base conversion works on one coefficient at a time over all limbs, the outer layers of a transform on
//! one column of one limb, the inner layers on one row of one limb. So conversions and outer layers run
//! tile by tile, over all limbs, and inner layers row by row: a limb goes through memory once between them.

use cipherloom_ring::{Ahead, NttTable, Pieces};

/// Most columns of a tile. Eight rows of 256 words are 16 KiB.
const COLUMNS: usize = 256;
/// Words between limbs that are read together, beyond their size: keeps them out of the same cache sets.
const PAD: usize = 8;

/// How polynomials of one degree are cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiling {
    pub rows: usize,
    /// Words of a row.
    pub row: usize,
    pub columns: usize,
    /// Words of a tile.
    pub tile: usize,
    /// Tiles of a polynomial.
    pub count: usize,
}

impl Tiling {
    pub(super) fn new(table: &NttTable) -> Self {
        let (n, rows) = (table.n(), table.rows());
        let row = n / rows;
        let columns = row.min(COLUMNS);
        Self {
            rows,
            row,
            columns,
            tile: rows * columns,
            count: row / columns,
        }
    }

    /// Words from one limb to the next where conversions read them.
    pub(super) fn stride(&self) -> usize {
        self.rows * self.row + PAD
    }

    /// Limb and row after row `s` of limb `i`, while there are limbs below `limbs`.
    pub(super) fn next_row(&self, i: usize, s: usize, limbs: usize) -> Option<(usize, usize)> {
        if s + 1 < self.rows {
            Some((i, s + 1))
        } else {
            (i + 1 < limbs).then_some((i + 1, 0))
        }
    }

    /// Row `s` in the tiles of a limb, which lie `step` words apart in `tiles`.
    pub(super) fn row_pieces<'a>(&self, tiles: &'a [u64], step: usize, s: usize) -> Pieces<'a> {
        Pieces::new(&tiles[s * self.columns..], self.columns, step)
    }

    /// Says that the pieces of [`Tiling::row_pieces`] with the same arguments will be read.
    pub(super) fn announce_row<'a>(
        &self,
        tiles: &'a [u64],
        step: usize,
        s: usize,
        ahead: &mut Ahead<'a>,
    ) {
        ahead.push_pieces(&tiles[s * self.columns..], self.columns, step);
    }
}
