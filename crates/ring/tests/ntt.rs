//! The NTT against definitions: schoolbook products, evaluation at roots, round trips.
#![allow(clippy::unwrap_used, missing_docs)]
mod common;

use cipherloom_ring::{Basis, Coeff, Modulus, NttTable, Poly, RingError};
use common::{backends, negacyclic, primes, Mix};
use proptest::prelude::*;

#[test]
fn forward_is_evaluation_at_odd_powers_in_bit_reversed_order() {
    for backend in backends() {
        for n in [16usize, 32, 64, 128, 256] {
            for bits in [20, 40, 50] {
                let q = primes(n, bits, 0, 1)[0];
                let m = Modulus::new(q).unwrap();
                let t = NttTable::new(n, m, backend.clone()).unwrap();
                assert_eq!(m.pow(t.psi(), n as u64), q - 1);
                let a = Mix(n as u64).residues(q, n);
                let mut b = a.clone();
                t.forward(&mut b).unwrap();
                let bits = n.trailing_zeros();
                for (i, &got) in b.iter().enumerate() {
                    let brv = (i as u64).reverse_bits() >> (64 - bits);
                    let x = m.pow(t.psi(), 2 * brv + 1);
                    let want = a.iter().rev().fold(0, |acc, &c| m.add(m.mul(acc, x), c));
                    assert_eq!(got, want, "{} n={n} i={i}", backend.name());
                }
            }
        }
    }
}

#[test]
fn round_trip_at_every_degree() {
    for backend in backends() {
        for log_n in 4..=17 {
            let n = 1 << log_n;
            for (bits, skip) in [(50, 0), (40, 0), (27, 0)] {
                let q = primes(n, bits, skip, 1)[0];
                let t = NttTable::new(n, Modulus::new(q).unwrap(), backend.clone()).unwrap();
                let mut a = Mix(q).residues(q, n);
                a[0] = q - 1;
                a[n - 1] = q - 1;
                let mut b = a.clone();
                t.forward(&mut b).unwrap();
                assert!(b.iter().all(|&x| x < q));
                assert_ne!(a, b);
                t.inverse(&mut b).unwrap();
                assert_eq!(a, b, "{} n={n} q={q}", backend.name());
            }
        }
    }
}

#[test]
fn wrong_lengths_degrees_and_primes_are_refused() {
    let backend = backends().remove(0);
    let m = Modulus::new(97).unwrap();
    let t = NttTable::new(16, m, backend.clone()).unwrap();
    assert!(matches!(
        t.forward(&mut [0; 15]),
        Err(RingError::Length {
            got: 15,
            expected: 16,
            ..
        })
    ));
    assert!(matches!(
        NttTable::new(64, m, backend.clone()),
        Err(RingError::NotNttPrime {
            value: 97,
            two_n: 128
        })
    ));
    for n in [0, 1, 8, 24, 1 << 18] {
        assert!(matches!(
            NttTable::new(n, m, backend.clone()),
            Err(RingError::Degree { .. })
        ));
    }
    assert!(matches!(Basis::new(16, &[]), Err(RingError::EmptyBasis)));
    assert!(matches!(
        Basis::new(16, &[97, 97]),
        Err(RingError::RepeatedPrime { value: 97 })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn products_are_negacyclic(seed: u64, log_n in 4u32..8, bits in 18u32..=50) {
        let n = 1usize << log_n;
        let q = primes(n, bits, 0, 2);
        for backend in backends() {
            let basis = Basis::with_backend(n, &q, backend).unwrap();
            let mut mix = Mix(seed);
            let (a, b) = (mix.poly(&basis), mix.poly(&basis));
            let c = a.to_ntt().mul(&b.to_ntt()).unwrap().into_coeff();
            for (i, &p) in q.iter().enumerate() {
                prop_assert_eq!(c.limb(i), &negacyclic(a.limb(i), b.limb(i), p)[..]);
            }
            // a*b + a*b by the accumulating forms.
            let (fa, fb) = (a.to_ntt(), b.to_ntt());
            let mut acc = fa.mul(&fb).unwrap();
            acc.mul_add_assign(&fa, &fb).unwrap();
            let mut dot = cipherloom_ring::Poly::zero(&basis);
            dot.dot_add_assign(&[(&fa, &fb), (&fb, &fa)]).unwrap();
            prop_assert_eq!(&acc, &dot);
            let twice: Poly<Coeff> = c.add(&c).unwrap();
            prop_assert_eq!(acc.into_coeff(), twice);
        }
    }
}
