//! Known answers, made by a program of its own with arbitrary-precision integers, and checked here once more by
//! big-integer arithmetic from the definitions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]
mod common;

use cipherloom_ring::{BaseConverter, Basis, Coeff, Modulus, NttTable, Poly};
use common::{backends, negacyclic_big, rem};
use num_bigint::BigInt;

const N: usize = 16;

/// Of the polynomials with coefficients `(3+i)^(7+i)` and `(5+i)^(7+i)`: the transform of the first, and the product.
struct Known {
    q: u64,
    /// The first of 2^e, 3^e, ... of order 32, e = (q - 1) / 32.
    psi: u64,
    transform: [u64; N],
    product: [u64; N],
}

const KNOWN: [Known; 4] = [
    Known {
        q: 97,
        psi: 28,
        transform: [36, 47, 71, 35, 45, 8, 33, 30, 8, 31, 72, 27, 61, 66, 44, 40],
        product: [2, 58, 10, 82, 7, 44, 21, 71, 23, 23, 69, 67, 40, 18, 59, 70],
    },
    Known {
        q: 1073741441,
        psi: 915968037,
        transform: [
            860238693, 281269509, 487150195, 123111012, 939559486, 986742665, 110211228, 217773892,
            138029327, 449568627, 450147720, 207207785, 221840506, 348090761, 69979945, 551562287,
        ],
        product: [
            120397781, 1020373542, 876148624, 595204943, 202637561, 517073756, 810366, 43307004,
            364046570, 104772716, 458028975, 854924151, 699305753, 109628624, 1004265616,
            593165715,
        ],
    },
    Known {
        q: 70368744177601,
        psi: 8808219459178,
        transform: [
            34101643436011,
            31993569706929,
            29626946118556,
            17713121101420,
            55852054720936,
            36579857105374,
            69748687672857,
            20561288791217,
            53814636810636,
            17942465025847,
            31370041019218,
            54537122747738,
            54919249985189,
            60287775021683,
            13747991804880,
            50522246564910,
        ],
        product: [
            10162707864056,
            32618906658997,
            43361212729505,
            15742844882154,
            1635526310228,
            21845042240153,
            41469257652929,
            22892002031101,
            69727359088113,
            31912738735252,
            16583643790940,
            32260674902596,
            18725236998280,
            53320266320331,
            60559402885308,
            63091663907900,
        ],
    },
    Known {
        q: 1125899906842273,
        psi: 476788806329288,
        transform: [
            952461711273714,
            209463478219128,
            561225330534629,
            200328638309967,
            615532775516703,
            687100777963192,
            711257402433888,
            773546363925400,
            884982653767645,
            786010792085148,
            261278077508443,
            844967860868925,
            261384784062524,
            943809772351021,
            322124765071699,
            1117623977723423,
        ],
        product: [
            398905013899681,
            940474135884060,
            515437369375722,
            154644022186397,
            537501011491949,
            1000142243523446,
            418950469717280,
            23933247569051,
            661411941914952,
            786310075411699,
            495687522589459,
            1091751068272680,
            458254615829792,
            429070221760727,
            132185483172374,
            824688337908597,
        ],
    },
];

/// Of `(7+i)^(31+i)` modulo the product of both primes, but the first five 0, 1, -1 and both neighbours of half the
/// second prime.
const PRIMES: [u64; 2] = [1125899906842273, 1099511627297];
/// Divided by the second prime and rounded, modulo the first.
const RESCALED: [u64; N] = [
    0,
    0,
    0,
    0,
    1,
    67203875492287,
    830848799666593,
    466726363712223,
    328307008157309,
    252124690525375,
    1122502264221224,
    124295880957383,
    1096275822791778,
    117013231976927,
    469938676925850,
    1087172887682930,
];
/// The centred value modulo this prime.
const TARGET: u64 = 35184372088673;
const CONVERTED: [u64; N] = [
    0,
    1,
    35184372088672,
    549755813648,
    549755813649,
    19020026804510,
    5900711103416,
    31021288756281,
    24588509913923,
    5282911160223,
    256450668716,
    21441726613911,
    5322624555215,
    16487306892392,
    15406947278005,
    9945992238042,
];

