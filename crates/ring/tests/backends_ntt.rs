//! Conformance of the backends: the transforms, whole and split, against the scalar reference, bit for bit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]
mod common;

use cipherloom_ring::backend::ScalarBackend;
use cipherloom_ring::{Ahead, Backend, Modulus, NttTable, Pieces};
use common::{backends, edgy, primes, primes_of_all_sizes, Mix};
use std::sync::Arc;

/// Inputs that drive lazy transforms to their limits.
fn transform_inputs(q: u64, n: usize) -> Vec<Vec<u64>> {
    let alternating = (0..n).map(|i| if i % 2 == 0 { q - 1 } else { 0 }).collect();
    let halves = (0..n).map(|i| q / 2 + (i / 3) as u64 % 2).collect();
    vec![
        edgy(&mut Mix(q), q, n),
        vec![q - 1; n],
        alternating,
        halves,
        vec![0; n],
    ]
}

/// Both transforms of `backend` against the scalar ones, and the way back.
fn check_transforms(backend: &Arc<dyn Backend>, n: usize, q: u64, inputs: &[Vec<u64>]) {
    let m = Modulus::new(q).unwrap();
    let reference = NttTable::new(n, m, Arc::new(ScalarBackend)).unwrap();
    let table = NttTable::new(n, m, backend.clone()).unwrap();
    for (i, x) in inputs.iter().enumerate() {
        let (mut u, mut v) = (x.clone(), x.clone());
        // Operands of a forward transform may be lazily reduced: the input, plus 3q or a multiple of q.
        let lifted = |j: usize| if i % 2 == 0 { 3 } else { j as u64 % 4 };
        v.iter_mut()
            .enumerate()
            .for_each(|(j, v)| *v += q * lifted(j));
        reference.forward(&mut u).unwrap();
        table.forward(&mut v).unwrap();
        assert!(u == v, "{} forward n={n} q={q}", backend.name());
        table.inverse(&mut v).unwrap();
        assert!(&v == x, "{} forth and back n={n} q={q}", backend.name());
        let (mut u, mut v) = (x.clone(), x.clone());
        reference.inverse(&mut u).unwrap();
        table.inverse(&mut v).unwrap();
        assert!(u == v, "{} inverse n={n} q={q}", backend.name());
    }
}

/// The two parts of the split transforms on tiles of `width` columns.
fn check_split(table: &NttTable, input: &[u64], width: usize) {
    let (m, backend) = (table.modulus(), table.backend());
    let (n, rows) = (table.n(), table.rows());
    let row = n / rows;
    let q = m.value();
    let name = format!("{} n={n} q={q} width {width}", backend.name());
    // What is fetched ahead changes nothing.
    let mut ahead = Ahead::new();
    ahead.push_pieces(input, 8, 24);
    let columns = |data: &mut [u64], f: &dyn Fn(&mut [u64])| {
        for c in (0..row).step_by(width) {
            let at = |i: usize| i / width * row + c + i % width;
            let mut tile: Vec<u64> = (0..rows * width).map(|i| data[at(i)]).collect();
            f(&mut tile);
            tile.iter().enumerate().for_each(|(i, &v)| data[at(i)] = v);
        }
    };
    let mut want = input.to_vec();
    table.forward(&mut want).unwrap();
    let mut got: Vec<u64> = input.iter().map(|&x| x + 3 * q).collect();
    columns(&mut got, &|t| backend.forward_head(table, t));
    for (s, r) in got.chunks_exact_mut(row).enumerate() {
        // The same row from pieces, with other words between them.
        if let Some(len) = Some(width.min(row)).filter(|len| len.is_power_of_two()) {
            let step = len + 24;
            let mut words = vec![u64::MAX; step * (row / len)];
            for (piece, r) in words.chunks_mut(step).zip(r.chunks(len)) {
                piece[..len].copy_from_slice(r);
            }
            let mut out = vec![1; row];
            let pieces = Pieces::new(&words, len, step);
            backend.forward_tail_from(table, s, pieces, &mut out, &mut ahead);
            assert!(out == want[s * row..(s + 1) * row], "{name} from pieces");
        }
        backend.forward_tail(table, s, r, &mut ahead);
    }
    assert!(got == want, "{name} forward");
    for constant in [1, q - 1, q / 2] {
        let factor = table.inverse_factor(constant);
        let mut got = want.clone();
        for (s, r) in got.chunks_exact_mut(row).enumerate() {
            let mut out = vec![1; row];
            backend.inverse_tail_from(table, s, r, &mut out, &mut ahead);
            backend.inverse_tail(table, s, r, &mut ahead);
            assert!(out == r, "{name} from another row");
        }
        columns(&mut got, &|t| {
            // The same tile from pieces, with other words between them.
            let mut out = vec![1; t.len()];
            let step = width + 8;
            let mut words = vec![u64::MAX; step * rows];
            for (piece, t) in words.chunks_mut(step).zip(t.chunks(width)) {
                piece[..width].copy_from_slice(t);
            }
            backend.inverse_head_from(table, Pieces::new(&words, width, step), &mut out, &factor);
            backend.inverse_head(table, t, &factor);
            assert!(out == t, "{name} from pieces");
        });
        let scaled: Vec<u64> = input.iter().map(|&x| m.mul(x, constant)).collect();
        assert!(got == scaled, "{name} inverse, times {constant}");
    }
}

