//! Reciprocal square root by buckets and Newton steps (NeRMS).
//!
//! `1/sqrt(v)` for `v` in `[v_min, v_max]`: eight buckets of equal ratio `rho = (v_max/v_min)^(1/8)`
//! give a first value, then one or two Newton steps `y (3 - v y²)/2` follow. `v` is clamped to the
//! range first, so an input outside gives the value at the nearer end.
//!
//! Source: FESC, NeRMS (K = 8, one step, 7 comparisons); the balanced calibration is reconstructed.
//! With `z = g·sqrt(v)` one step multiplies `1/sqrt(v)` by `f(z) = z(3 - z²)/2 <= 1`. In a bucket `z`
//! runs over `[z0, z0·sqrt(rho)]`; `z0` is chosen such that `f` has the same value at both ends.

use serde::{Deserialize, Serialize};

/// Number of buckets.
pub const BUCKETS: usize = 8;

/// Why a table cannot be built.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RmsTableError {
    /// The range is empty, reversed or not made of positive finite numbers.
    #[error("NeRMS range [{v_min}, {v_max}] must satisfy 0 < v_min < v_max < infinity")]
    Range {
        /// Lower end given.
        v_min: f64,
        /// Upper end given.
        v_max: f64,
    },
    /// The range is so wide that one step cannot reach a useful error.
    #[error(
        "NeRMS range [{v_min}, {v_max}] has ratio {ratio:.3e}; at most 2^{max_log2} is accepted: \
         calibrate the norm on representative data"
    )]
    TooWide {
        /// Lower end given.
        v_min: f64,
        /// Upper end given.
        v_max: f64,
        /// `v_max / v_min`.
        ratio: f64,
        /// Largest accepted base-2 logarithm of the ratio.
        max_log2: u32,
    },
    /// Newton steps other than 1 or 2.
    #[error("NeRMS with {newton} Newton steps; 1 and 2 are supported")]
    Newton {
        /// Steps given.
        newton: u32,
    },
}

/// Largest accepted `log2(v_max/v_min)`. At 2^32 (`rho` = 16) two steps still reach 12 %.
pub const MAX_LOG2_RATIO: u32 = 32;

/// Table of one reciprocal square root.
///
/// Serialised as `{v_min, v_max, newton}`; the tables are rebuilt on load. They are computed with
/// additions, products, divisions and square roots only, so every IEEE machine rebuilds the same bits.
///
/// # How `out_scale` is folded
///
/// The plain first step lies in `[1 - e, 1]·(1/sqrt(v))`. Multiplying it by `out_scale = 2/(2 - e)`
/// centres the relative error at `±e/(2 - e)`, about half. The factor is folded **into the table
/// [`Self::init`] only** (`init[j] = out_scale·g_j`) and **not** into [`Self::init_sq`]
/// (`init_sq[j] = g_j²`), for one and for two steps alike:
///
/// - step 1: `y1 = init·(1.5 - 0.5·v·init_sq)`, which is `out_scale` times the plain step;
/// - step 2 (if `newton` is 2): `y2 = y1·(1.5 - 0.5·v·y1²)` with the centred `y1`. No further factor:
///   the error is then one-sided, in `[1 - 1.5 e1² - 0.5 e1³, 1]` with `e1 = e/(2 - e)`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "NeRmsLiteral", into = "NeRmsLiteral")]
pub struct NeRms {
    /// Number of buckets, always [`BUCKETS`].
    pub buckets: usize,
    /// Newton steps, 1 or 2.
    pub newton: u32,
    /// Lower clamp of `v`.
    pub v_min: f64,
    /// Upper clamp of `v`.
    pub v_max: f64,
    /// Inner bucket boundaries, ascending: `v_min·rho^(j+1)`. Bucket `j` holds `v < thresholds[j]`.
    pub thresholds: [f64; BUCKETS - 1],
    /// First values of the linear factor: `out_scale·z0/sqrt(v_min·rho^j)`.
    pub init: [f64; BUCKETS],
    /// Squares of the first values without the scale: `z0²/(v_min·rho^j)`.
    pub init_sq: [f64; BUCKETS],
    /// Factor folded into `init`.
    pub out_scale: f64,
    /// Largest relative error of [`Self::eval`] on `[v_min, v_max]`.
    pub max_relative_error: f64,
}

/// Serialised form of [`NeRms`]: unchecked until converted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeRmsLiteral {
    /// Lower clamp of `v`.
    pub v_min: f64,
    /// Upper clamp of `v`.
    pub v_max: f64,
    /// Newton steps.
    pub newton: u32,
}

impl TryFrom<NeRmsLiteral> for NeRms {
    type Error = RmsTableError;

    fn try_from(l: NeRmsLiteral) -> Result<Self, RmsTableError> {
        Self::new(l.v_min, l.v_max, l.newton)
    }
}

