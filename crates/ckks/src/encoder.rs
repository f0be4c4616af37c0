//! Encoding: complex slots to integer polynomials at a scale, and back.
//!
//! Precision. The transform runs in `f64`: for values of magnitude B the slots after encode and decode
//! at a scale of 2^40 or more are off by about `2^-52 log2(N) B` from the transform and
//! `sqrt(N/12) / scale` (one standard deviation) from rounding the coefficients. Measured at N = 2^13, B = 1:
//! largest error over all slots 2^-33.7 at scale 2^40 (rounding), 2^-50.0 at scale 2^60 and above (transform).
//!
//! Roots of unity, transform, rounding and reduction are defined to the last bit: all processors and systems encode the same.
//! Coefficients below 2^52 are products with the scale in double precision, rounded; scale and product are off by at most
//! 2^-53 of their size. From 2^52 on that could be more than half a unit, so the exact product is rounded once. Which of the
//! two is one decision for a polynomial, on its largest coefficient. Decoding takes the same time for all values.

use cipherloom_ring::vector::{
    largest_scaled, residues_of_words, round_scaled, Doubles, FloatLift,
};
use cipherloom_ring::{Ahead, Basis, Coeff, Ntt, Poly, Words};
use cipherloom_spec::Scale;
use zeroize::Zeroizing;

use crate::complex::Complex64;
use crate::error::CkksError;
use crate::exact::scaled;
use crate::params::CkksParameters;
use crate::plaintext::Plaintext;

