//! The generator of secrets: keys, errors, masks.

use aes::cipher::{Block, BlockCipherEncrypt, KeyInit};
use aes::Aes256;
use rand::rngs::SysRng;
use rand::TryRng;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::backend::ScalarBackend;
use crate::basis::Basis;
use crate::error::RingError;
use crate::modulus::Modulus;
use crate::poly::{Coeff, Poly, Repr, SecretPoly};
use crate::xof::{fill_uniform, PublicSeed};

/// Context of the derivation of generator keys.
const KEY_CONTEXT: &str = "cipherloom 2026-11 ring secret generator v1";
/// Context of the derivation of seeds: a seed and a generator of one label have nothing in common.
const SEED_CONTEXT: &str = "cipherloom 2026-11 ring secret seed v1";

/// A 32-byte master seed. Wiped on drop; neither `Clone` nor serialisable nor printable.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct SecretSeed([u8; 32]);

impl SecretSeed {
    /// A fresh seed from the operating system.
    ///
    /// # Errors
    /// [`RingError::Entropy`].
    pub fn from_os() -> Result<Self, RingError> {
        let mut seed = Self([0; 32]);
        SysRng
            .try_fill_bytes(&mut seed.0)
            .map_err(|e| RingError::Entropy {
                reason: e.to_string(),
            })?;
        Ok(seed)
    }

    /// A stored seed (a key file, or a fixed one in tests).
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes, for the owner's own key file.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// The generator for one purpose: `label` names (session, party, purpose), `counter` the use.
    /// Different pairs give independent streams, independent of every derived seed as well.
    pub fn derive(&self, label: &str, counter: u64) -> SecretPrg {
        SecretPrg::from_key(Zeroizing::new(self.derive_bytes(
            KEY_CONTEXT,
            label,
            counter,
        )))
    }

    /// An independent seed for one purpose.
    pub fn derive_seed(&self, label: &str, counter: u64) -> SecretSeed {
        SecretSeed(self.derive_bytes(SEED_CONTEXT, label, counter))
    }

    fn derive_bytes(&self, context: &str, label: &str, counter: u64) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key(context);
        hasher.update(&self.0);
        hasher.update(&(label.len() as u64).to_le_bytes());
        hasher.update(label.as_bytes());
        hasher.update(&counter.to_le_bytes());
        let mut reader = hasher.finalize_xof();
        let mut key = [0; 32];
        reader.fill(&mut key);
        reader.zeroize();
        hasher.zeroize();
        key
    }
}

/// Cipher blocks that are encrypted at a time.
const BATCH: usize = 64;
/// Bytes of one cipher block.
const BLOCK: usize = 16;

/// A cryptographic generator for secrets: AES-256 in counter mode under a derived key.
///
/// Neither `Clone` nor serialisable; key schedule and buffer are wiped on drop. The samplers take
/// the same time for all values they may return: rejection skips words that are never used.
pub struct SecretPrg {
    cipher: Aes256,
    counter: u128,
    buffer: [u8; BATCH * BLOCK],
    /// Bytes of the buffer that were handed out.
    used: usize,
}

impl Drop for SecretPrg {
    fn drop(&mut self) {
        // `Aes256` wipes its key schedule itself.
        self.buffer.zeroize();
        self.counter.zeroize();
    }
}

impl std::fmt::Debug for SecretPrg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretPrg(..)")
    }
}

impl SecretPrg {
    /// A generator seeded by the operating system.
    ///
    /// # Errors
    /// [`RingError::Entropy`].
    pub fn from_os() -> Result<Self, RingError> {
        Ok(SecretSeed::from_os()?.derive("fresh", 0))
    }

    fn from_key(key: Zeroizing<[u8; 32]>) -> Self {
        Self {
            cipher: Aes256::new((&*key).into()),
            counter: 0,
            buffer: [0; BATCH * BLOCK],
            used: BATCH * BLOCK,
        }
    }

    /// A child generator, independent of everything else drawn from `self`.
    pub fn fork(&mut self, label: &str) -> SecretPrg {
        self.fork_seed().derive(label, 0)
    }

    /// A fresh secret seed.
    pub fn fork_seed(&mut self) -> SecretSeed {
        let mut seed = SecretSeed([0; 32]);
        self.fill_bytes(&mut seed.0);
        seed
    }

    /// A fresh seed that may be published, for [`crate::UniformXof`].
    pub fn public_seed(&mut self) -> PublicSeed {
        let mut bytes = [0; 32];
        self.fill_bytes(&mut bytes);
        PublicSeed(bytes)
    }

    /// Writes the next key stream over `out`, a multiple of the cipher block.
    fn stream(&mut self, out: &mut [u8]) {
        for block in out.chunks_exact_mut(BLOCK) {
            block.copy_from_slice(&self.counter.to_le_bytes());
            self.counter = self.counter.wrapping_add(1);
        }
        let (blocks, _) = Block::<Aes256>::slice_as_chunks_mut(out);
        self.cipher.encrypt_blocks(blocks);
    }

