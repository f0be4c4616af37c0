//! Galois automorphisms X -> X^g of Z_q\[X\]/(X^N + 1).

use crate::error::RingError;
use crate::ntt::{bit_reverse, check_degree};

/// Generator of the slot rotations: rotating by r slots is X -> X^(5^r).
pub const ROTATION_GENERATOR: u64 = 5;

/// The map X -> X^g with its index tables for both domains. Memory: 8.5N bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Automorphism {
    n: usize,
    g: u64,
    /// NTT domain: out[i] = in[perm[i]].
    perm: Vec<u32>,
    /// Block of 8 of the output to which each block of 8 of the input goes, in the NTT domain.
    destinations: Vec<u32>,
    /// Coefficient domain: out[i] = ±in[source >> 1], negative if the low bit is set.
    source: Vec<u32>,
}

impl Automorphism {
    /// The map X -> X^g for degree `n`; `g` is taken modulo 2N.
    ///
    /// # Errors
    /// [`RingError::Degree`]; [`RingError::GaloisElement`] if `g` is even.
    pub fn new(n: usize, g: u64) -> Result<Self, RingError> {
        check_degree(n)?;
        let two_n = 2 * n as u64;
        let g = g % two_n;
        if g.is_multiple_of(2) {
            return Err(RingError::GaloisElement { g, two_n });
        }
        let log_n = n.trailing_zeros();
        let mask = two_n - 1;
        // out(psi^e) = in(psi^(g e)), and index i holds the exponent 2 brv(i) + 1.
        let perm = (0..n)
            .map(|i| {
                let e = 2 * bit_reverse(i, log_n) as u64 + 1;
                let f = e.wrapping_mul(g) & mask;
                bit_reverse(((f - 1) / 2) as usize, log_n) as u32
            })
            .collect::<Vec<u32>>();
        let mut destinations = vec![0; n / 8];
        for (to, block) in perm.chunks_exact(8).enumerate() {
            destinations[block[0] as usize / 8] = to as u32;
        }
        let mut source = vec![0u32; n];
        for i in 0..n as u64 {
            let j = i.wrapping_mul(g) & mask;
            // X^(N + k) = -X^k.
            let negative = (j >= n as u64) as u32;
            source[(j & (n as u64 - 1)) as usize] = ((i as u32) << 1) | negative;
        }
        Ok(Self {
            n,
            g,
            perm,
            destinations,
            source,
        })
    }

    /// Rotation of the N/2 slots by `r` to the left (slot i receives slot i + r): g = 5^r mod 2N.
    ///
    /// # Errors
    /// [`RingError::Degree`].
    pub fn rotation(n: usize, r: i64) -> Result<Self, RingError> {
        check_degree(n)?;
        Self::new(n, galois_element(n, r))
    }

    /// Complex conjugation of the slots: g = 2N - 1.
    ///
    /// # Errors
    /// [`RingError::Degree`].
    pub fn conjugation(n: usize) -> Result<Self, RingError> {
        check_degree(n)?;
        Self::new(n, 2 * n as u64 - 1)
    }

    /// Bytes of the tables.
    pub fn memory_bytes(&self) -> usize {
        4 * (self.perm.len() + self.destinations.len() + self.source.len())
    }

    /// The ring degree.
    pub fn n(&self) -> usize {
        self.n
    }

    /// The Galois element, odd, below 2N.
    pub fn g(&self) -> u64 {
        self.g
    }

    /// NTT-domain table: `out[i] = in[perm[i]]`, the same for every prime.
    pub fn perm(&self) -> &[u32] {
        &self.perm
    }

    /// NTT domain: the block of 8 of the output that block i of the input goes to.
    pub fn destinations(&self) -> &[u32] {
        &self.destinations
    }

    /// Coefficient-domain table: `out[i]` is `in[source[i] >> 1]`, negated if `source[i]` is odd.
    pub fn source(&self) -> &[u32] {
        &self.source
    }
}

/// 5^r mod 2N, the Galois element of a rotation by `r` slots; `r` counts modulo N/2 and may be
/// negative. `n` is a power of two, at least 4.
pub fn galois_element(n: usize, r: i64) -> u64 {
    let mask = 2 * n as u64 - 1;
    let mut e = r.rem_euclid((n / 2).max(1) as i64) as u64;
    let (mut acc, mut base) = (1u64, ROTATION_GENERATOR);
    while e != 0 {
        if e & 1 == 1 {
            acc = acc.wrapping_mul(base) & mask;
        }
        base = base.wrapping_mul(base) & mask;
        e >>= 1;
    }
    acc
}
