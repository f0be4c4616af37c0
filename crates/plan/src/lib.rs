//! The plan: stages, contracts, depth audit, costs.
//!
//! A plan fixes everything public about one deployment. It is arithmetic on shapes: it calls no kernel and runs nothing.
//! A run counts what it executes and must equal the plan, stage by stage.

mod block_stages;
mod build;
pub mod describe;
pub mod document;
pub mod error;
pub mod failure;
pub mod layouts;
mod memory;
pub mod predict;
pub mod profile;
pub mod request;
pub mod rings;
pub mod shape;
pub mod stage;

pub use document::{
    Document, KeyRequest, KeyUse, MemoryEstimate, Plan, FIRST_STAGE, OFFLINE_STAGE, SETUP_STAGE,
};
pub use error::PlanError;
pub use layouts::{LinearLayouts, ScanChoice};
pub use predict::{LinkRate, Prediction, StagePrediction};
pub use profile::MachineProfile;
pub use request::{Answer, Request};
pub use shape::{ModelShape, Pooling};
pub use stage::{Domain, Layout, Port, Ring, Stage, StageCost, StageKind};
