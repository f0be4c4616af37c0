//! NeRMS and RMS norm against the f64 table and the exact norm.

#![allow(clippy::unwrap_used)]

mod common;

use cipherloom_nonlinear::{
    counts, nerms, rms_norm, scale_rows, sum_of_squares, FormatError, NonlinearError, NormConfig,
    NormLiteral,
};
use cipherloom_spec::approx::NeRms;
use common::{decode, encode, noise, Sim, F};

fn config(len: usize, range: (f64, f64), newton: u32, clamp: bool) -> NormConfig {
    NormConfig::new(NormLiteral {
        len,
        eps: 1e-5,
        frac: F,
        table: NeRms::new(range.0, range.1, newton).unwrap(),
        clamp,
    })
    .unwrap()
}

const RANGES: [(f64, f64); 7] = [
    (0.00390625, 1.0),
    (0.00390625, 256.0),
    (1e-4, 4.0),
    (0.5, 3.0),
    (1.0, 65536.0),
    (300.0, 9000.0),
    (0.9, 1.1),
];

/// Relative error against the surrogate and against `1/sqrt(v)`, over `v` in the range widened by `widen`.
fn errors(cfg: &NormConfig, mut dom: Sim, widen: f64) -> (f64, f64, u64) {
    let t = &cfg.literal().table;
    let n = 20_000;
    let (low, high) = (t.v_min / widen, t.v_max * widen);
    let vs: Vec<f64> = (0..=n)
        .map(|i| low * (high / low).powf(f64::from(i) / f64::from(n)))
        .collect();
    let scaled: Vec<f64> = vs.iter().map(|v| v * cfg.input_factor()).collect();
    let y = nerms(&mut dom, &encode(&scaled, cfg.v_frac()), cfg).unwrap();
    assert_eq!(y.frac, cfg.out_frac());
    assert_eq!(dom.take_counts(), counts::nerms(cfg, vs.len() as u64));
    let (mut near, mut far) = (0f64, 0f64);
    for (&v, y) in vs.iter().zip(decode(&y)) {
        // Next to a bucket boundary either bucket may be used: compare with the nearer one.
        let candidates = [v, v * (1.0 - 2f64.powi(-12)), v * (1.0 + 2f64.powi(-12))];
        let e = candidates
            .iter()
            .map(|&c| (y / t.eval(c) - 1.0).abs())
            .fold(f64::INFINITY, f64::min);
        near = near.max(e);
        if t.contains(v) {
            far = far.max((y * v.sqrt() - 1.0).abs());
        }
    }
    (near, far, dom.overflows)
}

#[test]
fn relative_error_is_that_of_the_table() {
    for len in [1536, 768, 1000, 64] {
        for range in RANGES {
            for newton in [1, 2] {
                let cfg = config(len, range, newton, true);
                for dom in [Sim::exact(), Sim::noisy(5)] {
                    let (near, far, overflows) = errors(&cfg, dom, 1.0);
                    println!(
                        "n {len} {range:?} N{newton}: 2^{:.2} total {far:.2e}",
                        near.log2()
                    );
                    assert_eq!(overflows, 0);
                    assert!(near <= 2f64.powi(-15), "{len} {range:?} {newton} {near}");
                    let stated = cfg.literal().table.max_relative_error;
                    assert!(far <= stated + 2f64.powi(-11), "{far} {stated}");
                    assert!(far >= 0.9 * stated - 2f64.powi(-11), "{far} {stated}");
                }
            }
        }
    }
}

#[test]
fn the_widest_table_keeps_eleven_bits() {
    let widest = (2f64.powi(-18), 2f64.powi(14));
    for newton in [1, 2] {
        for dom in [Sim::exact(), Sim::noisy(5)] {
            let (near, _, overflows) = errors(&config(1000, widest, newton, true), dom, 2.0);
            assert_eq!(overflows, 0);
            assert!(near <= 2f64.powi(-10), "{near}");
        }
    }
}

#[test]
fn values_outside_are_clamped() {
    for range in RANGES {
        for newton in [1, 2] {
            let cfg = config(1536, range, newton, true);
            for dom in [Sim::exact(), Sim::noisy(6)] {
                let (near, _, overflows) = errors(&cfg, dom, 3.0);
                assert_eq!(overflows, 0);
                assert!(near <= 2f64.powi(-12), "{range:?} {newton} {near}");
            }
        }
    }
    // Zero and slightly negative (noise) are below every range.
    let cfg = config(64, (0.25, 8.0), 1, true);
    let v = encode(&[0.0, -1e-4], cfg.v_frac());
    for y in decode(&nerms(&mut Sim::exact(), &v, &cfg).unwrap()) {
        assert!((y / cfg.literal().table.eval(0.25) - 1.0).abs() < 1e-3);
    }
}