impl From<NeRms> for NeRmsLiteral {
    fn from(t: NeRms) -> Self {
        Self {
            v_min: t.v_min,
            v_max: t.v_max,
            newton: t.newton,
        }
    }
}

/// Relative effect of one Newton step on `z = y·sqrt(v)`.
fn step(z: f64) -> f64 {
    0.5 * z * (3.0 - z * z)
}

/// Solves `f(z) = f(z·s)` for `z` in `(0, 1)` by bisection, with `s = sqrt(rho) > 1`.
///
/// The closed form is `z² = 3/(1 + s + s²)`: `3z - z³ = 3zs - z³s³` divided by `z(1 - s)`. It is the
/// start; the bisection then makes the two ends equal to the last bit that `f` resolves.
fn balanced_start(s: f64) -> f64 {
    let closed = (3.0 / (1.0 + s + s * s)).sqrt();
    let (mut lo, mut hi) = (closed * (1.0 - 1e-6), closed * (1.0 + 1e-6));
    for _ in 0..60 {
        let mid = 0.5 * (lo + hi);
        // f(z) < f(zs) left of the solution.
        if step(mid) < step(mid * s) {
            lo = mid;
        } else {
            hi = mid;
        }
    }
    0.5 * (lo + hi)
}

impl NeRms {
    /// Builds the table for `v` in `[v_min, v_max]`.
    ///
    /// # Errors
    /// [`RmsTableError`] when the range is empty, not positive, wider than 2^32, or `newton` is not 1 or 2.
    pub fn new(v_min: f64, v_max: f64, newton: u32) -> Result<Self, RmsTableError> {
        if !(v_min > 0.0 && v_max > v_min && v_max.is_finite() && v_min.is_normal()) {
            return Err(RmsTableError::Range { v_min, v_max });
        }
        let ratio = v_max / v_min;
        if ratio > (1u64 << MAX_LOG2_RATIO) as f64 {
            return Err(RmsTableError::TooWide {
                v_min,
                v_max,
                ratio,
                max_log2: MAX_LOG2_RATIO,
            });
        }
        if !(1..=2).contains(&newton) {
            return Err(RmsTableError::Newton { newton });
        }
        let rho = ratio.sqrt().sqrt().sqrt();
        let z0 = balanced_start(rho.sqrt());
        let e = 1.0 - step(z0);
        let out_scale = 2.0 / (2.0 - e);
        let e1 = e / (2.0 - e);
        let max_relative_error = match newton {
            1 => e1,
            _ => 1.5 * e1 * e1 + 0.5 * e1 * e1 * e1,
        };
        let mut thresholds = [0.0; BUCKETS - 1];
        let mut init = [0.0; BUCKETS];
        let mut init_sq = [0.0; BUCKETS];
        let mut edge = v_min;
        for j in 0..BUCKETS {
            init[j] = out_scale * (z0 / edge.sqrt());
            init_sq[j] = z0 * z0 / edge;
            edge *= rho;
            if j < BUCKETS - 1 {
                thresholds[j] = edge;
            }
        }
        Ok(Self {
            buckets: BUCKETS,
            newton,
            v_min,
            v_max,
            thresholds,
            init,
            init_sq,
            out_scale,
            max_relative_error,
        })
    }

    /// Approximate `1/sqrt(v)` with `v` clamped to `[v_min, v_max]` first. The relative error is at most
    /// [`Self::max_relative_error`] inside the range.
    pub fn eval(&self, v: f64) -> f64 {
        let v = v.clamp(self.v_min, self.v_max);
        let j = self.bucket(v);
        let mut y = self.init[j] * (1.5 - 0.5 * (v * self.init_sq[j]));
        if self.newton > 1 {
            y *= 1.5 - 0.5 * (v * (y * y));
        }
        y
    }

    /// Bucket of a clamped `v`: the number of thresholds that are at most `v`.
    pub fn bucket(&self, v: f64) -> usize {
        self.thresholds.iter().filter(|th| v >= **th).count()
    }

    /// Is `v` inside the calibrated range? Outside, [`Self::eval`] clamps.
    pub fn contains(&self, v: f64) -> bool {
        v >= self.v_min && v <= self.v_max
    }

