//! Milliseconds of the main operations: `cargo bench -p cipherloom-ckks`.
//!
//! An argument `QUICK` runs fewer repetitions, `CODEC` the operations of encoder, encryptor and decryptor alone, `A`, `B2` or `C`
//! those operating points alone. `RAYON_NUM_THREADS=1 taskset -c 0` measures one core;
//! `CIPHERLOOM_SIMD=scalar` the portable kernels, `avx2` those without AVX-512.

// A benchmark ends at the first error.
#![allow(clippy::expect_used)]

use std::time::Instant;

use cipherloom_ckks::Complex64;
use cipherloom_spec::CkksLiteral;
use cipherloom_testkit::fixture::test_values;
use cipherloom_testkit::CkksFixture;

fn literal(log_n: u32, levels: usize, p: usize, dnum: u32) -> CkksLiteral {
    let mut q_bits = vec![50, 50];
    q_bits.resize(2 + levels, 40);
    CkksLiteral {
        log_n,
        q_bits,
        p_bits: vec![50; p],
        log_scale: 40,
        dnum,
    }
}

/// Fastest repetition in wall milliseconds, and the mean processor time of all threads (Linux).
fn ms(repetitions: usize, f: &mut dyn FnMut()) -> (f64, f64) {
    f();
    let cpu = cpu_ms();
    let fastest = (0..repetitions)
        .map(|_| {
            let t = Instant::now();
            f();
            t.elapsed().as_secs_f64() * 1e3
        })
        .fold(f64::INFINITY, f64::min);
    (fastest, (cpu_ms() - cpu) / repetitions as f64)
}

/// Processor time of all threads so far; 0 where the system does not tell.
fn cpu_ms() -> f64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return 0.0;
    };
    tasks
        .flatten()
        .filter_map(|t| std::fs::read_to_string(t.path().join("schedstat")).ok())
        .filter_map(|s| s.split(' ').next().and_then(|v| v.parse::<f64>().ok()))
        .sum::<f64>()
        / 1e6
}

fn bench(name: &str, literal: CkksLiteral, repetitions: usize) {
    let mut points = std::env::args().filter(|a| ["A", "B2", "C"].contains(&a.as_str()));
    let (first, at) = (points.next(), name.split(':').next());
    if first.is_some() && first.as_deref() != at && !points.any(|p| Some(p.as_str()) == at) {
        return;
    }
    let codec_alone = std::env::args().any(|a| a == "CODEC");
    let all = [1i64, 2, 3, 4, 5, 6, 7, 8];
    let rotations = if codec_alone { &all[..1] } else { &all[..] };
    let start = Instant::now();
    let f = CkksFixture::checked(literal, rotations);
    println!(
        "{name}: {} limbs, {} special, set-up with keys {:.0} ms",
        f.params.chain().q().len(),
        f.params.chain().p().len(),
        start.elapsed().as_secs_f64() * 1e3
    );
    let (ev, top) = (&f.evaluator, f.params.top_level());
    let v: Vec<Complex64> = test_values(f.params.slots(), 1);
    let scale = f.params.scale(top);
    let plain = f.encoder.encode(&v, top, scale).expect("encode");
    let seeded = f.secret_encryptor.encrypt(&plain).expect("encrypt");
    let ct = seeded.expand(&f.params).expect("expand");
    let factor = f.encoder.encode_for_product(&v, top).expect("encode");
    println!("  {:<28}{:>12}{:>12}", "ms", "wall, min", "cpu, mean");
    let line = |what: &str, f: &mut dyn FnMut()| {
        let (wall, cpu) = ms(repetitions, f);
        println!("  {what:<28}{wall:12.3}{cpu:12.3}");
    };
    line("encode", &mut || drop(f.encoder.encode(&v, top, scale)));
    let fine = cipherloom_spec::Scale::pow2(60);
    line("encode, scale 2^60", &mut || {
        drop(f.encoder.encode(&v, top, fine));
    });
    line("decode", &mut || drop(f.encoder.decode(&plain)));
    line("encrypt, public key", &mut || {
        drop(f.encryptor.encrypt(&plain))
    });
    line("encrypt, seeded", &mut || {
        drop(f.secret_encryptor.encrypt(&plain))
    });
    line("expand seeded", &mut || drop(seeded.expand(&f.params)));
    line("decrypt", &mut || drop(f.decryptor.decrypt(&ct)));
    line("decrypt and decode", &mut || {
        drop(
            f.encoder
                .decode(&f.decryptor.decrypt(&ct).expect("decrypt")),
        );
    });
    if codec_alone {
        return;
    }
    line("add", &mut || drop(ev.add(&ct, &ct)));
    line("mul_plain", &mut || drop(ev.mul_plain(&ct, &factor)));
    let mut acc = ev.mul_plain(&ct, &factor).expect("mul_plain");
    line("mul_plain_add_assign", &mut || {
        drop(ev.mul_plain_add_assign(&mut acc, &ct, &factor));
    });
    let terms = vec![(&ct, &factor); 8];
    line("mul_plain_sum of 8", &mut || drop(ev.mul_plain_sum(&terms)));
    line("rescale", &mut || drop(ev.rescale(&acc)));
    line("mul, no relinearisation", &mut || drop(ev.mul(&ct, &ct)));
    line("mul + relin + rescale", &mut || {
        drop(ev.mul_relin_rescale(&ct, &ct))
    });
    line("rotate", &mut || drop(ev.rotate(&ct, 1)));
    line("8 hoisted rotations", &mut || {
        drop(ev.rotate_many(&ct, rotations))
    });
    line("hoist (decompose) alone", &mut || drop(ev.hoist(&ct)));
    line("conjugate", &mut || drop(ev.conjugate(&ct)));
    let low = ev.drop_level(&ct, f.params.base_level()).expect("drop");
    line("rotate at the base level", &mut || drop(ev.rotate(&low, 1)));
    line("align one level down", &mut || drop(ev.align(&ct, top - 1)));
    line("generate a rotation key", &mut || {
        drop(f.keygen.rotation_key(&f.secret_key, 9, top));
    });
}

fn main() {
    let quick = std::env::args().any(|a| a == "QUICK");
    let repetitions = if quick { 3 } else { 15 };
    bench(
        "N=2^14 [50,50,40,40] + 2x50, dnum 2",
        literal(14, 2, 2, 2),
        repetitions,
    );
    bench(
        "N=2^15 [50,50,40x12] + 5x50, dnum 3",
        literal(15, 12, 5, 3),
        repetitions,
    );
    let point = |log_n, limbs: usize, p: usize, p_bits, dnum| CkksLiteral {
        log_n,
        q_bits: std::iter::once(50)
            .chain(std::iter::repeat_n(40, limbs - 1))
            .collect(),
        p_bits: vec![p_bits; p],
        log_scale: 40,
        dnum,
    };
    bench(
        "A: N=2^14, 8 limbs, dnum 4",
        point(14, 8, 2, 50, 4),
        repetitions,
    );
    bench(
        "B2: N=2^15, 14 limbs, dnum 3",
        point(15, 14, 5, 48, 3),
        repetitions,
    );
    bench(
        "C: N=2^16, 30 limbs, dnum 3",
        point(16, 30, 10, 48, 3),
        repetitions,
    );
}
