//! Helpers of the integration tests: primes, deterministic values, big-integer references.
#![allow(dead_code, missing_docs, clippy::unwrap_used)]

use cipherloom_ring::backend::ScalarBackend;
use cipherloom_ring::{Backend, Basis, Coeff, Modulus, Poly, SimdChoice};
use num_bigint::{BigInt, BigUint};
use std::io::Write;
use std::sync::{Arc, Once};

/// The `count` largest primes below `2^bits` that are 1 mod 2n, skipping `skip` of them.
pub fn primes(n: usize, bits: u32, skip: usize, count: usize) -> Vec<u64> {
    let step = 2 * n as u64;
    (1..)
        .map(|k| (1u64 << bits) - k * step + 1)
        .filter(|&q| Modulus::new(q).is_ok())
        .skip(skip)
        .take(count)
        .collect()
}

/// Every backend that this processor has, scalar first. One that it lacks is named on the standard
/// error output, past the capture of the test harness.
pub fn backends() -> Vec<Arc<dyn Backend>> {
    static REPORT: Once = Once::new();
    let choices = [SimdChoice::Avx2, SimdChoice::Avx512Ifma];
    REPORT.call_once(|| {
        for error in choices.iter().filter_map(|c| c.backend().err()) {
            // The harness captures what `eprintln` writes.
            #[allow(clippy::explicit_write)]
            writeln!(std::io::stderr(), "not tested here: {error}").unwrap();
        }
    });
    let mut out: Vec<Arc<dyn Backend>> = vec![Arc::new(ScalarBackend)];
    out.extend(choices.iter().filter_map(|c| c.backend().ok()));
    out
}

/// The smallest prime that is 1 mod 2n.
pub fn smallest_prime(n: usize) -> u64 {
    (1..)
        .map(|k| k * 2 * n as u64 + 1)
        .find(|&q| Modulus::new(q).is_ok())
        .unwrap()
}

/// NTT primes of every size for degree n: the smallest there is, and the largest of each number of bits.
pub fn primes_of_all_sizes(n: usize) -> Vec<u64> {
    let mut out = vec![smallest_prime(n)];
    let first = 65 - out[0].leading_zeros();
    out.extend((first..=50).filter_map(|bits| {
        let top = 1u64 << bits;
        (1..)
            .map(|k| top - k * 2 * n as u64 + 1)
            .take_while(|&q| q > top / 2)
            .find(|&q| Modulus::new(q).is_ok())
    }));
    out
}

/// SplitMix64: independent of the generators under test.
pub struct Mix(pub u64);

impl Mix {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn residues(&mut self, q: u64, n: usize) -> Vec<u64> {
        (0..n).map(|_| self.next() % q).collect()
    }

    pub fn poly(&mut self, basis: &Basis) -> Poly<Coeff> {
        let mut data = Vec::new();
        for q in basis.primes() {
            data.extend(self.residues(q, basis.n()));
        }
        Poly::from_residues(basis, &data).unwrap()
    }
}

/// Residues with edge values mixed in: 0, 1, q-1, and both neighbours of q/2.
pub fn edgy(mix: &mut Mix, q: u64, n: usize) -> Vec<u64> {
    (0..n)
        .map(|_| match mix.next() % 10 {
            0 => 0,
            1 => q - 1,
            2 => 1,
            3 => q / 2,
            4 => q / 2 + 1,
            _ => mix.next() % q,
        })
        .collect()
}

/// Schoolbook negacyclic product.
pub fn negacyclic(a: &[u64], b: &[u64], q: u64) -> Vec<u64> {
    let n = a.len();
    let mut out = vec![0u64; n];
    for (i, &x) in a.iter().enumerate() {
        for (j, &y) in b.iter().enumerate() {
            let p = (u128::from(x) * u128::from(y) % u128::from(q)) as u64;
            let k = (i + j) % n;
            out[k] = if i + j < n {
                (out[k] + p) % q
            } else {
                (out[k] + q - p) % q
            };
        }
    }
    out
}

/// Schoolbook negacyclic product over the integers.
pub fn negacyclic_big(a: &[BigInt], b: &[BigInt]) -> Vec<BigInt> {
    let n = a.len();
    let mut out = vec![BigInt::ZERO; n];
    for (i, x) in a.iter().enumerate() {
        for (j, y) in b.iter().enumerate() {
            let k = (i + j) % n;
            if i + j < n {
                out[k] += x * y;
            } else {
                out[k] -= x * y;
            }
        }
    }
    out
}

/// Product of the primes.
pub fn product(basis: &Basis) -> BigInt {
    basis.primes().into_iter().map(BigInt::from).product()
}

/// Centred coefficients by textbook CRT with big integers.
pub fn crt_centred(x: &Poly<Coeff>) -> Vec<BigInt> {
    let basis = x.basis();
    let q = product(basis);
    let units: Vec<BigInt> = basis
        .primes()
        .into_iter()
        .map(|p| {
            let p = BigInt::from(p);
            let hat = &q / &p;
            let inv = hat.modpow(&(&p - 2), &p);
            hat * inv
        })
        .collect();
    (0..x.n())
        .map(|j| {
            let sum: BigInt = units
                .iter()
                .enumerate()
                .map(|(i, u)| u * x.limb(i)[j])
                .sum();
            let mut r = sum % &q;
            if &r * 2 > q {
                r -= &q;
            }
            r
        })
        .collect()
}

/// Non-negative remainder.
pub fn rem(x: &BigInt, q: u64) -> u64 {
    let r = ((x % q) + q) % q;
    let (_, digits) = r.to_u64_digits();
    digits.first().copied().unwrap_or(0)
}

pub fn magnitude(x: &BigInt) -> BigUint {
    x.magnitude().clone()
}
