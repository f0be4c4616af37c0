//! tfhe-ntt's worker: its 64-bit prime plan on the 52-bit multiply-add path.

use std::cell::RefCell;
use std::rc::Rc;

use peers_protocol::{serve, Error, Operations, Options};
use serde::Deserialize;
use serde_json::{json, Value};
use tfhe_ntt::prime64::Plan;

/// Transforms in one timed run: long against the clock's own cost.
const BATCH: usize = 16;

/// One NTT.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Point {
    log_n: u32,
    modulus: u64,
}

fn prepare(params: &Value) -> Result<(Value, Operations), Error> {
    let Point { log_n, modulus } = serde_json::from_value(params.clone())?;
    let n = 1usize << log_n;
    let plan = Rc::new(
        Plan::try_new(n, modulus).ok_or_else(|| format!("no plan for {n} modulo {modulus}"))?,
    );
    // Without the instructions, or for too large a prime, it is another and slower algorithm.
    if !plan.use_ifma() {
        return Err("the plan does not use the 52-bit multiply-add instructions".into());
    }
    let mut ops = Operations::new();
    // X: its transform is the list of all odd powers of psi, in the plan's order.
    let mut fresh = vec![0u64; n];
    fresh[1] = 1;
    let mut a = residues(n, modulus);
    let run = plan.clone();
    let check = plan.clone();
    ops.add_with(
        "ntt_forward",
        0.0,
        Options::batch(BATCH),
        move || {
            for _ in 0..BATCH {
                run.fwd(&mut a);
            }
            Ok(())
        },
        move |()| {
            let mut x = fresh.clone();
            check.fwd(&mut x);
            // Each is a root of X^N + 1, and all are different.
            let wrong = x
                .iter()
                .filter(|&&v| power(v, n as u64, modulus) != modulus - 1)
                .count();
            x.sort_unstable();
            x.dedup();
            Ok((wrong + n - x.len()) as f64)
        },
    );
    let want = residues(n, modulus);
    let mut start = want.clone();
    plan.fwd(&mut start);
    let a = RefCell::new(start.clone());
    let run = plan.clone();
    ops.add_with(
        "ntt_inverse",
        0.0,
        Options {
            note: Some("its inverse, then its normalize"),
            ..Options::batch(BATCH)
        },
        move || {
            let mut a = a.borrow_mut();
            for _ in 0..BATCH {
                run.inv(&mut a);
                run.normalize(&mut a);
            }
            Ok(())
        },
        move |()| {
            let mut a = start.clone();
            plan.inv(&mut a);
            plan.normalize(&mut a);
            Ok(a.iter().zip(&want).filter(|(g, w)| g != w).count() as f64)
        },
    );
    Ok((json!({ "n": n, "modulus": modulus, "use_ifma": true }), ops))
}

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

fn power(base: u64, mut exponent: u64, q: u64) -> u64 {
    let mul = |a: u64, b: u64| (u128::from(a) * u128::from(b) % u128::from(q)) as u64;
    let (mut out, mut base) = (1, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            out = mul(out, base);
        }
        base = mul(base, base);
        exponent >>= 1;
    }
    out
}

fn main() -> std::io::Result<()> {
    serve(prepare)
}
