//! Linear combinations with constants.

use cipherloom_spec::Scale;

use super::{two_parts, Evaluator};
use crate::ciphertext::Ciphertext;
use crate::complex::Complex64;
use crate::encoder::constant_halves;
use crate::error::CkksError;

impl Evaluator {
    /// `constant + sum of c_i a_i`, numbers in every slot, at `level` and `scale`, not rescaled. The ciphertexts may be at higher
    /// levels and at any scales: each constant is encoded at `scale` over that of its ciphertext (each part rounded once).
    /// Counted as one pt-ct product for each term. Cost: one multiplication pass for each term, no copies.
    ///
    /// # Errors
    /// `Empty`, `LevelMismatch` for a ciphertext below `level`, `Parts` unless all have two, `NotFinite`,
    /// `ValueTooLarge`, `ScaleTooLarge` for a scale that the level cannot hold, `ScaleTooSmall` for one below that of a
    /// ciphertext, `LevelRange`, `ParamsMismatch`.
    pub fn linear_combination(
        &self,
        terms: &[(&Ciphertext, Complex64)],
        constant: Complex64,
        level: usize,
        scale: Scale,
    ) -> Result<Ciphertext, CkksError> {
        const OP: &str = "linear_combination";
        if terms.is_empty() {
            return Err(CkksError::Empty { op: OP });
        }
        let basis = self.params.basis(level)?;
        self.check_result(OP, level, scale)?;
        let mut constants = Vec::with_capacity(terms.len());
        for (a, c) in terms {
            self.check_ct(a)?;
            two_parts(OP, a)?;
            if a.level() < level {
                return Err(CkksError::LevelMismatch {
                    op: OP,
                    left: a.level(),
                    right: level,
                });
            }
            let ratio = scale.over(a.scale());
            self.check_min(OP, level, ratio, 0)?;
            constants.push(self.encoder.constant_parts(*c, level, ratio)?);
            self.check_value(level, *c, scale)?;
        }
        let start = self.encoder.constant_parts(constant, level, scale)?;
        let half = basis.n() / 2;
        let parts = (0..2)
            .map(|part| {
                self.polys.build(&basis, |i, out| {
                    let m = basis.modulus(i);
                    let (lo, hi) = out.split_at_mut(half);
                    let [first, second] = match part {
                        0 => constant_halves(&basis, i, start[0], start[1]),
                        _ => [0; 2],
                    };
                    lo.fill(first);
                    hi.fill(second);
                    for ((a, _), [re, im]) in terms.iter().zip(&constants) {
                        let [f, g] = constant_halves(&basis, i, *re, *im);
                        let (x, y) = a.parts()[part].limb(i).split_at(half);
                        basis.backend().scalar_mul_add(m, lo, x, m.shoup(f));
                        basis.backend().scalar_mul_add(m, hi, y, m.shoup(g));
                    }
                })
            })
            .collect();
        self.counter.pt_ct(terms.len());
        Ok(self.made(parts, scale))
    }
}
