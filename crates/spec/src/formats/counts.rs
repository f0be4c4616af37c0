//! Operation counts in closed form, for the planner. Every executed function is tested to spend exactly these.
//!
//! Only the operations of the graphs in crate `nonlinear` are counted; `cots` and `extensions` stay 0, because they depend on the
//! protocols behind the domain.

use super::{EvenConfig, HeadShape, NormConfig, PoolShape};
use crate::approx::{rms::BUCKETS, ExpApprox};
use crate::cost::MpcCounts;

/// Field-wise sum.
#[must_use]
pub fn plus(mut a: MpcCounts, b: MpcCounts) -> MpcCounts {
    a += b;
    a
}

/// Products in the sense of the published tables: squares and products with known values included.
#[must_use]
pub fn published_products(c: &MpcCounts) -> u64 {
    c.products + c.squares + c.known_products
}

/// `mosilu` or `mosoft` on `n` elements.
#[must_use]
pub fn even(cfg: &EvenConfig, n: u64) -> MpcCounts {
    let (squares, products, truncations) = match cfg.residual().degree() {
        2 => (1, 0, 1),
        4 => (2, 0, 2),
        _ => (2, 1, 3),
    };
    MpcCounts {
        squares: squares * n,
        products: products * n,
        truncations: truncations * n,
        comparisons: 2 * n,
        muxes: 2 * n,
        ..MpcCounts::default()
    }
}

/// `mmexp` on `n` elements.
#[must_use]
pub fn exp(approx: ExpApprox, n: u64) -> MpcCounts {
    let squarings = u64::from(approx.squarings());
    MpcCounts {
        known_products: n,
        products: n,
        squares: (1 + squarings) * n,
        truncations: (3 + squarings) * n,
        comparisons: n,
        muxes: n,
        ..MpcCounts::default()
    }
}

/// `sum_of_squares` on `rows` rows.
#[must_use]
pub fn sum_of_squares(cfg: &NormConfig, rows: u64) -> MpcCounts {
    let n = rows * cfg.literal().len as u64;
    MpcCounts {
        squares: n,
        truncations: rows + if cfg.pre_shift() > 0 { n } else { 0 },
        ..MpcCounts::default()
    }
}

/// `nerms` on `rows` rows.
#[must_use]
pub fn nerms(cfg: &NormConfig, rows: u64) -> MpcCounts {
    let clamp = u64::from(cfg.literal().clamp);
    let inner = BUCKETS as u64 - 1;
    let (products, squares, truncations) = if cfg.newton() == 1 {
        (2, 0, 2)
    } else {
        (4, 1, 5)
    };
    MpcCounts {
        products: products * rows,
        squares: squares * rows,
        truncations: truncations * rows,
        comparisons: (inner + 2 * clamp) * rows,
        b2a: (inner + clamp) * rows,
        muxes: clamp * rows,
        ..MpcCounts::default()
    }
}

/// `scale_rows` on a matrix of `n` elements.
#[must_use]
pub fn scale_rows(n: u64) -> MpcCounts {
    MpcCounts {
        products: n,
        truncations: n,
        ..MpcCounts::default()
    }
}

/// `rms_norm` on `rows` rows.
#[must_use]
pub fn rms_norm(cfg: &NormConfig, rows: u64) -> MpcCounts {
    let n = rows * cfg.literal().len as u64;
    plus(
        plus(sum_of_squares(cfg, rows), nerms(cfg, rows)),
        scale_rows(n),
    )
}

/// `factors`.
#[must_use]
pub fn factors(softplus: &EvenConfig, approx: ExpApprox, shape: HeadShape) -> MpcCounts {
    let steps = (shape.tokens * shape.heads) as u64;
    plus(
        plus(even(softplus, steps), exp(approx, steps)),
        scale_rows(steps * shape.head_dim as u64),
    )
}

/// `gate_activated` on `n` elements.
#[must_use]
pub fn gate_activated(n: u64) -> MpcCounts {
    MpcCounts {
        known_products: n,
        products: n,
        truncations: 2 * n,
        ..MpcCounts::default()
    }
}

/// `gate` on `n` elements.
#[must_use]
pub fn gate(silu: &EvenConfig, n: u64) -> MpcCounts {
    plus(even(silu, n), gate_activated(n))
}

/// `pool_and_classify`.
#[must_use]
pub fn pool_and_classify(shape: PoolShape) -> MpcCounts {
    let (tokens, width, classes) = (
        shape.tokens as u64,
        shape.width as u64,
        shape.classes as u64,
    );
    MpcCounts {
        known_products: (tokens + classes) * width,
        truncations: width,
        faithful_truncations: classes,
        ..MpcCounts::default()
    }
}
