//! Polynomials in residue number system form, typed by their representation.

mod coeff;
mod domain;
mod ops;
mod secret;

use std::fmt::Debug;
use std::marker::PhantomData;

use zeroize::Zeroize;

use crate::basis::Basis;
use crate::error::RingError;
use crate::pack;
use crate::words::Words;

pub use secret::SecretPoly;

/// Marker: coefficients in natural order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coeff;

/// Marker: values of the negacyclic NTT in bit-reversed order (see [`crate::ntt`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ntt;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Coeff {}
    impl Sealed for super::Ntt {}
}

/// A representation: [`Coeff`] or [`Ntt`].
pub trait Repr: sealed::Sealed + Copy + Debug + Send + Sync + 'static {
    /// Name in messages.
    const NAME: &'static str;
}

impl Repr for Coeff {
    const NAME: &'static str = "coefficient";
}

impl Repr for Ntt {
    const NAME: &'static str = "NTT";
}

/// A polynomial modulo X^N + 1 with one limb of N reduced residues for each prime of its basis.
///
/// Storage is limb-major: limb `i` is `data[i*N .. (i+1)*N]`. Binary operations need the right
/// operand to live over the same primes or over more of them; extra limbs on the right are ignored.
#[derive(Clone, PartialEq, Eq)]
pub struct Poly<R: Repr> {
    basis: Basis,
    data: Words,
    repr: PhantomData<R>,
}

/// Residues are not printed: they may be secret.
impl<R: Repr> Debug for Poly<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poly")
            .field("repr", &R::NAME)
            .field("n", &self.basis.n())
            .field("limbs", &self.basis.len())
            .finish_non_exhaustive()
    }
}

impl<R: Repr> Poly<R> {
    /// The zero polynomial.
    pub fn zero(basis: &Basis) -> Self {
        Self::from_parts(basis.clone(), Words::zeroed(basis.len() * basis.n()))
    }

    /// A polynomial in a buffer that was used before: its residues are whatever the buffer holds, so write every limb. The buffer comes
    /// back if it is too small.
    ///
    /// # Errors
    /// The buffer.
    pub fn recycled(basis: &Basis, mut words: Words) -> Result<Self, Words> {
        if words.resize_within(basis.len() * basis.n()) {
            Ok(Self::from_parts(basis.clone(), words))
        } else {
            Err(words)
        }
    }

    /// Takes the residues out, limb-major.
    #[must_use]
    pub fn into_words(self) -> Words {
        self.data
    }

    pub(crate) fn from_parts(basis: Basis, data: Words) -> Self {
        debug_assert_eq!(data.len(), basis.len() * basis.n());
        Self {
            basis,
            data,
            repr: PhantomData,
        }
    }

    /// Copies limb-major residues after checking that each is below its modulus.
    ///
    /// # Errors
    /// [`RingError::Length`], [`RingError::NotReduced`].
    pub fn from_residues(basis: &Basis, data: &[u64]) -> Result<Self, RingError> {
        let expected = basis.len() * basis.n();
        if data.len() != expected {
            return Err(RingError::Length {
                what: "limb-major residues",
                got: data.len(),
                expected,
            });
        }
        for (limb, (m, values)) in basis.moduli().zip(data.chunks_exact(basis.n())).enumerate() {
            if let Some(position) = values.iter().position(|&x| x >= m.value()) {
                return Err(RingError::NotReduced { limb, position });
            }
        }
        Ok(Self::from_parts(basis.clone(), Words::from(data)))
    }

    /// The basis.
    #[inline]
    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// The ring degree N.
    #[inline]
    pub fn n(&self) -> usize {
        self.basis.n()
    }

    /// Number of limbs.
    #[inline]
    pub fn limbs(&self) -> usize {
        self.basis.len()
    }

    /// Limb `i`, N residues. `i` must be below [`Poly::limbs`] (a programming error otherwise).
    #[inline]
    pub fn limb(&self, i: usize) -> &[u64] {
        let n = self.n();
        &self.data[i * n..(i + 1) * n]
    }

    /// Limb `i` for writing. Whatever is written must be below the modulus of the limb.
    #[inline]
    pub fn limb_mut(&mut self, i: usize) -> &mut [u64] {
        let n = self.n();
        &mut self.data[i * n..(i + 1) * n]
    }