#[test]
fn without_clamp_the_published_counts_remain() {
    let cfg = config(1536, (0.0625, 16.0), 1, false);
    let (near, _, _) = errors(&cfg, Sim::noisy(2), 1.0);
    assert!(near <= 2f64.powi(-12));
    let c = counts::nerms(&cfg, 1);
    assert_eq!(
        (counts::published_products(&c), c.comparisons, c.muxes),
        (2, 7, 0)
    );
    let c = counts::nerms(&config(1536, (0.0625, 16.0), 2, true), 1);
    assert_eq!(
        (counts::published_products(&c), c.comparisons, c.muxes),
        (5, 9, 1)
    );
}

#[test]
fn sum_of_squares_is_exact_up_to_one_unit() {
    for (len, amplitude, range) in [
        (96, 3.0, (0.5, 8.0)),
        (768, 0.1, (1e-3, 0.1)),
        (1536, 150.0, (16.0, 16384.0)),
    ] {
        let cfg = config(len, range, 1, true);
        let rows = 20;
        let x = encode(
            &noise(rows * len, 4)
                .iter()
                .map(|a| a * amplitude)
                .collect::<Vec<_>>(),
            F,
        );
        for mut dom in [Sim::exact(), Sim::noisy(8)] {
            let v = sum_of_squares(&mut dom, &x, rows, &cfg).unwrap();
            assert_eq!(v.frac, cfg.v_frac());
            assert_eq!(dom.overflows, 0);
            assert_eq!(dom.take_counts(), counts::sum_of_squares(&cfg, rows as u64));
            for (row, v) in decode(&x).chunks(len).zip(decode(&v)) {
                let mean = row.iter().map(|a| a * a).sum::<f64>() / len as f64 + 1e-5;
                let tolerance = if cfg.pre_shift() == 0 {
                    1.1 / cfg.v_frac().unit()
                } else {
                    // Rounding of x: far below 2^-12 of v, which is what the norm needs.
                    2f64.powi(-14) * mean
                };
                assert!((v / cfg.input_factor() - mean).abs() <= tolerance, "{len}");
            }
        }
    }
}

#[test]
fn a_large_range_shifts_before_squaring() {
    assert_eq!(config(1536, (0.01, 100.0), 1, true).pre_shift(), 0);
    let cfg = config(1536, (16.0, 16384.0), 1, true);
    assert_eq!(cfg.pre_shift(), 2);
}

#[test]
fn rows_are_normalised() {
    let (rows, len) = (24, 192);
    for newton in [1, 2] {
        let cfg = config(len, (0.01, 40.0), newton, true);
        let x: Vec<f64> = noise(rows * len, 12)
            .iter()
            .enumerate()
            .map(|(i, a)| a * 0.2 * 1.15f64.powi((i / len) as i32))
            .collect();
        let x = encode(&x, F);
        for mut dom in [Sim::exact(), Sim::noisy(1)] {
            let y = rms_norm(&mut dom, &x, rows, &cfg).unwrap();
            assert_eq!(y.frac, F);
            assert_eq!(dom.overflows, 0);
            assert_eq!(dom.take_counts(), counts::rms_norm(&cfg, rows as u64));
            let (xs, ys) = (decode(&x), decode(&y));
            for (xr, yr) in xs.chunks(len).zip(ys.chunks(len)) {
                let v = xr.iter().map(|a| a * a).sum::<f64>() / len as f64 + 1e-5;
                let r = cfg.literal().table.eval(v);
                for (a, b) in xr.iter().zip(yr) {
                    assert!((a * r - b).abs() <= 2f64.powi(-12) * (a * r).abs() + 2.0 / F.unit());
                }
            }
        }
    }
}

#[test]
fn rows_are_scaled() {
    let y = encode(&[0.5, -2.0], cipherloom_spec::FracBits(22));
    let x = encode(&[1.0, 2.0, 3.0, -1.0, 0.25, 0.0], F);
    let mut dom = Sim::exact();
    let out = scale_rows(&mut dom, &y, &x).unwrap();
    assert_eq!(decode(&out), [0.5, 1.0, 1.5, 2.0, -0.5, 0.0]);
    assert_eq!(dom.take_counts(), counts::scale_rows(6));
    let x = encode(&[1.0; 5], F);
    assert!(matches!(
        scale_rows(&mut dom, &y, &x),
        Err(NonlinearError::Shape { .. })
    ));
}

#[test]
fn formats_survive_serialisation_and_bad_ones_are_refused() {
    let cfg = config(768, (0.01, 40.0), 2, true);
    let text = serde_json::to_string(&cfg).unwrap();
    assert_eq!(serde_json::from_str::<NormConfig>(&text).unwrap(), cfg);
    let literal = |len, low, high| NormLiteral {
        len,
        eps: 1e-5,
        frac: F,
        table: NeRms::new(low, high, 1).unwrap(),
        clamp: true,
    };
    // Buckets too narrow to be told apart.
    assert!(matches!(
        NormConfig::new(literal(64, 1.0, 1.0001)),
        Err(FormatError::Thresholds { .. })
    ));
    assert!(NormConfig::new(literal(0, 1.0, 2.0)).is_err());
    assert!(NormConfig::new(literal(64, 2f64.powi(-30), 1.0)).is_err());
    assert!(NormConfig::new(literal(1 << 20, 2f64.powi(-7), 2f64.powi(23))).is_err());
}
