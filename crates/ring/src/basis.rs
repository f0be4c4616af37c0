//! Residue number system bases: an ordered list of NTT primes for one ring degree.

use std::ops::Range;
use std::sync::Arc;

use crate::backend::{Backend, SimdChoice};
use crate::error::RingError;
use crate::modulus::{Modulus, Shoup};
use crate::ntt::{check_degree, NttTable};

/// An ordered list of NTT primes over one degree N; a cheap handle (one `Arc` and a length).
///
/// A prefix of a basis shares everything with it, so a *level* is a prefix. For key switching put
/// the special primes **first**: `qp = p.concat(&q)`. Then the basis (p_0..p_k, q_0..q_l) of every
/// level is a prefix of the one that the keys use, and binary operations accept a longer right
/// operand.
#[derive(Clone, Debug)]
pub struct Basis {
    inner: Arc<Inner>,
    len: usize,
}

#[derive(Debug)]
struct Inner {
    n: usize,
    backend: Arc<dyn Backend>,
    tables: Vec<Arc<NttTable>>,
    /// Row j: q_j^-1 mod q_i for i < j, for rescaling.
    inverses: Vec<Vec<Shoup>>,
}

impl Basis {
    /// Builds a basis with the backend that `CIPHERLOOM_SIMD` names, or the fastest available.
    /// Cost: O(primes * N).
    ///
    /// # Errors
    /// Any of the checks on degree, primes and backend.
    pub fn new(n: usize, primes: &[u64]) -> Result<Self, RingError> {
        Self::with_backend(n, primes, SimdChoice::from_env()?.backend()?)
    }

    /// Builds a basis for an explicit backend.
    ///
    /// # Errors
    /// [`RingError::Degree`], [`RingError::EmptyBasis`], [`RingError::ModulusRange`],
    /// [`RingError::NotPrime`], [`RingError::NotNttPrime`], [`RingError::RepeatedPrime`].
    pub fn with_backend(
        n: usize,
        primes: &[u64],
        backend: Arc<dyn Backend>,
    ) -> Result<Self, RingError> {
        check_degree(n)?;
        let tables = primes
            .iter()
            .map(|&q| {
                Ok(Arc::new(NttTable::new(
                    n,
                    Modulus::new(q)?,
                    backend.clone(),
                )?))
            })
            .collect::<Result<Vec<_>, RingError>>()?;
        Self::from_tables(n, backend, tables)
    }

    fn from_tables(
        n: usize,
        backend: Arc<dyn Backend>,
        tables: Vec<Arc<NttTable>>,
    ) -> Result<Self, RingError> {
        if tables.is_empty() {
            return Err(RingError::EmptyBasis);
        }
        for (i, t) in tables.iter().enumerate() {
            let value = t.modulus().value();
            if tables[..i].iter().any(|u| u.modulus().value() == value) {
                return Err(RingError::RepeatedPrime { value });
            }
        }
        let inverses = tables
            .iter()
            .enumerate()
            .map(|(j, t)| {
                let last = t.modulus().value();
                tables[..j]
                    .iter()
                    .map(|u| {
                        let m = u.modulus();
                        Ok(m.shoup(m.inv(last)?))
                    })
                    .collect()
            })
            .collect::<Result<Vec<Vec<Shoup>>, RingError>>()?;
        let len = tables.len();
        Ok(Self {
            inner: Arc::new(Inner {
                n,
                backend,
                tables,
                inverses,
            }),
            len,
        })
    }

    /// The first `k` primes. O(1), shares all tables.
    ///
    /// # Errors
    /// [`RingError::LimbRange`] unless `1 <= k <= len`.
    pub fn prefix(&self, k: usize) -> Result<Self, RingError> {
        if k == 0 || k > self.len {
            return Err(RingError::LimbRange {
                got: k,
                max: self.len,
            });
        }
        Ok(Self {
            inner: self.inner.clone(),
            len: k,
        })
    }

