//! Key generation, one key at a time: a client never has to hold them all.

use cipherloom_ring::{
    Automorphism, Basis, Ntt, PackedPoly, Poly, PublicSeed, SecretPoly, SecretSeed, UniformXof,
};

use crate::error::CkksError;
use crate::keys::{EvaluationKey, KeyDigit, KeyPurpose, PublicKey, SecretKey};
use crate::params::CkksParameters;

/// Generates the keys of one client from one secret seed.
///
/// Every random value comes from its own generator, split off the seed by a label that names the
/// parameters, the key, its level and digit. The same seed gives the same keys in any order; two
/// different keys never share an error.
pub struct KeyGenerator {
    params: CkksParameters,
    seed: SecretSeed,
}

impl KeyGenerator {
    /// A generator for a stored seed (the client's key file). Keep one seed for one secret.
    #[must_use]
    pub fn new(params: &CkksParameters, seed: SecretSeed) -> Self {
        Self {
            params: params.clone(),
            seed,
        }
    }

    /// A generator with a fresh seed from the operating system.
    ///
    /// # Errors
    /// Those of the system's generator.
    pub fn from_os(params: &CkksParameters) -> Result<Self, CkksError> {
        Ok(Self::new(params, SecretSeed::from_os()?))
    }

    fn label(&self, purpose: &str) -> String {
        use std::fmt::Write;
        let mut s = String::from("ckks ");
        for b in self.params.digest().0 {
            // Writing to a string does not fail.
            let _ = write!(s, "{b:02x}");
        }
        s.push(' ');
        s.push_str(purpose);
        s
    }

    /// The secret key: uniform ternary. The same for the same seed and parameters.
    ///
    /// # Errors
    /// Those of the ring.
    pub fn secret_key(&self) -> Result<SecretKey, CkksError> {
        let params = &self.params;
        let top = params.top_level();
        let mut prg = self.seed.derive(&self.label("secret key"), 0);
        let pq = prg.ternary_poly(&params.key_basis(top)?)?.into_ntt();
        let q = SecretPoly::new(
            pq.expose()
                .select(params.chain().p().len(), &params.basis(top)?)?,
        );
        Ok(SecretKey {
            pq,
            q,
            digest: params.digest(),
        })
    }

    /// The public key whose uniform part expands from `a_seed`, which both parties contribute to.
    ///
    /// # Errors
    /// `ParamsMismatch` for a secret key of other parameters.
    pub fn public_key(&self, sk: &SecretKey, a_seed: PublicSeed) -> Result<PublicKey, CkksError> {
        self.params.check_digest("secret key", sk.digest)?;
        let basis = self.params.basis(self.params.top_level())?;
        // The error depends on the seed of a: two public keys for one secret must not share it.
        let mut purpose = String::from("public key ");
        for b in a_seed.0 {
            use std::fmt::Write;
            let _ = write!(purpose, "{b:02x}");
        }
        let mut prg = self.seed.derive(&self.label(&purpose), 0);
        let a: Poly<Ntt> = UniformXof::new(a_seed).poly(&basis);
        let e = prg.cbd21_poly(&basis)?.into_ntt();
        let b = rlwe_b(&a, sk.q.expose(), e)?;
        Ok(PublicKey {
            b,
            a,
            seed: a_seed,
            digest: self.params.digest(),
        })
    }

    /// The relinearisation key for ciphertexts up to `max_level`.
    ///
    /// # Errors
    /// `LevelRange`, `ParamsMismatch`.
    pub fn relinearization_key(
        &self,
        sk: &SecretKey,
        max_level: usize,
    ) -> Result<EvaluationKey, CkksError> {
        self.evaluation_key(sk, KeyPurpose::Relinearization, max_level)
    }

    /// The key of a left rotation by `k` slots for ciphertexts up to `max_level`.
    ///
    /// # Errors
    /// `LevelRange`, `ParamsMismatch`.
    pub fn rotation_key(
        &self,
        sk: &SecretKey,
        k: i64,
        max_level: usize,
    ) -> Result<EvaluationKey, CkksError> {
        let g = self.params.galois_element(k);
        self.evaluation_key(sk, KeyPurpose::Galois(g), max_level)
    }

    /// The key of complex conjugation for ciphertexts up to `max_level`.
    ///
    /// # Errors
    /// `LevelRange`, `ParamsMismatch`.
    pub fn conjugation_key(
        &self,
        sk: &SecretKey,
        max_level: usize,
    ) -> Result<EvaluationKey, CkksError> {
        let g = self.params.conjugation_element();
        self.evaluation_key(sk, KeyPurpose::Galois(g), max_level)
    }

