//! Base conversion on tiles: centred, with a double-precision quotient
//! (Halevi, Polyakov, Shoup 2018, ePrint 2018/117, section 2.2), as in `cipherloom_ring::BaseConverter`.

use std::sync::Arc;

use cipherloom_ring::{Ahead, Backend, InverseFactor, Modulus, NttTable, Pieces, Shoup};

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

    /// Multiplies what target `i` receives by `factors[i]` modulo the primes of `to`, the targets.
    fn scale_targets(&mut self, factors: &[u64], to: &[Modulus]) {
        for ((weights, &f), p) in self.weights.iter_mut().zip(factors).zip(to) {
            for w in weights {
                *w = p.mul(*w, f);
            }
        }
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
            let rows = Pieces::new(&limb[t * tiling.columns..], tiling.columns, tiling.row);
            backend.inverse_head_from(&self.from[i], rows, out, &self.factors[i]);
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
        ahead: &mut Ahead<'_>,
    ) {
        let (out, terms) = (&mut out[start..start + len], (&terms[start..], stride));
        backend.convert(m, out, terms, &self.weights[j], ahead);
    }

    /// Says that block `(start, length)` of a tile will be converted.
    pub(super) fn announce<'a>(
        &self,
        (start, len): (usize, usize),
        (terms, stride): (&'a [u64], usize),
        ahead: &mut Ahead<'a>,
    ) {
        ahead.push_pieces(
            &terms[start..start + self.len() * stride + len],
            len,
            stride,
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
        let terms = (terms, out.len());
        backend.convert(m, out, terms, &self.weights[j], &mut Ahead::new());
    }
}

/// Start and length of the blocks of a tile.
pub(super) fn blocks(tiling: &Tiling) -> impl Iterator<Item = (usize, usize)> {
    let tile = tiling.tile;
    (0..tile)
        .step_by(BLOCK)
        .map(move |start| (start, BLOCK.min(tile - start)))
}

/// Division by the special primes, of which the terms of each target are divided already (see `KeyDigit::b`), and by one more.
#[derive(Debug)]
pub(super) struct Divisor {
    /// Minus the remainder divided by P.
    pub converter: Converter,
    /// The inverse of the last prime modulo each prime that stays, if there is one.
    pub last_inv: Vec<Shoup>,
}

impl Divisor {
    /// By the product of `p`, and then by `last`.
    pub(super) fn new(
        p: &[Arc<NttTable>],
        last: Option<&Arc<NttTable>>,
        to: &[Modulus],
    ) -> Result<Self, CkksError> {
        let product = |m: &Modulus| {
            p.iter()
                .fold(1, |acc, t| m.mul(acc, m.reduce(t.modulus().value())))
        };
        let mut converter = Converter::new(p.iter().chain(last).cloned().collect(), to)?;
        let factors = to
            .iter()
            .map(|m| Ok(m.neg(m.inv(product(m))?)))
            .collect::<Result<Vec<_>, CkksError>>()?;
        converter.scale_targets(&factors, to);
        let mut last_inv = Vec::new();
        if let Some(last) = last {
            // The terms of the last prime come divided by P too, and the factor of its conversion is 1/P.
            converter.factors[p.len()] = last.inverse_factor(1);
            for m in to {
                last_inv.push(m.shoup(m.inv(m.reduce(last.modulus().value()))?));
            }
        }
        Ok(Self {
            converter,
            last_inv,
        })
    }
}

/// Division by one prime.
#[derive(Debug)]
pub(super) struct LastDivisor {
    pub converter: Converter,
    /// Minus its inverse, modulo each prime that stays.
    pub neg_inv: Vec<Shoup>,
}

impl LastDivisor {
    pub(super) fn new(last: &Arc<NttTable>, to: &[Modulus]) -> Result<Self, CkksError> {
        let neg_inv = to
            .iter()
            .map(|m| Ok(m.shoup(m.neg(m.inv(m.reduce(last.modulus().value()))?))))
            .collect::<Result<_, CkksError>>()?;
        Ok(Self {
            converter: Converter::new(vec![last.clone()], to)?,
            neg_inv,
        })
    }
}
