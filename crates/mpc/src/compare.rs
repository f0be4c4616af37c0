//! Comparison by digits: the parties' private words are compared digit by digit with 1-of-`2^m` OTs, and the digits
//! are joined in a tree of AND gates (CrypTFlow2 Algorithm 1; protocols.md section 7, R16).
//!
//! The server receives, the client holds one word for each threshold; all thresholds share the digit OTs. For `n`
//! elements, `T` thresholds, words of `l` bits and digits of `m` bits, `D = ceil(l/m)` (the top digit may be narrower):
//!
//! - COTs: `n l` with the client as sender, and for every AND layer one in each direction for each gate or pair;
//! - server to client `n l` bits, client to server `n T (sum over digits of (2^m_j - 1) (1 or 2))` bits, 1 for the lowest digit;
//! - `ceil(log2 D)` AND layers, both parties at once: of `D` columns each layer joins neighbours, the lowest join is one
//!   gate (2 bits each way), every other one a pair (3 bits each way).

use crate::boolean::{and_layer, AndLayer};
use crate::one_of_n::{self, Shape};
use crate::{MpcError, Session};

/// Thresholds of one batch; the messages of a digit OT hold two bits for each.
pub(crate) const MAX_THRESHOLDS: usize = 32;

/// A party's private input.
#[derive(Clone, Copy)]
pub(crate) enum Words<'a> {
    /// The client's words, one vector for each threshold.
    Client(&'a [Vec<u64>]),
    /// The server's words.
    Server(&'a [u64]),
}

/// Widths of the digits of an `l`-bit word, lowest first.
pub(crate) fn digit_widths(bits: u32, digit_bits: u32) -> Vec<u32> {
    let mut left = bits;
    let mut out = Vec::new();
    while left > 0 {
        out.push(left.min(digit_bits));
        left -= left.min(digit_bits);
    }
    out
}

/// Shapes of the digit OTs: the lowest digit needs no equality bit.
pub(crate) fn shapes(bits: u32, digit_bits: u32, thresholds: usize) -> Vec<Shape> {
    digit_widths(bits, digit_bits)
        .into_iter()
        .enumerate()
        .map(|(j, w)| Shape {
            index_bits: w,
            message_bits: thresholds as u32 * if j == 0 { 1 } else { 2 },
        })
        .collect()
}

/// Shares of `[client word > server word]` on `bits`-bit words, for every threshold; one byte a bit.
pub(crate) fn greater_than(
    s: &mut Session,
    words: Words<'_>,
    n: usize,
    thresholds: usize,
    bits: u32,
) -> Result<Vec<Vec<u8>>, MpcError> {
    if bits == 0 || n == 0 {
        return Ok(vec![vec![0; n]; thresholds]);
    }
    let digit_bits = s.config().digit_bits;
    let shapes = shapes(bits, digit_bits, thresholds);
    let leaves = match words {
        Words::Client(x) => one_of_n::send(s, &shapes, n, |j, e, columns| {
            let shift = j as u32 * digit_bits;
            let digit_mask = (1u64 << shapes[j].index_bits) - 1;
            for (t, x) in x.iter().enumerate() {
                let digit = x[e] >> shift & digit_mask;
                // Bit i of the columns: [digit > i] and [digit = i].
                columns[t] = ((1u32 << digit) - 1) as u16;
                if j > 0 {
                    columns[thresholds + t] = 1u16 << digit;
                }
            }
        })?,
        Words::Server(y) => {
            let runs: Vec<Vec<u8>> = shapes
                .iter()
                .enumerate()
                .map(|(j, shape)| {
                    let (shift, m) = (j as u32 * digit_bits, (1u64 << shape.index_bits) - 1);
                    y.iter().map(|y| (y >> shift & m) as u8).collect()
                })
                .collect();
            one_of_n::receive(s, &shapes, &runs)?
        }
    };
    // One column a digit, thresholds one after another.
    let unpack = |leaf: &[u64], from: usize| -> Vec<u8> {
        (from..from + thresholds)
            .flat_map(|b| leaf.iter().map(move |v| (v >> b & 1) as u8))
            .collect()
    };
    let mut columns: Vec<Column> = leaves
        .iter()
        .enumerate()
        .map(|(j, leaf)| Column {
            gt: unpack(leaf, 0),
            eq: if j == 0 {
                Vec::new()
            } else {
                unpack(leaf, thresholds)
            },
        })
        .collect();
    while columns.len() > 1 {
        columns = join(s, columns)?;
    }
    let gt = columns.pop().map(|c| c.gt).unwrap_or_default();
    Ok(gt.chunks_exact(n).map(<[u8]>::to_vec).collect())
}

/// Comparison and equality of a run of digits; the lowest column has no equality.
struct Column {
    gt: Vec<u8>,
    eq: Vec<u8>,
}

/// One layer: `gt = gt_hi xor (eq_hi and gt_lo)`, `eq = eq_hi and eq_lo`.
fn join(s: &mut Session, columns: Vec<Column>) -> Result<Vec<Column>, MpcError> {
    let mut layer = AndLayer::default();
    for pair in columns.chunks_exact(2) {
        let (lo, hi) = (&pair[0], &pair[1]);
        if lo.eq.is_empty() {
            layer.x.extend_from_slice(&hi.eq);
            layer.y.extend_from_slice(&lo.gt);
        } else {
            layer.pair_x.extend_from_slice(&hi.eq);
            layer.pair_y.extend_from_slice(&lo.gt);
            layer.pair_z.extend_from_slice(&lo.eq);
        }
    }
    let out = and_layer(s, &layer)?;
    let (mut xy, mut pair_xy, mut pair_xz) = (&out.xy[..], &out.pair_xy[..], &out.pair_xz[..]);
    let mut joined = Vec::with_capacity(columns.len().div_ceil(2));
    let mut rest = columns.into_iter();
    while let Some(lo) = rest.next() {
        let Some(hi) = rest.next() else {
            joined.push(lo);
            break;
        };
        let mut gt = hi.gt;
        let m = gt.len();
        let eq = if lo.eq.is_empty() {
            xor(&mut gt, &xy[..m]);
            xy = &xy[m..];
            Vec::new()
        } else {
            xor(&mut gt, &pair_xy[..m]);
            let eq = pair_xz[..m].to_vec();
            pair_xy = &pair_xy[m..];
            pair_xz = &pair_xz[m..];
            eq
        };
        joined.push(Column { gt, eq });
    }
    Ok(joined)
}

fn xor(a: &mut [u8], b: &[u8]) {
    for (x, y) in a.iter_mut().zip(b) {
        *x ^= *y;
    }
}

/// Shares of the carry `[x0 + x1 >= 2^bits]` of words below `2^bits`, `bits <= 63`. Each party gives its own words.
pub(crate) fn carry(s: &mut Session, words: &[u64], bits: u32) -> Result<Vec<u8>, MpcError> {
    let n = words.len();
    let out = if s.is_client() {
        let x = [words.to_vec()];
        greater_than(s, Words::Client(&x), n, 1, bits)?
    } else {
        // x0 + x1 >= 2^l  <=>  x0 > 2^l - 1 - x1.
        let top = (1u64 << bits) - 1;
        let y: Vec<u64> = words.iter().map(|w| top - w).collect();
        greater_than(s, Words::Server(&y), n, 1, bits)?
    };
    Ok(out.into_iter().next().unwrap_or_default())
}
