//! Conformance of the backends: every kernel of the trait but the transforms, on every backend of this processor,
//! against plain 128-bit division, bit for bit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]
mod common;

use cipherloom_ring::backend::ScalarBackend;
use cipherloom_ring::{
    Ahead, Automorphism, Backend, Basis, Destination, Modulus, Ntt, PackedPoly, Poly, RingError,
    SimdChoice, Words,
};
use common::{backends, edgy, primes, primes_of_all_sizes, Mix};
use proptest::prelude::*;

/// Below every lazily reduced value that a kernel may be given as a term of a base conversion.
const TERM_LIMIT: u64 = 1 << 50;

/// Odd primes of all sizes: the smallest of all, NTT primes from the smallest to just below 2^50.
fn moduli() -> Vec<Modulus> {
    [3, 5, 17]
        .into_iter()
        .chain(primes_of_all_sizes(16))
        .map(|q| Modulus::new(q).unwrap())
        .collect()
}

/// Lengths around the lanes of all backends.
const LENGTHS: [usize; 15] = [0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 31, 32, 67, 256];

/// Sums of products around the numbers that backends add up between reductions.
const COUNTS: [usize; 12] = [0, 1, 2, 7, 8, 9, 15, 16, 17, 32, 33, 65];

fn rem(x: u128, q: u64) -> u64 {
    (x % u128::from(q)) as u64
}

