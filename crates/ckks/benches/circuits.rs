//! Milliseconds of the circuits: `cargo bench -p cipherloom-ckks --bench circuits`.
//!
//! `RAYON_NUM_THREADS=1 taskset -c 0` measures one core.

// A benchmark ends at the first error.
#![allow(clippy::expect_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use cipherloom_ckks::circuits::{
    Argument, DiagonalMatrix, LinearPlan, LinearTransform, PlaintextStore, Polynomial,
    PolynomialBasis,
};
use cipherloom_ckks::{CkksParameters, Complex64};
use cipherloom_spec::CkksLiteral;
use cipherloom_testkit::fixture::test_values;
use cipherloom_testkit::CkksFixture;

/// Fastest of some repetitions, after one that is not counted.
fn ms<T>(mut f: impl FnMut() -> T) -> f64 {
    black_box(f());
    (0..7)
        .map(|_| {
            let start = Instant::now();
            black_box(f());
            start.elapsed().as_secs_f64() * 1e3
        })
        .fold(f64::INFINITY, f64::min)
}

fn main() {
    // N = 2^14, eight primes.
    let mut q_bits = vec![50];
    q_bits.resize(8, 40);
    let literal = CkksLiteral {
        log_n: 14,
        q_bits,
        p_bits: vec![50; 2],
        log_scale: 40,
        dnum: 4,
    };
    let params = CkksParameters::new(literal.check().expect("literal")).expect("parameters");
    let (top, slots) = (params.top_level(), params.slots());
    let size = 256;
    let mut matrix = DiagonalMatrix::zero(size).expect("matrix");
    for k in 0..size {
        let diagonal = test_values(size, k as u64);
        matrix.set_diagonal(k as i64, &diagonal).expect("diagonal");
    }
    let plan = LinearPlan::new(&params, &matrix, top, params.scale(top)).expect("plan");
    let f = CkksFixture::with_params(params.clone(), &plan.rotations());
    let x = f.encrypt(&test_values(slots, 1), top);
    println!(
        "N = 2^14, {} primes, {} special",
        top + 1,
        params.chain().p().len()
    );
    for degree in [7usize, 15, 31, 63, 127] {
        let c: Vec<Complex64> = test_values(degree + 1, 2)
            .iter()
            .map(|c| c.scaled(1.0 / degree as f64))
            .collect();
        let p = Polynomial::new(PolynomialBasis::Chebyshev, &c, [-1.0, 1.0]).expect("polynomial");
        let plan = p.plan(&params, top, Argument::Raw).expect("plan");
        let c = plan.counts();
        println!(
            "  Chebyshev, degree {degree:3}: {:8.2} ms  (relinearisations {}, ct-ct {}, pt-ct {})",
            ms(|| plan.evaluate(&f.evaluator, &x).expect("evaluate")),
            c.relinearizations,
            c.ct_ct,
            c.pt_ct
        );
    }
    let y = f.encrypt(&test_values(size, 1).repeat(slots / size), top);
    let all = plan.plaintext_bytes(&params);
    let direct = LinearTransform::new(&params, &matrix, top).expect("encode");
    println!(
        "  256 x 256, {} rotations, expanded ({} MB): {:8.2} ms",
        plan.rotations().len(),
        all / 1_000_000,
        ms(|| direct.apply(&f.evaluator, &y).expect("apply"))
    );
    for cap in [0, all / 2] {
        let store = Arc::new(PlaintextStore::in_memory(&params, cap));
        let stored = LinearTransform::with_store(&matrix, top, &store).expect("store");
        println!(
            "  256 x 256, store, {:4} MB kept: {:8.2} ms",
            cap / 1_000_000,
            ms(|| stored.apply(&f.evaluator, &y).expect("apply"))
        );
    }
}
