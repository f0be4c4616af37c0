//! AVX2 kernels in double precision, with fused multiply-add.
//!
//! The processor multiplies 32-bit integers, but 53-bit doubles: products of residues below 2^50 are
//! exact as a sum of two doubles. A butterfly takes 8 instructions, against 27 with 32-bit products,
//! and a quarter of the time. Results equal those of the scalar backend bit for bit: every
//! kernel ends fully reduced.
//!
//! Two obligations are discharged here: kernels run only if the processor has the instructions (an
//! [`Avx2Backend`] exists only after detection), and pointers stay within slices (lengths are taken as
//! the shortest operand, and NTT lengths are asserted).
#![allow(unsafe_code)]

mod forward;
mod inverse;
mod lanes;
mod pointwise;
mod sums;

use super::checks::{check_destination, check_row, check_terms, check_tile};
use super::{Ahead, Backend, Destination, ScalarBackend};
use crate::modulus::{Modulus, Shoup};
use crate::ntt::{InverseFactor, NttTable};
use crate::words::Words;

/// Kernels for processors with AVX2 and FMA.
#[derive(Clone, Copy, Debug)]
pub struct Avx2Backend(());

impl Avx2Backend {
    /// The backend, if this processor has the instructions.
    pub fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Self(()))
    }
}

/// Splits at the largest multiple of 4: the vector kernel takes the head, the scalar one the tail.
fn head(len: usize) -> usize {
    len & !3
}

/// Bits of the mantissa of a double.
const MANTISSA: u32 = 53;

