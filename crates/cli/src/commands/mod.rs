//! One module a command.

pub mod audit;
pub mod calibrate;
pub mod classify;
pub mod demo;
pub mod demo_server;
pub mod measure;
pub mod plan;
pub mod publish;
pub mod serve;
