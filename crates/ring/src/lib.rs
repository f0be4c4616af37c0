//! RNS ring arithmetic: NTT, polynomials, samplers, SIMD backends.
//!
//! - [`Modulus`], [`NttTable`], [`Basis`]: primes below 2^50 and their tables.
//! - [`Poly`]: residues in coefficient or NTT form, by type; [`SecretPoly`] wipes itself.
//! - [`convert`]: rescaling, base conversion, `ModUp` and `ModDown` of hybrid key switching.
//! - [`crt`]: exact lift to centred integers.
//! - [`UniformXof`] expands public seeds, [`SecretPrg`] samples secrets: two types on purpose.
//! - [`vector`]: the FFT between slots and coefficients, and other kernels of encoding and decoding.
//! - [`pack`]: compact bytes.
//! - [`blocks`]: hashes of blocks and bit matrices, for oblivious-transfer extension.

pub mod automorphism;
pub mod backend;
pub mod basis;
pub mod blocks;
pub mod convert;
pub mod crt;
pub mod error;
pub mod heap;
pub mod modulus;
pub mod ntt;
pub mod pack;
pub mod packed;
mod parallel;
pub mod poly;
pub mod prg;
pub mod vector;
pub mod words;
pub mod xof;

pub use automorphism::{galois_element, Automorphism};
pub use backend::{Ahead, Backend, Destination, Pieces, SimdChoice};
pub use basis::Basis;
pub use blocks::Blocks;
pub use convert::{BaseConverter, ModDown, ModUp};
pub use crt::CrtLift;
pub use error::RingError;
pub use modulus::{Modulus, Shoup};
pub use ntt::{InverseFactor, NttTable};
pub use packed::{PackedPoly, PackedRow};
pub use poly::{Coeff, Ntt, Poly, Repr, SecretPoly};
pub use prg::{SecretPrg, SecretSeed};
pub use words::Words;
pub use xof::{PublicSeed, UniformXof};
