//! Homomorphic operations.
//!
//! Rules of every operation: inputs are never changed, but for the first of a function that ends in `_assign`; operands must agree
//! in parameters, level and (for sums) scale, else a typed error names both; each operation is counted exactly once.
//!
//! Scales. The result of a product, a rescale or a level drop must have a scale that its level can hold, else there is an error and no
//! result: `ScaleTooLarge` unless twice the scale is below q_0 ... q_level, so that the value one and a bit for the sign fit;
//! `ScaleTooSmall` for a scale below N, about the largest error that one rounding adds to a slot. Constants
//! are known here: one that would take the value one beyond the level is `ValueTooLarge`. Encrypted values above one and sums of
//! many terms need more bits, and their size is not known here: a circuit leaves them room.
//!
//! Memory. Results take the polynomials of dropped results of the same evaluator: a loop that keeps as many ciphertexts in each turn
//! allocates none, whatever the levels, only the lists of the parts. Operations that end in `_assign` allocate nothing.

mod arith;
mod combine;
mod galois;
mod levels;
mod product;

use std::sync::Arc;

use cipherloom_ring::{Ntt, Poly};
use cipherloom_spec::cost::HeCounts;
use cipherloom_spec::Scale;

use crate::ciphertext::Ciphertext;
use crate::complex::Complex64;
use crate::counter::OpCounter;
use crate::encoder::Encoder;
use crate::error::CkksError;
use crate::keys::EvaluationKeys;
use crate::keyswitch::{Job, Source};
use crate::live::LiveCounter;
use crate::params::CkksParameters;
use crate::plaintext::Plaintext;
use crate::scratch::{PolyPool, ScratchPool};

pub use galois::Hoisted;

/// Operates on ciphertexts with the evaluation keys of one client. `Send + Sync`: threads share it
/// by reference, results do not depend on how they interleave.
#[derive(Debug)]
pub struct Evaluator {
    params: CkksParameters,
    encoder: Encoder,
    keys: Arc<EvaluationKeys>,
    counter: OpCounter,
    live: Option<LiveCounter>,
    pool: ScratchPool,
    /// Polynomials of dropped results.
    polys: Arc<PolyPool>,
}

impl Evaluator {
    /// An evaluator with these keys.
    ///
    /// # Errors
    /// `ParamsMismatch`.
    pub fn new(
        params: &CkksParameters,
        keys: impl Into<Arc<EvaluationKeys>>,
    ) -> Result<Self, CkksError> {
        let keys = keys.into();
        params.check_digest("evaluation keys", keys.params().digest())?;
        Ok(Self {
            params: params.clone(),
            encoder: Encoder::new(params),
            keys,
            counter: OpCounter::default(),
            live: None,
            pool: ScratchPool::default(),
            polys: Arc::default(),
        })
    }

