//! From additive shares modulo several primes to words modulo 2^64.
//!
//! A party holds `h_i` modulo `t_i`; `h` in `[0, T)`, `T = t_0 t_1 ...`, is its share of an integer `V` in
//! `[0, T/2)`. Then `h_0 + h_1 = V + w T` with `w = [h_0 >= T/2] OR [h_1 >= T/2]`: one of the two is in the upper
//! half exactly when the sum wraps (protocols.md 6.4). A party computes its bit and `h mod 2^64` locally, in mixed
//! radix (Garner); one OT of a word resolves `w`.

use cipherloom_ring::{Modulus, Shoup};
use rayon::prelude::*;

use crate::rlwe::ring_error;
use crate::MpcError;

/// Most plaintext primes.
pub const MAX_PRIMES: usize = 4;
/// Elements below which work is not split over threads.
const GRAIN: usize = 4096;

/// Mixed-radix constants for an ordered list of primes.
#[derive(Debug, Clone)]
pub struct CrtToWord {
    primes: Vec<Modulus>,
    /// Row `j`: `t_i^-1 mod t_j` for `i < j`.
    inverses: Vec<Vec<Shoup>>,
    /// Digits of `(T + 1) / 2`.
    half: [u64; MAX_PRIMES],
    /// `T mod 2^64`.
    t_word: u64,
}

/// What a party gets from its residues: the share modulo 2^64, still off by `T w`, and its upper-half bit.
pub struct HalfLift {
    /// `h mod 2^64`.
    pub words: Vec<u64>,
    /// `[h >= T/2]`, 0 or 1.
    pub upper: Vec<u8>,
}

impl Drop for HalfLift {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.words);
        zeroize::Zeroize::zeroize(&mut self.upper);
    }
}

impl CrtToWord {
    /// Constants for distinct odd primes.
    ///
    /// # Errors
    /// `Format` for an empty list or more than 4 primes; `Ring` when two primes are equal.
    pub fn new(primes: &[Modulus]) -> Result<Self, MpcError> {
        if primes.is_empty() || primes.len() > MAX_PRIMES {
            return Err(MpcError::Format {
                op: "CRT lift",
                detail: format!(
                    "{} plaintext primes; 1 to {MAX_PRIMES} are supported",
                    primes.len()
                ),
            });
        }
        let err = ring_error("CRT lift");
        let mut inverses = Vec::new();
        for (j, m) in primes.iter().enumerate() {
            inverses.push(
                primes[..j]
                    .iter()
                    .map(|p| Ok(m.shoup(m.inv(p.value()).map_err(&err)?)))
                    .collect::<Result<Vec<_>, MpcError>>()?,
            );
        }
        let mut crt = Self {
            primes: primes.to_vec(),
            inverses,
            half: [0; MAX_PRIMES],
            t_word: primes.iter().fold(1, |a, m| a.wrapping_mul(m.value())),
        };
        // (T + 1) / 2 is the inverse of 2 modulo every prime.
        let half = primes
            .iter()
            .map(|m| m.value().div_ceil(2))
            .collect::<Vec<_>>();
        crt.half = crt.digits(|i| half[i]);
        Ok(crt)
    }

    /// `T mod 2^64`.
    #[must_use]
    pub fn modulus_word(&self) -> u64 {
        self.t_word
    }

    /// `log2 T`.
    #[must_use]
    pub fn log2(&self) -> f64 {
        self.primes.iter().map(|m| (m.value() as f64).log2()).sum()
    }

    /// Mixed-radix digits `d_j < t_j` of the integer in `[0, T)` with the given residues.
    fn digits(&self, residue: impl Fn(usize) -> u64) -> [u64; MAX_PRIMES] {
        let mut d = [0; MAX_PRIMES];
        for (j, m) in self.primes.iter().enumerate() {
            let mut x = residue(j);
            for (digit, inv) in d.iter().zip(&self.inverses[j]) {
                x = m.mul_shoup(m.sub(x, m.reduce(*digit)), *inv);
            }
            d[j] = x;
        }
        d
    }

