//! The security table: how large the modulus of a ring may be.
//!
//! Source: Bossuat et al., "Security Guidelines for Implementing Homomorphic Encryption" (ePrint
//! 2024/463), Table 5.2, classical 128 bits, uniform ternary secret. The bound holds for the product of
//! **all** primes under which any sample of a secret is published: ciphertexts, public key and
//! evaluation keys, special primes included (protocols.md R8).

use crate::SpecError;

/// The claimed classical security level of every accepted parameter set, in bits.
pub const SECURITY_BITS: u32 = 128;

/// Smallest ring degree of the table, as a power of two.
pub const MIN_LOG_N: u32 = 11;
/// Largest ring degree of the table, as a power of two.
pub const MAX_LOG_N: u32 = 17;

/// Largest `log2(QP)` in bits for ring degree `2^log_n`, or `None` outside the table.
#[must_use]
pub fn max_log_qp(log_n: u32) -> Option<u32> {
    Some(match log_n {
        11 => 53,
        12 => 106,
        13 => 214,
        14 => 430,
        15 => 868,
        16 => 1747,
        17 => 3523,
        _ => return None,
    })
}

/// Checks `log2` of the product of `primes` against the table for ring degree `2^log_n`.
///
/// # Errors
/// `RingDegree` outside the table, `Insecure` when the product is above the bound.
pub fn check_security(log_n: u32, primes: &[u64]) -> Result<f64, SpecError> {
    let max = max_log_qp(log_n).ok_or(SpecError::RingDegree {
        log_n,
        min: MIN_LOG_N,
        max: MAX_LOG_N,
    })?;
    let have: f64 = primes.iter().map(|&p| (p as f64).log2()).sum();
    if have > f64::from(max) {
        return Err(SpecError::Insecure { log_n, have, max });
    }
    Ok(have)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modulus_above_the_table_is_refused_and_one_below_is_not() {
        let p = (1u64 << 50) - 27;
        assert!(check_security(13, &[p; 4]).is_ok());
        assert!(matches!(
            check_security(13, &[p; 5]),
            Err(SpecError::Insecure {
                log_n: 13,
                max: 214,
                ..
            })
        ));
        assert!(matches!(
            check_security(10, &[p]),
            Err(SpecError::RingDegree { .. })
        ));
    }
}
