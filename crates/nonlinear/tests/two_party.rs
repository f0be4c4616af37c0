//! Every function between two parties with the real protocols, against the plain oracle: same operation counts, and
//! results within a few units.

#![allow(clippy::unwrap_used)]

mod common;

use cipherloom_mpc::harness::{join_words, run_pair};
use cipherloom_mpc::{Domain, MpcConfig, Party, Plain, Shares};
use cipherloom_nonlinear::{
    counts, factors, gate, mmexp, mosilu, mosoft, nerms, pool_and_classify, rms_norm,
    sum_of_squares, BlockConfig, BlockLiteral, BlockRanges, HeadShape, NonlinearError, PoolConfig,
    PoolKnown, PoolLiteral, PoolShape,
};
use cipherloom_spec::approx::Stack;
use cipherloom_spec::cost::MpcCounts;
use common::{decode, encode, grid, noise, Sim, F};

type Values = Vec<Shares>;

/// Runs a program on given inputs in the plain oracle and between two parties. `known` tells the program which party
/// it plays (`None`: the oracle, which knows both sides' values). Returns both results, joined, and the counts.
fn both<P>(inputs: &[Shares], program: P) -> (Values, Values, MpcCounts)
where
    P: Fn(&mut dyn DynRun, &[Shares]) -> Result<Values, NonlinearError> + Sync,
{
    let mut plain = Plain::new();
    let want = program(&mut Runner(&mut plain, None), inputs).unwrap();
    let plain_counts = plain.counts();

    let random = Sim::words(99, inputs.iter().map(Shares::len).sum());
    let mut rest = &random[..];
    let (mut client, mut server) = (Vec::new(), Vec::new());
    for x in inputs {
        let (r, tail) = rest.split_at(x.len());
        rest = tail;
        client.push(Shares {
            v: r.to_vec(),
            frac: x.frac,
        });
        server.push(Shares {
            v: x.v.iter().zip(r).map(|(w, r)| w.wrapping_sub(*r)).collect(),
            frac: x.frac,
        });
    }
    let run = |party, shares: Values| {
        let program = &program;
        move |p: &mut cipherloom_mpc::TwoParty| {
            let out = program(&mut Runner(p, Some(party)), &shares);
            Ok((out, p.counts()))
        }
    };
    let ((c, c_counts), (s, s_counts)) = run_pair(
        MpcConfig::default(),
        run(Party::Client, client),
        run(Party::Server, server),
    )
    .unwrap();
    let got = c
        .unwrap()
        .iter()
        .zip(&s.unwrap())
        .map(|(a, b)| Shares {
            v: join_words(&a.v, &b.v),
            frac: a.frac,
        })
        .collect();
    // COTs depend on the protocols; everything else must be what the oracle counted, at both parties.
    for counts in [c_counts, s_counts] {
        assert!(counts.cots > 0);
        assert_eq!(MpcCounts { cots: 0, ..counts }, plain_counts);
    }
    (got, want, plain_counts)
}

/// Object-safe face of the functions under test, so that one closure serves both domains.
trait DynRun {
    fn silu(&mut self, x: &Shares, c: &BlockConfig) -> Result<Shares, NonlinearError>;
    fn soft(&mut self, x: &Shares, c: &BlockConfig) -> Result<Shares, NonlinearError>;
    fn exp(&mut self, d: &Shares, rates: &[f64], c: &BlockConfig)
        -> Result<Shares, NonlinearError>;
    fn squares(
        &mut self,
        x: &Shares,
        rows: usize,
        c: &BlockConfig,
    ) -> Result<Shares, NonlinearError>;
    fn root(&mut self, v: &Shares, c: &BlockConfig) -> Result<Shares, NonlinearError>;
    fn norm(&mut self, x: &Shares, rows: usize, c: &BlockConfig) -> Result<Shares, NonlinearError>;
    fn factors(
        &mut self,
        dt: &Shares,
        x: &Shares,
        rates: &[f64],
        c: &BlockConfig,
    ) -> Result<Values, NonlinearError>;
    fn gate(
        &mut self,
        m: &Shares,
        x: &Shares,
        z: &Shares,
        skip: &[f64],
        c: &BlockConfig,
    ) -> Result<Shares, NonlinearError>;
    fn classify(
        &mut self,
        h: &Shares,
        w: &[u64],
        m: &[f64],
        b: &[f64],
        c: &PoolConfig,
    ) -> Result<Shares, NonlinearError>;
}

