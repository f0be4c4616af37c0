use super::*;
use crate::rlwe::crt_products::tests::{key, public, rng, run};
use rand::RngExt;

/// Words of both parties for given integers.
fn share(values: &[i64], seed: u64) -> [Shares; 2] {
    let mut r = rng(seed);
    let a: Vec<u64> = values.iter().map(|_| r.random()).collect();
    let b = values
        .iter()
        .zip(&a)
        .map(|(v, a)| (*v as u64).wrapping_sub(*a))
        .collect();
    [a, b].map(|v| Shares {
        v,
        frac: FracBits(10),
    })
}

fn join(a: &Shares, b: &Shares) -> Vec<i64> {
    a.v.iter()
        .zip(&b.v)
        .map(|(a, b)| a.wrapping_add(*b) as i64)
        .collect()
}

/// Everything that both parties do, once.
fn program<S: SlotSums>(
    p: &mut ZtProducts<S>,
    s: &mut Session,
    x: &Shares,
    y: &Shares,
) -> Vec<Shares> {
    // |x|, |y| < 2^21 units of 2^-10.
    let (x, y) = (
        p.lift_in(s, x, 2048.0).unwrap(),
        p.lift_in(s, y, 2048.0).unwrap(),
    );
    let xy = p.product(s, &x, &y).unwrap();
    let square = p.square(s, &x).unwrap();
    let sum = p.sum_products(s, &[(&x, &y), (&x, &x), (&y, &y)]).unwrap();
    let pairs = p.sum_groups(&square, 2).unwrap();
    let plus = p.plus(&xy, &square).unwrap();
    assert_eq!((xy.frac(), xy.bound()), (FracBits(20), 2f64.powi(42)));
    assert_eq!(sum.bound(), 3.0 * 2f64.powi(42));
    [x, xy, square, sum, pairs, plus]
        .iter()
        .map(|z| p.lift_out(s, z).unwrap())
        .collect()
}

#[test]
fn lifts_products_and_sums_are_exact_within_the_declared_range() {
    let params = RlweParameters::zt47().unwrap();
    let n = params.slots() + 10;
    let edge = (1i64 << 21) - 1;
    let mut r = rng(1);
    let mut values =
        |n: usize| -> Vec<i64> { (0..n).map(|_| r.random_range(-edge..=edge)).collect() };
    let (mut x, mut y) = (values(n), values(n));
    x[..6].copy_from_slice(&[0, 1, -1, edge, -edge, edge]);
    y[..6].copy_from_slice(&[edge, -edge, 0, edge, edge, -edge]);
    let ([x0, x1], [y0, y1]) = (share(&x, 2), share(&y, 3));
    let (a, b) = run(
        |s| {
            let mut p = ZtProducts::client(s, params.clone(), key(&params)).unwrap();
            program(&mut p, s, &x0, &y0)
        },
        |s| {
            let mut p = ZtProducts::server(s, params.clone(), public(&params)).unwrap();
            program(&mut p, s, &x1, &y1)
        },
    );
    let got: Vec<Vec<i64>> = a.iter().zip(&b).map(|(a, b)| join(a, b)).collect();
    for i in 0..n {
        let (x, y) = (x[i], y[i]);
        let want = [x, x * y, x * x, x * y + x * x + y * y];
        assert_eq!([got[0][i], got[1][i], got[2][i], got[3][i]], want, "{i}");
        assert_eq!(got[5][i], x * y + x * x);
    }
    for (i, c) in x.chunks_exact(2).enumerate() {
        assert_eq!(got[4][i], c[0] * c[0] + c[1] * c[1]);
    }
}

#[test]
fn the_lift_in_is_exact_at_the_ends_of_its_range() {
    // Values up to t / 4; shares at the edges of their words.
    let params = RlweParameters::zt47().unwrap();
    let t = params.plain()[0].modulus().value();
    let end = (t / 4) as i64 - 1;
    let mut values = vec![];
    let mut first = vec![];
    for v in [0, 1, -1, end, -end] {
        for s in [
            0u64,
            1,
            1 << 62,
            (1 << 62) - 1,
            1 << 63,
            (1 << 63) - 1,
            u64::MAX,
        ] {
            values.push(v);
            first.push(s);
        }
    }
    let second = values
        .iter()
        .zip(&first)
        .map(|(v, a)| (*v as u64).wrapping_sub(*a))
        .collect();
    let [x0, x1] = [first, second].map(|v| Shares {
        v,
        frac: FracBits(0),
    });
    let there_and_back = |p: &dyn Fn(&mut Session) -> Shares, s: &mut Session| p(s);
    let (a, b) = run(
        |s| {
            let p = ZtProducts::client(s, params.clone(), key(&params)).unwrap();
            there_and_back(
                &|s| {
                    let z = p.lift_in(s, &x0, end as f64).unwrap();
                    p.lift_out(s, &z).unwrap()
                },
                s,
            )
        },
        |s| {
            let p = ZtProducts::server(s, params.clone(), public(&params)).unwrap();
            there_and_back(
                &|s| {
                    let z = p.lift_in(s, &x1, end as f64).unwrap();
                    p.lift_out(s, &z).unwrap()
                },
                s,
            )
        },
    );
    assert_eq!(join(&a, &b), values);
}

#[test]
fn declared_ranges_that_may_wrap_are_refused_by_both_parties_before_anything_is_sent() {
    let params = RlweParameters::zt47().unwrap();
    let refused = |e: MpcError| {
        assert!(matches!(&e, MpcError::Format { .. }), "{e}");
        assert!(e.to_string().contains("t / 4 = 2^45.00"), "{e}");
    };
    let check = |p: &mut dyn FnMut(&mut Session, &Shares), s: &mut Session| {
        let x = Shares {
            v: vec![5, 6],
            frac: FracBits(10),
        };
        let before = s.channel().snapshot();
        p(s, &x);
        // Only the two accepted lifts were sent.
        s.channel().snapshot().total().sent.messages - before.total().sent.messages
    };
    let (a, b) = run(
        |s| {
            let mut p = ZtProducts::client(s, params.clone(), key(&params)).unwrap();
            check(&mut |s, x| attempt(&mut p, s, x, &refused), s)
        },
        |s| {
            let mut p = ZtProducts::server(s, params.clone(), public(&params)).unwrap();
            check(&mut |s, x| attempt(&mut p, s, x, &refused), s)
        },
    );
    // The server also sends the extension message of the COT pool.
    assert_eq!((a, b), (1, 2));
}

fn attempt<S: SlotSums>(
    p: &mut ZtProducts<S>,
    s: &mut Session,
    x: &Shares,
    refused: &dyn Fn(MpcError),
) {
    refused(p.lift_in(s, x, 2f64.powi(36)).err().unwrap());
    assert!(p.lift_in(s, x, f64::NAN).is_err());
    let z = p.lift_in(s, x, 2f64.powi(13)).unwrap();
    refused(p.square(s, &z).err().unwrap());
    refused(p.product(s, &z, &z).err().unwrap());
    assert!(matches!(
        p.sum_products(s, &[]),
        Err(MpcError::Length { .. })
    ));
}
