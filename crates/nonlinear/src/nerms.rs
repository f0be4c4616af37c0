//! NeRMS: `1/sqrt(mean(x²) + eps)` by eight buckets and one or two Newton steps; RMS norm of rows.
//!
//! Source: FESC, NeRMS (K = 8, 7 comparisons, `3t - 1` products for `t` steps). Table: `cipherloom_spec::approx::rms`.
//! Formats and the proof that no word overflows: `cipherloom_spec::formats::norm`.

use crate::words::{area, expect, times_word, truncate_to};
use crate::{NonlinearError, NormConfig};
use cipherloom_mpc::{Bits, Domain, Shares};
use cipherloom_spec::FracBits;

/// `v' = m·(mean(x²) + eps)` of every row. `x`: `[rows, n]` at `F`; result `[rows]` at [`NormConfig::v_frac`].
///
/// The squares and their sum are exact modulo 2^64 at `2F` fraction bits; dividing by `2^j` is a reading of the fraction
/// bits; one truncation (one unit) follows. `m = n/2^j` is folded into the tables of [`nerms`]. When the calibrated
/// range times `n` exceeds 2^22 at `2F`, `x` is truncated first ([`NormConfig::pre_shift`]).
///
/// **Counts** ([`crate::counts::sum_of_squares`]): `n` squares and 1 truncation a row; `n` more truncations with a
/// pre-shift. **Batches**: (truncation); square; truncation.
///
/// # Errors
/// `Shape`, `Frac`; errors of the domain.
pub fn sum_of_squares<D: Domain>(
    dom: &mut D,
    x: &Shares,
    rows: usize,
    cfg: &NormConfig,
) -> Result<Shares, NonlinearError> {
    let op = "sum_of_squares";
    let l = cfg.literal();
    expect(op, "rows", x, area(op, &[rows, l.len])?, l.frac)?;
    let squares = if cfg.pre_shift() == 0 {
        dom.square(x)?
    } else {
        let short = dom.truncate(x, cfg.pre_shift())?;
        dom.square(&short)?
    };
    let sum = squares.sum_groups(l.len)?.over_pow2(cfg.mean_log2());
    let sum = dom.add_const(&sum, cfg.mantissa() * l.eps);
    truncate_to(dom, &sum, cfg.v_frac().0)
}

/// `y = 1/sqrt(v)` from `v' = m·v` of [`sum_of_squares`]. Shape `[rows]` to `[rows]`, fraction bits
/// [`NormConfig::v_frac`] to [`NormConfig::out_frac`].
///
/// **Domain and error.** `v` in `[v_min, v_max]` of the table, clamped to it otherwise. The relative error against
/// `1/sqrt(v)` is at most `table.max_relative_error` (range 2^8: 2.3e-2 for one step) and the fixed-point part, against
/// the surrogate, at most 2^-15 relative for ranges up to `v_max/v_min = 2^16`, 2^-10 for
/// the widest (2^32), truncation noise included. A bucket boundary may be missed by 2^-12 of `v`, where both buckets are
/// equally good.
///
/// **Counts a row** ([`crate::counts::nerms`]): one step: 2 products, 2 truncations; two steps: 4 products, 1 square,
/// 5 truncations. 7 comparisons and 7 B2A; the clamp adds 2 comparisons, 1 B2A, 1 mux: its lower end needs no mux,
/// because a public constant times an arithmetic bit is local.
///
/// **Batches**: comparisons (all thresholds of one value); B2A; mux; product, truncation; product, truncation; for the
/// second step: square, truncation; product, truncation; product, truncation.
///
/// # Errors
/// `Frac`; errors of the domain.
pub fn nerms<D: Domain>(
    dom: &mut D,
    v: &Shares,
    cfg: &NormConfig,
) -> Result<Shares, NonlinearError> {
    let op = "nerms";
    expect(op, "input", v, v.len(), cfg.v_frac())?;
    let inner = cfg.thresholds().len();
    let mut thresholds = cfg.thresholds().to_vec();
    if cfg.literal().clamp {
        thresholds.extend([cfg.clamp_low(), cfg.clamp_high()]);
    }
    let bits = dom.less_than(v, &thresholds, cfg.compare())?;
    if bits.len() != thresholds.len() {
        return Err(NonlinearError::Results {
            op,
            have: bits.len(),
            need: thresholds.len(),
        });
    }
    let (bucket_bits, clamp_bits) = bits.split_at(inner);
    let mut convert: Vec<&Bits> = bucket_bits.iter().collect();
    convert.extend(clamp_bits.first());
    let ints = dom.b2a(&convert)?;
    if ints.len() != convert.len() {
        return Err(NonlinearError::Results {
            op,
            have: ints.len(),
            need: convert.len(),
        });
    }
    let (bucket_ints, below_int) = ints.split_at(inner);

    let v = match (clamp_bits, below_int) {
        ([below, not_above], [below_int]) => clamp(dom, v, below, not_above, below_int, cfg)?,
        _ => v.clone(),
    };
    let y0 = look_up(dom, bucket_ints, cfg.init(), cfg.y_frac())?;
    let q0 = look_up(dom, bucket_ints, cfg.init_sq(), cfg.q_frac())?;

    // y1 = y0·(3 - v'·q0)/2; halving is one fraction bit more.
    let h = dom.product(&v, &q0)?;
    let h = truncate_to(dom, &h, cfg.h_frac().0)?;
    let y = dom.product(&y0, &three_minus(dom, &h))?.over_pow2(1);
    if cfg.newton() == 1 {
        return truncate_to(dom, &y, cfg.out_frac().0);
    }
    // Here y1 is 1/sqrt(v') up to the table's scale; the constant sqrt(m)/2 leads back to 1/sqrt(v).
    let y1 = truncate_to(dom, &y, cfg.y_frac().0)?;
    let q1 = dom.square(&y1)?;
    let q1 = truncate_to(dom, &q1, cfg.q1_frac().0)?;
    let h = dom.product(&v, &q1)?;
    let h = truncate_to(dom, &h, cfg.h2_frac().0)?;
    let factor = three_minus(dom, &h).times_const(cfg.mantissa().sqrt() * 0.5, cfg.const_frac());
    let y2 = dom.product(&y1, &factor)?;
    truncate_to(dom, &y2, cfg.out_frac().0)
}

