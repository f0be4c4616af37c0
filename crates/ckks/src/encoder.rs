//! Encoding: complex slots to integer polynomials at a scale, and back.
//!
//! Precision. The transform runs in `f64`: for values of magnitude B the slots after encode and decode
//! at a scale of 2^40 or more are off by about `2^-52 log2(N) B` from the transform and
//! `sqrt(N/12) / scale` (one standard deviation) from rounding the coefficients. Measured at N = 2^13, B = 1:
//! largest error over all slots 2^-33.7 at scale 2^40 (rounding), 2^-50.0 at scale 2^60 and above (transform).

use cipherloom_ring::{Coeff, Ntt, Poly};
use cipherloom_spec::Scale;

use crate::complex::Complex64;
use crate::error::CkksError;
use crate::params::CkksParameters;
use crate::plaintext::Plaintext;

/// Largest coefficient that is rounded to `i64`.
const I64_LIMIT_BITS: f64 = 62.0;
/// Largest coefficient that can be encoded at all: `i128` with room for a sign.
const I128_LIMIT_BITS: f64 = 126.0;

/// Encodes and decodes for one parameter set. Slot j holds the value of the polynomial at
/// `zeta^(5^j)`, `zeta = exp(i pi / N)`.
#[derive(Clone, Debug)]
pub struct Encoder {
    params: CkksParameters,
}

impl Encoder {
    /// An encoder; it shares the tables of the parameters.
    #[must_use]
    pub fn new(params: &CkksParameters) -> Self {
        Self {
            params: params.clone(),
        }
    }

    /// Encodes up to N/2 complex values at `level` and `scale`; missing slots are zero.
    /// Cost: one FFT of N/2 points, one NTT for each prime of the level.
    ///
    /// # Errors
    /// `TooManyValues`, `NotFinite`, `ValueTooLarge` when a coefficient reaches half the modulus or 2^126,
    /// `LevelRange`.
    pub fn encode(
        &self,
        values: &[Complex64],
        level: usize,
        scale: Scale,
    ) -> Result<Plaintext, CkksError> {
        self.encode_iter(values.iter().copied(), values.len(), level, scale)
    }

