//! Nonlinear functions on additive shares: fixed-point formats, protocols, operation counts.
//!
//! Every function is generic over [`cipherloom_mpc::Domain`], so the same code runs between two parties and in the
//! plain oracle. Vectors are flat; each docstring gives the shape. Values are words modulo 2^64. The coefficients and
//! the `f64` reference of each approximation are in `cipherloom_spec::approx`.
//!
//! | module | function | primitives an element |
//! |---|---|---|
//! | [`even`] | MoSiLU, MoSoft | degree 4: 2 squares, 2 comparisons, 2 muxes, 2 truncations |
//! | [`exp`] | MMExp | G-D: 1 known product, 1 product, 3 squares, 1 comparison, 1 mux, 5 truncations |
//! | [`mod@nerms`] | NeRMS, RMS norm | a row: 9 comparisons, 8 B2A, 1 mux, 2 or 5 products |
//! | [`block`] | time-step factors, skip and gate | |
//! | [`classify`] | pooling, classifier, faithful output | |
//!
//! The checked formats are built from calibrated ranges in `cipherloom_spec::formats`; [`counts`] gives the operation
//! counts in closed form. Inputs outside the calibrated ranges give wrapped values: nothing is checked on a share, because a
//! check would leak.

pub mod block;
pub mod classify;
pub mod error;
pub mod even;
pub mod exp;
pub mod nerms;
mod words;

pub use block::{factors, gate, gate_activated, Factors};
pub use cipherloom_spec::formats::{
    counts, BlockConfig, BlockLiteral, BlockRanges, EvenConfig, EvenKind, ExpConfig, FormatError,
    HeadShape, NormConfig, NormLiteral, PoolConfig, PoolLiteral, PoolShape,
};
pub use classify::{pool_and_classify, PoolKnown};
pub use error::NonlinearError;
pub use even::{mosilu, mosoft};
pub use exp::mmexp;
pub use nerms::{nerms, rms_norm, scale_rows, sum_of_squares};
