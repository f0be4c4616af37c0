//! Times of the kernels on one thread: `cargo bench -p cipherloom-ring`. No assertions.
#![allow(clippy::unwrap_used, missing_docs)]

use cipherloom_ring::backend::ScalarBackend;
use cipherloom_ring::convert::digit_ranges;
use cipherloom_ring::{
    Ahead, Automorphism, Backend, Basis, ModDown, ModUp, Modulus, Ntt, NttTable, Poly, PublicSeed,
    SecretSeed, SimdChoice, UniformXof,
};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// Nanoseconds that this thread spent on a processor, where the system tells; else wall time.
/// Processor time keeps the figures usable on a busy machine.
fn clock(start: Instant) -> f64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|s| s.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| start.elapsed().as_secs_f64() * 1e9)
}

/// Mean microseconds of one call over a tenth of a second or more.
fn time(mut f: impl FnMut()) -> f64 {
    f();
    let start = Instant::now();
    let mut calls = 1;
    loop {
        let before = clock(start);
        for _ in 0..calls {
            f();
        }
        let spent = clock(start) - before;
        if spent > 1e8 {
            return spent / 1e3 / f64::from(calls);
        }
        calls *= 2;
    }
}

fn primes(n: usize, bits: u32, skip: usize, count: usize) -> Vec<u64> {
    (1..)
        .map(|k| (1u64 << bits) - k * 2 * n as u64 + 1)
        .filter(|&q| Modulus::new(q).is_ok())
        .skip(skip)
        .take(count)
        .collect()
}

fn transforms(backend: &Arc<dyn Backend>) {
    println!("{}: NTT of one limb, us", backend.name());
    for log_n in 13..=16 {
        let n = 1usize << log_n;
        for bits in [40, 50] {
            let m = Modulus::new(primes(n, bits, 0, 1)[0]).unwrap();
            let table = NttTable::new(n, m, backend.clone()).unwrap();
            let mut a = vec![0; n];
            UniformXof::new(PublicSeed([1; 32])).fill(&m, &mut a);
            let b = a.clone();
            let fwd = time(|| table.forward(black_box(&mut a)).unwrap());
            let inv = time(|| table.inverse(black_box(&mut a)).unwrap());
            let mul = time(|| backend.mul_assign(&m, black_box(&mut a), black_box(&b)));
            println!(
                "  2^{log_n} {bits} bits: forward {fwd:7.1}  inverse {inv:7.1}  product {mul:6.1}"
            );
        }
    }
}

/// One limb that stays in the second-level cache.
fn pointwise(backend: &Arc<dyn Backend>) {
    let n = 1usize << 12;
    let m = Modulus::new(primes(n, 50, 0, 1)[0]).unwrap();
    let limb = |i: u8| {
        let mut a = vec![0; n];
        UniformXof::new(PublicSeed([i; 32])).fill(&m, &mut a);
        a
    };
    let limbs: Vec<Vec<u64>> = (0..6).map(limb).collect();
    let terms: Vec<&[u64]> = limbs.iter().map(|l| &l[..]).collect();
    let pairs: Vec<(&[u64], &[u64])> = terms.windows(2).map(|w| (w[0], w[1])).collect();
    let weights: Vec<u64> = limbs.iter().map(|l| l[0]).collect();
    let factors = [1.0 / m.value() as f64; 6];
    let w = m.shoup(weights[0]);
    let auto = Automorphism::rotation(n, 3).unwrap();
    let flat = limbs.concat();
    let triples: Vec<[&[u64]; 3]> = terms[..5].windows(3).map(|w| [w[0], w[1], w[2]]).collect();
    let [mut a, mut a2] = [limb(9), limb(10)];
    let b = &terms[0];
    let rows = [
        ("add", time(|| backend.add_assign(&m, black_box(&mut a), b))),
        ("sub", time(|| backend.sub_assign(&m, black_box(&mut a), b))),
        ("neg", time(|| backend.neg_assign(&m, black_box(&mut a)))),
        ("mul", time(|| backend.mul_assign(&m, black_box(&mut a), b))),
        (
            "dot_add of 3",
            time(|| backend.dot_add(&m, black_box(&mut a), &pairs[..3])),
        ),
        (
            "scalar_mul",
            time(|| backend.scalar_mul_assign(&m, black_box(&mut a), w)),
        ),
        (
            "scalar_mul_add",
            time(|| backend.scalar_mul_add(&m, black_box(&mut a), b, w)),
        ),
        (
            "sub_scalar_mul",
            time(|| backend.sub_scalar_mul(&m, black_box(&mut a), b, w)),
        ),
        (
            "weighted_sum of 2",
            time(|| backend.weighted_sum(&m, black_box(&mut a), &terms[..2], &weights)),
        ),
        (
            "weighted_sum of 6",
            time(|| backend.weighted_sum(&m, black_box(&mut a), &terms, &weights)),
        ),
        (
            "rounded_sum of 6",
            time(|| backend.rounded_sum(black_box(&mut a), &flat, n, &factors)),
        ),
        (
            "convert of 6",
            time(|| {
                let out = black_box(&mut a[..]);
                backend.convert(&m, out, (&flat, n), &weights, &mut Ahead::new());
            }),
        ),
        (
            "key_products of 3",
            time(|| {
                let [x, y] = [&mut a, &mut a2];
                backend.key_products(&m, black_box([x, y]), &triples, false);
            }),
        ),
        (
            "reduce",
            time(|| backend.reduce_assign(&m, black_box(&mut a))),
        ),
        (
            "permute",
            time(|| backend.permute(black_box(&mut a), b, auto.perm())),
        ),
    ];
    println!("{}: 2^12 words, us", backend.name());
    for (name, us) in rows {
        println!("  {name:28} {us:8.3}");
    }
}

