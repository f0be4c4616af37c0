//! MoSiLU and MoSoft against their f64 surrogates and the exact functions.

#![allow(clippy::unwrap_used)]

mod common;

use cipherloom_nonlinear::{
    counts, mosilu, mosoft, EvenConfig, EvenKind, FormatError, NonlinearError,
};
use cipherloom_spec::approx::{even, EvenResidual};
use cipherloom_spec::FracBits;
use common::{decode, encode, grid, Sim, F};

const SILU: [EvenResidual; 4] = [
    even::SILU_D2,
    even::SILU_D4,
    even::SILU_D6,
    even::SILU_D8_TAU6,
];
const SOFTPLUS: [EvenResidual; 4] = [
    even::SOFTPLUS_D2,
    even::SOFTPLUS_D4,
    even::SOFTPLUS_D6,
    even::SOFTPLUS_D8_TAU6,
];

fn exact(kind: EvenKind, x: f64) -> f64 {
    match kind {
        EvenKind::Silu => x / (1.0 + (-x).exp()),
        EvenKind::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
    }
}

fn all() -> impl Iterator<Item = (EvenKind, EvenResidual)> {
    let silu = SILU.into_iter().map(|r| (EvenKind::Silu, r));
    silu.chain(SOFTPLUS.into_iter().map(|r| (EvenKind::Softplus, r)))
}

fn run(dom: &mut Sim, kind: EvenKind, r: EvenResidual, xs: &[f64], max: f64) -> Vec<f64> {
    let cfg = EvenConfig::new(kind, r, F, 13, max).unwrap();
    let x = encode(xs, F);
    let y = match kind {
        EvenKind::Silu => mosilu(dom, &x, &cfg),
        EvenKind::Softplus => mosoft(dom, &x, &cfg),
    }
    .unwrap();
    assert_eq!(y.frac, F);
    assert_eq!(dom.take_counts(), counts::even(&cfg, xs.len() as u64));
    decode(&y)
}

#[test]
fn stays_close_to_the_surrogate_and_to_the_function() {
    let max = 64.0;
    // Twice the calibrated range must still work: the spare bits of the comparison.
    let xs = grid(-2.0 * max, 2.0 * max, 150_001);
    for (kind, r) in all() {
        let bound = if r.degree() <= 4 { -17 } else { -16 };
        for mut dom in [Sim::exact(), Sim::noisy(7)] {
            let ys = run(&mut dom, kind, r, &xs, max);
            let (mut near, mut far) = (0f64, 0f64);
            for (&x, &y) in xs.iter().zip(&ys) {
                far = far.max((y - exact(kind, x)).abs());
                if (x.abs() - r.tau).abs() > 2f64.powi(-13) {
                    near = near.max((y - r.eval(x)).abs());
                }
            }
            println!("{} surrogate 2^{:.2} exact {far:.6}", r.name, near.log2());
            assert!(near <= 2f64.powi(bound), "{} {near}", r.name);
            // The ramp of a comparison is half of 2^-13 wide, both functions have slope about 1.
            let slack = 2f64.powi(-13) + near;
            assert!(far <= r.max_error() + slack, "{} {far}", r.name);
            assert!(far >= 0.99 * r.max_error(), "{} {far}", r.name);
        }
    }
}

#[test]
fn published_mosilu_error_is_reproduced() {
    let xs = grid(-12.0, 12.0, 200_000);
    let ys = run(&mut Sim::exact(), EvenKind::Silu, even::SILU_D4, &xs, 12.0);
    let worst = xs
        .iter()
        .zip(&ys)
        .map(|(&x, &y)| (y - exact(EvenKind::Silu, x)).abs())
        .fold(0.0, f64::max);
    assert!((worst - 0.07194).abs() < 2e-5, "{worst}");
}

#[test]
fn no_word_overflows_where_the_polynomial_is_used() {
    for (kind, r) in all() {
        let edge = r.tau + 2f64.powi(-13);
        let xs = grid(-edge, edge, 20_000);
        for mut dom in [Sim::exact(), Sim::noisy(3)] {
            run(&mut dom, kind, r, &xs, 16.0);
            assert_eq!(dom.overflows, 0, "{}", r.name);
        }
    }
}

#[test]
fn tails_are_exact_without_noise() {
    let xs = [-1000.0, -500.25, -6.5, 6.5, 77.125, 1000.0];
    for (kind, r) in all() {
        let ys = run(&mut Sim::exact(), kind, r, &xs, 1000.0);
        assert_eq!(ys, [0.0, 0.0, 0.0, 6.5, 77.125, 1000.0], "{}", r.name);
    }
}

#[test]
fn mean_error_of_random_shares_is_zero() {
    // One value many times: the mean must not drift (a drift would accumulate over tokens).
    let n = 40_000;
    for x in [-2.5, -8.0, 0.3, 8.0] {
        let xs = vec![F.decode(F.encode(x)); n];
        let r = even::SOFTPLUS_D4;
        let exact = run(&mut Sim::exact(), EvenKind::Softplus, r, &xs[..1], 16.0)[0];
        let ys = run(&mut Sim::noisy(11), EvenKind::Softplus, r, &xs, 16.0);
        let mean = ys.iter().sum::<f64>() / n as f64;
        assert!(
            (mean - exact).abs() < 0.6 / F.unit(),
            "{x}: {}",
            (mean - exact) * F.unit()
        );
    }
}

#[test]
fn published_counts_of_degree_4() {
    let cfg = EvenConfig::new(EvenKind::Silu, even::SILU_D4, F, 13, 16.0).unwrap();
    let c = counts::even(&cfg, 10);
    assert_eq!(
        (
            counts::published_products(&c),
            c.comparisons,
            c.muxes,
            c.truncations
        ),
        (20, 20, 20, 20)
    );
}

#[test]
fn wrong_formats_are_refused() {
    let cfg = EvenConfig::new(EvenKind::Silu, even::SILU_D4, F, 13, 16.0).unwrap();
    let x = encode(&[1.0], F);
    assert!(matches!(
        mosoft(&mut Sim::exact(), &x, &cfg),
        Err(NonlinearError::Kind { .. })
    ));
    let x = encode(&[1.0], FracBits(18));
    assert!(matches!(
        mosilu(&mut Sim::exact(), &x, &cfg),
        Err(NonlinearError::Frac {
            have: 18,
            need: 19,
            ..
        })
    ));
    for (frac, kept, max) in [
        (19, 11, 16.0),
        (19, 19, 16.0),
        (30, 13, 16.0),
        (19, 13, f64::NAN),
        (19, 13, 1e30),
    ] {
        assert!(matches!(
            EvenConfig::new(EvenKind::Silu, even::SILU_D4, FracBits(frac), kept, max),
            Err(FormatError::Parameter { .. })
        ));
    }
    let mut odd = even::SILU_D4;
    odd.coeffs = &[0.0; 7];
    assert!(matches!(
        EvenConfig::new(EvenKind::Silu, odd, F, 13, 16.0),
        Err(FormatError::Degree { degree: 12, .. })
    ));
}
