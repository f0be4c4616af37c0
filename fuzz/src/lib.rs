//! Fuzz targets: one function for each decoder of bytes from a network or a file.
//!
//! A target returns whether the input was accepted, and panics when a decoder does what it must not: panic, accept what it
//! would not write itself, or go on after an error. The same functions run under libFuzzer (`fuzz_targets/`) and in an
//! ordinary test (`crates/engine/tests/seeds.rs`), which includes this file.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod ckks;
pub mod engine;
pub mod model;
pub mod mpc;
pub mod net;
pub mod plan;
pub mod support;

/// One target.
pub struct Target {
    /// Its name: of the program in `fuzz_targets/` and of the folder in `seeds/`.
    pub name: &'static str,
    /// Runs one input; returns whether it was accepted.
    pub run: fn(&[u8]) -> bool,
    /// Milliseconds of one run, roughly: how much an ordinary test can afford.
    pub cost: u32,
}

const fn target(name: &'static str, run: fn(&[u8]) -> bool, cost: u32) -> Target {
    Target { name, run, cost }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    target("frames", net::frames, 1),
    target("identity", net::identity, 1),
    target("certificate", net::certificate, 1),
    target("pin", net::pin, 1),
    target("tls_handshake", net::tls_handshake, 1),
    target("ckks_objects", ckks::objects, 1),
    target("exports", ckks::exports, 1),
    target("crossings", ckks::crossings, 1),
    target("opening", mpc::opening, 150),
    target("mpc_session", mpc::session, 100),
    target("products", mpc::products, 20),
    target("greeting", engine::greeting, 1),
    target("upload", engine::upload, 2),
    target("entry", engine::entry, 2),
    target("client_key", engine::client_key, 1),
    target("bundle", engine::bundle, 5),
    target("deployment", engine::deployment, 5),
    target("plan", plan::plan, 5),
    target("plan_request", plan::plan_request, 5),
    target("profile", plan::profile, 1),
    target("config", model::config, 1),
    target("weights", model::weights, 1),
    target("calibration", model::calibration, 2),
    target("ranges", model::ranges, 1),
    target("tokenizer", model::tokenizer, 1),
    target("documents", model::documents, 1),
];

/// The committed seeds as they are made: target, name, bytes. Names that begin with `ok` are accepted.
pub fn seeds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    [
        net::seeds(),
        ckks::seeds(),
        mpc::seeds(),
        engine::seeds(),
        plan::seeds(),
        model::seeds(),
    ]
    .concat()
}
