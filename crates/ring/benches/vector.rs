//! Times of the kernels of encoding and decoding on one thread: `cargo bench -p cipherloom-ring --bench vector`. No assertions.
#![allow(clippy::unwrap_used, missing_docs)]

use cipherloom_ring::vector::{
    largest_scaled, residues_of_bytes, round_scaled, FloatLift, SlotFft, Width,
};
use cipherloom_ring::{Basis, Coeff, Modulus, Poly, PublicSeed, UniformXof};
use std::hint::black_box;
use std::time::Instant;

/// Fastest of some calls, in microseconds.
fn time(mut f: impl FnMut()) -> f64 {
    (0..30)
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed().as_secs_f64() * 1e6
        })
        .fold(f64::INFINITY, f64::min)
}

fn basis(n: usize, limbs: usize) -> Basis {
    let q: Vec<u64> = (1..)
        .map(|k| (1u64 << 40) - k * 2 * n as u64 + 1)
        .filter(|&q| Modulus::new(q).is_ok())
        .take(limbs)
        .collect();
    Basis::new(n, &q).unwrap()
}

fn main() {
    for width in Width::available() {
        println!("{width:?}: us");
        for log_n in [14, 15, 16] {
            let n = 1usize << log_n;
            let tables = time(|| drop(black_box(SlotFft::with_width(n / 2, width))));
            let fft = SlotFft::with_width(n / 2, width);
            let mut a: Vec<f64> = (0..n).map(|k| (k as f64).sin()).collect();
            let mut b = vec![0.0; n];
            let forward = time(|| fft.to_slots(black_box(&a), &mut b));
            let inverse = time(|| fft.to_coeffs(black_box(&mut a), &mut b));
            a.fill(0.3);
            let mut rounded = vec![0; n];
            let round = time(|| round_scaled(width, &mut rounded, black_box(&a), 1e9));
            let largest = time(|| {
                black_box(largest_scaled(width, black_box(&a), 1e9));
            });
            let m = Modulus::new(97).unwrap();
            let (bytes, mut limb) = (vec![1i8; n], vec![0; n]);
            let small = time(|| residues_of_bytes(width, &m, black_box(&mut limb), &bytes));
            let m = Modulus::new((1 << 50) - 27).unwrap();
            let bytes = time(|| residues_of_bytes(width, &m, black_box(&mut limb), &bytes));
            println!(
                "  N = 2^{log_n}: to slots {forward:.1}, to coefficients {inverse:.1} (tables {tables:.0}), round {round:.1}, \
                 largest {largest:.1}, bytes {bytes:.1} (tiny prime {small:.1})"
            );
        }
    }
    for (n, limbs) in [(1 << 14, 8), (1 << 15, 14), (1 << 16, 30)] {
        let basis = basis(n, limbs);
        let lift = FloatLift::new(&basis).unwrap();
        let x: Poly<Coeff> = UniformXof::new(PublicSeed([1; 32])).poly(&basis);
        let mut out = vec![0.0; n];
        let tables = time(|| drop(black_box(FloatLift::new(&basis).unwrap())));
        let t = time(|| lift.lift(black_box(&x), &mut out).unwrap());
        println!("{n} x {limbs}: lift {t:.0} us, its tables {tables:.0} us");
    }
}
