//! NTT-friendly primes: a deterministic primality test and a search.

use crate::SpecError;

/// Every modulus of the project is below `2^MAX_PRIME_BITS`, so that one AVX-512 IFMA path serves all.
pub const MAX_PRIME_BITS: u32 = 50;
/// Smallest supported prime size.
pub const MIN_PRIME_BITS: u32 = 20;

fn mulmod(a: u64, b: u64, m: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(m)) as u64
}

fn powmod(mut a: u64, mut e: u64, m: u64) -> u64 {
    let mut r = 1;
    a %= m;
    while e > 0 {
        if e & 1 == 1 {
            r = mulmod(r, a, m);
        }
        a = mulmod(a, a, m);
        e >>= 1;
    }
    r
}

/// Deterministic Miller–Rabin for 64-bit integers (first twelve primes as bases; Sorenson and Webster 2015).
#[must_use]
pub fn is_prime(n: u64) -> bool {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if n < 2 {
        return false;
    }
    for b in BASES {
        if n.is_multiple_of(b) {
            return n == b;
        }
    }
    let s = (n - 1).trailing_zeros();
    let d = (n - 1) >> s;
    BASES.iter().all(|&b| {
        let mut x = powmod(b, d, n);
        if x == 1 || x == n - 1 {
            return true;
        }
        for _ in 1..s {
            x = mulmod(x, x, n);
            if x == n - 1 {
                return true;
            }
        }
        false
    })
}

/// The largest prime below `2^bits`, congruent to 1 modulo `2^log_2n`, that is not in `used`.
///
/// # Errors
/// `NoPrime` when none of exactly `bits` bits is left.
pub fn largest_below(bits: u32, log_2n: u32, used: &[u64]) -> Result<u64, SpecError> {
    let none = SpecError::NoPrime { bits, log_2n };
    if log_2n >= bits || bits > 62 {
        return Err(none);
    }
    let step = 1u64 << log_2n;
    let low = 1u64 << (bits - 1);
    let mut c = (1u64 << bits) - step + 1;
    while c > low {
        if !used.contains(&c) && is_prime(c) {
            return Ok(c);
        }
        c -= step;
    }
    Err(none)
}

/// The prime nearest to `target`, congruent to 1 modulo `2^log_2n`, below `2^max_bits`, not in `used`.
///
/// # Errors
/// `NoPrime` when none lies within a factor of two of the target.
pub fn nearest(target: f64, log_2n: u32, max_bits: u32, used: &[u64]) -> Result<u64, SpecError> {
    let bits = target.log2().round().max(1.0) as u32;
    let none = SpecError::NoPrime { bits, log_2n };
    if log_2n >= 62 || !(1.0..4e18).contains(&target) {
        return Err(none);
    }
    let step = 1i128 << log_2n;
    let centre = (target as i128 - 1) / step * step + 1;
    let limit = (target / 2.0) as i128;
    let mut k = 0i128;
    while k * step <= limit {
        // Alternate below and above; of the two at one distance the nearer comes first.
        let (a, b) = (centre - k * step, centre + k * step);
        let mut both = [a, b];
        if (b as f64 - target).abs() < (a as f64 - target).abs() {
            both = [b, a];
        }
        for c in both {
            if c > 1 && c < 1i128 << max_bits {
                let c = c as u64;
                if !used.contains(&c) && is_prime(c) {
                    return Ok(c);
                }
            }
        }
        k += 1;
    }
    Err(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_primes_and_strong_pseudoprimes() {
        let sieve = |n: u64| {
            n > 1
                && (2..)
                    .take_while(|d| d * d <= n)
                    .all(|d| !n.is_multiple_of(d))
        };
        for n in 0..5000 {
            assert_eq!(is_prime(n), sieve(n), "{n}");
        }
        for n in [
            3_215_031_751,
            3_825_123_056_546_413_051,
            341_550_071_728_321,
        ] {
            assert!(!is_prime(n));
        }
        assert!(is_prime((1 << 61) - 1));
    }

    #[test]
    fn found_primes_are_ntt_friendly_distinct_and_sized() {
        let mut used = vec![];
        for _ in 0..20 {
            let p = largest_below(50, 17, &used).unwrap();
            assert!(is_prime(p) && p % (1 << 17) == 1 && p >> 49 == 1 && p < 1 << 50);
            used.push(p);
            let p = nearest(2f64.powi(40), 17, 50, &used).unwrap();
            assert!(
                is_prime(p) && p % (1 << 17) == 1 && (p as f64 / 2f64.powi(40) - 1.0).abs() < 1e-3
            );
            used.push(p);
        }
        used.sort_unstable();
        used.dedup();
        assert_eq!(used.len(), 40);
        assert!(matches!(
            largest_below(17, 17, &[]),
            Err(SpecError::NoPrime { .. })
        ));
    }
}
