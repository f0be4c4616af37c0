//! The CKKS rows.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use cipherloom_ckks::{
    Ciphertext, CkksParameters, Decryptor, Encoder, Encryptor, EvaluationKeys, Evaluator,
    KeyGenerator,
};
use cipherloom_ring::PublicSeed;
use cipherloom_spec::CkksLiteral;
use peers_protocol::{max_error, test_values, Error, Operations};
use serde_json::{json, Value};

const ROTATIONS: [i64; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
/// Largest error of a slot. All points have a scale of 2^40, so the errors are near 2^-24.
const TOLERANCE: f64 = 1e-5;

/// One parameter set with its keys.
pub struct Scheme {
    params: CkksParameters,
    encoder: Encoder,
    encryptor: Encryptor,
    decryptor: Decryptor,
    evaluator: Evaluator,
}

impl Scheme {
    /// Checks the literal (security included) and makes all keys.
    pub fn new(literal: CkksLiteral) -> Result<Self, Error> {
        let params = CkksParameters::new(literal.check()?)?;
        let top = params.top_level();
        let keygen = KeyGenerator::from_os(&params)?;
        let secret = Arc::new(keygen.secret_key()?);
        let public = keygen.public_key(&secret, PublicSeed([2; 32]))?;
        let mut keys = EvaluationKeys::new(&params);
        keys.insert(keygen.relinearization_key(&secret, top)?)?;
        for k in ROTATIONS {
            keys.insert(keygen.rotation_key(&secret, k, top)?)?;
        }
        Ok(Self {
            encoder: Encoder::new(&params),
            encryptor: Encryptor::new(&params, public)?,
            decryptor: Decryptor::new(&params, secret)?,
            evaluator: Evaluator::new(&params, keys)?,
            params,
        })
    }

    /// The parameters.
    pub fn params(&self) -> &CkksParameters {
        &self.params
    }

    /// Facts that the driver computes the limit from.
    pub fn info(&self, limbs: usize) -> Value {
        let chain = self.params.chain();
        let digits: Vec<usize> = chain
            .digits(limbs - 1)
            .iter()
            .map(ExactSizeIterator::len)
            .collect();
        json!({
            "n": chain.n(),
            "limbs": limbs,
            "special": chain.p().len(),
            "digits": digits,
            "log_qp": chain.log_qp(),
            "secure": chain.is_secure(),
        })
    }

    fn encrypt(&self, values: &[f64], level: usize) -> Result<Ciphertext, Error> {
        let plain = self
            .encoder
            .encode_real(values, level, self.params.scale(level))?;
        Ok(self.encryptor.encrypt(&plain)?)
    }

    fn decrypt(&self, ct: &Ciphertext) -> Result<Vec<f64>, Error> {
        Ok(self.encoder.decode_real(&self.decryptor.decrypt(ct)?)?)
    }

    /// Adds all operations on ciphertexts of `limbs` limbs.
    pub fn add_operations(
        self: &Rc<Self>,
        ops: &mut Operations,
        limbs: usize,
    ) -> Result<(), Error> {
        let level = limbs
            .checked_sub(1)
            .filter(|&l| l <= self.params.top_level() && l > self.params.base_level())
            .ok_or_else(|| format!("no room for a product with {limbs} limbs"))?;
        let slots = self.params.slots();
        let (a, b) = (Rc::new(test_values(slots, 1)), test_values(slots, 2));
        let product: Vec<f64> = a.iter().zip(&b).map(|(x, y)| x * y).collect();
        let rotated = |k: i64| {
            let mut v = (*a).clone();
            v.rotate_left(k as usize);
            v
        };
        let scale = self.params.scale(level);
        let ct_a = Rc::new(self.encrypt(&a, level)?);
        let ct_b = self.encrypt(&b, level)?;
        let pt_a = self.encoder.encode_real(&a, level, scale)?;
        let factor = self.encoder.encode_real_for_product(&b, level)?;

        // Each check decrypts and compares with the plain result.
        let against = |want: Vec<f64>| {
            let s = self.clone();
            move |ct: Ciphertext| Ok(max_error(&s.decrypt(&ct)?, &want))
        };
        let (s, x) = (self.clone(), ct_a.clone());
        let y = ct_b.clone();
        ops.add(
            "mul_relin_rescale",
            TOLERANCE,
            move || Ok(s.evaluator.mul_relin_rescale(&x, &y)?),
            against(product.clone()),
        );
        let (s, x) = (self.clone(), ct_a.clone());
        ops.add(
            "rotate",
            TOLERANCE,
            move || Ok(s.evaluator.rotate(&x, 1)?),
            against(rotated(1)),
        );
        let (s, x) = (self.clone(), ct_a.clone());
        let (d, wants) = (self.clone(), ROTATIONS.map(rotated));
        ops.add(
            "hoisted8",
            TOLERANCE,
            move || Ok(s.evaluator.rotate_many(&x, &ROTATIONS)?),
            move |cts| {
                if cts.len() != wants.len() {
                    return Err(format!("{} rotations instead of 8", cts.len()).into());
                }
                let mut worst = 0.0f64;
                for (ct, want) in cts.iter().zip(&wants) {
                    worst = worst.max(max_error(&d.decrypt(ct)?, want));
                }
                Ok(worst)
            },
        );
        let (s, x) = (self.clone(), ct_a.clone());
        let acc = Rc::new(RefCell::new(self.evaluator.mul_plain(&ct_b, &factor)?));
        let sum: Vec<f64> = product.iter().zip(&b).map(|(p, y)| p + y * y).collect();
        let (d, out) = (self.clone(), acc.clone());
        ops.add(
            "plain_multiply_accumulate",
            TOLERANCE,
            move || {
                Ok(s.evaluator
                    .mul_plain_add_assign(&mut acc.borrow_mut(), &x, &factor)?)
            },
            move |()| Ok(max_error(&d.decrypt(&out.borrow())?, &sum)),
        );
        let (s, v) = (self.clone(), a.clone());
        let (d, want) = (self.clone(), a.clone());
        ops.add(
            "encode",
            TOLERANCE,
            move || Ok(s.encoder.encode_real(&v, level, scale)?),
            move |pt| Ok(max_error(&d.encoder.decode_real(&pt)?, &want)),
        );
        let s = self.clone();
        ops.add(
            "encrypt",
            TOLERANCE,
            move || Ok(s.encryptor.encrypt(&pt_a)?),
            against((*a).clone()),
        );
        let (s, v) = (self.clone(), a.clone());
        ops.add(
            "encode_encrypt",
            TOLERANCE,
            move || s.encrypt(&v, level),
            against((*a).clone()),
        );
        for name in ["decrypt", "decrypt_decode"] {
            let (s, x, want) = (self.clone(), ct_a.clone(), a.clone());
            ops.add(
                name,
                TOLERANCE,
                move || s.decrypt(&x),
                move |got| Ok(max_error(&got, &want)),
            );
        }
        Ok(())
    }
}
