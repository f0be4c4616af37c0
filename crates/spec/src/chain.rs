//! CKKS modulus chains: the literal that anyone can write down and the checked chain built from it.
//!
//! Levels. A ciphertext at level `l` lives modulo `q_0 ... q_l`. The first primes (those larger than the
//! scale) are the base: a chain `[50, 50, 40, 40]` with scale `2^40` has base level 1 and top level 3, so
//! two rescales. Each level has one canonical scale: `scale(top) = 2^log_scale` and
//! `scale(l-1) = scale(l)^2 / q_l`, exactly what a product and a rescale leave. Each prime is chosen
//! nearest to `scale(l)^2 / 2^log_scale`, so the scales stay within about 2^-18 of `2^log_scale` at any depth.

use crate::primes::{largest_below, nearest, MAX_PRIME_BITS, MIN_PRIME_BITS};
use crate::security::{check_security, max_log_qp, MAX_LOG_N};
use crate::{Scale, SpecError};
use serde::{Deserialize, Serialize};

/// An unchecked parameter set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CkksLiteral {
    /// log2 of the ring degree N; there are N/2 complex slots.
    pub log_n: u32,
    /// Sizes of the ciphertext primes in bits, base first.
    pub q_bits: Vec<u32>,
    /// Sizes of the special primes in bits.
    pub p_bits: Vec<u32>,
    /// log2 of the scale of a fresh encryption at the top level.
    pub log_scale: u32,
    /// Number of key-switching digits of the whole chain.
    pub dnum: u32,
}

/// A checked, immutable modulus chain with its canonical scales.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CkksChain {
    literal: CkksLiteral,
    q: Vec<u64>,
    p: Vec<u64>,
    scales: Vec<Scale>,
    base_level: usize,
    secure: bool,
}

impl CkksLiteral {
    /// Checks the literal and builds the chain.
    ///
    /// # Errors
    /// Names the field that is out of range; `Insecure` above the security table over all primes; `SpecialPrimes` when a
    /// digit is larger than the special modulus; `NoPrime` when the ring has no prime of an asked-for size left; `LevelScale` when
    /// the scale of a level is below N or not below half its modulus, so that no value could be computed with there.
    pub fn check(self) -> Result<CkksChain, SpecError> {
        max_log_qp(self.log_n).ok_or(SpecError::RingDegree {
            log_n: self.log_n,
            min: crate::security::MIN_LOG_N,
            max: MAX_LOG_N,
        })?;
        self.build(true)
    }

    /// Builds a chain without the security check, for tests and toy rings only.
    ///
    /// # Errors
    /// As [`CkksLiteral::check`], but no `Insecure`.
    pub fn insecure_build(self) -> Result<CkksChain, SpecError> {
        if !(4..=MAX_LOG_N).contains(&self.log_n) {
            return Err(SpecError::RingDegree {
                log_n: self.log_n,
                min: 4,
                max: MAX_LOG_N,
            });
        }
        self.build(false)
    }