struct Runner<'a, D>(&'a mut D, Option<Party>);

impl<D> Runner<'_, D> {
    /// The values of `owner`, hidden from the other party.
    fn known<'v, T: ?Sized>(&self, owner: Party, v: &'v T) -> Option<&'v T> {
        (self.1.is_none() || self.1 == Some(owner)).then_some(v)
    }
}

const SHAPE: HeadShape = HeadShape {
    tokens: 20,
    heads: 4,
    head_dim: 5,
};

impl<D: Domain> DynRun for Runner<'_, D> {
    fn silu(&mut self, x: &Shares, c: &BlockConfig) -> Result<Shares, NonlinearError> {
        mosilu(self.0, x, &c.silu_conv)
    }
    fn soft(&mut self, x: &Shares, c: &BlockConfig) -> Result<Shares, NonlinearError> {
        mosoft(self.0, x, &c.softplus)
    }
    fn exp(
        &mut self,
        d: &Shares,
        rates: &[f64],
        c: &BlockConfig,
    ) -> Result<Shares, NonlinearError> {
        let rates = self.known(Party::Server, rates);
        mmexp(self.0, d, SHAPE.heads, rates, &c.exp)
    }
    fn squares(
        &mut self,
        x: &Shares,
        rows: usize,
        c: &BlockConfig,
    ) -> Result<Shares, NonlinearError> {
        sum_of_squares(self.0, x, rows, &c.pre_norm)
    }
    fn root(&mut self, v: &Shares, c: &BlockConfig) -> Result<Shares, NonlinearError> {
        nerms(self.0, v, &c.pre_norm)
    }
    fn norm(&mut self, x: &Shares, rows: usize, c: &BlockConfig) -> Result<Shares, NonlinearError> {
        rms_norm(self.0, x, rows, &c.pre_norm)
    }
    fn factors(
        &mut self,
        dt: &Shares,
        x: &Shares,
        rates: &[f64],
        c: &BlockConfig,
    ) -> Result<Values, NonlinearError> {
        let rates = self.known(Party::Server, rates);
        let f = factors(self.0, dt, x, rates, SHAPE, c)?;
        Ok(vec![f.delta, f.decay, f.scaled])
    }
    fn gate(
        &mut self,
        m: &Shares,
        x: &Shares,
        z: &Shares,
        skip: &[f64],
        c: &BlockConfig,
    ) -> Result<Shares, NonlinearError> {
        let skip = self.known(Party::Server, skip);
        gate(self.0, m, x, z, skip, SHAPE, c)
    }
    fn classify(
        &mut self,
        h: &Shares,
        w: &[u64],
        m: &[f64],
        b: &[f64],
        c: &PoolConfig,
    ) -> Result<Shares, NonlinearError> {
        let known = PoolKnown {
            weights: self.known(Party::Client, w),
            matrix: self.known(Party::Server, m),
            bias: self.known(Party::Server, b),
        };
        pool_and_classify(self.0, h, known, c)
    }
}

fn config(stack: Stack) -> BlockConfig {
    BlockConfig::new(BlockLiteral {
        stack,
        frac: F,
        kept_frac: 13,
        model_width: 24,
        inner_width: 96,
        eps: 1e-5,
        ranges: BlockRanges {
            conv_abs: 16.0,
            gate_abs: 16.0,
            step_abs: 16.0,
            rate_abs: 16.0,
            scan_abs: 64.0,
            pre_norm: (0.01, 16.0),
            gated_norm: (0.01, 16.0),
        },
    })
    .unwrap()
}

