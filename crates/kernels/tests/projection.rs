//! Projection and convolution against plain matrix arithmetic, in the slot simulator.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cipherloom_kernels::projection::{output_place, pack};
use cipherloom_kernels::{
    convolve, project, EncodedConvolution, EncodedMatrix, SimCiphertext, SlotDomain, SlotSim,
};
use cipherloom_plan::describe::linear;
use cipherloom_spec::projection::{MatrixLayout, TokenLayout};
use std::collections::BTreeSet;

fn value(a: usize, b: usize) -> f64 {
    (((a * 7919 + b * 104_729 + 13) % 2003) as f64 / 1001.5 - 1.0) * 0.7
}

struct Case {
    slots: usize,
    rows: usize,
    tokens: usize,
    inputs: usize,
    outputs: usize,
}

const CASES: [Case; 7] = [
    Case {
        slots: 128,
        rows: 8,
        tokens: 8,
        inputs: 8,
        outputs: 37,
    },
    Case {
        slots: 128,
        rows: 8,
        tokens: 16,
        inputs: 8,
        outputs: 37,
    },
    Case {
        slots: 128,
        rows: 8,
        tokens: 48,
        inputs: 16,
        outputs: 5,
    },
    Case {
        slots: 64,
        rows: 4,
        tokens: 32,
        inputs: 40,
        outputs: 20,
    },
    Case {
        slots: 64,
        rows: 8,
        tokens: 16,
        inputs: 6,
        outputs: 3,
    },
    Case {
        slots: 256,
        rows: 4,
        tokens: 16,
        inputs: 32,
        outputs: 150,
    },
    Case {
        slots: 64,
        rows: 16,
        tokens: 32,
        inputs: 4,
        outputs: 2,
    },
];

fn run(case: &Case, taps: usize) {
    let t = TokenLayout::new(case.slots, case.rows, case.tokens).unwrap();
    let l = MatrixLayout::new(t, case.inputs, case.outputs).unwrap();
    let dom = SlotSim::new(case.slots, 1);
    let x: Vec<f64> = (0..case.tokens * case.inputs)
        .map(|i| value(i, 1))
        .collect();
    let w = |o: usize, i: usize| value(o, 1000 + i);
    let matrix = EncodedMatrix::encode(&dom, l, 3, w).unwrap();
    let inputs: Vec<Vec<SimCiphertext>> = pack(&l, &x)
        .into_iter()
        .map(|g| g.into_iter().map(|v| dom.input(v, 3).unwrap()).collect())
        .collect();
    dom.live().reset_peak();
    let y = project(&dom, &matrix, inputs).unwrap();
    let cost = linear::projection(&l);
    assert_eq!(dom.counts(), cost.he, "{l:?}");
    assert_eq!(dom.live().peak() as u64, cost.peak_live, "{l:?}");
    let plain: Vec<Vec<f64>> = (0..case.tokens)
        .map(|t| {
            (0..case.outputs)
                .map(|o| {
                    (0..case.inputs)
                        .map(|i| x[t * case.inputs + i] * w(o, i))
                        .sum()
                })
                .collect()
        })
        .collect();
    let read = |y: &[Vec<SimCiphertext>], t: usize, o: usize| {
        let (pair, block, lane, slot) = output_place(&l, t, o);
        let v = y[pair][block].values()[slot];
        if lane == 0 {
            v.re
        } else {
            v.im
        }
    };
    for (t, row) in plain.iter().enumerate() {
        for (o, want) in row.iter().enumerate() {
            assert!(
                (read(&y, t, o) - want).abs() < 1e-10,
                "{l:?} token {t} output {o}"
            );
        }
    }
    let used: BTreeSet<usize> = dom.rotations().into_keys().collect();
    let listed: BTreeSet<usize> = linear::baby_rotations(&l)
        .into_iter()
        .chain(linear::late_rotations(&l))
        .collect();
    assert_eq!(used, listed, "{l:?}");

    let tap = |c: usize, k: usize| value(c, 5000 + k);
    let bias = |c: usize| value(c, 9000);
    let conv = EncodedConvolution::encode(&dom, l, taps, 2, tap, bias).unwrap();
    let before = dom.counts();
    dom.live().reset_peak();
    let z = convolve(&dom, &conv, y).unwrap();
    let cost = linear::convolution(&l, taps);
    assert_eq!(dom.counts().since(&before), cost.he, "{l:?}");
    assert_eq!(dom.live().peak() as u64, cost.peak_live, "{l:?}");
    let at = |t: usize, o: usize| plain[t][o];
    for t in 0..case.tokens {
        for o in 0..case.outputs {
            let want: f64 = bias(o)
                + (0..taps)
                    .filter(|tau| *tau <= t)
                    .map(|tau| tap(o, taps - 1 - tau) * at(t - tau, o))
                    .sum::<f64>();
            assert!(
                (read(&z, t, o) - want).abs() < 1e-10,
                "{l:?} token {t} channel {o}"
            );
        }
    }
    let used: BTreeSet<usize> = dom.rotations().into_keys().collect();
    let listed: BTreeSet<usize> = linear::baby_rotations(&l)
        .into_iter()
        .chain(linear::late_rotations(&l))
        .chain(linear::convolution_rotations(&l, taps))
        .collect();
    assert_eq!(used, listed, "{l:?}");
}

#[test]
fn projections_and_convolutions_equal_plain_arithmetic_and_their_description() {
    for case in &CASES {
        run(case, 4);
    }
    run(&CASES[2], 2);
}

#[test]
fn wrong_counts_and_levels_are_errors() {
    let t = TokenLayout::new(64, 4, 8).unwrap();
    let l = MatrixLayout::new(t, 8, 8).unwrap();
    let dom = SlotSim::new(64, 1);
    let m = EncodedMatrix::encode(&dom, l, 3, value).unwrap();
    assert!(project(&dom, &m, vec![]).is_err());
    let wrong = pack(&l, &[0.0; 64])
        .into_iter()
        .map(|g| g.into_iter().map(|v| dom.input(v, 2).unwrap()).collect())
        .collect();
    assert!(project(&dom, &m, wrong).is_err());
    assert!(EncodedMatrix::encode(&dom, l, 1, value).is_err());
    assert!(EncodedConvolution::encode(&dom, l, 5, 3, value, |_| 0.0).is_err());
}