    /// The local half of the lift. `residues[i]` holds the shares modulo `t_i`, reduced. Constant time in the values.
    ///
    /// # Errors
    /// `Length` unless there is one vector for each prime, all of one length.
    pub fn half_lift(&self, residues: &[Vec<u64>]) -> Result<HalfLift, MpcError> {
        let n = residues.first().map_or(0, Vec::len);
        if residues.len() != self.primes.len() || residues.iter().any(|r| r.len() != n) {
            return Err(MpcError::Length {
                op: "CRT lift",
                left: residues.len(),
                right: self.primes.len(),
            });
        }
        let (words, upper) = (0..n)
            .into_par_iter()
            .with_min_len(GRAIN)
            .map(|e| self.lift_one(|j| residues[j][e]))
            .unzip();
        Ok(HalfLift { words, upper })
    }

    fn lift_one(&self, residue: impl Fn(usize) -> u64) -> (u64, u8) {
        let k = self.primes.len();
        let d = self.digits(residue);
        let (mut word, mut borrow) = (0u64, 0u64);
        for j in 0..k {
            // Digits are below 2^50: the sign bit of the difference is the borrow.
            borrow = d[j].wrapping_sub(self.half[j]).wrapping_sub(borrow) >> 63;
            word = word
                .wrapping_mul(self.primes[k - 1 - j].value())
                .wrapping_add(d[k - 1 - j]);
        }
        (word, (borrow ^ 1) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigUint;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn words_bits_and_the_wrap_identity_agree_with_big_integers() {
        let mut used = vec![];
        for _ in 0..3 {
            used.push(cipherloom_spec::primes::largest_below(44, 20, &used).unwrap());
        }
        let primes: Vec<_> = used.iter().map(|&p| Modulus::new(p).unwrap()).collect();
        let crt = CrtToWord::new(&primes).unwrap();
        let big: BigUint = used.iter().map(|&p| BigUint::from(p)).product();
        let word = |x: &BigUint| x.iter_u64_digits().next().unwrap_or(0);
        assert_eq!(crt.modulus_word(), word(&big));
        let mut r = rand_chacha::ChaCha20Rng::seed_from_u64(3);
        let half = &big / 2u8;
        let mut h0s: Vec<BigUint> = vec![
            BigUint::ZERO,
            &big - 1u8,
            half.clone(),
            &half + 1u8,
            &half - 1u8,
        ];
        for _ in 0..500 {
            h0s.push((BigUint::from(r.random::<u128>()) * r.random::<u64>()) % &big);
        }
        for h0 in h0s {
            // V in [0, 2^129), edge values included.
            let v = BigUint::from(r.random::<u128>()) * 2u8 + r.random_range(0..2u8);
            let h1 = (&big + &v - &h0) % &big;
            let res = |h: &BigUint| {
                let r: Vec<Vec<u64>> = used
                    .iter()
                    .map(|&p| vec![u64::try_from(h % p).unwrap()])
                    .collect();
                crt.half_lift(&r).unwrap()
            };
            let (a, b) = (res(&h0), res(&h1));
            assert_eq!(a.words[0], word(&h0));
            assert_eq!(a.upper[0] == 1, h0 > half, "{h0}");
            let w = u64::from(a.upper[0] | b.upper[0]);
            let sum = a.words[0]
                .wrapping_add(b.words[0])
                .wrapping_sub(w.wrapping_mul(crt.modulus_word()));
            assert_eq!(sum, word(&v));
        }
    }

    #[test]
    fn malformed_lists_are_refused() {
        let p = Modulus::new(97).unwrap();
        assert!(CrtToWord::new(&[]).is_err());
        assert!(CrtToWord::new(&[p, p]).is_err());
        let crt = CrtToWord::new(&[p]).unwrap();
        assert!(matches!(
            crt.half_lift(&[vec![1], vec![1]]),
            Err(MpcError::Length { .. })
        ));
    }
}
