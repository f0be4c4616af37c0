//! Encrypted kernels: projection, convolution, scan, contraction.
//!
//! A kernel is written once against [`SlotDomain`], the slot operations of CKKS. It runs on
//! ciphertexts ([`CkksSlots`]) and on plain vectors ([`SlotSim`]), the oracle for values, levels, counts and memory.

pub mod ckks_slots;
pub mod convolution;
pub mod domain;
pub mod error;
pub mod projection;
pub mod scan;
pub mod sim;

pub use ckks_slots::{CkksSlots, SlotCiphertext};
pub use convolution::{convolve, EncodedConvolution};
pub use domain::SlotDomain;
pub use error::KernelError;
pub use projection::{project, EncodedMatrix};
pub use scan::{HeScan, ScanPacket};
pub use sim::{SimCiphertext, SlotSim};

pub use cipherloom_ckks::{Complex64, LiveCounter};
