//! The special FFT of CKKS in 128-bit fixed point.
//!
//! A share of a coefficient is as large as the modulus (2^99), while the sum of both shares is about 2^48: decoding
//! must keep an absolute error far below `Delta / 2^F = 2^21` on numbers of 2^107. Doubles miss that by 2^26. Fixed point is
//! preferred to double-double: same speed, same bits on every machine, and a worst-case bound instead of an estimate.
//!
//! Slot `j` is the value at `zeta^(5^j)`, `zeta = exp(i pi / N)`. At all these points `X^(N/2) = i`, so the polynomial
//! folds exactly to `n = N/2` complex coefficients `c_k + i c_(k+n)`, and `X^n - i` is split down a binary tree:
//! `X^2m - w = (X^m - r)(X^m + r)`, `r^2 = w`. One twiddle factor a node, no separate twist, and the leaves come out in a
//! fixed order that a table maps to slots.
//!
//! Error, with values scaled by `2^f` and `e = 2^-f`: one butterfly rounds each component of one product twice and uses a
//! twiddle factor within 2^-125, together at most `5e` in absolute value; the forward transform adds errors,
//! so `err <= 5 (n-1) e`; the inverse halves at every level, so `err <= 5 log2(n) e`.

mod fixed;
mod twiddle;

pub(crate) use fixed::mul_round;

use crate::BridgeError;
use fixed::mul_twiddle;
use twiddle::Octant;

/// A complex number in fixed point; the fraction bits are the caller's.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WideComplex {
    /// Real part.
    pub re: i128,
    /// Imaginary part.
    pub im: i128,
}

// Lets `Zeroizing<Vec<WideComplex>>` wipe shares.
impl zeroize::DefaultIsZeroes for WideComplex {}

impl WideComplex {
    #[inline(always)]
    fn plus(self, o: Self) -> Self {
        Self {
            re: self.re.wrapping_add(o.re),
            im: self.im.wrapping_add(o.im),
        }
    }
    #[inline(always)]
    fn minus(self, o: Self) -> Self {
        Self {
            re: self.re.wrapping_sub(o.re),
            im: self.im.wrapping_sub(o.im),
        }
    }
    #[inline(always)]
    fn times(self, w: Self) -> Self {
        Self {
            re: mul_twiddle(self.re, w.re).wrapping_sub(mul_twiddle(self.im, w.im)),
            im: mul_twiddle(self.re, w.im).wrapping_add(mul_twiddle(self.im, w.re)),
        }
    }
    #[inline(always)]
    fn conj(self) -> Self {
        Self {
            re: self.re,
            im: self.im.wrapping_neg(),
        }
    }
    /// Half, rounded towards minus infinity; both callers average a floor and its mirror, so no bias of note remains.
    #[inline(always)]
    fn half(self) -> Self {
        Self {
            re: self.re >> 1,
            im: self.im >> 1,
        }
    }
}

/// Tables of the transform for one ring degree. Immutable, shared by all threads.
pub struct WideFft {
    log_n: u32,
    /// Node `k` of the tree (root at 1): the square root that splits its block.
    twiddles: Vec<WideComplex>,
    /// Leaf that holds slot `j`.
    leaf_of_slot: Vec<u32>,
}

/// Largest ring degree as a power of two.
const MAX_LOG_N: u32 = 17;

impl WideFft {
    /// Tables for ring degree `2^log_n`: 16 N bytes of twiddle factors, a few milliseconds at N = 2^15.
    ///
    /// # Errors
    /// `RingDegree` outside 2..=17.
    pub fn new(log_n: u32) -> Result<Self, BridgeError> {
        if !(2..=MAX_LOG_N).contains(&log_n) {
            return Err(BridgeError::RingDegree {
                log_n,
                min: 2,
                max: MAX_LOG_N,
            });
        }
        let n_ring = 1usize << log_n;
        let n = n_ring / 2;
        let octant = Octant::new(log_n);
        // exponent[k]: node k stands for X^len = exp(i pi exponent[k] / N), exponents modulo 2N. The root has w = i.
        let mut exponent = vec![0usize; 2 * n];
        exponent[1] = n_ring / 2;
        let mut twiddles = vec![WideComplex::default(); n];
        for k in 1..n {
            let half = exponent[k] / 2;
            exponent[2 * k] = half;
            exponent[2 * k + 1] = half + n_ring;
            let (re, im) = octant.root(half);
            twiddles[k] = WideComplex { re, im };
        }
        let mut leaf_of_exponent = vec![0u32; 2 * n_ring];
        for leaf in 0..n {
            leaf_of_exponent[exponent[n + leaf]] = leaf as u32;
        }
        let mut power = 1usize;
        let leaf_of_slot = (0..n)
            .map(|_| {
                let leaf = leaf_of_exponent[power];
                power = power * 5 % (2 * n_ring);
                leaf
            })
            .collect();
        Ok(Self {
            log_n,
            twiddles,
            leaf_of_slot,
        })
    }

    /// log2 of the ring degree.
    #[must_use]
    pub fn log_n(&self) -> u32 {
        self.log_n
    }

    /// Number of slots, N/2.
    #[must_use]
    pub fn slots(&self) -> usize {
        1 << (self.log_n - 1)
    }

    /// Values at the tree's leaves of the folded polynomial `a`, in place; [`WideFft::leaf`] finds a slot.
    ///
    /// Needs `|a_k| * n < 2^126` in every component, else values wrap. `a.len()` must be `slots()`.
    pub(crate) fn forward(&self, a: &mut [WideComplex]) {
        let n = a.len();
        let mut len = n / 2;
        let mut node = 1usize;
        while len >= 1 {
            for block in a.chunks_exact_mut(2 * len) {
                let r = self.twiddles[node];
                node += 1;
                let (lo, hi) = block.split_at_mut(len);
                for (u, v) in lo.iter_mut().zip(hi) {
                    let t = v.times(r);
                    *v = u.minus(t);
                    *u = u.plus(t);
                }
            }
            len /= 2;
        }
    }

    /// Folded polynomial from the values at the leaves, in place. Needs components below 2^125.
    pub(crate) fn inverse(&self, a: &mut [WideComplex]) {
        let n = a.len();
        let mut len = 1usize;
        while len < n {
            let first = n / (2 * len);
            for (b, block) in a.chunks_exact_mut(2 * len).enumerate() {
                let r = self.twiddles[first + b].conj();
                let (lo, hi) = block.split_at_mut(len);
                for (u, v) in lo.iter_mut().zip(hi) {
                    let (s, d) = (u.plus(*v), u.minus(*v));
                    *u = s.half();
                    *v = d.half().times(r);
                }
            }
            len *= 2;
        }
    }

    /// Position of slot `j` among the leaves; `j < slots()`.
    #[inline]
    pub(crate) fn leaf(&self, j: usize) -> usize {
        self.leaf_of_slot[j] as usize
    }
}
