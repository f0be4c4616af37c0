//! The operations on shared values, as one trait with two implementations: the real two-party protocols
//! ([`crate::two_party`]) and the plain oracle ([`crate::plain`]), in which the same words hold the values in the clear.
//!
//! Values are fixed-point words modulo 2^64 (protocols.md R13). Local linear steps are methods of [`Shares`];
//! what needs a party's role or interaction is a method of [`Domain`]. Vectors are flat; shapes are the caller's.

use crate::MpcError;
use cipherloom_spec::cost::MpcCounts;
use cipherloom_spec::FracBits;

pub use cipherloom_spec::formats::CompareFormat;

/// Which party: `Client` is P0 (text, secret key), `Server` is P1 (weights).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Party {
    /// P0.
    Client,
    /// P1.
    Server,
}

/// A vector of fixed-point numbers, additively shared modulo 2^64 (in the plain oracle: the values themselves).
#[derive(Clone, PartialEq, Eq)]
pub struct Shares {
    /// One word an element.
    pub v: Vec<u64>,
    /// Fraction bits of every element.
    pub frac: FracBits,
}

/// A vector of bits, shared by exclusive or (in the plain oracle: the bits themselves). Each byte is 0 or 1.
#[derive(Clone, PartialEq, Eq)]
pub struct Bits {
    /// One byte an element, 0 or 1.
    pub v: Vec<u8>,
}

impl Shares {
    /// `n` zeros.
    #[must_use]
    pub fn zeros(n: usize, frac: FracBits) -> Self {
        Self {
            v: vec![0; n],
            frac,
        }
    }
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.v.len()
    }
    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.v.is_empty()
    }
    fn same(&self, o: &Self, op: &'static str) -> Result<(), MpcError> {
        if self.len() != o.len() {
            return Err(MpcError::Length {
                op,
                left: self.len(),
                right: o.len(),
            });
        }
        if self.frac != o.frac {
            return Err(MpcError::Frac {
                op,
                left: self.frac.0,
                right: o.frac.0,
            });
        }
        Ok(())
    }
    /// Sum. Local.
    ///
    /// # Errors
    /// `Length` or `Frac` when the operands differ.
    pub fn plus(&self, o: &Self) -> Result<Self, MpcError> {
        self.same(o, "add")?;
        Ok(Self {
            v: self
                .v
                .iter()
                .zip(&o.v)
                .map(|(a, b)| a.wrapping_add(*b))
                .collect(),
            frac: self.frac,
        })
    }
    /// Difference. Local.
    ///
    /// # Errors
    /// `Length` or `Frac` when the operands differ.
    pub fn minus(&self, o: &Self) -> Result<Self, MpcError> {
        self.same(o, "sub")?;
        Ok(Self {
            v: self
                .v
                .iter()
                .zip(&o.v)
                .map(|(a, b)| a.wrapping_sub(*b))
                .collect(),
            frac: self.frac,
        })
    }
    /// Product with a public integer; the fraction bits stay. Local.
    #[must_use]
    pub fn times_int(&self, k: i64) -> Self {
        Self {
            v: self.v.iter().map(|a| a.wrapping_mul(k as u64)).collect(),
            frac: self.frac,
        }
    }
    /// Product with a public real constant encoded with `extra` fraction bits; the result has `frac + extra`. Local.
    #[must_use]
    pub fn times_const(&self, c: f64, extra: FracBits) -> Self {
        let k = extra.encode(c);
        Self {
            v: self.v.iter().map(|a| a.wrapping_mul(k)).collect(),
            frac: FracBits(self.frac.0 + extra.0),
        }
    }
    /// The same words read with more fraction bits after a shift left by `extra`. Local, exact.
    #[must_use]
    pub fn raised(&self, extra: u32) -> Self {
        Self {
            v: self.v.iter().map(|a| a << extra).collect(),
            frac: FracBits(self.frac.0 + extra),
        }
    }
    /// The same words read as the value divided by `2^k`: only the fraction bits change. Local, exact.
    #[must_use]
    pub fn over_pow2(&self, k: u32) -> Self {
        Self {
            v: self.v.clone(),
            frac: FracBits(self.frac.0 + k),
        }
    }
    /// `out[i] = self[index[i]]`. Local; the index is public.
    ///
    /// # Errors
    /// `Index` when an index is out of range.
    pub fn gather(&self, index: &[u32]) -> Result<Self, MpcError> {
        let mut v = Vec::with_capacity(index.len());
        for &i in index {
            v.push(*self.v.get(i as usize).ok_or(MpcError::Index {
                index: i as usize,
                len: self.v.len(),
            })?);
        }
        Ok(Self { v, frac: self.frac })
    }
    /// Each element repeated `k` times in place: `[a,b] -> [a,a,b,b]`. Local.
    #[must_use]
    pub fn repeat_each(&self, k: usize) -> Self {
        Self {
            v: self
                .v
                .iter()
                .flat_map(|a| std::iter::repeat_n(*a, k))
                .collect(),
            frac: self.frac,
        }
    }
    /// Sums of consecutive groups of `k` elements. Local.
    ///
    /// # Errors
    /// `Length` when `k` does not divide the length.
    pub fn sum_groups(&self, k: usize) -> Result<Self, MpcError> {
        if k == 0 || !self.len().is_multiple_of(k) {
            return Err(MpcError::Length {
                op: "sum_groups",
                left: self.len(),
                right: k,
            });
        }
        Ok(Self {
            v: self
                .v
                .chunks_exact(k)
                .map(|c| c.iter().fold(0u64, |s, a| s.wrapping_add(*a)))
                .collect(),
            frac: self.frac,
        })
    }
    /// Concatenation. Local.
    ///
    /// # Errors
    /// `Frac` when the fraction bits differ.
    pub fn concat(parts: &[&Self]) -> Result<Self, MpcError> {
        let frac = parts.first().map_or(FracBits(0), |p| p.frac);
        let mut v = Vec::with_capacity(parts.iter().map(|p| p.len()).sum());
        for p in parts {
            if p.frac != frac {
                return Err(MpcError::Frac {
                    op: "concat",
                    left: frac.0,
                    right: p.frac.0,
                });
            }
            v.extend_from_slice(&p.v);
        }
        Ok(Self { v, frac })
    }
    /// Consecutive pieces of the given lengths. Local.
    ///
    /// # Errors
    /// `Length` when the lengths do not add up.
    pub fn split(&self, lens: &[usize]) -> Result<Vec<Self>, MpcError> {
        let total: usize = lens.iter().sum();
        if total != self.len() {
            return Err(MpcError::Length {
                op: "split",
                left: self.len(),
                right: total,
            });
        }
        let mut at = 0;
        Ok(lens
            .iter()
            .map(|&n| {
                let v = self.v[at..at + n].to_vec();
                at += n;
                Self { v, frac: self.frac }
            })
            .collect())
    }
}