fn product(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

/// Runs `kernel` on a copy of `start`, and compares it with `want` on each index.
fn check(
    name: &str,
    q: u64,
    start: &[u64],
    kernel: impl Fn(&mut [u64]),
    want: impl Fn(usize) -> u64,
) {
    let mut got = start.to_vec();
    kernel(&mut got);
    for (j, &g) in got.iter().enumerate() {
        assert_eq!(g, want(j), "{name} q={q} n={} index {j}", start.len());
    }
}

fn check_pointwise(b: &dyn Backend, m: &Modulus, mix: &mut Mix, n: usize) {
    let q = m.value();
    let (x, y, z) = (edgy(mix, q, n), edgy(mix, q, n), edgy(mix, q, n));
    let is = |name: &str| format!("{} {name}", b.name());
    let add = |a: u64, b: u64| rem(u128::from(a) + u128::from(b), q);
    let sub = |a: u64, b: u64| rem(u128::from(a) + u128::from(q - b), q);
    let mul = |a: u64, b: u64| rem(product(a, b), q);
    check(
        &is("add_assign"),
        q,
        &x,
        |a| b.add_assign(m, a, &y),
        |j| add(x[j], y[j]),
    );
    check(
        &is("sub_assign"),
        q,
        &x,
        |a| b.sub_assign(m, a, &y),
        |j| sub(x[j], y[j]),
    );
    check(
        &is("neg_assign"),
        q,
        &x,
        |a| b.neg_assign(m, a),
        |j| sub(0, x[j]),
    );
    check(
        &is("mul_assign"),
        q,
        &x,
        |a| b.mul_assign(m, a, &y),
        |j| mul(x[j], y[j]),
    );
    check(
        &is("mul"),
        q,
        &x,
        |a| b.mul(m, a, &y, &z),
        |j| mul(y[j], z[j]),
    );
    check(
        &is("mul_add"),
        q,
        &x,
        |a| b.mul_add(m, a, &y, &z),
        |j| add(x[j], mul(y[j], z[j])),
    );
    for w in [0, 1, q / 2, q / 2 + 1, q - 1, mix.next() % q] {
        let f = m.shoup(w);
        check(
            &is("scalar_mul_assign"),
            q,
            &x,
            |a| b.scalar_mul_assign(m, a, f),
            |j| mul(x[j], w),
        );
        check(
            &is("scalar_mul_add"),
            q,
            &x,
            |a| b.scalar_mul_add(m, a, &y, f),
            |j| add(x[j], mul(y[j], w)),
        );
        check(
            &is("sub_scalar_mul"),
            q,
            &x,
            |a| b.sub_scalar_mul(m, a, &y, f),
            |j| mul(sub(x[j], y[j]), w),
        );
    }
    let words: Vec<u64> = (0..n as u64)
        .map(|i| match i % 5 {
            0 => u64::MAX - i,
            1 => q * (u64::MAX / q) - i % 2,
            2 => (1 << 52) - 1 + i % 3,
            _ => mix.next(),
        })
        .collect();
    check(
        &is("reduce_assign"),
        q,
        &words,
        |a| b.reduce_assign(m, a),
        |j| words[j] % q,
    );
}

/// Remainder of `x y` modulo q as double-precision kernels take it, from a quotient with rounding errors: up to 3/4 q in
/// size for `quotient = x y / q`, and 9/16 q for `x (y / q)`.
fn double_remainder(q: u64, x: u64, y: u64, constant: bool) -> f64 {
    let q = q as f64;
    let (x, mut y) = (x as f64, y as f64);
    if constant && 2.0 * y > q {
        y -= q;
    }
    let h = x * y;
    let quotient = if constant { x * (y / q) } else { h * (1.0 / q) };
    (-quotient.round()).mul_add(q, h) + x.mul_add(y, -h)
}

/// `count` pairs with remainders that are large and of one sign: their sums are the largest that lazy kernels meet. The first
/// factor is below `limit`, the second below q.
fn steep_pairs(
    m: &Modulus,
    mix: &mut Mix,
    count: usize,
    limit: u64,
    constant: bool,
    sign: f64,
) -> Vec<(u64, u64)> {
    let q = m.value();
    // Rounding errors matter for large primes only.
    let tries = if m.bits() > 46 { 24 } else { 1 };
    let mut candidate = || {
        let x = limit - 1 - mix.next() % (limit / 8).max(1);
        let x = if x.is_multiple_of(q) { x - 1 } else { x };
        let target = q / 2 - q / 16 + mix.next() % (q / 8).max(1);
        let target = if sign > 0.0 { target } else { q - target };
        (x, m.mul(target, m.inv(x).unwrap()))
    };
    (0..count)
        .map(|_| {
            (0..tries)
                .map(|_| candidate())
                .max_by(|&(a, b), &(c, d)| {
                    let size = |x, y| sign * double_remainder(q, x, y, constant);
                    size(a, b).total_cmp(&size(c, d))
                })
                .unwrap()
        })
        .collect()
}

/// Sums whose remainders all have one sign.
fn check_steep_sums(b: &dyn Backend, m: &Modulus, mix: &mut Mix, n: usize, count: usize) {
    let q = m.value();
    let sum = |pairs: &[(u64, u64)]| pairs.iter().map(|&(x, y)| product(x, y)).sum::<u128>();
    let columns = |values: &mut dyn Iterator<Item = u64>| -> Vec<u64> {
        values.flat_map(|v| vec![v; n]).collect()
    };
    for sign in [1.0, -1.0] {
        let name = format!("{} {count} steep products", b.name());
        let start = if sign > 0.0 {
            vec![q - 1; n]
        } else {
            vec![0; n]
        };
        let pairs = steep_pairs(m, mix, count, q, false, sign);
        let x = columns(&mut pairs.iter().map(|p| p.0));
        let y = columns(&mut pairs.iter().map(|p| p.1));
        let terms: Vec<(&[u64], &[u64])> = x.chunks(n).zip(y.chunks(n)).collect();
        let want = rem(sum(&pairs) + u128::from(start[0]), q);
        check(&name, q, &start, |a| b.dot_add(m, a, &terms), |_| want);
        let triples: Vec<[&[u64]; 3]> = terms.iter().map(|(x, y)| [*x, *y, *y]).collect();
        let mut both = [start.clone(), start.clone()];
        let [left, right] = &mut both;
        b.key_products(m, [left, right], &triples, true);
        assert!(both.iter().flatten().all(|&r| r == want), "{name} q={q}");

        let pairs = steep_pairs(m, mix, count, TERM_LIMIT, true, sign);
        let x = columns(&mut pairs.iter().map(|p| p.0));
        let terms: Vec<&[u64]> = x.chunks(n).collect();
        let weights: Vec<u64> = pairs.iter().map(|p| p.1).collect();
        let want = rem(sum(&pairs), q);
        let kernel = |a: &mut [u64]| b.weighted_sum(m, a, &terms, &weights);
        check(&name, q, &start, kernel, |_| want);
        let kernel = |a: &mut [u64]| {
            b.convert(m, a, (&x, n), &weights, &mut Ahead::new());
            a.iter_mut().for_each(|a| *a %= q);
        };
        check(&name, q, &start, kernel, |_| want);
    }
}

/// Sums of products, with all factors at their largest but for some random ones.
fn check_sums(b: &dyn Backend, m: &Modulus, mix: &mut Mix, n: usize, count: usize) {
    let q = m.value();
    let start = if count.is_multiple_of(2) {
        vec![q - 1; n]
    } else {
        edgy(mix, q, n)
    };
    let (y, z, top) = (edgy(mix, q, n), edgy(mix, q, n), vec![q - 1; n]);
    let pairs: Vec<(&[u64], &[u64])> = (0..count)
        .map(|i| match i % 5 {
            4 => (&y[..], &z[..]),
            3 => (&z[..], &top[..]),
            _ => (&top[..], &top[..]),
        })
        .collect();
    check(
        &format!("{} dot_add of {count}", b.name()),
        q,
        &start,
        |a| b.dot_add(m, a, &pairs),
        |j| {
            let sum: u128 = pairs.iter().map(|(a, b)| product(a[j], b[j])).sum();
            rem(sum + u128::from(start[j]), q)
        },
    );
    // Terms of a base conversion: residues of other primes, not of q.
    let largest = vec![TERM_LIMIT - 1; n];
    let other = edgy(mix, TERM_LIMIT - 27, n);
    let terms: Vec<&[u64]> = (0..count)
        .map(|i| if i % 4 == 3 { &other[..] } else { &largest[..] })
        .collect();
    for kind in 0..4 {
        let weights: Vec<u64> = (0..count)
            .map(|i| match kind {
                0 => q - 1,
                1 => q / 2,
                2 => q / 2 + i as u64 % 2,
                _ => mix.next() % q,
            })
            .collect();
        check(
            &format!("{} weighted_sum of {count}", b.name()),
            q,
            &start,
            |a| b.weighted_sum(m, a, &terms, &weights),
            |j| {
                let sum: u128 = terms
                    .iter()
                    .zip(&weights)
                    .map(|(t, &w)| product(t[j], w))
                    .sum();
                rem(sum, q)
            },
        );
    }
    let factors: Vec<f64> = (0..count)
        .map(|i| 1.0 / (TERM_LIMIT - 27 - i as u64) as f64)
        .collect();
    // The same terms, some words apart.
    for stride in [n, n + 3] {
        let mut flat = vec![u64::MAX; stride * count];
        for (i, t) in terms.iter().enumerate() {
            flat[i * stride..i * stride + n].copy_from_slice(t);
        }
        let weights: Vec<u64> = (0..count).map(|i| q / 2 + i as u64 % 2).collect();
        let mut got = start.clone();
        let mut ahead = Ahead::new();
        ahead.push(&flat);
        b.convert(m, &mut got, (&flat, stride), &weights, &mut ahead);
        let mut want = start.clone();
        ScalarBackend.weighted_sum(m, &mut want, &terms, &weights);
        for (j, (&g, &w)) in got.iter().zip(&want).enumerate() {
            let name = b.name();
            assert!(g < 4 * q, "{name} convert of {count} q={q} index {j}");
            assert_eq!(g % q, w, "{name} convert of {count} q={q} index {j}");
        }
        check(
            &format!("{} rounded_sum of {count}", b.name()),
            q,
            &start,
            |a| b.rounded_sum(a, &flat, stride, &factors),
            |j| {
                let sum = terms
                    .iter()
                    .zip(&factors)
                    .fold(0.5, |sum, (t, f)| sum + t[j] as f64 * f);
                sum as u64
            },
        );
    }
}

/// Inner products of key switching at their largest values.
fn check_key_products(b: &dyn Backend, m: &Modulus, mix: &mut Mix, n: usize, count: usize) {
    let q = m.value();
    let (y, z, top) = (edgy(mix, q, n), edgy(mix, q, n), vec![q - 1; n]);
    let terms: Vec<[&[u64]; 3]> = (0..count)
        .map(|i| match i % 4 {
            3 => [&y[..], &z[..], &top[..]],
            2 => [&top[..], &y[..], &z[..]],
            _ => [&top[..]; 3],
        })
        .collect();
    let start = [vec![q - 1; n], edgy(mix, q, n)];
    for add in [false, true] {
        let mut got = start.clone();
        let [x, w] = &mut got;
        b.key_products(m, [x, w], &terms, add);
        for (half, (got, start)) in got.iter().zip(&start).enumerate() {
            for (j, &g) in got.iter().enumerate() {
                let sum: u128 = terms.iter().map(|t| product(t[0][j], t[1 + half][j])).sum();
                let before = if add { u128::from(start[j]) } else { 0 };
                let name = b.name();
                assert_eq!(g, rem(sum + before, q), "{name} q={q} {count} terms");
            }
        }
    }
}

#[test]
fn choices_parse_and_unknown_ones_are_refused() {
    assert_eq!("".parse(), Ok(SimdChoice::Auto));
    assert_eq!("auto".parse(), Ok(SimdChoice::Auto));
    assert_eq!("scalar".parse(), Ok(SimdChoice::Scalar));
    assert_eq!("avx2".parse(), Ok(SimdChoice::Avx2));
    assert_eq!("avx512ifma".parse(), Ok(SimdChoice::Avx512Ifma));
    assert!(matches!(
        "AVX9".parse::<SimdChoice>(),
        Err(RingError::Backend { name }) if name == "AVX9"
    ));
    // Auto is the last of the list, which is in order of speed, and each name gives its backend.
    let auto = SimdChoice::Auto.backend().unwrap().name();
    assert_eq!(backends().last().unwrap().name(), auto);
    for b in backends() {
        let again = b.name().parse::<SimdChoice>().unwrap().backend().unwrap();
        assert_eq!(again.name(), b.name());
    }
}

/// The variable is read by a process of its own: it belongs to the whole process.
#[test]
fn the_environment_names_the_backend() {
    const CHILD: &str = "CIPHERLOOM_TEST_PRINTS_BACKEND";
    if std::env::var_os(CHILD).is_some() {
        let name = match SimdChoice::from_env().and_then(SimdChoice::backend) {
            Ok(backend) => backend.name().to_string(),
            Err(error) => error.to_string(),
        };
        println!("[{name}]");
        return;
    }
    let auto = SimdChoice::Auto.backend().unwrap().name();
    let mut cases: Vec<(&str, String)> = vec![("", auto.into()), ("auto", auto.into())];
    for name in ["scalar", "avx2", "avx512ifma", "mmx"] {
        let here = backends().iter().any(|b| b.name() == name);
        let refused = RingError::Backend { name: name.into() }.to_string();
        cases.push((name, if here { name.into() } else { refused }));
    }
    for (value, want) in cases {
        let out = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "the_environment_names_the_backend",
                "--nocapture",
            ])
            .env("CIPHERLOOM_SIMD", value)
            .env(CHILD, "1")
            .output()
            .unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(text.contains(&format!("[{want}]")), "{value}: {text}");
    }
}

