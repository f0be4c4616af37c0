//! Factors, gate, pooling and classifier against f64.

#![allow(clippy::unwrap_used)]

mod common;

use cipherloom_nonlinear::{
    counts, factors, gate, pool_and_classify, BlockConfig, BlockLiteral, BlockRanges, FormatError,
    HeadShape, NonlinearError, PoolConfig, PoolKnown, PoolLiteral, PoolShape,
};
use cipherloom_spec::approx::Stack;
use common::{decode, encode, noise, worst, Sim, F};

fn literal(stack: Stack) -> BlockLiteral {
    BlockLiteral {
        stack,
        frac: F,
        kept_frac: 13,
        model_width: 768,
        inner_width: 1536,
        eps: 1e-5,
        ranges: BlockRanges {
            conv_abs: 32.0,
            gate_abs: 32.0,
            step_abs: 16.0,
            rate_abs: 16.0,
            scan_abs: 256.0,
            pre_norm: (0.01, 64.0),
            gated_norm: (0.001, 16.0),
        },
    }
}

const SHAPE: HeadShape = HeadShape {
    tokens: 40,
    heads: 6,
    head_dim: 8,
};

#[test]
fn factors_of_every_stack() {
    let steps = SHAPE.tokens * SHAPE.heads;
    let n = steps * SHAPE.head_dim;
    let dt: Vec<f64> = noise(steps, 1).iter().map(|a| a * 6.0 - 2.0).collect();
    let x: Vec<f64> = noise(n, 2).iter().map(|a| a * 20.0).collect();
    let rates = [-1.0, -0.37, -16.0, -7.7, -2.0, -11.1];
    for stack in Stack::ALL {
        let cfg = BlockConfig::new(literal(stack)).unwrap();
        let spec = stack.spec();
        for mut dom in [Sim::exact(), Sim::noisy(3)] {
            let (dts, xs) = (encode(&dt, F), encode(&x, F));
            let f = factors(&mut dom, &dts, &xs, Some(&rates), SHAPE, &cfg).unwrap();
            assert_eq!(
                dom.take_counts(),
                counts::factors(&cfg.softplus, spec.exp, SHAPE)
            );
            let delta = decode(&f.delta);
            let want: Vec<f64> = decode(&dts)
                .iter()
                .map(|&v| spec.softplus.eval(v))
                .collect();
            assert!(worst(&delta, &want) < 2f64.powi(-15), "{stack}");
            // Decay and scaled input from the time step that was computed.
            let decay: Vec<f64> = delta
                .iter()
                .enumerate()
                .map(|(i, d)| spec.exp.eval(d * rates[i % SHAPE.heads]))
                .collect();
            assert!(worst(&decode(&f.decay), &decay) < 2f64.powi(-14), "{stack}");
            let scaled: Vec<f64> = decode(&xs)
                .iter()
                .enumerate()
                .map(|(i, x)| x * delta[i / SHAPE.head_dim])
                .collect();
            assert!(
                worst(&decode(&f.scaled), &scaled) <= 1.01 / F.unit(),
                "{stack}"
            );
        }
    }
}

#[test]
fn gate_of_every_stack() {
    let n = SHAPE.tokens * SHAPE.heads * SHAPE.head_dim;
    let m = encode(
        &noise(n, 5).iter().map(|a| a * 100.0).collect::<Vec<_>>(),
        F,
    );
    let x = encode(&noise(n, 6).iter().map(|a| a * 20.0).collect::<Vec<_>>(), F);
    let z = encode(&noise(n, 7).iter().map(|a| a * 10.0).collect::<Vec<_>>(), F);
    let skip = [0.9, 1.1, -0.3, 2.5, 0.0, 1.0];
    for stack in Stack::ALL {
        let cfg = BlockConfig::new(literal(stack)).unwrap();
        let silu = stack.spec().silu;
        for mut dom in [Sim::exact(), Sim::noisy(3)] {
            let y = gate(&mut dom, &m, &x, &z, Some(&skip), SHAPE, &cfg).unwrap();
            assert_eq!(dom.take_counts(), counts::gate(&cfg.silu_gate, n as u64));
            let (m, x, z) = (decode(&m), decode(&x), decode(&z));
            for (i, y) in decode(&y).into_iter().enumerate() {
                let sum = m[i] + skip[i / SHAPE.head_dim % SHAPE.heads] * x[i];
                let bound = 2f64.powi(-15) * sum.abs() + (22.0 * z[i].abs() + 4.0) / F.unit();
                assert!((y - sum * silu.eval(z[i])).abs() <= bound, "{stack} {i}");
            }
        }
    }
}

