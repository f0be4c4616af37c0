//! Choice of the modulus chains: the shortest chain and the fewest key-switching digits that pass the security table.

use crate::PlanError;
use cipherloom_spec::chain::{CkksChain, CkksLiteral};
use cipherloom_spec::SpecError;

/// Scale of every CKKS ring, in bits.
pub const LOG_SCALE: u32 = 40;
/// Bits of the two base primes: boundaries to shares happen at 100 bits (protocols.md R15).
pub const BASE_BITS: u32 = 50;

/// The literal of a chain with `depth` rescales above the two base primes and as few digits as the table allows.
///
/// # Errors
/// `LevelExhausted` when no special modulus fits beside the chain.
pub fn chain_for_depth(log_n: u32, depth: usize) -> Result<CkksChain, PlanError> {
    let mut q_bits = vec![BASE_BITS; 2];
    q_bits.extend(std::iter::repeat_n(LOG_SCALE, depth));
    let mut last = None;
    for alpha in (1..=6usize.min(q_bits.len())).rev() {
        let digit: u32 = q_bits
            .iter()
            .take(alpha)
            .sum::<u32>()
            .max(alpha as u32 * LOG_SCALE);
        let each = digit.div_ceil(alpha as u32);
        if each > BASE_BITS {
            continue;
        }
        // One spare bit a prime keeps the key-switching noise below the rescale noise.
        let each = (each + 1).min(BASE_BITS);
        let dnum = q_bits.len().div_ceil(alpha) as u32;
        let literal = CkksLiteral {
            log_n,
            q_bits: q_bits.clone(),
            p_bits: vec![each; alpha],
            log_scale: LOG_SCALE,
            dnum,
        };
        match literal.check() {
            Ok(c) if c.alpha() == alpha => return Ok(c),
            Ok(_) => {}
            Err(e) => last = Some(e),
        }
    }
    Err(match last {
        Some(SpecError::Insecure { .. }) | None => PlanError::Spec(SpecError::LevelExhausted {
            op: format!("the chain of a ring of degree 2^{log_n}"),
            need: depth,
            have: max_depth(log_n),
        }),
        Some(e) => PlanError::Spec(e),
    })
}

/// Largest depth that [`chain_for_depth`] can give in a ring of degree `2^log_n`.
#[must_use]
pub fn max_depth(log_n: u32) -> usize {
    let Some(bound) = cipherloom_spec::security::max_log_qp(log_n) else {
        return 0;
    };
    // Two base primes and one special prime at least.
    (bound.saturating_sub(3 * BASE_BITS) / LOG_SCALE) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_of_the_deployed_depths_exist() {
        let c = chain_for_depth(14, 2).unwrap();
        assert_eq!((c.depth(), c.base_level(), c.digits(3).len()), (2, 1, 1));
        let c = chain_for_depth(15, 12).unwrap();
        assert!(c.depth() == 12 && c.digits(c.top_level()).len() <= 3);
        let c = chain_for_depth(15, 14).unwrap();
        assert!(c.digits(c.top_level()).len() <= 4);
        let c = chain_for_depth(16, 34).unwrap();
        assert_eq!(c.depth(), 34);
    }

    #[test]
    fn a_depth_that_does_not_fit_is_level_exhausted() {
        assert!(matches!(
            chain_for_depth(16, 43),
            Err(PlanError::Spec(SpecError::LevelExhausted { need: 43, .. }))
        ));
        assert!(matches!(
            chain_for_depth(13, 5),
            Err(PlanError::Spec(SpecError::LevelExhausted { .. }))
        ));
    }
}
