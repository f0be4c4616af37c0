//! Inner products with packed residues.

use std::arch::x86_64::*;

use super::lanes::{load, splat, store, Lanes, WideLanes};
use crate::modulus::Modulus;
use crate::packed::PackedRow;

/// How eight residues of some bits unpack: the bytes of each, its place in the first, and its size.
#[derive(Clone, Copy)]
struct Unpack {
    bytes: __m512i,
    shifts: __m512i,
    mask: __m512i,
}

impl Unpack {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512vbmi,avx512ifma")]
    fn new(bits: u32) -> Self {
        // Lane l takes the eight bytes from byte floor(l bits / 8) on; the last is byte 50 at most.
        let word = |l: u32| {
            let first = u64::from(l * bits / 8);
            0x0706_0504_0302_0100 + first * 0x0101_0101_0101_0101
        };
        let all = |f: &dyn Fn(u32) -> u64| {
            let w: [u64; 8] = std::array::from_fn(|l| f(l as u32));
            // SAFETY: 8 words.
            unsafe { load(w.as_ptr()) }
        };
        Self {
            bytes: all(&word),
            shifts: all(&|l| u64::from(l * bits % 8)),
            mask: splat((1 << bits) - 1),
        }
    }

    /// Eight residues from `p` on.
    ///
    /// # Safety
    /// `p` has 64 readable bytes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512vbmi,avx512ifma")]
    unsafe fn load(self, p: *const u8) -> __m512i {
        // SAFETY: as the caller promises.
        let raw = unsafe { load(p.cast()) };
        let words = _mm512_permutexvar_epi8(self.bytes, raw);
        _mm512_and_si512(_mm512_srlv_epi64(words, self.shifts), self.mask)
    }
}

/// As `pointwise::key_products` for packed keys.
///
/// # Safety
/// Features detected; all operands have the words of `out[0]`, a multiple of 8; rows have the bits of `m`, and 64 readable
/// bytes from each multiple of eight of these residues on.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512vbmi,avx512ifma")]
pub(super) unsafe fn key_products(
    m: &Modulus,
    out: [&mut [u64]; 2],
    terms: &[(&[u64], [PackedRow<'_>; 2])],
    add: bool,
) {
    let (k, wide, unpack) = (Lanes::new(m), WideLanes::new(m), Unpack::new(m.bits()));
    let len = out[0].len();
    let out = out.map(<[u64]>::as_mut_ptr);
    let wide_len = len & !15;
    // SAFETY: all operands have the words and bytes addressed.
    unsafe {
        for j in (0..wide_len).step_by(16) {
            block::<2>(k, wide, unpack, out, terms, add, j, m.bits() as usize);
        }
        if wide_len < len {
            block::<1>(
                k,
                wide,
                unpack,
                out,
                terms,
                add,
                wide_len,
                m.bits() as usize,
            );
        }
    }
}

/// `U` registers of each output of [`key_products`] from word `j` on.
///
/// # Safety
/// As [`key_products`], for `8 U` words from `j` on.
#[inline]
#[allow(clippy::too_many_arguments)]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512vbmi,avx512ifma")]
unsafe fn block<const U: usize>(
    k: Lanes,
    wide: WideLanes,
    unpack: Unpack,
    out: [*mut u64; 2],
    terms: &[(&[u64], [PackedRow<'_>; 2])],
    add: bool,
    j: usize,
    bits: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut hi = [[_mm512_setzero_si512(); U]; 2];
        let mut lo = hi;
        if add {
            for (lo, out) in lo.iter_mut().zip(out) {
                for (u, lo) in lo.iter_mut().enumerate() {
                    *lo = load(out.add(j + 8 * u));
                }
            }
        }
        for (d, rows) in terms {
            for u in 0..U {
                let x = load(d.as_ptr().add(j + 8 * u));
                for (half, row) in rows.iter().enumerate() {
                    let y = unpack.load(row.bytes().as_ptr().add((j / 8 + u) * bits));
                    lo[half][u] = _mm512_madd52lo_epu64(lo[half][u], x, y);
                    hi[half][u] = _mm512_madd52hi_epu64(hi[half][u], x, y);
                }
            }
        }
        for half in 0..2 {
            for u in 0..U {
                let r = wide.reduce(k, hi[half][u], lo[half][u]);
                store(out[half].add(j + 8 * u), r);
            }
        }
    }
}
