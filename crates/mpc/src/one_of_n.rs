//! 1-of-`2^m` OT of short messages, `m` from 1 to 4, in its shared form: for a secret table `f` of the sender and a secret
//! index `y` of the receiver the parties get an exclusive-or sharing of `f(y)`.
//!
//! One instance takes `m` COTs and combines them: `Q = sum x^j q_j` in GF(2^128), and the pad of index `i` is
//! `H(Q xor i Delta, index)` with `i` read as a polynomial, all pads under one index (protocols.md R9). The receiver
//! sends `c = y xor r` (`m` bits); the sender's share is chosen such that the message of index 0 is zero and is not
//! sent, so the answer has `2^m - 1` messages.

use crate::bits::{mask64, packed_len, BitReader, BitWriter};
use crate::hash::CotHash;
use crate::{MpcError, Session};
use rayon::prelude::*;
use zeroize::Zeroizing;

const OP: &str = "1-of-N OT";
/// Instances whose COTs are taken at a time: bounds what is held of the single COTs.
const SLICE: usize = 1 << 13;
/// Instances that are answered together: their pads stay in the second-level cache.
const PART: usize = 512;

/// Instances of one shape: index bits `m` and message bits (at most 64).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub index_bits: u32,
    pub message_bits: u32,
}

impl Shape {
    /// Bits of a column of an answer: one for each message but the first.
    fn column_bits(self) -> u32 {
        (1 << self.index_bits) - 1
    }

    /// Bits of an answer: a column for each message bit.
    pub fn answer_bits(self) -> u64 {
        u64::from(self.column_bits()) * u64::from(self.message_bits)
    }
}

/// Multiplication by `x` in GF(2^128) modulo `x^128 + x^7 + x^2 + x + 1`.
#[inline]
fn times_x(v: u128) -> u128 {
    (v << 1) ^ (0x87 & (v >> 127).wrapping_neg())
}

/// `sum x^j v_j`.
#[inline]
fn combine(v: &[u128]) -> u128 {
    v.iter().rev().fold(0, |acc, &w| times_x(acc) ^ w)
}

struct Combined {
    first: u64,
    words: Zeroizing<Vec<u128>>,
    /// The receiver's random index of every instance; empty at the sender.
    index: Zeroizing<Vec<u8>>,
}

/// Receiver. `runs[k]` are the indices of all instances of shape `shapes[k]`; returns the shares in the same form.
/// One message each way for all runs together: receiver, then sender.
pub(crate) fn receive(
    s: &mut Session,
    shapes: &[Shape],
    runs: &[Vec<u8>],
) -> Result<Vec<Vec<u64>>, MpcError> {
    let mut combined = Vec::with_capacity(runs.len());
    let mut flips = BitWriter::with_bits(choice_bits(shapes, runs.first().map_or(0, Vec::len)));
    for (shape, run) in shapes.iter().zip(runs) {
        let m = shape.index_bits as usize;
        let mut c = Combined {
            first: 0,
            words: Zeroizing::new(Vec::with_capacity(run.len())),
            index: Zeroizing::new(Vec::with_capacity(run.len())),
        };
        for (k, part) in run.chunks(SLICE).enumerate() {
            let cots = s.take_receiver(part.len() * m)?;
            if k == 0 {
                c.first = cots.first;
            }
            c.words.extend(cots.t.chunks_exact(m).map(combine));
            c.index.extend(
                cots.r
                    .chunks_exact(m)
                    .map(|r| r.iter().rev().fold(0, |a, &b| a << 1 | b)),
            );
        }
        for (y, r) in run.iter().zip(c.index.iter()) {
            flips.push(u64::from(y ^ r), shape.index_bits);
        }
        combined.push(c);
    }
    s.send(&flips.finish())?;
    let hash = s.hash();
    let pads: Vec<Vec<u64>> = combined
        .iter()
        .zip(shapes)
        .map(|(c, shape)| {
            let mask = mask64(shape.message_bits);
            let mut pads = Zeroizing::new(c.words.iter().map(|&t| [t]).collect::<Vec<_>>());
            hash.each((c.first, u64::from(shape.index_bits)), &mut pads);
            pads.iter().map(|[p]| *p as u64 & mask).collect()
        })
        .collect();
    let bits = answer_bits(shapes, runs.first().map_or(0, Vec::len));
    let reply = s.recv(packed_len(bits))?;
    let mut r = BitReader::new(&reply, bits, OP)?;
    let mut out = pads;
    for ((run, shape), out) in runs.iter().zip(shapes).zip(&mut out) {
        let width = shape.column_bits();
        for (&y, o) in run.iter().zip(out) {
            for b in 0..shape.message_bits {
                // Message 0 is zero and not sent. A shift by a secret, not an index: its time does not depend on it.
                let column = r.pull(width) << 1;
                *o ^= (column >> y & 1) << b;
            }
        }
    }
    Ok(out)
}

