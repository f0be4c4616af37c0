//! Polynomials in the fewest bytes that kernels read directly: what streams through memory once is best kept small.

use std::ops::Range;

use crate::basis::Basis;
use crate::error::RingError;
use crate::pack;
use crate::poly::{Ntt, Poly};
use crate::words::Words;

/// Bytes behind the residues, so that a register can be read from any residue on.
const SLACK: usize = 64;

/// A polynomial in NTT form at ceil(log2 q) bits a residue, in the byte order of [`Poly::to_bytes`]. Eight residues of a limb take a whole
/// number of bytes. For 40-bit primes two thirds of the memory, and of the time to read it.
#[derive(Clone, PartialEq, Eq)]
pub struct PackedPoly {
    basis: Basis,
    words: Words,
    /// Where each limb starts, and the end.
    starts: Vec<usize>,
}

/// Some residues of one limb.
#[derive(Clone, Copy)]
pub struct PackedRow<'a> {
    /// From the first residue on, and at least [`SLACK`] bytes from the last eight on.
    bytes: &'a [u8],
    bits: u32,
    len: usize,
}

impl std::fmt::Debug for PackedPoly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackedPoly")
            .field("n", &self.basis.n())
            .field("limbs", &self.basis.len())
            .finish_non_exhaustive()
    }
}

impl PackedPoly {
    fn empty(basis: &Basis) -> Self {
        let mut starts = vec![0];
        let mut at = 0;
        for m in basis.moduli() {
            at += pack::packed_len(basis.n(), m.bits());
            starts.push(at);
        }
        Self {
            basis: basis.clone(),
            words: Words::zeroed(words_of(at)),
            starts,
        }
    }

    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }

    /// Packs a polynomial.
    #[must_use]
    pub fn new(poly: &Poly<Ntt>) -> Self {
        let mut out = Self::empty(poly.basis());
        let mut limb = Vec::new();
        for (i, m) in poly.basis().moduli().enumerate() {
            limb.clear();
            pack::pack_into(&mut limb, poly.limb(i), m.bits());
            let to = out.starts[i]..out.starts[i] + limb.len();
            bytemuck::cast_slice_mut(&mut out.words)[to].copy_from_slice(&limb);
        }
        out
    }

    /// Takes what [`PackedPoly::as_bytes`] or [`Poly::to_bytes`] gave. The length is checked before anything is allocated.
    ///
    /// # Errors
    /// [`RingError::Length`], [`RingError::NotReduced`].
    pub fn from_bytes(basis: &Basis, bytes: &[u8]) -> Result<Self, RingError> {
        let expected = Poly::<Ntt>::packed_len(basis);
        if bytes.len() != expected {
            return Err(RingError::Length {
                what: "packed polynomial in bytes",
                got: bytes.len(),
                expected,
            });
        }
        let mut out = Self::empty(basis);
        let mut residues = vec![0; basis.n()];
        for (limb, m) in basis.moduli().enumerate() {
            let range = out.starts[limb]..out.starts[limb + 1];
            pack::unpack_into(&bytes[range], m, &mut residues).map_err(|e| match e {
                RingError::NotReduced { position, .. } => RingError::NotReduced { limb, position },
                e => e,
            })?;
        }
        bytemuck::cast_slice_mut(&mut out.words)[..expected].copy_from_slice(bytes);
        Ok(out)
    }

    /// The packed residues, limb after limb: the bytes of [`Poly::to_bytes`].
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.starts[self.starts.len() - 1];
        &self.bytes()[..end]
    }

    /// The polynomial with a word for each residue.
    #[must_use]
    pub fn to_poly(&self) -> Poly<Ntt> {
        let mut out = Poly::zero(&self.basis);
        for (i, limb) in out.limbs_mut().enumerate() {
            self.row(i, 0..self.basis.n()).unpack_into(0, limb);
        }
        out
    }

    /// The basis.
    #[must_use]
    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// Residues `range` of limb `i`. Both ends are multiples of 8, within the limb.
    #[must_use]
    pub fn row(&self, i: usize, range: Range<usize>) -> PackedRow<'_> {
        assert!(
            range.start.is_multiple_of(8)
                && range.start <= range.end
                && range.end <= self.basis.n(),
            "residues of a packed limb"
        );
        let bits = self.basis.modulus(i).bits();
        let start = self.starts[i] + pack::packed_len(range.start, bits);
        PackedRow {
            bytes: &self.bytes()[start..],
            bits,
            len: range.len(),
        }
    }

    /// Bytes in memory, as [`PackedPoly::memory_bytes_of`] says.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        Self::memory_bytes_of(self.as_bytes().len())
    }

    /// Bytes in memory of a polynomial that packs to `packed` bytes.
    #[must_use]
    pub fn memory_bytes_of(packed: usize) -> usize {
        8 * words_of(packed)
    }
}

fn words_of(bytes: usize) -> usize {
    (bytes + SLACK).div_ceil(8)
}

impl<'a> PackedRow<'a> {
    /// Residues.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // Rows of no residues are of no use.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bits of a residue.
    #[must_use]
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The bytes from the first residue on: at least 64 from any multiple of eight residues on.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Unpacks residues from `start` on.
    pub fn unpack_into(&self, start: usize, out: &mut [u64]) {
        let (bits, mask) = (self.bits as usize, (1u64 << self.bits) - 1);
        for (i, o) in out.iter_mut().enumerate() {
            let bit = (start + i) * bits;
            let mut word = [0; 8];
            // A residue lies within 8 bytes from its first one: at most 50 bits behind 7 others.
            word.copy_from_slice(&self.bytes[bit / 8..bit / 8 + 8]);
            *o = (u64::from_le_bytes(word) >> (bit % 8)) & mask;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{PublicSeed, UniformXof};

    #[test]
    fn packed_polynomials_are_the_wire_form_and_come_back() {
        let basis = Basis::new(64, &[257, 1_099_511_590_913, 1_125_899_904_679_937]).unwrap();
        let poly: Poly<Ntt> = UniformXof::new(PublicSeed([3; 32])).poly(&basis);
        let packed = PackedPoly::new(&poly);
        assert_eq!(packed.as_bytes(), poly.to_bytes());
        assert_eq!(packed.to_poly(), poly);
        assert_eq!(
            PackedPoly::from_bytes(&basis, &poly.to_bytes()).unwrap(),
            packed
        );
        let mut out = [0; 5];
        packed.row(1, 16..40).unpack_into(3, &mut out);
        assert_eq!(out, poly.limb(1)[19..24]);
        let mut bytes = poly.to_bytes();
        bytes.pop();
        assert!(matches!(
            PackedPoly::from_bytes(&basis, &bytes),
            Err(RingError::Length { .. })
        ));
        let all_ones = vec![255; poly.to_bytes().len()];
        assert!(matches!(
            PackedPoly::from_bytes(&basis, &all_ones),
            Err(RingError::NotReduced {
                limb: 0,
                position: 0
            })
        ));
    }
}