fn powers(base: u64, exponent: u32) -> Vec<BigInt> {
    (0..N as u32)
        .map(|i| BigInt::from(base + u64::from(i)).pow(exponent + i))
        .collect()
}

fn residues(x: &[BigInt], q: u64) -> Vec<u64> {
    x.iter().map(|v| rem(v, q)).collect()
}

fn centred(x: &BigInt, q: &BigInt) -> BigInt {
    let r = ((x % q) + q) % q;
    if &r * 2 > *q {
        r - q
    } else {
        r
    }
}

#[test]
fn transforms_and_products() {
    let (a, b) = (powers(3, 7), powers(5, 7));
    for known in &KNOWN {
        let q = BigInt::from(known.q);
        // The definitions: evaluation at odd powers of psi, in bit-reversed order, and the schoolbook product.
        let psi = BigInt::from(known.psi);
        assert_eq!(psi.modpow(&BigInt::from(N), &q), &q - 1);
        let evaluated: Vec<u64> = (0..N as u32)
            .map(|i| {
                let z = psi.modpow(&BigInt::from(2 * (i.reverse_bits() >> 28) + 1), &q);
                let value = a.iter().rev().fold(BigInt::ZERO, |acc, c| acc * &z + c);
                rem(&value, known.q)
            })
            .collect();
        assert_eq!(evaluated, known.transform);
        assert_eq!(residues(&negacyclic_big(&a, &b), known.q), known.product);
        for backend in backends() {
            let m = Modulus::new(known.q).unwrap();
            let table = NttTable::new(N, m, backend.clone()).unwrap();
            assert_eq!(table.psi(), known.psi);
            let [mut x, mut y] = [&a, &b].map(|v| residues(v, known.q));
            table.forward(&mut x).unwrap();
            assert_eq!(x, known.transform, "{} q={q}", backend.name());
            table.forward(&mut y).unwrap();
            backend.mul_assign(&m, &mut x, &y);
            table.inverse(&mut x).unwrap();
            assert_eq!(x, known.product, "{} q={q}", backend.name());
        }
    }
}

#[test]
fn rescaling_and_conversion() {
    let [q0, q1] = PRIMES.map(BigInt::from);
    let q = &q0 * &q1;
    let mut x = powers(7, 31);
    let half: BigInt = &q1 / 2;
    for (x, edge) in x
        .iter_mut()
        .zip([BigInt::ZERO, 1.into(), &q - 1, half.clone(), half + 1])
    {
        *x = edge;
    }
    let rescaled: Vec<u64> = x
        .iter()
        .map(|x| rem(&((x - centred(x, &q1)) / &q1), PRIMES[0]))
        .collect();
    assert_eq!(rescaled, RESCALED);
    let converted: Vec<u64> = x.iter().map(|x| rem(&centred(x, &q), TARGET)).collect();
    assert_eq!(converted, CONVERTED);
    for backend in backends() {
        let basis = Basis::with_backend(N, &PRIMES, backend.clone()).unwrap();
        let target = Basis::with_backend(N, &[TARGET], backend.clone()).unwrap();
        let data = PRIMES.map(|p| residues(&x, p)).concat();
        let poly = Poly::<Coeff>::from_residues(&basis, &data).unwrap();
        let mut coeff = poly.clone();
        coeff.rescale().unwrap();
        assert_eq!(coeff.data(), RESCALED, "{}", backend.name());
        let mut ntt = poly.to_ntt();
        ntt.rescale().unwrap();
        assert_eq!(ntt.into_coeff().data(), RESCALED, "{}", backend.name());
        let y = BaseConverter::new(&basis, &target)
            .unwrap()
            .convert(&poly)
            .unwrap();
        assert_eq!(y.data(), CONVERTED, "{}", backend.name());
    }
}