#[test]
fn values_of_the_server_are_needed() {
    let cfg = BlockConfig::new(literal(Stack::D4)).unwrap();
    let one = HeadShape {
        tokens: 1,
        heads: 1,
        head_dim: 1,
    };
    let x = encode(&[1.0], F);
    assert!(matches!(
        factors(&mut Sim::exact(), &x, &x, None, one, &cfg),
        Err(NonlinearError::Mpc(_))
    ));
    assert!(matches!(
        gate(&mut Sim::exact(), &x, &x, &x, Some(&[1.0, 2.0]), one, &cfg),
        Err(NonlinearError::Shape { .. })
    ));
    assert!(matches!(
        factors(&mut Sim::exact(), &x, &x, Some(&[1.0]), SHAPE, &cfg),
        Err(NonlinearError::Shape { .. })
    ));
}

#[test]
fn ranges_that_do_not_fit_are_named() {
    let refused = |change: fn(&mut BlockLiteral)| {
        let mut l = literal(Stack::D4);
        change(&mut l);
        BlockConfig::new(l).unwrap_err().to_string()
    };
    assert!(refused(|l| l.ranges.scan_abs = 1e6).contains("gated output"));
    assert!(refused(|l| {
        l.ranges.step_abs = 4096.0;
        l.ranges.conv_abs = 8192.0;
    })
    .contains("time step times input"));
    assert!(refused(|l| l.ranges.rate_abs = f64::INFINITY).contains("|A|"));
    assert!(refused(|l| l.ranges.gated_norm = (1.0, 0.5)).contains("NeRMS range"));
    assert!(refused(|l| l.kept_frac = 11).contains("comparisons"));
}

#[test]
fn formats_survive_serialisation() {
    for stack in Stack::ALL {
        let cfg = BlockConfig::new(literal(stack)).unwrap();
        let text = serde_json::to_string(&cfg).unwrap();
        assert_eq!(serde_json::from_str::<BlockConfig>(&text).unwrap(), cfg);
        assert!(serde_json::from_str::<BlockConfig>(&text.replace("32.0", "1e300")).is_err());
    }
}

#[test]
fn logits_are_pooled_and_rounded() {
    let shape = PoolShape {
        tokens: 300,
        width: 48,
        classes: 5,
    };
    let cfg = PoolConfig::new(PoolLiteral {
        shape,
        frac: F,
        hidden_max: 32.0,
        logit_max: 1024.0,
    })
    .unwrap();
    let h = encode(
        &noise(shape.tokens * shape.width, 3)
            .iter()
            .map(|a| a * 20.0)
            .collect::<Vec<_>>(),
        F,
    );
    let matrix: Vec<f64> = noise(shape.classes * shape.width, 4)
        .iter()
        .map(|a| a * 0.5)
        .collect();
    let bias = [0.5, -100.0, 3.25, 1000.0, -1023.0];
    let real = 217;
    let mean: Vec<f64> = (0..shape.tokens)
        .map(|k| if k < real { 1.0 / real as f64 } else { 0.0 })
        .collect();
    let last: Vec<f64> = (0..shape.tokens)
        .map(|k| f64::from(u8::from(k == real - 1)))
        .collect();
    let hd = decode(&h);
    for w in [mean, last] {
        for mut dom in [Sim::exact(), Sim::noisy(3)] {
            let words: Vec<u64> = w.iter().map(|&a| cfg.weight_frac().encode(a)).collect();
            let known = PoolKnown {
                weights: Some(&words),
                matrix: Some(&matrix),
                bias: Some(&bias),
            };
            let out = pool_and_classify(&mut dom, &h, known, &cfg).unwrap();
            assert_eq!(dom.overflows, 0);
            assert_eq!(dom.take_counts(), counts::pool_and_classify(shape));
            assert_eq!(out.frac.0, 12);
            for c in 0..shape.classes {
                let want: f64 = bias[c]
                    + (0..shape.width)
                        .map(|j| {
                            let pooled: f64 = (0..shape.tokens)
                                .map(|k| w[k] * hd[k * shape.width + j])
                                .sum();
                            matrix[c * shape.width + j] * pooled
                        })
                        .sum::<f64>();
                assert!(out.v[c] < 1 << 32);
                let got = f64::from(out.v[c] as u32 as i32) / 4096.0;
                // Half a unit of 2^-12, 24 (norm of a row of W) units of 2^-19 from pooling.
                assert!(
                    (got - want).abs() <= 0.5 / 4096.0 + 30.0 / F.unit(),
                    "{c} {got} {want}"
                );
            }
        }
    }
    let refused = PoolConfig::new(PoolLiteral {
        shape,
        frac: F,
        hidden_max: 32.0,
        logit_max: 1e6,
    });
    assert!(matches!(refused, Err(FormatError::Parameter { .. })));
}
