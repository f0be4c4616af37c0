//! What differs between the parties. Everything on shares is one code, run by both.

use crate::EngineError;
use cipherloom_bridge::SlotWords;
use cipherloom_mpc::TwoParty;
use cipherloom_plan::Ring;
use cipherloom_spec::cost::HeCounts;

/// Ciphertexts that a stage leaves for the next one, at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slot {
    /// Projection input.
    ProjectionIn,
    /// z of the in-projection.
    Z,
    /// x, B, C, dt before the convolution.
    Unconvolved,
    /// x, B, C, dt after the convolution.
    Convolved,
    /// Scan packet.
    Packet,
    /// Scan output.
    ScanOut,
    /// Out-projection output.
    ProjectionOut,
}

/// An encrypted kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// In-projection.
    Input,
    /// Convolution.
    Convolution,
    /// Scan and contraction.
    Scan,
    /// Out-projection.
    Output,
}

/// Values that one party knows in the clear; `None` at the other party.
pub struct Known<'a> {
    /// `A` a head (server).
    pub rates: Option<&'a [f64]>,
    /// `D` a head (server).
    pub skip: Option<&'a [f64]>,
}

/// One party's side of the stages.
pub trait Face {
    /// The two-party evaluator.
    fn two(&mut self) -> &mut TwoParty;
    /// Shares to ciphertexts at `level` of `ring`, kept under `slot` at the server.
    ///
    /// # Errors
    /// Bridge errors.
    fn to_ckks(
        &mut self,
        ring: Ring,
        level: usize,
        slot: Slot,
        words: Vec<SlotWords>,
    ) -> Result<(), EngineError>;
    /// The ciphertexts under each slot (with the level whose canonical scale they have, and their number) to shares, one flight a slot.
    ///
    /// # Errors
    /// Bridge errors.
    fn to_shares(
        &mut self,
        ring: Ring,
        slots: &[(Slot, usize, usize)],
    ) -> Result<Vec<Vec<SlotWords>>, EngineError>;
    /// Runs an encrypted kernel of a block; nothing at the client.
    ///
    /// # Errors
    /// Kernel errors.
    fn kernel(&mut self, layer: usize, kernel: Kernel) -> Result<(), EngineError>;
    /// Values known at this party.
    fn known(&self, layer: usize) -> Known<'_>;
    /// Classifier and bias (server).
    fn classifier(&self) -> Option<(&[f64], &[f64])>;
    /// Pooling weights of all tokens (client).
    fn pooling(&self) -> Option<&[f64]>;
    /// Embedded tokens, row-major (client).
    fn embedded(&self) -> Option<&[f64]>;
    /// Homomorphic operations so far.
    fn he_counts(&self) -> HeCounts;
    /// Most live ciphertexts since the last call.
    fn take_peak_live(&mut self) -> u64;
}
