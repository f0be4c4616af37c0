//! The plan: stages, contracts, depth audit, costs.
//!
//! A plan fixes everything public about one deployment. It is arithmetic on shapes: it calls no kernel and runs nothing.

pub mod describe;
pub mod error;
pub mod rings;
pub mod shape;
pub mod stage;

pub use error::PlanError;
pub use shape::{ModelShape, Pooling};
pub use stage::{Domain, Layout, Port, Ring, Stage, StageCost, StageKind};
