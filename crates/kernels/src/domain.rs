//! The slot operations that kernels use.

use crate::KernelError;
use cipherloom_ckks::{Complex64, LiveCounter};
use cipherloom_spec::cost::HeCounts;

/// Vectors of complex slots with a level, on which kernels operate.
///
/// Rules in every implementation:
/// - Every ciphertext is at the canonical scale of its level.
/// - A ciphertext product relinearises and rescales. Operands at different levels: the higher is aligned to the lower
///   first (one align). Result level: the lower one minus 1.
/// - A plaintext product rescales: level minus 1. The plaintext was encoded for that level.
/// - A sum of ciphertexts at different levels aligns the higher first (one align). Result level: the lower one.
/// - Rotation is to the left: slot `i` receives slot `(i + r) mod n`.
/// - No rescale below the base level: `LevelExhausted`.
/// - Live ciphertexts are the handles that exist, accumulators included; what one operation makes and drops inside
///   (at most two ciphertexts) does not count. So the peak is the same in every implementation.
pub trait SlotDomain: Sync {
    /// A ciphertext handle; counted while it lives.
    type Ct: Send + Sync;
    /// An encoded plaintext vector.
    type Plain: Send + Sync;
    /// A sum of plaintext products that is not rescaled yet; counts as a ciphertext.
    type Acc: Send;

    /// Slots of a ciphertext.
    fn slots(&self) -> usize;
    /// Level below which nothing is rescaled.
    fn base_level(&self) -> usize;
    /// Level of a ciphertext.
    fn level(&self, a: &Self::Ct) -> usize;
    /// What was counted so far.
    fn counts(&self) -> HeCounts;
    /// The counter of live ciphertexts.
    fn live(&self) -> &LiveCounter;

    /// Encodes a factor for a product with a ciphertext at `level`; one value a slot.
    ///
    /// # Errors
    /// `Slots`, `LevelExhausted` at the base level, encoding errors.
    fn encode_factor(&self, values: &[Complex64], level: usize)
        -> Result<Self::Plain, KernelError>;

    /// As [`SlotDomain::encode_factor`] for real values.
    ///
    /// # Errors
    /// As [`SlotDomain::encode_factor`].
    fn encode_real_factor(&self, values: &[f64], level: usize) -> Result<Self::Plain, KernelError> {
        let v: Vec<Complex64> = values.iter().map(|&v| v.into()).collect();
        self.encode_factor(&v, level)
    }

    /// Encodes a term for a sum with a ciphertext at `level`; one value a slot.
    ///
    /// # Errors
    /// `Slots`, encoding errors.
    fn encode_term(&self, values: &[Complex64], level: usize) -> Result<Self::Plain, KernelError>;

    /// A copy, counted as live.
    fn copy(&self, a: &Self::Ct) -> Self::Ct;

    /// `a += b`. At most one align.
    ///
    /// # Errors
    /// `LevelExhausted` if the lower level is below the base.
    fn add_assign(&self, a: &mut Self::Ct, b: &Self::Ct) -> Result<(), KernelError>;

    /// `a -= b`. At most one align.
    ///
    /// # Errors
    /// As [`SlotDomain::add_assign`].
    fn sub_assign(&self, a: &mut Self::Ct, b: &Self::Ct) -> Result<(), KernelError>;

    /// `a += b` for an encoded term. Free.
    ///
    /// # Errors
    /// `LevelMismatch`, `PlainUse`.
    fn add_plain_assign(&self, a: &mut Self::Ct, b: &Self::Plain) -> Result<(), KernelError>;

    /// `a b`: one ct-ct product, one relinearisation, one rescale, at most one align.
    ///
    /// # Errors
    /// `LevelExhausted`; missing keys.
    fn mul(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct, KernelError>;

    /// `sum of a_i b_i` for encoded factors: one pt-ct product a term, one rescale.
    ///
    /// # Errors
    /// `Empty`, `LevelMismatch`, `LevelExhausted`, `PlainUse`.
    fn mul_plain_sum(&self, terms: &[(&Self::Ct, &Self::Plain)]) -> Result<Self::Ct, KernelError>;

    /// `a b` for an encoded factor: one pt-ct product, one rescale.
    ///
    /// # Errors
    /// As [`SlotDomain::mul_plain_sum`].
    fn mul_plain(&self, a: &Self::Ct, b: &Self::Plain) -> Result<Self::Ct, KernelError> {
        self.mul_plain_sum(&[(a, b)])
    }

    /// `acc += a b` for an encoded factor, not rescaled: one pt-ct product. `None` starts a new sum.
    ///
    /// # Errors
    /// As [`SlotDomain::mul_plain_sum`].
    fn accumulate(
        &self,
        acc: &mut Option<Self::Acc>,
        a: &Self::Ct,
        b: &Self::Plain,
    ) -> Result<(), KernelError>;

    /// Rescales a sum of products: one rescale.
    ///
    /// # Errors
    /// `LevelExhausted`.
    fn finish(&self, acc: Self::Acc) -> Result<Self::Ct, KernelError>;

    /// `a` at a lower `level`: one align; a copy, uncounted, at its own level.
    ///
    /// # Errors
    /// `AlignUp`, `LevelExhausted` below the base level.
    fn align(&self, a: &Self::Ct, level: usize) -> Result<Self::Ct, KernelError>;

    /// Rotates to the left by `r` (to the right if negative): one rotation; a copy, uncounted, for `r = 0 mod n`.
    ///
    /// # Errors
    /// Missing keys.
    fn rotate(&self, a: &Self::Ct, r: i64) -> Result<Self::Ct, KernelError>;

    /// Several rotations of one ciphertext, in order, with one decomposition: one rotation each.
    ///
    /// # Errors
    /// As [`SlotDomain::rotate`].
    fn rotate_many(&self, a: &Self::Ct, rs: &[i64]) -> Result<Vec<Self::Ct>, KernelError>;

    /// Complex conjugate of every slot: one conjugation.
    ///
    /// # Errors
    /// Missing key.
    fn conjugate(&self, a: &Self::Ct) -> Result<Self::Ct, KernelError>;

    /// `i a`. Free.
    ///
    /// # Errors
    /// Evaluator errors.
    fn mul_by_i(&self, a: &Self::Ct) -> Result<Self::Ct, KernelError>;
}
