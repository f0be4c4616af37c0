//! Base conversion on tiles: centred, with a double-precision quotient
//! (Halevi, Polyakov, Shoup 2018, ePrint 2018/117, section 2.2), as in `cipherloom_ring::BaseConverter`.

use std::sync::Arc;

use cipherloom_ring::{Backend, InverseFactor, Modulus, NttTable, Shoup};

use super::tiles::Tiling;
use crate::error::CkksError;
use crate::scratch::for_each_chunk;

/// Words that are converted at a time: those of all terms fit the first-level cache.
const BLOCK: usize = 256;

/// Tables from primes with product Q to other primes.
#[derive(Debug)]
pub(super) struct Converter {
    from: Vec<Arc<NttTable>>,
    /// The last inverse layer of each source prime, times (Q/q_i)^-1.
    factors: Vec<InverseFactor>,
    /// 1/q_i.
    reciprocals: Vec<f64>,
    /// For each target p: Q/q_i mod p for each i, then -Q mod p.
    weights: Vec<Vec<u64>>,
}

impl Converter {
    pub(super) fn new(from: Vec<Arc<NttTable>>, to: &[Modulus]) -> Result<Self, CkksError> {
        let product = |m: &Modulus, skip: Option<usize>| {
            from.iter()
                .enumerate()
                .filter(|(i, _)| Some(*i) != skip)
                .fold(1, |acc, (_, t)| m.mul(acc, m.reduce(t.modulus().value())))
        };
        let factors = from
            .iter()
            .enumerate()
            .map(|(i, t)| {
                let hat = product(t.modulus(), Some(i));
                Ok(t.inverse_factor(t.modulus().inv(hat)?))
            })
            .collect::<Result<_, CkksError>>()?;
        let weights = to
            .iter()
            .map(|p| {
                let mut row: Vec<u64> = (0..from.len()).map(|i| product(p, Some(i))).collect();
                row.push(p.neg(product(p, None)));
                row
            })
            .collect();
        let reciprocals = from
            .iter()
            .map(|t| 1.0 / t.modulus().value() as f64)
            .collect();
        Ok(Self {
            from,
            factors,
            reciprocals,
            weights,
        })
    }

    /// Source primes.
    pub(super) fn len(&self) -> usize {
        self.from.len()
    }

    /// Completes the inverse transform of source limb `i`, of which `Backend::inverse_tail` did the rows, scaled by
    /// (Q/q_i)^-1. `out` has the limb tile after tile.
    pub(super) fn scale_limb(
        &self,
        backend: &dyn Backend,
        tiling: &Tiling,
        i: usize,
        limb: &[u64],
        out: &mut [u64],
    ) {
        for (t, out) in out.chunks_exact_mut(tiling.tile).enumerate() {
            tiling.gather_tile(limb, t, out);
            backend.inverse_head(&self.from[i], out, &self.factors[i]);
        }
    }

    /// How often Q fits into the sum of the scaled limbs, which lie `stride` words apart. All in tiles.
    pub(super) fn quotients(
        &self,
        backend: &dyn Backend,
        tiling: &Tiling,
        scaled: &[u64],
        stride: usize,
        out: &mut [u64],
    ) {
        for_each_chunk(out, tiling.tile, tiling.rows * tiling.row, |t, out| {
            let scaled = &scaled[t * tiling.tile..];
            backend.rounded_sum(out, scaled, stride, &self.reciprocals);
        });
    }

    /// Block `(start, length)` of a tile, whose terms are the scaled limbs and the quotient, modulo target `j`, which is `m`; below four times the modulus.
    pub(super) fn convert(
        &self,
        backend: &dyn Backend,
        (j, m): (usize, &Modulus),
        (start, len): (usize, usize),
        (terms, stride): (&[u64], usize),
        out: &mut [u64],
    ) {
        backend.convert(
            m,
            &mut out[start..start + len],
            &terms[start..],
            stride,
            &self.weights[j],
        );
    }

    /// How often the only source prime fits into each residue of a whole limb, centred: 0 or 1.
    pub(super) fn quotient(&self, backend: &dyn Backend, limb: &[u64], out: &mut [u64]) {
        backend.rounded_sum(out, limb, limb.len(), &self.reciprocals);
    }

    /// A whole limb modulo target `j`, which is `m`, from the limb of the only source prime and its quotient behind it; below four
    /// times the modulus.
    pub(super) fn whole(
        &self,
        backend: &dyn Backend,
        j: usize,
        m: &Modulus,
        terms: &[u64],
        out: &mut [u64],
    ) {
        backend.convert(m, out, terms, out.len(), &self.weights[j]);
    }
}

/// Start and length of the blocks of a tile.
pub(super) fn blocks(tiling: &Tiling) -> impl Iterator<Item = (usize, usize)> {
    let tile = tiling.tile;
    (0..tile)
        .step_by(BLOCK)
        .map(move |start| (start, BLOCK.min(tile - start)))
}

/// Division by the product of some primes.
#[derive(Debug)]
pub(super) struct Divisor {
    pub converter: Converter,
    /// Minus the inverse of the product, modulo each prime that stays.
    pub neg_inv: Vec<Shoup>,
}

impl Divisor {
    pub(super) fn new(from: Vec<Arc<NttTable>>, to: &[Modulus]) -> Result<Self, CkksError> {
        let neg_inv = to
            .iter()
            .map(|m| {
                let product = from
                    .iter()
                    .fold(1, |acc, t| m.mul(acc, m.reduce(t.modulus().value())));
                Ok(m.shoup(m.neg(m.inv(product)?)))
            })
            .collect::<Result<_, CkksError>>()?;
        Ok(Self {
            converter: Converter::new(from, to)?,
            neg_inv,
        })
    }
}
