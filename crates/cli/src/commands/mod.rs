//! The commands, one module each.

pub mod audit;
pub mod calibrate;
pub mod demo;
pub mod measure;
pub mod plan;
pub mod server;