/// `3 - h`. Local.
fn three_minus<D: Domain>(dom: &D, h: &Shares) -> Shares {
    dom.add_const(&h.times_int(-1), 3.0)
}

/// `v` inside, the nearer end outside: `high + [inside]·(v - high) + [below]·(low - high)`.
fn clamp<D: Domain>(
    dom: &mut D,
    v: &Shares,
    below: &Bits,
    not_above: &Bits,
    below_int: &Shares,
    cfg: &NormConfig,
) -> Result<Shares, NonlinearError> {
    let frac = v.frac;
    let inside = below.xor(not_above)?;
    let over = dom.add_const(v, -cfg.clamp_high());
    let picked = dom.mux(&[(&inside, &over)])?;
    let [mid] = picked.as_slice() else {
        return Err(NonlinearError::Results {
            op: "nerms",
            have: picked.len(),
            need: 1,
        });
    };
    let step = frac
        .encode(cfg.clamp_low())
        .wrapping_sub(frac.encode(cfg.clamp_high()));
    let low = times_word(below_int, step, frac);
    Ok(dom.add_const(&mid.plus(&low)?, cfg.clamp_high()))
}

/// `table[bucket]` from the bits `[v < th_j]`: `t_last + Σ_j b_j (t_{j-1} - t_j)`. Local. The differences are taken of the
/// encoded words, so the sum telescopes exactly.
fn look_up<D: Domain>(
    dom: &D,
    bits: &[Shares],
    table: &[f64],
    frac: FracBits,
) -> Result<Shares, NonlinearError> {
    let words: Vec<u64> = table.iter().map(|&t| frac.encode(t)).collect();
    let n = bits.first().map_or(0, Shares::len);
    let mut sum = Shares::zeros(n, frac);
    for (b, w) in bits.iter().zip(words.windows(2)) {
        sum = sum.plus(&times_word(b, w[0].wrapping_sub(w[1]), frac))?;
    }
    let last = words.last().copied().unwrap_or(0);
    Ok(dom.add_public(&sum, &vec![last; n])?)
}

/// `y[row]·x[row, col]`. `y`: `[rows]`; `x`: `[rows, cols]` at `F`; result `[rows, cols]` at `F` (that of `x`).
///
/// Needs `|y·x| < 2^(62 - F - frac(y))`; [`NormConfig::out_frac`] is chosen such that a norm satisfies it.
/// **Counts** ([`crate::counts::scale_rows`]): 1 product and 1 truncation an element. **Batches**: product; truncation.
///
/// # Errors
/// `Shape`; errors of the domain.
pub fn scale_rows<D: Domain>(
    dom: &mut D,
    y: &Shares,
    x: &Shares,
) -> Result<Shares, NonlinearError> {
    let op = "scale_rows";
    let cols = x.len() / y.len().max(1);
    expect(op, "matrix", x, area(op, &[y.len(), cols])?, x.frac)?;
    let p = dom.product(&y.repeat_each(cols), x)?;
    truncate_to(dom, &p, x.frac.0)
}

/// RMS norm without weight: `x/sqrt(mean(x²) + eps)` a row. `x`: `[rows, n]` at `F`; result the same shape at `F`. The
/// weight of the norm belongs into the projection that follows.
///
/// [`sum_of_squares`], [`nerms`], [`scale_rows`]; counts: [`crate::counts::rms_norm`].
///
/// # Errors
/// Those of the three parts.
pub fn rms_norm<D: Domain>(
    dom: &mut D,
    x: &Shares,
    rows: usize,
    cfg: &NormConfig,
) -> Result<Shares, NonlinearError> {
    let v = sum_of_squares(dom, x, rows, cfg)?;
    let y = nerms(dom, &v, cfg)?;
    scale_rows(dom, &y, x)
}
