//! Ciphertexts to integer shares of their slots, one flight (protocols.md 6.1, 6.5, R1, R15).
//!
//! The server trims each ciphertext to the base level, re-randomises it and adds a mask `r` uniform modulo q (all in
//! [`cipherloom_mpc::export`]), and sends it. The client decrypts `p + r`. Both lift centred: `cl(p + r) - cl(r) = p` over the
//! integers unless a coefficient wraps ([`crate::to_shares_failure_log2`]). Each decodes its own integers. The sum of
//! the two decoded shares is within one unit of the slots times `2^F`, CKKS noise apart.

use crate::codec::{decode_shares, SlotFormat, SlotWords};
use crate::size::TO_SHARES_BATCH as BATCH;
use crate::wide::WideFft;
use crate::BridgeError;
use cipherloom_ckks::{Ciphertext, CkksParameters, Decryptor, PublicKey};
use cipherloom_mpc::export::{
    export, ExportKey, Exported, Mask, PreparedExport, ReceivedExport, MAX_DEGREE,
};
use cipherloom_net::Channel;
use cipherloom_ring::{Basis, Coeff, CrtLift, Ntt, Poly, SecretPoly, SecretPrg};
use cipherloom_spec::{FracBits, Scale};
use rayon::prelude::*;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The boundary from ciphertexts of one scale to shares of one format: tables and checks, no secret. Both parties build
/// the same one from the plan; it is shared by all threads.
pub struct CkksToShares {
    params: CkksParameters,
    fft: Arc<WideFft>,
    lift: CrtLift,
    format: SlotFormat,
    coeff_bits: u32,
    degree: usize,
}

/// The client's secret key in the form that the boundary needs. Wiped on drop.
pub struct ExportDecryptor {
    secret: SecretPoly<Ntt>,
}

impl ExportDecryptor {
    /// Takes the key from a decryptor, modulo the primes of the base level: the pair (0, 1) decrypts to `s`.
    ///
    /// # Errors
    /// Those of `ckks` when the decryptor belongs to other parameters.
    pub fn new(params: &CkksParameters, decryptor: &Decryptor) -> Result<Self, BridgeError> {
        let basis = params.basis(params.base_level())?;
        let zero = Poly::<Ntt>::zero(&basis);
        let one = Poly::<Coeff>::monomial(&basis, 0, 1).into_ntt();
        let pair = Ciphertext::from_parts(params, vec![zero, one], Scale::pow2(0))?;
        Ok(Self {
            secret: SecretPoly::new(decryptor.decrypt_ntt(&pair)?),
        })
    }
}

impl CkksToShares {
    /// The boundary for ciphertexts at `scale`, at any level from the base up, to words with `frac` fraction bits.
    ///
    /// `scale` is one exact number of the plan, as a rule the chain's canonical scale of the level at which the last stage
    /// ends; trimming to the base keeps it.
    ///
    /// # Errors
    /// `Ring` when the base modulus has more than 126 bits; `Headroom` when 128-bit fixed point cannot decode it;
    /// `RingDegree` or `Length` when the FFT belongs to another ring.
    pub fn new(
        params: &CkksParameters,
        fft: &Arc<WideFft>,
        scale: Scale,
        frac: FracBits,
    ) -> Result<Self, BridgeError> {
        if fft.slots() != params.slots() {
            return Err(BridgeError::Length {
                what: "slots of the wide FFT",
                got: fft.slots(),
                expected: params.slots(),
            });
        }
        let lift = CrtLift::new(&params.basis(params.base_level())?)?;
        // |c| < Q / 2.
        let coeff_bits = 127 - lift.product().leading_zeros();
        let boundary = Self {
            params: params.clone(),
            fft: Arc::clone(fft),
            lift,
            format: SlotFormat::new(scale, frac),
            coeff_bits,
            degree: 1,
        };
        // Fails now rather than at the first ciphertext.
        decode_shares(fft, &vec![0; params.n()], coeff_bits, &boundary.format)?;
        Ok(boundary)
    }

    /// The same boundary for ciphertexts of degree `degree` (2: products that were not relinearised, R2).
    ///
    /// # Errors
    /// `Length` outside 1..=2.
    pub fn with_degree(mut self, degree: usize) -> Result<Self, BridgeError> {
        if !(1..=MAX_DEGREE).contains(&degree) {
            return Err(BridgeError::Length {
                what: "degree of an exported ciphertext",
                got: degree,
                expected: MAX_DEGREE,
            });
        }
        self.degree = degree;
        Ok(self)
    }

    /// The scale and fraction bits.
    #[must_use]
    pub fn format(&self) -> &SlotFormat {
        &self.format
    }

    /// Bound on the integer shares that come out: `|word| <= 2^word_bits` in every case. Uniform shares are about
    /// `2^(log2 N / 2)` smaller. A caller that adds `k` of them adds `log2 k`.
    #[must_use]
    pub fn word_bits(&self) -> u32 {
        let bits = f64::from(self.coeff_bits + self.fft.log_n()) + f64::from(self.format.frac().0)
            - self.format.scale().log2();
        bits.ceil().max(0.0) as u32
    }

    /// Basis of the exported ciphertexts: the primes of the base level.
    #[must_use]
    pub fn basis(&self) -> &Basis {
        self.lift.basis()
    }

    /// The client's public key, cut to the primes that an export uses.
    ///
    /// # Errors
    /// `Ring` when the key has fewer primes; `Mpc`.
    pub fn export_key(&self, key: &PublicKey) -> Result<ExportKey, BridgeError> {
        let limbs = self.basis().len();
        Ok(ExportKey::new(
            key.b().prefix(limbs)?,
            key.a().prefix(limbs)?,
        )?)
    }

