//! One step for every nonlinear function.

use crate::{at, step, words, Step, F};
use cipherloom_mpc::Party;
use cipherloom_nonlinear::{
    factors, gate, gate_activated, mmexp, mosilu, mosoft, nerms, pool_and_classify, rms_norm,
    scale_rows, sum_of_squares, BlockConfig, BlockLiteral, BlockRanges, EvenConfig, EvenKind,
    ExpConfig, HeadShape, NormConfig, NormLiteral, PoolConfig, PoolKnown, PoolLiteral, PoolShape,
};
use cipherloom_spec::approx::{even, ExpApprox, NeRms, Stack};

pub fn block(stack: Stack) -> BlockConfig {
    BlockConfig::new(BlockLiteral {
        stack,
        frac: F,
        kept_frac: 13,
        model_width: 24,
        inner_width: 15,
        eps: 1e-5,
        ranges: BlockRanges {
            conv_abs: 16.0,
            gate_abs: 8.0,
            step_abs: 16.0,
            rate_abs: 16.0,
            scan_abs: 64.0,
            pre_norm: (0.01, 16.0),
            gated_norm: (0.1, 4.0),
        },
    })
    .unwrap()
}

pub fn norm_steps(cfg: &NormConfig, rows: usize) -> Vec<Step> {
    let n = rows * cfg.literal().len;
    let c = || cfg.clone();
    let (a, b, d, e, g, h) = (c(), c(), c(), c(), c(), c());
    let (i, j) = (c(), c());
    vec![
        step(
            "sum_of_squares",
            move |p| {
                sum_of_squares(p, &words(n, F), rows, &a).unwrap();
            },
            move |l| l.sum_of_squares(&b, rows),
        ),
        step(
            "nerms",
            move |p| {
                nerms(p, &words(rows, d.v_frac()), &d).unwrap();
            },
            move |l| l.nerms(&e, rows),
        ),
        step(
            "scale_rows",
            move |p| {
                scale_rows(p, &words(rows, g.out_frac()), &words(n, F)).unwrap();
            },
            move |l| l.scale_rows(n, h.out_frac().0),
        ),
        step(
            "rms_norm",
            move |p| {
                rms_norm(p, &words(n, F), rows, &i).unwrap();
            },
            move |l| l.rms_norm(&j, rows),
        ),
    ]
}

fn even_step(cfg: EvenConfig, softplus: bool, n: usize) -> Step {
    step(
        if softplus { "mosoft" } else { "mosilu" },
        move |p| {
            let x = words(n, F);
            if softplus {
                mosoft(p, &x, &cfg).unwrap();
            } else {
                mosilu(p, &x, &cfg).unwrap();
            }
        },
        move |l| {
            if softplus {
                l.mosoft(&cfg, n);
            } else {
                l.mosilu(&cfg, n);
            }
        },
    )
}

fn exp_step(cfg: ExpConfig, rows: usize, heads: usize) -> Step {
    step(
        "mmexp",
        move |p| {
            let rates = at(p, Party::Server, vec![-1.0; heads]);
            mmexp(p, &words(rows * heads, F), heads, rates.as_deref(), &cfg).unwrap();
        },
        move |l| l.mmexp(&cfg, rows * heads),
    )
}

pub fn block_steps(stack: Stack) -> Vec<Step> {
    let cfg = block(stack);
    let shape = HeadShape {
        tokens: 7,
        heads: 3,
        head_dim: 5,
    };
    let (steps, n) = (21, 105);
    let mut all = vec![
        even_step(cfg.silu_conv, false, 131),
        even_step(cfg.softplus, true, 21),
        exp_step(cfg.exp, 7, 3),
    ];
    all.extend(norm_steps(&cfg.pre_norm, 5));
    all.extend(norm_steps(&cfg.gated_norm, 3));
    let c = || cfg.clone();
    let (a, b, d, e, g, h) = (c(), c(), c(), c(), c(), c());
    all.extend([
        step(
            "factors",
            move |p| {
                let rates = at(p, Party::Server, vec![-2.0; 3]);
                let (dt, x) = (words(steps, F), words(n, F));
                factors(p, &dt, &x, rates.as_deref(), shape, &a).unwrap();
            },
            move |l| l.factors(&b, shape),
        ),
        step(
            "gate",
            move |p| {
                let skip = at(p, Party::Server, vec![0.5; 3]);
                let x = words(n, F);
                gate(p, &x, &x, &x, skip.as_deref(), shape, &d).unwrap();
            },
            move |l| l.gate(&e, shape),
        ),
        step(
            "gate_activated",
            move |p| {
                let skip = at(p, Party::Server, vec![0.5; 3]);
                let x = words(n, F);
                gate_activated(p, &x, &x, &x, skip.as_deref(), shape, &g).unwrap();
            },
            move |l| l.gate_activated(&h, shape),
        ),
    ]);
    all
}

pub fn pool_step(shape: PoolShape) -> Step {
    let cfg = PoolConfig::new(PoolLiteral {
        shape,
        frac: F,
        hidden_max: 16.0,
        logit_max: 64.0,
    })
    .unwrap();
    let PoolShape {
        tokens,
        width,
        classes,
    } = shape;
    step(
        "pool_and_classify",
        move |p| {
            let weights = at(p, Party::Client, vec![1u64 << 10; tokens]);
            let matrix = at(p, Party::Server, vec![0.25; classes * width]);
            let bias = at(p, Party::Server, vec![-1.0; classes]);
            let known = PoolKnown {
                weights: weights.as_deref(),
                matrix: matrix.as_deref(),
                bias: bias.as_deref(),
            };
            let logits = pool_and_classify(p, &words(tokens * width, F), known, &cfg).unwrap();
            p.open_to_client(&logits, 32).unwrap();
        },
        move |l| {
            l.pool_and_classify(&cfg);
            l.open_to_client(classes, 32);
        },
    )
}

/// Functions with every graph that the shipped approximations have, and some that they have not.
pub fn functions() -> Vec<Step> {
    let mut all: Vec<Step> = Stack::ALL.into_iter().flat_map(block_steps).collect();
    for residual in [even::SILU_D2, even::SILU_D6] {
        let cfg = EvenConfig::new(EvenKind::Silu, residual, F, 13, 8.0);
        all.push(even_step(cfg.unwrap(), false, 33));
    }
    let minimax = ExpConfig::new(ExpApprox::GdMinimax, F, 13, 4.0, 8.0);
    all.push(exp_step(minimax.unwrap(), 3, 4));
    // Rows so wide and large that they are cut before they are squared; no clamp.
    let wide = NormConfig::new(NormLiteral {
        len: 1024,
        eps: 1e-5,
        frac: F,
        table: NeRms::new(64.0, 60_000.0, 2).unwrap(),
        clamp: false,
    })
    .unwrap();
    assert!(wide.pre_shift() > 0);
    all.extend(norm_steps(&wide, 2));
    for (tokens, width, classes) in [(5, 6, 3), (1, 9, 1), (11, 24, 2)] {
        all.push(pool_step(PoolShape {
            tokens,
            width,
            classes,
        }));
    }
    all
}
