//! Eight residues in one register.

use std::arch::x86_64::*;

use crate::backend::Ahead;
use crate::modulus::Modulus;

/// Broadcast constants of one modulus.
#[derive(Clone, Copy)]
pub(super) struct Lanes {
    pub q: __m512i,
    pub two_q: __m512i,
    /// 2^52 - q: adding `t * neg_q` subtracts `t * q` modulo 2^52.
    pub neg_q: __m512i,
    pub mask52: __m512i,
    pub one: __m512i,
    /// floor(2^52 / q), the quotient of the factor 1.
    pub one_quotient: __m512i,
}

/// Constants of the reduction of two-word products.
#[derive(Clone, Copy)]
pub(super) struct WideLanes {
    /// 2^52 mod q and its 52-bit Shoup quotient.
    pub two52: __m512i,
    pub two52_quotient: __m512i,
}

/// A twiddle factor and its 52-bit quotient.
#[derive(Clone, Copy)]
pub(super) struct Factor {
    pub w: __m512i,
    pub quotient: __m512i,
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) fn splat(x: u64) -> __m512i {
    _mm512_set1_epi64(x as i64)
}

/// Loads 8 words.
///
/// # Safety
/// `p` points to 8 readable words.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn load(p: *const u64) -> __m512i {
    // SAFETY: as the caller promises; the load is unaligned.
    unsafe { _mm512_loadu_si512(p.cast()) }
}

/// Stores 8 words.
///
/// # Safety
/// `p` points to 8 writable words.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn store(p: *mut u64, x: __m512i) {
    // SAFETY: as the caller promises; the store is unaligned.
    unsafe { _mm512_storeu_si512(p.cast(), x) }
}

/// Fetches up to `K` lines into the second-level cache.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
#[allow(unused_unsafe)] // Older compilers have it unsafe.
pub(super) fn fetch<const K: usize>(ahead: &mut Ahead<'_>) {
    for _ in 0..K {
        if let Some(line) = ahead.line() {
            // SAFETY: a hint, valid for any address.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) }
        }
    }
}

/// `x` if `x < m`, else `x - m`; needs `x < 2^63`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) fn reduce_once(x: __m512i, m: __m512i) -> __m512i {
    _mm512_min_epu64(x, _mm512_sub_epi64(x, m))
}

impl Lanes {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    pub(super) fn new(m: &Modulus) -> Self {
        Self {
            q: splat(m.value()),
            two_q: splat(m.value() << 1),
            neg_q: splat((1 << 52) - m.value()),
            mask52: splat((1 << 52) - 1),
            one: splat(1),
            one_quotient: splat(m.one_quotient() >> 12),
        }
    }

    /// `x * w mod q` in `[0, 2q)` for any `x < 2^52` (only the low 52 bits count).
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    pub(super) fn mul_lazy(self, x: __m512i, f: Factor) -> __m512i {
        _mm512_and_si512(self.mul_unmasked(x, f), self.mask52)
    }

    /// As [`Lanes::mul_lazy`], in the low 52 bits; the others are unspecified.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    pub(super) fn mul_unmasked(self, x: __m512i, f: Factor) -> __m512i {
        let zero = _mm512_setzero_si512();
        let t = _mm512_madd52hi_epu64(zero, x, f.quotient);
        let lo = _mm512_madd52lo_epu64(zero, x, f.w);
        _mm512_madd52lo_epu64(lo, t, self.neg_q)
    }

    /// `[0, 2q)` to `[0, q)`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    pub(super) fn reduce_2q(self, x: __m512i) -> __m512i {
        reduce_once(x, self.q)
    }

    /// `[0, 4q)` to `[0, q)`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    pub(super) fn reduce_4q(self, x: __m512i) -> __m512i {
        reduce_once(reduce_once(x, self.two_q), self.q)
    }
}

impl WideLanes {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    pub(super) fn new(m: &Modulus) -> Self {
        let two52 = m.two52();
        Self {
            two52: splat(two52.value),
            two52_quotient: splat(two52.quotient >> 12),
        }
    }

    /// `hi * 2^52 + lo mod q`, fully reduced, for `hi < 2^52` after the carry of `lo` (any 64-bit
    /// word) was added to it.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    pub(super) fn reduce(self, k: Lanes, hi: __m512i, lo: __m512i) -> __m512i {
        let hi = _mm512_add_epi64(hi, _mm512_srli_epi64::<52>(lo));
        let lo = _mm512_and_si512(lo, k.mask52);
        self.reduce_carried(k, hi, lo)
    }

    /// As [`WideLanes::reduce`] with a result below 4q.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    pub(super) fn reduce_lazy(self, k: Lanes, hi: __m512i, lo: __m512i) -> __m512i {
        let hi = _mm512_add_epi64(hi, _mm512_srli_epi64::<52>(lo));
        let lo = _mm512_and_si512(lo, k.mask52);
        self.carried_lazy(k, hi, lo)
    }

    /// As [`WideLanes::reduce`] for `lo < 2^52`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    pub(super) fn reduce_carried(self, k: Lanes, hi: __m512i, lo: __m512i) -> __m512i {
        k.reduce_4q(self.carried_lazy(k, hi, lo))
    }

    /// Below 4q.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    fn carried_lazy(self, k: Lanes, hi: __m512i, lo: __m512i) -> __m512i {
        let zero = _mm512_setzero_si512();
        // hi * (2^52 mod q) and lo * 1, each reduced to [0, 2q) by its quotient; one subtraction.
        let t = _mm512_madd52hi_epu64(zero, hi, self.two52_quotient);
        let t = _mm512_madd52hi_epu64(t, lo, k.one_quotient);
        let s = _mm512_madd52lo_epu64(lo, hi, self.two52);
        let r = _mm512_madd52lo_epu64(s, t, k.neg_q);
        _mm512_and_si512(r, k.mask52)
    }
}