    /// The primes at these indices, in this order; shares the NTT tables.
    ///
    /// # Errors
    /// [`RingError::LimbRange`], [`RingError::EmptyBasis`], [`RingError::RepeatedPrime`].
    pub fn select(&self, indices: &[usize]) -> Result<Self, RingError> {
        let tables = indices
            .iter()
            .map(|&i| {
                self.tables().get(i).cloned().ok_or(RingError::LimbRange {
                    got: i,
                    max: self.len - 1,
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        Self::from_tables(self.n(), self.inner.backend.clone(), tables)
    }

    /// A consecutive range of primes; shares the NTT tables.
    ///
    /// # Errors
    /// As [`Basis::select`].
    pub fn range(&self, range: Range<usize>) -> Result<Self, RingError> {
        self.select(&range.collect::<Vec<_>>())
    }

    /// The primes of `self`, then those of `other`; shares the NTT tables.
    ///
    /// # Errors
    /// [`RingError::BasisMismatch`] for different degrees, [`RingError::RepeatedPrime`].
    pub fn concat(&self, other: &Self) -> Result<Self, RingError> {
        if self.n() != other.n() {
            return Err(self.mismatch(other, 0));
        }
        let tables = self
            .tables()
            .iter()
            .chain(other.tables())
            .cloned()
            .collect();
        Self::from_tables(self.n(), self.inner.backend.clone(), tables)
    }

    /// The ring degree N.
    #[inline]
    pub fn n(&self) -> usize {
        self.inner.n
    }

    /// Number of primes (limbs).
    #[inline]
    #[allow(clippy::len_without_is_empty)] // A basis is never empty.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The NTT tables, one for each limb.
    #[inline]
    pub fn tables(&self) -> &[Arc<NttTable>] {
        &self.inner.tables[..self.len]
    }

    /// The modulus of limb `i`. `i` must be below `len` (a programming error otherwise).
    #[inline]
    pub fn modulus(&self, i: usize) -> &Modulus {
        self.inner.tables[..self.len][i].modulus()
    }

    /// The moduli in order.
    pub fn moduli(&self) -> impl ExactSizeIterator<Item = &Modulus> + '_ {
        self.tables().iter().map(|t| t.modulus())
    }

    /// The primes in order.
    pub fn primes(&self) -> Vec<u64> {
        self.moduli().map(Modulus::value).collect()
    }

    /// log2 of the product of the primes.
    pub fn log2_product(&self) -> f64 {
        self.moduli().map(|m| (m.value() as f64).log2()).sum()
    }

    /// The kernels in use.
    #[inline]
    pub fn backend(&self) -> &dyn Backend {
        &*self.inner.backend
    }

    /// q_j^-1 mod q_i for all i < j.
    pub(crate) fn inverses_of(&self, j: usize) -> &[Shoup] {
        &self.inner.inverses[j]
    }

    /// Whether both name the same primes over the same degree.
    pub fn same_as(&self, other: &Self) -> bool {
        self.len == other.len && self.is_prefix_of(other)
    }

    /// Whether the primes of `self` start the list of `other`.
    pub fn is_prefix_of(&self, other: &Self) -> bool {
        self.check_prefix_of(other).is_ok()
    }

    /// Fails unless the primes of `self` start the list of `other`.
    pub(crate) fn check_prefix_of(&self, other: &Self) -> Result<(), RingError> {
        if Arc::ptr_eq(&self.inner, &other.inner) && self.len <= other.len {
            return Ok(());
        }
        if self.n() != other.n() {
            return Err(self.mismatch(other, 0));
        }
        for i in 0..self.len {
            if i >= other.len || self.modulus(i).value() != other.modulus(i).value() {
                return Err(self.mismatch(other, i));
            }
        }
        Ok(())
    }

    pub(crate) fn mismatch(&self, other: &Self, limb: usize) -> RingError {
        RingError::BasisMismatch {
            left: self.len,
            left_n: self.n(),
            right: other.len,
            right_n: other.n(),
            limb,
        }
    }
}

impl PartialEq for Basis {
    fn eq(&self, other: &Self) -> bool {
        self.same_as(other)
    }
}

impl Eq for Basis {}
