//! Rescaling and base conversion against big integers.
#![allow(clippy::unwrap_used, missing_docs)]
mod common;

use cipherloom_ring::convert::digit_ranges;
use cipherloom_ring::{
    Automorphism, BaseConverter, Basis, CrtLift, ModDown, ModUp, Poly, RingError,
};
use common::{backends, crt_centred, primes, product, rem, Mix};
use num_bigint::BigInt;
use proptest::prelude::*;

/// q = [50, 40, 40, 40] and p = [45, 45] bits.
fn bases(n: usize, backend: std::sync::Arc<dyn cipherloom_ring::Backend>) -> (Basis, Basis, Basis) {
    let mut q = primes(n, 50, 0, 1);
    q.extend(primes(n, 40, 0, 3));
    let q = Basis::with_backend(n, &q, backend.clone()).unwrap();
    let p = Basis::with_backend(n, &primes(n, 45, 0, 2), backend).unwrap();
    let qp = p.concat(&q).unwrap();
    (q, p, qp)
}

/// |x - d * y| * 2 <= d, that is: y = x / d rounded to nearest.
fn is_rounded(x: &BigInt, d: &BigInt, y: &BigInt) -> bool {
    let e = x - d * y;
    BigInt::from(e.magnitude().clone()) * 2 <= *d
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn rescale_rounds_to_nearest(seed: u64) {
        for backend in backends() {
            let (q, _, _) = bases(32, backend);
            let x = Mix(seed).poly(&q);
            let before = crt_centred(&x);
            let last = BigInt::from(q.modulus(q.len() - 1).value());
            let mut y = x.to_ntt();
            y.rescale().unwrap();
            let mut z = x.clone();
            z.rescale().unwrap();
            prop_assert_eq!(y.limbs(), 3);
            let y = y.into_coeff();
            prop_assert_eq!(&y, &z);
            let small = product(y.basis());
            for (b, a) in before.iter().zip(crt_centred(&y)) {
                // Centred representatives may differ by the modulus at the edge.
                prop_assert!([-1, 0, 1].iter().any(|k| is_rounded(b, &last, &(&a + &small * *k))));
            }
        }
    }

    #[test]
    fn conversion_is_exact_on_centred_values(seed: u64, k in 1usize..=4) {
        for backend in backends() {
            let (q, p, _) = bases(32, backend);
            let from = q.prefix(k).unwrap();
            let conv = BaseConverter::new(&from, &p).unwrap();
            let mut x = Mix(seed).poly(&from);
            // Edge values 0, 1, -1 in all limbs.
            for i in 0..k {
                let v = from.modulus(i).value();
                x.limb_mut(i)[..3].copy_from_slice(&[0, 1, v - 1]);
            }
            let want = crt_centred(&x);
            let y = conv.convert(&x).unwrap();
            let z = conv.convert_approximate(&x).unwrap();
            let total = product(&from);
            for (j, m) in p.moduli().enumerate() {
                for (c, w) in want.iter().enumerate() {
                    prop_assert_eq!(y.limb(j)[c], rem(w, m.value()));
                    // The approximate form is off by u Q, -k <= u <= k for centred w.
                    prop_assert!((0..=k as i64).any(|u| z.limb(j)[c] == rem(&(w + &total * u), m.value())));
                }
            }
        }
    }

    #[test]
    fn mod_down_rounds_to_nearest(seed: u64) {
        for backend in backends() {
            let (q, p, qp) = bases(32, backend);
            let x = Mix(seed).poly(&qp);
            let before = crt_centred(&x);
            let down = ModDown::new(&qp, 2, &q).unwrap();
            let y = down.apply(&x.to_ntt()).unwrap();
            prop_assert_eq!(y.basis(), &q);
            let (pp, qq) = (product(&p), product(&q));
            for (b, a) in before.iter().zip(crt_centred(&y.into_coeff())) {
                prop_assert!([-1, 0, 1].iter().any(|k| is_rounded(b, &pp, &(&a + &qq * *k))));
            }
            // Dropping the last q as well merges the rescaling.
            let into = q.prefix(3).unwrap();
            let merged = ModDown::dropping(&qp, &[0, 1, 5], &into).unwrap();
            let y = merged.apply(&x.to_ntt()).unwrap();
            let pp = pp * q.modulus(3).value();
            let qq = product(&into);
            for (b, a) in before.iter().zip(crt_centred(&y.into_coeff())) {
                prop_assert!([-1, 0, 1].iter().any(|k| is_rounded(b, &pp, &(&a + &qq * *k))));
            }
        }
    }

    #[test]
    fn mod_up_lifts_the_centred_digit(seed: u64, alpha in 1usize..=3, limbs in 1usize..=4) {
        for backend in backends() {
            let (q, p, qp) = bases(32, backend);
            let q = q.prefix(limbs).unwrap();
            let qp = qp.prefix(p.len() + limbs).unwrap();
            let x = Mix(seed).poly(&q);
            let ntt = x.to_ntt();
            for range in digit_ranges(limbs, alpha) {
                let up = ModUp::new(&q, &qp, range.clone()).unwrap();
                let y = up.apply(&ntt, &x).unwrap().into_coeff();
                let digit = x.select(range.start, &q.range(range).unwrap()).unwrap();
                for (c, w) in crt_centred(&digit).iter().enumerate() {
                    for (j, m) in qp.moduli().enumerate() {
                        prop_assert_eq!(y.limb(j)[c], rem(w, m.value()));
                    }
                }
            }
        }
    }

    #[test]
    fn lift_agrees_with_big_integers(seed: u64, k in 1usize..=3) {
        let n = 32;
        let mut q = primes(n, 50, 0, 2);
        q.extend(primes(n, 25, 0, 1));
        let basis = Basis::new(n, &q).unwrap().prefix(k).unwrap();
        let x = Mix(seed).poly(&basis);
        let lift = CrtLift::new(&basis).unwrap();
        let got = lift.lift(&x).unwrap();
        let want = crt_centred(&x);
        for (g, w) in got.iter().zip(&want) {
            prop_assert_eq!(&BigInt::from(*g), w);
        }
        prop_assert_eq!(Poly::from_i128(&basis, &got).unwrap(), x);
    }
}

