//! Kernels of oblivious-transfer extension: hashes of 128-bit blocks under a key each, and matrices of bits.
//!
//! They are here because all unsafe code of the workspace is in this crate. Results do not depend on the instructions used.

mod columns;
mod hash;
mod stream;
#[cfg(target_arch = "x86_64")]
mod vaes;

use crate::vector::Width;

pub use columns::COLUMNS;
pub use stream::{Leaves, StreamKey};

/// Which instructions the kernels of this module use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    width: Width,
    /// AES on four blocks at a time.
    wide_aes: bool,
}

impl Blocks {
    /// Those that any processor has (AES by the `aes` crate, in hardware where there is some).
    pub const PORTABLE: Self = Self {
        width: Width::PORTABLE,
        wide_aes: false,
    };

    /// The fastest that this processor has.
    #[must_use]
    pub fn detect() -> Self {
        let width = Width::available()
            .last()
            .copied()
            .unwrap_or(Width::PORTABLE);
        #[cfg(target_arch = "x86_64")]
        let wide_aes = vaes::detected();
        #[cfg(not(target_arch = "x86_64"))]
        let wide_aes = false;
        Self { width, wide_aes }
    }

    /// All that this processor has, for tests and benchmarks.
    #[must_use]
    pub fn available() -> Vec<Self> {
        let mut all: Vec<Self> = Width::available()
            .into_iter()
            .map(|width| Self {
                width,
                wide_aes: false,
            })
            .collect();
        if !all.contains(&Self::detect()) {
            all.push(Self::detect());
        }
        all
    }
}