    /// The same function of a scaled input: `t.scaled_input(c).eval(c·v)` equals `t.eval(v)`.
    ///
    /// A protocol that holds the sum of squares instead of the mean, or a mean without its factor 1/3,
    /// folds the constant here. Only the first step uses the tables, so `newton` must be 1 or the caller
    /// must pass `v` itself to the second step; this method refuses `newton` = 2.
    pub fn scaled_input(&self, c: f64) -> Option<Self> {
        if self.newton != 1 || !(c > 0.0 && c.is_finite()) {
            return None;
        }
        let mut t = self.clone();
        t.v_min *= c;
        t.v_max *= c;
        t.thresholds.iter_mut().for_each(|x| *x *= c);
        t.init_sq.iter_mut().for_each(|x| *x /= c);
        Some(t)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest and smallest signed relative error on a dense logarithmic grid.
    fn measured(t: &NeRms) -> (f64, f64) {
        let n = 400_000;
        let (mut lo, mut hi) = (f64::INFINITY, f64::NEG_INFINITY);
        for i in 0..=n {
            let v = t.v_min * (t.v_max / t.v_min).powf(f64::from(i) / f64::from(n));
            let v = v.clamp(t.v_min, t.v_max);
            let e = t.eval(v) * v.sqrt() - 1.0;
            lo = lo.min(e);
            hi = hi.max(e);
        }
        (lo, hi)
    }

    #[test]
    fn published_ratios_are_reproduced() {
        // Ratio 2 and 4: start, scale and balanced error as tabulated for the reconstruction.
        for (range, z0, scale, error) in [
            (256.0, 0.824_392, 1.022_259, 2.23e-2),
            (65536.0, 0.654_654, 1.085_955, 8.6e-2),
        ] {
            let t = NeRms::new(1.0, range, 1).unwrap();
            assert!((t.init[0] / t.out_scale - z0).abs() < 1e-6);
            assert!((t.out_scale - scale).abs() < 1e-6);
            assert!((t.max_relative_error - error).abs() < 5e-5);
        }
    }

    #[test]
    fn stated_error_is_reached_and_not_exceeded() {
        for (a, b) in [
            (2f64.powi(-4), 16.0),
            (2f64.powi(-9), 2.0),
            (0.5, 16.0),
            (1e-3, 1e3),
        ] {
            for newton in [1, 2] {
                let t = NeRms::new(a, b, newton).unwrap();
                let (lo, hi) = measured(&t);
                let worst = hi.max(-lo);
                assert!(
                    worst <= t.max_relative_error * (1.0 + 1e-9),
                    "{t:?} {worst}"
                );
                assert!(worst >= 0.999 * t.max_relative_error, "{t:?} {worst}");
                if newton == 1 {
                    // Balanced: both signs equally large.
                    assert!((hi + lo).abs() < 1e-3 * worst, "{lo} {hi}");
                } else {
                    assert!(hi <= 1e-12, "the second step is one-sided: {hi}");
                }
            }
        }
    }

    #[test]
    fn values_outside_are_clamped() {
        let t = NeRms::new(0.25, 8.0, 1).unwrap();
        assert_eq!(t.eval(0.0), t.eval(0.25));
        assert_eq!(t.eval(-1.0), t.eval(0.25));
        assert_eq!(t.eval(1e9), t.eval(8.0));
        assert!(!t.contains(0.2) && t.contains(0.25) && t.contains(8.0));
    }

    #[test]
    fn buckets_follow_the_thresholds() {
        let t = NeRms::new(1.0, 256.0, 1).unwrap();
        for (j, th) in t.thresholds.iter().enumerate() {
            assert!((th - 2f64.powi(j as i32 + 1)).abs() < 1e-9);
            assert_eq!(t.bucket(th * (1.0 - 1e-12)), j);
            assert_eq!(t.bucket(*th), j + 1);
        }
    }

    #[test]
    fn scaled_input_is_the_same_function() {
        let t = NeRms::new(0.125, 4.0, 1).unwrap();
        let s = t.scaled_input(128.0).unwrap();
        for v in [0.01, 0.125, 0.3, 1.0, 3.9, 10.0] {
            assert!((s.eval(128.0 * v) - t.eval(v)).abs() < 1e-12);
        }
        assert!(NeRms::new(0.125, 4.0, 2)
            .unwrap()
            .scaled_input(2.0)
            .is_none());
    }

    #[test]
    fn bad_tables_are_refused() {
        for (a, b) in [
            (0.0, 1.0),
            (-1.0, 1.0),
            (2.0, 1.0),
            (1.0, 1.0),
            (f64::NAN, 1.0),
            (1.0, f64::INFINITY),
        ] {
            assert!(matches!(
                NeRms::new(a, b, 1),
                Err(RmsTableError::Range { .. })
            ));
        }
        assert!(matches!(
            NeRms::new(1e-9, 1e9, 1),
            Err(RmsTableError::TooWide { .. })
        ));
        assert!(matches!(
            NeRms::new(1.0, 2.0, 3),
            Err(RmsTableError::Newton { newton: 3 })
        ));
    }

    #[test]
    fn serialised_form_rebuilds_the_same_bits_and_is_checked() {
        let t = NeRms::new(2f64.powi(-7), 4.0, 2).unwrap();
        let text = serde_json::to_string(&t).unwrap();
        assert_eq!(text, r#"{"v_min":0.0078125,"v_max":4.0,"newton":2}"#);
        let back: NeRms = serde_json::from_str(&text).unwrap();
        assert_eq!(back, t);
        assert!(serde_json::from_str::<NeRms>(r#"{"v_min":4.0,"v_max":1.0,"newton":1}"#).is_err());
    }
}
