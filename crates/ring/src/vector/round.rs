//! Doubles to integers, and integers to residues.

use super::{for_each_width, Width};
use crate::backend::Backend;
use crate::modulus::Modulus;

/// Words that are reduced at a time: they stay in the first-level cache.
const BLOCK: usize = 512;

/// Values of [`round_scaled`] are below this in magnitude: 2^62.
pub const ROUND_LIMIT: f64 = (1u64 << 62) as f64;

/// 1.5 * 2^52: adding it leaves no fraction bits, and the low bits of the sum are the integer.
const MAGIC: f64 = 6_755_399_441_055_744.0;
const TWO32: f64 = 4_294_967_296.0;

for_each_width! {
    /// The largest `|x * factor|`; infinity if one of them is no number.
    pub fn largest_scaled(x: &[f64], factor: f64) -> f64 {
        // As bits: not-a-number and infinity are above every finite number, and the maximum has no order to keep.
        const LANES: usize = 16;
        let mut largest = [0u64; LANES];
        let chunks = x.chunks_exact(LANES);
        let rest = chunks.remainder();
        for chunk in chunks {
            for (m, &x) in largest.iter_mut().zip(chunk) {
                *m = (*m).max((x * factor).abs().to_bits());
            }
        }
        for (m, &x) in largest.iter_mut().zip(rest) {
            *m = (*m).max((x * factor).abs().to_bits());
        }
        let m = largest.iter().fold(0, |a, &b| a.max(b));
        f64::min(f64::from_bits(m), f64::INFINITY)
    }
}

for_each_width! {
    /// The integer nearest to each `x * factor`, ties to even, for products below [`ROUND_LIMIT`] in magnitude; others
    /// give unspecified integers. No branch. `out` and `x` have one length.
    pub fn round_scaled(out: &mut [i64], x: &[f64], factor: f64) {
        for (o, &x) in out.iter_mut().zip(x) {
            let x = x * factor;
            // The upper part is a multiple of 2^32 and the lower one below 2^32: both are exact, and only the lower one has
            // a fraction.
            let upper = x * (1.0 / TWO32) + MAGIC;
            let lower = (x - (upper - MAGIC) * TWO32) + MAGIC;
            let base = MAGIC.to_bits();
            let upper = upper.to_bits().wrapping_sub(base) << 32;
            *o = upper.wrapping_add(lower.to_bits().wrapping_sub(base)) as i64;
        }
    }
}

for_each_width! {
    /// Small signed values modulo q, which must be above 127: the residues in [0, q). Constant time in the values.
    fn bytes_above(out: &mut [u64], x: &[i8], q: u64) {
        for (o, &x) in out.iter_mut().zip(x) {
            let x = i64::from(x);
            *o = (x as u64).wrapping_add(q & (x >> 63) as u64);
        }
    }
}

/// Signed bytes modulo the prime: residues in [0, q). Constant time in the values. `out` and `x` have one length.
pub fn residues_of_bytes(width: Width, m: &Modulus, out: &mut [u64], x: &[i8]) {
    if m.value() > 128 {
        bytes_above(width, out, x, m.value());
    } else {
        for (o, &x) in out.iter_mut().zip(x) {
            *o = m.reduce_i64(i64::from(x));
        }
    }
}

for_each_width! {
    /// `out - (2^64 mod q)` modulo q where `x` is negative.
    fn negative_words(out: &mut [u64], x: &[i64], q: u64, two64: u64) {
        for (o, &x) in out.iter_mut().zip(x) {
            let sum = *o + ((q - two64) & (x >> 63) as u64);
            *o = sum.min(sum.wrapping_sub(q));
        }
    }
}