    fn build(self, secure: bool) -> Result<CkksChain, SpecError> {
        let field = |field, value: usize, min: i64, max: i64| {
            let value = value as i64;
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(SpecError::Field {
                    field,
                    value,
                    min,
                    max,
                })
            }
        };
        field("q_bits.len()", self.q_bits.len(), 1, 64)?;
        field("p_bits.len()", self.p_bits.len(), 1, 16)?;
        field("log_scale", self.log_scale as usize, 20, 50)?;
        field("dnum", self.dnum as usize, 1, self.q_bits.len() as i64)?;
        for (name, bits) in [("q_bits", &self.q_bits), ("p_bits", &self.p_bits)] {
            for (index, &b) in bits.iter().enumerate() {
                if !(MIN_PRIME_BITS..=MAX_PRIME_BITS).contains(&b) || b <= self.log_n + 1 {
                    return Err(SpecError::PrimeBits {
                        field: name,
                        index,
                        bits: b,
                        min: MIN_PRIME_BITS.max(self.log_n + 2),
                        max: MAX_PRIME_BITS,
                    });
                }
            }
        }
        let log_2n = self.log_n + 1;
        let base = self
            .q_bits
            .iter()
            .take_while(|&&b| b > self.log_scale)
            .count()
            .max(1);
        let mut used: Vec<u64> = Vec::new();
        let mut q = vec![0u64; self.q_bits.len()];
        for (slot, &bits) in q.iter_mut().zip(&self.q_bits).take(base) {
            *slot = largest_below(bits, log_2n, &used)?;
            used.push(*slot);
        }
        let mut p = Vec::with_capacity(self.p_bits.len());
        for &bits in &self.p_bits {
            let v = largest_below(bits, log_2n, &used)?;
            used.push(v);
            p.push(v);
        }
        let target = Scale::pow2(self.log_scale as i32);
        let mut scales = vec![target; q.len()];
        for l in (base..q.len()).rev() {
            // A prime of the scale's size keeps the scale; one of another size (asked for in the literal) changes it.
            let drift = scales[l].times(scales[l]).over(target).to_f64();
            let want = drift * f64::from(self.q_bits[l] as i32 - self.log_scale as i32).exp2();
            q[l] = nearest(want, log_2n, MAX_PRIME_BITS, &used)?;
            let got = (q[l] as f64).log2();
            if (got - f64::from(self.q_bits[l])).abs() > 0.5 {
                return Err(SpecError::NoPrime {
                    bits: self.q_bits[l],
                    log_2n,
                });
            }
            used.push(q[l]);
            scales[l - 1] = scales[l].times(scales[l]).rescaled(q[l]);
        }
        for l in (0..base.saturating_sub(1)).rev() {
            scales[l] = scales[base - 1];
        }
        let chain = CkksChain {
            literal: self,
            q,
            p,
            scales,
            base_level: base - 1,
            secure,
        };
        let have = chain.log_p();
        for (digit, limbs) in chain.digits(chain.top_level()).into_iter().enumerate() {
            let need: f64 = chain.q[limbs].iter().map(|&v| (v as f64).log2()).sum();
            if have + 0.01 < need {
                return Err(SpecError::SpecialPrimes {
                    have,
                    need,
                    digit,
                    dnum: chain.literal.dnum as usize,
                });
            }
        }
        for (level, scale) in chain.scales.iter().enumerate() {
            let log_scale = scale.log2();
            let (min, max) = (f64::from(chain.log_n()), chain.log_q(level) - 1.0);
            // As for the results of operations: the value one and a bit for its sign fit.
            if log_scale < min || log_scale >= max {
                return Err(SpecError::LevelScale {
                    level,
                    log_scale,
                    min,
                    max,
                });
            }
        }
        if secure {
            let all: Vec<u64> = chain.q.iter().chain(&chain.p).copied().collect();
            check_security(chain.literal.log_n, &all)?;
        }
        Ok(chain)
    }
}

