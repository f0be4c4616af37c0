//! MMExp against its surrogate and the exponential.

#![allow(clippy::unwrap_used)]

mod common;

use cipherloom_nonlinear::{counts, mmexp, ExpConfig, FormatError, NonlinearError};
use cipherloom_spec::approx::ExpApprox;
use common::{decode, encode, grid, Sim, F};

const ALL: [ExpApprox; 3] = [ExpApprox::Gd, ExpApprox::GdMinimax, ExpApprox::D4];

/// `exp(delta·rate)` for one head.
fn run(dom: &mut Sim, approx: ExpApprox, deltas: &[f64], rate: f64) -> Vec<f64> {
    let cfg = ExpConfig::new(approx, F, 13, 16.0, 16.0).unwrap();
    let y = mmexp(dom, &encode(deltas, F), 1, Some(&[rate]), &cfg).unwrap();
    assert_eq!(y.frac, F);
    assert_eq!(dom.take_counts(), counts::exp(approx, deltas.len() as u64));
    decode(&y)
}

#[test]
fn stays_close_to_the_surrogate_and_to_exp() {
    let deltas = grid(0.0, 12.0, 200_000);
    for approx in ALL {
        for mut dom in [Sim::exact(), Sim::noisy(5)] {
            let ys = run(&mut dom, approx, &deltas, -1.0);
            let (mut near, mut far) = (0f64, 0f64);
            for (&d, &y) in deltas.iter().zip(&ys) {
                far = far.max((y - (-d).exp()).abs());
                if (d - 8.0).abs() > 2f64.powi(-13) {
                    near = near.max((y - approx.eval(-d)).abs());
                }
                if approx != ExpApprox::D4 {
                    let unit = 1.0 / F.unit();
                    assert!(
                        y >= -2.0 * unit && y <= 1.0 + 2.0 * unit,
                        "{approx:?} {d} {y}"
                    );
                }
            }
            println!("{approx:?} surrogate 2^{:.2} exp {far:.3e}", near.log2());
            let bound = if approx == ExpApprox::D4 { -16 } else { -17 };
            assert!(near <= 2f64.powi(bound), "{approx:?} {near}");
            assert!(far <= approx.max_error() + near, "{approx:?} {far}");
            assert!(far >= 0.99 * approx.max_error());
        }
    }
}

#[test]
fn published_error_of_the_graph_is_reproduced() {
    let deltas = grid(0.0, 12.0, 300_000);
    let ys = run(&mut Sim::exact(), ExpApprox::Gd, &deltas, -1.0);
    let worst = deltas
        .iter()
        .zip(&ys)
        .map(|(&d, &y)| (y - (-d).exp()).abs())
        .fold(0.0, f64::max);
    assert!((3.3e-4..=3.4e-4).contains(&worst), "{worst}");
}

#[test]
fn rates_scale_the_step_of_their_head() {
    let rates = [-0.01, -1.0, -3.7, -15.9];
    let cfg = ExpConfig::new(ExpApprox::Gd, F, 13, 16.0, 16.0).unwrap();
    let rows = 4000;
    let deltas: Vec<f64> = grid(0.0, 15.0, rows * 4 - 1);
    for mut dom in [Sim::exact(), Sim::noisy(9)] {
        let y = decode(&mmexp(&mut dom, &encode(&deltas, F), 4, Some(&rates), &cfg).unwrap());
        for (i, (&d, &y)) in deltas.iter().zip(&y).enumerate() {
            let z = d * rates[i % 4];
            if (z + 8.0).abs() > 1e-3 {
                // Truncation of z: one unit, plus d times the rounding of A.
                assert!(
                    (y - ExpApprox::Gd.eval(z)).abs() < 2f64.powi(-16),
                    "{z} {y}"
                );
            }
        }
    }
}

#[test]
fn zero_step_keeps_the_state() {
    assert_eq!(run(&mut Sim::exact(), ExpApprox::Gd, &[0.0], -4.0), [1.0]);
    let n = 20_000;
    let ys = run(&mut Sim::noisy(2), ExpApprox::Gd, &vec![0.0; n], -4.0);
    let mean = ys.iter().sum::<f64>() / n as f64;
    // A bias of one unit would lose 0.4 % of a state in 2048 tokens.
    assert!(
        (mean - 1.0).abs() * F.unit() < 0.05,
        "{}",
        (mean - 1.0) * F.unit()
    );
}

#[test]
fn no_word_overflows_above_the_cut() {
    for approx in ALL {
        for mut dom in [Sim::exact(), Sim::noisy(4)] {
            run(
                &mut dom,
                approx,
                &grid(-0.001, 8.0 + 2f64.powi(-12), 20_000),
                -1.0,
            );
            assert_eq!(dom.overflows, 0);
        }
    }
}

#[test]
fn large_products_are_cut_or_refused() {
    // z down to -256 with this range: always cut.
    let ys = run(
        &mut Sim::exact(),
        ExpApprox::Gd,
        &grid(8.0, 16.0, 1000),
        -16.0,
    );
    assert!(ys.iter().all(|&y| y == 0.0));
    assert!(matches!(
        ExpConfig::new(ExpApprox::Gd, F, 13, 65536.0, 65536.0),
        Err(FormatError::Overflow { .. })
    ));
    let cfg = ExpConfig::new(ExpApprox::Gd, F, 13, 16.0, 16.0).unwrap();
    assert!(matches!(
        mmexp(
            &mut Sim::exact(),
            &encode(&[1.0; 5], F),
            2,
            Some(&[1.0; 2]),
            &cfg
        ),
        Err(NonlinearError::Shape { .. })
    ));
    assert!(matches!(
        mmexp(
            &mut Sim::exact(),
            &encode(&[1.0; 4], F),
            2,
            Some(&[1.0; 3]),
            &cfg
        ),
        Err(NonlinearError::Shape { .. })
    ));
    assert_eq!(
        counts::published_products(&counts::exp(ExpApprox::Gd, 1)),
        5
    );
    assert_eq!(
        counts::published_products(&counts::exp(ExpApprox::D4, 1)),
        3
    );
}
