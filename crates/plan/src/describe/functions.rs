//! The call sequences of the functions of `nonlinear`, in the order of its code, from the same checked formats.

use super::ledger::{Ledger, Side};
use cipherloom_spec::fixed::{OUTPUT_BITS, OUTPUT_FRAC};
use cipherloom_spec::formats::even::{S_FRAC_D4, S_FRAC_HIGH};
use cipherloom_spec::formats::exp::{POLY_FRAC, POWER_FRAC, S_FRAC, Z_FRAC};
use cipherloom_spec::formats::{
    BlockConfig, EvenConfig, ExpConfig, HeadShape, NormConfig, PoolConfig,
};

impl Ledger {
    /// `nonlinear`'s `truncate_to`: nothing when there is nothing to cut.
    fn truncate_to(&mut self, n: usize, from: u32, to: u32) {
        self.truncate(n, from.saturating_sub(to));
    }

    /// `mosilu` on `n` elements.
    pub fn mosilu(&mut self, cfg: &EvenConfig, n: usize) {
        self.even_residual(cfg, n);
    }

    /// `mosoft` on `n` elements.
    pub fn mosoft(&mut self, cfg: &EvenConfig, n: usize) {
        self.even_residual(cfg, n);
    }

    fn even_residual(&mut self, cfg: &EvenConfig, n: usize) {
        self.less_than(n, 2, cfg.compare());
        let square = 2 * (cfg.frac().0 + cfg.scale_log2());
        self.square(n);
        match cfg.residual().degree() {
            2 => {}
            4 => {
                self.truncate_to(n, square, S_FRAC_D4);
                self.square(n);
            }
            _ => {
                self.truncate_to(n, square, S_FRAC_HIGH);
                self.square(n);
                self.truncate_to(n, 2 * S_FRAC_HIGH, S_FRAC_HIGH);
                self.product(n);
            }
        }
        self.mux(2 * n);
        self.truncate_to(n, cfg.poly_frac(), cfg.frac().0);
    }

    /// `mmexp` on `n` elements.
    pub fn mmexp(&mut self, cfg: &ExpConfig, n: usize) {
        self.product_known(Side::Server, n);
        self.truncate_to(n, cfg.frac().0 + cfg.rate_frac().0, Z_FRAC);
        self.less_than(n, 1, cfg.compare());
        self.square(n);
        self.truncate_to(n, 2 * S_FRAC, S_FRAC);
        self.product(n);
        let mut frac = POLY_FRAC;
        for _ in 0..cfg.approx().squarings() {
            self.truncate_to(n, frac, POWER_FRAC);
            self.square(n);
            frac = 2 * POWER_FRAC;
        }
        self.mux(n);
        self.truncate_to(n, frac, cfg.frac().0);
    }

    /// `sum_of_squares` of `rows` rows.
    pub fn sum_of_squares(&mut self, cfg: &NormConfig, rows: usize) {
        let l = cfg.literal();
        let n = rows * l.len;
        self.truncate(n, cfg.pre_shift());
        self.square(n);
        let sum = 2 * (l.frac.0 - cfg.pre_shift()) + cfg.mean_log2();
        self.truncate_to(rows, sum, cfg.v_frac().0);
    }

    /// `nerms` of `rows` values.
    pub fn nerms(&mut self, cfg: &NormConfig, rows: usize) {
        let inner = cfg.thresholds().len();
        let clamp = cfg.literal().clamp;
        self.less_than(rows, inner + if clamp { 2 } else { 0 }, cfg.compare());
        self.b2a((inner + usize::from(clamp)) * rows);
        if clamp {
            self.mux(rows);
        }
        let (v, y) = (cfg.v_frac().0, cfg.y_frac().0);
        self.product(rows);
        self.truncate_to(rows, v + cfg.q_frac().0, cfg.h_frac().0);
        self.product(rows);
        let y1 = y + cfg.h_frac().0 + 1;
        if cfg.newton() == 1 {
            self.truncate_to(rows, y1, cfg.out_frac().0);
            return;
        }
        self.truncate_to(rows, y1, y);
        self.square(rows);
        self.truncate_to(rows, 2 * y, cfg.q1_frac().0);
        self.product(rows);
        self.truncate_to(rows, v + cfg.q1_frac().0, cfg.h2_frac().0);
        self.product(rows);
        let y2 = y + cfg.h2_frac().0 + cfg.const_frac().0;
        self.truncate_to(rows, y2, cfg.out_frac().0);
    }

    /// `scale_rows` of a matrix of `n` elements by row factors with `factor_frac` fraction bits.
    pub fn scale_rows(&mut self, n: usize, factor_frac: u32) {
        self.product(n);
        self.truncate(n, factor_frac);
    }