/// Largest difference in units of the fraction bits, elements near a jump left out.
fn units(got: &Shares, want: &Shares, skip: impl Fn(usize) -> bool) -> i64 {
    assert_eq!(got.frac, want.frac);
    assert_eq!(got.len(), want.len());
    let d = got.v.iter().zip(&want.v).enumerate();
    d.filter(|(i, _)| !skip(*i))
        .map(|(_, (a, b))| (a.wrapping_sub(*b) as i64).abs())
        .max()
        .unwrap()
}

fn near(x: f64, edges: &[f64]) -> bool {
    edges.iter().any(|e| (x - e).abs() < 2f64.powi(-12))
}

#[test]
fn activations_agree_within_units() {
    let xs = grid(-16.0, 16.0, 1500);
    let x = encode(&xs, F);
    for stack in [Stack::D4, Stack::Tight] {
        let cfg = config(stack);
        let taus = [4.0, -4.0, 6.0, -6.0];
        let skip = |i: usize| near(xs[i], &taus);
        let n = xs.len() as u64;

        let (got, want, c) = both(std::slice::from_ref(&x), |d, v| {
            Ok(vec![d.silu(&v[0], &cfg)?])
        });
        assert_eq!(c, counts::even(&cfg.silu_conv, n));
        let silu = units(&got[0], &want[0], skip);
        let (got, want, c) = both(std::slice::from_ref(&x), |d, v| {
            Ok(vec![d.soft(&v[0], &cfg)?])
        });
        assert_eq!(c, counts::even(&cfg.softplus, n));
        let soft = units(&got[0], &want[0], skip);
        println!("{stack}: silu {silu} softplus {soft} units");
        let bound = if stack == Stack::D4 { 4 } else { 8 };
        assert!(silu <= bound && soft <= bound, "{stack} {silu} {soft}");
        assert!(
            silu > 0,
            "two parties cannot agree with rounding to nearest everywhere"
        );
    }
}

#[test]
fn decays_agree_within_units() {
    let rates = [-1.0, -0.3, -7.5, -15.0];
    let deltas: Vec<f64> = noise(1200, 5).iter().map(|a| 6.0 * a * a).collect();
    for stack in [Stack::Paper, Stack::D4] {
        let cfg = config(stack);
        let d = encode(&deltas, F);
        let (got, want, c) = both(&[d], |d, v| Ok(vec![d.exp(&v[0], &rates, &cfg)?]));
        assert_eq!(c, counts::exp(cfg.exp.approx(), 1200));
        let skip = |i: usize| near(deltas[i] * rates[i % 4], &[-8.0]);
        let u = units(&got[0], &want[0], skip);
        println!("{stack}: exp {u} units");
        assert!(u <= 5, "{stack} {u}");
    }
}

#[test]
fn norms_agree() {
    let (rows, len) = (40, 24);
    let x: Vec<f64> = noise(rows * len, 6)
        .iter()
        .enumerate()
        // From below the range to above it.
        .map(|(i, a)| a * 0.1 * 1.12f64.powi((i / len) as i32))
        .collect();
    let x = encode(&x, F);
    for stack in [Stack::D4, Stack::Tight] {
        let cfg = config(stack);
        let (got, want, c) = both(std::slice::from_ref(&x), |d, v| {
            let s = d.squares(&v[0], rows, &cfg)?;
            let y = d.root(&s, &cfg)?;
            Ok(vec![s, y])
        });
        let mut sum = counts::sum_of_squares(&cfg.pre_norm, rows as u64);
        sum += counts::nerms(&cfg.pre_norm, rows as u64);
        assert_eq!(c, sum);
        assert!(units(&got[0], &want[0], |_| false) <= 1);
        for (a, b) in decode(&got[1]).iter().zip(decode(&want[1])) {
            assert!((a / b - 1.0).abs() < 2f64.powi(-13), "{stack} {a} {b}");
        }
        let (got, want, c) = both(std::slice::from_ref(&x), |d, v| {
            Ok(vec![d.norm(&v[0], rows, &cfg)?])
        });
        assert_eq!(c, counts::rms_norm(&cfg.pre_norm, rows as u64));
        for (a, b) in decode(&got[0]).iter().zip(decode(&want[0])) {
            assert!((a - b).abs() < 2f64.powi(-13) * b.abs() + 2.0 / F.unit());
        }
    }
}

