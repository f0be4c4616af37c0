//! Formats of a reciprocal root mean square: from the calibrated range of `v = mean(x²) + eps`.
//!
//! # Scaled input
//!
//! With `n = m·2^j`, `1 <= m < 2`, the protocol works on `v' = m·v = sum(x²)/2^j + m·eps`. Dividing by `2^j` only changes
//! how the fraction bits are read, so the mean costs no product and no rounding; `m` goes into the tables and constants
//! (protocols.md R18).
//!
//! # Fraction bits
//!
//! Let `2^-a <= v'_min` and `v'_max <= 2^c`. With a precision of `b` bits (the largest in 11..=18 that fits):
//!
//! | value | size | fraction bits | word below |
//! |---|---|---|---|
//! | `v'` | `<= 2^c` | `a + b` | `2^(a+b+c)` |
//! | `y0² = q` table | `<= 2^a` | `b + 1 + c` | `2^(a+b+c+1)` |
//! | `v'·q` | `< 4` | sum of both | `2^(2b+a+c+3)` |
//! | `y0`, `y1` | `< 2^(ceil(a/2)+1)` | `b + 1 + ceil(c/2)` | |
//! | `y1²` | `< 2^(a+1)` | twice that | `2^(2b+a+c+4)` |
//!
//! so every product stays below 2^62 when `2b + a + c + 5 <= 62`. Relative errors are then a few times `2^-b`.

use super::even::FRAC_RANGE;
use super::words::{
    bits_above, ceil_log2, check_thresholds, compare_format, fits, in_range, WORD_BITS,
};
use super::{CompareFormat, FormatError};
use crate::approx::{rms::BUCKETS, NeRms};
use crate::FracBits;
use serde::{Deserialize, Serialize};

/// Largest and smallest precision in bits.
const PRECISION: (i32, i32) = (11, 18);
/// Fraction bits of `v'·y0²` after its truncation, at most.
const H_FRAC: i32 = 22;

/// What a [`NormConfig`] is built from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormLiteral {
    /// Elements of a row (the width that is averaged over).
    pub len: usize,
    /// Constant added to the mean of squares.
    pub eps: f64,
    /// Fraction bits of the rows.
    pub frac: FracBits,
    /// Table for `v = mean(x²) + eps` in the calibrated range.
    pub table: NeRms,
    /// Clamp `v` to the range of the table (protocols.md R20). On unless a plan says otherwise.
    pub clamp: bool,
}

/// Checked formats of one RMS norm. Serialised as its [`NormLiteral`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "NormLiteral", into = "NormLiteral")]
pub struct NormConfig {
    literal: NormLiteral,
    /// `2^mean_log2 = n/m`.
    mean_log2: u32,
    /// `m = n/2^mean_log2`, in `[1, 2)`.
    mantissa: f64,
    /// Bits cut from `x` before squaring; 0 unless the sum of squares is too large.
    pre_shift: u32,
    v_frac: u32,
    q_frac: u32,
    y_frac: u32,
    h_frac: u32,
    /// Fraction bits of `v'·y1²` and of the constant of the second step.
    h2_frac: u32,
    const_frac: u32,
    out_frac: u32,
    compare: CompareFormat,
    /// `v'` at the lower and upper clamp.
    clamp_low: f64,
    clamp_high: f64,
    /// Inner thresholds of `v'`, ascending.
    thresholds: [f64; BUCKETS - 1],
    /// Table of `y0`: for one step at the scale of the result, for two at the scale `1/sqrt(v')`.
    init: [f64; BUCKETS],
    /// Table of `y0²/m`.
    init_sq: [f64; BUCKETS],
}

impl TryFrom<NormLiteral> for NormConfig {
    type Error = FormatError;

    fn try_from(l: NormLiteral) -> Result<Self, FormatError> {
        Self::new(l)
    }
}

impl From<NormConfig> for NormLiteral {
    fn from(c: NormConfig) -> Self {
        c.literal
    }
}