impl Backend for Avx2Backend {
    fn name(&self) -> &'static str {
        "avx2"
    }

    fn quotient_bits(&self) -> u32 {
        MANTISSA
    }

    /// Bits of doubles: centred factors, and those over q. In the second half, that of the last layer,
    /// each 8 entries stand in the order 0, 2, 4, 6, 1, 3, 5, 7: a register holds a factor of each of
    /// four groups.
    fn twiddles(&self, m: &Modulus, mut powers: Words) -> (Words, Words) {
        let half = powers.len() / 2;
        for c in powers[half..].chunks_exact_mut(8) {
            let old = [c[0], c[2], c[4], c[6], c[1], c[3], c[5], c[7]];
            c.copy_from_slice(&old);
        }
        let q = m.value() as f64;
        let mut quotients = Words::zeroed(powers.len());
        for (w, quotient) in powers.iter_mut().zip(quotients.iter_mut()) {
            let centred = m.center(*w) as f64;
            (*w, *quotient) = (centred.to_bits(), (centred / q).to_bits());
        }
        (powers, quotients)
    }

    fn ntt_forward(&self, table: &NttTable, a: &mut [u64]) {
        assert_eq!(a.len(), table.n(), "NTT operand length");
        assert_eq!(table.quotient_bits(), MANTISSA, "table of another backend");
        // SAFETY: features were detected; the slice has N elements, as the tables do.
        unsafe { forward::transform(table, a) }
    }

    fn ntt_inverse(&self, table: &NttTable, a: &mut [u64]) {
        assert_eq!(a.len(), table.n(), "NTT operand length");
        assert_eq!(table.quotient_bits(), MANTISSA, "table of another backend");
        // SAFETY: features were detected; the slice has N elements, as the tables do.
        unsafe { inverse::transform(table, a) }
    }

    fn forward_head(&self, table: &NttTable, tile: &mut [u64]) {
        check_tile(table, MANTISSA, tile);
        if table.rows() == 8 {
            // SAFETY: features were detected; the tile has 8 rows of a multiple of 8 columns.
            unsafe { forward::head(table, tile) }
        }
    }

    fn forward_tail(&self, table: &NttTable, s: usize, row: &mut [u64], ahead: &mut Ahead<'_>) {
        check_row(table, MANTISSA, s, row);
        if table.rows() == 8 {
            // SAFETY: features were detected; the row has N/8 words, at least 16.
            unsafe { forward::tail(table, s, row, ahead) }
        } else {
            self.ntt_forward(table, row);
        }
    }

    fn inverse_tail(&self, table: &NttTable, s: usize, row: &mut [u64], ahead: &mut Ahead<'_>) {
        check_row(table, MANTISSA, s, row);
        if table.rows() == 8 {
            // SAFETY: features were detected; the row has N/8 words, at least 16.
            unsafe { inverse::tail(table, s, row, ahead) }
        }
    }

    fn inverse_head(&self, table: &NttTable, tile: &mut [u64], factor: &InverseFactor) {
        check_tile(table, MANTISSA, tile);
        if table.rows() == 8 {
            // SAFETY: features were detected; the tile has 8 rows of a multiple of 8 columns.
            unsafe { inverse::head(table, tile, factor) }
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
        // SAFETY: features were detected; every operand has at least h elements.
        unsafe { sums::dot_add(m, &mut acc[..h], terms) }
        if h < n {
            let tails: Vec<_> = terms.iter().map(|(a, b)| (&a[h..n], &b[h..n])).collect();
            ScalarBackend.dot_add(m, &mut acc[h..n], &tails);
        }
    }

    fn scalar_mul_assign(&self, m: &Modulus, a: &mut [u64], w: Shoup) {
        let h = head(a.len());
        // SAFETY: features were detected.
        unsafe { pointwise::scalar_mul_assign(m, &mut a[..h], w.value) }
        ScalarBackend.scalar_mul_assign(m, &mut a[h..], w);
    }

    fn scalar_mul_add(&self, m: &Modulus, acc: &mut [u64], a: &[u64], w: Shoup) {
        let n = acc.len().min(a.len());
        let h = head(n);
        // SAFETY: features were detected.
        unsafe { pointwise::scalar_mul_add(m, &mut acc[..h], &a[..h], w.value) }
        ScalarBackend.scalar_mul_add(m, &mut acc[h..n], &a[h..n], w);
    }

    fn sub_scalar_mul(&self, m: &Modulus, a: &mut [u64], b: &[u64], w: Shoup) {
        let n = a.len().min(b.len());
        let h = head(n);
        // SAFETY: features were detected.
        unsafe { pointwise::sub_scalar_mul(m, &mut a[..h], &b[..h], w.value) }
        ScalarBackend.sub_scalar_mul(m, &mut a[h..n], &b[h..n], w);
    }

    fn weighted_sum(&self, m: &Modulus, out: &mut [u64], terms: &[&[u64]], weights: &[u64]) {
        let n = terms.iter().fold(out.len(), |n, t| n.min(t.len()));
        let h = head(n);
        let most = sums::MAX_TERMS;
        let split = terms.len().min(weights.len()).min(most);
        // SAFETY: features were detected; every term has at least h elements.
        unsafe {
            let first = (&terms[..split], &weights[..split]);
            sums::weighted_sum::<false>(m, &mut out[..h], first.0, first.1);
            for (t, w) in terms[split..]
                .chunks(most)
                .zip(weights[split..].chunks(most))
            {
                sums::weighted_sum::<true>(m, &mut out[..h], t, w);
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
        let most = sums::MAX_TERMS;
        // SAFETY: features were detected; term i has at least h elements from i * stride on.
        unsafe {
            let (first, rest) = weights.split_at(k.min(most));
            sums::convert::<false>(m, &mut out[..h], terms, stride, first);
            for (i, w) in rest.chunks(most).enumerate() {
                let terms = &terms[(i + 1) * most * stride..];
                sums::convert::<true>(m, &mut out[..h], terms, stride, w);
            }
        }
        if h < n {
            let tails = &terms[h.min(terms.len())..];
            ScalarBackend.convert(m, &mut out[h..n], (tails, stride), weights, ahead);
        }
    }

    fn key_products(&self, m: &Modulus, out: [&mut [u64]; 2], terms: &[[&[u64]; 3]], add: bool) {
        let [b, a] = out;
        let n = terms
            .iter()
            .flatten()
            .fold(b.len().min(a.len()), |n, t| n.min(t.len()));
        let h = head(n);
        // SAFETY: features were detected; every operand has at least h elements.
        unsafe { sums::key_products(m, [&mut b[..h], &mut a[..h]], terms, add) }
        if h < n {
            let tails: Vec<_> = terms.iter().map(|t| t.map(|x| &x[h..n])).collect();
            ScalarBackend.key_products(m, [&mut b[h..n], &mut a[h..n]], &tails, add);
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
        unsafe { sums::rounded_sum(&mut out[..h], terms, stride, factors) }
        if h < n {
            let tails = &terms[h.min(terms.len())..];
            ScalarBackend.rounded_sum(&mut out[h..n], tails, stride, factors);
        }
    }

    fn permute(&self, out: &mut [u64], a: &[u64], perm: &[u32]) {
        let n = out.len().min(perm.len());
        let blocks = head(a.len()) / 4;
        let in_range = perm[..n]
            .chunks_exact(4)
            .all(|p| (p[0] as usize >> 2) < blocks);
        if n.is_multiple_of(4) && in_range {
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
        unsafe { pointwise::permute_rows(m, out, rows, add, (blocks, perm)) }
    }
}
