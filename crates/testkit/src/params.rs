//! Toy CKKS parameter sets. They give **no security at all**: build them with
//! `CkksLiteral::insecure_build` and `CkksParameters::insecure_for_tests`, in tests only.

use cipherloom_spec::CkksLiteral;

/// `[50, 50, 40 x levels]` with `p` special primes of 50 bits, scale 2^40.
fn literal(log_n: u32, levels: usize, p: usize, dnum: u32) -> CkksLiteral {
    let mut q_bits = vec![50, 50];
    q_bits.resize(2 + levels, 40);
    CkksLiteral {
        log_n,
        q_bits,
        p_bits: vec![50; p],
        log_scale: 40,
        dnum,
    }
}

/// N = 2^9, two base primes and 3 levels, digits of 2 primes, P of 2. Insecure.
#[must_use]
#[allow(non_snake_case)]
pub fn INSECURE_TOY_9() -> CkksLiteral {
    literal(9, 3, 2, 3)
}

/// N = 2^10, two base primes and 5 levels, digits of 3 primes (the last one short), P of 3. Insecure.
#[must_use]
#[allow(non_snake_case)]
pub fn INSECURE_TOY_10() -> CkksLiteral {
    literal(10, 5, 3, 3)
}

/// N = 2^11, two base primes and 12 levels, digits of 5 primes, P of 5: the shape of the real N = 2^15 set. Insecure.
#[must_use]
#[allow(non_snake_case)]
pub fn INSECURE_TOY_11() -> CkksLiteral {
    literal(11, 12, 5, 3)
}

/// N = 2^13 with 10 levels, digits of 4 primes, P of 4: long chains at a real degree. Insecure.
#[must_use]
#[allow(non_snake_case)]
pub fn INSECURE_TOY_13_DEEP() -> CkksLiteral {
    literal(13, 10, 4, 3)
}

/// N = 2^13, `[50, 50, 40]`, P = 1 x 50, one prime a digit: 190 of 214 bits, passes the security table.
#[must_use]
pub fn secure_13() -> CkksLiteral {
    literal(13, 1, 1, 3)
}
