//! The plain oracle of [`SlotDomain`]: complex vectors with a level, exact counts, live ciphertexts.

use crate::{KernelError, SlotDomain};
use cipherloom_ckks::{Complex64, LiveCounter, LiveGuard};
use cipherloom_spec::cost::HeCounts;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A plain vector that behaves like a ciphertext of a level.
#[derive(Debug)]
pub struct SimCiphertext {
    values: Vec<Complex64>,
    level: usize,
    _live: LiveGuard,
}

impl SimCiphertext {
    /// The slots.
    #[must_use]
    pub fn values(&self) -> &[Complex64] {
        &self.values
    }
}

/// A plain factor or term.
#[derive(Debug, Clone)]
pub struct SimPlain {
    values: Vec<Complex64>,
    level: usize,
    factor: bool,
}

/// A sum of plaintext products before its rescale.
#[derive(Debug)]
pub struct SimAcc(SimCiphertext);

/// The simulator. It also records which rotations were used and up to which level.
#[derive(Debug)]
pub struct SlotSim {
    slots: usize,
    base_level: usize,
    counts: Mutex<HeCounts>,
    rotations: Mutex<BTreeMap<usize, usize>>,
    live: LiveCounter,
}

impl SlotSim {
    /// A simulator of `slots` slots that refuses to rescale below `base_level`.
    #[must_use]
    pub fn new(slots: usize, base_level: usize) -> Self {
        Self {
            slots,
            base_level,
            counts: Mutex::new(HeCounts::default()),
            rotations: Mutex::new(BTreeMap::new()),
            live: LiveCounter::new(),
        }
    }

    /// A fresh input at `level`, one value a slot.
    ///
    /// # Errors
    /// `Slots`.
    pub fn input(
        &self,
        values: Vec<Complex64>,
        level: usize,
    ) -> Result<SimCiphertext, KernelError> {
        self.check_slots("input", values.len())?;
        Ok(self.made(values, level))
    }