impl NormConfig {
    /// Derives all formats.
    ///
    /// # Errors
    /// `Parameter`, `Overflow` when the range leaves fewer than 11 bits of precision, `Thresholds`.
    pub fn new(literal: NormLiteral) -> Result<Self, FormatError> {
        let NormLiteral {
            len,
            eps,
            frac,
            ref table,
            clamp: _,
        } = literal;
        in_range(
            "fraction bits",
            f64::from(frac.0),
            FRAC_RANGE.0,
            FRAC_RANGE.1,
            "use 19",
        )?;
        in_range("row length", len as f64, 1.0, 24f64.exp2(), "split the row")?;
        in_range("eps", eps, 0.0, 1.0, "check the checkpoint")?;
        let recalibrate = "calibrate the norm on representative data";
        in_range(
            "v_min",
            table.v_min,
            (-24f64).exp2(),
            24f64.exp2(),
            recalibrate,
        )?;
        in_range(
            "v_max",
            table.v_max,
            (-24f64).exp2(),
            24f64.exp2(),
            recalibrate,
        )?;

        let mean_log2 = len.ilog2();
        let mantissa = len as f64 / f64::from(mean_log2).exp2();
        let (low, high) = (table.v_min * mantissa, table.v_max * mantissa);
        let (a, c) = (ceil_log2(1.0 / low), ceil_log2(high));

        // Two spare bits, so that rows somewhat outside the range still reach the clamp unwrapped.
        let sum_bits = ceil_log2(table.v_max * len as f64) + 2;
        let pre_shift = ((sum_bits + 2 * frac.0 as i32 - WORD_BITS).max(0) as u32).div_ceil(2);
        if pre_shift > 0 {
            // Cutting x to the unit u adds u²/4 to the mean of squares and a fluctuation u·sqrt(v/n): both must stay
            // below 2^-12 of v.
            let tolerated = table.v_min * (-12f64).exp2().min(len as f64 * (-24f64).exp2());
            in_range(
                "fraction bits left for the squares",
                f64::from(frac.0) - f64::from(pre_shift),
                f64::from(half_up(ceil_log2(1.0 / tolerated))).max(1.0),
                f64::from(frac.0),
                recalibrate,
            )?;
        }
        let sum_frac = (2 * (frac.0 - pre_shift) + mean_log2) as i32;

        let b = ((WORD_BITS - 5 - a - c) / 2).min(PRECISION.1);
        if b < PRECISION.0 {
            return Err(FormatError::Overflow {
                what: "NeRMS input times squared table",
                value: table.v_max / table.v_min,
                bits: 2 * PRECISION.0 + a + c + 5,
                max: WORD_BITS,
                remedy: recalibrate,
            });
        }
        // The floors matter for ranges far above 1 (v) or below 1 (q) only, where b bits need no fraction.
        let v_frac = (a + b).max(2).min(sum_frac - 1);
        in_range(
            "precision of v in bits",
            f64::from(v_frac - a),
            f64::from(PRECISION.0),
            64.0,
            recalibrate,
        )?;
        let q_frac = (b + 1 + c).max(1);
        let y_frac = (b + 1 + half_up(c)).max(1);
        // y1 < 2^(ceil(a/2)+1); 3 - v'y² < 4.
        let y_bits = y_frac + half_up(a).max(-y_frac) + 1;
        let h_frac = H_FRAC.min(WORD_BITS - 2 - y_bits).min(v_frac + q_frac);
        // Second step: y1·(3 - h)·const with const < 1 shares the rest of the word.
        let room = WORD_BITS - 2 - y_bits;
        let const_frac = (room / 2).min(H_FRAC);
        let h2_frac = (room - const_frac).min(H_FRAC).min(v_frac + q_frac);
        // The result times a row is below 2^ceil(log2(1.25 sqrt(n))) at out_frac + F.
        let row_bits = bits_above(1.25 * (len as f64).sqrt());
        let out_frac = (b + 1 + half_up(ceil_log2(table.v_max)))
            .max(1)
            .min(WORD_BITS - frac.0 as i32 - row_bits)
            .min(y_frac + h_frac.min(h2_frac));
        fits(
            "1/sqrt(v_min)",
            1.25 / table.v_min.sqrt(),
            out_frac as u32,
            recalibrate,
        )?;

        // A bucket boundary may be missed by 2^-12 of v at most; the comparison needs one bit below that.
        let kept = (a + 11).clamp(1, v_frac - 1) as u32;
        let compare = compare_format("nerms", high, kept)?;
        let thresholds = table.thresholds.map(|t| t * mantissa);
        let mut all = vec![low];
        all.extend_from_slice(&thresholds);
        all.push(high);
        check_thresholds("nerms", &all, kept)?;

        // One step ends at the scale of 1/sqrt(v); two steps keep 1/sqrt(v') and correct with a constant in the second.
        let root = if table.newton == 1 {
            1.0
        } else {
            mantissa.sqrt()
        };
        Ok(Self {
            mean_log2,
            mantissa,
            pre_shift,
            v_frac: v_frac as u32,
            q_frac: q_frac as u32,
            y_frac: y_frac as u32,
            h_frac: h_frac as u32,
            h2_frac: h2_frac as u32,
            const_frac: const_frac as u32,
            out_frac: out_frac as u32,
            compare,
            clamp_low: low,
            clamp_high: high,
            thresholds,
            init: table.init.map(|g| g / root),
            init_sq: table.init_sq.map(|g| g / mantissa),
            literal,
        })
    }