#[test]
fn split_transforms_are_the_whole_ones() {
    for backend in backends() {
        for log_n in [4, 6, 7, 8, 9, 10, 11, 13, 14] {
            let n = 1usize << log_n;
            for bits in [25, 40, 46, 47, 48, 49, 50] {
                let q = primes(n, bits, 0, 1)[0];
                let table = NttTable::new(n, Modulus::new(q).unwrap(), backend.clone()).unwrap();
                let row = n / table.rows();
                // Without a split the only tile is the polynomial.
                let widths = if table.rows() == 1 {
                    [row; 3]
                } else {
                    [8, 16, row]
                };
                for input in &transform_inputs(q, n)[..3] {
                    for width in widths {
                        check_split(&table, input, width);
                    }
                }
            }
        }
    }
}

#[test]
fn tiny_and_short_transforms_agree_for_primes_of_all_sizes() {
    for backend in backends() {
        for n in [16, 32, 64, 1 << 10, 1 << 11, 1 << 12] {
            for q in primes_of_all_sizes(n) {
                check_transforms(&backend, n, q, &transform_inputs(q, n));
            }
        }
        // Every unit vector, times q - 1.
        for q in primes_of_all_sizes(16) {
            let units: Vec<Vec<u64>> = (0..16)
                .map(|i| (0..16).map(|j| if i == j { q - 1 } else { 0 }).collect())
                .collect();
            check_transforms(&backend, 16, q, &units);
        }
    }
}

#[test]
fn real_transforms_agree_on_eight_limbs() {
    let n = 1 << 14;
    let mut chain = primes(n, 50, 0, 2);
    chain.extend(primes(n, 40, 0, 6));
    for backend in backends() {
        for &q in &chain {
            check_transforms(&backend, n, q, &transform_inputs(q, n));
        }
    }
}

#[test]
fn transforms_agree_at_every_degree() {
    for backend in backends() {
        for log_n in 4..=17 {
            let n = 1usize << log_n;
            // Both sides of the bounds of lazier transforms: 46 and 48 bits.
            for bits in [25, 40, 46, 47, 48, 49, 50] {
                let q = primes(n, bits, 0, 1)[0];
                check_transforms(&backend, n, q, &transform_inputs(q, n)[..2]);
            }
        }
    }
}

#[test]
fn a_table_of_another_backend_is_refused() {
    let m = Modulus::new(97).unwrap();
    for a in backends() {
        for b in backends() {
            let table = NttTable::new(16, m, a.clone()).unwrap();
            // The scalar backend checks in debug builds only: it stays within bounds on any table.
            if a.name() != b.name() && b.name() != "scalar" {
                let factor = table.inverse_factor(1);
                let runs: [&dyn Fn(); 9] = [
                    &|| b.ntt_forward(&table, &mut [1; 16]),
                    &|| b.ntt_inverse(&table, &mut [1; 16]),
                    &|| b.forward_head(&table, &mut [1; 16]),
                    &|| b.forward_tail(&table, 0, &mut [1; 16], &mut Ahead::new()),
                    &|| {
                        let pieces = Pieces::new(&[1; 16], 16, 16);
                        b.forward_tail_from(&table, 0, pieces, &mut [1; 16], &mut Ahead::new());
                    },
                    &|| b.inverse_tail(&table, 0, &mut [1; 16], &mut Ahead::new()),
                    &|| b.inverse_head(&table, &mut [1; 16], &factor),
                    &|| b.inverse_tail_from(&table, 0, &[1; 16], &mut [1; 16], &mut Ahead::new()),
                    &|| {
                        let pieces = Pieces::new(&[1; 16], 16, 16);
                        b.inverse_head_from(&table, pieces, &mut [1; 16], &factor);
                    },
                ];
                for run in runs {
                    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
                }
            }
        }
    }
}
