//! Four residues in one register, as doubles.
//!
//! Residues are integers held in double precision, mostly signed and not reduced. Sums and differences
//! of them are exact below 2^53, and the product of two of them splits into two doubles without error
//! by a fused multiply-add (van der Hoeven, Lecerf, Quintin 2016, "Modular SIMD arithmetic in
//! Mathemagix", section 3).

use std::arch::x86_64::*;

use crate::backend::Ahead;
use crate::modulus::Modulus;

/// 2^52: adding it to an integer below 2^52 leaves that integer in the low bits of the double.
const TWO52: f64 = (1u64 << 52) as f64;
/// 3 * 2^51: adding it to a double of size up to 2^51 rounds that to the nearest integer.
const ROUND: f64 = 1.5 * TWO52;

/// Broadcast constants of one modulus.
#[derive(Clone, Copy)]
pub(super) struct Lanes {
    pub q: __m256d,
    /// q as words.
    pub q_words: __m256i,
    /// 1/q, rounded.
    pub reciprocal: __m256d,
    /// [`ROUND`].
    pub round: __m256d,
}

/// A constant factor in [-q/2, q/2], and that factor over q, rounded.
#[derive(Clone, Copy)]
pub(super) struct Factor {
    pub w: __m256d,
    pub quotient: __m256d,
}

/// Loads 4 words.
///
/// # Safety
/// `p` points to 4 readable words.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn load(p: *const u64) -> __m256i {
    // SAFETY: as the caller promises; the load is unaligned.
    unsafe { _mm256_loadu_si256(p.cast()) }
}

/// Stores 4 words.
///
/// # Safety
/// `p` points to 4 writable words.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn store(p: *mut u64, x: __m256i) {
    // SAFETY: as the caller promises; the store is unaligned.
    unsafe { _mm256_storeu_si256(p.cast(), x) }
}

/// Loads 16 words: lane i of register j is word 4i + j. Halves of registers go together while they are loaded,
/// which leaves one shuffle for each register.
///
/// # Safety
/// `p` points to 16 readable words.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn load_transposed(p: *const u64) -> [__m256d; 4] {
    // SAFETY: as the caller promises; the loads are unaligned.
    unsafe {
        let half = |i: usize| _mm_loadu_pd(p.cast::<f64>().add(i));
        let pair = |i: usize| {
            let low = _mm256_castpd128_pd256(half(i));
            _mm256_insertf128_pd::<1>(low, half(i + 8))
        };
        let (a, b, c, d) = (pair(0), pair(4), pair(2), pair(6));
        [
            _mm256_unpacklo_pd(a, b),
            _mm256_unpackhi_pd(a, b),
            _mm256_unpacklo_pd(c, d),
            _mm256_unpackhi_pd(c, d),
        ]
    }
}

/// Undoes [`load_transposed`].
///
/// # Safety
/// `p` points to 16 writable words.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn store_transposed(p: *mut u64, [a, b, c, d]: [__m256d; 4]) {
    // SAFETY: as the caller promises; the stores are unaligned.
    unsafe {
        let put = |i: usize, x: __m256d| {
            let p = p.cast::<f64>();
            _mm_storeu_pd(p.add(i), _mm256_castpd256_pd128(x));
            _mm_storeu_pd(p.add(i + 8), _mm256_extractf128_pd::<1>(x));
        };
        put(0, _mm256_unpacklo_pd(a, b));
        put(4, _mm256_unpackhi_pd(a, b));
        put(2, _mm256_unpacklo_pd(c, d));
        put(6, _mm256_unpackhi_pd(c, d));
    }
}

/// Fetches the next line of the caller's into the second-level cache.
#[inline]
#[target_feature(enable = "avx2,fma")]
#[allow(unused_unsafe)] // Older compilers have it unsafe.
pub(super) fn fetch(ahead: &mut Ahead<'_>) {
    if let Some(line) = ahead.line() {
        // SAFETY: a hint, valid for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) }
    }
}

/// Words below 2^52 as doubles.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn to_double(x: __m256i) -> __m256d {
    let two52 = _mm256_set1_pd(TWO52);
    let lifted = _mm256_or_si256(x, _mm256_castpd_si256(two52));
    _mm256_sub_pd(_mm256_castsi256_pd(lifted), two52)
}