    /// Server, offline: the zeros and masks of `count` ciphertexts. Cost of each: 3 NTTs a limb and its samples.
    ///
    /// # Errors
    /// `Mpc` when the key does not cover the base primes.
    pub fn prepare(
        &self,
        key: &ExportKey,
        count: usize,
        prg: &mut SecretPrg,
    ) -> Result<Vec<PreparedExport>, BridgeError> {
        // One generator each, drawn in order, so that they can be used in parallel.
        let mut generators: Vec<SecretPrg> = (0..count).map(|_| prg.fork("export")).collect();
        Ok(generators
            .par_iter_mut()
            .map(|prg| PreparedExport::new(key, self.basis(), self.degree, prg))
            .collect::<Result<_, _>>()?)
    }

    /// Server: sends the ciphertexts masked and re-randomised, and returns its shares of their slots.
    ///
    /// One flight, [`crate::size::to_shares_bytes`] bytes. Consumes one prepared export a ciphertext. `&cts` is not changed. Cost
    /// of each: NTTs of the base limbs, one lift, one wide FFT.
    ///
    /// # Errors
    /// Before anything is sent: `Length` unless there is one prepared export a ciphertext, `ScaleMismatch`, `Level`, `Ckks` for
    /// another degree or other parameters. Transport errors.
    pub fn server(
        &self,
        cts: &[Ciphertext],
        prepared: Vec<PreparedExport>,
        channel: &mut Channel,
    ) -> Result<Vec<SlotWords>, BridgeError> {
        if prepared.len() != cts.len() {
            return Err(BridgeError::Length {
                what: "prepared exports",
                got: prepared.len(),
                expected: cts.len(),
            });
        }
        for ct in cts {
            self.check(ct)?;
        }
        let mut prepared = prepared.into_iter();
        let mut masks: Vec<Mask> = Vec::with_capacity(cts.len());
        for batch in cts.chunks(BATCH) {
            let randomness: Vec<PreparedExport> = prepared.by_ref().take(batch.len()).collect();
            let (exported, new_masks): (Vec<Exported>, Vec<Mask>) = batch
                .par_iter()
                .zip(randomness)
                .map(|(ct, prepared)| self.export_one(ct, prepared))
                .collect::<Result<Vec<_>, _>>()?
                .into_iter()
                .unzip();
            Exported::send_all(&exported, channel)?;
            masks.extend(new_masks);
        }
        // The client decrypts meanwhile.
        masks
            .into_par_iter()
            .map(|mask| self.decode(mask.into_poly().expose(), true))
            .collect()
    }

    /// Client: receives `count` masked ciphertexts and returns its shares of their slots.
    ///
    /// # Errors
    /// Transport errors, a message of another length among them; `Mpc` for a malformed residue.
    pub fn client(
        &self,
        count: usize,
        decryptor: &ExportDecryptor,
        channel: &mut Channel,
    ) -> Result<Vec<SlotWords>, BridgeError> {
        let mut out = Vec::new();
        let mut left = count;
        while left > 0 {
            let now = left.min(BATCH);
            let received = ReceivedExport::recv_all(channel, self.basis(), self.degree, now)?;
            let words = received
                .par_iter()
                .map(|ct| self.decode(ct.decrypt(&decryptor.secret)?.expose(), false))
                .collect::<Result<Vec<_>, BridgeError>>()?;
            out.extend(words);
            left -= now;
        }
        Ok(out)
    }

    fn check(&self, ct: &Ciphertext) -> Result<(), BridgeError> {
        const OP: &str = "ciphertexts to shares";
        if ct.digest() != self.params.digest() {
            return Err(cipherloom_ckks::CkksError::ParamsMismatch {
                what: OP,
                got: ct.digest(),
                expected: self.params.digest(),
            }
            .into());
        }
        if ct.parts().len() != self.degree + 1 {
            return Err(cipherloom_ckks::CkksError::Parts {
                op: OP,
                got: ct.parts().len(),
                expected: self.degree + 1,
            }
            .into());
        }
        if ct.level() + 1 < self.basis().len() {
            return Err(BridgeError::Level {
                op: OP,
                got: ct.level(),
                min: self.basis().len() - 1,
            });
        }
        if !ct.scale().matches(self.format.scale()) {
            return Err(BridgeError::ScaleMismatch {
                op: OP,
                got: ct.scale(),
                want: self.format.scale(),
            });
        }
        Ok(())
    }

    /// Trim, then zero, then mask (R15): the same message modulo the base primes, then the one export.
    fn export_one(
        &self,
        ct: &Ciphertext,
        prepared: PreparedExport,
    ) -> Result<(Exported, Mask), BridgeError> {
        let limbs = self.basis().len();
        let mut parts = ct
            .parts()
            .iter()
            .map(|p| p.prefix(limbs))
            .collect::<Result<Vec<_>, _>>()?;
        let rest = parts.split_off(1);
        let c0 = parts
            .pop()
            .map_or_else(|| Poly::zero(self.basis()), |c0: Poly<Ntt>| c0.into_coeff());
        Ok(export(c0, rest, prepared)?)
    }

    /// Centred lift of one party's polynomial (negated for the mask's owner), decoded.
    fn decode(&self, poly: &Poly<Coeff>, negate: bool) -> Result<SlotWords, BridgeError> {
        let mut coeffs = Zeroizing::new(self.lift.lift(poly)?);
        if negate {
            coeffs.iter_mut().for_each(|c| *c = -*c);
        }
        decode_shares(&self.fft, &coeffs, self.coeff_bits, &self.format)
    }
}