/// Largest coefficient whose product with the scale is rounded to double precision.
const DOUBLE_LIMIT_BITS: f64 = 52.0;
/// Largest coefficient that is rounded to `i64`.
const I64_LIMIT_BITS: f64 = 62.0;
/// Largest coefficient that can be encoded at all: `i128` with room for a sign.
const I128_LIMIT_BITS: f64 = 126.0;
/// Largest scale that is used in double precision.
const SCALE_LIMIT_BITS: f64 = 1000.0;

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
        self.encode_vector(values, slots, level, scale)
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
        self.encode_vector(values.iter().copied(), values.len(), level, scale)
    }

    /// Encodes one value in all slots: `re + im X^(N/2)`, each part the integer nearest to its exact product with the scale.
    /// No FFT, no NTT.
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
        let mut poly = self.params.pool().take(&basis);
        let half = basis.n() / 2;
        for i in 0..basis.len() {
            let [lo, hi] = constant_halves(&basis, i, re, im);
            let limb = poly.limb_mut(i);
            limb[..half].fill(lo);
            limb[half..].fill(hi);
        }
        Plaintext::pooled(&self.params, poly, scale)
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
        let largest = value.re.abs().max(value.im.abs());
        self.check_magnitude(largest, level, scale)?;
        Ok([value.re, value.im].map(|x| scaled(x, scale)))
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

    /// Up to m values, a power of two; the vector of length m is repeated: the polynomial is one in `X^(N/(2m))`.
    fn encode_vector(
        &self,
        values: impl Iterator<Item = Complex64>,
        m: usize,
        level: usize,
        scale: Scale,
    ) -> Result<Plaintext, CkksError> {
        self.params.check_level("encode", level)?;
        let (mut v, mut c) = (Doubles::zeroed(2 * m), Doubles::zeroed(2 * m));
        let (re, im) = v.split_at_mut(m);
        let mut finite = true;
        let slots = re.iter_mut().zip(im);
        for ((re, im), x) in slots.zip(values) {
            (*re, *im) = (x.re, x.im);
            finite &= x.is_finite();
        }
        if !finite {
            let index = (0..m).find(|&i| !(v[i].is_finite() && v[i + m].is_finite()));
            return Err(CkksError::NotFinite {
                index: index.unwrap_or_default(),
            });
        }
        self.params.fft().to_coeffs(&mut v, &mut c);
        let fft_factor = 1.0 / m as f64;
        // An overflow of the transform counts as too large.
        let width = self.params.fft().width();
        let largest = largest_scaled(width, &c, fft_factor);
        let log = self.check_magnitude(largest, level, scale)?;
        let basis = self.params.basis(level)?;
        let mut coeffs = Zeroizing::new(vec![0i64; 2 * m]);
        let poly = if log < DOUBLE_LIMIT_BITS && scale.log2() < SCALE_LIMIT_BITS {
            // 1/m is a power of two: one rounding.
            round_scaled(width, &mut coeffs, &c, scale.to_f64() * fft_factor);
            self.reduced(&basis, coeffs)
        } else if log < I64_LIMIT_BITS {
            for (o, &x) in coeffs.iter_mut().zip(c.iter()) {
                *o = scaled(x * fft_factor, scale) as i64;
            }
            self.reduced(&basis, coeffs)
        } else {
            let exact = c.iter().map(|&x| scaled(x * fft_factor, scale));
            self.reduced_wide(&basis, Zeroizing::new(exact.collect()))
        };
        Plaintext::pooled(&self.params, poly, scale)
    }

    /// Reduces coefficients and transforms, limb by limb.
    fn reduced(&self, basis: &Basis, coeffs: Zeroizing<Vec<i64>>) -> Poly<Ntt> {
        let coeffs = spread(coeffs, basis.n());
        let width = self.params.fft().width();
        self.transformed(basis, |i, limb| {
            residues_of_words(width, basis.backend(), basis.modulus(i), limb, &coeffs);
        })
    }

    /// As [`Encoder::reduced`] for magnitudes below 2^126, as three words of 50 bits each.
    fn reduced_wide(&self, basis: &Basis, coeffs: Zeroizing<Vec<i128>>) -> Poly<Ntt> {
        const WORD: u32 = 50;
        let n = basis.n();
        let coeffs = spread(coeffs, n);
        let mut words = Zeroizing::new(Words::zeroed(4 * n));
        for (k, &c) in coeffs.iter().enumerate() {
            let c = (c as u128).wrapping_add(1 << I128_LIMIT_BITS as u32);
            for i in 0..3 {
                words[i * n + k] = (c >> (i as u32 * WORD)) as u64 & ((1 << WORD) - 1);
            }
        }
        // What was added is taken off again.
        words[3 * n..].fill(1);
        self.transformed(basis, |i, limb| {
            let m = basis.modulus(i);
            let power = |e: u32| m.reduce_u128(1 << e);
            let offset = m.neg(power(I128_LIMIT_BITS as u32));
            let weights = [power(0), power(WORD), power(2 * WORD), offset];
            let terms = (&words[..], n);
            basis
                .backend()
                .convert(m, limb, terms, &weights, &mut Ahead::new());
        })
    }

    /// A polynomial whose limbs `f` writes in coefficient form, below 4q.
    fn transformed(&self, basis: &Basis, f: impl Fn(usize, &mut [u64]) + Sync) -> Poly<Ntt> {
        self.params.pool().build(basis, |i, limb| {
            f(i, limb);
            basis.backend().ntt_forward(&basis.tables()[i], limb);
        })
    }

    /// The bits of `largest * scale`, below those of half the modulus and of the integers that are rounded to.
    fn check_magnitude(&self, largest: f64, level: usize, scale: Scale) -> Result<f64, CkksError> {
        let log_limit = (self.params.chain().log_q(level) - 1.0).min(I128_LIMIT_BITS);
        // Of zero it is minus infinity, of no number it is none.
        let log = largest.log2() + scale.log2();
        // One bit of rounding is left below the limit, so `>=` on the logarithm is enough.
        if log.is_nan() || log + 1e-9 >= log_limit {
            return Err(CkksError::ValueTooLarge {
                log_coefficient: (log / 8.0).ceil() * 8.0,
                log_limit,
                level,
                scale,
            });
        }
        Ok(log)
    }

    /// The values of all N/2 slots.
    ///
    /// # Errors
    /// `ParamsMismatch`.
    pub fn decode(&self, plaintext: &Plaintext) -> Result<Vec<Complex64>, CkksError> {
        let slots = self.decode_slots(plaintext)?;
        Ok(self.interleaved(&slots))
    }

    /// The real parts of all N/2 slots.
    ///
    /// # Errors
    /// `ParamsMismatch`.
    pub fn decode_real(&self, plaintext: &Plaintext) -> Result<Vec<f64>, CkksError> {
        let slots = self.decode_slots(plaintext)?;
        Ok(slots[..self.params.slots()].to_vec())
    }

    fn decode_slots(&self, plaintext: &Plaintext) -> Result<Doubles, CkksError> {
        self.params.check_digest("plaintext", plaintext.digest())?;
        let (poly, pool) = (plaintext.poly(), self.params.pool());
        let basis = poly.basis();
        // Coefficients, in a buffer of the pool.
        let coeffs = pool.build(basis, |i, limb| {
            limb.copy_from_slice(poly.limb(i));
            basis.backend().ntt_inverse(&basis.tables()[i], limb);
        });
        let slots = self.slots_of(basis, coeffs.data(), plaintext.scale());
        pool.give(vec![coeffs]);
        slots
    }

    /// Decodes residues in coefficient form, modulo any number of primes, as centred integers. Cost: one FFT of N/2 points,
    /// k^2/2 multiply-adds a coefficient for k primes. Takes the same time for all values.
    ///
    /// # Errors
    /// `Length` for another ring degree.
    pub fn decode_coeffs(
        &self,
        poly: &Poly<Coeff>,
        scale: Scale,
    ) -> Result<Vec<Complex64>, CkksError> {
        let n = self.params.n();
        if poly.n() != n {
            return Err(CkksError::Length {
                what: "polynomial",
                got: poly.n() * 8,
                expected: n * 8,
            });
        }
        let slots = self.slots_of(poly.basis(), poly.data(), scale)?;
        Ok(self.interleaved(&slots))
    }

    fn interleaved(&self, slots: &[f64]) -> Vec<Complex64> {
        let (re, im) = slots.split_at(self.params.slots());
        let slots = re.iter().zip(im);
        slots.map(|(&re, &im)| Complex64::new(re, im)).collect()
    }

    /// The real parts of all slots, then the imaginary ones, from residues in coefficient form.
    fn slots_of(
        &self,
        basis: &Basis,
        residues: &[u64],
        scale: Scale,
    ) -> Result<Doubles, CkksError> {
        let n = self.params.n();
        let (mut coeffs, mut slots) = (Doubles::zeroed(n), Doubles::zeroed(n));
        FloatLift::new(basis)?.lift_residues(residues, &mut coeffs)?;
        let (first, second) = inverse_scale(scale);
        for c in coeffs.iter_mut() {
            *c = *c * first * second;
        }
        self.params.fft().to_slots(&coeffs, &mut slots);
        Ok(slots)
    }
}

/// Two factors whose product is 1 over the scale; one alone could be out of the range of a double.
fn inverse_scale(scale: Scale) -> (f64, f64) {
    if scale.log2().abs() < SCALE_LIMIT_BITS {
        return (1.0 / scale.to_f64(), 1.0);
    }
    let (mantissa, exponent) = scale.parts();
    let e = exponent + 127;
    let mantissa = (mantissa >> 64) as f64 / (1u64 << 63) as f64;
    let power = |e: i32| f64::from(-e).exp2();
    (power(e / 2) / mantissa, power(e - e / 2))
}

/// 2m coefficients of a polynomial in X^(n/(2m)), as n coefficients.
fn spread<T>(coeffs: Zeroizing<Vec<T>>, n: usize) -> Zeroizing<Vec<T>>
where
    T: Copy + Default + zeroize::Zeroize,
{
    if coeffs.len() == n {
        return coeffs;
    }
    let mut all = Zeroizing::new(vec![T::default(); n]);
    for (a, &c) in all.iter_mut().step_by(n / coeffs.len()).zip(coeffs.iter()) {
        *a = c;
    }
    all
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
