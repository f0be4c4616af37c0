//! AVX-512 kernels on the 52-bit multiply-add unit (IFMA).
//!
//! Residues are below 2^50, so lazy values below 4q fit the 52 bits that the unit multiplies.
//! Results equal those of the scalar backend bit for bit: every kernel ends fully reduced.
//!
//! Unsafe code of the workspace is in this crate's kernel modules only (and in `heap`). Two obligations are
//! discharged here: kernels run only if the processor has the instructions (an [`IfmaBackend`]
//! exists only after detection), and pointers stay within slices (lengths are taken as the shortest
//! operand, and NTT lengths are asserted).
#![allow(unsafe_code)]

mod forward;
mod inverse;
mod lanes;
mod packed;
mod pointwise;
mod source;
mod twiddles;

use self::source::Cut;
use super::checks::{check_destination, check_row, check_terms, check_tile};
use super::{Ahead, Backend, Destination, Pieces, ScalarBackend};
use crate::modulus::{Modulus, Shoup};
use crate::ntt::{InverseFactor, NttTable};
use crate::packed::PackedRow;

/// Kernels for processors with AVX-512 F, DQ, VL, VBMI and IFMA (all that have IFMA have VBMI).
#[derive(Clone, Copy, Debug)]
pub struct IfmaBackend(());

impl IfmaBackend {
    /// The backend, if this processor has the instructions.
    pub fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512ifma"))
        .then_some(Self(()))
    }
}

/// Splits at the largest multiple of 8: the vector kernel takes the head, the scalar one the tail.
fn head(len: usize) -> usize {
    len & !7
}

