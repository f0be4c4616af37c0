//! Correlated OTs by SoftSpoken extension (Roy, CRYPTO 2022, ePrint 2022/192), semi-honest.
//!
//! The COT sender holds a secret `Delta` of 128 bits, cut into `128/k` blocks of `k` bits. For every block the COT receiver
//! owns a PPRF with `2^k` leaves and the sender knows all leaves but the one at its block (see [`crate::pprf`]).
//! With leaf streams `r_x`: `u = sum r_x`, `v = sum x r_x` at the receiver and `w = sum (x + delta) r_x = v + delta u` at the
//! sender. The receiver sends `u_i + u_0` for all blocks but the first, after which all blocks share `u_0`, the random
//! choice bits. Transposed: `q_j = t_j xor r_j Delta`.
//!
//! `k = 1` is IKNP. Traffic: `128/k - 1` bits a COT, from the COT receiver to the COT sender.

use crate::bits::spread;
use crate::pprf;
use crate::MpcError;
use cipherloom_net::{Channel, FrameKind};
use cipherloom_ring::blocks::{Leaves, StreamKey};
use cipherloom_ring::Blocks;
use rayon::prelude::*;
use zeroize::{Zeroize, Zeroizing};

/// COTs that are made from one piece of every leaf stream.
pub(crate) const UNIT: usize = 8192;
const UNIT_BYTES: usize = UNIT / 8;
const UNIT_BLOCKS: usize = UNIT_BYTES / 16;
const KAPPA: usize = 128;
const OP: &str = "OT extension";

/// COTs as the sender holds them: `q_j`, used under the hash indices `first..`.
pub(crate) struct SenderCots {
    pub first: u64,
    pub q: Zeroizing<Vec<u128>>,
}

/// COTs as the receiver holds them: `t_j = q_j xor r_j Delta`; each `r_j` is 0 or 1.
pub(crate) struct ReceiverCots {
    pub first: u64,
    pub t: Zeroizing<Vec<u128>>,
    pub r: Zeroizing<Vec<u8>>,
}

/// The `t_j` and `r_j`.
type ReceiverWords = (Zeroizing<Vec<u128>>, Zeroizing<Vec<u8>>);

fn streams(blocks: Blocks, seeds: &[u128]) -> impl Iterator<Item = StreamKey> + '_ {
    seeds.iter().map(move |&s| blocks.stream_key(s))
}

/// Checks the extension parameter.
pub(crate) fn check_k(k: u32) -> Result<(), MpcError> {
    if matches!(k, 1 | 2 | 4 | 8) {
        return Ok(());
    }
    Err(MpcError::Format {
        op: OP,
        detail: format!("k = {k}; choose 1, 2, 4 or 8"),
    })
}

/// Bytes of the set-up message of one direction: two masked sums a level, 128 levels in all.
pub(crate) const PPRF_BYTES: usize = KAPPA * 32;

/// Bytes of one refill message of `batch` COTs (a multiple of 8192): `(128/k - 1) batch / 8`.
#[must_use]
pub fn refill_bytes(k: u32, batch: usize) -> usize {
    (KAPPA / k as usize - 1) * batch / 8
}

/// The choice bits that the COT sender uses as base receiver, for its `Delta`.
pub(crate) fn base_choices(delta: u128, k: u32) -> u128 {
    let k = k as usize;
    let mut out = 0u128;
    for i in 0..KAPPA / k {
        let point = (delta >> (i * k)) as u32 & ((1u32 << k) - 1);
        for j in 0..k {
            out |= u128::from(pprf::choice(point, k, j)) << (i * k + j);
        }
    }
    out
}

/// The COT receiver's side: all leaves.
pub(crate) struct CotReceiver {
    k: usize,
    batch: usize,
    blocks: Blocks,
    leaves: Vec<StreamKey>,
    unit: u64,
    taken: u64,
    t: Zeroizing<Vec<u128>>,
    r: Zeroizing<Vec<u8>>,
    at: usize,
}

