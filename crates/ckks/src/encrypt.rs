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
use crate::scratch::{for_each_limb_with, PolyPool};

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

/// Encrypts under a public key. `Send + Sync`; each call uses its own randomness. Keeps the memory of up to two dropped
/// ciphertexts for the next ones.
pub struct Encryptor {
    params: CkksParameters,
    key: Arc<PublicKey>,
    generators: Generators,
    /// Polynomials of dropped ciphertexts.
    polys: Arc<PolyPool>,
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
            polys: Arc::new(PolyPool::small()),
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
        let (mut c0, mut c1) = (self.polys.take(&basis), self.polys.take(&basis));
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
        let mut ct = Ciphertext::raw(vec![c0, c1], plaintext.scale(), self.params.digest());
        ct.set_home(&self.polys);
        Ok(ct)
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::keygen::{rlwe_b, KeyGenerator};
    use crate::{Complex64, Encoder};
    use cipherloom_ring::PublicSeed;
    use cipherloom_spec::CkksLiteral;

    /// Two lengths: limbs one after the other, and in parallel.
    fn each(check: impl Fn(&CkksParameters, &KeyGenerator, Arc<SecretKey>, &Plaintext)) {
        for log_n in [6, 13] {
            let literal = CkksLiteral {
                log_n,
                q_bits: vec![50, 40, 40, 40],
                p_bits: vec![50],
                log_scale: 40,
                dnum: 4,
            };
            let params = CkksParameters::insecure_for_tests(literal.insecure_build().unwrap());
            let params = params.unwrap();
            let keygen = KeyGenerator::new(&params, SecretSeed::from_bytes([1; 32]));
            let key = Arc::new(keygen.secret_key().unwrap());
            let v: Vec<_> = (0..params.slots())
                .map(|i| Complex64::new(f64::from(i as u32).sin(), 0.5))
                .collect();
            let encoder = Encoder::new(&params);
            let plain = encoder.encode(&v, 2, params.scale(2)).unwrap();
            check(&params, &keygen, key, &plain);
        }
    }

    #[test]
    fn public_key_encryption_is_its_formula_on_whole_polynomials() {
        each(|params, keygen, key, plain| {
            let public = Arc::new(keygen.public_key(&key, PublicSeed([2; 32])).unwrap());
            let seed = || SecretSeed::from_bytes([3; 32]);
            let encryptor = Encryptor::insecure_with_seed(params, public.clone(), seed()).unwrap();
            let basis = params.basis(2).unwrap();
            // The second time in memory of a ciphertext that was dropped.
            for counter in 0..3 {
                let ct = encryptor.encrypt(plain).unwrap();
                let mut prg = seed().derive("public-key encryption", counter);
                let v = prg.ternary_poly(&basis).unwrap().into_ntt();
                let mut parts = [&public.b, &public.a].map(|key| {
                    let mut c = prg.cbd21_poly(&basis).unwrap().into_ntt().expose().clone();
                    c.add_assign(&v.expose().mul(key).unwrap()).unwrap();
                    c
                });
                parts[0].add_assign(plain.poly()).unwrap();
                assert_eq!(ct.parts(), parts);
            }
        });
    }

    #[test]
    fn seeded_encryption_is_its_formula_on_whole_polynomials() {
        each(|params, _, key, plain| {
            let seed = || SecretSeed::from_bytes([4; 32]);
            let encryptor =
                SecretEncryptor::insecure_with_seed(params, key.clone(), seed()).unwrap();
            let ct = encryptor.encrypt(plain).unwrap();
            let basis = params.basis(2).unwrap();
            let mut prg = seed().derive("secret-key encryption", 0);
            let public = prg.public_seed();
            let a: Poly<Ntt> = UniformXof::new(public).poly(&basis);
            let e = prg.cbd21_poly(&basis).unwrap().into_ntt();
            let mut c0 = rlwe_b(&a, key.q.expose(), e).unwrap();
            c0.add_assign(plain.poly()).unwrap();
            assert_eq!((ct.c0(), ct.seed()), (&c0, &public));
        });
    }
}
