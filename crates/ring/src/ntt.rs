//! Tables of the negacyclic number-theoretic transform over Z_q\[X\]/(X^N + 1).
//!
//! Ordering: the forward transform takes coefficients in natural order and returns
//! `out[i] = a(psi^(2*brv(i) + 1))`, where `psi` is a primitive 2N-th root of unity and `brv`
//! reverses log2 N bits (Longa, Naehrig 2016, algorithms 1 and 2). The inverse takes that order
//! back. Pointwise products of transforms are transforms of negacyclic products.

use std::sync::Arc;

use crate::backend::Backend;
use crate::error::RingError;
use crate::modulus::{Modulus, Shoup};
use crate::words::Words;

/// Smallest supported ring degree.
pub const MIN_DEGREE: usize = 1 << 4;
/// Largest supported ring degree.
pub const MAX_DEGREE: usize = 1 << 17;

/// Smallest degree whose transform is split into rows.
const MIN_SPLIT_DEGREE: usize = 1 << 7;

/// What the last layer of an inverse transform multiplies by: the result comes out times a constant, for free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InverseFactor {
    /// The constant c.
    pub(crate) factor: Shoup,
    /// c / N, and psi^-brv(1) c / N.
    pub(crate) last: [Shoup; 2],
}

/// Twiddle factors for one prime and one degree, laid out for one backend.
///
/// Memory: 4N words. Building costs O(N) multiplications.
#[derive(Debug)]
pub struct NttTable {
    modulus: Modulus,
    n: usize,
    psi: u64,
    backend: Arc<dyn Backend>,
    fwd: Words,
    fwd_quotient: Words,
    inv: Words,
    inv_quotient: Words,
    n_inv: Shoup,
    n_inv_w: Shoup,
}

/// Checks that `n` is a supported ring degree.
pub(crate) fn check_degree(n: usize) -> Result<(), RingError> {
    if n.is_power_of_two() && (MIN_DEGREE..=MAX_DEGREE).contains(&n) {
        Ok(())
    } else {
        Err(RingError::Degree { n })
    }
}

/// Reverses the low `bits` bits of `i`.
#[inline(always)]
pub(crate) fn bit_reverse(i: usize, bits: u32) -> usize {
    if bits == 0 {
        0
    } else {
        i.reverse_bits() >> (usize::BITS - bits)
    }
}

/// The first x^((q-1)/2N), x = 2, 3, ..., of order exactly 2N. Both parties find the same root.
fn primitive_root(m: &Modulus, n: usize) -> Result<u64, RingError> {
    let two_n = 2 * n as u64;
    let not_ntt = RingError::NotNttPrime {
        value: m.value(),
        two_n,
    };
    if m.value() % two_n != 1 {
        return Err(not_ntt);
    }
    let exponent = (m.value() - 1) / two_n;
    // Half of all x are non-residues, each gives a root: the search ends at once.
    (2..m.value())
        .map(|x| m.pow(x, exponent))
        .find(|&psi| m.pow(psi, n as u64) == m.value() - 1)
        .ok_or(not_ntt)
}

impl NttTable {
    /// Builds the tables for `X^n + 1` modulo `modulus`.
    ///
    /// # Errors
    /// [`RingError::Degree`] or [`RingError::NotNttPrime`].
    pub fn new(n: usize, modulus: Modulus, backend: Arc<dyn Backend>) -> Result<Self, RingError> {
        check_degree(n)?;
        let psi = primitive_root(&modulus, n)?;
        let psi_inv = modulus.inv(psi)?;
        let log_n = n.trailing_zeros();
        let powers = |root: u64| {
            let mut values = Words::zeroed(n);
            let root = modulus.shoup(root);
            let mut power = 1;
            for i in 0..n {
                values[bit_reverse(i, log_n)] = power;
                power = modulus.mul_shoup(power, root);
            }
            values
        };
        let inv = powers(psi_inv);
        let n_inv_value = modulus.inv(n as u64)?;
        let n_inv = modulus.shoup(n_inv_value);
        let n_inv_w = modulus.shoup(modulus.mul(n_inv_value, inv[1]));
        let (fwd, fwd_quotient) = backend.twiddles(&modulus, powers(psi));
        let (inv, inv_quotient) = backend.twiddles(&modulus, inv);
        Ok(Self {
            modulus,
            n,
            psi,
            backend,
            fwd,
            fwd_quotient,
            inv,
            inv_quotient,
            n_inv,
            n_inv_w,
        })
    }

    /// Bytes in memory of the twiddle factors.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let words = [&self.fwd, &self.fwd_quotient, &self.inv, &self.inv_quotient];
        words.iter().map(|w| size_of_val(&w[..])).sum()
    }

    /// The prime.
    #[inline]
    pub fn modulus(&self) -> &Modulus {
        &self.modulus
    }

    /// The ring degree N.
    #[inline]
    pub fn n(&self) -> usize {
        self.n
    }

    /// The primitive 2N-th root of unity.
    pub fn psi(&self) -> u64 {
        self.psi
    }

    /// The kernels that these tables were laid out for.
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// Bits of the Shoup quotients in the twiddle tables.
    pub fn quotient_bits(&self) -> u32 {
        self.backend.quotient_bits()
    }

    /// Forward twiddles psi^brv(i) and their Shoup quotients, N each, as [`Backend::twiddles`] of the
    /// backend laid them out. Group `g` of the layer with `m` groups uses index `m + g`.
    #[inline]
    pub fn forward_twiddles(&self) -> (&[u64], &[u64]) {
        (&self.fwd, &self.fwd_quotient)
    }

    /// Inverse twiddles psi^-brv(i) and their Shoup quotients, N each, laid out likewise.
    #[inline]
    pub fn inverse_twiddles(&self) -> (&[u64], &[u64]) {
        (&self.inv, &self.inv_quotient)
    }

    /// The factors of the last inverse layer: 1/N, and psi^-brv(1) / N.
    #[inline]
    pub fn inverse_last_layer(&self) -> (Shoup, Shoup) {
        (self.n_inv, self.n_inv_w)
    }

    /// Rows of a split transform: 8, or 1 below degree 128. See [`Backend::forward_head`].
    #[inline]
    pub fn rows(&self) -> usize {
        if self.n < MIN_SPLIT_DEGREE {
            1
        } else {
            8
        }
    }

    /// Precomputes the last inverse layer that also multiplies by `factor mod q`.
    pub fn inverse_factor(&self, factor: u64) -> InverseFactor {
        let m = &self.modulus;
        let factor = m.shoup(factor);
        InverseFactor {
            factor,
            last: [self.n_inv, self.n_inv_w].map(|w| m.shoup(m.mul_shoup(w.value, factor))),
        }
    }

    /// Forward transform in place; residues reduced on entry and on return. O(N log N).
    ///
    /// # Errors
    /// [`RingError::Length`] if `a` does not have N entries.
    pub fn forward(&self, a: &mut [u64]) -> Result<(), RingError> {
        self.check(a)?;
        self.backend.ntt_forward(self, a);
        Ok(())
    }

    /// Inverse transform in place, normalised; residues reduced on entry and on return.
    ///
    /// # Errors
    /// [`RingError::Length`] if `a` does not have N entries.
    pub fn inverse(&self, a: &mut [u64]) -> Result<(), RingError> {
        self.check(a)?;
        self.backend.ntt_inverse(self, a);
        Ok(())
    }

    fn check(&self, a: &[u64]) -> Result<(), RingError> {
        if a.len() == self.n {
            Ok(())
        } else {
            Err(RingError::Length {
                what: "NTT operand",
                got: a.len(),
                expected: self.n,
            })
        }
    }
}