    /// Fills `out` with uniform bytes.
    pub fn fill_bytes(&mut self, mut out: &mut [u8]) {
        while !out.is_empty() {
            if self.used == self.buffer.len() {
                // Whole batches go straight to the output.
                let whole = out.len() - out.len() % (BATCH * BLOCK);
                let (head, tail) = out.split_at_mut(whole);
                for batch in head.chunks_exact_mut(BATCH * BLOCK) {
                    self.stream(batch);
                }
                out = tail;
                if out.is_empty() {
                    return;
                }
                let mut buffer = std::mem::replace(&mut self.buffer, [0; BATCH * BLOCK]);
                self.stream(&mut buffer);
                self.buffer = buffer;
                buffer.zeroize();
                self.used = 0;
            }
            let take = out.len().min(self.buffer.len() - self.used);
            let (head, tail) = out.split_at_mut(take);
            let fresh = &mut self.buffer[self.used..self.used + take];
            head.copy_from_slice(fresh);
            // What was handed out does not stay behind.
            fresh.fill(0);
            self.used += take;
            out = tail;
        }
    }

    /// A uniform 64-bit word.
    pub fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill_bytes(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// `n` values, uniform in {-1, 0, 1} exactly: five base-3 digits of each byte below 243.
    pub fn ternary(&mut self, n: usize) -> Zeroizing<Vec<i8>> {
        let mut out = Zeroizing::new(Vec::with_capacity(n));
        let mut block = Zeroizing::new([0u8; 256]);
        while out.len() < n {
            self.fill_bytes(&mut block[..]);
            for &byte in block.iter() {
                if byte >= 243 {
                    continue;
                }
                let mut rest = u32::from(byte);
                for _ in 0..5 {
                    // floor(rest / 3) for rest < 256 by a multiplication, not a division.
                    let third = (rest * 171) >> 9;
                    if out.len() < n {
                        out.push((rest - 3 * third) as i8 - 1);
                    }
                    rest = third;
                }
            }
        }
        out
    }

    /// `n` values of the centred binomial distribution with parameter 21 (variance 10.5,
    /// `|e| <= 21`): the number of ones in 42 bits, less 21. That is distributed as the ones of 21
    /// bits less those of 21 others, since the complement of a uniform bit is uniform.
    pub fn cbd21(&mut self, n: usize) -> Zeroizing<Vec<i8>> {
        let mut out = Zeroizing::new(Vec::with_capacity(n));
        // Six bytes a value, read as eight: two spare bytes at the end, masked away.
        let mut bytes = Zeroizing::new([0u8; 6 * 128 + 2]);
        let mut words = Zeroizing::new([0u64; 128]);
        while out.len() < n {
            let want = (n - out.len()).min(128);
            self.fill_bytes(&mut bytes[..6 * want]);
            for (i, word) in words.iter_mut().enumerate() {
                let mut eight = [0; 8];
                eight.copy_from_slice(&bytes[6 * i..6 * i + 8]);
                *word = u64::from_le_bytes(eight) & ((1 << 42) - 1);
            }
            for word in words.iter_mut() {
                *word = count_ones(*word);
            }
            out.extend(words[..want].iter().map(|&c| c as i8 - 21));
        }
        out
    }

    /// Fills `out` with uniform residues modulo `m`, by rejection: a mask.
    pub fn uniform(&mut self, m: &Modulus, out: &mut [u64]) {
        fill_uniform(&ScalarBackend, m, out, |bytes| self.fill_bytes(bytes));
    }

    /// A uniform mask over `basis`: every limb by rejection, uniform modulo the whole product.
    pub fn uniform_poly<R: Repr>(&mut self, basis: &Basis) -> SecretPoly<R> {
        // A generator for each limb, so that limbs fill in parallel.
        let seeds: Vec<SecretSeed> = basis.tables().iter().map(|_| self.fork_seed()).collect();
        let mut out = Poly::zero(basis);
        out.each(|b, i, limb| {
            let mut prg = seeds[i].derive("limb", i as u64);
            fill_uniform(b.backend(), b.modulus(i), limb, |bytes| {
                prg.fill_bytes(bytes);
            });
        });
        SecretPoly::new(out)
    }

    /// A uniform ternary polynomial: one integer polynomial, reduced modulo every prime.
    ///
    /// # Errors
    /// None in practice; lengths match by construction.
    pub fn ternary_poly(&mut self, basis: &Basis) -> Result<SecretPoly<Coeff>, RingError> {
        Ok(SecretPoly::new(Poly::from_i8(
            basis,
            &self.ternary(basis.n()),
        )?))
    }

    /// An error polynomial with coefficients from [`SecretPrg::cbd21`], reduced modulo every prime.
    ///
    /// # Errors
    /// None in practice; lengths match by construction.
    pub fn cbd21_poly(&mut self, basis: &Basis) -> Result<SecretPoly<Coeff>, RingError> {
        Ok(SecretPoly::new(Poly::from_i8(
            basis,
            &self.cbd21(basis.n()),
        )?))
    }
}

/// The number of ones of a word below 2^56, by pairwise sums. No table, no branch; loops over it
/// vectorise on every processor.
#[inline]
fn count_ones(x: u64) -> u64 {
    let x = x - ((x >> 1) & 0x5555_5555_5555_5555);
    let x = (x & 0x3333_3333_3333_3333) + ((x >> 2) & 0x3333_3333_3333_3333);
    let x = (x + (x >> 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    let x = x + (x >> 8);
    let x = x + (x >> 16);
    (x + (x >> 32)) & 0x3f
}