    /// The rotations used so far, `1..slots`, each with the highest level it was used at.
    #[must_use]
    pub fn rotations(&self) -> BTreeMap<usize, usize> {
        self.rotations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn made(&self, values: Vec<Complex64>, level: usize) -> SimCiphertext {
        SimCiphertext {
            values,
            level,
            _live: self.live.register(),
        }
    }

    fn count(&self, f: impl FnOnce(&mut HeCounts)) {
        f(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn check_slots(&self, op: &'static str, got: usize) -> Result<(), KernelError> {
        if got == self.slots {
            Ok(())
        } else {
            Err(KernelError::Slots {
                op,
                got,
                slots: self.slots,
            })
        }
    }

    fn check_rescale(&self, op: &'static str, level: usize) -> Result<(), KernelError> {
        if level > self.base_level {
            Ok(())
        } else {
            Err(KernelError::LevelExhausted {
                op,
                level,
                base: self.base_level,
            })
        }
    }

    /// The common level of two operands; counts the align of the higher one.
    fn common_level(&self, op: &'static str, a: usize, b: usize) -> Result<usize, KernelError> {
        let level = a.min(b);
        if a != b {
            // Aligning rescales from one above.
            self.check_rescale(op, level + 1)?;
            self.count(|c| c.aligns += 1);
        }
        Ok(level)
    }

    fn check_factor(
        &self,
        op: &'static str,
        a: &SimCiphertext,
        b: &SimPlain,
    ) -> Result<(), KernelError> {
        if !b.factor {
            return Err(KernelError::PlainUse {
                op,
                have: "sum",
                want: "product",
            });
        }
        same_level(op, a.level, b.level)?;
        self.check_rescale(op, a.level)
    }

    fn combine(
        &self,
        op: &'static str,
        a: &mut SimCiphertext,
        b: &SimCiphertext,
        f: impl Fn(Complex64, Complex64) -> Complex64,
    ) -> Result<(), KernelError> {
        a.level = self.common_level(op, a.level, b.level)?;
        for (x, &y) in a.values.iter_mut().zip(&b.values) {
            *x = f(*x, y);
        }
        Ok(())
    }
}

fn same_level(op: &'static str, left: usize, right: usize) -> Result<(), KernelError> {
    if left == right {
        Ok(())
    } else {
        Err(KernelError::LevelMismatch { op, left, right })
    }
}

impl SlotDomain for SlotSim {
    type Ct = SimCiphertext;
    type Plain = SimPlain;
    type Acc = SimAcc;

    fn slots(&self) -> usize {
        self.slots
    }
    fn base_level(&self) -> usize {
        self.base_level
    }
    fn level(&self, a: &SimCiphertext) -> usize {
        a.level
    }
    fn counts(&self) -> HeCounts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn live(&self) -> &LiveCounter {
        &self.live
    }

    fn encode_factor(&self, values: &[Complex64], level: usize) -> Result<SimPlain, KernelError> {
        self.check_slots("encode_factor", values.len())?;
        self.check_rescale("encode_factor", level)?;
        Ok(SimPlain {
            values: values.to_vec(),
            level,
            factor: true,
        })
    }

    fn encode_term(&self, values: &[Complex64], level: usize) -> Result<SimPlain, KernelError> {
        self.check_slots("encode_term", values.len())?;
        Ok(SimPlain {
            values: values.to_vec(),
            level,
            factor: false,
        })
    }

    fn copy(&self, a: &SimCiphertext) -> SimCiphertext {
        self.made(a.values.clone(), a.level)
    }

    fn add_assign(&self, a: &mut SimCiphertext, b: &SimCiphertext) -> Result<(), KernelError> {
        self.combine("add", a, b, |x, y| x + y)
    }

    fn sub_assign(&self, a: &mut SimCiphertext, b: &SimCiphertext) -> Result<(), KernelError> {
        self.combine("sub", a, b, |x, y| x - y)
    }

    fn add_plain_assign(&self, a: &mut SimCiphertext, b: &SimPlain) -> Result<(), KernelError> {
        const OP: &str = "add_plain";
        if b.factor {
            return Err(KernelError::PlainUse {
                op: OP,
                have: "product",
                want: "sum",
            });
        }
        same_level(OP, a.level, b.level)?;
        for (x, &y) in a.values.iter_mut().zip(&b.values) {
            *x += y;
        }
        Ok(())
    }

    fn mul(&self, a: &SimCiphertext, b: &SimCiphertext) -> Result<SimCiphertext, KernelError> {
        const OP: &str = "mul";
        self.check_rescale(OP, a.level.min(b.level))?;
        let level = self.common_level(OP, a.level, b.level)?;
        self.count(|c| {
            c.ct_ct += 1;
            c.relinearizations += 1;
            c.rescales += 1;
        });
        let values = a.values.iter().zip(&b.values).map(|(&x, &y)| x * y);
        Ok(self.made(values.collect(), level - 1))
    }

    fn mul_plain_sum(
        &self,
        terms: &[(&SimCiphertext, &SimPlain)],
    ) -> Result<SimCiphertext, KernelError> {
        const OP: &str = "mul_plain_sum";
        let (first, _) = terms.first().ok_or(KernelError::Empty { op: OP })?;
        let mut values = vec![Complex64::ZERO; self.slots];
        for (a, b) in terms {
            same_level(OP, first.level, a.level)?;
            self.check_factor(OP, a, b)?;
            for ((v, &x), &y) in values.iter_mut().zip(&a.values).zip(&b.values) {
                *v += x * y;
            }
        }
        self.count(|c| {
            c.pt_ct += terms.len() as u64;
            c.rescales += 1;
        });
        Ok(self.made(values, first.level - 1))
    }

    fn accumulate(
        &self,
        acc: &mut Option<SimAcc>,
        a: &SimCiphertext,
        b: &SimPlain,
    ) -> Result<(), KernelError> {
        const OP: &str = "accumulate";
        self.check_factor(OP, a, b)?;
        let products = a.values.iter().zip(&b.values).map(|(&x, &y)| x * y);
        match acc {
            None => *acc = Some(SimAcc(self.made(products.collect(), a.level))),
            Some(SimAcc(sum)) => {
                same_level(OP, sum.level, a.level)?;
                for (v, p) in sum.values.iter_mut().zip(products) {
                    *v += p;
                }
            }
        }
        self.count(|c| c.pt_ct += 1);
        Ok(())
    }

    fn finish(&self, acc: SimAcc) -> Result<SimCiphertext, KernelError> {
        let mut ct = acc.0;
        self.check_rescale("finish", ct.level)?;
        self.count(|c| c.rescales += 1);
        ct.level -= 1;
        Ok(ct)
    }

    fn align(&self, a: &SimCiphertext, level: usize) -> Result<SimCiphertext, KernelError> {
        if level > a.level {
            return Err(KernelError::AlignUp {
                level: a.level,
                target: level,
            });
        }
        self.common_level("align", a.level, level)?;
        Ok(self.made(a.values.clone(), level))
    }

    fn rotate(&self, a: &SimCiphertext, r: i64) -> Result<SimCiphertext, KernelError> {
        let left = r.rem_euclid(self.slots as i64) as usize;
        let mut values = a.values.clone();
        if left != 0 {
            values.rotate_left(left);
            self.count(|c| c.rotations += 1);
            let mut used = self
                .rotations
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let level = used.entry(left).or_insert(a.level);
            *level = a.level.max(*level);
        }
        Ok(self.made(values, a.level))
    }

    fn rotate_many(
        &self,
        a: &SimCiphertext,
        rs: &[i64],
    ) -> Result<Vec<SimCiphertext>, KernelError> {
        rs.iter().map(|&r| self.rotate(a, r)).collect()
    }

    fn conjugate(&self, a: &SimCiphertext) -> Result<SimCiphertext, KernelError> {
        self.count(|c| c.conjugations += 1);
        let values = a.values.iter().map(|v| v.conj()).collect();
        Ok(self.made(values, a.level))
    }

    fn mul_by_i(&self, a: &SimCiphertext) -> Result<SimCiphertext, KernelError> {
        let values = a.values.iter().map(|&v| v * Complex64::I).collect();
        Ok(self.made(values, a.level))
    }
}