impl CotReceiver {
    /// Builds the trees from random roots and the keys of 128 base OTs. Returns the set-up message.
    pub fn new(
        session: &[u8; 32],
        k: u32,
        batch: usize,
        keys: &[[u128; 2]],
        mut root: impl FnMut() -> u128,
    ) -> (Self, Vec<u8>) {
        let (k, blocks) = (k as usize, Blocks::detect());
        let mut leaves = Vec::with_capacity((KAPPA / k) << k);
        let mut message = Vec::with_capacity(PPRF_BYTES);
        for keys in keys.chunks_exact(k) {
            let (seeds, sums) = pprf::full(session, root(), keys);
            leaves.extend(streams(blocks, &seeds));
            for s in sums.iter().flatten() {
                message.extend_from_slice(&s.to_le_bytes());
            }
        }
        let me = Self {
            k,
            batch,
            blocks,
            leaves,
            unit: 0,
            taken: 0,
            t: Zeroizing::new(Vec::new()),
            r: Zeroizing::new(Vec::new()),
            at: 0,
        };
        (me, message)
    }

    pub fn available(&self) -> usize {
        self.t.len() - self.at
    }

    pub fn taken(&self) -> u64 {
        self.taken
    }

    fn refill(&mut self, channel: &mut Channel) -> Result<(), MpcError> {
        let (k, trees, blocks) = (self.k, KAPPA / self.k, self.blocks);
        let per_unit = (trees - 1) * UNIT_BYTES;
        let mut message = vec![0u8; refill_bytes(k as u32, self.batch)];
        self.t.zeroize();
        self.r.zeroize();
        self.t.resize(self.batch, 0);
        self.r.resize(self.batch, 0);
        self.at = 0;
        let (leaves, base) = (&self.leaves, self.unit);
        let work = self
            .t
            .par_chunks_exact_mut(UNIT)
            .zip(self.r.par_chunks_exact_mut(UNIT))
            .zip(message.par_chunks_exact_mut(per_unit));
        work.enumerate().for_each(|(n, ((t, r), message))| {
            let first = (base + n as u64) * UNIT_BLOCKS as u64;
            let mut columns = Zeroizing::new(vec![0u8; UNIT_BYTES * KAPPA]);
            let mut u0 = Zeroizing::new([0u8; UNIT_BYTES]);
            for i in 0..trees {
                let leaves = Leaves {
                    keys: &leaves[i << k..(i + 1) << k],
                    without_first: false,
                };
                let v = &mut columns[i * k * UNIT_BYTES..(i + 1) * k * UNIT_BYTES];
                if i == 0 {
                    blocks.leaf_sums(leaves, first, v, &mut *u0);
                } else {
                    let d = &mut message[(i - 1) * UNIT_BYTES..i * UNIT_BYTES];
                    blocks.leaf_sums(leaves, first, v, d);
                    blocks.xor_into(d, &*u0);
                }
            }
            blocks.transpose(&columns, UNIT_BYTES, t);
            for (r, &u) in r.as_chunks_mut::<8>().0.iter_mut().zip(u0.iter()) {
                *r = spread(u);
            }
        });
        self.unit += (self.batch / UNIT) as u64;
        channel.send(FrameKind::Ot, &message)?;
        Ok(())
    }

    /// Takes `n` COTs; refills by whole batches whenever the pool runs empty.
    pub fn take(&mut self, channel: &mut Channel, n: usize) -> Result<ReceiverWords, MpcError> {
        let mut out = (
            Zeroizing::new(Vec::with_capacity(n)),
            Zeroizing::new(Vec::with_capacity(n)),
        );
        while out.0.len() < n {
            if self.available() == 0 {
                self.refill(channel)?;
            }
            let m = (n - out.0.len()).min(self.available());
            out.0.extend_from_slice(&self.t[self.at..self.at + m]);
            out.1.extend_from_slice(&self.r[self.at..self.at + m]);
            self.at += m;
        }
        self.taken += n as u64;
        Ok(out)
    }
}

/// The COT sender's side: `Delta`, and all leaves but one a block.
pub(crate) struct CotSender {
    k: usize,
    batch: usize,
    delta: Zeroizing<u128>,
    blocks: Blocks,
    leaves: Vec<StreamKey>,
    unit: u64,
    taken: u64,
    q: Zeroizing<Vec<u128>>,
    at: usize,
}

