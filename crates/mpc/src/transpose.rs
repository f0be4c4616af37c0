//! Transposition of bit matrices.

/// In-place transpose of a 64 by 64 bit matrix: bit `c` of word `r` becomes bit `r` of word `c`.
fn transpose64(a: &mut [u64; 64]) {
    let mut width = 32;
    let mut mask: u64 = 0x0000_0000_ffff_ffff;
    while width > 0 {
        for pair in a.chunks_exact_mut(2 * width) {
            let (lo, hi) = pair.split_at_mut(width);
            for (x, y) in lo.iter_mut().zip(hi) {
                let t = ((*x >> width) ^ *y) & mask;
                *y ^= t;
                *x ^= t << width;
            }
        }
        width /= 2;
        mask ^= mask << width;
    }
}

/// Transposes 128 columns of 128 bits: bit `c` of `rows[r]` is bit `r` of `column(c)`.
pub(crate) fn transpose128(column: impl Fn(usize) -> u128, rows: &mut [u128; 128]) {
    let half = |from: usize, shift: u32| -> [u64; 64] {
        std::array::from_fn(|c| (column(c + from) >> shift) as u64)
    };
    let mut quarter = [half(0, 0), half(0, 64), half(64, 0), half(64, 64)];
    for q in &mut quarter {
        transpose64(q);
    }
    let (top, bottom) = rows.split_at_mut(64);
    let [a, b, c, d] = &quarter;
    for (rows, left, right) in [(top, a, c), (bottom, b, d)] {
        for ((row, l), r) in rows.iter_mut().zip(left).zip(right) {
            *row = u128::from(*l) | u128::from(*r) << 64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_moves_to_its_mirror_place() {
        let mut x = 1u128;
        let cols: Vec<u128> = (0..128)
            .map(|_| {
                x = x
                    .wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645)
                    .wrapping_add(99);
                x ^ (x >> 64)
            })
            .collect();
        let mut rows = [0u128; 128];
        transpose128(|c| cols[c], &mut rows);
        for (r, row) in rows.iter().enumerate() {
            for (c, col) in cols.iter().enumerate() {
                assert_eq!((row >> c) & 1, (col >> r) & 1);
            }
        }
    }
}
