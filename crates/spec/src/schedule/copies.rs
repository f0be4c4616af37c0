//! How a compact tile is expanded step by step, and how many rotated copies make that cheapest.
//!
//! A tile holds one value a row (or column group) and step. The expansion of step `r` must hold that step's value
//! in all of them. Masking and doubling costs `log2 R` rotations a step. Instead the tile is rotated once into `q`
//! copies, shared by all steps: entry `i` of the expansion is entry `r = i + d` of the tile, so it is read from copy
//! `d` under a 0/1 mask, and `q` masked copies added up need one rescale and no rotation. `log2(R / q)` doublings
//! spread the result when `q < R`.

/// Most copies of one tile in one direction: bounds the memory of large states.
pub const MAX_COPIES: usize = 16;

/// Rotations to expand `used` steps of a row tile of `rows` rows from `q` copies (also: to fold `used` products into a tile).
#[must_use]
pub fn row_rotations(rows: usize, used: usize, q: usize) -> usize {
    q - 1 + used * (rows / q).trailing_zeros() as usize
}

/// Rotations to expand `used` steps of a column tile from `q` copies in each direction. Column groups do not wrap around
/// (the neighbour is another segment or row), so copies are needed to both sides.
#[must_use]
pub fn column_rotations(rows: usize, used: usize, q: usize) -> usize {
    let copies = if q > 1 { 2 * q - 1 } else { 0 };
    copies + used * (rows / q).trailing_zeros() as usize
}

/// The power of two up to [`MAX_COPIES`] with the fewest rotations; of equals the larger, whose copies share one
/// key-switch decomposition.
fn best(rows: usize, cost: impl Fn(usize) -> usize) -> usize {
    let mut best = 1;
    let mut q = 1;
    while q <= rows.min(MAX_COPIES) {
        if cost(q) <= cost(best) {
            best = q;
        }
        q *= 2;
    }
    best
}

/// Best number of copies of a row tile of which `used` steps are expanded.
#[must_use]
pub fn best_row_copies(rows: usize, used: usize) -> usize {
    best(rows, |q| row_rotations(rows, used, q))
}

/// Best number of copies to each side of a column tile of which `used` steps are expanded.
#[must_use]
pub fn best_column_copies(rows: usize, used: usize) -> usize {
    best(rows, |q| column_rotations(rows, used, q))
}

/// How the copies `1..q` follow from copy 0 with few keys: groups of (source copy, distances), each group one hoisted
/// rotation. Distances have one nonzero base-4 digit, so `q = 64` needs 9 keys instead of 63.
#[must_use]
pub fn copy_groups(q: usize) -> Vec<(usize, Vec<usize>)> {
    (0..q)
        .filter_map(|source| {
            let below = lowest_digit(source).unwrap_or(usize::MAX);
            let mut distances = Vec::new();
            let mut unit = 1;
            while unit < below && unit < q {
                distances.extend((1..4).map(|c| c * unit).filter(|d| source + d < q));
                unit *= 4;
            }
            (!distances.is_empty()).then_some((source, distances))
        })
        .collect()
}

/// The weight of the lowest nonzero base-4 digit.
fn lowest_digit(v: usize) -> Option<usize> {
    (v != 0).then(|| 1 << (v.trailing_zeros() / 2 * 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_copy_is_made_once_from_an_earlier_one() {
        for q in 1..=64 {
            let mut have = vec![0];
            for (source, distances) in copy_groups(q) {
                assert!(
                    have.contains(&source),
                    "copy {source} of {q} does not exist yet"
                );
                have.extend(distances.iter().map(|d| source + d));
            }
            have.sort_unstable();
            assert_eq!(have, (0..q).collect::<Vec<_>>());
        }
        assert_eq!(copy_groups(8), [(0, vec![1, 2, 3, 4]), (4, vec![1, 2, 3])]);
        let mut keys: Vec<usize> = copy_groups(64).into_iter().flat_map(|g| g.1).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys, [1, 2, 3, 4, 8, 12, 16, 32, 48]);
    }

    #[test]
    fn copies_beat_doubling() {
        assert_eq!((best_row_copies(8, 8), best_column_copies(8, 8)), (8, 8));
        assert_eq!(row_rotations(8, 8, 8), 7);
        assert_eq!(column_rotations(8, 8, 8), 15);
        assert_eq!(row_rotations(8, 8, 1), 24);
        assert_eq!((best_row_copies(8, 1), best_column_copies(8, 1)), (2, 1));
        assert_eq!(best_row_copies(64, 64), MAX_COPIES);
    }
}