impl CotSender {
    /// Rebuilds the trees from the chosen base keys and the peer's set-up message.
    pub fn new(
        session: &[u8; 32],
        k: u32,
        batch: usize,
        delta: u128,
        chosen: &[u128],
        message: &[u8],
    ) -> Result<Self, MpcError> {
        if message.len() != PPRF_BYTES {
            return Err(MpcError::Malformed {
                op: OP,
                detail: format!("{} bytes of set-up, expected {PPRF_BYTES}", message.len()),
            });
        }
        let (k, blocks) = (k as usize, Blocks::detect());
        let word = |b: &[u8]| {
            let mut w = [0u8; 16];
            w.copy_from_slice(b);
            u128::from_le_bytes(w)
        };
        let sums: Vec<[u128; 2]> = message
            .chunks_exact(32)
            .map(|m| [word(&m[..16]), word(&m[16..])])
            .collect();
        let mut leaves = Vec::with_capacity((KAPPA / k) << k);
        for (i, (keys, sums)) in chosen.chunks_exact(k).zip(sums.chunks_exact(k)).enumerate() {
            let point = (delta >> (i * k)) as u32 & ((1u32 << k) - 1);
            let seeds = pprf::punctured(session, point, keys, sums);
            leaves.extend(streams(blocks, &seeds));
        }
        Ok(Self {
            k,
            batch,
            delta: Zeroizing::new(delta),
            blocks,
            leaves,
            unit: 0,
            taken: 0,
            q: Zeroizing::new(Vec::new()),
            at: 0,
        })
    }

    pub fn delta(&self) -> u128 {
        *self.delta
    }

    pub fn available(&self) -> usize {
        self.q.len() - self.at
    }

    pub fn taken(&self) -> u64 {
        self.taken
    }

    fn refill(&mut self, channel: &mut Channel) -> Result<(), MpcError> {
        let (k, trees, blocks) = (self.k, KAPPA / self.k, self.blocks);
        let per_unit = (trees - 1) * UNIT_BYTES;
        let message = channel.recv(FrameKind::Ot, refill_bytes(k as u32, self.batch))?;
        self.q.zeroize();
        self.q.resize(self.batch, 0);
        self.at = 0;
        let (leaves, base, delta) = (&self.leaves, self.unit, *self.delta);
        let work = self
            .q
            .par_chunks_exact_mut(UNIT)
            .zip(message.par_chunks_exact(per_unit));
        work.enumerate().for_each(|(n, (q, message))| {
            let first = (base + n as u64) * UNIT_BLOCKS as u64;
            let mut columns = Zeroizing::new(vec![0u8; UNIT_BYTES * KAPPA]);
            let mut total = Zeroizing::new([0u8; UNIT_BYTES]);
            for i in 0..trees {
                // Leaf 0 is the unknown one: it has factor 0 here.
                let leaves = Leaves {
                    keys: &leaves[(i << k) + 1..(i + 1) << k],
                    without_first: true,
                };
                let v = &mut columns[i * k * UNIT_BYTES..(i + 1) * k * UNIT_BYTES];
                blocks.leaf_sums(leaves, first, v, &mut *total);
                if i > 0 {
                    let d = &message[(i - 1) * UNIT_BYTES..i * UNIT_BYTES];
                    for (b, column) in v.chunks_exact_mut(UNIT_BYTES).enumerate() {
                        let bit = ((delta >> (i * k + b)) as u8 & 1).wrapping_neg();
                        blocks.xor_masked(column, d, bit);
                    }
                }
            }
            blocks.transpose(&columns, UNIT_BYTES, q);
        });
        self.unit += (self.batch / UNIT) as u64;
        Ok(())
    }

    /// Takes `n` COTs; refills by whole batches whenever the pool runs empty.
    pub fn take(
        &mut self,
        channel: &mut Channel,
        n: usize,
    ) -> Result<Zeroizing<Vec<u128>>, MpcError> {
        let mut out = Zeroizing::new(Vec::with_capacity(n));
        while out.len() < n {
            if self.available() == 0 {
                self.refill(channel)?;
            }
            let m = (n - out.len()).min(self.available());
            out.extend_from_slice(&self.q[self.at..self.at + m]);
            self.at += m;
        }
        self.taken += n as u64;
        Ok(out)
    }
}
