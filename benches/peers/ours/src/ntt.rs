//! The NTT rows and the yardstick.

use std::cell::RefCell;
use std::rc::Rc;

use cipherloom_ring::{Modulus, NttTable, SimdChoice};
use cipherloom_spec::primes::largest_below;
use peers_protocol::{Error, Operations, Options};
use serde_json::{json, Value};

/// Degree of the yardstick's transform.
const YARDSTICK_LOG_N: u32 = 14;
/// Transforms in one timed run: long against the clock's own cost.
const BATCH: usize = 16;

fn residues(n: usize, q: u64) -> Vec<u64> {
    let mut state = 1u64;
    (0..n)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 13) % q
        })
        .collect()
}

/// The first entries of the transform by Horner's rule: a(psi^(2 brv(i) + 1)).
fn reference(table: &NttTable, a: &[u64], count: usize) -> Vec<u64> {
    let (m, n) = (table.modulus(), table.n());
    (0..count)
        .map(|i| {
            let exponent = 2 * (i.reverse_bits() >> (usize::BITS - n.trailing_zeros())) + 1;
            let x = m.pow(table.psi(), exponent as u64);
            a.iter().rev().fold(0, |acc, &c| m.mul_add(acc, x, c))
        })
        .collect()
}

fn wrong(got: &[u64], want: &[u64]) -> f64 {
    got.iter().zip(want).filter(|(g, w)| g != w).count() as f64
}

/// Adds `ntt_forward` and `ntt_inverse` for one prime; returns facts.
pub fn add(ops: &mut Operations, n: usize, modulus: u64) -> Result<Value, Error> {
    let table = Rc::new(NttTable::new(
        n,
        Modulus::new(modulus)?,
        SimdChoice::from_env()?.backend()?,
    )?);
    let backend = table.backend().name();
    add_forward(ops, "ntt_forward", table.clone());
    // The check starts from the transform of known residues, so it sees a wrong inverse at once.
    let want = residues(n, modulus);
    let mut transformed = want.clone();
    table.forward(&mut transformed)?;
    let a = Rc::new(RefCell::new(transformed.clone()));
    let (run, data) = (table.clone(), a);
    ops.add_with(
        "ntt_inverse",
        0.0,
        Options {
            note: Some("both normalised"),
            ..Options::batch(BATCH)
        },
        move || {
            let mut a = data.borrow_mut();
            for _ in 0..BATCH {
                run.inverse(&mut a)?;
            }
            Ok(())
        },
        move |()| {
            let mut a = transformed.clone();
            table.inverse(&mut a)?;
            Ok(wrong(&a, &want))
        },
    );
    Ok(json!({ "n": n, "modulus": modulus, "backend": backend }))
}

fn add_forward(ops: &mut Operations, name: &'static str, table: Rc<NttTable>) {
    let fresh = residues(table.n(), table.modulus().value());
    let mut a = fresh.clone();
    let run = table.clone();
    ops.add_with(
        name,
        0.0,
        Options::batch(BATCH),
        move || {
            for _ in 0..BATCH {
                run.forward(&mut a)?;
            }
            Ok(())
        },
        move |()| {
            let mut a = fresh.clone();
            table.forward(&mut a)?;
            Ok(wrong(&a, &reference(&table, &fresh, 8)))
        },
    );
}

/// Adds `yardstick`: one forward transform of degree 2^14 modulo a 50-bit prime.
pub fn add_yardstick(ops: &mut Operations) -> Result<(), Error> {
    let modulus = largest_below(50, YARDSTICK_LOG_N + 1, &[])?;
    let table = NttTable::new(
        1 << YARDSTICK_LOG_N,
        Modulus::new(modulus)?,
        SimdChoice::from_env()?.backend()?,
    )?;
    add_forward(ops, "yardstick", Rc::new(table));
    Ok(())
}
