//! Parameter sets of RLWE products: an unchecked literal, and the checked value built from it.

use cipherloom_ring::{Basis, Coeff, Poly};
use cipherloom_spec::primes::largest_below;
use cipherloom_spec::security::check_security;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::export::Exported;
use crate::rlwe::bounds::{log2_failure, NoiseBudget};
use crate::rlwe::ring_error;
use crate::rlwe::scaling::PlainModulus;
use crate::MpcError;

/// Plaintext primes are 1 modulo `2^PLAIN_LOG_2N` (R13), so that one prime serves every slot count up to `2^19`.
pub const PLAIN_LOG_2N: u32 = 20;
/// A parameter set is refused when its budget fails with a larger `log2` probability (R14).
pub const MAX_LOG2_FAILURE: f64 = -20.0;
/// Most plaintext products in one answered sum that the noise budget is checked for at construction.
const CHECKED_TERMS: usize = 2;
/// Seed bytes of an uploaded ciphertext.
pub const SEED_BYTES: usize = 32;

/// What anyone can write down. [`RlweParameters::new`] checks it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RlweLiteral {
    /// Ring degree `N = 2^log_n`; N slots.
    pub log_n: u32,
    /// Bits of the primes of the export modulus `q'`.
    pub export_bits: Vec<u32>,
    /// Bits of the primes that the modulus switch drops: `q = q' *` their product.
    pub dropped_bits: Vec<u32>,
    /// Bits of the plaintext primes.
    pub plain_bits: u32,
    /// Number of plaintext primes.
    pub plain_count: usize,
    /// `log2` of the exported coefficients of one inference, over all plaintext primes.
    pub log2_coefficients: u32,
}

impl RlweLiteral {
    /// Products modulo 2^64: three 44-bit primes (132 bits for integers below `2^129`), `q' = 115`, `q = 160` bits.
    #[must_use]
    pub fn crt64() -> Self {
        Self {
            log_n: 13,
            export_bits: vec![39, 38, 38],
            dropped_bits: vec![45],
            plain_bits: 44,
            plain_count: 3,
            log2_coefficients: 32,
        }
    }

    /// Products modulo one 47-bit prime: `q' = 118`, `q = 166` bits.
    #[must_use]
    pub fn zt47() -> Self {
        Self {
            log_n: 13,
            export_bits: vec![40, 39, 39],
            dropped_bits: vec![48],
            plain_bits: 47,
            plain_count: 1,
            log2_coefficients: 32,
        }
    }
}

/// A checked parameter set with its tables. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RlweParameters {
    literal: RlweLiteral,
    upload: Basis,
    export: Basis,
    plain: Arc<Vec<PlainModulus>>,
}

impl RlweParameters {
    /// Builds the bases and checks security (all primes under which a sample of the secret is published: those of
    /// `q`) and the failure budget for sums of two products.
    ///
    /// # Errors
    /// `Format` with the numbers when a check fails or primes are missing; `Ring` for tables.
    pub fn new(literal: RlweLiteral) -> Result<Self, MpcError> {
        let p = Self::build(literal)?;
        let failure = p.log2_failure(CHECKED_TERMS, f64::from(p.literal.log2_coefficients).exp2());
        if failure > MAX_LOG2_FAILURE {
            return Err(MpcError::Format {
                op: "RLWE parameters",
                detail: format!(
                    "2^{} coefficients fail with probability 2^{failure:.1}, above 2^{MAX_LOG2_FAILURE}; enlarge the \
                     {:.1}-bit export modulus or what is dropped ({:.1} bits)",
                    p.literal.log2_coefficients,
                    p.export.log2_product(),
                    p.log2_drop()
                ),
            });
        }
        Ok(p)
    }

    /// A set that fails too often, for tests that count the failures.
    #[cfg(test)]
    pub(crate) fn insecure_failing(literal: RlweLiteral) -> Result<Self, MpcError> {
        Self::build(literal)
    }

