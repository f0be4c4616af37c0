//! The portable reference kernels.

use super::{Ahead, Backend, Destination};
use crate::modulus::{reduce_once, Modulus, Shoup};
use crate::ntt::{InverseFactor, NttTable};

/// Portable kernels on 64-bit words: the reference for every other backend.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScalarBackend;

/// The first `layers` layers of the group `index - 2^k` of the layer with `2^k` groups. Cooley-Tukey with Harvey's lazy
/// butterflies: values stay below 4q between layers (Harvey 2014, algorithm 4).
fn forward_layers(table: &NttTable, a: &mut [u64], index: usize, layers: u32) {
    debug_assert_eq!(table.quotient_bits(), 64, "table of another backend");
    let m = table.modulus();
    let two_q = m.value() << 1;
    let (tw, twq) = table.forward_twiddles();
    for layer in 0..layers {
        let t = a.len() >> (layer + 1);
        for (g, block) in a.chunks_exact_mut(2 * t).enumerate() {
            let i = (index << layer) + g;
            let w = Shoup {
                value: tw[i],
                quotient: twq[i],
            };
            let (lo, hi) = block.split_at_mut(t);
            for (x, y) in lo.iter_mut().zip(hi) {
                let u = reduce_once(*x, two_q);
                let v = m.mul_shoup_lazy(*y, w);
                *x = u + v;
                *y = u + two_q - v;
            }
        }
    }
}

/// [0, 4q) to [0, q).
fn reduce_all(table: &NttTable, a: &mut [u64]) {
    let q = table.modulus().value();
    for x in a {
        *x = reduce_once(reduce_once(*x, q << 1), q);
    }
}

/// The first `count` of the `layers` layers that undo [`forward_layers`]. Gentleman-Sande, values below 2q between layers.
fn inverse_layers(table: &NttTable, a: &mut [u64], index: usize, count: u32, layers: u32) {
    debug_assert_eq!(table.quotient_bits(), 64, "table of another backend");
    let m = table.modulus();
    let two_q = m.value() << 1;
    let (tw, twq) = table.inverse_twiddles();
    for layer in (layers - count..layers).rev() {
        let t = a.len() >> (layer + 1);
        for (g, block) in a.chunks_exact_mut(2 * t).enumerate() {
            let i = (index << layer) + g;
            let w = Shoup {
                value: tw[i],
                quotient: twq[i],
            };
            let (lo, hi) = block.split_at_mut(t);
            for (x, y) in lo.iter_mut().zip(hi) {
                let (u, v) = (*x, *y);
                *x = reduce_once(u + v, two_q);
                *y = m.mul_shoup_lazy(u + two_q - v, w);
            }
        }
    }
}

/// The last layer, with the factors of the normalisation folded in.
fn inverse_last(table: &NttTable, a: &mut [u64], last: [Shoup; 2]) {
    let m = table.modulus();
    let two_q = m.value() << 1;
    let (lo, hi) = a.split_at_mut(a.len() / 2);
    for (x, y) in lo.iter_mut().zip(hi) {
        let (u, v) = (*x, *y);
        *x = m.mul_shoup(u + v, last[0]);
        *y = m.mul_shoup(u + two_q - v, last[1]);
    }
}