    /// All limbs for writing, in order; see [`Poly::limb_mut`].
    pub fn limbs_mut(&mut self) -> impl ExactSizeIterator<Item = &mut [u64]> + '_ {
        self.data.chunks_exact_mut(self.basis.n())
    }

    /// All residues for writing, limb-major; see [`Poly::limb_mut`].
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u64] {
        &mut self.data
    }

    /// All residues, limb-major.
    #[inline]
    pub fn data(&self) -> &[u64] {
        &self.data
    }

    /// Keeps the first `k` limbs: the same polynomial modulo the smaller product. No arithmetic.
    ///
    /// # Errors
    /// [`RingError::LimbRange`] unless `1 <= k <= limbs`.
    pub fn truncate(&mut self, k: usize) -> Result<(), RingError> {
        self.basis = self.basis.prefix(k)?;
        self.data.truncate(k * self.basis.n());
        Ok(())
    }

    /// Drops the last limb: the same polynomial modulo the smaller product (not a rescaling).
    ///
    /// # Errors
    /// [`RingError::LimbRange`] if only one limb is left.
    pub fn drop_last(&mut self) -> Result<(), RingError> {
        self.truncate(self.limbs() - 1)
    }

    /// A copy of the first `k` limbs.
    ///
    /// # Errors
    /// As [`Poly::truncate`].
    pub fn prefix(&self, k: usize) -> Result<Self, RingError> {
        let basis = self.basis.prefix(k)?;
        let data = Words::from(&self.data[..k * basis.n()]);
        Ok(Self::from_parts(basis, data))
    }

    /// A copy of consecutive limbs `start .. start + basis.len()`, which must be the primes of
    /// `basis` (for example the q-part of a polynomial over (p, q)).
    ///
    /// # Errors
    /// [`RingError::BasisMismatch`] if the primes differ.
    pub fn select(&self, start: usize, basis: &Basis) -> Result<Self, RingError> {
        for (i, m) in basis.moduli().enumerate() {
            if start + i >= self.limbs() || self.basis.modulus(start + i) != m {
                return Err(self.basis.mismatch(basis, i));
            }
        }
        if basis.n() != self.n() {
            return Err(self.basis.mismatch(basis, 0));
        }
        let n = self.n();
        let data = Words::from(&self.data[start * n..(start + basis.len()) * n]);
        Ok(Self::from_parts(basis.clone(), data))
    }

    /// Overwrites all residues with zero, in a way that the compiler does not remove; also limbs
    /// that [`Poly::truncate`] left behind in the buffer.
    pub fn zeroize(&mut self) {
        self.data.zeroize();
    }

    /// Bytes of [`Poly::to_bytes`] over `basis`: the sum of N * ceil(log2 q_i) / 8.
    pub fn packed_len(basis: &Basis) -> usize {
        basis
            .moduli()
            .map(|m| pack::packed_len(basis.n(), m.bits()))
            .sum()
    }

    /// Packs every residue of limb i at ceil(log2 q_i) bits, little-endian, limb after limb.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::packed_len(&self.basis));
        for (i, m) in self.basis.moduli().enumerate() {
            pack::pack_into(&mut out, self.limb(i), m.bits());
        }
        out
    }

    /// Reads what [`Poly::to_bytes`] wrote. The length is checked before anything is allocated.
    ///
    /// # Errors
    /// [`RingError::Length`], [`RingError::NotReduced`].
    pub fn from_bytes(basis: &Basis, bytes: &[u8]) -> Result<Self, RingError> {
        let expected = Self::packed_len(basis);
        if bytes.len() != expected {
            return Err(RingError::Length {
                what: "packed polynomial in bytes",
                got: bytes.len(),
                expected,
            });
        }
        let mut out = Self::zero(basis);
        let mut rest = bytes;
        for (limb, (values, m)) in out.limbs_mut().zip(basis.moduli()).enumerate() {
            let (head, tail) = rest.split_at(pack::packed_len(values.len(), m.bits()));
            pack::unpack_into(head, m, values).map_err(|e| match e {
                RingError::NotReduced { position, .. } => RingError::NotReduced { limb, position },
                e => e,
            })?;
            rest = tail;
        }
        Ok(out)
    }
}
