//! An independent simulation of the domain: values in the clear, wrapping 64-bit words, and on request the exact
//! behaviour of random shares (one-unit truncation, few-bit comparison) computed from the formulas of the protocols.
#![allow(dead_code, clippy::unwrap_used)]

use cipherloom_mpc::{Bits, CompareFormat, Domain, MpcError, Party, Shares};
use cipherloom_spec::cost::MpcCounts;
use cipherloom_spec::FracBits;

pub struct Sim {
    noise: bool,
    seed: u64,
    counts: MpcCounts,
    /// Truncated words outside (-2^62, 2^62) so far.
    pub overflows: u64,
}

impl Sim {
    pub fn exact() -> Self {
        Self {
            noise: false,
            seed: 1,
            counts: MpcCounts::default(),
            overflows: 0,
        }
    }
    pub fn noisy(seed: u64) -> Self {
        Self {
            noise: true,
            seed,
            ..Self::exact()
        }
    }
    fn random(&mut self) -> u64 {
        // SplitMix64.
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// `n` pseudo-random words.
    pub fn words(seed: u64, n: usize) -> Vec<u64> {
        let mut s = Self::noisy(seed);
        (0..n).map(|_| s.random()).collect()
    }
    /// Counts since the last call.
    pub fn take_counts(&mut self) -> MpcCounts {
        std::mem::take(&mut self.counts)
    }
}

fn mask(bits: u32) -> u64 {
    if bits >= 64 {
        u64::MAX
    } else {
        (1 << bits) - 1
    }
}

impl Domain for Sim {
    fn add_const(&self, x: &Shares, c: f64) -> Shares {
        let k = x.frac.encode(c);
        Shares {
            v: x.v.iter().map(|a| a.wrapping_add(k)).collect(),
            frac: x.frac,
        }
    }
    fn add_public(&self, x: &Shares, c: &[u64]) -> Result<Shares, MpcError> {
        assert_eq!(x.len(), c.len());
        Ok(Shares {
            v: x.v.iter().zip(c).map(|(a, b)| a.wrapping_add(*b)).collect(),
            frac: x.frac,
        })
    }
    fn add_known(&self, _: Party, x: &Shares, c: Option<&[u64]>) -> Result<Shares, MpcError> {
        self.add_public(x, c.ok_or(MpcError::Owner { op: "add_known" })?)
    }
    fn not(&self, b: &Bits) -> Bits {
        Bits {
            v: b.v.iter().map(|a| a ^ 1).collect(),
        }
    }
    fn product(&mut self, x: &Shares, y: &Shares) -> Result<Shares, MpcError> {
        assert_eq!(x.len(), y.len());
        self.counts.products += x.len() as u64;
        Ok(Shares {
            v: x.v
                .iter()
                .zip(&y.v)
                .map(|(a, b)| a.wrapping_mul(*b))
                .collect(),
            frac: FracBits(x.frac.0 + y.frac.0),
        })
    }
    fn square(&mut self, x: &Shares) -> Result<Shares, MpcError> {
        self.counts.squares += x.len() as u64;
        Ok(Shares {
            v: x.v.iter().map(|a| a.wrapping_mul(*a)).collect(),
            frac: FracBits(2 * x.frac.0),
        })
    }
    fn product_known(
        &mut self,
        _: Party,
        x: &Shares,
        c: Option<&[u64]>,
        frac: FracBits,
    ) -> Result<Shares, MpcError> {
        let c = c.ok_or(MpcError::Owner {
            op: "product_known",
        })?;
        assert_eq!(x.len(), c.len());
        self.counts.known_products += x.len() as u64;
        Ok(Shares {
            v: x.v.iter().zip(c).map(|(a, b)| a.wrapping_mul(*b)).collect(),
            frac: FracBits(x.frac.0 + frac.0),
        })
    }
    fn truncate(&mut self, x: &Shares, bits: u32) -> Result<Shares, MpcError> {
        assert!((1..62).contains(&bits) && bits <= x.frac.0);
        self.counts.truncations += x.len() as u64;
        let mut v = Vec::with_capacity(x.len());
        for &w in &x.v {
            if (w as i64).unsigned_abs() >= 1 << 62 {
                self.overflows += 1;
            }
            v.push(if self.noise {
                // R17 for random shares: bias at P0, local shifts, the wrap of the biased shares removed.
                let bias = (1u64 << 62) + (1 << bits) - 1;
                let x1 = self.random();
                let x0 = w.wrapping_sub(x1).wrapping_add(bias);
                let wrap = u64::from(x0.overflowing_add(x1).1);
                (x0 >> bits)
                    .wrapping_add(x1 >> bits)
                    .wrapping_sub(wrap << (64 - bits))
                    .wrapping_sub(1 << (62 - bits))
            } else {
                (w.wrapping_add(1 << (bits - 1)) as i64 >> bits) as u64
            });
        }
        Ok(Shares {
            v,
            frac: FracBits(x.frac.0 - bits),
        })
    }
    fn truncate_reduce_faithful(
        &mut self,
        x: &Shares,
        bits: u32,
        out_bits: u32,
    ) -> Result<Shares, MpcError> {
        assert!(out_bits <= 64 - bits);
        self.counts.faithful_truncations += x.len() as u64;
        Ok(Shares {
            v: x.v
                .iter()
                .map(|w| (w.wrapping_add(1 << (bits - 1)) >> bits) & mask(out_bits))
                .collect(),
            frac: FracBits(x.frac.0 - bits),
        })
    }
    fn less_than(
        &mut self,
        x: &Shares,
        taus: &[f64],
        format: CompareFormat,
    ) -> Result<Vec<Bits>, MpcError> {
        let frac = x.frac.0;
        let f = frac.checked_sub(format.kept_frac).unwrap();
        assert!(f >= 1);
        let width = format.int_bits + 1 + frac;
        self.counts.comparisons += (x.len() * taus.len()) as u64;
        let mut out = Vec::new();
        for &tau in taus {
            let t = x.frac.encode(tau);
            let mut v = Vec::with_capacity(x.len());
            for &w in &x.v {
                let y = w.wrapping_sub(t);
                v.push(if self.noise {
                    // R16 for random shares.
                    let x1 = self.random();
                    let x0 = w
                        .wrapping_sub(x1)
                        .wrapping_sub(t)
                        .wrapping_add(1 << (f - 1));
                    let u0 = (x0 & mask(width)) >> f;
                    let u1 = (x1 & mask(width)) >> f;
                    ((u0.wrapping_add(u1) >> (width - f - 1)) & 1) as u8
                } else {
                    ((y & mask(width)) >> (width - 1)) as u8
                });
            }
            out.push(Bits { v });
        }
        Ok(out)
    }
    fn mux(&mut self, items: &[(&Bits, &Shares)]) -> Result<Vec<Shares>, MpcError> {
        Ok(items
            .iter()
            .map(|(b, x)| {
                assert_eq!(b.v.len(), x.len());
                self.counts.muxes += x.len() as u64;
                Shares {
                    v: x.v
                        .iter()
                        .zip(&b.v)
                        .map(|(a, &b)| a * u64::from(b))
                        .collect(),
                    frac: x.frac,
                }
            })
            .collect())
    }
    fn b2a(&mut self, items: &[&Bits]) -> Result<Vec<Shares>, MpcError> {
        Ok(items
            .iter()
            .map(|b| {
                self.counts.b2a += b.v.len() as u64;
                Shares {
                    v: b.v.iter().map(|&b| u64::from(b)).collect(),
                    frac: FracBits(0),
                }
            })
            .collect())
    }
    fn counts(&self) -> MpcCounts {
        self.counts
    }
}

pub const F: FracBits = FracBits(19);

pub fn encode(v: &[f64], frac: FracBits) -> Shares {
    Shares {
        v: v.iter().map(|&a| frac.encode(a)).collect(),
        frac,
    }
}

pub fn decode(x: &Shares) -> Vec<f64> {
    x.v.iter().map(|&w| x.frac.decode(w)).collect()
}

/// `n + 1` numbers of `F` fraction bits from `low` to `high`.
pub fn grid(low: f64, high: f64, n: u32) -> Vec<f64> {
    (0..=n)
        .map(|i| F.decode(F.encode(low + (high - low) * f64::from(i) / f64::from(n))))
        .collect()
}

/// Deterministic numbers in `[-1, 1)`.
pub fn noise(n: usize, seed: u64) -> Vec<f64> {
    let mut s = Sim::noisy(seed);
    (0..n)
        .map(|_| (s.random() >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
        .collect()
}

pub fn worst(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter()
        .zip(b)
        .map(|(x, y)| (x - y).abs())
        .fold(0.0, f64::max)
}
