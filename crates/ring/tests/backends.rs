//! Every backend agrees with the scalar reference bit for bit.
#![allow(clippy::unwrap_used, missing_docs)]
mod common;

use cipherloom_ring::backend::ScalarBackend;
use cipherloom_ring::{Ahead, Automorphism, Backend, Modulus, NttTable, RingError, SimdChoice};
use common::{backends, primes, Mix};
use proptest::prelude::*;
use std::sync::Arc;

/// Residues with the edge values 0, 1, q-1 mixed in.
fn edgy(mix: &mut Mix, q: u64, n: usize) -> Vec<u64> {
    (0..n)
        .map(|_| match mix.next() % 8 {
            0 => 0,
            1 => q - 1,
            2 => 1,
            _ => mix.next() % q,
        })
        .collect()
}

fn check_pointwise(b: &dyn Backend, m: &Modulus, mix: &mut Mix, n: usize) {
    let s = ScalarBackend;
    let q = m.value();
    let (x, y, z) = (edgy(mix, q, n), edgy(mix, q, n), edgy(mix, q, n));
    let w = m.shoup(mix.next());
    let both = |f: &dyn Fn(&dyn Backend, &mut [u64])| {
        let (mut u, mut v) = (x.clone(), x.clone());
        f(&s, &mut u);
        f(b, &mut v);
        assert_eq!(u, v);
        assert!(u.iter().all(|&r| r < q));
    };
    both(&|k, a| k.add_assign(m, a, &y));
    both(&|k, a| k.sub_assign(m, a, &y));
    both(&|k, a| k.neg_assign(m, a));
    both(&|k, a| k.mul_assign(m, a, &y));
    both(&|k, a| k.mul(m, a, &y, &z));
    both(&|k, a| k.mul_add(m, a, &y, &z));
    both(&|k, a| k.scalar_mul_assign(m, a, w));
    both(&|k, a| k.scalar_mul_add(m, a, &y, w));
    both(&|k, a| k.sub_scalar_mul(m, a, &y, w));
    let words: Vec<u64> = (0..n)
        .map(|i| {
            if i % 3 == 0 {
                u64::MAX - i as u64
            } else {
                mix.next()
            }
        })
        .collect();
    let (mut u, mut v) = (words.clone(), words);
    s.reduce_assign(m, &mut u);
    b.reduce_assign(m, &mut v);
    assert_eq!(u, v);
    // More terms than one lazy reduction takes, all at their largest.
    let top = vec![q - 1; n];
    for count in [0, 1, 2, 15, 16, 17, 40] {
        let terms: Vec<(&[u64], &[u64])> = (0..count)
            .map(|i| {
                if i % 5 == 4 {
                    (&y[..], &z[..])
                } else {
                    (&top[..], &top[..])
                }
            })
            .collect();
        both(&|k, a| k.dot_add(m, a, &terms));
    }
}

#[test]
fn choices_parse_and_unknown_ones_are_refused() {
    assert_eq!("".parse(), Ok(SimdChoice::Auto));
    assert_eq!("auto".parse(), Ok(SimdChoice::Auto));
    assert_eq!("scalar".parse(), Ok(SimdChoice::Scalar));
    assert_eq!("avx512ifma".parse(), Ok(SimdChoice::Avx512Ifma));
    assert!(matches!(
        "AVX9".parse::<SimdChoice>(),
        Err(RingError::Backend { name }) if name == "AVX9"
    ));
    assert_eq!(SimdChoice::Scalar.backend().unwrap().name(), "scalar");
    // What `auto` picks is what an explicit request for it gives.
    let auto = SimdChoice::Auto.backend().unwrap().name();
    let again = auto.parse::<SimdChoice>().unwrap().backend().unwrap();
    assert_eq!(again.name(), auto);
}

#[test]
fn pointwise_kernels_agree() {
    for backend in backends() {
        let mut mix = Mix(7);
        for bits in [10, 20, 30, 40, 45, 50] {
            for q in primes(16, bits, 0, 2) {
                let m = Modulus::new(q).unwrap();
                for n in [0, 5, 8, 16, 67, 256] {
                    check_pointwise(&*backend, &m, &mut mix, n);
                }
            }
        }
    }
}

#[test]
fn conversion_kernels_agree() {
    for backend in backends() {
        let mut mix = Mix(9);
        for (n, count) in [(16, 1), (67, 3), (64, 15), (64, 16), (64, 17), (64, 41)] {
            let m = Modulus::new(primes(16, 50, 0, 1)[0]).unwrap();
            let values: Vec<Vec<u64>> = (0..count)
                .map(|_| edgy(&mut mix, (1 << 50) - 27, n))
                .collect();
            let terms: Vec<&[u64]> = values.iter().map(|v| &v[..]).collect();
            let weights: Vec<u64> = (0..count).map(|_| m.value() - 1 - mix.next() % 3).collect();
            let (mut u, mut v) = (vec![1; n], vec![2; n]);
            ScalarBackend.weighted_sum(&m, &mut u, &terms, &weights);
            backend.weighted_sum(&m, &mut v, &terms, &weights);
            assert_eq!(u, v);
            let factors: Vec<f64> = (0..count)
                .map(|i| 1.0 / ((1u64 << 50) - 27 - i as u64) as f64)
                .collect();
            let flat = values.concat();
            ScalarBackend.rounded_sum(&mut u, &flat, n, &factors);
            backend.rounded_sum(&mut v, &flat, n, &factors);
            assert_eq!(u, v);
            assert!(u.iter().all(|&r| r <= count as u64));
            ScalarBackend.weighted_sum(&m, &mut u, &terms, &weights);
            backend.convert(&m, &mut v, &flat, n, &weights);
            assert!(v.iter().all(|&r| r < 4 * m.value()));
            backend.reduce_assign(&m, &mut v);
            assert_eq!(u, v);
        }
    }
}

