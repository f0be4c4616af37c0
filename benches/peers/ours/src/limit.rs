//! Micro-benchmarks of the hardware limit: the parts of a key switch alone, on hot data.
//!
//! `limit_ntt` is the mean of a forward and an inverse transform; `limit_convert` one (source, target) limb pair of a
//! base conversion; `limit_inner` one limb of the inner product with the key; `limit_read` one read of a key-sized
//! buffer that is in no cache.

use std::cell::RefCell;
use std::rc::Rc;

use cipherloom_ckks::CkksParameters;
use cipherloom_ring::{Basis, Modulus};
use peers_protocol::{Error, Operations, Options};

/// Coefficients of a block: ten source limbs of it stay in the second-level cache.
const BLOCK: usize = 4096;
/// Bytes that are read to push a buffer out of every cache.
const EVICT_BYTES: usize = 512 << 20;

fn block(count: usize, q: u64, seed: u64) -> Vec<u64> {
    let mut state = seed;
    (0..count)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 14) % q
        })
        .collect()
}

/// Wrapping sum of all words, in eight lanes.
fn sum(words: &[u64]) -> u64 {
    let (chunks, rest) = words.as_chunks::<32>();
    let mut lanes = [0u64; 32];
    for chunk in chunks {
        for (lane, word) in lanes.iter_mut().zip(chunk) {
            *lane = lane.wrapping_add(*word);
        }
    }
    lanes
        .iter()
        .chain(rest)
        .fold(0, |acc, w| acc.wrapping_add(*w))
}

/// Adds the micro-benchmarks for ciphertexts of `limbs` limbs.
pub fn add(ops: &mut Operations, params: &CkksParameters, limbs: usize) -> Result<(), Error> {
    let chain = params.chain();
    let digits = chain.digits(limbs - 1);
    let basis = params.basis(limbs - 1)?;
    add_ntt(ops, basis.clone());
    let sources = digits.iter().map(ExactSizeIterator::len).max().unwrap_or(1);
    add_convert(ops, basis.clone(), sources);
    add_inner(ops, basis, digits.len());
    add_read(
        ops,
        digits.len() * 2 * (limbs + chain.p().len()) * chain.n(),
    );
    Ok(())
}

fn add_ntt(ops: &mut Operations, basis: Basis) {
    let n = basis.n();
    // A prime like most of the chain: the first one is larger, and its transform slower.
    let prime = basis.len() - 1;
    let fresh = block(n, basis.modulus(prime).value(), 3);
    let a = Rc::new(RefCell::new(fresh.clone()));
    let result = a.clone();
    ops.add_with(
        "limit_ntt",
        0.0,
        Options::batch(16),
        move || {
            let mut a = a.borrow_mut();
            for _ in 0..8 {
                basis.tables()[prime].forward(&mut a)?;
                basis.tables()[prime].inverse(&mut a)?;
            }
            Ok(())
        },
        // Eight forward and eight inverse transforms give the start back.
        move |()| {
            let got = result.borrow();
            Ok(got.iter().zip(&fresh).filter(|(g, w)| g != w).count() as f64)
        },
    );
}

/// Time of one (source, target) limb pair: N coefficients.
fn add_convert(ops: &mut Operations, basis: Basis, sources: usize) {
    let m = *basis.modulus(0);
    let terms: Vec<Vec<u64>> = (0..sources)
        .map(|i| block(BLOCK, (1 << 50) - 1, i as u64))
        .collect();
    let weights = block(sources, m.value(), 99);
    let repeats = (basis.n() / BLOCK).max(1) * 8;
    let (t, w) = (terms.clone(), weights.clone());
    // One run does 8 N coefficients for each source.
    ops.add_with(
        "limit_convert",
        0.0,
        Options::batch(8 * sources),
        move || {
            let terms: Vec<&[u64]> = t.iter().map(Vec::as_slice).collect();
            let mut out = vec![0; BLOCK];
            for _ in 0..repeats {
                basis
                    .backend()
                    .weighted_sum(basis.modulus(0), &mut out, &terms, &w);
            }
            Ok(out)
        },
        move |out| Ok(differs(&m, &out, &terms, |i, _| weights[i])),
    );
}

/// Time of one limb of the inner product: N coefficients, one product for each digit.
fn add_inner(ops: &mut Operations, basis: Basis, digits: usize) {
    let m = *basis.modulus(0);
    let side = |seed: u64| -> Vec<Vec<u64>> {
        (0..digits)
            .map(|i| block(BLOCK, m.value(), seed + i as u64))
            .collect()
    };
    let (a, b) = (side(1), side(1000));
    let repeats = (basis.n() / BLOCK).max(1) * 8;
    let (x, y) = (a.clone(), b.clone());
    ops.add_with(
        "limit_inner",
        0.0,
        Options::batch(8),
        move || {
            let terms: Vec<(&[u64], &[u64])> = x
                .iter()
                .zip(&y)
                .map(|(p, q)| (p.as_slice(), q.as_slice()))
                .collect();
            let mut acc = vec![0; BLOCK];
            for _ in 0..repeats {
                acc.fill(0);
                basis.backend().dot_add(basis.modulus(0), &mut acc, &terms);
            }
            Ok(acc)
        },
        move |out| Ok(differs(&m, &out, &a, |i, k| b[i][k])),
    );
}

/// How many entries of `out` are not the sum of `terms` times the weights, in plain modular arithmetic.
fn differs(
    m: &Modulus,
    out: &[u64],
    terms: &[Vec<u64>],
    weight: impl Fn(usize, usize) -> u64,
) -> f64 {
    (0..out.len())
        .filter(|&k| {
            let want = terms.iter().enumerate().fold(0, |acc, (i, t)| {
                m.mul_add(m.reduce(t[k]), weight(i, k), acc)
            });
            out[k] != want
        })
        .count() as f64
}

fn add_read(ops: &mut Operations, words: usize) {
    let ramp = |n: usize| (0..n as u64).collect::<Vec<_>>();
    let key = ramp(words);
    let mut evict: Option<Vec<u64>> = None;
    ops.add_with(
        "limit_read",
        0.0,
        Options {
            before: Some(Box::new(move || {
                let evict = evict.get_or_insert_with(|| ramp(EVICT_BYTES / 8));
                std::hint::black_box(sum(evict));
            })),
            ..Options::default()
        },
        move || Ok(sum(&key)),
        move |total| {
            let pairs = words as u128 * (words as u128 - 1) / 2;
            Ok(f64::from(u128::from(total) != pairs))
        },
    );
}
