//! The plain oracle: the same operations on values in the clear, modulo 2^64. The reference in tests and behind
//! `demo --compare-plain`.
//!
//! Differences from the protocols, all within their stated error: a truncation rounds to the nearest unit (the protocol
//! errs by less than one unit with mean zero), a comparison is exact (the protocol has a centred ramp one unit of
//! `2^-kept_frac` wide around the threshold). Everything else is bit-exact.

use crate::bits::mask64;
use crate::two_party::{check_faithful, check_format, check_truncate};
use crate::{Bits, CompareFormat, Domain, MpcError, Party, Shares};
use cipherloom_spec::cost::MpcCounts;
use cipherloom_spec::FracBits;

/// The oracle. [`Shares`] and [`Bits`] hold the values themselves; "known" operands are always given.
#[derive(Debug, Clone, Default)]
pub struct Plain {
    counts: MpcCounts,
}

impl Plain {
    /// A fresh oracle.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

fn zip(
    op: &'static str,
    x: &Shares,
    c: &[u64],
    frac: FracBits,
    f: impl Fn(u64, u64) -> u64,
) -> Result<Shares, MpcError> {
    if x.len() != c.len() {
        return Err(MpcError::Length {
            op,
            left: x.len(),
            right: c.len(),
        });
    }
    Ok(Shares {
        v: x.v.iter().zip(c).map(|(a, b)| f(*a, *b)).collect(),
        frac,
    })
}

/// `floor((x + 2^(bits-1)) / 2^bits)` of a signed word.
fn rounded(w: u64, bits: u32) -> u64 {
    if bits == 0 {
        return w;
    }
    ((w as i64 as i128 + (1i128 << (bits - 1))) >> bits) as u64
}

impl Domain for Plain {
    fn add_const(&self, x: &Shares, c: f64) -> Shares {
        let k = x.frac.encode(c);
        Shares {
            v: x.v.iter().map(|w| w.wrapping_add(k)).collect(),
            frac: x.frac,
        }
    }

    fn add_public(&self, x: &Shares, c: &[u64]) -> Result<Shares, MpcError> {
        zip("add_public", x, c, x.frac, u64::wrapping_add)
    }

    fn add_known(&self, _owner: Party, x: &Shares, c: Option<&[u64]>) -> Result<Shares, MpcError> {
        let op = "add_known";
        zip(
            op,
            x,
            c.ok_or(MpcError::Owner { op })?,
            x.frac,
            u64::wrapping_add,
        )
    }

    fn not(&self, b: &Bits) -> Bits {
        Bits {
            v: b.v.iter().map(|b| b ^ 1).collect(),
        }
    }

    fn product(&mut self, x: &Shares, y: &Shares) -> Result<Shares, MpcError> {
        let frac = FracBits(x.frac.0 + y.frac.0);
        let out = zip("product", x, &y.v, frac, u64::wrapping_mul)?;
        self.counts.products += x.len() as u64;
        Ok(out)
    }

    fn square(&mut self, x: &Shares) -> Result<Shares, MpcError> {
        let out = zip("square", x, &x.v, FracBits(2 * x.frac.0), u64::wrapping_mul)?;
        self.counts.squares += x.len() as u64;
        Ok(out)
    }

    fn product_known(
        &mut self,
        _owner: Party,
        x: &Shares,
        c: Option<&[u64]>,
        frac: FracBits,
    ) -> Result<Shares, MpcError> {
        let op = "product_known";
        let c = c.ok_or(MpcError::Owner { op })?;
        let out = zip(op, x, c, FracBits(x.frac.0 + frac.0), u64::wrapping_mul)?;
        self.counts.known_products += x.len() as u64;
        Ok(out)
    }

    fn truncate(&mut self, x: &Shares, bits: u32) -> Result<Shares, MpcError> {
        let frac = check_truncate(x.frac, bits)?;
        if bits == 0 {
            return Ok(x.clone());
        }
        self.counts.truncations += x.len() as u64;
        Ok(Shares {
            v: x.v.iter().map(|&w| rounded(w, bits)).collect(),
            frac,
        })
    }

    fn truncate_reduce_faithful(
        &mut self,
        x: &Shares,
        bits: u32,
        out_bits: u32,
    ) -> Result<Shares, MpcError> {
        let frac = check_faithful(x.frac, bits, out_bits)?;
        self.counts.faithful_truncations += x.len() as u64;
        Ok(Shares {
            v: x.v
                .iter()
                .map(|&w| rounded(w, bits) & mask64(out_bits))
                .collect(),
            frac,
        })
    }

    fn less_than(
        &mut self,
        x: &Shares,
        taus: &[f64],
        format: CompareFormat,
    ) -> Result<Vec<Bits>, MpcError> {
        check_format(x.frac, taus.len(), format)?;
        self.counts.comparisons += (x.len() * taus.len()) as u64;
        Ok(taus
            .iter()
            .map(|&tau| {
                let tau = x.frac.encode(tau);
                Bits {
                    v: x.v
                        .iter()
                        .map(|w| (w.wrapping_sub(tau) >> 63) as u8)
                        .collect(),
                }
            })
            .collect())
    }

    fn mux(&mut self, items: &[(&Bits, &Shares)]) -> Result<Vec<Shares>, MpcError> {
        let mut out = Vec::with_capacity(items.len());
        for (b, x) in items {
            if b.v.len() != x.len() {
                return Err(MpcError::Length {
                    op: "mux",
                    left: b.v.len(),
                    right: x.len(),
                });
            }
            self.counts.muxes += x.len() as u64;
            out.push(Shares {
                v: x.v
                    .iter()
                    .zip(&b.v)
                    .map(|(w, b)| w * u64::from(*b))
                    .collect(),
                frac: x.frac,
            });
        }
        Ok(out)
    }

    fn b2a(&mut self, items: &[&Bits]) -> Result<Vec<Shares>, MpcError> {
        Ok(items
            .iter()
            .map(|b| {
                self.counts.b2a += b.v.len() as u64;
                Shares {
                    v: b.v.iter().map(|b| u64::from(*b)).collect(),
                    frac: FracBits(0),
                }
            })
            .collect())
    }

    /// As the protocols count, but no COTs: none are used.
    fn counts(&self) -> MpcCounts {
        self.counts
    }
}
