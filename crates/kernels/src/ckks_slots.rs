//! [`SlotDomain`] over CKKS ciphertexts.

use crate::{KernelError, SlotDomain};
use cipherloom_ckks::{Ciphertext, Complex64, Evaluator, LiveCounter, LiveGuard, Plaintext};
use cipherloom_spec::cost::HeCounts;

/// A CKKS ciphertext at the canonical scale of its level, counted while it lives.
#[derive(Debug)]
pub struct SlotCiphertext {
    ct: Ciphertext,
    _live: LiveGuard,
}

impl SlotCiphertext {
    /// The ciphertext.
    #[must_use]
    pub fn ciphertext(&self) -> &Ciphertext {
        &self.ct
    }
    /// Takes the ciphertext out; it no longer counts as live.
    #[must_use]
    pub fn into_ciphertext(self) -> Ciphertext {
        self.ct
    }
}

/// A sum of plaintext products before its rescale.
#[derive(Debug)]
pub struct SlotAcc(SlotCiphertext);

/// Slot operations on ciphertexts with the evaluation keys of one client.
#[derive(Debug)]
pub struct CkksSlots {
    evaluator: Evaluator,
    live: LiveCounter,
}

impl CkksSlots {
    /// Operates with this evaluator. Live ciphertexts are counted here, by handle, not in the evaluator.
    #[must_use]
    pub fn new(evaluator: Evaluator) -> Self {
        Self {
            evaluator,
            live: LiveCounter::new(),
        }
    }

    /// The evaluator.
    #[must_use]
    pub fn evaluator(&self) -> &Evaluator {
        &self.evaluator
    }

    /// Takes a ciphertext that came from elsewhere.
    ///
    /// # Errors
    /// `ScaleMismatch` unless it has the canonical scale of its level; `ParamsMismatch`.
    pub fn input(&self, ct: Ciphertext) -> Result<SlotCiphertext, KernelError> {
        // Aligning to the own level checks parameters and scale.
        self.evaluator.align(&ct, ct.level())?;
        Ok(self.made(ct))
    }

    fn made(&self, ct: Ciphertext) -> SlotCiphertext {
        SlotCiphertext {
            ct,
            _live: self.live.register(),
        }
    }

    fn check_slots(&self, op: &'static str, got: usize) -> Result<(), KernelError> {
        let slots = self.slots();
        if got == slots {
            Ok(())
        } else {
            Err(KernelError::Slots { op, got, slots })
        }
    }

    /// Calls `f` on two operands at the lower of their levels.
    fn at_common_level<T>(
        &self,
        a: &Ciphertext,
        b: &Ciphertext,
        f: impl FnOnce(&Ciphertext, &Ciphertext) -> Result<T, cipherloom_ckks::CkksError>,
    ) -> Result<T, KernelError> {
        let e = &self.evaluator;
        Ok(match a.level().cmp(&b.level()) {
            std::cmp::Ordering::Equal => f(a, b)?,
            std::cmp::Ordering::Greater => f(&e.align(a, b.level())?, b)?,
            std::cmp::Ordering::Less => f(a, &e.align(b, a.level())?)?,
        })
    }
}

impl SlotDomain for CkksSlots {
    type Ct = SlotCiphertext;
    type Plain = Plaintext;
    type Acc = SlotAcc;

    fn slots(&self) -> usize {
        self.evaluator.params().slots()
    }
    fn base_level(&self) -> usize {
        self.evaluator.params().base_level()
    }
    fn level(&self, a: &SlotCiphertext) -> usize {
        a.ct.level()
    }
    fn counts(&self) -> HeCounts {
        self.evaluator.counts()
    }
    fn live(&self) -> &LiveCounter {
        &self.live
    }

    fn encode_factor(&self, values: &[Complex64], level: usize) -> Result<Plaintext, KernelError> {
        self.check_slots("encode_factor", values.len())?;
        Ok(self.evaluator.encoder().encode_for_product(values, level)?)
    }

    fn encode_real_factor(&self, values: &[f64], level: usize) -> Result<Plaintext, KernelError> {
        self.check_slots("encode_factor", values.len())?;
        Ok(self
            .evaluator
            .encoder()
            .encode_real_for_product(values, level)?)
    }

    fn encode_term(&self, values: &[Complex64], level: usize) -> Result<Plaintext, KernelError> {
        self.check_slots("encode_term", values.len())?;
        let scale = self.evaluator.params().scale(level);
        Ok(self.evaluator.encoder().encode(values, level, scale)?)
    }

    fn copy(&self, a: &SlotCiphertext) -> SlotCiphertext {
        self.made(a.ct.clone())
    }

