//! AES with a key for each block or row, four at a time (AVX-512 VAES).
//!
//! The schedule of AES-128 (FIPS 197, 5.2) for four keys in one register: the substitution of the last word comes from the
//! last round of the cipher on a block of four equal words, of which the row shift changes nothing.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::Leaves;

/// Constants of the ten rounds.
const ROUNDS: [i32; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 0x1b, 0x36];
/// Rows whose keys are expanded side by side.
const ROWS: usize = 8;
/// Most blocks of a row that stay in registers.
const MAX_BLOCKS: usize = 16;

pub(super) fn detected() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("aes")
        && is_x86_feature_detected!("vaes")
}

/// Hashes the first rows in place and returns how many. Call it if the instructions were detected.
pub(super) fn hash_each<const N: usize>(
    key: u128,
    (first, step): (u64, u64),
    rows: &mut [[u128; N]],
) -> usize {
    assert!(detected(), "AVX-512 VAES");
    // SAFETY: the instructions are there.
    unsafe {
        match N {
            1..=3 => across(key, (first, step), rows),
            _ if N.is_multiple_of(4) && N <= MAX_BLOCKS => along(key, (first, step), rows),
            _ => 0,
        }
    }
}

/// The next round key of each of four keys.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes")]
fn next(k: __m512i, round: i32) -> __m512i {
    // The last word, rotated by a byte, in all words.
    let rotate = _mm512_set1_epi32(0x0c0f_0e0d);
    let word = _mm512_aesenclast_epi128(_mm512_shuffle_epi8(k, rotate), _mm512_set1_epi32(round));
    let k = _mm512_xor_si512(k, _mm512_bslli_epi128::<4>(k));
    // k xor (k << 64) xor word.
    _mm512_ternarylogic_epi64::<0x96>(k, _mm512_bslli_epi128::<8>(k), word)
}

/// The keys of rows `e` to `e + 3`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes")]
fn keys(key: u128, (first, step): (u64, u64), e: usize) -> __m512i {
    let at = |l: usize| super::hash::index(first, step, e + l) as i64;
    let index = _mm512_setr_epi64(at(0), 0, at(1), 0, at(2), 0, at(3), 0);
    let (lo, hi) = (key as u64 as i64, (key >> 64) as u64 as i64);
    _mm512_xor_si512(index, _mm512_setr_epi64(lo, hi, lo, hi, lo, hi, lo, hi))
}

/// Up to three blocks a row: register n holds block n of four rows.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes")]
fn across<const N: usize>(key: u128, at: (u64, u64), rows: &mut [[u128; N]]) -> usize {
    let mut done = 0;
    for rows in rows.chunks_exact_mut(ROWS) {
        let mut k = [keys(key, at, done), keys(key, at, done + 4)];
        let mut x = [[_mm512_setzero_si512(); N]; 2];
        for (x, rows) in x.iter_mut().zip(rows.chunks_exact(4)) {
            for (n, x) in x.iter_mut().enumerate() {
                let block = |l: usize| {
                    // SAFETY: a block of a row.
                    unsafe { _mm_loadu_si128((&raw const rows[l][n]).cast()) }
                };
                let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(block(0)), block(1));
                let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(block(2)), block(3));
                *x = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
            }
        }
        let mut state = x;
        for (state, k) in state.iter_mut().zip(k) {
            for s in state {
                *s = _mm512_xor_si512(*s, k);
            }
        }
        for (i, round) in ROUNDS.into_iter().enumerate() {
            for (state, k) in state.iter_mut().zip(&mut k) {
                *k = next(*k, round);
                for s in state {
                    *s = if i + 1 < ROUNDS.len() {
                        _mm512_aesenc_epi128(*s, *k)
                    } else {
                        _mm512_aesenclast_epi128(*s, *k)
                    };
                }
            }
        }
        let each = rows.chunks_exact_mut(4).zip(state.iter().zip(&x));
        for (rows, (state, x)) in each {
            for (n, (s, x)) in state.iter().zip(x).enumerate() {
                let h = _mm512_xor_si512(*s, *x);
                let parts = [
                    _mm512_extracti64x2_epi64::<0>(h),
                    _mm512_extracti64x2_epi64::<1>(h),
                    _mm512_extracti64x2_epi64::<2>(h),
                    _mm512_extracti64x2_epi64::<3>(h),
                ];
                for (row, part) in rows.iter_mut().zip(parts) {
                    // SAFETY: a block of a row.
                    unsafe { _mm_storeu_si128((&raw mut row[n]).cast(), part) }
                }
            }
        }
        done += ROWS;
    }
    done
}

/// Rows of 4, 8, 12 or 16 blocks: a register holds four blocks of one row, whose key is in all its lanes.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes")]
fn along<const N: usize>(key: u128, at: (u64, u64), rows: &mut [[u128; N]]) -> usize {
    const QUARTERS: usize = MAX_BLOCKS / 4;
    let quarters = N / 4;
    let mut done = 0;
    for rows in rows.chunks_exact_mut(4) {
        let mut k = keys(key, at, done);
        let mut state = [[_mm512_setzero_si512(); QUARTERS]; 4];
        for (state, (row, k)) in state.iter_mut().zip(rows.iter().zip(spread(k))) {
            for (j, s) in state[..quarters].iter_mut().enumerate() {
                // SAFETY: four blocks of the row.
                let x = unsafe { _mm512_loadu_si512(row.as_ptr().add(4 * j).cast()) };
                *s = _mm512_xor_si512(x, k);
            }
        }
        for (i, round) in ROUNDS.into_iter().enumerate() {
            k = next(k, round);
            for (state, k) in state.iter_mut().zip(spread(k)) {
                for s in &mut state[..quarters] {
                    *s = if i + 1 < ROUNDS.len() {
                        _mm512_aesenc_epi128(*s, k)
                    } else {
                        _mm512_aesenclast_epi128(*s, k)
                    };
                }
            }
        }
        for (state, row) in state.iter().zip(rows) {
            for (j, s) in state[..quarters].iter().enumerate() {
                // SAFETY: four blocks of the row.
                unsafe {
                    let p = row.as_mut_ptr().add(4 * j);
                    let x = _mm512_loadu_si512(p.cast_const().cast());
                    _mm512_storeu_si512(p.cast(), _mm512_xor_si512(*s, x));
                }
            }
        }
        done += 4;
    }
    done
}