#[test]
fn transforms_agree_at_every_degree() {
    for backend in backends() {
        for log_n in 4..=17 {
            let n = 1usize << log_n;
            // 46 and 47 bits: both sides of the bound of the lazier forward transform.
            for bits in [25, 40, 46, 47, 50] {
                let q = primes(n, bits, 0, 1)[0];
                let m = Modulus::new(q).unwrap();
                let reference = NttTable::new(n, m, Arc::new(ScalarBackend)).unwrap();
                let table = NttTable::new(n, m, backend.clone()).unwrap();
                for fill in [0, 1] {
                    let x = if fill == 0 {
                        edgy(&mut Mix(q), q, n)
                    } else {
                        vec![q - 1; n]
                    };
                    let (mut u, mut v) = (x.clone(), x.clone());
                    reference.forward(&mut u).unwrap();
                    table.forward(&mut v).unwrap();
                    assert!(u == v, "forward n={n} q={q}");
                    let (mut u, mut v) = (x.clone(), x);
                    reference.inverse(&mut u).unwrap();
                    table.inverse(&mut v).unwrap();
                    assert!(u == v, "inverse n={n} q={q}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn permutations_agree(seed: u64, log_n in 4u32..12) {
        let n = 1usize << log_n;
        let x = Mix(seed).residues(1 << 50, n);
        let a = Automorphism::new(n, seed | 1).unwrap();
        for backend in backends() {
            let (mut u, mut v) = (vec![0; n], vec![0; n]);
            ScalarBackend.permute(&mut u, &x, a.perm());
            backend.permute(&mut v, &x, a.perm());
            prop_assert_eq!(u, v);
        }
    }
}

/// The two parts of a split transform are the transform, for every width of tile.
#[test]
fn split_transforms_agree_with_whole_ones() {
    for backend in backends() {
        for log_n in [4, 6, 7, 8, 10, 13] {
            let n = 1usize << log_n;
            for bits in [40, 46, 47, 50] {
                let m = Modulus::new(primes(n, bits, 0, 1)[0]).unwrap();
                let q = m.value();
                let table = NttTable::new(n, m, backend.clone()).unwrap();
                let (rows, row) = (table.rows(), n / table.rows());
                let mut mix = Mix(n as u64);
                let input = edgy(&mut mix, q, n);
                let mut want = input.clone();
                table.forward(&mut want).unwrap();
                let widths = [8, 16, row]
                    .into_iter()
                    .filter(|&w| w <= row && row % w == 0);
                for width in if rows == 1 {
                    vec![row]
                } else {
                    widths.collect()
                } {
                    let columns = |data: &mut [u64], f: &dyn Fn(&mut [u64])| {
                        for c in (0..row).step_by(width) {
                            let at = |i: usize| i / width * row + c + i % width;
                            let mut tile: Vec<u64> =
                                (0..rows * width).map(|i| data[at(i)]).collect();
                            f(&mut tile);
                            tile.iter().enumerate().for_each(|(i, &v)| data[at(i)] = v);
                        }
                    };
                    // Inputs below 4q are allowed.
                    let mut got: Vec<u64> = input.iter().map(|&x| x + q * (x % 4)).collect();
                    columns(&mut got, &|t| backend.forward_head(&table, t));
                    for (s, r) in got.chunks_exact_mut(row).enumerate() {
                        backend.forward_tail(&table, s, r, &mut Ahead::new());
                    }
                    assert_eq!(got, want, "{} {n} {bits} {width}", backend.name());
                    let factor = table.inverse_factor(12345);
                    for (s, r) in got.chunks_exact_mut(row).enumerate() {
                        backend.inverse_tail(&table, s, r, &mut Ahead::new());
                    }
                    columns(&mut got, &|t| backend.inverse_head(&table, t, &factor));
                    let scaled: Vec<u64> = input.iter().map(|&x| m.mul(x, 12345)).collect();
                    assert_eq!(got, scaled, "{} {n} {bits} {width}", backend.name());
                }
            }
        }
    }
}

#[test]
fn key_products_agree() {
    for backend in backends() {
        let m = Modulus::new(primes(16, 50, 0, 1)[0]).unwrap();
        let mut mix = Mix(11);
        for (n, count) in [(16, 1), (8, 0), (67, 3), (64, 16), (40, 17)] {
            let data: Vec<Vec<u64>> = (0..3 * count)
                .map(|_| edgy(&mut mix, m.value(), n))
                .collect();
            let terms: Vec<[&[u64]; 3]> =
                data.chunks(3).map(|c| [&c[0][..], &c[1], &c[2]]).collect();
            for add in [false, true] {
                let start = edgy(&mut mix, m.value(), n);
                let run = |b: &dyn Backend| {
                    let mut out = [start.clone(), start.clone()];
                    let [x, y] = &mut out;
                    b.key_products(&m, [x, y], &terms, add);
                    out
                };
                assert_eq!(run(&ScalarBackend), run(&*backend));
            }
        }
    }
}