fn key_switch(backend: &Arc<dyn Backend>, n: usize, limbs: usize, special: usize, alpha: usize) {
    let mut q = primes(n, 50, 0, 2);
    q.extend(primes(n, 40, 0, limbs - 2));
    let q = Basis::with_backend(n, &q, backend.clone()).unwrap();
    let p = Basis::with_backend(n, &primes(n, 43, 0, special), backend.clone()).unwrap();
    let qp = p.concat(&q).unwrap();
    let ups: Vec<ModUp> = digit_ranges(limbs, alpha)
        .into_iter()
        .map(|r| ModUp::new(&q, &qp, r).unwrap())
        .collect();
    let down = ModDown::new(&qp, special, &q).unwrap();
    let key = |i: u8| UniformXof::new(PublicSeed([i; 32])).poly::<Ntt>(&qp);
    let keys: Vec<[Poly<Ntt>; 2]> = (0..ups.len() as u8)
        .map(|i| [key(2 * i), key(2 * i + 1)])
        .collect();
    let x = UniformXof::new(PublicSeed([99; 32])).poly::<Ntt>(&q);
    let coeff = x.to_coeff();
    let digits: Vec<Poly<Ntt>> = ups.iter().map(|u| u.apply(&x, &coeff).unwrap()).collect();
    let inner = || {
        let mut out = [Poly::zero(&qp), Poly::zero(&qp)];
        for (c, acc) in out.iter_mut().enumerate() {
            let terms: Vec<_> = digits.iter().zip(&keys).map(|(d, k)| (d, &k[c])).collect();
            acc.dot_add_assign(&terms).unwrap();
        }
        out
    };
    let [a0, _] = inner();
    let auto = Automorphism::rotation(n, 1).unwrap();
    let rows = [
        ("to_coeff", time(|| drop(black_box(x.to_coeff())))),
        (
            "ModUp, all digits",
            time(|| {
                ups.iter()
                    .for_each(|u| drop(black_box(u.apply(&x, &coeff).unwrap())))
            }),
        ),
        (
            "inner product, both halves",
            time(|| drop(black_box(inner()))),
        ),
        (
            "ModDown, one half",
            time(|| drop(black_box(down.apply(&a0).unwrap()))),
        ),
        (
            "automorphism",
            time(|| drop(black_box(x.automorphism(&auto).unwrap()))),
        ),
        ("rescale", time(|| black_box(x.clone()).rescale().unwrap())),
        ("product", time(|| drop(black_box(x.mul(&x).unwrap())))),
        ("add_assign", {
            let mut y = x.clone();
            time(|| y.add_assign(black_box(&x)).unwrap())
        }),
        (
            "uniform expansion",
            time(|| {
                drop(black_box(
                    UniformXof::new(PublicSeed([5; 32])).poly::<Ntt>(&q),
                ))
            }),
        ),
        ("to_bytes", time(|| drop(black_box(x.to_bytes())))),
        ("from_bytes", {
            let bytes = x.to_bytes();
            time(|| drop(black_box(Poly::<Ntt>::from_bytes(&q, &bytes).unwrap())))
        }),
    ];
    println!(
        "{}: N=2^{}, {limbs} limbs, {special} special, digits of {alpha}, ms",
        backend.name(),
        n.trailing_zeros()
    );
    for (name, us) in rows {
        println!("  {name:28} {:8.3}", us / 1e3);
    }
}

fn samplers() {
    let n = 1 << 15;
    let mut prg = SecretSeed::from_bytes([3; 32]).derive("bench", 0);
    let m = Modulus::new(primes(n, 50, 0, 1)[0]).unwrap();
    let mut out = vec![0; n];
    let table = NttTable::new(n, m, SimdChoice::Auto.backend().unwrap()).unwrap();
    println!(
        "samplers, 2^15 values, us (yardstick: forward NTT {:.1})",
        time(|| table.forward(&mut out).unwrap())
    );
    let mut bytes = vec![0; 8 * n];
    println!(
        "  256 KiB {:7.1}",
        time(|| prg.fill_bytes(black_box(&mut bytes)))
    );
    println!(
        "  reduce  {:7.1}",
        time(|| table.backend().reduce_assign(&m, black_box(&mut out)))
    );
    println!("  ternary {:7.1}", time(|| drop(black_box(prg.ternary(n)))));
    println!("  cbd21   {:7.1}", time(|| drop(black_box(prg.cbd21(n)))));
    println!(
        "  uniform {:7.1}",
        time(|| prg.uniform(&m, black_box(&mut out)))
    );
    let xof = UniformXof::new(PublicSeed([4; 32]));
    println!(
        "  public  {:7.1}",
        time(|| xof.fill(&m, black_box(&mut out)))
    );
}

fn main() {
    // Everything on one worker, whose processor time is what is measured.
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    pool.install(all);
}

/// Without arguments everything; else any of `ntt`, `pointwise`, `samplers`, `a`, `b`, `c`.
fn all() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let want = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    let mut backends: Vec<Arc<dyn Backend>> = vec![Arc::new(ScalarBackend)];
    backends.extend(SimdChoice::Avx2.backend());
    backends.extend(SimdChoice::Avx512Ifma.backend());
    if want("ntt") {
        backends.iter().for_each(transforms);
    }
    if want("pointwise") {
        backends.iter().for_each(pointwise);
    }
    if want("samplers") {
        samplers();
    }
    for (name, log_n, limbs, special, alpha) in [
        ("a", 14, 8, 1, 1),
        ("b", 15, 14, 5, 5),
        ("c", 16, 30, 10, 10),
    ] {
        if want(name) {
            for b in backends.iter().rev() {
                key_switch(b, 1 << log_n, limbs, special, alpha);
            }
        }
    }
}