#[test]
fn lift_refuses_wide_bases() {
    let basis = Basis::new(32, &primes(32, 50, 0, 3)).unwrap();
    assert!(matches!(
        CrtLift::new(&basis),
        Err(RingError::LiftTooWide { bits: 150 })
    ));
    assert!(CrtLift::new(&basis.prefix(2).unwrap()).is_ok());
}

#[test]
fn levels_and_mismatches_are_refused() {
    let (q, p, qp) = bases(32, backends().remove(0));
    assert!(matches!(
        ModUp::new(&q, &p, 0..1),
        Err(RingError::BasisMismatch { .. })
    ));
    assert!(matches!(
        ModUp::new(&q, &qp, 2..2),
        Err(RingError::LimbRange { .. })
    ));
    assert!(matches!(
        ModUp::new(&q, &qp, 3..5),
        Err(RingError::LimbRange { .. })
    ));
    assert!(matches!(
        ModDown::new(&qp, 1, &q),
        Err(RingError::BasisMismatch { .. })
    ));
    let mut one = Mix(1).poly(&q.prefix(1).unwrap());
    assert!(matches!(one.rescale(), Err(RingError::LimbRange { .. })));
    assert!(matches!(one.drop_last(), Err(RingError::LimbRange { .. })));
    // A shorter right operand is refused, a longer one is not.
    let (a, b) = (Mix(1).poly(&q), Mix(2).poly(&q.prefix(2).unwrap()));
    assert!(matches!(a.add(&b), Err(RingError::BasisMismatch { .. })));
    assert_eq!(b.add(&a).unwrap().limbs(), 2);
}

#[test]
fn long_limbs_take_the_blocked_and_parallel_paths() {
    let n = 1 << 13;
    for backend in backends() {
        let (q, p, qp) = bases(n, backend);
        let x = Mix(11).poly(&qp);
        let before = crt_centred(&x);
        let y = ModDown::new(&qp, 2, &q)
            .unwrap()
            .apply(&x.to_ntt())
            .unwrap();
        let (pp, qq) = (product(&p), product(&q));
        for (b, a) in before.iter().zip(crt_centred(&y.clone().into_coeff())) {
            assert!([-1, 0, 1]
                .iter()
                .any(|k| is_rounded(b, &pp, &(&a + &qq * *k))));
        }
        let coeff = y.to_coeff();
        let up = ModUp::new(&q, &qp, 1..3).unwrap();
        let raised = up.apply(&y, &coeff).unwrap().into_coeff();
        let digit = coeff.select(1, &q.range(1..3).unwrap()).unwrap();
        for (c, w) in crt_centred(&digit).iter().enumerate() {
            for (j, m) in qp.moduli().enumerate() {
                assert_eq!(raised.limb(j)[c], rem(w, m.value()));
            }
        }
        let mut z = coeff.clone();
        z.rescale().unwrap();
        let mut w = y.clone();
        w.rescale().unwrap();
        assert_eq!(w.into_coeff(), z);
    }
}

#[test]
fn given_buffers_are_overwritten() {
    let (q, _, qp) = bases(64, backends().remove(0));
    let x = Mix(5).poly(&qp).into_ntt();
    let down = ModDown::new(&qp, 2, &q).unwrap();
    let y = down.apply(&x).unwrap();
    let mut dirty = Mix(6).poly(&q).into_ntt();
    down.apply_into(&x, &mut dirty).unwrap();
    assert_eq!(dirty, y);
    let up = ModUp::new(&q, &qp, 0..2).unwrap();
    let mut dirty = x.clone();
    up.apply_into(&y, &y.to_coeff(), &mut dirty).unwrap();
    assert_eq!(dirty, up.apply(&y, &y.to_coeff()).unwrap());
    let a = Automorphism::rotation(64, 3).unwrap();
    let mut dirty = x.prefix(3).unwrap();
    x.automorphism_into(&a, &mut dirty).unwrap();
    assert_eq!(dirty, x.automorphism(&a).unwrap().prefix(3).unwrap());
    // A buffer over other primes is refused.
    let mut wrong = x.prefix(3).unwrap();
    assert!(matches!(
        down.apply_into(&x, &mut wrong),
        Err(RingError::BasisMismatch { .. })
    ));
    assert!(matches!(
        up.apply_into(&y, &y.to_coeff(), &mut wrong),
        Err(RingError::BasisMismatch { .. })
    ));
}
