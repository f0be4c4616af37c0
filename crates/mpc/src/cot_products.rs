//! Products of shares from correlated OTs alone (Gilboa): for a word `a` of one party and the bits `b_i` of the other's
//! word, `sum 2^i (a b_i)` with one COT a bit, of width `64 - i`. Needs no keys and no lattice; about 260 bytes
//! a cross term, so [`crate::rlwe`] is the better source for more than a few thousand products.

use crate::cot::{self, PendingReceive, Widths};
use crate::{MpcError, Party, ProductSource, Session};

/// Products from OTs. Cost of `n`, with `up` = `2080 n` bits (widths 64, 63, ..., 1):
/// - `product`: 64 COTs in each direction, `64 n` bits and then `up` bits each way, both at once both times;
/// - `square`: 63 COTs, client to server; server `63 n` bits, client `2016 n` bits;
/// - `product_known`: 64 COTs with the owner as sender; the other party `64 n` bits, the owner `up` bits.
#[derive(Debug, Clone, Copy, Default)]
pub struct CotProducts;

fn bits_of(words: &[u64], width: u32) -> zeroize::Zeroizing<Vec<u8>> {
    zeroize::Zeroizing::new(
        words
            .iter()
            .flat_map(|w| (0..width).map(move |i| (w >> i & 1) as u8))
            .collect(),
    )
}

/// `sum_i 2^i v_i` for each group of `width` words.
fn weighted_sums(v: &[u64], width: u32) -> Vec<u64> {
    v.chunks_exact(width as usize)
        .map(|c| {
            c.iter()
                .enumerate()
                .fold(0u64, |a, (i, v)| a.wrapping_add(v << i))
        })
        .collect()
}

fn cross_send(s: &mut Session, a: &[u64], width: u32) -> Result<Vec<u64>, MpcError> {
    let w = width as usize;
    let shares: Vec<u64> = cot::send(s, a.len() * w, Widths::Falling(width), |j| a[j / w])?;
    Ok(weighted_sums(&shares, width)
        .into_iter()
        .map(u64::wrapping_neg)
        .collect())
}

fn cross_begin(s: &mut Session, b: &[u64], width: u32) -> Result<PendingReceive, MpcError> {
    cot::receive_begin(s, &bits_of(b, width))
}

fn cross_finish(s: &mut Session, p: &PendingReceive, width: u32) -> Result<Vec<u64>, MpcError> {
    let got: Vec<u64> = cot::receive_finish(s, p, Widths::Falling(width))?;
    Ok(weighted_sums(&got, width))
}

impl ProductSource for CotProducts {
    fn product(&mut self, s: &mut Session, x: &[u64], y: &[u64]) -> Result<Vec<u64>, MpcError> {
        if x.len() != y.len() {
            return Err(MpcError::Length {
                op: "product",
                left: x.len(),
                right: y.len(),
            });
        }
        if x.is_empty() {
            return Ok(Vec::new());
        }
        let pending = cross_begin(s, y, 64)?;
        let sent = cross_send(s, x, 64)?;
        let got = cross_finish(s, &pending, 64)?;
        Ok((0..x.len())
            .map(|j| {
                x[j].wrapping_mul(y[j])
                    .wrapping_add(sent[j])
                    .wrapping_add(got[j])
            })
            .collect())
    }

    fn square(&mut self, s: &mut Session, x: &[u64]) -> Result<Vec<u64>, MpcError> {
        if x.is_empty() {
            return Ok(Vec::new());
        }
        // (x0 + x1)^2 = x0^2 + x1^2 + 2 x0 x1, so the cross term is needed modulo 2^63 only.
        let cross = if s.is_client() {
            cross_send(s, x, 63)?
        } else {
            let pending = cross_begin(s, x, 63)?;
            cross_finish(s, &pending, 63)?
        };
        Ok(x.iter()
            .zip(cross)
            .map(|(x, c)| x.wrapping_mul(*x).wrapping_add(c << 1))
            .collect())
    }

    fn product_known(
        &mut self,
        s: &mut Session,
        owner: Party,
        x: &[u64],
        c: Option<&[u64]>,
    ) -> Result<Vec<u64>, MpcError> {
        let op = "product_known";
        match (s.party() == owner, c) {
            (true, Some(c)) => {
                if c.len() != x.len() {
                    return Err(MpcError::Length {
                        op,
                        left: x.len(),
                        right: c.len(),
                    });
                }
                if x.is_empty() {
                    return Ok(Vec::new());
                }
                let sent = cross_send(s, c, 64)?;
                Ok((0..x.len())
                    .map(|j| x[j].wrapping_mul(c[j]).wrapping_add(sent[j]))
                    .collect())
            }
            (false, None) => {
                if x.is_empty() {
                    return Ok(Vec::new());
                }
                let pending = cross_begin(s, x, 64)?;
                cross_finish(s, &pending, 64)
            }
            _ => Err(MpcError::Owner { op }),
        }
    }
}