    fn add_assign(&self, a: &mut SlotCiphertext, b: &SlotCiphertext) -> Result<(), KernelError> {
        let e = &self.evaluator;
        if a.ct.level() > b.ct.level() {
            a.ct = e.align(&a.ct, b.ct.level())?;
        }
        if b.ct.level() > a.ct.level() {
            let low = e.align(&b.ct, a.ct.level())?;
            return Ok(e.add_assign(&mut a.ct, &low)?);
        }
        Ok(e.add_assign(&mut a.ct, &b.ct)?)
    }

    fn sub_assign(&self, a: &mut SlotCiphertext, b: &SlotCiphertext) -> Result<(), KernelError> {
        let e = &self.evaluator;
        if a.ct.level() > b.ct.level() {
            a.ct = e.align(&a.ct, b.ct.level())?;
        }
        if b.ct.level() > a.ct.level() {
            let low = e.align(&b.ct, a.ct.level())?;
            return Ok(e.sub_assign(&mut a.ct, &low)?);
        }
        Ok(e.sub_assign(&mut a.ct, &b.ct)?)
    }

    fn add_plain_assign(&self, a: &mut SlotCiphertext, b: &Plaintext) -> Result<(), KernelError> {
        a.ct = self.evaluator.add_plain(&a.ct, b)?;
        Ok(())
    }

    fn mul(&self, a: &SlotCiphertext, b: &SlotCiphertext) -> Result<SlotCiphertext, KernelError> {
        let e = &self.evaluator;
        let level = a.ct.level().min(b.ct.level());
        if level <= self.base_level() {
            return Err(KernelError::LevelExhausted {
                op: "mul",
                level,
                base: self.base_level(),
            });
        }
        let product = self.at_common_level(&a.ct, &b.ct, |a, b| e.mul_relin_rescale(a, b))?;
        Ok(self.made(product))
    }

    fn mul_plain_sum(
        &self,
        terms: &[(&SlotCiphertext, &Plaintext)],
    ) -> Result<SlotCiphertext, KernelError> {
        if terms.is_empty() {
            return Err(KernelError::Empty {
                op: "mul_plain_sum",
            });
        }
        // A wrong operand is named before a missing level is.
        if let Some((a, b)) = terms.iter().find(|(a, b)| a.ct.level() != b.level()) {
            return Err(KernelError::LevelMismatch {
                op: "mul_plain_sum",
                left: a.ct.level(),
                right: b.level(),
            });
        }
        let terms: Vec<_> = terms.iter().map(|(a, b)| (&a.ct, *b)).collect();
        Ok(self.made(self.evaluator.mul_plain_accumulate(&terms)?))
    }

    fn accumulate(
        &self,
        acc: &mut Option<SlotAcc>,
        a: &SlotCiphertext,
        b: &Plaintext,
    ) -> Result<(), KernelError> {
        match acc {
            None => *acc = Some(SlotAcc(self.made(self.evaluator.mul_plain(&a.ct, b)?))),
            Some(SlotAcc(sum)) => self.evaluator.mul_plain_add_assign(&mut sum.ct, &a.ct, b)?,
        }
        Ok(())
    }

    fn finish(&self, acc: SlotAcc) -> Result<SlotCiphertext, KernelError> {
        let mut out = acc.0;
        out.ct = self.evaluator.rescale(&out.ct)?;
        Ok(out)
    }

    fn align(&self, a: &SlotCiphertext, level: usize) -> Result<SlotCiphertext, KernelError> {
        if level > a.ct.level() {
            return Err(KernelError::AlignUp {
                level: a.ct.level(),
                target: level,
            });
        }
        Ok(self.made(self.evaluator.align(&a.ct, level)?))
    }

    fn rotate(&self, a: &SlotCiphertext, r: i64) -> Result<SlotCiphertext, KernelError> {
        Ok(self.made(self.evaluator.rotate(&a.ct, r)?))
    }

    fn rotate_many(
        &self,
        a: &SlotCiphertext,
        rs: &[i64],
    ) -> Result<Vec<SlotCiphertext>, KernelError> {
        let all = self.evaluator.rotate_many(&a.ct, rs)?;
        Ok(all.into_iter().map(|ct| self.made(ct)).collect())
    }

    fn conjugate(&self, a: &SlotCiphertext) -> Result<SlotCiphertext, KernelError> {
        Ok(self.made(self.evaluator.conjugate(&a.ct)?))
    }

    fn mul_by_i(&self, a: &SlotCiphertext) -> Result<SlotCiphertext, KernelError> {
        Ok(self.made(self.evaluator.mul_by_i(&a.ct)?))
    }
}