    /// Registers every ciphertext that this evaluator makes from now on in `counter`.
    #[must_use]
    pub fn with_live_counter(mut self, counter: LiveCounter) -> Self {
        self.live = Some(counter);
        self
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> &CkksParameters {
        &self.params
    }

    /// An encoder for the same parameters.
    #[must_use]
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// The evaluation keys.
    #[must_use]
    pub fn keys(&self) -> &EvaluationKeys {
        &self.keys
    }

    /// Operations counted so far.
    #[must_use]
    pub fn counts(&self) -> HeCounts {
        self.counter.counts()
    }

    /// The live counter, if there is one.
    #[must_use]
    pub fn live(&self) -> Option<&LiveCounter> {
        self.live.as_ref()
    }

    /// Registers a ciphertext that came from elsewhere (received, expanded) in the live counter.
    pub fn track(&self, ct: &mut Ciphertext) {
        if let Some(live) = &self.live {
            ct.track(live);
        }
    }

    /// Wraps a result.
    fn made(&self, parts: Vec<Poly<Ntt>>, scale: Scale) -> Ciphertext {
        let mut ct = Ciphertext::raw(parts, scale, self.params.digest());
        ct.set_home(&self.polys);
        self.track(&mut ct);
        ct
    }

    /// `a b`, pointwise; the caller has checked that the bases agree.
    fn product(&self, a: &Poly<Ntt>, b: &Poly<Ntt>) -> Poly<Ntt> {
        let basis = a.basis();
        self.polys.build(basis, |i, out| {
            basis
                .backend()
                .mul(basis.modulus(i), out, a.limb(i), b.limb(i));
        })
    }

    /// `a_0 b_1 + a_1 b_0`, pointwise; the caller has checked that the bases agree.
    fn cross(&self, a: &[Poly<Ntt>], b: &[Poly<Ntt>]) -> Poly<Ntt> {
        let basis = a[0].basis();
        self.polys.build(basis, |i, out| {
            out.fill(0);
            let limbs = [(&a[0], &b[1]), (&a[1], &b[0])];
            let limbs = limbs.map(|(p, q)| (p.limb(i), q.limb(i)));
            basis.backend().dot_add(basis.modulus(i), out, &limbs);
        })
    }

    /// A copy that counts as a result of this evaluator.
    fn copy(&self, ct: &Ciphertext) -> Ciphertext {
        let parts = ct.parts().iter().map(|p| self.polys.copy(p)).collect();
        self.made(parts, ct.scale())
    }

    /// Switches with the scratch memory and the polynomials of this evaluator.
    fn switch<const K: usize>(
        &self,
        source: Source<'_>,
        rescale: bool,
        jobs: [Job<'_>; K],
    ) -> Result<[[Poly<Ntt>; 2]; K], CkksError> {
        let memory = (&self.pool, &*self.polys);
        self.params.tables().switch(source, rescale, jobs, memory)
    }

    fn check_ct(&self, ct: &Ciphertext) -> Result<(), CkksError> {
        self.params.check_digest("ciphertext", ct.digest())
    }

    fn check_pair(
        &self,
        op: &'static str,
        a: &Ciphertext,
        b: &Ciphertext,
    ) -> Result<(), CkksError> {
        self.check_ct(a)?;
        self.check_ct(b)?;
        same_level(op, a.level(), b.level())
    }

    /// Fails unless the value one at this scale is below half the modulus of the level.
    fn check_fits(&self, op: &'static str, level: usize, scale: Scale) -> Result<(), CkksError> {
        let log_modulus = self.params.chain().log_q(level);
        if scale.log2() + 1.0 < log_modulus {
            return Ok(());
        }
        Err(CkksError::ScaleTooLarge {
            op,
            scale,
            level,
            log_modulus,
        })
    }

    /// Fails for a scale below 2^`log_min`.
    fn check_min(
        &self,
        op: &'static str,
        level: usize,
        scale: Scale,
        log_min: u32,
    ) -> Result<(), CkksError> {
        // A scale that is a quotient of equal ones may be off by its rounding.
        if scale.log2() + 1e-6 >= f64::from(log_min) {
            return Ok(());
        }
        Err(CkksError::ScaleTooSmall {
            op,
            scale,
            level,
            log_min,
        })
    }

    /// Fails unless this constant, times the value one, is below half the modulus of the level at the scale of the product.
    fn check_value(&self, level: usize, value: Complex64, scale: Scale) -> Result<(), CkksError> {
        let log_limit = self.params.chain().log_q(level) - 1.0;
        let log = value.re.abs().max(value.im.abs()).log2() + scale.log2();
        // What is no number is refused where it is encoded.
        if log.is_nan() || log < log_limit {
            return Ok(());
        }
        Err(CkksError::ValueTooLarge {
            log_coefficient: (log / 8.0).ceil() * 8.0,
            log_limit,
            level,
            scale,
        })
    }

    /// Fails unless a result can have this scale at this level.
    fn check_result(&self, op: &'static str, level: usize, scale: Scale) -> Result<(), CkksError> {
        self.check_fits(op, level, scale)?;
        self.check_min(op, level, scale, self.params.chain().log_n())
    }

    fn check_plain(
        &self,
        op: &'static str,
        a: &Ciphertext,
        b: &Plaintext,
    ) -> Result<(), CkksError> {
        self.check_ct(a)?;
        self.params.check_digest("plaintext", b.digest())?;
        same_level(op, a.level(), b.level())
    }
}

fn same_level(op: &'static str, left: usize, right: usize) -> Result<(), CkksError> {
    if left == right {
        Ok(())
    } else {
        Err(CkksError::LevelMismatch { op, left, right })
    }
}

fn same_scale(op: &'static str, left: Scale, right: Scale) -> Result<(), CkksError> {
    if left.matches(right) {
        Ok(())
    } else {
        Err(CkksError::ScaleMismatch { op, left, right })
    }
}

fn two_parts(op: &'static str, ct: &Ciphertext) -> Result<(), CkksError> {
    if ct.parts().len() == 2 {
        Ok(())
    } else {
        Err(CkksError::Parts {
            op,
            got: ct.parts().len(),
            expected: 2,
        })
    }
}
