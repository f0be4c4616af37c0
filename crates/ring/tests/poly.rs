//! Polynomials: ring laws, automorphisms, levels, bytes.
#![allow(clippy::unwrap_used, missing_docs)]
mod common;

use cipherloom_ring::{
    galois_element, pack, Automorphism, Basis, Coeff, Modulus, Ntt, Poly, RingError, SecretPoly,
};
use common::{backends, crt_centred, primes, Mix};
use num_bigint::BigInt;
use proptest::prelude::*;

fn basis(n: usize) -> Basis {
    let mut q = primes(n, 50, 0, 2);
    q.extend(primes(n, 40, 0, 2));
    Basis::new(n, &q).unwrap()
}

/// a(X^g) from the definition: X^(g i) = ±X^(g i mod N).
fn substitute(a: &[u64], g: u64, q: u64) -> Vec<u64> {
    let n = a.len() as u64;
    let mut out = vec![0; a.len()];
    for (i, &c) in a.iter().enumerate() {
        let e = (u128::from(g) * i as u128 % (2 * u128::from(n))) as u64;
        out[(e % n) as usize] = if e < n { c } else { (q - c) % q };
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn automorphisms_substitute_in_both_domains(seed: u64, log_n in 4u32..9, r in -40i64..40) {
        let n = 1usize << log_n;
        let b = basis(n);
        let mut mix = Mix(seed);
        let (x, y) = (mix.poly(&b), mix.poly(&b));
        for a in [
            Automorphism::rotation(n, r).unwrap(),
            Automorphism::conjugation(n).unwrap(),
            Automorphism::new(n, seed | 1).unwrap(),
        ] {
            let fx = x.automorphism(&a).unwrap();
            for (i, m) in b.moduli().enumerate() {
                prop_assert_eq!(fx.limb(i), &substitute(x.limb(i), a.g(), m.value())[..]);
            }
            prop_assert_eq!(x.to_ntt().automorphism(&a).unwrap(), fx.to_ntt());
            // A ring homomorphism: f(x y) = f(x) f(y).
            let product = x.to_ntt().mul(&y.to_ntt()).unwrap();
            let fy = y.automorphism(&a).unwrap();
            prop_assert_eq!(product.automorphism(&a).unwrap(), fx.to_ntt().mul(&fy.to_ntt()).unwrap());
        }
    }

    #[test]
    fn rotations_compose(r in -100i64..100, s in -100i64..100) {
        let n = 64u64;
        let (a, b) = (galois_element(64, r), galois_element(64, s));
        prop_assert_eq!(a * b % (2 * n), galois_element(64, r + s));
        prop_assert_eq!(galois_element(64, r + 32), a);
    }

    #[test]
    fn ring_laws(seed: u64, c: i64) {
        for backend in backends() {
            let b = Basis::with_backend(32, &basis(32).primes(), backend).unwrap();
            let mut mix = Mix(seed);
            let (x, y) = (mix.poly(&b), mix.poly(&b));
            let (fx, fy) = (x.to_ntt(), y.to_ntt());
            prop_assert_eq!(x.add(&y).unwrap().sub(&y).unwrap(), x.clone());
            prop_assert_eq!(x.add(&x.neg()).unwrap(), Poly::zero(&b));
            prop_assert_eq!(x.add(&y).unwrap().into_ntt(), fx.add(&fy).unwrap());
            // Scalars: c x as a product with the constant polynomial c.
            let mut scaled = fx.clone();
            scaled.mul_scalar_assign(i128::from(c));
            prop_assert_eq!(&scaled, &fx.mul(&Poly::monomial(&b, 0, c).into_ntt()).unwrap());
            let mut sum = fy.clone();
            sum.add_scaled_assign(&fx, i128::from(c)).unwrap();
            prop_assert_eq!(sum, fy.add(&scaled).unwrap());
            // Limb scalars: the residues of c.
            let residues: Vec<u64> = b.moduli().map(|m| m.reduce_i64(c)).collect();
            let mut limbwise = fx.clone();
            limbwise.mul_limb_scalars_assign(&residues).unwrap();
            prop_assert_eq!(&limbwise, &scaled);
            let mut shifted = fx.clone();
            shifted.add_limb_scalars_assign(&residues).unwrap();
            prop_assert_eq!(shifted, fx.add(&Poly::monomial(&b, 0, c).into_ntt()).unwrap());
            // Monomials.
            let k = (seed % 64) as usize;
            let by_product = fx.mul(&Poly::monomial(&b, k, 1).into_ntt()).unwrap();
            prop_assert_eq!(x.mul_monomial(k), by_product.into_coeff());
            // Many terms, against single steps.
            let mut step = Poly::zero(&b);
            let mut all = Poly::zero(&b);
            for _ in 0..35 {
                step.mul_add_assign(&fx, &fy).unwrap();
            }
            all.dot_add_assign(&vec![(&fx, &fy); 35]).unwrap();
            prop_assert_eq!(step, all);
        }
    }

    #[test]
    fn signed_values_reduce(values in proptest::collection::vec(any::<i128>(), 32)) {
        let b = basis(32);
        let x = Poly::from_i128(&b, &values).unwrap();
        for (i, m) in b.moduli().enumerate() {
            for (v, &r) in values.iter().zip(x.limb(i)) {
                prop_assert_eq!(r, common::rem(&BigInt::from(*v), m.value()));
            }
        }
        let small: Vec<i64> = values.iter().map(|v| (*v >> 80) as i64).collect();
        let y = Poly::from_i64(&b, &small).unwrap();
        for (v, w) in small.iter().zip(crt_centred(&y)) {
            prop_assert_eq!(BigInt::from(*v), w);
        }
        let tiny: Vec<i8> = values.iter().map(|v| *v as i8).collect();
        let z = Poly::from_i8(&b, &tiny).unwrap();
        for (v, w) in tiny.iter().zip(crt_centred(&z)) {
            prop_assert_eq!(BigInt::from(*v), w);
        }
    }

    #[test]
    fn bytes_round_trip(seed: u64) {
        let b = basis(32);
        let x: Poly<Ntt> = Mix(seed).poly(&b).into_ntt();
        let bytes = x.to_bytes();
        prop_assert_eq!(bytes.len(), 32 * (50 + 50 + 40 + 40) / 8);
        prop_assert_eq!(bytes.len(), Poly::<Ntt>::packed_len(&b));
        prop_assert_eq!(Poly::<Ntt>::from_bytes(&b, &bytes).unwrap(), x);
        let wrong = Poly::<Ntt>::from_bytes(&b, &bytes[1..]);
        let refused = matches!(wrong, Err(RingError::Length { .. }));
        prop_assert!(refused);
    }

    #[test]
    fn packing_is_a_plain_bit_string(seed: u64, bits in 10u32..=50, count in 0usize..70) {
        let q = primes(16, bits, 0, 1)[0];
        let m = Modulus::new(q).unwrap();
        let values = Mix(seed).residues(q, count);
        let bytes = pack::pack(&values, &m);
        prop_assert_eq!(bytes.len(), pack::packed_len(count, m.bits()));
        // Reference: one big little-endian integer.
        let whole = values
            .iter()
            .rev()
            .fold(num_bigint::BigUint::from(0u32), |acc, &v| (acc << m.bits()) + v);
        let mut want = whole.to_bytes_le();
        want.resize(bytes.len(), 0);
        prop_assert_eq!(&bytes, &want);
        prop_assert_eq!(pack::unpack(&bytes, count, &m).unwrap(), values);
    }
}

#[test]
fn hostile_bytes_are_refused() {
    let m = Modulus::new(primes(16, 50, 0, 1)[0]).unwrap();
    // q itself, and everything above.
    let mut bytes = pack::pack(&[1, 2, 3, 4], &m);
    bytes[..7].fill(0xff);
    assert!(matches!(
        pack::unpack(&bytes, 4, &m),
        Err(RingError::NotReduced { position: 0, .. })
    ));
    let q = m.value().to_le_bytes();
    let mut bytes = pack::pack(&[0], &m);
    bytes.copy_from_slice(&q[..7]);
    assert!(matches!(
        pack::unpack(&bytes, 1, &m),
        Err(RingError::NotReduced { .. })
    ));
    // Padding bits must be zero, or one message would have several encodings.
    let mut bytes = pack::pack(&[5], &m);
    bytes[6] |= 0x80;
    assert_eq!(pack::unpack(&bytes, 1, &m), Err(RingError::Padding));
    assert!(matches!(
        pack::unpack(&[], usize::MAX, &m),
        Err(RingError::Length { got: 0, .. })
    ));
    let b = basis(16);
    let mut data = vec![0; 64];
    data[17] = b.modulus(1).value();
    assert_eq!(
        Poly::<Coeff>::from_residues(&b, &data),
        Err(RingError::NotReduced {
            limb: 1,
            position: 1
        })
    );
}

#[test]
fn levels_are_prefixes() {
    let b = basis(16);
    let x = Mix(3).poly(&b);
    let mut y = x.clone();
    y.drop_last().unwrap();
    assert_eq!(y, x.prefix(3).unwrap());
    assert_eq!(y, x.select(0, &b.prefix(3).unwrap()).unwrap());
    assert_eq!(
        x.select(1, &b.range(1..3).unwrap()).unwrap().limb(0),
        x.limb(1)
    );
    assert!(matches!(
        x.select(0, &b.range(1..3).unwrap()),
        Err(RingError::BasisMismatch { limb: 0, .. })
    ));
    assert!(matches!(
        y.truncate(4),
        Err(RingError::LimbRange { got: 4, max: 3 })
    ));
    assert!(matches!(b.prefix(0), Err(RingError::LimbRange { .. })));
    assert!(matches!(b.concat(&b), Err(RingError::RepeatedPrime { .. })));
    // The same primes in another handle are the same basis.
    assert_eq!(b, basis(16));
    assert!(x.add(&Mix(4).poly(&basis(16))).is_ok());
    assert!(matches!(
        Automorphism::new(16, 2),
        Err(RingError::GaloisElement { g: 2, two_n: 32 })
    ));
    assert!(x
        .automorphism(&Automorphism::rotation(32, 1).unwrap())
        .is_err());
}

#[test]
fn secrets_survive_domain_changes_and_print_nothing() {
    let b = basis(16);
    let x = Mix(3).poly(&b);
    let s = SecretPoly::new(x.clone()).into_ntt();
    assert_eq!(s.expose(), &x.to_ntt());
    let text = format!("{:?}", s.into_coeff());
    assert!(!text.contains(&x.limb(0)[0].to_string()));
    let mut y = x;
    y.zeroize();
    assert_eq!(y, Poly::zero(&b));
}
