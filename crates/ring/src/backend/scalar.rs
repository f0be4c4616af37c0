//! The portable reference kernels.

use super::Backend;
use crate::modulus::{reduce_once, Modulus, Shoup};
use crate::ntt::NttTable;

/// Portable kernels on 64-bit words: the reference for every other backend.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScalarBackend;

impl Backend for ScalarBackend {
    fn name(&self) -> &'static str {
        "scalar"
    }

    fn quotient_bits(&self) -> u32 {
        64
    }

    /// Cooley-Tukey with Harvey's lazy butterflies: values stay below 4q between layers
    /// (Harvey 2014, algorithm 4).
    fn ntt_forward(&self, table: &NttTable, a: &mut [u64]) {
        debug_assert_eq!(table.quotient_bits(), 64, "table of another backend");
        let m = table.modulus();
        let q = m.value();
        let two_q = q << 1;
        let (tw, twq) = table.forward_twiddles();
        let n = a.len();
        let mut groups = 1;
        while groups < n {
            let t = n / (2 * groups);
            for (g, block) in a.chunks_exact_mut(2 * t).enumerate() {
                let w = Shoup {
                    value: tw[groups + g],
                    quotient: twq[groups + g],
                };
                let (lo, hi) = block.split_at_mut(t);
                for (x, y) in lo.iter_mut().zip(hi) {
                    let u = reduce_once(*x, two_q);
                    let v = m.mul_shoup_lazy(*y, w);
                    *x = u + v;
                    *y = u + two_q - v;
                }
            }
            groups *= 2;
        }
        for x in a {
            *x = reduce_once(reduce_once(*x, two_q), q);
        }
    }

    /// Gentleman-Sande, values below 2q between layers; 1/N is folded into the last layer.
    fn ntt_inverse(&self, table: &NttTable, a: &mut [u64]) {
        debug_assert_eq!(table.quotient_bits(), 64, "table of another backend");
        let m = table.modulus();
        let q = m.value();
        let two_q = q << 1;
        let (tw, twq) = table.inverse_twiddles();
        let n = a.len();
        let mut groups = n / 2;
        while groups > 1 {
            let t = n / (2 * groups);
            for (g, block) in a.chunks_exact_mut(2 * t).enumerate() {
                let w = Shoup {
                    value: tw[groups + g],
                    quotient: twq[groups + g],
                };
                let (lo, hi) = block.split_at_mut(t);
                for (x, y) in lo.iter_mut().zip(hi) {
                    let (u, v) = (*x, *y);
                    *x = reduce_once(u + v, two_q);
                    *y = m.mul_shoup_lazy(u + two_q - v, w);
                }
            }
            groups /= 2;
        }
        let (n_inv, n_inv_w) = table.inverse_last_layer();
        let (lo, hi) = a.split_at_mut(n / 2);
        for (x, y) in lo.iter_mut().zip(hi) {
            let (u, v) = (*x, *y);
            *x = m.mul_shoup(u + v, n_inv);
            *y = m.mul_shoup(u + two_q - v, n_inv_w);
        }
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
        // Products are below 2^100, so 2^27 of them fit 128 bits.
        for (j, o) in acc.iter_mut().enumerate() {
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
        for (j, o) in out.iter_mut().enumerate() {
            let mut sum = 0u128;
            for (t, &w) in terms.iter().zip(weights) {
                sum += u128::from(t[j]) * u128::from(w);
            }
            *o = m.reduce_u128(sum);
        }
    }

    fn reduce_assign(&self, m: &Modulus, a: &mut [u64]) {
        for x in a {
            *x = m.reduce(*x);
        }
    }

    fn rounded_sum(&self, out: &mut [u64], terms: &[&[u64]], factors: &[f64]) {
        for (j, o) in out.iter_mut().enumerate() {
            let mut sum = 0.5;
            for (t, &f) in terms.iter().zip(factors) {
                sum += t[j] as f64 * f;
            }
            *o = sum as u64;
        }
    }

    fn permute(&self, out: &mut [u64], a: &[u64], perm: &[u32]) {
        for (o, &p) in out.iter_mut().zip(perm) {
            *o = a[p as usize];
        }
    }
}
