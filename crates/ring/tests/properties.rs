//! Laws of the ring on every backend, against big integers where there is something to compute.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]
mod common;

use cipherloom_ring::{Automorphism, BaseConverter, Basis, Coeff, Modulus, NttTable, Poly};
use common::{
    backends, crt_centred, negacyclic_big, primes, primes_of_all_sizes, product, rem, Mix,
};
use num_bigint::BigInt;
use proptest::prelude::*;

/// A prime of any size that a ring of degree n has.
fn any_prime(n: usize, choice: usize) -> u64 {
    let all = primes_of_all_sizes(n);
    all[choice % all.len()]
}

/// `limbs` distinct primes of mixed sizes, the first of 50 bits.
fn mixed_basis(
    n: usize,
    limbs: usize,
    backend: std::sync::Arc<dyn cipherloom_ring::Backend>,
) -> Basis {
    let mut q = primes(n, 50, 0, 1);
    q.extend(primes(n, 48, 0, 1));
    q.extend(primes(n, 40, 0, 2));
    q.extend(primes(n, 25, 0, 1));
    Basis::with_backend(n, &q[..limbs], backend).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn transforms_are_linear_and_invertible(seed: u64, log_n in 4u32..11, size: usize) {
        let n = 1usize << log_n;
        let q = any_prime(n, size);
        let m = Modulus::new(q).unwrap();
        let mut mix = Mix(seed);
        let (a, b) = (mix.residues(q, n), mix.residues(q, n));
        let (s, t) = (mix.next() % q, mix.next() % q);
        let combine = |x: &[u64], y: &[u64]| -> Vec<u64> {
            let term = |s: u64, v: u64| u128::from(s) * u128::from(v);
            x.iter()
                .zip(y)
                .map(|(&x, &y)| ((term(s, x) + term(t, y)) % u128::from(q)) as u64)
                .collect()
        };
        for backend in backends() {
            let table = NttTable::new(n, m, backend).unwrap();
            for transform in [NttTable::forward, NttTable::inverse] {
                let run = |x: &[u64]| {
                    let mut y = x.to_vec();
                    transform(&table, &mut y).unwrap();
                    y
                };
                prop_assert_eq!(run(&combine(&a, &b)), combine(&run(&a), &run(&b)));
            }
            let mut x = a.clone();
            table.forward(&mut x).unwrap();
            prop_assert_ne!(&x, &a);
            table.inverse(&mut x).unwrap();
            prop_assert_eq!(&x, &a);
            table.inverse(&mut x).unwrap();
            table.forward(&mut x).unwrap();
            prop_assert_eq!(&x, &a);
        }
    }

    #[test]
    fn products_are_schoolbook_products(seed: u64, log_n in 4u32..7, limbs in 1usize..=5) {
        let n = 1usize << log_n;
        for backend in backends() {
            let basis = mixed_basis(n, limbs, backend);
            let mut mix = Mix(seed);
            let (a, b) = (mix.poly(&basis), mix.poly(&basis));
            let want = negacyclic_big(&crt_centred(&a), &crt_centred(&b));
            let got = a.to_ntt().mul(&b.to_ntt()).unwrap().into_coeff();
            for (i, m) in basis.moduli().enumerate() {
                let want: Vec<u64> = want.iter().map(|v| rem(v, m.value())).collect();
                prop_assert_eq!(got.limb(i), &want[..]);
            }
        }
    }

    #[test]
    fn automorphisms_compose(seed: u64, log_n in 4u32..9, g: u32, h: u32) {
        let n = 1usize << log_n;
        let (g, h) = (u64::from(g) | 1, u64::from(h) | 1);
        let [f, e, both] = [g, h, g.wrapping_mul(h)].map(|g| Automorphism::new(n, g).unwrap());
        // The order of the group of odd numbers modulo 2N is N, and N/2 its exponent.
        let inverse = (0..n / 2 - 1).fold(1u64, |acc, _| acc * g % (2 * n as u64));
        let back = Automorphism::new(n, inverse).unwrap();
        for backend in backends() {
            let basis = mixed_basis(n, 2, backend);
            let x = Mix(seed).poly(&basis);
            let want = x.automorphism(&both).unwrap();
            prop_assert_eq!(&x.automorphism(&f).unwrap().automorphism(&e).unwrap(), &want);
            prop_assert_eq!(&x.automorphism(&f).unwrap().automorphism(&back).unwrap(), &x);
            let y = x.to_ntt();
            let twice = y.automorphism(&f).unwrap().automorphism(&e).unwrap();
            prop_assert_eq!(twice.into_coeff(), want);
            prop_assert_eq!(&y.automorphism(&f).unwrap().automorphism(&back).unwrap(), &y);
        }
    }

    #[test]
    fn rescaling_divides_exactly_what_it_should(seed: u64, limbs in 2usize..=5) {
        for backend in backends() {
            let basis = mixed_basis(32, limbs, backend);
            let last = basis.modulus(limbs - 1).value();
            let mut x = Mix(seed).poly(&basis);
            // Residues of the last limb around its half: where rounding turns.
            x.limb_mut(limbs - 1)[..5].copy_from_slice(&[0, 1, last / 2, last / 2 + 1, last - 1]);
            let want: Vec<BigInt> = crt_centred(&x)
                .iter()
                .zip(x.limb(limbs - 1))
                .map(|(v, &r)| {
                    let r = BigInt::from(r);
                    let r = if &r * 2 > last.into() { r - last } else { r };
                    let (quotient, rest) = ((v - &r) / last, (v - &r) % last);
                    assert_eq!(rest, BigInt::ZERO);
                    quotient
                })
                .collect();
            let (mut coeff, mut ntt) = (x.clone(), x.to_ntt());
            coeff.rescale().unwrap();
            ntt.rescale().unwrap();
            prop_assert_eq!(&ntt.into_coeff(), &coeff);
            prop_assert_eq!(coeff.limbs(), limbs - 1);
            for (i, m) in coeff.basis().moduli().enumerate() {
                for (want, &got) in want.iter().zip(coeff.limb(i)) {
                    prop_assert_eq!(got, rem(want, m.value()));
                }
            }
        }
    }

    #[test]
    fn conversion_is_exact_up_to_the_edge(seed: u64, limbs in 1usize..=5) {
        let n = 32;
        for backend in backends() {
            let from = mixed_basis(n, limbs, backend.clone());
            let to = Basis::with_backend(n, &primes(n, 49, 0, 2), backend).unwrap();
            let q = product(&from);
            // As near to ±Q/2 as the documentation promises to be exact, and 0, and anything.
            let near: BigInt = (&q / 2u32) - (&q >> 46usize);
            let mut values = vec![BigInt::ZERO, BigInt::from(1), BigInt::from(-1), near.clone(), -near];
            values.extend(crt_centred(&Mix(seed).poly(&from)).into_iter().skip(values.len()));
            let data: Vec<u64> = from
                .primes()
                .into_iter()
                .flat_map(|p| values.iter().map(move |v| rem(v, p)).collect::<Vec<_>>())
                .collect();
            let x = Poly::<Coeff>::from_residues(&from, &data).unwrap();
            let y = BaseConverter::new(&from, &to).unwrap().convert(&x).unwrap();
            for (j, m) in to.moduli().enumerate() {
                for (v, &got) in values.iter().zip(y.limb(j)) {
                    prop_assert_eq!(got, rem(v, m.value()));
                }
            }
        }
    }
}
