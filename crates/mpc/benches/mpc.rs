//! Processor time of the primitives, both parties in one process: `cargo bench -p cipherloom-mpc`. No assertions.
#![allow(clippy::unwrap_used, missing_docs)]

use cipherloom_mpc::harness::run_pair;
use cipherloom_mpc::{
    Bits, CompareFormat, CostModel, Domain, MpcConfig, MpcError, Shares, TwoParty,
};
use cipherloom_spec::FracBits;

/// Nanoseconds of processor time of all threads of this process.
fn clock() -> f64 {
    std::fs::read_dir("/proc/self/task")
        .map(|tasks| {
            tasks
                .flatten()
                .filter_map(|t| std::fs::read_to_string(t.path().join("schedstat")).ok())
                .filter_map(|s| s.split(' ').next()?.parse::<f64>().ok())
                .sum()
        })
        .unwrap_or(0.0)
}

const REPEATS: usize = 6;

type Step<'a> = &'a (dyn Fn(&mut TwoParty) -> Result<(), MpcError> + Sync);

/// Processor nanoseconds for an element and a party.
fn time(config: MpcConfig, n: usize, step: Step<'_>) -> f64 {
    let run = |p: &mut TwoParty| {
        // Both parties wait for one another, so the clock covers both.
        let meet = |p: &mut TwoParty| p.b2a(&[&Bits { v: vec![0] }]).map(drop);
        step(p)?;
        meet(p)?;
        let before = clock();
        for _ in 0..REPEATS {
            step(p)?;
        }
        meet(p)?;
        Ok((clock() - before) / REPEATS as f64)
    };
    let (a, b) = run_pair(config, run, run).unwrap();
    (a + b) / 2.0 / (2 * n) as f64
}

fn main() {
    rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build_global()
        .unwrap();
    const N: usize = 1 << 17;
    let x = |frac| Shares {
        v: vec![0x1234_5678; N],
        frac: FracBits(frac),
    };
    let bits = Bits { v: vec![1; N] };
    for cot_k in [1, 2, 4, 8] {
        let config = MpcConfig {
            cot_k,
            ..MpcConfig::default()
        };
        let ns = time(config, 8 * N, &|p| p.skip_cots(8 * N));
        println!("COT k={cot_k}: {ns:.1} ns a party");
    }
    let config = MpcConfig::default();
    println!("ns an element and party, bytes both ways, COTs (k = 4, radix 16)");
    let row = |name: &str, step: Step<'_>, cost: &dyn Fn(&mut CostModel)| {
        let mut m = CostModel::new(config);
        for _ in 0..64 {
            cost(&mut m);
        }
        let t = m.traffic();
        let per = (64 * N) as f64;
        println!(
            "{name:<22} {:8.0} ns {:7.1} B {:5.1} COTs",
            time(config, N, step),
            (t.client_to_server + t.server_to_client) as f64 / per,
            m.cots() as f64 / per
        );
    };
    for (kept_frac, thresholds) in [(12, 1), (12, 2), (12, 7)] {
        let f = CompareFormat {
            kept_frac,
            int_bits: 5,
        };
        row(
            &format!("less_than 17b x{thresholds}"),
            &|p| p.less_than(&x(19), &vec![0.5; thresholds], f).map(drop),
            &|m| m.less_than(N, thresholds, f),
        );
    }
    row("truncate 19", &|p| p.truncate(&x(38), 19).map(drop), &|m| {
        m.truncate(N, 19)
    });
    row(
        "faithful 26->32",
        &|p| p.truncate_reduce_faithful(&x(38), 26, 32).map(drop),
        &|m| m.truncate_reduce_faithful(N, 26, 32),
    );
    row("mux", &|p| p.mux(&[(&bits, &x(19))]).map(drop), &|m| {
        m.mux(N)
    });
    row("b2a", &|p| p.b2a(&[&bits]).map(drop), &|m| m.b2a(N, 64));
    row(
        "extend 64->88",
        &|p| p.extend_64_88(&x(19).v).map(drop),
        &|m| m.extend_64_88(N),
    );
    let few = Shares {
        v: vec![77; N / 64],
        frac: FracBits(19),
    };
    let ns = time(config, N / 64, &|p| p.product(&few, &few).map(drop));
    println!("product from COTs      {ns:8.0} ns");
}