/// Each of four keys in all lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes")]
fn spread(k: __m512i) -> [__m512i; 4] {
    [
        _mm512_shuffle_i64x2::<0x00>(k, k),
        _mm512_shuffle_i64x2::<0x55>(k, k),
        _mm512_shuffle_i64x2::<0xaa>(k, k),
        _mm512_shuffle_i64x2::<0xff>(k, k),
    ]
}

/// The eleven round keys of a key.
pub(super) type Schedule = [u128; 11];

/// The schedule of one key. Call it if the instructions were detected.
pub(super) fn schedule(key: u128) -> Schedule {
    assert!(detected(), "AVX-512 VAES");
    // SAFETY: the instructions are there.
    unsafe { schedule_of(key) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes")]
fn schedule_of(key: u128) -> Schedule {
    let mut k = keys(key, (0, 0), 0);
    let mut out = Schedule::default();
    out[0] = key;
    for (out, round) in out[1..].iter_mut().zip(ROUNDS) {
        k = next(k, round);
        // SAFETY: a word of 16 bytes.
        unsafe { _mm_storeu_si128((out as *mut u128).cast(), _mm512_castsi512_si128(k)) }
    }
    out
}

/// As `Blocks::leaf_sums`. Call it if the instructions were detected.
pub(super) fn leaf_sums(leaves: Leaves<'_>, first: u64, by_bit: &mut [u8], total: &mut [u8]) {
    assert!(detected(), "AVX-512 VAES");
    let len = total.len();
    assert_eq!(by_bit.len() % len.max(1), 0, "parts of sums");
    let mut at = 0;
    while at < len {
        let (first, part) = (first.wrapping_add(at as u64 / 16), (at, len));
        // SAFETY: the instructions are there; each case has as many parts as `by_bit`, and `at` is below `len`.
        at += unsafe {
            match by_bit.len() / len {
                1 => sums::<1, 4>(leaves, first, by_bit, total, part),
                2 => sums::<2, 4>(leaves, first, by_bit, total, part),
                3 => sums::<3, 4>(leaves, first, by_bit, total, part),
                4 => sums::<4, 4>(leaves, first, by_bit, total, part),
                5 => sums::<5, 2>(leaves, first, by_bit, total, part),
                6 => sums::<6, 2>(leaves, first, by_bit, total, part),
                7 => sums::<7, 2>(leaves, first, by_bit, total, part),
                _ => sums::<8, 2>(leaves, first, by_bit, total, part),
            }
        };
    }
}

/// Up to `64 W` bytes of all sums from byte `at` of `len` on, in registers. Returns how many bytes.
///
/// # Safety
/// Instructions detected; `by_bit` has `K` parts of `len` bytes, `total` has `len`, a multiple of 16; `at < len`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes")]
unsafe fn sums<const K: usize, const W: usize>(
    leaves: Leaves<'_>,
    first: u64,
    by_bit: &mut [u8],
    total: &mut [u8],
    (at, len): (usize, usize),
) -> usize {
    let bytes = (64 * W).min(len - at);
    // Counters are little-endian words of 128 bits whose high half stays zero.
    let counters: [__m512i; W] = std::array::from_fn(|w| {
        let c = |l: u64| first.wrapping_add(4 * w as u64 + l) as i64;
        _mm512_setr_epi64(c(0), 0, c(1), 0, c(2), 0, c(3), 0)
    });
    let mut all = [_mm512_setzero_si512(); W];
    let mut bit = [[_mm512_setzero_si512(); W]; K];
    for (x, key) in (usize::from(leaves.without_first)..).zip(leaves.keys) {
        let rounds = key.rounds();
        let round = |i: usize| {
            // SAFETY: a word of 16 bytes.
            _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128((&raw const rounds[i]).cast()) })
        };
        let k = round(0);
        let mut state = counters.map(|c| _mm512_xor_si512(c, k));
        for i in 1..10 {
            let k = round(i);
            for s in &mut state {
                *s = _mm512_aesenc_epi128(*s, k);
            }
        }
        let k = round(10);
        for (s, all) in state.iter_mut().zip(&mut all) {
            *s = _mm512_aesenclast_epi128(*s, k);
            *all = _mm512_xor_si512(*all, *s);
        }
        for (b, sum) in bit.iter_mut().enumerate() {
            let mask = ((x >> b & 1) as u8).wrapping_neg();
            for (sum, s) in sum.iter_mut().zip(&state) {
                *sum = _mm512_mask_xor_epi64(*sum, mask, *sum, *s);
            }
        }
    }
    let put = |out: &mut [u8], sum: &[__m512i; W]| {
        for (part, s) in out.chunks_mut(64).zip(sum) {
            let mask = u64::MAX >> (64 - part.len());
            // SAFETY: the mask has a bit for each byte of the part, which has 1 to 64.
            unsafe { _mm512_mask_storeu_epi8(part.as_mut_ptr().cast(), mask, *s) }
        }
    };
    put(&mut total[at..at + bytes], &all);
    for (b, sum) in bit.iter().enumerate() {
        put(&mut by_bit[b * len + at..b * len + at + bytes], sum);
    }
    bytes
}