    /// What the formats were built from.
    #[must_use]
    pub fn literal(&self) -> &NormLiteral {
        &self.literal
    }
    /// Newton steps.
    #[must_use]
    pub fn newton(&self) -> u32 {
        self.literal.table.newton
    }
    /// Fraction bits of `v' = m·v`.
    #[must_use]
    pub fn v_frac(&self) -> FracBits {
        FracBits(self.v_frac)
    }
    /// Fraction bits of `y = 1/sqrt(v)`.
    #[must_use]
    pub fn out_frac(&self) -> FracBits {
        FracBits(self.out_frac)
    }
    /// `m = n/2^floor(log2 n)`: the input of NeRMS is `m` times the mean of squares plus eps.
    #[must_use]
    pub fn input_factor(&self) -> f64 {
        self.mantissa
    }
    /// Format of the comparisons.
    #[must_use]
    pub fn compare(&self) -> CompareFormat {
        self.compare
    }
    /// Bits cut from `x` before squaring; 0 in ordinary ranges.
    #[must_use]
    pub fn pre_shift(&self) -> u32 {
        self.pre_shift
    }
    /// `log2` of the power of two that the sum of squares is divided by: `n = m·2^mean_log2`.
    #[must_use]
    pub fn mean_log2(&self) -> u32 {
        self.mean_log2
    }
    /// `m`, in `[1, 2)`; the same as [`Self::input_factor`].
    #[must_use]
    pub fn mantissa(&self) -> f64 {
        self.mantissa
    }
    /// Fraction bits of the table of `y0²`.
    #[must_use]
    pub fn q_frac(&self) -> FracBits {
        FracBits(self.q_frac)
    }
    /// Fraction bits of the table of `y0`, and of `y1`.
    #[must_use]
    pub fn y_frac(&self) -> FracBits {
        FracBits(self.y_frac)
    }
    /// Fraction bits of `v'·y0²` after its truncation.
    #[must_use]
    pub fn h_frac(&self) -> FracBits {
        FracBits(self.h_frac)
    }
    /// Fraction bits of `y1²` in the second step after its truncation.
    #[must_use]
    pub fn q1_frac(&self) -> FracBits {
        FracBits(self.q_frac.min(2 * self.y_frac))
    }
    /// Fraction bits of `v'·y1²` in the second step after its truncation.
    #[must_use]
    pub fn h2_frac(&self) -> FracBits {
        FracBits(self.h2_frac)
    }
    /// Fraction bits of the constant of the second step.
    #[must_use]
    pub fn const_frac(&self) -> FracBits {
        FracBits(self.const_frac)
    }
    /// `v'` at the lower clamp.
    #[must_use]
    pub fn clamp_low(&self) -> f64 {
        self.clamp_low
    }
    /// `v'` at the upper clamp.
    #[must_use]
    pub fn clamp_high(&self) -> f64 {
        self.clamp_high
    }
    /// Inner thresholds of `v'`, ascending.
    #[must_use]
    pub fn thresholds(&self) -> &[f64; BUCKETS - 1] {
        &self.thresholds
    }
    /// Table of `y0`: for one step at the scale of the result, for two at the scale `1/sqrt(v')`.
    #[must_use]
    pub fn init(&self) -> &[f64; BUCKETS] {
        &self.init
    }
    /// Table of `y0²/m`.
    #[must_use]
    pub fn init_sq(&self) -> &[f64; BUCKETS] {
        &self.init_sq
    }
}

/// `ceil(k/2)`.
fn half_up(k: i32) -> i32 {
    k.div_euclid(2) + k.rem_euclid(2)
}