impl Backend for ScalarBackend {
    fn name(&self) -> &'static str {
        "scalar"
    }

    fn quotient_bits(&self) -> u32 {
        64
    }

    fn ntt_forward(&self, table: &NttTable, a: &mut [u64]) {
        let layers = a.len().trailing_zeros();
        forward_layers(table, a, 1, layers);
        reduce_all(table, a);
    }

    fn ntt_inverse(&self, table: &NttTable, a: &mut [u64]) {
        let layers = a.len().trailing_zeros();
        inverse_layers(table, a, 1, layers - 1, layers);
        let (n_inv, n_inv_w) = table.inverse_last_layer();
        inverse_last(table, a, [n_inv, n_inv_w]);
    }

    fn forward_head(&self, table: &NttTable, tile: &mut [u64]) {
        forward_layers(table, tile, 1, table.rows().trailing_zeros());
    }

    fn forward_tail(&self, table: &NttTable, s: usize, row: &mut [u64], _: &mut Ahead<'_>) {
        forward_layers(table, row, table.rows() + s, row.len().trailing_zeros());
        reduce_all(table, row);
    }

    fn inverse_tail(&self, table: &NttTable, s: usize, row: &mut [u64], _: &mut Ahead<'_>) {
        if table.rows() > 1 {
            let layers = row.len().trailing_zeros();
            inverse_layers(table, row, table.rows() + s, layers, layers);
        }
    }

    fn inverse_head(&self, table: &NttTable, tile: &mut [u64], factor: &InverseFactor) {
        let layers = if table.rows() > 1 {
            table.rows().trailing_zeros()
        } else {
            tile.len().trailing_zeros()
        };
        inverse_layers(table, tile, 1, layers - 1, layers);
        inverse_last(table, tile, factor.last);
    }

    fn add_assign(&self, m: &Modulus, a: &mut [u64], b: &[u64]) {
        for (x, &y) in a.iter_mut().zip(b) {
            *x = m.add(*x, y);
        }
    }

    fn sub_assign(&self, m: &Modulus, a: &mut [u64], b: &[u64]) {
        for (x, &y) in a.iter_mut().zip(b) {
            *x = m.sub(*x, y);
        }
    }

    fn neg_assign(&self, m: &Modulus, a: &mut [u64]) {
        for x in a {
            *x = m.neg(*x);
        }
    }

    fn mul_assign(&self, m: &Modulus, a: &mut [u64], b: &[u64]) {
        for (x, &y) in a.iter_mut().zip(b) {
            *x = m.mul(*x, y);
        }
    }

    fn mul(&self, m: &Modulus, out: &mut [u64], a: &[u64], b: &[u64]) {
        for ((o, &x), &y) in out.iter_mut().zip(a).zip(b) {
            *o = m.mul(x, y);
        }
    }

    fn mul_add(&self, m: &Modulus, acc: &mut [u64], a: &[u64], b: &[u64]) {
        for ((o, &x), &y) in acc.iter_mut().zip(a).zip(b) {
            *o = m.mul_add(x, y, *o);
        }
    }

    fn dot_add(&self, m: &Modulus, acc: &mut [u64], terms: &[(&[u64], &[u64])]) {
        let n = terms
            .iter()
            .fold(acc.len(), |n, (a, b)| n.min(a.len()).min(b.len()));
        // Products are below 2^100, so 2^27 of them fit 128 bits.
        for (j, o) in acc[..n].iter_mut().enumerate() {
            let mut sum = u128::from(*o);
            for (a, b) in terms {
                sum += u128::from(a[j]) * u128::from(b[j]);
            }
            *o = m.reduce_u128(sum);
        }
    }

    fn scalar_mul_assign(&self, m: &Modulus, a: &mut [u64], w: Shoup) {
        for x in a {
            *x = m.mul_shoup(*x, w);
        }
    }

    fn scalar_mul_add(&self, m: &Modulus, acc: &mut [u64], a: &[u64], w: Shoup) {
        for (o, &x) in acc.iter_mut().zip(a) {
            *o = m.add(*o, m.mul_shoup(x, w));
        }
    }

    fn sub_scalar_mul(&self, m: &Modulus, a: &mut [u64], b: &[u64], w: Shoup) {
        for (x, &y) in a.iter_mut().zip(b) {
            *x = m.mul_shoup(m.sub(*x, y), w);
        }
    }

    fn weighted_sum(&self, m: &Modulus, out: &mut [u64], terms: &[&[u64]], weights: &[u64]) {
        let n = terms.iter().fold(out.len(), |n, t| n.min(t.len()));
        for (j, o) in out[..n].iter_mut().enumerate() {
            let mut sum = 0u128;
            for (t, &w) in terms.iter().zip(weights) {
                sum += u128::from(t[j]) * u128::from(w);
            }
            *o = m.reduce_u128(sum);
        }
    }

    fn convert(
        &self,
        m: &Modulus,
        out: &mut [u64],
        (terms, stride): (&[u64], usize),
        weights: &[u64],
        _: &mut Ahead<'_>,
    ) {
        for (j, o) in out.iter_mut().enumerate() {
            let mut sum = 0u128;
            for (t, &w) in terms.iter().skip(j).step_by(stride.max(1)).zip(weights) {
                sum += u128::from(*t) * u128::from(w);
            }
            *o = m.reduce_u128(sum);
        }
    }

    fn key_products(&self, m: &Modulus, out: [&mut [u64]; 2], terms: &[[&[u64]; 3]], add: bool) {
        let [b, a] = out;
        let n = terms.iter().flatten().fold(b.len(), |n, t| n.min(t.len()));
        for (j, (b, a)) in b[..n].iter_mut().zip(a).enumerate() {
            let mut sums = if add {
                [u128::from(*b), u128::from(*a)]
            } else {
                [0, 0]
            };
            for [d, b, a] in terms {
                sums[0] += u128::from(d[j]) * u128::from(b[j]);
                sums[1] += u128::from(d[j]) * u128::from(a[j]);
            }
            *b = m.reduce_u128(sums[0]);
            *a = m.reduce_u128(sums[1]);
        }
    }

    fn reduce_assign(&self, m: &Modulus, a: &mut [u64]) {
        for x in a {
            *x = m.reduce(*x);
        }
    }

    fn rounded_sum(&self, out: &mut [u64], terms: &[u64], stride: usize, factors: &[f64]) {
        for (j, o) in out.iter_mut().enumerate() {
            let mut sum = 0.5;
            for (&t, &f) in terms.iter().skip(j).step_by(stride.max(1)).zip(factors) {
                sum += t as f64 * f;
            }
            *o = sum as u64;
        }
    }

    fn permute(&self, out: &mut [u64], a: &[u64], perm: &[u32]) {
        for (o, &p) in out.iter_mut().zip(perm) {
            *o = a[p as usize];
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
        let blocks = &to.automorphism.destinations()[to.offset / 8..];
        let perm = to.automorphism.perm();
        let [first, second] = out;
        for (out, row, add) in [(first, rows[0], add), (second, rows[1], None)] {
            for ((i, x), &to) in row.chunks_exact(8).enumerate().zip(blocks) {
                let range = 8 * to as usize..8 * to as usize + 8;
                for (o, &p) in out[range.clone()].iter_mut().zip(&perm[range]) {
                    let lane = p as usize & 7;
                    *o = add.map_or(x[lane], |a| m.add(x[lane], a[8 * i + lane]));
                }
            }
        }
    }
}