/// Signed words of size below 2^51 as doubles.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn signed_to_double(x: __m256i) -> __m256d {
    let round = _mm256_set1_pd(ROUND);
    let lifted = _mm256_add_epi64(x, _mm256_castpd_si256(round));
    _mm256_sub_pd(_mm256_castsi256_pd(lifted), round)
}

/// Integers in [0, 2^52) as words.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn to_words(x: __m256d) -> __m256i {
    let two52 = _mm256_set1_pd(TWO52);
    let lifted = _mm256_add_pd(x, two52);
    _mm256_xor_si256(_mm256_castpd_si256(lifted), _mm256_castpd_si256(two52))
}

/// The factor `w < q` in all lanes.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn factor(m: &Modulus, w: u64) -> Factor {
    let centred = m.center(w) as f64;
    Factor {
        w: _mm256_set1_pd(centred),
        quotient: _mm256_set1_pd(centred / m.value() as f64),
    }
}

impl Lanes {
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn new(m: &Modulus) -> Self {
        let q = m.value() as f64;
        Self {
            q: _mm256_set1_pd(q),
            q_words: _mm256_set1_epi64x(m.value() as i64),
            reciprocal: _mm256_set1_pd(1.0 / q),
            round: _mm256_set1_pd(ROUND),
        }
    }

    /// `a * b` rounded to an integer, of size up to 2^51.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn rounded_product(self, a: __m256d, b: __m256d) -> __m256d {
        _mm256_sub_pd(_mm256_fmadd_pd(a, b, self.round), self.round)
    }

    /// `x * w mod q`, in two parts whose sum is at most `(1/2 + |x| 2^-54) q` in size, for
    /// `|x| <= 2^52`.
    ///
    /// The product is `h + l` without error. Its quotient by q is off by `|x| 2^-54` at most, since the
    /// factor is at most q/2 and its quotient is rounded. Then `h - c q` is an integer below 2^53, so
    /// the second fused operation is exact too.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn mul_parts(self, x: __m256d, f: Factor) -> (__m256d, __m256d) {
        let h = _mm256_mul_pd(x, f.w);
        let l = _mm256_fmsub_pd(x, f.w, h);
        let c = self.rounded_product(x, f.quotient);
        (_mm256_fnmadd_pd(c, self.q, h), l)
    }

    /// The sum of [`Lanes::mul_parts`].
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn mul(self, x: __m256d, f: Factor) -> __m256d {
        let (r, l) = self.mul_parts(x, f);
        _mm256_add_pd(r, l)
    }

    /// `a * b mod q` for `a` and `b` in [0, q), in two parts whose sum is at most 3/4 q in size.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn product_parts(self, a: __m256d, b: __m256d) -> (__m256d, __m256d) {
        let h = _mm256_mul_pd(a, b);
        let l = _mm256_fmsub_pd(a, b, h);
        // h / q is below 2^50 and carries two roundings: the quotient is off by 1/4 at most.
        let c = self.rounded_product(h, self.reciprocal);
        (_mm256_fnmadd_pd(c, self.q, h), l)
    }

    /// `x mod q`, at most `q/2 + |x| 2^-53` in size, for integers of size below 2^53 and up to `2^51 q`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn reduce(self, x: __m256d) -> __m256d {
        let c = self.rounded_product(x, self.reciprocal);
        _mm256_fnmadd_pd(c, self.q, x)
    }

    /// (-q, q) to words in [0, q).
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn lift_to_words(self, x: __m256d) -> __m256i {
        // 2^52, or 2^52 + q if x is negative: as bits, q is added by an OR.
        let two52 = _mm256_castpd_si256(_mm256_set1_pd(TWO52));
        let negative = _mm256_cmp_pd::<_CMP_LT_OQ>(x, _mm256_setzero_pd());
        let q = _mm256_and_si256(_mm256_castpd_si256(negative), self.q_words);
        let lift = _mm256_castsi256_pd(_mm256_or_si256(two52, q));
        let lifted = _mm256_castpd_si256(_mm256_add_pd(x, lift));
        _mm256_xor_si256(lifted, two52)
    }

    /// (-q, q) to [0, q).
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn lift(self, x: __m256d) -> __m256d {
        let negative = _mm256_cmp_pd::<_CMP_LT_OQ>(x, _mm256_setzero_pd());
        _mm256_add_pd(x, _mm256_and_pd(negative, self.q))
    }
}
