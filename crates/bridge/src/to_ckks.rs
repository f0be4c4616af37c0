//! Integer shares of slots to ciphertexts, one flight (protocols.md 6.3, 6.5, R14).
//!
//! Each party encodes its own integers at the exact canonical scale of the level and reduces modulo every prime; the client
//! sends a seeded encryption of its polynomial, the server adds its own to `c_0`. The sum of the two integers must be the
//! value itself, not only modulo 2^64. Shares modulo 2^64 are first extended to 88 bits ([`crate::extend`]); integer shares
//! that came from CKKS and saw only local linear steps are used as they are, and lift exactly.

use crate::codec::{encode_poly, encode_shares, SlotFormat, SlotWords};
use crate::wide::WideFft;
use crate::BridgeError;
use cipherloom_ckks::size::seeded_ciphertext_bytes;
use cipherloom_ckks::{Ciphertext, CkksParameters, SecretEncryptor, SeededCiphertext};
use cipherloom_net::{Channel, FrameKind};
use cipherloom_ring::Basis;
use cipherloom_spec::fixed::EXTENDED_BITS;
use cipherloom_spec::FracBits;
use rayon::prelude::*;
use std::sync::Arc;

/// Ciphertexts that are encoded and encrypted at a time: bounds memory, keeps the threads busy.
const BATCH: usize = 16;

/// The boundary from integer shares to ciphertexts at one level: tables and checks, no secret. Both parties build the same
/// one from the plan.
pub struct SharesToCkks {
    params: CkksParameters,
    fft: Arc<WideFft>,
    level: usize,
    basis: Basis,
    format: SlotFormat,
    word_bits: u32,
}

impl SharesToCkks {
    /// For shares that were extended to 88 bits ([`crate::extend`]).
    ///
    /// # Errors
    /// As [`SharesToCkks::for_integers`].
    pub fn new(
        params: &CkksParameters,
        fft: &Arc<WideFft>,
        level: usize,
        frac: FracBits,
    ) -> Result<Self, BridgeError> {
        Self::for_integers(params, fft, level, frac, EXTENDED_BITS)
    }

    /// For integer shares with `|word| <= 2^word_bits`: those of [`crate::CkksToShares::word_bits`], plus what the local
    /// linear steps since then add.
    ///
    /// # Errors
    /// `Ckks` when the level is not in the chain; `Headroom` when 128-bit fixed point cannot encode such words;
    /// `Length` when the FFT belongs to another ring.
    pub fn for_integers(
        params: &CkksParameters,
        fft: &Arc<WideFft>,
        level: usize,
        frac: FracBits,
        word_bits: u32,
    ) -> Result<Self, BridgeError> {
        if fft.slots() != params.slots() {
            return Err(BridgeError::Length {
                what: "slots of the wide FFT",
                got: fft.slots(),
                expected: params.slots(),
            });
        }
        let format = SlotFormat::new(params.scale(level), frac);
        let zeros = vec![0; params.slots()];
        // Fails now rather than at the first ciphertext.
        encode_shares(fft, &zeros, &zeros, word_bits, &format)?;
        Ok(Self {
            params: params.clone(),
            fft: Arc::clone(fft),
            level,
            basis: params.basis(level)?,
            format,
            word_bits,
        })
    }

    /// Level of the ciphertexts.
    #[must_use]
    pub fn level(&self) -> usize {
        self.level
    }

    /// Their scale (canonical for the level) and the fraction bits of the words.
    #[must_use]
    pub fn format(&self) -> &SlotFormat {
        &self.format
    }

    /// Client: encrypts its words, one ciphertext an element, and sends them.
    ///
    /// One flight, [`crate::size::to_ckks_bytes`] bytes. Cost of each: one wide FFT, two NTTs and one uniform expansion a limb.
    ///
    /// # Errors
    /// `Length` for a lane of another length than the slots; transport errors.
    pub fn client(
        &self,
        words: &[SlotWords],
        encryptor: &SecretEncryptor,
        channel: &mut Channel,
    ) -> Result<(), BridgeError> {
        for batch in words.chunks(BATCH) {
            let encrypted = batch
                .par_iter()
                .map(|w| {
                    let poly =
                        encode_poly(&self.fft, &self.basis, w, self.word_bits, &self.format)?;
                    let ntt = poly.into_ntt();
                    let ct = encryptor.encrypt_poly(ntt.expose(), self.format.scale())?;
                    Ok(ct.to_bytes())
                })
                .collect::<Result<Vec<_>, BridgeError>>()?;
            for bytes in encrypted {
                channel
                    .send(FrameKind::Ciphertext, &bytes)
                    .map_err(cipherloom_mpc::MpcError::from)?;
            }
        }
        Ok(())
    }

    /// Server: receives one ciphertext an element of `words`, and adds its own words to it.
    ///
    /// Result: ciphertexts at [`SharesToCkks::level`] and its canonical scale that hold the sum of both parties' words, in both
    /// lanes, as `word / 2^F`.
    ///
    /// # Errors
    /// `Length` for a lane of another length; `Level` or `ScaleMismatch` when the client's ciphertext differs from the plan;
    /// `Ckks` for malformed bytes; transport errors.
    pub fn server(
        &self,
        words: &[SlotWords],
        channel: &mut Channel,
    ) -> Result<Vec<Ciphertext>, BridgeError> {
        const OP: &str = "shares to ciphertexts";
        let len = seeded_ciphertext_bytes(self.params.chain(), self.level);
        let mut out = Vec::with_capacity(words.len());
        for batch in words.chunks(BATCH) {
            let received = batch
                .iter()
                .map(|w| Ok((w, channel.recv(FrameKind::Ciphertext, len)?)))
                .collect::<Result<Vec<_>, cipherloom_mpc::MpcError>>()?;
            let sums = received
                .par_iter()
                .map(|(w, bytes)| {
                    let ct = SeededCiphertext::from_bytes(&self.params, bytes)?;
                    if ct.level() != self.level {
                        return Err(BridgeError::Level {
                            op: OP,
                            got: ct.level(),
                            min: self.level,
                        });
                    }
                    if ct.scale() != self.format.scale() {
                        return Err(BridgeError::ScaleMismatch {
                            op: OP,
                            got: ct.scale(),
                            want: self.format.scale(),
                        });
                    }
                    let own = encode_poly(&self.fft, &self.basis, w, self.word_bits, &self.format)?
                        .into_ntt();
                    let mut parts = ct.expand(&self.params)?.into_parts();
                    if let Some(c0) = parts.first_mut() {
                        c0.add_assign(own.expose())?;
                    }
                    Ok(Ciphertext::from_parts(
                        &self.params,
                        parts,
                        self.format.scale(),
                    )?)
                })
                .collect::<Result<Vec<_>, BridgeError>>()?;
            out.extend(sums);
        }
        Ok(out)
    }
}