    /// As [`Encoder::encode`] for real values.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    pub fn encode_real(
        &self,
        values: &[f64],
        level: usize,
        scale: Scale,
    ) -> Result<Plaintext, CkksError> {
        let values_iter = values.iter().map(|&v| Complex64::from(v));
        self.encode_iter(values_iter, values.len(), level, scale)
    }

    fn encode_iter(
        &self,
        values: impl Iterator<Item = Complex64>,
        count: usize,
        level: usize,
        scale: Scale,
    ) -> Result<Plaintext, CkksError> {
        let slots = self.params.slots();
        if count > slots {
            return Err(CkksError::TooManyValues { got: count, slots });
        }
        let mut v = Vec::with_capacity(slots);
        v.extend(values);
        v.resize(slots, Complex64::ZERO);
        self.encode_vector(v, level, scale)
    }

    /// Encodes a vector of power-of-two length m, repeated N/(2m) times. The FFT has m points only.
    ///
    /// # Errors
    /// `Period` for a length that is no power of two; else as [`Encoder::encode`].
    pub fn encode_repeated(
        &self,
        values: &[Complex64],
        level: usize,
        scale: Scale,
    ) -> Result<Plaintext, CkksError> {
        let slots = self.params.slots();
        if !values.len().is_power_of_two() || values.len() > slots {
            return Err(CkksError::Period {
                got: values.len(),
                slots,
            });
        }
        self.encode_vector(values.to_vec(), level, scale)
    }

    /// Encodes one value in all slots: `re + im X^(N/2)`, each part rounded once. No FFT, no NTT.
    ///
    /// # Errors
    /// `NotFinite`, `ValueTooLarge`, `LevelRange`.
    pub fn encode_constant(
        &self,
        value: Complex64,
        level: usize,
        scale: Scale,
    ) -> Result<Plaintext, CkksError> {
        let [re, im] = self.constant_parts(value, level, scale)?;
        let basis = self.params.basis(level)?;
        let mut poly = Poly::<Ntt>::zero(&basis);
        let half = basis.n() / 2;
        for i in 0..basis.len() {
            let [lo, hi] = constant_halves(&basis, i, re, im);
            let limb = poly.limb_mut(i);
            limb[..half].fill(lo);
            limb[half..].fill(hi);
        }
        Plaintext::from_poly(&self.params, poly, scale)
    }

    /// The integers of [`Encoder::encode_constant`], checked against the level's modulus.
    pub(crate) fn constant_parts(
        &self,
        value: Complex64,
        level: usize,
        scale: Scale,
    ) -> Result<[i128; 2], CkksError> {
        self.params.check_level("encode_constant", level)?;
        if !value.is_finite() {
            return Err(CkksError::NotFinite { index: 0 });
        }
        let s = scale.to_f64();
        let parts = [(value.re * s).round(), (value.im * s).round()];
        self.check_magnitude(parts[0].abs().max(parts[1].abs()), level, scale)?;
        Ok(parts.map(|x| x as i128))
    }

    /// Encodes for the product with a ciphertext of canonical scale at `ct_level`: after the product and one
    /// rescale the result has exactly the canonical scale of `ct_level - 1`. The plaintext scale is
    /// `scale(l-1) q_l / scale(l)`.
    ///
    /// # Errors
    /// `LevelExhausted` at or below the base level; else as [`Encoder::encode`].
    pub fn encode_for_product(
        &self,
        values: &[Complex64],
        ct_level: usize,
    ) -> Result<Plaintext, CkksError> {
        let scale = self
            .params
            .product_scale(ct_level, self.params.scale(ct_level))?;
        self.encode(values, ct_level, scale)
    }

    /// As [`Encoder::encode_for_product`] for real values.
    ///
    /// # Errors
    /// As [`Encoder::encode_for_product`].
    pub fn encode_real_for_product(
        &self,
        values: &[f64],
        ct_level: usize,
    ) -> Result<Plaintext, CkksError> {
        let scale = self
            .params
            .product_scale(ct_level, self.params.scale(ct_level))?;
        self.encode_real(values, ct_level, scale)
    }

    /// `v` has power-of-two length m and is repeated: the polynomial is one in `X^(N/(2m))`.
    fn encode_vector(
        &self,
        mut v: Vec<Complex64>,
        level: usize,
        scale: Scale,
    ) -> Result<Plaintext, CkksError> {
        self.params.check_level("encode", level)?;
        if let Some(index) = v.iter().position(|x| !x.is_finite()) {
            return Err(CkksError::NotFinite { index });
        }
        let m = v.len();
        self.params.fft().inverse(&mut v, scale.to_f64() / m as f64);
        // NaN from an overflow of the transform counts as too large.
        let largest = v.iter().fold(0.0, |acc: f64, x| {
            let m = x.re.abs().max(x.im.abs());
            if m > acc || m.is_nan() {
                if m.is_nan() {
                    f64::INFINITY
                } else {
                    m
                }
            } else {
                acc
            }
        });
        self.check_magnitude(largest, level, scale)?;
        let basis = self.params.basis(level)?;
        let (n, slots) = (self.params.n(), self.params.slots());
        let stride = slots / m;
        let poly = if largest < I64_LIMIT_BITS.exp2() {
            let mut coeffs = zeroize::Zeroizing::new(vec![0i64; n]);
            for (k, x) in v.iter().enumerate() {
                coeffs[k * stride] = round_i64(x.re);
                coeffs[k * stride + slots] = round_i64(x.im);
            }
            Poly::from_i64(&basis, &coeffs)?
        } else {
            let mut coeffs = zeroize::Zeroizing::new(vec![0i128; n]);
            for (k, x) in v.iter().enumerate() {
                coeffs[k * stride] = x.re.round() as i128;
                coeffs[k * stride + slots] = x.im.round() as i128;
            }
            Poly::from_i128(&basis, &coeffs)?
        };
        Plaintext::from_poly(&self.params, poly.into_ntt(), scale)
    }

    fn check_magnitude(&self, largest: f64, level: usize, scale: Scale) -> Result<(), CkksError> {
        let log_limit = (self.params.chain().log_q(level) - 1.0).min(I128_LIMIT_BITS);
        // One bit of rounding is left below the limit, so `>=` on the logarithm is enough.
        if !largest.is_finite() || (largest > 0.0 && largest.log2() + 1e-9 >= log_limit) {
            return Err(CkksError::ValueTooLarge {
                log_coefficient: (largest.log2() / 8.0).ceil() * 8.0,
                log_limit,
                level,
                scale,
            });
        }
        Ok(())
    }

    /// The values of all N/2 slots.
    ///
    /// # Errors
    /// `ParamsMismatch`.
    pub fn decode(&self, plaintext: &Plaintext) -> Result<Vec<Complex64>, CkksError> {
        self.params.check_digest("plaintext", plaintext.digest())?;
        self.decode_coeffs(&plaintext.poly().to_coeff(), plaintext.scale())
    }

    /// The real parts of all N/2 slots.
    ///
    /// # Errors
    /// `ParamsMismatch`.
    pub fn decode_real(&self, plaintext: &Plaintext) -> Result<Vec<f64>, CkksError> {
        Ok(self.decode(plaintext)?.iter().map(|v| v.re).collect())
    }

    /// Decodes residues in coefficient form, modulo any number of primes, as centred integers.
    ///
    /// # Errors
    /// `Length` for another ring degree.
    pub fn decode_coeffs(
        &self,
        poly: &Poly<Coeff>,
        scale: Scale,
    ) -> Result<Vec<Complex64>, CkksError> {
        if poly.n() != self.params.n() {
            return Err(CkksError::Length {
                what: "polynomial",
                got: poly.n() * 8,
                expected: self.params.n() * 8,
            });
        }
        let coeffs = zeroize::Zeroizing::new(centred_f64(poly)?);
        let slots = self.params.slots();
        let inv = 1.0 / scale.to_f64();
        let mut v: Vec<Complex64> = (0..slots)
            .map(|k| Complex64::new(coeffs[k] * inv, coeffs[k + slots] * inv))
            .collect();
        self.params.fft().forward(&mut v);
        Ok(v)
    }
}

