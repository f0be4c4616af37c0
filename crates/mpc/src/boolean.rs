//! AND gates on exclusive-or shared bits.
//!
//! Each gate, or pair of gates that share their first input, uses one random COT in each direction: party `p` takes
//! `a_p` = its random choice bit and `b_p` = the exclusive or of its two pads, which gives shares of `a b` locally. Then
//! `x xor a` and `y xor b` are opened (masked by fresh correlations). A gate costs 2 bits each way, a pair 3.
//! Flights: both parties at once.

use crate::bits::{pack, packed_len, unpack};
use crate::{MpcError, Session};
use rayon::prelude::*;
use zeroize::Zeroizing;

/// Gates whose pads exist at a time: they stay in the first-level cache.
const SLICE: usize = 512;

/// Gates of one layer. All vectors hold one byte (0 or 1) a bit.
#[derive(Default)]
pub(crate) struct AndLayer {
    /// Shared first inputs of the pairs.
    pub pair_x: Vec<u8>,
    /// Second inputs of the first gates.
    pub pair_y: Vec<u8>,
    /// Second inputs of the second gates.
    pub pair_z: Vec<u8>,
    /// First inputs of the single gates.
    pub x: Vec<u8>,
    /// Second inputs of the single gates.
    pub y: Vec<u8>,
}

/// Outputs of a layer, in the same order.
#[derive(Default)]
pub(crate) struct AndOutput {
    pub pair_xy: Vec<u8>,
    pub pair_xz: Vec<u8>,
    pub xy: Vec<u8>,
}

/// Evaluates one layer.
pub(crate) fn and_layer(s: &mut Session, layer: &AndLayer) -> Result<AndOutput, MpcError> {
    let (pairs, singles) = (layer.pair_x.len(), layer.x.len());
    let n = pairs + singles;
    if n == 0 {
        return Ok(AndOutput::default());
    }
    let (mine, theirs) = s.take_both(n)?;
    let first = s.is_client();
    let (hash, delta) = s.sender_side();
    // Two bits each, one for each gate of a pair.
    let mut b = Zeroizing::new(vec![0u8; n]);
    let mut c = Zeroizing::new(vec![0u8; n]);
    let slices = theirs.q.par_chunks(SLICE).zip(mine.t.par_chunks(SLICE));
    let slices = slices.zip(mine.r.par_chunks(SLICE));
    let out = b.par_chunks_mut(SLICE).zip(c.par_chunks_mut(SLICE));
    slices
        .zip(out)
        .enumerate()
        .for_each(|(i, (((q, t), r), (b, c)))| {
            let mut pads = Zeroizing::new(Vec::with_capacity(q.len()));
            pads.extend(q.iter().zip(t).map(|(&q, &t)| [q, q ^ delta, t]));
            hash.each((mine.first + (i * SLICE) as u64, 1), &mut pads);
            for (((b, c), [p0, p1, got]), r) in b.iter_mut().zip(c).zip(pads.iter()).zip(r) {
                *b = (p0 ^ p1) as u8 & 3;
                *c = (p0 ^ got) as u8 & 3 ^ (*b & r.wrapping_neg());
            }
        });
    // All x xor a, then all y xor b, then those of the second gates.
    let masked = |x: &[u8], a: &[u8], shift: u32, out: &mut Vec<u8>| {
        out.extend(x.iter().zip(a).map(|(x, a)| x ^ (a >> shift & 1)));
    };
    let mut opened = Vec::with_capacity(2 * n + pairs);
    masked(&layer.pair_x, &mine.r, 0, &mut opened);
    masked(&layer.x, &mine.r[pairs..], 0, &mut opened);
    masked(&layer.pair_y, &b, 0, &mut opened);
    masked(&layer.y, &b[pairs..], 0, &mut opened);
    masked(&layer.pair_z, &b, 1, &mut opened);
    debug_assert_eq!(opened.len() as u64, opening_bits(pairs, singles));
    s.send(&pack(&opened))?;
    let other = s.recv(packed_len(opened.len() as u64))?;
    for (own, other) in opened.iter_mut().zip(unpack(&other)) {
        *own ^= other;
    }
    // Opened values, public from here on.
    let (d, rest) = opened.split_at(n);
    let (e, e_second) = rest.split_at(n);
    let first = u8::from(first);
    let gates = |e: &[u8], shift: u32| -> Vec<u8> {
        let terms = e
            .iter()
            .zip(d)
            .zip(b.iter().zip(c.iter()))
            .zip(mine.r.iter());
        terms
            .map(|(((e, d), (b, c)), a)| {
                (c >> shift & 1) ^ (b >> shift & 1 & d) ^ (e & a) ^ (first & e & d)
            })
            .collect()
    };
    let mut pair_xy = gates(e, 0);
    let xy = pair_xy.split_off(pairs);
    Ok(AndOutput {
        pair_xy,
        pair_xz: gates(e_second, 1),
        xy,
    })
}

/// Bits that each party opens.
pub(crate) fn opening_bits(pairs: usize, singles: usize) -> u64 {
    3 * pairs as u64 + 2 * singles as u64
}
