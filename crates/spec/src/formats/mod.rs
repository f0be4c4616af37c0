//! Checked fixed-point formats of the two-party functions, derived from calibrated ranges, and their operation counts.
//!
//! The protocols in crate `nonlinear` evaluate them; a plan computes costs from them. Both parties derive the same formats
//! from the literals in the plan. Every constructor proves that no word overflows inside the calibrated range.
//!
//! | module | formats of |
//! |---|---|
//! | [`mod@even`] | MoSiLU, MoSoft |
//! | [`mod@exp`] | MMExp |
//! | [`norm`] | NeRMS, RMS norm |
//! | [`block`] | all functions of one state-space block |
//! | [`pool`] | pooling, classifier |
//! | [`counts`] | operation counts in closed form |

pub mod block;
mod compare;
pub mod counts;
mod error;
pub mod even;
pub mod exp;
pub mod norm;
pub mod pool;
mod words;

pub use block::{BlockConfig, BlockLiteral, BlockRanges, HeadShape};
pub use compare::CompareFormat;
pub use error::FormatError;
pub use even::{EvenConfig, EvenKind};
pub use exp::ExpConfig;
pub use norm::{NormConfig, NormLiteral};
pub use pool::{PoolConfig, PoolLiteral, PoolShape};
