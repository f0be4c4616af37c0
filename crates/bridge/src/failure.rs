//! Probability that integer shares of one message wrap, as pure functions for the plan.
//!
//! The plan adds these over all crossings of one inference: aim at most 2^-30, refuse above 2^-20 (protocols.md R14).

use cipherloom_spec::fixed::EXTENDED_BITS;
use cipherloom_spec::Scale;

/// log2 of a bound on the probability that `ciphertexts` conversions to shares contain a wrong slot.
///
/// A coefficient `p_k` under a mask uniform modulo q wraps with probability `|p_k| / q`. Over one ciphertext the sum is
/// at most `sqrt(N) ||p|| / q`, and `||p|| <= Delta max|slot| <= Delta sqrt(2) bmax` by Parseval, so
/// `P <= ciphertexts sqrt(N) sqrt(2) Delta bmax / q` (protocols.md R15). `bmax` bounds both lanes of **all** slots, those
/// that nobody reads too. Example: N = 2^15, Delta = 2^40, bmax = 2^8, q = 2^100 gives 2^-44 a ciphertext.
#[must_use]
pub fn to_shares_failure_log2(
    ciphertexts: usize,
    log_n: u32,
    scale: Scale,
    bmax: f64,
    log_q: f64,
) -> f64 {
    (ciphertexts as f64).log2() + f64::from(log_n) / 2.0 + 0.5 + scale.log2() + bmax.log2() - log_q
}

/// log2 of a bound on the probability that `values` extended shares contain one that lifts wrongly, for
/// `|value * 2^F| < 2^word_bits`: `P <= values 2^word_bits / 2^88` (protocols.md 6.5).
///
/// A value that fills many slots counts once: its share is extended once. Integer shares that came from CKKS lift exactly:
/// they add nothing here.
#[must_use]
pub fn to_ckks_failure_log2(values: usize, word_bits: f64) -> f64 {
    (values as f64).log2() + word_bits - f64::from(EXTENDED_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Stream;
    use crate::{decode_shares, encode_shares, SlotFormat, WideFft};
    use cipherloom_spec::FracBits;

    #[test]
    fn the_figures_of_the_design_page_come_out() {
        let one = to_shares_failure_log2(1, 15, Scale::pow2(40), 256.0, 100.0);
        assert!((one + 44.0).abs() < 0.01, "{one}");
        assert!(
            (to_shares_failure_log2(1024, 15, Scale::pow2(40), 256.0, 100.0) - one - 10.0).abs()
                < 1e-9
        );
        assert!((to_ckks_failure_log2(1 << 20, 38.0) + 30.0).abs() < 1e-9);
    }

    /// A deliberately tight modulus: coefficients wrap as often as predicted, and a ciphertext decodes wrongly exactly when
    /// one of its coefficients wrapped.
    #[test]
    fn wraps_in_a_tight_modulus_are_as_many_as_predicted() {
        let log_n = 9u32;
        let fft = WideFft::new(log_n).unwrap();
        let n = fft.slots();
        let (scale, bmax) = (Scale::pow2(30), 4.0f64);
        let format = SlotFormat::new(scale, FracBits(19));
        let mut rng = Stream::new(5);
        let q = (1i128 << 38) - 45;
        let (mut wraps, mut predicted, mut wrong, trials) = (0u32, 0.0f64, 0u32, 400);
        for _ in 0..trials {
            let mut lane = || -> Vec<i128> { (0..n).map(|_| rng.signed(21)).collect() };
            let (re, im) = (lane(), lane());
            let p = encode_shares(&fft, &re, &im, 21, &format).unwrap();
            let centre = |v: i128| {
                let v = v.rem_euclid(q);
                if v > q / 2 {
                    v - q
                } else {
                    v
                }
            };
            let r: Vec<i128> = (0..2 * n).map(|_| centre(rng.signed(120))).collect();
            let c: Vec<i128> = p.iter().zip(&r).map(|(p, r)| centre(p + r)).collect();
            let minus: Vec<i128> = r.iter().map(|r| -r).collect();
            let wrapped = p
                .iter()
                .zip(&r)
                .zip(&c)
                .filter(|((p, r), c)| **p + **r != **c)
                .count() as u32;
            wraps += wrapped;
            predicted += p
                .iter()
                .map(|p| p.unsigned_abs() as f64 / q as f64)
                .sum::<f64>();
            let a = decode_shares(&fft, &c, 37, &format).unwrap();
            let b = decode_shares(&fft, &minus, 37, &format).unwrap();
            let bad = (0..n).any(|j| {
                (a.re[j] + b.re[j] - re[j]).abs() > 1 || (a.im[j] + b.im[j] - im[j]).abs() > 1
            });
            assert_eq!(
                bad,
                wrapped > 0,
                "a wrap and nothing else breaks a ciphertext"
            );
            wrong += u32::from(bad);
        }
        // A Poisson count within five standard deviations of its mean, and the mean below the bound.
        assert!(predicted > 30.0, "{predicted}");
        assert!(
            (f64::from(wraps) - predicted).abs() < 5.0 * predicted.sqrt(),
            "{wraps} against {predicted}"
        );
        let bound = to_shares_failure_log2(trials, log_n, scale, bmax, (q as f64).log2()).exp2();
        assert!(
            predicted <= bound && predicted > bound / 8.0,
            "{predicted} against the bound {bound}"
        );
        assert!(f64::from(wrong) <= bound);
    }
}