/// Sender. `n` instances of every shape; `table(k, e, columns)` fills for instance `e` of run `k` one word a message bit,
/// whose bit `i` is that bit of `f(i)`, for `i` below the number of messages. Returns the shares.
pub(crate) fn send(
    s: &mut Session,
    shapes: &[Shape],
    n: usize,
    table: impl Fn(usize, usize, &mut [u16]) + Sync,
) -> Result<Vec<Vec<u64>>, MpcError> {
    let mut combined = Vec::with_capacity(shapes.len());
    for shape in shapes {
        let m = shape.index_bits as usize;
        let mut c = Combined {
            first: 0,
            words: Zeroizing::new(Vec::with_capacity(n)),
            index: Zeroizing::new(Vec::new()),
        };
        let mut at = 0;
        while at < n {
            let part = (n - at).min(SLICE);
            let cots = s.take_sender(part * m)?;
            if at == 0 {
                c.first = cots.first;
            }
            c.words.extend(cots.q.chunks_exact(m).map(combine));
            at += part;
        }
        combined.push(c);
    }
    let bits = choice_bits(shapes, n);
    let flips = s.recv(packed_len(bits))?;
    let mut flips = BitReader::new(&flips, bits, OP)?;
    let (hash, delta) = s.sender_side();
    let mut answer = BitWriter::with_bits(answer_bits(shapes, n));
    let mut out = Vec::with_capacity(shapes.len());
    for (k, (shape, c)) in shapes.iter().zip(&combined).enumerate() {
        let flips: Vec<u8> = (0..n).map(|_| flips.pull(shape.index_bits) as u8).collect();
        let fill = |e: usize, columns: &mut [u16]| table(k, e, columns);
        let mut shares = Vec::with_capacity(n);
        // The answers of one slice are computed in parallel, then appended in order.
        for at in (0..n).step_by(SLICE) {
            let end = (at + SLICE).min(n);
            let part: Vec<Answers> = (at..end)
                .into_par_iter()
                .step_by(PART)
                .map(|from| {
                    let part = from..(from + PART).min(end);
                    let index = c.first + u64::from(shape.index_bits) * from as u64;
                    let (q, flips) = (&c.words[part.clone()], &flips[part]);
                    let fill = |e: usize, columns: &mut [u16]| fill(from + e, columns);
                    match shape.index_bits {
                        1 => respond::<2>(hash, delta, *shape, index, q, flips, fill),
                        2 => respond::<4>(hash, delta, *shape, index, q, flips, fill),
                        3 => respond::<8>(hash, delta, *shape, index, q, flips, fill),
                        _ => respond::<16>(hash, delta, *shape, index, q, flips, fill),
                    }
                })
                .collect();
            for a in &part {
                for &column in &a.columns {
                    answer.push(u64::from(column >> 1), shape.column_bits());
                }
                shares.extend_from_slice(&a.shares);
            }
        }
        out.push(shares);
    }
    s.send(&answer.finish())?;
    Ok(out)
}

