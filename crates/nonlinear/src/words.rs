//! Small helpers on vectors and known words. All local but [`truncate_to`].

use crate::NonlinearError;
use cipherloom_mpc::{Domain, Shares};
use cipherloom_spec::FracBits;

/// Product with a public word at `frac` fraction bits.
pub(crate) fn times_word(x: &Shares, word: u64, frac: FracBits) -> Shares {
    let mut y = x.times_int(word as i64);
    y.frac = FracBits(x.frac.0 + frac.0);
    y
}

/// Product with a public real that brings the fraction bits to `total`.
pub(crate) fn times_real(x: &Shares, c: f64, total: u32) -> Shares {
    x.times_const(c, FracBits(total.saturating_sub(x.frac.0)))
}

/// Truncation to `frac` fraction bits; one batch, none when nothing is to be cut.
pub(crate) fn truncate_to<D: Domain>(
    dom: &mut D,
    x: &Shares,
    frac: u32,
) -> Result<Shares, NonlinearError> {
    match x.frac.0.checked_sub(frac) {
        Some(0) => Ok(x.clone()),
        Some(bits) => Ok(dom.truncate(x, bits)?),
        None => Err(NonlinearError::Frac {
            op: "truncate",
            what: "operand",
            have: x.frac.0,
            need: frac,
        }),
    }
}

/// Checks length and fraction bits of an operand.
pub(crate) fn expect(
    op: &'static str,
    what: &'static str,
    x: &Shares,
    len: usize,
    frac: FracBits,
) -> Result<(), NonlinearError> {
    if x.len() != len {
        return Err(NonlinearError::Shape {
            op,
            what,
            have: x.len(),
            need: len,
        });
    }
    if x.frac != frac {
        return Err(NonlinearError::Frac {
            op,
            what,
            have: x.frac.0,
            need: frac.0,
        });
    }
    Ok(())
}

/// The product of two lengths, or an error instead of an overflow.
pub(crate) fn area(op: &'static str, dims: &[usize]) -> Result<usize, NonlinearError> {
    dims.iter()
        .try_fold(1usize, |a, &d| a.checked_mul(d))
        .ok_or(NonlinearError::Shape {
            op,
            what: "shape (its product overflows)",
            have: usize::MAX,
            need: 0,
        })
}

/// The known vector, checked, encoded at `frac`, as `rows` copies with every element repeated `each` times.
pub(crate) fn spread_known(
    op: &'static str,
    what: &'static str,
    known: Option<&[f64]>,
    len: usize,
    frac: FracBits,
    rows: usize,
    each: usize,
) -> Result<Option<Vec<u64>>, NonlinearError> {
    let Some(k) = known else { return Ok(None) };
    if k.len() != len {
        return Err(NonlinearError::Shape {
            op,
            what,
            have: k.len(),
            need: len,
        });
    }
    let one: Vec<u64> = k
        .iter()
        .flat_map(|&v| std::iter::repeat_n(frac.encode(v), each))
        .collect();
    Ok(Some(one.repeat(rows)))
}
