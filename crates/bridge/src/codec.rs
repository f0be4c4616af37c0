//! Integer polynomials to fixed-point shares of slots, and back.
//!
//! Decoding is linear over the reals, not modulo q or 2^64: it is applied to *integer* shares of the coefficients, whose
//! sum is the message itself. Each party rounds once, so the sum of the decoded shares is within one unit of
//! the message's slots times `2^F` (protocols.md 6.1, 6.5).

use crate::wide::{mul_round, WideComplex, WideFft};
use crate::BridgeError;
use cipherloom_ring::{Basis, Coeff, Poly, SecretPoly};
use cipherloom_spec::{FracBits, Scale};
use zeroize::Zeroizing;

/// The two exact constants of one boundary: `2^F / Delta` and `Delta / 2^F`, each a 128-bit mantissa and an exponent.
///
/// Both parties build them from the plan's scale with the same integer operations, so they multiply by the very same
/// number (protocols.md R15 asks for `round(2^F / Delta * 2^127)`; a 128-bit mantissa is finer by 2^21).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotFormat {
    scale: Scale,
    frac: FracBits,
    to_shares: Scale,
    to_slots: Scale,
}

impl SlotFormat {
    /// Boundary between slots at `scale` and fixed-point words with `frac` fraction bits.
    #[must_use]
    pub fn new(scale: Scale, frac: FracBits) -> Self {
        let unit = Scale::pow2(frac.0 as i32);
        Self {
            scale,
            frac,
            to_shares: unit.over(scale),
            to_slots: scale.over(unit),
        }
    }
    /// The CKKS scale.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.scale
    }
    /// Fraction bits of the shares.
    #[must_use]
    pub fn frac(&self) -> FracBits {
        self.frac
    }
}

/// Fixed-point words of both lanes of one ciphertext's slots, as integers; wiped on drop.
pub struct SlotWords {
    /// Real lane, one word a slot.
    pub re: Zeroizing<Vec<i128>>,
    /// Imaginary lane, one word a slot.
    pub im: Zeroizing<Vec<i128>>,
}

impl SlotWords {
    /// Takes both lanes; an empty imaginary lane stands for zeros.
    ///
    /// # Errors
    /// `Length` when the lanes differ.
    pub fn new(re: Vec<i128>, im: Vec<i128>) -> Result<Self, BridgeError> {
        let (re, mut im) = (Zeroizing::new(re), Zeroizing::new(im));
        if im.is_empty() {
            *im = vec![0; re.len()];
        }
        if im.len() != re.len() {
            return Err(BridgeError::Length {
                what: "imaginary lane",
                got: im.len(),
                expected: re.len(),
            });
        }
        Ok(Self { re, im })
    }

    /// Both lanes modulo 2^64, as stored shares.
    #[must_use]
    pub fn to_ring64(&self) -> (Vec<u64>, Vec<u64>) {
        let low = |v: &[i128]| v.iter().map(|&w| w as u64).collect();
        (low(&self.re), low(&self.im))
    }
}

/// Multiplier and right shift that apply a scale to a number with `guard` fraction bits.
fn factor(
    op: &'static str,
    by: Scale,
    guard: u32,
    value_bits: i64,
) -> Result<(u128, u32), BridgeError> {
    let (mant, exp) = by.parts();
    let out_bits = value_bits + i64::from(by.log2().ceil() as i32);
    let shift = i64::from(guard) - i64::from(exp);
    if out_bits > 126 || !(1..256).contains(&shift) {
        return Err(BridgeError::Headroom {
            op,
            bits: out_bits,
            max: 126,
        });
    }
    Ok((mant, shift as u32))
}

