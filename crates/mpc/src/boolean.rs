//! AND gates on exclusive-or shared bits.
//!
//! Each gate, or pair of gates that share their first input, uses one random COT in each direction: party `p` takes
//! `a_p` = its random choice bit and `b_p` = the exclusive or of its two pads, which gives shares of `a b` locally. Then
//! `x xor a` and `y xor b` are opened (masked by fresh correlations). A gate costs 2 bits each way, a pair 3.
//! Flights: both parties at once.

use crate::bits::{packed_len, BitReader, BitWriter};
use crate::{MpcError, Session};
use zeroize::Zeroizing;

const OP: &str = "AND";

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
pub(crate) struct AndOutput {
    pub pair_xy: Vec<u8>,
    pub pair_xz: Vec<u8>,
    pub xy: Vec<u8>,
}

/// Evaluates one layer.
pub(crate) fn and_layer(s: &mut Session, layer: &AndLayer) -> Result<AndOutput, MpcError> {
    let (pairs, singles) = (layer.pair_x.len(), layer.x.len());
    let n = pairs + singles;
    let mut out = AndOutput {
        pair_xy: Vec::with_capacity(pairs),
        pair_xz: Vec::with_capacity(pairs),
        xy: Vec::with_capacity(singles),
    };
    if n == 0 {
        return Ok(out);
    }
    let (mine, theirs) = s.take_both(n)?;
    let first = s.is_client();
    let (hash, delta) = s.sender_side();
    // Two bits each: b (of the two gates) and c.
    let mut pads = Zeroizing::new(Vec::with_capacity(n));
    pads.extend(
        theirs
            .q
            .iter()
            .zip(mine.t.iter())
            .map(|(&q, &t)| [q, q ^ delta, t]),
    );
    hash.each((mine.first, 1), &mut pads);
    let triples: Zeroizing<Vec<(u8, u8)>> = Zeroizing::new(
        pads.iter()
            .enumerate()
            .map(|(j, &[p0, p1, got])| {
                let b = (p0 ^ p1) as u8 & 3;
                let c = (p0 ^ got) as u8 & 3 ^ (b & mine.r[j].wrapping_neg());
                (b, c)
            })
            .collect(),
    );
    let input = |j: usize| {
        if j < pairs {
            (layer.pair_x[j], layer.pair_y[j] | layer.pair_z[j] << 1)
        } else {
            (layer.x[j - pairs], layer.y[j - pairs])
        }
    };
    let width = |j: usize| if j < pairs { 3 } else { 2 };
    let bits = opening_bits(pairs, singles);
    let mut w = BitWriter::with_bits(bits);
    for j in 0..n {
        let (x, y) = input(j);
        let (d, e) = (x ^ mine.r[j], y ^ triples[j].0);
        let e = e & (if j < pairs { 3 } else { 1 });
        w.push(u64::from(d | e << 1), width(j));
    }
    let own = w.finish();
    s.send(&own)?;
    let other = s.recv(packed_len(bits))?;
    let mut own = BitReader::new(&own, bits, OP)?;
    let mut other = BitReader::new(&other, bits, OP)?;
    for j in 0..n {
        // Opened values, public from here on.
        let v = (own.pull(width(j)) ^ other.pull(width(j))) as u8;
        let (d, e) = (v & 1, v >> 1);
        let (b, c) = triples[j];
        let mut z = c ^ (b & d.wrapping_neg()) ^ (e & mine.r[j].wrapping_neg());
        if first {
            z ^= e & d.wrapping_neg();
        }
        if j < pairs {
            out.pair_xy.push(z & 1);
            out.pair_xz.push(z >> 1 & 1);
        } else {
            out.xy.push(z & 1);
        }
    }
    Ok(out)
}

/// Bits that each party opens.
pub(crate) fn opening_bits(pairs: usize, singles: usize) -> u64 {
    3 * pairs as u64 + 2 * singles as u64
}