#[test]
fn block_stages_agree() {
    let steps = SHAPE.tokens * SHAPE.heads;
    let n = steps * SHAPE.head_dim;
    let dts: Vec<f64> = noise(steps, 1).iter().map(|a| a * 5.0 - 1.0).collect();
    let (rates, skip) = ([-1.0, -4.0, -0.2, -12.0], [1.0, -0.5, 0.0, 0.7]);
    let tensor = |seed, size| {
        encode(
            &noise(n, seed).iter().map(|a| a * size).collect::<Vec<_>>(),
            F,
        )
    };
    let (x, m, z) = (tensor(2, 8.0), tensor(3, 30.0), tensor(4, 3.9));
    let cfg = config(Stack::D4);

    let inputs = [encode(&dts, F), x.clone()];
    let (got, want, c) = both(&inputs, |d, v| d.factors(&v[0], &v[1], &rates, &cfg));
    assert_eq!(c, counts::factors(&cfg.softplus, cfg.exp.approx(), SHAPE));
    let edge = |i: usize| near(dts[i], &[-4.0, 4.0]);
    assert!(units(&got[0], &want[0], edge) <= 4);
    // A decay sees the error of its time step times |A|, and may sit next to the cut.
    let delta = decode(&want[0]);
    let cut = |i: usize| edge(i) || (delta[i] * rates[i % 4] + 8.0).abs() < 0.01;
    assert!(units(&got[1], &want[1], cut) <= 50);
    assert!(units(&got[2], &want[2], |i| edge(i / SHAPE.head_dim)) <= 4 * 8 + 2);

    let (got, want, c) = both(&[m, x, z], |d, v| {
        Ok(vec![d.gate(&v[0], &v[1], &v[2], &skip, &cfg)?])
    });
    assert_eq!(c, counts::gate(&cfg.silu_gate, n as u64));
    assert!(units(&got[0], &want[0], |_| false) <= 40 * 4 + 8);
}

#[test]
fn logits_agree() {
    let shape = PoolShape {
        tokens: 50,
        width: 16,
        classes: 3,
    };
    let cfg = PoolConfig::new(PoolLiteral {
        shape,
        frac: F,
        hidden_max: 16.0,
        logit_max: 64.0,
    })
    .unwrap();
    let h = encode(
        &noise(800, 8).iter().map(|a| a * 9.0).collect::<Vec<_>>(),
        F,
    );
    let w: Vec<u64> = (0..50)
        .map(|k| {
            cfg.weight_frac()
                .encode(if k < 37 { 1.0 / 37.0 } else { 0.0 })
        })
        .collect();
    let (m, b) = (noise(48, 9), [0.25, -3.0, 60.0]);
    let (got, want, c) = both(&[h], |d, v| Ok(vec![d.classify(&v[0], &w, &m, &b, &cfg)?]));
    assert_eq!(c, counts::pool_and_classify(shape));
    for (a, b) in got[0].v.iter().zip(&want[0].v) {
        // Shares of a 32-bit ring.
        let d = (*a as u32).wrapping_sub(*b as u32) as i32;
        assert!(d.abs() <= 1, "{d}");
    }
}
