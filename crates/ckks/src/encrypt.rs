//! Encryption: under the public key, and seeded under the secret key.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use cipherloom_ring::vector::residues_of_bytes;
use cipherloom_ring::{Coeff, Ntt, Poly, SecretPrg, SecretSeed, UniformXof, Words};
use cipherloom_spec::Scale;
use zeroize::Zeroizing;

use crate::ciphertext::{Ciphertext, SeededCiphertext};
use crate::error::CkksError;
use crate::keys::{PublicKey, SecretKey};
use crate::params::CkksParameters;
use crate::plaintext::{check_basis, Plaintext};
use crate::scratch::for_each_limb_with;

/// Hands out one independent generator for each encryption, so that encryptors are `Sync`.
struct Generators {
    seed: SecretSeed,
    label: &'static str,
    next: AtomicU64,
}

impl Generators {
    fn fresh(label: &'static str) -> Result<Self, CkksError> {
        Ok(Self::seeded(SecretSeed::from_os()?, label))
    }

    fn seeded(seed: SecretSeed, label: &'static str) -> Self {
        Self {
            seed,
            label,
            next: AtomicU64::new(0),
        }
    }

    fn take(&self) -> SecretPrg {
        let counter = self.next.fetch_add(1, Ordering::Relaxed);
        self.seed.derive(self.label, counter)
    }
}

/// Encrypts under a public key. `Send + Sync`; each call uses its own randomness.
pub struct Encryptor {
    params: CkksParameters,
    key: Arc<PublicKey>,
    generators: Generators,
}

impl Encryptor {
    /// An encryptor seeded by the operating system.
    ///
    /// # Errors
    /// `ParamsMismatch`, those of the system's generator.
    pub fn new(params: &CkksParameters, key: impl Into<Arc<PublicKey>>) -> Result<Self, CkksError> {
        Self::build(
            params,
            key.into(),
            Generators::fresh("public-key encryption")?,
        )
    }

    /// An encryptor with a given seed, for reproducible tests. Two encryptors with one seed give the
    /// same randomness to different messages, which breaks them.
    ///
    /// # Errors
    /// `ParamsMismatch`.
    pub fn insecure_with_seed(
        params: &CkksParameters,
        key: impl Into<Arc<PublicKey>>,
        seed: SecretSeed,
    ) -> Result<Self, CkksError> {
        let generators = Generators::seeded(seed, "public-key encryption");
        Self::build(params, key.into(), generators)
    }

    fn build(
        params: &CkksParameters,
        key: Arc<PublicKey>,
        generators: Generators,
    ) -> Result<Self, CkksError> {
        params.check_digest("public key", key.digest())?;
        Ok(Self {
            params: params.clone(),
            key,
            generators,
        })
    }

    /// A fresh encryption of zero at `level`: `(v b + e0, v a + e1)` with v uniform ternary, errors
    /// centred binomial(21). Adding it re-randomises a pair of components.
    ///
    /// # Errors
    /// `LevelRange`.
    pub fn zero(&self, level: usize) -> Result<(Poly<Ntt>, Poly<Ntt>), CkksError> {
        self.sample(level, None)
    }

    /// An encryption of zero, plus a message in its first component.
    fn sample(
        &self,
        level: usize,
        message: Option<&Poly<Ntt>>,
    ) -> Result<(Poly<Ntt>, Poly<Ntt>), CkksError> {
        let basis = self.params.basis(level)?;
        let n = basis.n();
        let mut prg = self.generators.take();
        let (v, e0, e1) = (prg.ternary(n), prg.cbd21(n), prg.cbd21(n));
        let (mut c0, mut c1) = (Poly::zero(&basis), Poly::zero(&basis));
        let (width, backend) = (self.params.fft().width(), basis.backend());
        let limbs = c0.limbs_mut().zip(c1.limbs_mut()).enumerate().collect();
        let scratch = || Zeroizing::new(Words::zeroed(n));
        for_each_limb_with(limbs, n, scratch, |v_ntt, (i, (c0, c1))| {
            let (m, table) = (basis.modulus(i), &basis.tables()[i]);
            // The errors become the sums in place, so no copy of them stays behind.
            for (small, limb) in [(&v, &mut ***v_ntt), (&e0, &mut *c0), (&e1, &mut *c1)] {
                residues_of_bytes(width, m, limb, small);
                backend.ntt_forward(table, limb);
            }
            let products = [[&***v_ntt, self.key.b.limb(i), self.key.a.limb(i)]];
            backend.key_products(m, [&mut *c0, c1], &products, true);
            if let Some(message) = message {
                backend.add_assign(m, c0, message.limb(i));
            }
        });
        Ok((c0, c1))
    }

