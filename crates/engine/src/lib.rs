//! Runs a plan: client and server sessions, progress, reports.
//!
//! Both parties walk the plan's stages ([`stages`]). What is computed on shares is one code; what differs ([`face`]) is who
//! holds keys, ciphertexts and weights ([`client`], [`server`]). Every executed stage is held against the plan.

pub mod bundle;
pub mod client;
pub mod compare;
pub mod configs;
pub mod document;
pub mod dump;
pub mod error;
pub mod face;
pub mod handshake;
pub mod keys;
pub mod keystore;
pub mod link;
pub mod maps;
pub mod measure;
pub mod remote;
pub mod report;
pub mod server;
pub mod service;
pub mod session;
pub mod stages;
mod walk;
pub mod weights;

pub use error::EngineError;
pub use report::{PartyReport, Seconds, StageReport};
pub use session::{
    run_client, run_server, ClientInput, ClientKeySource, ClientOutcome, Observer, Quiet,
    ServerOutcome, ServerSide, SessionOptions,
};
pub use weights::ServerWeights;

pub use cipherloom_net::{LinkProfile, Pin, TcpAcceptor};
pub use cipherloom_ring::SecretSeed;