impl Bits {
    /// Exclusive or. Local.
    ///
    /// # Errors
    /// `Length` when the operands differ.
    pub fn xor(&self, o: &Self) -> Result<Self, MpcError> {
        if self.v.len() != o.v.len() {
            return Err(MpcError::Length {
                op: "xor",
                left: self.v.len(),
                right: o.v.len(),
            });
        }
        Ok(Self {
            v: self.v.iter().zip(&o.v).map(|(a, b)| a ^ b).collect(),
        })
    }
}

/// Secure operations. Every interactive method is one batch; its schedule depends on lengths and formats only.
///
/// Range rule: before a truncation `|value| < 2^24` at `2F = 38` fraction bits, that is `|word| < 2^62` (R13).
pub trait Domain {
    /// Adds a public constant (encoded at the operand's fraction bits) to every element. Local.
    fn add_const(&self, x: &Shares, c: f64) -> Shares;
    /// Adds public words, one an element. Local.
    ///
    /// # Errors
    /// `Length` when the lengths differ.
    fn add_public(&self, x: &Shares, c: &[u64]) -> Result<Shares, MpcError>;
    /// Adds words that only `owner` knows (`Some` at the owner, `None` at the other party). Local.
    ///
    /// # Errors
    /// `Length` when the lengths differ; `Owner` when the owner has no values.
    fn add_known(&self, owner: Party, x: &Shares, c: Option<&[u64]>) -> Result<Shares, MpcError>;
    /// Bitwise complement. Local.
    fn not(&self, b: &Bits) -> Bits;

    /// Element-wise products; the fraction bits add up. Exact modulo 2^64 for any shares.
    ///
    /// # Errors
    /// Transport errors; `Length` when the lengths differ.
    fn product(&mut self, x: &Shares, y: &Shares) -> Result<Shares, MpcError>;
    /// Element-wise squares; the fraction bits double.
    ///
    /// # Errors
    /// Transport errors.
    fn square(&mut self, x: &Shares) -> Result<Shares, MpcError>;
    /// Products with words that only `owner` knows, at `frac` fraction bits.
    ///
    /// # Errors
    /// Transport errors; `Length`, `Owner`.
    fn product_known(
        &mut self,
        owner: Party,
        x: &Shares,
        c: Option<&[u64]>,
        frac: FracBits,
    ) -> Result<Shares, MpcError>;
    /// Division by `2^bits` within one unit, mean error zero (R17); the fraction bits drop by `bits`. Needs `|word| < 2^62`.
    ///
    /// # Errors
    /// Transport errors.
    fn truncate(&mut self, x: &Shares, bits: u32) -> Result<Shares, MpcError>;
    /// Faithful division by `2^bits` (rounded to nearest) into the ring `Z_2^out_bits` (out_bits <= 64 - bits is a
    /// truncate-and-reduce); words come back modulo `2^out_bits`, zero-extended.
    ///
    /// # Errors
    /// Transport errors; `Format` for unsupported widths.
    fn truncate_reduce_faithful(
        &mut self,
        x: &Shares,
        bits: u32,
        out_bits: u32,
    ) -> Result<Shares, MpcError>;
    /// For every threshold `tau` the bits `[x < tau]`, on `1 + int_bits + kept_frac` bits (R16). One batch for all thresholds.
    ///
    /// # Errors
    /// Transport errors; `Format` when the format does not fit.
    fn less_than(
        &mut self,
        x: &Shares,
        taus: &[f64],
        format: CompareFormat,
    ) -> Result<Vec<Bits>, MpcError>;
    /// `b * x` for every pair, one batch.
    ///
    /// # Errors
    /// Transport errors; `Length`.
    fn mux(&mut self, items: &[(&Bits, &Shares)]) -> Result<Vec<Shares>, MpcError>;
    /// Bits as integers modulo 2^64 (fraction bits 0), one batch.
    ///
    /// # Errors
    /// Transport errors.
    fn b2a(&mut self, items: &[&Bits]) -> Result<Vec<Shares>, MpcError>;

    /// What was executed so far, in elements.
    fn counts(&self) -> MpcCounts;
}