    /// The evaluation key for any purpose. Cost: for each digit, the expansion of a, an error and
    /// two products modulo all special primes and `max_level + 1` others.
    ///
    /// # Errors
    /// `LevelRange`, `ParamsMismatch`, Galois element out of range.
    pub fn evaluation_key(
        &self,
        sk: &SecretKey,
        purpose: KeyPurpose,
        max_level: usize,
    ) -> Result<EvaluationKey, CkksError> {
        let params = &self.params;
        params.check_level("evaluation_key", max_level)?;
        params.check_digest("secret key", sk.digest)?;
        check_purpose(params, purpose)?;
        let basis = params.key_basis(max_level)?;
        let s = SecretPoly::new(sk.pq.expose().prefix(basis.len())?);
        // From s^2 to s, or from s to s(X^(1/g)).
        let other = SecretPoly::new(match purpose {
            KeyPurpose::Relinearization => s.expose().mul(s.expose())?,
            KeyPurpose::Galois(g) => {
                let inverse = Automorphism::new(params.n(), inverse_mod_2n(g, params.n()))?;
                s.expose().automorphism(&inverse)?
            }
        });
        let (from, to) = match purpose {
            KeyPurpose::Relinearization => (&other, &s),
            KeyPurpose::Galois(_) => (&s, &other),
        };
        // The version names what a key is. Two kinds of key from one error would give it away, and the secret with it: a
        // change of what any sample means must change its label.
        let label = format!("key v2 {} level {max_level}", purpose.code());
        let label = self.label(&label);
        let inverse = special_inverse(&basis, params)?;
        let digits = params
            .chain()
            .digits(max_level)
            .into_iter()
            .enumerate()
            .map(|(d, range)| {
                let mut prg = self.seed.derive(&label, d as u64);
                let seed = prg.public_seed();
                let a: Poly<Ntt> = UniformXof::new(seed).poly(&basis);
                let mut e = prg.cbd21_poly(&basis)?.into_ntt();
                e.expose_mut().mul_limb_scalars_assign(&inverse)?;
                let mut b = rlwe_b(&a, to.expose(), e)?;
                let mut gadget = SecretPoly::new(from.expose().clone());
                gadget
                    .expose_mut()
                    .mul_limb_scalars_assign(&gadget_residues(&basis, params, &range))?;
                b.add_assign(gadget.expose())?;
                Ok(KeyDigit {
                    b: PackedPoly::new(&b),
                    a: PackedPoly::new(&a),
                    seed,
                })
            })
            .collect::<Result<Vec<_>, CkksError>>()?;
        EvaluationKey::assemble(params, purpose, max_level, digits)
    }
}

/// `-a s + e`.
pub(crate) fn rlwe_b(
    a: &Poly<Ntt>,
    s: &Poly<Ntt>,
    e: SecretPoly<Ntt>,
) -> Result<Poly<Ntt>, CkksError> {
    let mut b = a.mul(s)?;
    b.neg_assign();
    b.add_assign(e.expose())?;
    Ok(b)
}

/// 1 modulo the primes of the digit, 0 modulo all others: P divided by P modulo each ciphertext prime, as all of the key is.
fn gadget_residues(
    basis: &Basis,
    params: &CkksParameters,
    digit: &std::ops::Range<usize>,
) -> Vec<u64> {
    let special = params.chain().p().len();
    let of = |i: usize| i.checked_sub(special).is_some_and(|i| digit.contains(&i));
    (0..basis.len()).map(|i| u64::from(of(i))).collect()
}

/// 1/P modulo the ciphertext primes of a key basis; 1 modulo the special primes.
fn special_inverse(basis: &Basis, params: &CkksParameters) -> Result<Vec<u64>, CkksError> {
    let p = params.chain().p();
    basis
        .moduli()
        .enumerate()
        .map(|(i, m)| {
            if i < p.len() {
                return Ok(1);
            }
            let product = p.iter().fold(1, |acc, &v| m.mul(acc, m.reduce(v)));
            Ok(m.inv(product)?)
        })
        .collect()
}

/// 1/g modulo 2N for odd g: the group has exponent N/2, so this is g^(N/2 - 1).
fn inverse_mod_2n(g: u64, n: usize) -> u64 {
    let mask = 2 * n as u64 - 1;
    let mut acc = 1u64;
    let mut base = g & mask;
    let mut e = n as u64 / 2 - 1;
    while e != 0 {
        if e & 1 == 1 {
            acc = acc.wrapping_mul(base) & mask;
        }
        base = base.wrapping_mul(base) & mask;
        e >>= 1;
    }
    acc
}

/// A Galois element is odd, below 2N and not the identity.
pub(crate) fn check_purpose(params: &CkksParameters, purpose: KeyPurpose) -> Result<(), CkksError> {
    match purpose {
        KeyPurpose::Relinearization => Ok(()),
        KeyPurpose::Galois(g) => {
            let two_n = 2 * params.n() as u64;
            if g % 2 == 1 && (3..two_n).contains(&g) {
                Ok(())
            } else {
                Err(CkksError::Field {
                    field: "Galois element (odd)",
                    value: g,
                    min: 3,
                    max: two_n - 1,
                })
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Release 0.1 made keys that were not divided by P from a label without a version. A key of each kind with the same error
    /// would give the error: everything random must differ.
    #[test]
    fn nothing_random_is_shared_with_keys_of_another_kind() {
        let literal = cipherloom_spec::CkksLiteral {
            log_n: 10,
            q_bits: vec![50, 40, 40],
            p_bits: vec![50],
            log_scale: 40,
            dnum: 3,
        };
        let chain = literal.insecure_build().unwrap();
        let params = CkksParameters::insecure_for_tests(chain).unwrap();
        let keygen = KeyGenerator::new(&params, SecretSeed::from_bytes([7; 32]));
        let secret = keygen.secret_key().unwrap();
        for purpose in [KeyPurpose::Relinearization, KeyPurpose::Galois(5)] {
            let key = keygen.evaluation_key(&secret, purpose, 2).unwrap();
            let old = keygen.label(&format!("key {} level 2", purpose.code()));
            for (d, digit) in key.digits().iter().enumerate() {
                let mut prg = keygen.seed.derive(&old, d as u64);
                assert_ne!(*digit.seed(), prg.public_seed());
            }
        }
    }

    #[test]
    fn galois_elements_invert() {
        for n in [16usize, 1 << 12] {
            for g in (1..2 * n as u64).step_by(2) {
                assert_eq!(g * inverse_mod_2n(g, n) % (2 * n as u64), 1, "{g}");
            }
        }
    }
}