#[test]
fn pointwise_kernels_agree_for_primes_of_all_sizes() {
    for backend in backends() {
        let mut mix = Mix(7);
        for m in moduli() {
            for n in LENGTHS {
                check_pointwise(&*backend, &m, &mut mix, n);
            }
        }
    }
}

#[test]
fn sums_agree_at_their_largest_values() {
    for backend in backends() {
        let mut mix = Mix(9);
        for m in moduli() {
            for count in COUNTS {
                check_sums(&*backend, &m, &mut mix, 13, count);
                check_key_products(&*backend, &m, &mut mix, 13, count);
                check_steep_sums(&*backend, &m, &mut mix, 13, count);
            }
            check_sums(&*backend, &m, &mut mix, 256, 11);
            check_key_products(&*backend, &m, &mut mix, 256, 11);
        }
    }
}

#[test]
fn the_shortest_operand_bounds_the_work() {
    let m = Modulus::new(primes(16, 50, 0, 1)[0]).unwrap();
    for b in backends() {
        for (short, long) in [(0, 9), (5, 8), (8, 21), (16, 17)] {
            let x = Mix(1).residues(m.value(), long);
            let y = Mix(2).residues(m.value(), short);
            let keeps = |name: &str, kernel: &dyn Fn(&mut [u64])| {
                let mut a = x.clone();
                kernel(&mut a);
                assert_eq!(a[short..], x[short..], "{} {name}", b.name());
                assert!(short == 0 || a[..short] != x[..short], "{name} did nothing");
            };
            keeps("add_assign", &|a| b.add_assign(&m, a, &y));
            keeps("sub_assign", &|a| b.sub_assign(&m, a, &y));
            keeps("mul_assign", &|a| b.mul_assign(&m, a, &y));
            keeps("mul", &|a| b.mul(&m, a, &x, &y));
            keeps("mul_add", &|a| b.mul_add(&m, a, &y, &x));
            keeps("dot_add", &|a| b.dot_add(&m, a, &[(&x, &x), (&x, &y)]));
            let w = m.shoup(3);
            keeps("scalar_mul_add", &|a| b.scalar_mul_add(&m, a, &y, w));
            keeps("sub_scalar_mul", &|a| b.sub_scalar_mul(&m, a, &y, w));
            keeps("weighted_sum", &|a| {
                b.weighted_sum(&m, a, &[&x, &y], &[5, 7])
            });
            keeps("key_products", &|a| {
                let mut other = x.clone();
                b.key_products(&m, [a, &mut other], &[[&x, &x, &y]], false);
            });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn permutations_agree(seed: u64, log_n in 4u32..12, cut in 0usize..9) {
        let n = 1usize << log_n;
        let x = Mix(seed).residues(1 << 50, n);
        let a = Automorphism::new(n, seed | 1).unwrap();
        // A part of a permutation keeps the blocks.
        let perm = &a.perm()[..n - cut];
        let want: Vec<u64> = perm.iter().map(|&p| x[p as usize]).collect();
        for backend in backends() {
            let mut got = vec![0; n - cut];
            backend.permute(&mut got, &x, perm);
            prop_assert_eq!(&got, &want, "{}", backend.name());
            // Two limbs, a row at a time, whatever the order; the first with a summand.
            let m = Modulus::new(primes(16, 50, 0, 1)[0]).unwrap();
            let x: Vec<u64> = x.iter().map(|&v| v % m.value()).collect();
            let summand = Mix(seed).residues(m.value(), n);
            let other: Vec<u64> = x.iter().rev().copied().collect();
            let row = 8 << (cut % 3).min(log_n as usize - 4);
            for with in [false, true] {
                let mut got = [Words::zeroed(n), Words::zeroed(n)];
                for i in (0..n / row).rev() {
                    let part = i * row..(i + 1) * row;
                    let [u, v] = &mut got;
                    let rows = [&x[part.clone()], &other[part.clone()]];
                    let to = Destination { automorphism: &a, offset: i * row, streaming: i % 2 == 1 };
                    backend.permute_rows(&m, [u, v], rows, with.then_some(&summand[part]), to);
                }
                for (i, &p) in a.perm().iter().enumerate() {
                    let p = p as usize;
                    let first = if with { m.add(x[p], summand[p]) } else { x[p] };
                    let (got, want) = ([got[0][i], got[1][i]], [first, other[p]]);
                    prop_assert_eq!(got, want, "{} {}", backend.name(), i);
                }
            }
        }
    }
}

#[test]
fn packed_products_are_those_of_the_words() {
    let n = 512;
    for bits in [14, 20, 31, 40, 41, 46, 50] {
        let prime = primes(n, bits, 0, 1);
        for b in backends() {
            let basis = Basis::with_backend(n, &prime, b.clone()).unwrap();
            let (m, mut mix) = (*basis.modulus(0), Mix(bits.into()));
            let polys: Vec<Poly<Ntt>> = (0..18)
                .map(|_| Poly::from_residues(&basis, &edgy(&mut mix, m.value(), n)).unwrap())
                .collect();
            let packed: Vec<PackedPoly> = polys.iter().map(PackedPoly::new).collect();
            for (count, range) in [(0, 0..8), (1, 8..16), (3, 0..n), (9, 24..480), (17, 504..n)] {
                let digit = |i: usize| &polys[i].limb(0)[range.clone()];
                let words: Vec<[&[u64]; 3]> = (0..count)
                    .map(|i| [digit(i), digit(i + 1), digit(17 - i)])
                    .collect();
                let rows: Vec<_> = (0..count)
                    .map(|i| {
                        let row = |i: usize| packed[i].row(0, range.clone());
                        (digit(i), [row(i + 1), row(17 - i)])
                    })
                    .collect();
                for add in [false, true] {
                    let start = edgy(&mut mix, m.value(), range.len());
                    let (mut want, mut got) =
                        ([start.clone(), start.clone()], [start.clone(), start]);
                    let [x, y] = &mut want;
                    ScalarBackend.key_products(&m, [x, y], &words, add);
                    let [x, y] = &mut got;
                    b.key_products_packed(&m, [x, y], &rows, add);
                    assert_eq!(got, want, "{} {bits} bits, {count} terms", b.name());
                }
            }
        }
    }
}

/// The methods of the trait, from its source: a new one must be added to this suite (transforms are in `backends_ntt.rs`).
#[test]
fn every_kernel_is_in_this_suite() {
    let source = include_str!("../src/backend/mod.rs");
    let (_, rest) = source.split_once("pub trait Backend").unwrap();
    let (body, _) = rest.split_once("\n}\n").unwrap();
    let kernels = body
        .lines()
        .filter_map(|l| l.strip_prefix("    fn ")?.split_once('('))
        .map(|(name, _)| name);
    let known = [
        "name",
        "quotient_bits",
        "twiddles",
        "ntt_forward",
        "ntt_inverse",
        "forward_head",
        "forward_tail",
        "forward_tail_from",
        "inverse_tail",
        "inverse_tail_from",
        "inverse_head_from",
        "inverse_head",
        "add_assign",
        "sub_assign",
        "neg_assign",
        "mul_assign",
        "mul",
        "mul_add",
        "dot_add",
        "scalar_mul_assign",
        "scalar_mul_add",
        "sub_scalar_mul",
        "weighted_sum",
        "convert",
        "key_products",
        "key_products_packed",
        "reduce_assign",
        "rounded_sum",
        "permute",
        "permute_rows",
    ];
    assert_eq!(kernels.collect::<Vec<_>>(), known);
}
