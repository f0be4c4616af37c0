//! Parameters, keys and both sides in one place.

use std::sync::Arc;

use cipherloom_ckks::{
    Ciphertext, CkksParameters, Complex64, Decryptor, Encoder, EvaluationKeys, Evaluator,
    KeyGenerator, SecretEncryptor,
};
use cipherloom_spec::CkksLiteral;

use crate::Res;

/// A chain of one base prime of 50 bits and `levels` of 40, scale 2^40.
pub fn literal(log_n: u32, levels: usize, special: usize, dnum: u32) -> CkksLiteral {
    let mut q_bits = vec![50];
    q_bits.resize(1 + levels, 40);
    CkksLiteral {
        log_n,
        q_bits,
        p_bits: vec![50; special],
        log_scale: 40,
        dnum,
    }
}

/// N = 2^11 without any security, for traces of deep circuits: levels, operation counts and the shape of the error do
/// not depend on N, the time does.
pub fn insecure_toy(levels: usize) -> Res<CkksParameters> {
    let alpha = (levels + 1).div_ceil(4);
    let special = (40 * alpha + 10).div_ceil(50) + 1;
    let chain = literal(11, levels, special, 4).insecure_build()?;
    Ok(CkksParameters::insecure_for_tests(chain)?)
}

/// Everything to encrypt, compute and decrypt.
pub struct Rig {
    pub params: CkksParameters,
    pub encoder: Encoder,
    pub evaluator: Evaluator,
    encryptor: SecretEncryptor,
    decryptor: Decryptor,
}

impl Rig {
    /// Keys for these rotations up to `key_level`, and a relinearisation key.
    pub fn new(params: &CkksParameters, rotations: &[i64], key_level: usize) -> Res<Self> {
        let keygen = KeyGenerator::from_os(params)?;
        let secret = Arc::new(keygen.secret_key()?);
        let mut keys = EvaluationKeys::new(params);
        keys.insert(keygen.relinearization_key(&secret, key_level)?)?;
        let mut wanted: Vec<u64> = rotations
            .iter()
            .map(|&k| params.galois_element(k))
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        for g in wanted {
            if g != 1 {
                let purpose = cipherloom_ckks::KeyPurpose::Galois(g);
                keys.insert(keygen.evaluation_key(&secret, purpose, key_level)?)?;
            }
        }
        Ok(Self {
            params: params.clone(),
            encoder: Encoder::new(params),
            evaluator: Evaluator::new(params, keys)?,
            encryptor: SecretEncryptor::new(params, secret.clone())?,
            decryptor: Decryptor::new(params, secret)?,
        })
    }

    /// Encrypts a vector of power-of-two length, repeated, at the canonical scale of `level`.
    pub fn encrypt(&self, values: &[f64], level: usize) -> Res<Ciphertext> {
        let values: Vec<Complex64> = values.iter().map(|&v| v.into()).collect();
        let scale = self.params.scale(level);
        let plain = self.encoder.encode_repeated(&values, level, scale)?;
        Ok(self.encryptor.encrypt(&plain)?.expand(&self.params)?)
    }

    /// All slots.
    pub fn decrypt(&self, ct: &Ciphertext) -> Res<Vec<f64>> {
        Ok(self.encoder.decode_real(&self.decryptor.decrypt(ct)?)?)
    }
}

/// Reproducible values in [-1, 1).
pub fn values(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03;
    (0..count)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        })
        .collect()
}

/// How close a result is to the reference.
#[derive(Clone, Copy, serde::Serialize)]
pub struct Fidelity {
    /// Largest absolute error.
    pub largest_error: f64,
    /// Cosine of the angle between the two vectors.
    pub cosine: f64,
}

impl Fidelity {
    /// Compares two vectors of one length.
    pub fn of(got: &[f64], want: &[f64]) -> Self {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        let largest = got.iter().zip(want).map(|(x, y)| (x - y).abs());
        Self {
            largest_error: largest.fold(0.0, f64::max),
            cosine: dot(got, want) / (dot(got, got) * dot(want, want)).sqrt(),
        }
    }
}