/// Any signed words modulo the prime: residues in [0, q). Constant time in the values. `out` and `x` have one length.
pub fn residues_of_words(
    width: Width,
    backend: &dyn Backend,
    m: &Modulus,
    out: &mut [u64],
    x: &[i64],
) {
    let two64 = m.reduce_u128(1 << 64);
    for (out, x) in out.chunks_mut(BLOCK).zip(x.chunks(BLOCK)) {
        // Negative ones are 2^64 too large as unsigned words.
        for (o, &x) in out.iter_mut().zip(x) {
            *o = x as u64;
        }
        backend.reduce_assign(m, out);
        negative_words(width, out, x, m.value(), two64);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::backend::SimdChoice;

    fn samples() -> Vec<f64> {
        let mut x = vec![0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994];
        let mut state = 1u64;
        for e in -60..62 {
            for _ in 0..40 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(99);
                let unit = 1.0 + (state >> 12) as f64 / (1u64 << 52) as f64;
                let sign = if state & 1 == 1 { -1.0 } else { 1.0 };
                x.push(sign * unit * f64::from(e).exp2());
                // Ties and their neighbours.
                x.push(sign * ((unit * f64::from(e).exp2()).floor() + 0.5));
            }
        }
        let edge = ROUND_LIMIT.next_down();
        x.extend([edge, -edge, f64::MIN_POSITIVE, 5e-324]);
        x
    }

    #[test]
    fn rounding_is_to_the_nearest_integer_ties_to_even() {
        let x = samples();
        for width in Width::available() {
            for factor in [1.0, 0.125] {
                let mut got = vec![0; x.len()];
                round_scaled(width, &mut got, &x, factor);
                for (&x, &got) in x.iter().zip(&got) {
                    let want = (x * factor).round_ties_even() as i64;
                    assert_eq!(got, want, "{x} {width:?}");
                }
            }
        }
    }

    #[test]
    fn the_largest_magnitude_is_found_and_no_number_counts_as_infinite() {
        for width in Width::available() {
            for at in [0, 5, 31, 33] {
                let mut x: Vec<f64> = (0..35).map(|i| f64::from(i) / 40.0).collect();
                x[at] = -3.5;
                assert_eq!(largest_scaled(width, &x, 2.0), 7.0);
                for bad in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e308] {
                    x[at] = bad;
                    assert_eq!(largest_scaled(width, &x, 100.0), f64::INFINITY);
                }
            }
            assert_eq!(largest_scaled(width, &[], 1.0), 0.0);
        }
    }

    #[test]
    fn bytes_become_residues() {
        let x: Vec<i8> = (-128..=127).chain([3, -3, 0]).collect();
        for q in [3u64, 97, 127, 131, 193, (1 << 50) - 27] {
            let m = Modulus::new(q).unwrap();
            let want: Vec<u64> = x
                .iter()
                .map(|&v| i64::from(v).rem_euclid(q as i64) as u64)
                .collect();
            for width in Width::available() {
                let mut got = vec![0; x.len()];
                residues_of_bytes(width, &m, &mut got, &x);
                assert_eq!(got, want, "{q}");
            }
        }
    }

    #[test]
    fn words_become_residues() {
        let mut x = vec![
            0,
            1,
            -1,
            i64::MAX,
            i64::MIN,
            i64::MIN + 1,
            1 << 52,
            -(1 << 52),
        ];
        let mut state = 7i64;
        for k in 0..1500 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(5);
            x.push(state >> (k % 64));
        }
        for q in [3u64, 97, 1_099_511_480_321, (1 << 50) - 27] {
            let m = Modulus::new(q).unwrap();
            x.extend([q as i64, -(q as i64)]);
            let want: Vec<u64> = x
                .iter()
                .map(|&v| i128::from(v).rem_euclid(i128::from(q)) as u64)
                .collect();
            for simd in [SimdChoice::Scalar, SimdChoice::Avx2, SimdChoice::Auto] {
                let Ok(backend) = simd.backend() else {
                    continue;
                };
                for width in Width::available() {
                    let mut got = vec![0; x.len()];
                    residues_of_words(width, &*backend, &m, &mut got, &x);
                    assert_eq!(got, want, "{q}");
                }
            }
        }
    }
}