/// Decodes one party's integer polynomial: slot values times `2^F / Delta`, rounded once to integers.
///
/// `coeffs`: N centred integers with `|c| < 2^coeff_bits` (`coeff_bits` is public: the modulus' bits less one).
/// Result: N/2 words in each lane, slot order of `ckks` (slot `j` at `zeta^(5^j)`).
/// Error against exact decoding: `1/2 + 5 N 2^(coeff_bits + log2 N - 127) 2^F / Delta`, that is 1/2 + 2^-15
/// for q = 2^100, Delta = 2^40, F = 19, N = 2^15. Cost: one FFT, no branch on a value.
///
/// # Errors
/// `Length`; `Headroom` when `coeff_bits + log2 N > 126`.
pub fn decode_shares(
    fft: &WideFft,
    coeffs: &[i128],
    coeff_bits: u32,
    format: &SlotFormat,
) -> Result<SlotWords, BridgeError> {
    const OP: &str = "decode_shares";
    let n = fft.slots();
    if coeffs.len() != 2 * n {
        return Err(BridgeError::Length {
            what: "coefficients to decode",
            got: coeffs.len(),
            expected: 2 * n,
        });
    }
    let value_bits = coeff_bits + fft.log_n();
    let Some(guard) = 126u32.checked_sub(value_bits) else {
        return Err(BridgeError::Headroom {
            op: OP,
            bits: i64::from(value_bits),
            max: 126,
        });
    };
    let (mant, shift) = factor(OP, format.to_shares, guard, i64::from(value_bits))?;
    let (lo, hi) = coeffs.split_at(n);
    let mut a: Zeroizing<Vec<WideComplex>> = Zeroizing::new(
        lo.iter()
            .zip(hi)
            .map(|(&re, &im)| WideComplex {
                re: re << guard,
                im: im << guard,
            })
            .collect(),
    );
    fft.forward(&mut a);
    let lane = |part: fn(&WideComplex) -> i128| {
        Zeroizing::new(
            (0..n)
                .map(|j| mul_round(part(&a[fft.leaf(j)]), mant, shift))
                .collect::<Vec<i128>>(),
        )
    };
    Ok(SlotWords {
        re: lane(|v| v.re),
        im: lane(|v| v.im),
    })
}

/// Encodes one party's fixed-point words as an integer polynomial at the format's scale: the N coefficients of
/// `(re + i im) * Delta / 2^F`, rounded once.
///
/// Needs `|word| <= 2^word_bits` in both lanes (public; 88 for extended shares). The result may exceed any ciphertext modulus;
/// that is harmless, it is reduced. Error per coefficient: `1/2 + 5 log2(N) 2^(word_bits - 125) Delta / 2^F`,
/// that is 1/2 + 2^-9 for 88 bits, Delta = 2^40, F = 19, N = 2^15.
///
/// # Errors
/// `Length`; `Headroom` when `word_bits + log2(Delta / 2^F) > 125`.
pub fn encode_shares(
    fft: &WideFft,
    re: &[i128],
    im: &[i128],
    word_bits: u32,
    format: &SlotFormat,
) -> Result<Zeroizing<Vec<i128>>, BridgeError> {
    const OP: &str = "encode_shares";
    let n = fft.slots();
    for (what, lane) in [
        ("real lane to encode", re),
        ("imaginary lane to encode", im),
    ] {
        if lane.len() != n {
            return Err(BridgeError::Length {
                what,
                got: lane.len(),
                expected: n,
            });
        }
    }
    let Some(guard) = 125u32.checked_sub(word_bits) else {
        return Err(BridgeError::Headroom {
            op: OP,
            bits: i64::from(word_bits),
            max: 125,
        });
    };
    // A complex value is up to sqrt(2) larger than its lanes: one more bit.
    let (mant, shift) = factor(OP, format.to_slots, guard, i64::from(word_bits) + 1)?;
    let mut a: Zeroizing<Vec<WideComplex>> = Zeroizing::new(vec![WideComplex::default(); n]);
    for (j, (&re, &im)) in re.iter().zip(im).enumerate() {
        a[fft.leaf(j)] = WideComplex {
            re: re << guard,
            im: im << guard,
        };
    }
    fft.inverse(&mut a);
    let re = a.iter().map(|v| v.re);
    let im = a.iter().map(|v| v.im);
    Ok(Zeroizing::new(
        re.chain(im).map(|v| mul_round(v, mant, shift)).collect(),
    ))
}

