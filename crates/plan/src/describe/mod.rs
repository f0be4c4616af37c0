//! What kernels and protocols cost, as arithmetic on shapes. Nothing here runs or calls a kernel; a test
//! holds each description against an executed run, exactly.

pub mod boundary;
pub mod functions;
pub mod ledger;
pub mod linear;
pub mod opening;
pub mod protocols;
pub mod scan;
mod scan_prefix;
mod walk;

use cipherloom_spec::cost::HeCounts;

/// The cost of one kernel run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelCost {
    /// Homomorphic operations.
    pub he: HeCounts,
    /// Most ciphertexts alive at once, inputs and outputs included.
    pub peak_live: u64,
    /// Levels from input to output.
    pub depth: usize,
}