    /// Everything but the failure budget.
    fn build(literal: RlweLiteral) -> Result<Self, MpcError> {
        let op = "RLWE parameters";
        let format = |detail: String| MpcError::Format { op, detail };
        let mut primes: Vec<u64> = vec![];
        for &bits in literal.export_bits.iter().chain(&literal.dropped_bits) {
            let p = largest_below(bits, literal.log_n + 1, &primes)
                .map_err(|e| format(e.to_string()))?;
            primes.push(p);
        }
        check_security(literal.log_n, &primes).map_err(|e| format(e.to_string()))?;
        let mut plain_primes: Vec<u64> = vec![];
        for _ in 0..literal.plain_count {
            // Distinct from the ciphertext primes, so that t is invertible modulo q.
            let used: Vec<u64> = primes.iter().chain(&plain_primes).copied().collect();
            let t = largest_below(literal.plain_bits, PLAIN_LOG_2N, &used)
                .map_err(|e| format(e.to_string()))?;
            plain_primes.push(t);
        }
        if plain_primes.is_empty() || literal.export_bits.is_empty() {
            return Err(format(format!(
                "{} plaintext primes and {} export primes; at least one of each is needed",
                literal.plain_count,
                literal.export_bits.len()
            )));
        }
        let err = ring_error(op);
        let upload = Basis::new(1usize << literal.log_n, &primes).map_err(err)?;
        let export = upload.prefix(literal.export_bits.len()).map_err(err)?;
        let plain = plain_primes
            .iter()
            .map(|&t| PlainModulus::new(t, &upload, &export))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            literal,
            upload,
            export,
            plain: Arc::new(plain),
        })
    }

    /// [`RlweLiteral::crt64`], checked.
    ///
    /// # Errors
    /// As [`RlweParameters::new`].
    pub fn crt64() -> Result<Self, MpcError> {
        Self::new(RlweLiteral::crt64())
    }

    /// [`RlweLiteral::zt47`], checked.
    ///
    /// # Errors
    /// As [`RlweParameters::new`].
    pub fn zt47() -> Result<Self, MpcError> {
        Self::new(RlweLiteral::zt47())
    }

    /// The literal.
    #[must_use]
    pub fn literal(&self) -> &RlweLiteral {
        &self.literal
    }
    /// Slots of one ciphertext, N.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.upload.n()
    }
    /// Primes of `q`, those of `q'` first.
    #[must_use]
    pub fn upload_basis(&self) -> &Basis {
        &self.upload
    }
    /// Primes of `q'`.
    #[must_use]
    pub fn export_basis(&self) -> &Basis {
        &self.export
    }
    /// The plaintext moduli.
    #[must_use]
    pub fn plain(&self) -> &Arc<Vec<PlainModulus>> {
        &self.plain
    }
    /// `log2 (q / q')`.
    #[must_use]
    pub fn log2_drop(&self) -> f64 {
        self.upload.log2_product() - self.export.log2_product()
    }
    /// Noise of an exported coefficient that is a sum of `terms` plaintext products.
    #[must_use]
    pub fn noise(&self, terms: usize) -> NoiseBudget {
        NoiseBudget::new(self.literal.log_n, terms, self.log2_t(), self.log2_drop())
    }
    /// `log2` of the probability that any of `coefficients` exported coefficients, each of a sum of `terms` plaintext
    /// products, is read wrong. The plan sums these (R14).
    #[must_use]
    pub fn log2_failure(&self, terms: usize, coefficients: f64) -> f64 {
        log2_failure(
            self.log2_t(),
            self.export.log2_product(),
            &self.noise(terms),
            coefficients,
        )
    }
    fn log2_t(&self) -> f64 {
        self.plain
            .iter()
            .map(|p| (p.modulus().value() as f64).log2())
            .fold(0.0, f64::max)
    }

    /// Slot vectors that `n` elements fill: `ceil(n / N)`.
    #[must_use]
    pub fn chunks(&self, n: usize) -> usize {
        n.div_ceil(self.slots())
    }
    /// Bytes of one uploaded ciphertext: seed and `c_0`.
    #[must_use]
    pub fn upload_ciphertext_bytes(&self) -> usize {
        SEED_BYTES + Poly::<Coeff>::packed_len(&self.upload)
    }
    /// Bytes of one exported ciphertext.
    #[must_use]
    pub fn export_ciphertext_bytes(&self) -> usize {
        Exported::byte_len(&self.export, 1)
    }
    /// Payload bytes (client to server, server to client) of a sum of `terms` products over `n` elements, frame headers
    /// apart: `ceil(n/N) * primes * terms` uploads and `ceil(n/N) * primes` answers; [`RlweParameters::chunks`] frames
    /// each way, one flight each way.
    #[must_use]
    pub fn sum_bytes(&self, n: usize, terms: usize) -> (u64, u64) {
        let ciphertexts = (self.chunks(n) * self.plain.len()) as u64;
        (
            ciphertexts * terms as u64 * self.upload_ciphertext_bytes() as u64,
            ciphertexts * self.export_ciphertext_bytes() as u64,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_sets_meet_the_aim_of_the_failure_budget() {
        for p in [
            RlweParameters::crt64().unwrap(),
            RlweParameters::zt47().unwrap(),
        ] {
            let f = p.log2_failure(2, 2f64.powi(32));
            assert!(f <= -30.0, "{f}");
            assert!(p.upload_basis().log2_product() <= 214.0);
            assert!(p.export_basis().is_prefix_of(p.upload_basis()));
            for t in p.plain().iter() {
                assert_eq!(t.modulus().value() % (1 << 20), 1);
            }
        }
    }

    #[test]
    fn insecure_and_failing_literals_are_refused_with_their_numbers() {
        let mut l = RlweLiteral::crt64();
        l.dropped_bits = vec![50, 50];
        let e = RlweParameters::new(l).unwrap_err().to_string();
        assert!(e.contains("214"), "{e}");
        let mut l = RlweLiteral::crt64();
        l.export_bits = vec![34, 34, 34];
        let e = RlweParameters::new(l).unwrap_err().to_string();
        assert!(e.contains("2^32 coefficients"), "{e}");
        let mut l = RlweLiteral::crt64();
        l.dropped_bits = vec![];
        assert!(RlweParameters::new(l).is_err());
        let mut l = RlweLiteral::crt64();
        l.plain_count = 0;
        assert!(RlweParameters::new(l).is_err());
    }
}
