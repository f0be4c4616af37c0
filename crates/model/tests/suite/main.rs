//! Tests of the public interface, in one binary to link only once.
// Helpers outside #[test] functions are test code too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod calibration;
mod common;
mod documents;
mod fixtures;
mod refusals;
mod texts;