    /// Encrypts a plaintext at its level and scale. Cost: three samples, then three NTTs and two
    /// products modulo every prime of the level, limb by limb.
    ///
    /// # Errors
    /// `ParamsMismatch`.
    pub fn encrypt(&self, plaintext: &Plaintext) -> Result<Ciphertext, CkksError> {
        self.params.check_digest("plaintext", plaintext.digest())?;
        let (c0, c1) = self.sample(plaintext.level(), Some(plaintext.poly()))?;
        Ok(Ciphertext::raw(
            vec![c0, c1],
            plaintext.scale(),
            self.params.digest(),
        ))
    }
}

/// Encrypts under the secret key, in seeded form. `Send + Sync`; each call uses its own randomness
/// and its own 256-bit public seed.
pub struct SecretEncryptor {
    params: CkksParameters,
    key: Arc<SecretKey>,
    generators: Generators,
}

impl SecretEncryptor {
    /// An encryptor seeded by the operating system.
    ///
    /// # Errors
    /// `ParamsMismatch`, those of the system's generator.
    pub fn new(params: &CkksParameters, key: Arc<SecretKey>) -> Result<Self, CkksError> {
        Self::build(params, key, Generators::fresh("secret-key encryption")?)
    }

    /// An encryptor with a given seed, for reproducible tests. Two encryptors with one seed give the
    /// same randomness to different messages, which breaks them.
    ///
    /// # Errors
    /// `ParamsMismatch`.
    pub fn insecure_with_seed(
        params: &CkksParameters,
        key: Arc<SecretKey>,
        seed: SecretSeed,
    ) -> Result<Self, CkksError> {
        Self::build(
            params,
            key,
            Generators::seeded(seed, "secret-key encryption"),
        )
    }

    fn build(
        params: &CkksParameters,
        key: Arc<SecretKey>,
        generators: Generators,
    ) -> Result<Self, CkksError> {
        params.check_digest("secret key", key.digest())?;
        Ok(Self {
            params: params.clone(),
            key,
            generators,
        })
    }

    /// Encrypts a plaintext at its level and scale: `c0 = -a s + e + m`.
    ///
    /// # Errors
    /// `ParamsMismatch`.
    pub fn encrypt(&self, plaintext: &Plaintext) -> Result<SeededCiphertext, CkksError> {
        self.params.check_digest("plaintext", plaintext.digest())?;
        self.encrypt_poly(plaintext.poly(), plaintext.scale())
    }

    /// Encrypts a polynomial that the caller encoded; its level is that of its basis.
    ///
    /// # Errors
    /// Basis mismatch.
    pub fn encrypt_poly(
        &self,
        message: &Poly<Ntt>,
        scale: Scale,
    ) -> Result<SeededCiphertext, CkksError> {
        let level = check_basis(&self.params, message)?;
        let basis = self.params.basis(level)?;
        let mut prg = self.generators.take();
        let seed = prg.public_seed();
        let xof = UniformXof::new(seed);
        let n = basis.n();
        let e = prg.cbd21(n);
        let mut c0 = Poly::<Ntt>::zero(&basis);
        let (width, backend) = (self.params.fft().width(), basis.backend());
        let limbs = c0.limbs_mut().enumerate().collect();
        let scratch = || Zeroizing::new(Words::zeroed(n));
        for_each_limb_with(limbs, n, scratch, |a, (i, c0): (usize, &mut [u64])| {
            let m = basis.modulus(i);
            xof.fill_limb(&basis, i, a);
            backend.mul_assign(m, a, self.key.q.expose().limb(i));
            residues_of_bytes(width, m, c0, &e);
            backend.ntt_forward(&basis.tables()[i], c0);
            backend.sub_assign(m, c0, a);
            backend.add_assign(m, c0, message.limb(i));
        });
        Ok(SeededCiphertext::raw(c0, seed, scale, self.params.digest()))
    }

    /// As [`SecretEncryptor::encrypt_poly`] for a polynomial in coefficient form.
    ///
    /// # Errors
    /// Basis mismatch.
    pub fn encrypt_coeffs(
        &self,
        message: &Poly<Coeff>,
        scale: Scale,
    ) -> Result<SeededCiphertext, CkksError> {
        let ntt = cipherloom_ring::SecretPoly::new(message.to_ntt());
        self.encrypt_poly(ntt.expose(), scale)
    }
}