    /// `rms_norm` of `rows` rows.
    pub fn rms_norm(&mut self, cfg: &NormConfig, rows: usize) {
        self.sum_of_squares(cfg, rows);
        self.nerms(cfg, rows);
        self.scale_rows(rows * cfg.literal().len, cfg.out_frac().0);
    }

    /// `factors`: softplus and decay a head, scaled inputs a channel.
    pub fn factors(&mut self, cfg: &BlockConfig, shape: HeadShape) {
        let steps = shape.tokens * shape.heads;
        self.mosoft(&cfg.softplus, steps);
        self.mmexp(&cfg.exp, steps);
        self.scale_rows(steps * shape.head_dim, cfg.frac().0);
    }

    /// `gate_activated` of a `[tokens, heads, head_dim]` tensor.
    pub fn gate_activated(&mut self, cfg: &BlockConfig, shape: HeadShape) {
        let n = shape.tokens * shape.heads * shape.head_dim;
        self.product_known(Side::Server, n);
        self.truncate(n, cfg.frac().0);
        self.product(n);
        self.truncate(n, cfg.frac().0);
    }

    /// `gate`: SiLU of the gate, then [`Ledger::gate_activated`].
    pub fn gate(&mut self, cfg: &BlockConfig, shape: HeadShape) {
        self.mosilu(&cfg.silu_gate, shape.tokens * shape.heads * shape.head_dim);
        self.gate_activated(cfg, shape);
    }

    /// `pool_and_classify`.
    pub fn pool_and_classify(&mut self, cfg: &PoolConfig) {
        let (s, frac) = (cfg.shape(), cfg.literal().frac.0);
        self.product_known(Side::Client, s.tokens * s.width);
        self.truncate(s.width, cfg.weight_frac().0);
        self.product_known(Side::Server, s.classes * s.width);
        let logit = frac + cfg.matrix_frac().0;
        self.truncate_reduce_faithful(s.classes, logit.saturating_sub(OUTPUT_FRAC.0), OUTPUT_BITS);
    }
}

#[cfg(test)]
mod tests {
    use super::super::ledger::{MpcShape, ProductShape};
    use super::*;
    use cipherloom_spec::approx::Stack;
    use cipherloom_spec::cost::MpcCounts;
    use cipherloom_spec::formats::{counts, BlockLiteral, BlockRanges, PoolLiteral, PoolShape};
    use cipherloom_spec::FracBits;

    fn block(stack: Stack) -> BlockConfig {
        BlockConfig::new(BlockLiteral {
            stack,
            frac: FracBits(19),
            kept_frac: 13,
            model_width: 12,
            inner_width: 24,
            eps: 1e-5,
            ranges: BlockRanges {
                conv_abs: 8.0,
                gate_abs: 8.0,
                step_abs: 8.0,
                rate_abs: 16.0,
                scan_abs: 16.0,
                pre_norm: (0.05, 8.0),
                gated_norm: (0.05, 8.0),
            },
        })
        .unwrap()
    }

    fn spent(run: impl FnOnce(&mut Ledger)) -> MpcCounts {
        let mut l = Ledger::new(MpcShape::default(), ProductShape::Cot);
        run(&mut l);
        MpcCounts {
            cots: 0,
            ..l.total().1
        }
    }

    #[test]
    fn the_call_sequences_spend_the_counts_in_closed_form() {
        let shape = HeadShape {
            tokens: 3,
            heads: 2,
            head_dim: 5,
        };
        for stack in Stack::ALL {
            let b = block(stack);
            assert_eq!(
                spent(|l| l.mosilu(&b.silu_conv, 7)),
                counts::even(&b.silu_conv, 7)
            );
            assert_eq!(
                spent(|l| l.mmexp(&b.exp, 7)),
                counts::exp(b.exp.approx(), 7)
            );
            for norm in [&b.pre_norm, &b.gated_norm] {
                assert_eq!(spent(|l| l.rms_norm(norm, 3)), counts::rms_norm(norm, 3));
            }
            assert_eq!(
                spent(|l| l.factors(&b, shape)),
                counts::factors(&b.softplus, b.exp.approx(), shape)
            );
            assert_eq!(spent(|l| l.gate(&b, shape)), counts::gate(&b.silu_gate, 30));
        }
        let shape = PoolShape {
            tokens: 5,
            width: 6,
            classes: 3,
        };
        let pool = PoolConfig::new(PoolLiteral {
            shape,
            frac: FracBits(19),
            hidden_max: 16.0,
            logit_max: 32.0,
        })
        .unwrap();
        assert_eq!(
            spent(|l| l.pool_and_classify(&pool)),
            counts::pool_and_classify(shape)
        );
    }
}