impl Backend for IfmaBackend {
    fn name(&self) -> &'static str {
        "avx512ifma"
    }

    fn quotient_bits(&self) -> u32 {
        52
    }

    fn ntt_forward(&self, table: &NttTable, a: &mut [u64]) {
        assert_eq!(a.len(), table.n(), "NTT operand length");
        assert_eq!(table.quotient_bits(), 52, "table of another backend");
        // SAFETY: features were detected; the slice has N elements, as the tables do.
        unsafe { forward::transform(table, a) }
    }

    fn ntt_inverse(&self, table: &NttTable, a: &mut [u64]) {
        assert_eq!(a.len(), table.n(), "NTT operand length");
        assert_eq!(table.quotient_bits(), 52, "table of another backend");
        // SAFETY: features were detected; the slice has N elements, as the tables do.
        unsafe { inverse::transform(table, a) }
    }

    fn forward_head(&self, table: &NttTable, tile: &mut [u64]) {
        check_tile(table, self.quotient_bits(), tile);
        if table.rows() == 8 {
            // SAFETY: features were detected; the tile has 8 rows of a multiple of 8 columns.
            unsafe { forward::head(table, tile) }
        }
    }

    fn forward_tail(&self, table: &NttTable, s: usize, row: &mut [u64], ahead: &mut Ahead<'_>) {
        check_row(table, self.quotient_bits(), s, row);
        if table.rows() == 8 {
            // SAFETY: features were detected; the row has N/8 words, at least 16.
            unsafe { forward::tail(table, s, row, ahead) }
        } else {
            self.ntt_forward(table, row);
        }
    }

    fn forward_tail_from(
        &self,
        table: &NttTable,
        s: usize,
        pieces: Pieces<'_>,
        row: &mut [u64],
        ahead: &mut Ahead<'_>,
    ) {
        check_row(table, self.quotient_bits(), s, row);
        assert!(pieces.cover(row.len()), "pieces of a row");
        if table.rows() == 8 {
            // SAFETY: features were detected; the row has N/8 words, at least 16, and the pieces cover it.
            unsafe { forward::tail_from(table, s, pieces, row, ahead) }
        } else {
            pieces.copy_to(row);
            self.ntt_forward(table, row);
        }
    }

    fn inverse_tail(&self, table: &NttTable, s: usize, row: &mut [u64], ahead: &mut Ahead<'_>) {
        check_row(table, self.quotient_bits(), s, row);
        if table.rows() == 8 {
            // SAFETY: features were detected; the row has N/8 words, at least 16.
            unsafe {
                // Both from one borrow of the row.
                let p = row.as_mut_ptr();
                inverse::tail(table, s, p, (p, row.len()), ahead);
            }
        }
    }

    fn inverse_tail_from(
        &self,
        table: &NttTable,
        s: usize,
        from: &[u64],
        row: &mut [u64],
        ahead: &mut Ahead<'_>,
    ) {
        check_row(table, self.quotient_bits(), s, row);
        assert_eq!(from.len(), row.len(), "NTT row length");
        if table.rows() == 8 {
            // SAFETY: features were detected; both rows have N/8 words, at least 16.
            unsafe {
                let to = (row.as_mut_ptr(), row.len());
                inverse::tail(table, s, from.as_ptr(), to, ahead);
            }
        } else {
            row.copy_from_slice(from);
        }
    }

    fn inverse_head_from(
        &self,
        table: &NttTable,
        pieces: Pieces<'_>,
        tile: &mut [u64],
        factor: &InverseFactor,
    ) {
        check_tile(table, self.quotient_bits(), tile);
        assert!(pieces.cover(tile.len()), "pieces of a tile");
        if table.rows() == 8 && pieces.len() == tile.len() / 8 {
            // SAFETY: features were detected; tile and pieces have 8 rows of a multiple of 8 columns.
            unsafe {
                let to = (tile.as_mut_ptr(), tile.len());
                inverse::head(table, Cut::new(pieces), to, factor);
            }
        } else {
            pieces.copy_to(tile);
            self.inverse_head(table, tile, factor);
        }
    }

    fn inverse_head(&self, table: &NttTable, tile: &mut [u64], factor: &InverseFactor) {
        check_tile(table, self.quotient_bits(), tile);
        if table.rows() == 8 {
            // SAFETY: features were detected; the tile has 8 rows of a multiple of 8 columns.
            unsafe {
                let p = tile.as_mut_ptr();
                inverse::head(table, p, (p, tile.len()), factor);
            }
        } else {
            self.ntt_inverse(table, tile);
            self.scalar_mul_assign(table.modulus(), tile, factor.factor);
        }
    }

    fn add_assign(&self, m: &Modulus, a: &mut [u64], b: &[u64]) {
        let n = a.len().min(b.len());
        let h = head(n);
        // SAFETY: features were detected.
        unsafe { pointwise::add_assign(m, &mut a[..h], &b[..h]) }
        ScalarBackend.add_assign(m, &mut a[h..n], &b[h..n]);
    }

    fn sub_assign(&self, m: &Modulus, a: &mut [u64], b: &[u64]) {
        let n = a.len().min(b.len());
        let h = head(n);
        // SAFETY: features were detected.
        unsafe { pointwise::sub_assign(m, &mut a[..h], &b[..h]) }
        ScalarBackend.sub_assign(m, &mut a[h..n], &b[h..n]);
    }

    fn neg_assign(&self, m: &Modulus, a: &mut [u64]) {
        let h = head(a.len());
        // SAFETY: features were detected.
        unsafe { pointwise::neg_assign(m, &mut a[..h]) }
        ScalarBackend.neg_assign(m, &mut a[h..]);
    }

    fn mul_assign(&self, m: &Modulus, a: &mut [u64], b: &[u64]) {
        let n = a.len().min(b.len());
        let h = head(n);
        // SAFETY: features were detected.
        unsafe { pointwise::mul_assign(m, &mut a[..h], &b[..h]) }
        ScalarBackend.mul_assign(m, &mut a[h..n], &b[h..n]);
    }

    fn mul(&self, m: &Modulus, out: &mut [u64], a: &[u64], b: &[u64]) {
        let n = out.len().min(a.len()).min(b.len());
        let h = head(n);
        // SAFETY: features were detected.
        unsafe { pointwise::mul(m, &mut out[..h], &a[..h], &b[..h]) }
        ScalarBackend.mul(m, &mut out[h..n], &a[h..n], &b[h..n]);
    }

    fn mul_add(&self, m: &Modulus, acc: &mut [u64], a: &[u64], b: &[u64]) {
        self.dot_add(m, acc, &[(a, b)]);
    }

    fn dot_add(&self, m: &Modulus, acc: &mut [u64], terms: &[(&[u64], &[u64])]) {
        let n = terms
            .iter()
            .fold(acc.len(), |n, (a, b)| n.min(a.len()).min(b.len()));
        let h = head(n);
        for chunk in terms.chunks(pointwise::MAX_LAZY_TERMS) {
            // SAFETY: features were detected; every operand has at least h elements.
            unsafe { pointwise::dot_add(m, &mut acc[..h], chunk) }
        }
        if h < n {
            let tails: Vec<_> = terms.iter().map(|(a, b)| (&a[h..n], &b[h..n])).collect();
            ScalarBackend.dot_add(m, &mut acc[h..n], &tails);
        }
    }

    fn scalar_mul_assign(&self, m: &Modulus, a: &mut [u64], w: Shoup) {
        let h = head(a.len());
        // SAFETY: features were detected.
        unsafe { pointwise::scalar_mul_assign(m, &mut a[..h], w) }
        ScalarBackend.scalar_mul_assign(m, &mut a[h..], w);
    }

    fn scalar_mul_add(&self, m: &Modulus, acc: &mut [u64], a: &[u64], w: Shoup) {
        let n = acc.len().min(a.len());
        let h = head(n);
        // SAFETY: features were detected.
        unsafe { pointwise::scalar_mul_add(m, &mut acc[..h], &a[..h], w) }
        ScalarBackend.scalar_mul_add(m, &mut acc[h..n], &a[h..n], w);
    }

    fn sub_scalar_mul(&self, m: &Modulus, a: &mut [u64], b: &[u64], w: Shoup) {
        let n = a.len().min(b.len());
        let h = head(n);
        // SAFETY: features were detected.
        unsafe { pointwise::sub_scalar_mul(m, &mut a[..h], &b[..h], w) }
        ScalarBackend.sub_scalar_mul(m, &mut a[h..n], &b[h..n], w);
    }

    fn weighted_sum(&self, m: &Modulus, out: &mut [u64], terms: &[&[u64]], weights: &[u64]) {
        let n = terms.iter().fold(out.len(), |n, t| n.min(t.len()));
        let h = head(n);
        let lazy = pointwise::MAX_LAZY_TERMS;
        let split = terms.len().min(weights.len()).min(lazy);
        // SAFETY: features were detected; every term has at least h elements.
        unsafe {
            let first = (&terms[..split], &weights[..split]);
            pointwise::weighted_sum::<false>(m, &mut out[..h], first.0, first.1);
            for (t, w) in terms[split..]
                .chunks(lazy)
                .zip(weights[split..].chunks(lazy))
            {
                pointwise::weighted_sum::<true>(m, &mut out[..h], t, w);
            }
        }
        if h < n {
            let tails: Vec<_> = terms.iter().map(|t| &t[h..n]).collect();
            ScalarBackend.weighted_sum(m, &mut out[h..n], &tails, weights);
        }
    }

    fn convert(
        &self,
        m: &Modulus,
        out: &mut [u64],
        (terms, stride): (&[u64], usize),
        weights: &[u64],
        ahead: &mut Ahead<'_>,
    ) {
        let (n, k) = (out.len(), weights.len());
        check_terms(n, terms, stride, k);
        let h = head(n);
        let lazy = pointwise::MAX_LAZY_TERMS;
        // SAFETY: features were detected; term i has at least h elements from i * stride on.
        unsafe {
            let (first, rest) = weights.split_at(k.min(lazy));
            pointwise::convert::<false>(m, &mut out[..h], (terms, stride), first, ahead);
            for (i, w) in rest.chunks(lazy).enumerate() {
                let terms = (&terms[(i + 1) * lazy * stride..], stride);
                pointwise::convert::<true>(m, &mut out[..h], terms, w, ahead);
            }
        }
        if h < n {
            let tails = (&terms[h.min(terms.len())..], stride);
            ScalarBackend.convert(m, &mut out[h..n], tails, weights, ahead);
        }
    }

    fn key_products(&self, m: &Modulus, out: [&mut [u64]; 2], terms: &[[&[u64]; 3]], add: bool) {
        let [b, a] = out;
        let n = terms
            .iter()
            .flatten()
            .fold(b.len().min(a.len()), |n, t| n.min(t.len()));
        let h = head(n);
        let mut add_now = add;
        let chunks = terms.chunks(pointwise::MAX_LAZY_TERMS);
        // No terms: one empty chunk, which clears the output.
        for chunk in chunks.chain(terms.is_empty().then_some(terms)) {
            // SAFETY: features were detected; every operand has at least h elements.
            unsafe { pointwise::key_products(m, [&mut b[..h], &mut a[..h]], chunk, add_now) }
            add_now = true;
        }
        if h < n {
            let tails: Vec<_> = terms.iter().map(|t| t.map(|x| &x[h..n])).collect();
            ScalarBackend.key_products(m, [&mut b[h..n], &mut a[h..n]], &tails, add);
        }
    }

    fn key_products_packed(
        &self,
        m: &Modulus,
        out: [&mut [u64]; 2],
        terms: &[(&[u64], [PackedRow<'_>; 2])],
        add: bool,
    ) {
        let [b, a] = out;
        let n = b.len();
        assert!(n == a.len() && n.is_multiple_of(8), "packed products");
        for (d, rows) in terms {
            assert!(d.len() >= n, "packed products");
            for row in rows {
                let last = (n / 8).saturating_sub(1) * row.bits() as usize;
                assert!(
                    row.len() >= n && row.bits() == m.bits() && row.bytes().len() >= last + 64,
                    "packed products"
                );
            }
        }
        if terms.is_empty() && !add {
            b.fill(0);
            a.fill(0);
        }
        for (i, chunk) in terms.chunks(pointwise::MAX_LAZY_TERMS).enumerate() {
            // SAFETY: features were detected; the lengths were checked.
            unsafe { packed::key_products(m, [&mut *b, &mut *a], chunk, add || i > 0) }
        }
    }

    fn reduce_assign(&self, m: &Modulus, a: &mut [u64]) {
        let h = head(a.len());
        // SAFETY: features were detected.
        unsafe { pointwise::reduce_assign(m, &mut a[..h]) }
        ScalarBackend.reduce_assign(m, &mut a[h..]);
    }

    fn rounded_sum(&self, out: &mut [u64], terms: &[u64], stride: usize, factors: &[f64]) {
        let n = out.len();
        check_terms(n, terms, stride, factors.len());
        let h = head(n);
        // SAFETY: features were detected; term i has at least h elements from i * stride on.
        unsafe { pointwise::rounded_sum(&mut out[..h], terms, stride, factors) }
        if h < n {
            let tails = &terms[h.min(terms.len())..];
            ScalarBackend.rounded_sum(&mut out[h..n], tails, stride, factors);
        }
    }

    fn permute(&self, out: &mut [u64], a: &[u64], perm: &[u32]) {
        let n = out.len().min(perm.len());
        let blocks = head(a.len()) / 8;
        let in_range = perm[..n]
            .chunks_exact(8)
            .all(|p| (p[0] as usize >> 3) < blocks);
        if n.is_multiple_of(8) && in_range {
            // SAFETY: features were detected; every block read lies within `a`.
            unsafe { pointwise::permute(&mut out[..n], a, &perm[..n]) }
        } else {
            ScalarBackend.permute(out, a, perm);
        }
    }

    fn permute_rows(
        &self,
        m: &Modulus,
        out: [&mut [u64]; 2],
        rows: [&[u64]; 2],
        add: Option<&[u64]>,
        to: Destination<'_>,
    ) {
        let blocks = check_destination(&out, rows, add, to);
        let perm = to.automorphism.perm();
        // SAFETY: features were detected; rows have 8 words for each of `blocks`, which are blocks of the outputs.
        unsafe {
            // A line that is written past the caches must be one.
            let aligned = |o: &&mut [u64]| (o.as_ptr() as usize).is_multiple_of(64);
            if to.streaming && out.iter().all(aligned) {
                pointwise::permute_rows::<true>(m, out, rows, add, (blocks, perm));
            } else {
                pointwise::permute_rows::<false>(m, out, rows, add, (blocks, perm));
            }
        }
    }
}