/// Answers of consecutive instances.
struct Answers {
    shares: Vec<u64>,
    /// For each instance one word a message bit, whose bit i is that bit of message i, masked.
    columns: Vec<u16>,
}

/// The answers of consecutive instances with `N` messages; all pads of one instance under one index.
fn respond<const N: usize>(
    hash: &CotHash,
    delta: u128,
    shape: Shape,
    first: u64,
    q: &[u128],
    flips: &[u8],
    fill: impl Fn(usize, &mut [u16]),
) -> Answers {
    // The index read as a polynomial, times Delta.
    let mut multiples = Zeroizing::new([0u128; N]);
    let mut power = delta;
    for j in 0..shape.index_bits {
        for i in 0..1usize << j {
            multiples[i | 1 << j] = multiples[i] ^ power;
        }
        power = times_x(power);
    }
    let mut pads = Zeroizing::new(Vec::with_capacity(q.len()));
    pads.extend(q.iter().map(|&q| multiples.map(|m| q ^ m)));
    hash.each((first, u64::from(shape.index_bits)), &mut pads);
    let bits = shape.message_bits as usize;
    let all = u16::MAX >> (16 - N);
    let mut out = Answers {
        shares: Vec::with_capacity(q.len()),
        columns: vec![0; q.len() * bits],
    };
    let mut masks = Zeroizing::new(vec![0u16; bits]);
    let each = pads
        .iter()
        .zip(flips)
        .zip(out.columns.chunks_exact_mut(bits));
    for (e, ((pads, flip), columns)) in each.enumerate() {
        fill(e, columns);
        // Bit i of mask b is bit b of the pad of message i.
        masks.fill(0);
        for i in 0..N {
            let pad = pads[(i ^ usize::from(*flip)) & (N - 1)] as u64;
            for (b, mask) in masks.iter_mut().enumerate() {
                *mask |= ((pad >> b & 1) as u16) << i;
            }
        }
        let mut share = 0;
        for (b, (column, mask)) in columns.iter_mut().zip(masks.iter()).enumerate() {
            // Bits from N on would leave unmasked.
            let masked = (*column ^ mask) & all;
            // The share of this bit makes message 0 zero.
            share |= u64::from(masked & 1) << b;
            *column = masked ^ (masked & 1).wrapping_neg() & all;
        }
        out.shares.push(share);
    }
    out
}

/// Bits of the receiver's message.
pub(crate) fn choice_bits(shapes: &[Shape], n: usize) -> u64 {
    shapes.iter().map(|s| u64::from(s.index_bits)).sum::<u64>() * n as u64
}

/// Bits of the sender's message.
pub(crate) fn answer_bits(shapes: &[Shape], n: usize) -> u64 {
    shapes.iter().map(|s| s.answer_bits()).sum::<u64>() * n as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Schoolbook product in GF(2^128).
    fn gf_mul(a: u128, mut b: u128) -> u128 {
        let (mut acc, mut a) = (0u128, a);
        while b > 0 {
            if b & 1 == 1 {
                acc ^= a;
            }
            a = times_x(a);
            b >>= 1;
        }
        acc
    }

    #[test]
    fn combined_cots_differ_by_the_index_times_delta() {
        let delta = 0xfedc_ba98_7654_3210_0123_4567_89ab_cdef_u128;
        let q = [1u128 << 127 | 5, 77, u128::MAX, 3 << 100];
        for r in 0..16u128 {
            let t: Vec<u128> = (0..4)
                .map(|j| q[j] ^ (delta & (r >> j & 1).wrapping_neg()))
                .collect();
            assert_eq!(combine(&q) ^ combine(&t), gf_mul(delta, r));
        }
        // A known product: x^127 * x = x^7 + x^2 + x + 1.
        assert_eq!(times_x(1 << 127), 0x87);
    }
}