/// [`encode_shares`] reduced modulo every prime of `basis` (a level of the chain). The values may exceed the modulus.
///
/// # Errors
/// As [`encode_shares`]; `Ring` when the basis has another degree.
pub fn encode_poly(
    fft: &WideFft,
    basis: &Basis,
    words: &SlotWords,
    word_bits: u32,
    format: &SlotFormat,
) -> Result<SecretPoly<Coeff>, BridgeError> {
    let coeffs = encode_shares(fft, &words.re, &words.im, word_bits, format)?;
    Ok(SecretPoly::new(Poly::from_i128(basis, &coeffs)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::RefTrig;
    use crate::stream::Stream;
    use num_bigint::BigInt;
    use proptest::prelude::*;

    /// `|got - want| * 2^-REF` in thousandths of a unit, for `want` with many fraction bits.
    fn milli_units(got: i128, want: &BigInt, bits: usize) -> u64 {
        let diff: BigInt = (BigInt::from(got) << bits) - want;
        u64::try_from((BigInt::from(diff.magnitude().clone()) * 1000u32) >> bits)
            .unwrap_or(u64::MAX)
    }

    #[test]
    fn decoding_at_a_hundred_bits_is_within_half_a_unit_of_exact_arithmetic() {
        for (log_n, coeff_bits, scale_bits) in
            [(4u32, 99u32, 40i32), (9, 99, 40), (7, 105, 45), (7, 99, 38)]
        {
            let fft = WideFft::new(log_n).unwrap();
            let reference = RefTrig::new(log_n);
            // A scale that is no power of two: 2^(2s) / q for a made-up prime.
            let scale = Scale::pow2(2 * scale_bits).over(Scale::prime((1u64 << scale_bits) - 87));
            let format = SlotFormat::new(scale, FracBits(19));
            let mut rng = Stream::new(7 + u64::from(log_n));
            let coeffs: Vec<i128> = (0..1usize << log_n)
                .map(|_| rng.signed(coeff_bits))
                .collect();
            let got = decode_shares(&fft, &coeffs, coeff_bits, &format).unwrap();
            let (mant, exp) = format.to_shares.parts();
            let shift = usize::try_from(-exp).unwrap();
            let mut worst = 0;
            for (j, (re, im)) in reference.slots(&coeffs).into_iter().enumerate() {
                for (got, want) in [(got.re[j], re), (got.im[j], im)] {
                    let want = want * BigInt::from(mant);
                    worst = worst.max(milli_units(got, &want, RefTrig::BITS + shift));
                }
            }
            // Rounding alone is 0.5; the constant itself is checked against the scale below.
            assert!((400..=501).contains(&worst), "log_n={log_n}: {worst}/1000");
        }
    }

    #[test]
    fn the_constants_are_the_scale_to_127_bits() {
        let scale = Scale::pow2(80).over(Scale::prime(1_099_511_480_321));
        let f = SlotFormat::new(scale, FracBits(19));
        let (a, ea) = f.to_shares.parts();
        let (b, eb) = scale.parts();
        let product: BigInt = BigInt::from(a) * BigInt::from(b);
        let one = BigInt::from(1) << usize::try_from(19 - ea - eb).unwrap();
        let diff: BigInt = &product - &one;
        assert!(BigInt::from(diff.magnitude().clone()) << 126usize < one);
        assert!(f.to_slots.times(f.to_shares).matches(Scale::pow2(0)));
    }

    #[test]
    fn encoding_is_within_one_unit_of_the_inverse_of_exact_decoding() {
        // Slots of the encoded integers, computed exactly, give back the words: the only error is the rounding of N
        // coefficients, at most N/2 in a slot and about sqrt(N) * 0.29.
        for (log_n, word_bits) in [(4u32, 88u32), (9, 88), (7, 100)] {
            let fft = WideFft::new(log_n).unwrap();
            let reference = RefTrig::new(log_n);
            let scale = Scale::pow2(80).over(Scale::prime((1u64 << 40) - 87));
            let format = SlotFormat::new(scale, FracBits(19));
            let mut rng = Stream::new(11 + u64::from(log_n));
            let n = fft.slots();
            let mut lane = || -> Vec<i128> { (0..n).map(|_| rng.signed(word_bits)).collect() };
            let (re, im) = (lane(), lane());
            let coeffs = encode_shares(&fft, &re, &im, word_bits, &format).unwrap();
            let (mant, exp) = format.to_slots.parts();
            let shift = usize::try_from(-exp).unwrap();
            let bound = (f64::from(1 << log_n)).sqrt() * 2.0;
            for (j, (got_re, got_im)) in reference.slots(&coeffs).into_iter().enumerate() {
                for (word, got) in [(re[j], got_re), (im[j], got_im)] {
                    let want: BigInt = (BigInt::from(word) * BigInt::from(mant)) << RefTrig::BITS;
                    let diff: BigInt = (got << shift) - want;
                    let err = u64::try_from(diff.magnitude() >> (RefTrig::BITS + shift)).unwrap();
                    assert!((err as f64) <= bound, "log_n={log_n} slot {j}: {err}");
                }
            }
        }
    }

    #[test]
    fn extremes_neither_wrap_nor_panic() {
        let fft = WideFft::new(10).unwrap();
        let format = SlotFormat::new(Scale::pow2(40), FracBits(19));
        let n = fft.slots();
        // All coefficients at the bound with the signs of slot 0: the largest slot value there is.
        let reference = RefTrig::new(10);
        let top = (1i128 << 99) - 1;
        let zero = BigInt::from(0);
        let coeffs: Vec<i128> = (0..2 * n)
            .map(|k| {
                if *reference.root(k).0 < zero {
                    -top
                } else {
                    top
                }
            })
            .collect();
        let words = decode_shares(&fft, &coeffs, 99, &format).unwrap();
        let want: BigInt = (0..2 * n).map(|k| reference.root(k).0 * coeffs[k]).sum();
        assert!(milli_units(words.re[0], &want, RefTrig::BITS + 21) <= 501);
        // A constant vector of the largest words encodes to one coefficient a lane.
        let top = 1i128 << 88;
        let c = encode_shares(&fft, &vec![top; n], &vec![-top; n], 88, &format).unwrap();
        assert_eq!((c[0], c[n]), (top << 21, -(top << 21)));
        assert!(c
            .iter()
            .enumerate()
            .all(|(k, &v)| k % n == 0 || v.abs() <= 1));
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        let fft = WideFft::new(10).unwrap();
        let format = SlotFormat::new(Scale::pow2(40), FracBits(19));
        let z = vec![0i128; 1024];
        assert!(matches!(
            decode_shares(&fft, &z, 117, &format),
            Err(BridgeError::Headroom { bits: 127, .. })
        ));
        assert!(matches!(
            decode_shares(&fft, &z[1..], 99, &format),
            Err(BridgeError::Length { got: 1023, .. })
        ));
        assert!(matches!(
            encode_shares(&fft, &z[..512], &z[..512], 105, &format),
            Err(BridgeError::Headroom { .. })
        ));
        assert!(matches!(
            encode_shares(&fft, &z[..512], &z[..511], 88, &format),
            Err(BridgeError::Length { got: 511, .. })
        ));
        assert!(encode_shares(&fft, &z[..512], &z[..512], 104, &format).is_ok());
        assert!(matches!(
            WideFft::new(18),
            Err(BridgeError::RingDegree { .. })
        ));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn shares_of_a_message_decode_to_shares_of_its_slots(seed: u64, log_n in 4u32..11) {
            let fft = WideFft::new(log_n).unwrap();
            let format = SlotFormat::new(Scale::pow2(40), FracBits(19));
            let mut rng = Stream::new(seed);
            let n = fft.slots();
            // Words of 27 bits (|v| < 2^8 at F = 19), encoded, split into integer shares of 99 bits, decoded apart.
            let mut lane = || -> Vec<i128> { (0..n).map(|_| rng.signed(27)).collect() };
            let (re, im) = (lane(), lane());
            let p = encode_shares(&fft, &re, &im, 27, &format).unwrap();
            let r: Vec<i128> = (0..2 * n).map(|_| rng.signed(98)).collect();
            let c: Vec<i128> = p.iter().zip(&r).map(|(p, r)| p + r).collect();
            let minus: Vec<i128> = r.iter().map(|r| -r).collect();
            let a = decode_shares(&fft, &c, 99, &format).unwrap();
            let b = decode_shares(&fft, &minus, 99, &format).unwrap();
            let ((ar, ai), (br, bi)) = (a.to_ring64(), b.to_ring64());
            for j in 0..n {
                prop_assert!((a.re[j] + b.re[j] - re[j]).abs() <= 1);
                prop_assert!((a.im[j] + b.im[j] - im[j]).abs() <= 1);
                prop_assert!((ar[j].wrapping_add(br[j]) as i64 - re[j] as i64).abs() <= 1);
                prop_assert!((ai[j].wrapping_add(bi[j]) as i64 - im[j] as i64).abs() <= 1);
            }
        }
    }
}
