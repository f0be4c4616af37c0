//! Kernels over one limb, behind one trait: a scalar reference and SIMD versions that agree with
//! it bit for bit.
//!
//! A backend is chosen once, when a [`crate::Basis`] is built, and travels with it. There is no
//! global switch.

mod ahead;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod checks;
#[cfg(target_arch = "x86_64")]
mod ifma;
mod pieces;
mod scalar;

use std::fmt::Debug;
use std::sync::Arc;

use crate::automorphism::Automorphism;
use crate::error::RingError;
use crate::modulus::{Modulus, Shoup};
use crate::ntt::{InverseFactor, NttTable};
use crate::packed::PackedRow;
use crate::words::Words;

pub use ahead::Ahead;
#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2Backend;
#[cfg(target_arch = "x86_64")]
pub use ifma::IfmaBackend;
pub use pieces::Pieces;
pub use scalar::ScalarBackend;

/// Kernels over slices of reduced residues modulo one prime.
///
/// Contract: every input residue is in `[0, q)` unless said otherwise, every output residue is in
/// `[0, q)`; slices of one call have the same length (shorter ones bound the work); results are
/// equal bit for bit to those of [`ScalarBackend`].
pub trait Backend: Debug + Send + Sync {
    /// Name as accepted by `CIPHERLOOM_SIMD`.
    fn name(&self) -> &'static str;

    /// Bits of the Shoup quotients that this backend wants in an [`NttTable`]: 64 or 52, or 53 for
    /// quotients in double precision.
    fn quotient_bits(&self) -> u32;

    /// The two tables of an [`NttTable`] from the powers of its root, one factor for each group of each
    /// layer (`powers.len()` is N, a power of two from 16): the factors, then what multiplying by them
    /// needs. Only this backend reads them. Unless overridden: the same factors, and Shoup quotients of
    /// [`Backend::quotient_bits`].
    fn twiddles(&self, m: &Modulus, powers: Words) -> (Words, Words) {
        let shift = 64 - self.quotient_bits();
        let mut quotients = Words::zeroed(powers.len());
        for (quotient, &w) in quotients.iter_mut().zip(powers.iter()) {
            *quotient = m.shoup(w).quotient >> shift;
        }
        (powers, quotients)
    }

    /// Forward negacyclic NTT in place, natural order in, bit-reversed order out. Takes residues below 4q.
    fn ntt_forward(&self, table: &NttTable, a: &mut [u64]);

    /// Inverse negacyclic NTT in place, bit-reversed order in, natural order out, scaled by 1/N.
    fn ntt_inverse(&self, table: &NttTable, a: &mut [u64]);

    /// First part of a split forward transform, in place, on some columns of a polynomial.
    ///
    /// A split transform sees a polynomial as [`NttTable::rows`] rows of consecutive coefficients. The first layers
    /// combine coefficients of one column only, the others coefficients of one row only. `tile` holds a
    /// multiple of 8 columns, row after row. Input below 4q. Values between the two parts have a form of the
    /// backend's own.
    fn forward_head(&self, table: &NttTable, tile: &mut [u64]);