impl CkksChain {
    /// The literal that this chain was built from.
    #[must_use]
    pub fn literal(&self) -> &CkksLiteral {
        &self.literal
    }
    /// log2 of the ring degree.
    #[must_use]
    pub fn log_n(&self) -> u32 {
        self.literal.log_n
    }
    /// Ring degree N.
    #[must_use]
    pub fn n(&self) -> usize {
        1 << self.literal.log_n
    }
    /// Number of complex slots, N/2.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.n() / 2
    }
    /// Ciphertext primes, base first.
    #[must_use]
    pub fn q(&self) -> &[u64] {
        &self.q
    }
    /// Special primes.
    #[must_use]
    pub fn p(&self) -> &[u64] {
        &self.p
    }
    /// Highest level (fresh encryptions).
    #[must_use]
    pub fn top_level(&self) -> usize {
        self.q.len() - 1
    }
    /// Level of the base: no rescale below it. Boundaries to shares happen here.
    #[must_use]
    pub fn base_level(&self) -> usize {
        self.base_level
    }
    /// Multiplicative depth: rescales between top and base.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.top_level() - self.base_level
    }
    /// Canonical scale of a level; the top level's above the top.
    #[must_use]
    pub fn scale(&self, level: usize) -> Scale {
        self.scales[level.min(self.top_level())]
    }
    /// Limbs of one key-switching digit.
    #[must_use]
    pub fn alpha(&self) -> usize {
        self.q.len().div_ceil(self.literal.dnum as usize)
    }
    /// The limb ranges of the digits of a ciphertext at `level`; the last one may be short.
    #[must_use]
    pub fn digits(&self, level: usize) -> Vec<std::ops::Range<usize>> {
        let (limbs, a) = (level + 1, self.alpha());
        (0..limbs.div_ceil(a))
            .map(|d| d * a..((d + 1) * a).min(limbs))
            .collect()
    }
    /// log2 of the ciphertext modulus at `level`.
    #[must_use]
    pub fn log_q(&self, level: usize) -> f64 {
        self.q
            .iter()
            .take(level + 1)
            .map(|&v| (v as f64).log2())
            .sum()
    }
    /// log2 of the special modulus.
    #[must_use]
    pub fn log_p(&self) -> f64 {
        self.p.iter().map(|&v| (v as f64).log2()).sum()
    }
    /// log2 of the product of all primes.
    #[must_use]
    pub fn log_qp(&self) -> f64 {
        self.log_q(self.top_level()) + self.log_p()
    }
    /// Whether the chain passed the security table; false only for `insecure_build`.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.secure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lit(log_n: u32, levels: usize, p: usize, dnum: u32) -> CkksLiteral {
        let mut q_bits = vec![50, 50];
        q_bits.extend(vec![40; levels]);
        CkksLiteral {
            log_n,
            q_bits,
            p_bits: vec![50; p],
            log_scale: 40,
            dnum,
        }
    }

    #[test]
    fn the_paper_sized_chain_passes_and_scales_stay_put() {
        let c = lit(16, 34, 5, 9).check().unwrap();
        assert!(c.log_qp() < 1710.01 && c.depth() == 34 && c.base_level() == 1);
        for l in 0..=c.top_level() {
            assert!(
                (c.scale(l).log2() - 40.0).abs() < 1e-4,
                "level {l}: {}",
                c.scale(l)
            );
        }
        assert!(c
            .scale(5)
            .times(c.scale(5))
            .rescaled(c.q()[5])
            .matches(c.scale(4)));
        let mut all: Vec<u64> = c.q().iter().chain(c.p()).copied().collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 41);
        assert!(all.iter().all(|p| p % (1 << 17) == 1 && p >> 50 == 0));
    }

    #[test]
    fn each_bad_field_is_named() {
        let f = |l: CkksLiteral| l.check().unwrap_err();
        assert!(matches!(
            f(lit(18, 2, 1, 4)),
            SpecError::RingDegree { log_n: 18, .. }
        ));
        assert!(matches!(f(lit(13, 3, 1, 5)), SpecError::Insecure { .. }));
        assert!(matches!(
            f(lit(15, 12, 2, 3)),
            SpecError::SpecialPrimes { .. }
        ));
        assert!(matches!(
            f(lit(15, 12, 5, 0)),
            SpecError::Field { field: "dnum", .. }
        ));
        let mut l = lit(15, 4, 2, 6);
        l.q_bits[3] = 51;
        assert!(matches!(
            f(l),
            SpecError::PrimeBits {
                field: "q_bits",
                index: 3,
                ..
            }
        ));
        let mut l = lit(15, 4, 2, 6);
        l.p_bits[1] = 60;
        assert!(matches!(
            f(l),
            SpecError::PrimeBits {
                field: "p_bits",
                index: 1,
                ..
            }
        ));
        let mut l = lit(15, 4, 2, 6);
        l.log_scale = 55;
        assert!(matches!(
            f(l),
            SpecError::Field {
                field: "log_scale",
                ..
            }
        ));
        let mut l = lit(15, 4, 2, 6);
        l.q_bits.clear();
        assert!(matches!(
            f(l),
            SpecError::Field {
                field: "q_bits.len()",
                ..
            }
        ));
    }

    #[test]
    fn digits_cover_every_level() {
        let c = lit(15, 12, 5, 3).check().unwrap();
        assert_eq!(c.alpha(), 5);
        assert_eq!(c.digits(13), vec![0..5, 5..10, 10..14]);
        assert_eq!(c.digits(0), vec![0..1]);
    }
}
