//! Rescale, level drop, alignment.

use cipherloom_spec::Scale;

use super::{same_scale, Evaluator};
use crate::ciphertext::Ciphertext;
use crate::error::CkksError;

/// Smallest alignment constant: rounding it to an integer costs at most 2^-40 of the scale.
const MIN_LOG_ALIGN: f64 = 39.0;

impl Evaluator {
    /// Divides by the last prime: level l to l - 1, scale divided by q_l. Rounding adds at most 1/2 to
    /// each coefficient of each part. Cost: an inverse NTT and l forward NTTs for each part.
    ///
    /// # Errors
    /// `LevelExhausted` at or below the base level, `ScaleTooSmall` for a ciphertext whose scale is no product yet,
    /// `ParamsMismatch`.
    pub fn rescale(&self, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.check_ct(a)?;
        self.check_rescaled("rescale", a.level(), a.scale())?;
        let out = self.rescaled(a)?;
        self.counter.rescale();
        Ok(out)
    }

    /// [`Evaluator::rescale`] of `a`; its polynomials go to the evaluator, for its next results.
    ///
    /// # Errors
    /// As [`Evaluator::rescale`]; `a` is unchanged then.
    pub fn rescale_assign(&self, a: &mut Ciphertext) -> Result<(), CkksError> {
        self.check_ct(a)?;
        let level = a.level();
        let scale = self.check_rescaled("rescale_assign", level, a.scale())?;
        let tables = self.params.tables();
        let parts = tables.rescale(a.parts(), &self.pool, &self.polys)?;
        let old = std::mem::replace(a.parts_mut(), parts);
        self.polys.give(old);
        a.set_scale(scale);
        self.counter.rescale();
        Ok(())
    }

    /// The scale after a rescale of a ciphertext at this level and scale, if it has one.
    pub(super) fn check_rescaled(
        &self,
        op: &'static str,
        level: usize,
        scale: Scale,
    ) -> Result<Scale, CkksError> {
        self.check_rescale(op, level)?;
        let scale = scale.rescaled(self.params.chain().q()[level]);
        self.check_min(op, level - 1, scale, self.params.chain().log_n())?;
        Ok(scale)
    }

    fn check_rescale(&self, op: &'static str, level: usize) -> Result<(), CkksError> {
        let base = self.params.base_level();
        if level <= base {
            return Err(CkksError::LevelExhausted { op, level, base });
        }
        Ok(())
    }

    /// Not counted; the caller has checked the level.
    pub(super) fn rescaled(&self, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        let q = self.params.chain().q()[a.level()];
        let parts = self
            .params
            .tables()
            .rescale(a.parts(), &self.pool, &self.polys)?;
        Ok(self.made(parts, a.scale().rescaled(q)))
    }

    /// Drops primes: the same value and scale at a lower level. Cost: a copy. The scale stays, so the result has the
    /// canonical scale of its level only if the two are equal: see [`Evaluator::align`].
    ///
    /// # Errors
    /// `LevelRange` above the ciphertext's level, `ScaleTooLarge` at a level that cannot hold the scale, for example of a
    /// product that was not rescaled, `ParamsMismatch`.
    pub fn drop_level(&self, a: &Ciphertext, level: usize) -> Result<Ciphertext, CkksError> {
        self.check_drop("drop_level", a, level)?;
        let basis = self.params.basis(level)?;
        let parts = a
            .parts()
            .iter()
            .map(|p| self.polys.copy_to(&basis, p))
            .collect();
        Ok(self.made(parts, a.scale()))
    }

    /// [`Evaluator::drop_level`] of `a`, without a copy. The memory of the dropped limbs stays with `a` until it is dropped itself.
    ///
    /// # Errors
    /// As [`Evaluator::drop_level`]; `a` is unchanged then.
    pub fn drop_level_assign(&self, a: &mut Ciphertext, level: usize) -> Result<(), CkksError> {
        self.check_drop("drop_level_assign", a, level)?;
        for part in a.parts_mut() {
            part.truncate(level + 1)?;
        }
        Ok(())
    }

    fn check_drop(&self, op: &'static str, a: &Ciphertext, level: usize) -> Result<(), CkksError> {
        self.check_ct(a)?;
        if level > a.level() {
            return Err(CkksError::LevelRange {
                op,
                level,
                max: a.level(),
            });
        }
        if level == a.level() {
            return Ok(());
        }
        self.check_fits(op, level, a.scale())
    }

    /// Brings `a` from its level l to `level` < l at the canonical scale of `level`: drops to
    /// `level + 1`, multiplies with the integer `round(scale(level) q_(level+1) / scale)` and rescales.
    /// The scale of the result is stated as exactly canonical; rounding the integer changes the values by a
    /// relative 2^-40 at most. Counted as one align. If `a` is already there at that scale it is
    /// copied, uncounted.
    ///
    /// # Errors
    /// `LevelRange` above the ciphertext's level, `ScaleMismatch` at the same level with another
    /// scale, `LevelExhausted` below the base level, `AlignPrecision` when the integer would be
    /// below 2^39 (for example for a product that was not rescaled).
    pub fn align(&self, a: &Ciphertext, level: usize) -> Result<Ciphertext, CkksError> {
        self.check_ct(a)?;
        let want = self.params.scale(level);
        if level > a.level() {
            return Err(CkksError::LevelRange {
                op: "align",
                level,
                max: a.level(),
            });
        }
        if level == a.level() {
            same_scale("align", a.scale(), want)?;
            return Ok(self.copy(a));
        }
        self.check_rescale("align", level + 1)?;
        let q = Scale::prime(self.params.chain().q()[level + 1]);
        let factor = want.times(q).over(a.scale());
        let log_constant = factor.log2();
        let constant = match to_integer(factor) {
            Some(c) if log_constant >= MIN_LOG_ALIGN => c,
            _ => {
                return Err(CkksError::AlignPrecision {
                    log_constant,
                    scale: a.scale(),
                    target: level,
                })
            }
        };
        let tables = self.params.tables();
        let parts =
            tables.rescale_times(a.parts(), level + 1, constant, &self.pool, &self.polys)?;
        self.counter.align();
        Ok(self.made(parts, want))
    }
}

/// The nearest integer, exactly, for values in [1, 2^120).
fn to_integer(s: Scale) -> Option<i128> {
    let (mant, exp) = s.parts();
    // mant has its top bit at 127.
    if !(-127..=-8).contains(&exp) {
        return None;
    }
    let shift = exp.unsigned_abs();
    let half = (mant >> (shift - 1)) & 1;
    Some(((mant >> shift) + half) as i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_round_to_the_nearest_integer() {
        assert_eq!(to_integer(Scale::pow2(40)), Some(1 << 40));
        let s = |num: u128, den: u128| {
            Scale::from_u128(num)
                .unwrap()
                .over(Scale::from_u128(den).unwrap())
        };
        assert_eq!(to_integer(s(7, 2)), Some(4));
        assert_eq!(to_integer(s((1 << 50) * 3 + 1, 3)), Some(1 << 50));
        assert_eq!(to_integer(s((1 << 50) * 3 + 2, 3)), Some((1 << 50) + 1));
        assert_eq!(to_integer(Scale::pow2(-1)), None);
        assert_eq!(to_integer(Scale::pow2(126)), None);
    }
}
