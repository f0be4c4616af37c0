//! Chosen-input correlated OT over `Z_t` for a prime `t`: the receiver with bit `b` gets `s + b c`, the sender `s`.
//!
//! As [`crate::cot`], with pads of 128 bits reduced modulo `t` (bias below `t / 2^128`). One COT an element; `n` bits one
//! way, `n ceil(log2 t)` bits back. Flights: receiver, then sender.

use cipherloom_ring::{pack, Modulus};
use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::bits::packed_len;
use crate::cot::{flips, GRAIN};
use crate::{MpcError, Session};

const OP: &str = "correlated OT modulo a prime";

/// Receiver: `s_j + b_j c_j mod t` for choices `b_j` of 0 or 1.
pub(crate) fn receive(
    session: &mut Session,
    t: &Modulus,
    choices: &[u8],
) -> Result<Vec<u64>, MpcError> {
    let n = choices.len();
    let cots = session.take_receiver(n)?;
    session.send(&flips(choices, &cots.r))?;
    let hash = session.hash();
    let mut pads = Zeroizing::new(cots.t.iter().map(|&t| [t]).collect::<Vec<_>>());
    hash.each((cots.first, 1), &mut pads);
    let mut out: Vec<u64> = pads.iter().map(|[p]| t.reduce_u128(*p)).collect();
    let reply = session.recv(pack::packed_len(n, t.bits()))?;
    let messages = pack::unpack(&reply, n, t).map_err(|e| MpcError::Malformed {
        op: OP,
        detail: e.to_string(),
    })?;
    for ((o, m), &b) in out.iter_mut().zip(messages).zip(choices) {
        *o = t.add(*o, m & u64::from(b).wrapping_neg());
    }
    Ok(out)
}

/// Sender: correlations `c_j < t`; returns the `s_j`.
pub(crate) fn send(
    session: &mut Session,
    t: &Modulus,
    n: usize,
    correlation: impl Fn(usize) -> u64 + Sync,
) -> Result<Vec<u64>, MpcError> {
    let cots = session.take_sender(n)?;
    let flips = session.recv(packed_len(n as u64))?;
    let (hash, delta) = session.sender_side();
    let mut pads = Zeroizing::new(Vec::with_capacity(n));
    pads.extend(cots.q.iter().enumerate().map(|(j, &q)| {
        let d = u128::from((flips[j / 8] >> (j % 8)) & 1).wrapping_neg();
        [q ^ (delta & d), q ^ (delta & !d)]
    }));
    hash.each((cots.first, 1), &mut pads);
    let both: Vec<(u64, u64)> = pads
        .par_iter()
        .enumerate()
        .with_min_len(GRAIN)
        .map(|(j, pads)| {
            let [p0, p1] = pads.map(|p| t.reduce_u128(p));
            (p0, t.sub(t.add(p0, correlation(j)), p1))
        })
        .collect();
    let (shares, messages): (Vec<u64>, Vec<u64>) = both.into_iter().unzip();
    session.send(&pack::pack(&messages, t))?;
    Ok(shares)
}