/// Nearest integer, ties to even; `|x| < 2^62`. Adding 1.5 * 2^52 leaves no fraction bits.
fn round_i64(x: f64) -> i64 {
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    if x.abs() < 1_125_899_906_842_624.0 {
        ((x + SHIFT) - SHIFT) as i64
    } else {
        x.round() as i64
    }
}

/// The two values that `re + im X^(N/2)` takes in the NTT domain of limb `i`: X^(N/2) is
/// psi^(N/2 (2 brv(j) + 1)), which is psi^(N/2) for the first half of the indices (even brv) and minus that for the other.
pub(crate) fn constant_halves(
    basis: &cipherloom_ring::Basis,
    i: usize,
    re: i128,
    im: i128,
) -> [u64; 2] {
    let m = basis.modulus(i);
    let root = m.pow(basis.tables()[i].psi(), basis.n() as u64 / 2);
    let (r, c) = (m.reduce_i128(re), m.mul(m.reduce_i128(im), root));
    [m.add(r, c), m.sub(r, c)]
}

/// Centred coefficients as `f64`, correct to a few units in the last place at any number of limbs.
///
/// Mixed radix digits (Garner), each centred in (-q_i/2, q_i/2): the number of smallest magnitude with these
/// residues has zero digits above its size, so the sum from the top never cancels by more than a factor of about two.
fn centred_f64(poly: &Poly<Coeff>) -> Result<Vec<f64>, CkksError> {
    let basis = poly.basis();
    let limbs = basis.len();
    let mut place_f64 = vec![1.0; limbs];
    let mut places = Vec::with_capacity(limbs);
    let mut inverses = Vec::with_capacity(limbs);
    for (i, m) in basis.moduli().enumerate() {
        if i > 0 {
            // Capped: past 2^1024 the digits of a decodable value are zero, and zero times infinity is no number.
            let place = place_f64[i - 1] * basis.modulus(i - 1).value() as f64;
            place_f64[i] = f64::min(place, f64::MAX);
        }
        // q_0 ... q_(j-1) modulo q_i for j <= i.
        let mut acc = 1;
        let mut row = Vec::with_capacity(i);
        for j in 0..i {
            row.push(m.shoup(acc));
            acc = m.mul(acc, m.reduce(basis.modulus(j).value()));
        }
        places.push(row);
        inverses.push(m.shoup(m.inv(acc)?));
    }
    let mut digits = zeroize::Zeroizing::new(vec![0i64; limbs]);
    let out = (0..poly.n())
        .map(|k| {
            for (i, m) in basis.moduli().enumerate() {
                let so_far = digits[..i].iter().zip(&places[i]).fold(0, |acc, (&d, &w)| {
                    m.add(acc, m.mul_shoup(m.reduce_i64(d), w))
                });
                let d = m.mul_shoup(m.sub(poly.limb(i)[k], so_far), inverses[i]);
                digits[i] = m.center(d);
            }
            digits
                .iter()
                .zip(&place_f64)
                .rev()
                .fold(0.0, |acc, (&d, &p)| acc + d as f64 * p)
        })
        .collect();
    Ok(out)
}
