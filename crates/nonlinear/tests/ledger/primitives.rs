//! One step for every protocol of the two-party layer.

use crate::{at, bits, step, words, Step, F};
use cipherloom_mpc::{index_bits, CompareFormat, Domain, Party};
use cipherloom_plan::describe::ledger::Side;
use cipherloom_spec::FracBits;

fn less_than(n: usize, thresholds: usize, format: CompareFormat) -> Step {
    step(
        "less_than",
        move |p| {
            let taus: Vec<f64> = (0..thresholds).map(|i| i as f64).collect();
            let out = p.less_than(&words(n, F), &taus, format).unwrap();
            assert_eq!(out.len(), thresholds);
        },
        move |l| l.less_than(n, thresholds, format),
    )
}

fn mux(parts: &'static [usize]) -> Step {
    step(
        "mux",
        move |p| {
            let items: Vec<_> = parts.iter().map(|&n| (bits(n), words(n, F))).collect();
            let items: Vec<_> = items.iter().map(|(b, x)| (b, x)).collect();
            p.mux(&items).unwrap();
        },
        |l| l.mux(parts.iter().sum()),
    )
}

fn b2a(parts: &'static [usize]) -> Step {
    step(
        "b2a",
        move |p| {
            let items: Vec<_> = parts.iter().map(|&n| bits(n)).collect();
            p.b2a(&items.iter().collect::<Vec<_>>()).unwrap();
        },
        |l| l.b2a(parts.iter().sum()),
    )
}

fn truncate(n: usize, cut: u32) -> Step {
    step(
        "truncate",
        move |p| {
            p.truncate(&words(n, FracBits(61)), cut).unwrap();
        },
        move |l| l.truncate(n, cut),
    )
}

fn faithful(n: usize, cut: u32, out: u32) -> Step {
    step(
        "faithful",
        move |p| {
            p.truncate_reduce_faithful(&words(n, FracBits(40)), cut, out)
                .unwrap();
        },
        move |l| l.truncate_reduce_faithful(n, cut, out),
    )
}

fn extend(n: usize) -> Step {
    step(
        "extend",
        move |p| {
            p.extend_64_88(&words(n, F).v).unwrap();
        },
        move |l| l.extend_64_88(n),
    )
}

fn open(n: usize, width: u32) -> Step {
    step(
        "open",
        move |p| {
            p.open_to_client(&words(n, F), width).unwrap();
        },
        move |l| l.open_to_client(n, width),
    )
}

fn label(n: usize, int_bits: u32) -> Step {
    let format = CompareFormat {
        kept_frac: F.0,
        int_bits,
    };
    step(
        "label",
        move |p| {
            let index = p.argmax(&words(n, F), int_bits).unwrap();
            p.open_to_client(&index, index_bits(n)).unwrap();
        },
        move |l| l.open_label(n, format),
    )
}

pub fn product(n: usize) -> Step {
    step(
        "product",
        move |p| {
            p.product(&words(n, F), &words(n, F)).unwrap();
        },
        move |l| l.product(n),
    )
}

pub fn square(n: usize) -> Step {
    step(
        "square",
        move |p| {
            p.square(&words(n, F)).unwrap();
        },
        move |l| l.square(n),
    )
}

pub fn product_known(owner: Party, n: usize) -> Step {
    let side = match owner {
        Party::Client => Side::Client,
        Party::Server => Side::Server,
    };
    step(
        "product_known",
        move |p| {
            let c = at(p, owner, words(n, F).v);
            p.product_known(owner, &words(n, F), c.as_deref(), F)
                .unwrap();
        },
        move |l| l.product_known(side, n),
    )
}

/// Every primitive on sizes that are multiples of nothing, and on none.
pub fn primitives(sizes: &[usize]) -> Vec<Step> {
    let narrow = CompareFormat {
        kept_frac: 13,
        int_bits: 5,
    };
    let odd = CompareFormat {
        kept_frac: 12,
        int_bits: 7,
    };
    let digit = CompareFormat {
        kept_frac: 1,
        int_bits: 0,
    };
    let mut all = Vec::new();
    for &n in sizes {
        all.extend([
            less_than(n, 1, narrow),
            less_than(n, 9, narrow),
            less_than(n, 2, odd),
            less_than(n, 3, digit),
            less_than(n, 0, odd),
            truncate(n, 19),
            truncate(n, 61),
            truncate(n, 0),
            faithful(n, 31, 32),
            faithful(n, 7, 64),
            faithful(n, 40, 25),
            faithful(n, 0, 32),
            extend(n),
            product(n),
            open(n, 32),
            open(n, 13),
            square(n),
            product_known(Party::Client, n),
            product_known(Party::Server, n),
        ]);
    }
    all.extend([mux(&[]), mux(&[0, 3]), mux(&[1001, 77, 5]), mux(&[1])]);
    all.extend([1, 2, 3, 5, 17, 100, 1000].map(|n| label(n, n as u32 % 9)));
    all.extend([b2a(&[]), b2a(&[7, 0, 1000]), b2a(&[9])]);
    all
}
