//! Chosen-input correlated OT over rings `Z_2^w`: the receiver with bit `b` gets `s + b c`, the sender gets `s`.
//!
//! From a random COT: the receiver sends `d = b xor r`; with `p_b` the pad that belongs to choice `b` the sender sets
//! `s = p_0` and sends `p_0 + c - p_1`. One COT an element; `n` bits one way, `sum of widths` bits back.
//! Cost of a batch of `n`: flights: receiver, then sender. Indices and branches depend on public bits only.

use crate::bits::{mask128, pack, packed_len, BitReader, BitWriter};
use crate::softspoken::ReceiverCots;
use crate::{MpcError, Session};
use rayon::prelude::*;
use zeroize::Zeroizing;

const OP: &str = "correlated OT";
/// Elements below which work is not split over threads.
pub(crate) const GRAIN: usize = 2048;

/// A word of shares: `u64` or `u128`.
pub(crate) trait Word: Copy + Send + Sync + zeroize::Zeroize + 'static {
    /// Low bits of `v`.
    fn low(v: u128) -> Self;
    /// As a wide word.
    fn wide(self) -> u128;
}
impl Word for u64 {
    fn low(v: u128) -> Self {
        v as u64
    }
    fn wide(self) -> u128 {
        u128::from(self)
    }
}
impl Word for u128 {
    fn low(v: u128) -> Self {
        v
    }
    fn wide(self) -> u128 {
        self
    }
}

/// Widths of the elements, public.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Widths {
    /// The same for all, 1 to 128.
    Same(u32),
    /// `top, top - 1, ..., 1`, repeated.
    Falling(u32),
}

impl Widths {
    fn at(self, j: usize) -> u32 {
        match self {
            Self::Same(w) => w,
            Self::Falling(top) => top - (j % top as usize) as u32,
        }
    }
    /// Bits of `n` elements.
    pub fn total(self, n: usize) -> u64 {
        match self {
            Self::Same(w) => u64::from(w) * n as u64,
            // Falling batches are whole: n is a multiple of top.
            Self::Falling(top) => {
                (n as u64 / u64::from(top)) * u64::from(top) * u64::from(top + 1) / 2
            }
        }
    }
}

/// Choices masked by the random ones, all 0 or 1, a bit each.
pub(crate) fn flips(choices: &[u8], random: &[u8]) -> Vec<u8> {
    let masked: Vec<u8> = choices.iter().zip(random).map(|(b, r)| b ^ r).collect();
    pack(&masked)
}

/// The receiver between its message and the sender's.
pub(crate) struct PendingReceive {
    cots: ReceiverCots,
    choices: Zeroizing<Vec<u8>>,
}

/// Receiver, first half: takes the COTs and sends the masked choices. Each choice is 0 or 1.
pub(crate) fn receive_begin(s: &mut Session, choices: &[u8]) -> Result<PendingReceive, MpcError> {
    let cots = s.take_receiver(choices.len())?;
    s.send(&flips(choices, &cots.r))?;
    Ok(PendingReceive {
        cots,
        choices: Zeroizing::new(choices.to_vec()),
    })
}

/// Receiver, second half: `s_j + b_j c_j mod 2^width`.
pub(crate) fn receive_finish<W: Word>(
    s: &mut Session,
    pending: &PendingReceive,
    widths: Widths,
) -> Result<Vec<W>, MpcError> {
    let n = pending.choices.len();
    let hash = s.hash();
    let cots = &pending.cots;
    // Hashed before the reply is awaited.
    let mut pads = Zeroizing::new(cots.t.iter().map(|&t| [t]).collect::<Vec<_>>());
    hash.each((cots.first, 1), &mut pads);
    let mut out: Vec<W> = pads.iter().map(|[p]| W::low(*p)).collect();
    drop(pads);
    let bits = widths.total(n);
    let reply = s.recv(packed_len(bits))?;
    let mut r = BitReader::new(&reply, bits, OP)?;
    for (j, o) in out.iter_mut().enumerate() {
        let w = widths.at(j);
        let m = r.pull_wide(w) & u128::from(pending.choices[j]).wrapping_neg();
        *o = W::low(o.wide().wrapping_add(m) & mask128(w));
    }
    Ok(out)
}

/// Sender: takes the COTs, reads the masked choices, answers, returns the `s_j`.
pub(crate) fn send<W: Word>(
    s: &mut Session,
    n: usize,
    widths: Widths,
    correlation: impl Fn(usize) -> W + Sync,
) -> Result<Vec<W>, MpcError> {
    let cots = s.take_sender(n)?;
    let flips = s.recv(packed_len(n as u64))?;
    let (hash, delta) = s.sender_side();
    let mut pads = Zeroizing::new(Vec::with_capacity(n));
    pads.extend(cots.q.iter().enumerate().map(|(j, &q)| {
        let d = u128::from((flips[j / 8] >> (j % 8)) & 1).wrapping_neg();
        [q ^ (delta & d), q ^ (delta & !d)]
    }));
    hash.each((cots.first, 1), &mut pads);
    let mut out: Vec<(W, W)> = Vec::new();
    pads.par_iter()
        .enumerate()
        .with_min_len(GRAIN)
        .map(|(j, &[p0, p1])| {
            let m = mask128(widths.at(j));
            let message = p0.wrapping_add(correlation(j).wide()).wrapping_sub(p1);
            (W::low(p0 & m), W::low(message & m))
        })
        .collect_into_vec(&mut out);
    let mut writer = BitWriter::with_bits(widths.total(n));
    for (j, (_, m)) in out.iter().enumerate() {
        writer.push_wide(m.wide(), widths.at(j));
    }
    s.send(&writer.finish())?;
    Ok(out.into_iter().map(|(p, _)| p).collect())
}