    /// Second part of a split forward transform, in place, on row `s`: all layers that [`Backend::forward_head`] left.
    /// Output as of [`Backend::ntt_forward`].
    fn forward_tail(&self, table: &NttTable, s: usize, row: &mut [u64], ahead: &mut Ahead<'_>);

    /// As [`Backend::forward_tail`] on a row that lies in pieces, into `row`.
    fn forward_tail_from(
        &self,
        table: &NttTable,
        s: usize,
        pieces: Pieces<'_>,
        row: &mut [u64],
        ahead: &mut Ahead<'_>,
    ) {
        pieces.copy_to(row);
        self.forward_tail(table, s, row, ahead);
    }

    /// First part of a split inverse transform, in place, on row `s` of a polynomial in the order of [`Backend::ntt_forward`].
    fn inverse_tail(&self, table: &NttTable, s: usize, row: &mut [u64], ahead: &mut Ahead<'_>);

    /// As [`Backend::inverse_tail`] from another row.
    fn inverse_tail_from(
        &self,
        table: &NttTable,
        s: usize,
        from: &[u64],
        row: &mut [u64],
        ahead: &mut Ahead<'_>,
    ) {
        row.copy_from_slice(from);
        self.inverse_tail(table, s, row, ahead);
    }

    /// As [`Backend::inverse_head`] on a tile whose rows lie in pieces, into `tile`.
    fn inverse_head_from(
        &self,
        table: &NttTable,
        pieces: Pieces<'_>,
        tile: &mut [u64],
        factor: &InverseFactor,
    ) {
        pieces.copy_to(tile);
        self.inverse_head(table, tile, factor);
    }

    /// Second part of a split inverse transform, in place, on columns as in [`Backend::forward_head`]: the
    /// output is reduced, normalised and multiplied by the constant of `factor`.
    fn inverse_head(&self, table: &NttTable, tile: &mut [u64], factor: &InverseFactor);

    /// `a += b`.
    fn add_assign(&self, m: &Modulus, a: &mut [u64], b: &[u64]);

    /// `a -= b`.
    fn sub_assign(&self, m: &Modulus, a: &mut [u64], b: &[u64]);

    /// `a = -a`.
    fn neg_assign(&self, m: &Modulus, a: &mut [u64]);

    /// `a *= b`, pointwise.
    fn mul_assign(&self, m: &Modulus, a: &mut [u64], b: &[u64]);

    /// `out = a * b`, pointwise.
    fn mul(&self, m: &Modulus, out: &mut [u64], a: &[u64], b: &[u64]);

    /// `acc += a * b`, pointwise, with one reduction.
    fn mul_add(&self, m: &Modulus, acc: &mut [u64], a: &[u64], b: &[u64]);

    /// `acc += sum of a_i * b_i`, pointwise, with one reduction for many products.
    fn dot_add(&self, m: &Modulus, acc: &mut [u64], terms: &[(&[u64], &[u64])]);

    /// `a *= w` for a constant.
    fn scalar_mul_assign(&self, m: &Modulus, a: &mut [u64], w: Shoup);

    /// `acc += a * w` for a constant.
    fn scalar_mul_add(&self, m: &Modulus, acc: &mut [u64], a: &[u64], w: Shoup);

    /// `a = (a - b) * w` for a constant: the last step of rescaling.
    fn sub_scalar_mul(&self, m: &Modulus, a: &mut [u64], b: &[u64], w: Shoup);

    /// `out = sum of terms_i * weights_i mod q`, where `terms_i` are any values below 2^50 (residues
    /// of other primes) and `weights_i < q`: the inner loop of base conversion.
    fn weighted_sum(&self, m: &Modulus, out: &mut [u64], terms: &[&[u64]], weights: &[u64]);

    /// As [`Backend::weighted_sum`] for terms that lie `stride` words apart in `terms`, term i from `i * stride` on; output below
    /// 4q and congruent to that of [`Backend::weighted_sum`]: the input of [`Backend::forward_head`]. Fetches `ahead`.
    fn convert(
        &self,
        m: &Modulus,
        out: &mut [u64],
        terms: (&[u64], usize),
        weights: &[u64],
        ahead: &mut Ahead<'_>,
    );

    /// `out_b = sum of d_i * b_i`, `out_a = sum of d_i * a_i` for terms `(d_i, b_i, a_i)`, added to what is there if `add`: the
    /// inner products of key switching, with one reduction each.
    fn key_products(&self, m: &Modulus, out: [&mut [u64]; 2], terms: &[[&[u64]; 3]], add: bool);

    /// As [`Backend::key_products`] for packed `b_i` and `a_i`; the length is a multiple of 8.
    fn key_products_packed(
        &self,
        m: &Modulus,
        out: [&mut [u64]; 2],
        terms: &[(&[u64], [PackedRow<'_>; 2])],
        add: bool,
    ) {
        const BLOCK: usize = 256;
        let [b, a] = out;
        for (i, (b, a)) in b.chunks_mut(BLOCK).zip(a.chunks_mut(BLOCK)).enumerate() {
            let (start, len) = (i * BLOCK, b.len());
            if !add {
                b.fill(0);
                a.fill(0);
            }
            let mut key = [[0; BLOCK]; 2];
            for (d, rows) in terms {
                for (key, row) in key.iter_mut().zip(rows) {
                    row.unpack_into(start, &mut key[..len]);
                }
                let term = [&d[start..start + len], &key[0][..len], &key[1][..len]];
                self.key_products(m, [&mut *b, &mut *a], &[term], true);
            }
        }
    }

    /// `a = a mod q` for any 64-bit words.
    fn reduce_assign(&self, m: &Modulus, a: &mut [u64]);

    /// `out = floor(1/2 + sum of terms_i * factors_i)` in double precision, summed in order, without
    /// fused operations: how often the modulus fits, for centred base conversion. Terms are below
    /// 2^50 and the sum is below 2^31; they lie as for [`Backend::convert`].
    fn rounded_sum(&self, out: &mut [u64], terms: &[u64], stride: usize, factors: &[f64]);

    /// `out[i] = a[perm[i]]` where `perm` maps aligned blocks of 8 to aligned blocks of 8, and the
    /// aligned halves of these to halves (every permutation of [`crate::Automorphism`] does).
    fn permute(&self, out: &mut [u64], a: &[u64], perm: &[u32]);

    /// Puts rows of two limbs in their places after an automorphism: the part of [`Backend::permute`] that reads words `offset` and
    /// on (multiples of 8), for both limbs; writes those blocks of 8 of `out` whose sources lie in the rows. `add` joins the first
    /// row on the way. The outputs have N words, the rows (and `add`) one length, a multiple of 8.
    fn permute_rows(
        &self,
        m: &Modulus,
        out: [&mut [u64]; 2],
        rows: [&[u64]; 2],
        add: Option<&[u64]>,
        to: Destination<'_>,
    );
}

/// Where [`Backend::permute_rows`] writes.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// The map whose tables say where.
    pub automorphism: &'a Automorphism,
    /// Place of the rows in the limbs that they come from: a multiple of 8.
    pub offset: usize,
    /// The result will not be read soon.
    pub streaming: bool,
}

/// Which kernels to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SimdChoice {
    /// The fastest that the processor has.
    #[default]
    Auto,
    /// The portable reference.
    Scalar,
    /// AVX2 with fused multiply-add, in double precision.
    Avx2,
    /// AVX-512 with 52-bit multiply-add.
    Avx512Ifma,
}

impl SimdChoice {
    /// Reads `CIPHERLOOM_SIMD`: `scalar`, `avx2`, `avx512ifma`, or `auto` (also when unset or empty).
    ///
    /// # Errors
    /// [`RingError::Backend`] for any other value.
    pub fn from_env() -> Result<Self, RingError> {
        match std::env::var_os("CIPHERLOOM_SIMD") {
            None => Ok(Self::Auto),
            Some(v) => v.to_string_lossy().parse(),
        }
    }

    /// The backend for this choice.
    ///
    /// # Errors
    /// [`RingError::Backend`] if the processor lacks the instructions.
    pub fn backend(self) -> Result<Arc<dyn Backend>, RingError> {
        match self {
            Self::Scalar => Ok(Arc::new(ScalarBackend)),
            Self::Auto => Ok(ifma()
                .or_else(avx2)
                .unwrap_or_else(|| Arc::new(ScalarBackend))),
            Self::Avx2 => avx2().ok_or(RingError::Backend {
                name: "avx2".into(),
            }),
            Self::Avx512Ifma => ifma().ok_or(RingError::Backend {
                name: "avx512ifma".into(),
            }),
        }
    }
}

impl std::str::FromStr for SimdChoice {
    type Err = RingError;

    fn from_str(s: &str) -> Result<Self, RingError> {
        match s {
            "" | "auto" => Ok(Self::Auto),
            "scalar" => Ok(Self::Scalar),
            "avx2" => Ok(Self::Avx2),
            "avx512ifma" => Ok(Self::Avx512Ifma),
            _ => Err(RingError::Backend { name: s.into() }),
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn avx2() -> Option<Arc<dyn Backend>> {
    Avx2Backend::detect().map(|b| Arc::new(b) as Arc<dyn Backend>)
}

#[cfg(not(target_arch = "x86_64"))]
fn avx2() -> Option<Arc<dyn Backend>> {
    None
}

#[cfg(target_arch = "x86_64")]
fn ifma() -> Option<Arc<dyn Backend>> {
    IfmaBackend::detect().map(|b| Arc::new(b) as Arc<dyn Backend>)
}

#[cfg(not(target_arch = "x86_64"))]
fn ifma() -> Option<Arc<dyn Backend>> {
    None
}
