//! A CKKS client and server in one place, with fixed seeds.

use std::sync::Arc;

use cipherloom_ckks::{
    Ciphertext, CkksParameters, Complex64, Decryptor, Encoder, Encryptor, EvaluationKeys,
    Evaluator, KeyGenerator, LiveCounter, PublicKey, SecretEncryptor, SecretKey,
};
use cipherloom_ring::{PublicSeed, SecretSeed};
use cipherloom_spec::CkksLiteral;

/// Everything to encrypt, compute and decrypt over one parameter set. Both sides in one place: tests only.
pub struct CkksFixture {
    /// Parameters.
    pub params: CkksParameters,
    /// Encoder.
    pub encoder: Encoder,
    /// Key generator with a fixed seed.
    pub keygen: KeyGenerator,
    /// Secret key.
    pub secret_key: Arc<SecretKey>,
    /// Public key.
    pub public_key: Arc<PublicKey>,
    /// Public-key encryptor.
    pub encryptor: Encryptor,
    /// Seeded secret-key encryptor.
    pub secret_encryptor: SecretEncryptor,
    /// Decryptor.
    pub decryptor: Decryptor,
    /// Evaluator with relinearisation, conjugation and the asked-for rotation keys.
    pub evaluator: Evaluator,
    /// Live ciphertexts of the evaluator.
    pub live: LiveCounter,
}

impl CkksFixture {
    /// Builds the set without a security check, with keys for these left rotations.
    ///
    /// # Panics
    /// On any error.
    #[must_use]
    pub fn insecure(literal: CkksLiteral, rotations: &[i64]) -> Self {
        let chain = literal.insecure_build().expect("literal");
        let params = CkksParameters::insecure_for_tests(chain).expect("parameters");
        Self::with_params(params, rotations)
    }

    /// Builds the set with the security check, with keys for these left rotations.
    ///
    /// # Panics
    /// On any error.
    #[must_use]
    pub fn checked(literal: CkksLiteral, rotations: &[i64]) -> Self {
        let params = CkksParameters::new(literal.check().expect("literal")).expect("parameters");
        Self::with_params(params, rotations)
    }

    /// Generates all keys for given parameters.
    ///
    /// # Panics
    /// On any error.
    #[must_use]
    pub fn with_params(params: CkksParameters, rotations: &[i64]) -> Self {
        let seed = |tag: u8| SecretSeed::from_bytes([tag; 32]);
        let top = params.top_level();
        let keygen = KeyGenerator::new(&params, seed(1));
        let secret_key = Arc::new(keygen.secret_key().expect("secret key"));
        let public_key = Arc::new(
            keygen
                .public_key(&secret_key, PublicSeed([2; 32]))
                .expect("public key"),
        );
        let mut keys = EvaluationKeys::new(&params);
        keys.insert(
            keygen
                .relinearization_key(&secret_key, top)
                .expect("relinearization key"),
        )
        .expect("insert");
        keys.insert(
            keygen
                .conjugation_key(&secret_key, top)
                .expect("conjugation key"),
        )
        .expect("insert");
        for &k in rotations {
            if params.galois_element(k) != 1 {
                keys.insert(
                    keygen
                        .rotation_key(&secret_key, k, top)
                        .expect("rotation key"),
                )
                .expect("insert");
            }
        }
        let live = LiveCounter::new();
        Self {
            encoder: Encoder::new(&params),
            encryptor: Encryptor::insecure_with_seed(&params, public_key.clone(), seed(3))
                .expect("encryptor"),
            secret_encryptor: SecretEncryptor::insecure_with_seed(
                &params,
                secret_key.clone(),
                seed(4),
            )
            .expect("secret encryptor"),
            decryptor: Decryptor::new(&params, secret_key.clone()).expect("decryptor"),
            evaluator: Evaluator::new(&params, keys)
                .expect("evaluator")
                .with_live_counter(live.clone()),
            live,
            keygen,
            secret_key,
            public_key,
            params,
        }
    }

    /// Encrypts at `level` and its canonical scale, seeded, and expands.
    ///
    /// # Panics
    /// On any error.
    #[must_use]
    pub fn encrypt(&self, values: &[Complex64], level: usize) -> Ciphertext {
        let plain = self
            .encoder
            .encode(values, level, self.params.scale(level))
            .expect("encode");
        self.secret_encryptor
            .encrypt(&plain)
            .expect("encrypt")
            .expand(&self.params)
            .expect("expand")
    }

    /// As [`CkksFixture::encrypt`] for real values.
    ///
    /// # Panics
    /// On any error.
    #[must_use]
    pub fn encrypt_real(&self, values: &[f64], level: usize) -> Ciphertext {
        let values: Vec<_> = values.iter().map(|&v| v.into()).collect();
        self.encrypt(&values, level)
    }

    /// Decrypts and decodes all slots.
    ///
    /// # Panics
    /// On any error.
    #[must_use]
    pub fn decrypt(&self, ct: &Ciphertext) -> Vec<Complex64> {
        self.encoder
            .decode(&self.decryptor.decrypt(ct).expect("decrypt"))
            .expect("decode")
    }

    /// Decrypts and decodes the real parts of all slots.
    ///
    /// # Panics
    /// On any error.
    #[must_use]
    pub fn decrypt_real(&self, ct: &Ciphertext) -> Vec<f64> {
        self.decrypt(ct).iter().map(|v| v.re).collect()
    }
}

/// Deterministic complex test values with both parts in [-1, 1): a small linear congruential generator.
#[must_use]
pub fn test_values(count: usize, seed: u64) -> Vec<Complex64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| Complex64::new(next(), next())).collect()
}

/// Largest absolute difference of two vectors of one length.
///
/// # Panics
/// If the lengths differ.
#[must_use]
pub fn max_error(a: &[Complex64], b: &[Complex64]) -> f64 {
    assert_eq!(a.len(), b.len(), "lengths differ");
    a.iter()
        .zip(b)
        .map(|(x, y)| (*x - *y).abs())
        .fold(0.0, f64::max)
}
