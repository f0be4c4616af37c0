//! Twiddle factors in registers.

use std::arch::x86_64::*;

use super::lanes::{splat, Factor};

/// Twiddle tables as pointers, N words each.
#[derive(Clone, Copy)]
pub(super) struct Twiddles {
    pub w: *const u64,
    pub quotient: *const u64,
}

impl Twiddles {
    pub(super) fn new((w, quotient): (&[u64], &[u64])) -> Self {
        Self {
            w: w.as_ptr(),
            quotient: quotient.as_ptr(),
        }
    }

    /// Entry `i` in all lanes.
    ///
    /// # Safety
    /// `i < N`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
    pub(super) unsafe fn splat(self, i: usize) -> Factor {
        // SAFETY: as the caller promises.
        unsafe {
            Factor {
                w: splat(*self.w.add(i)),
                quotient: splat(*self.quotient.add(i)),
            }
        }
    }
}

/// Two words spread over the lanes by `index`.
///
/// # Safety
/// `p` has 2 words.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn spread2(p: *const u64, index: __m512i) -> __m512i {
    // SAFETY: as the caller promises.
    let pair = unsafe { _mm_loadu_si128(p.cast()) };
    _mm512_permutexvar_epi64(index, _mm512_castsi128_si512(pair))
}

/// Four words spread over the lanes by `index`.
///
/// # Safety
/// `p` has 4 words.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn spread4(p: *const u64, index: __m512i) -> __m512i {
    // SAFETY: as the caller promises.
    let quad = unsafe { _mm256_loadu_si256(p.cast()) };
    _mm512_permutexvar_epi64(index, _mm512_castsi256_si512(quad))
}
