//! Replays what a session sends, message by message, from shapes alone: bytes each way, flights, COTs, operations.
//!
//! Three rules are mirrored from other crates and held equal to them by tests that run the real protocols:
//!
//! - bytes: the frame headers of `net::frame`;
//! - flights: the `fresh` flag a party of `net::counters`;
//! - COTs: two pools, refilled by whole batches when a take finds them empty (`mpc::softspoken`).
//!
//! [`super::protocols`] adds one method a protocol of `mpc`, [`super::functions`] one a function of `nonlinear`,
//! [`super::boundary`] the two crossings of `bridge`. The order of events of each party is that of its code. How the
//! two parties' events interleave does not matter.

use crate::PlanError;
use cipherloom_spec::cost::{MpcCounts, Traffic};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Mirrors `net::frame::HEADER_BYTES`.
pub const FRAME_HEADER_BYTES: u64 = 16;
/// Mirrors `net::frame::FRAME_PAYLOAD`.
pub const FRAME_PAYLOAD: u64 = 1 << 20;
/// Mirrors `mpc::softspoken::KAPPA`: bits of a COT word.
const KAPPA: u64 = 128;
/// Mirrors `mpc::softspoken::UNIT`: a batch of COTs is a multiple of it.
const COT_UNIT: usize = 8192;
/// Mirrors the largest batch that `mpc::MpcConfig` allows.
const MAX_COT_BATCH: usize = 1 << 22;

/// One of the two parties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// P0: text and secret keys.
    Client,
    /// P1: weights.
    Server,
}

impl Side {
    /// The other party.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Public parameters of the two-party layer. Mirrors `mpc::MpcConfig`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MpcShape {
    /// SoftSpoken parameter: 1, 2, 4 or 8.
    pub cot_k: u32,
    /// COTs of one refill, a multiple of 8192.
    pub cot_batch: usize,
    /// Bits of a comparison digit, 1 to 4.
    pub digit_bits: u32,
}

impl Default for MpcShape {
    /// k = 4, batches of 2^16, radix 16.
    fn default() -> Self {
        Self {
            cot_k: 4,
            cot_batch: 1 << 16,
            digit_bits: 4,
        }
    }
}

impl MpcShape {
    /// Checks what sessions support. Mirrors `mpc::MpcConfig`. A replay divides by these numbers and loops over refills, so
    /// a document with others must not reach it.
    ///
    /// # Errors
    /// `Unsupported` naming the field.
    pub fn validate(&self) -> Result<(), PlanError> {
        let bad = |field, detail| Err(PlanError::Unsupported { field, detail });
        if !matches!(self.cot_k, 1 | 2 | 4 | 8) {
            return bad("cot_k", format!("{}; use 1, 2, 4 or 8", self.cot_k));
        }
        let batch = self.cot_batch;
        if batch == 0 || !batch.is_multiple_of(COT_UNIT) || batch > MAX_COT_BATCH {
            return bad(
                "cot_batch",
                format!("{batch}; use a multiple of {COT_UNIT} up to {MAX_COT_BATCH}"),
            );
        }
        if !(1..=4).contains(&self.digit_bits) {
            return bad("digit_bits", format!("{}; use 1 to 4", self.digit_bits));
        }
        Ok(())
    }
}

/// Sizes of an RLWE parameter set. Mirrors `mpc::rlwe::RlweLiteral`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RlweShape {
    /// Ring degree `N = 2^log_n`, N slots.
    pub log_n: u32,
    /// Bits of the primes of the export modulus.
    pub export_bits: Vec<u32>,
    /// Bits of the primes that the modulus switch drops.
    pub dropped_bits: Vec<u32>,
    /// Number of plaintext primes.
    pub plain_count: usize,
}

impl RlweShape {
    /// Products modulo 2^64. Mirrors `RlweLiteral::crt64`.
    #[must_use]
    pub fn crt64() -> Self {
        Self {
            log_n: 13,
            export_bits: vec![39, 38, 38],
            dropped_bits: vec![45],
            plain_count: 3,
        }
    }
}

/// Where products of two shared values come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProductShape {
    /// `mpc::rlwe::CrtProducts`.
    Rlwe(RlweShape),
    /// `mpc::CotProducts`.
    Cot,
}

impl Default for ProductShape {
    /// RLWE with [`RlweShape::crt64`].
    fn default() -> Self {
        Self::Rlwe(RlweShape::crt64())
    }
}

/// One message of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Who sent it.
    pub from: Side,
    /// Stage.
    pub stage: u16,
    /// Payload bytes.
    pub payload: u64,
}

/// What one stage cost so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageEntry {
    /// Bytes and flights.
    pub traffic: Traffic,
    /// Two-party operations, COTs included.
    pub mpc: MpcCounts,
    /// Messages of both directions.
    pub messages: u64,
    /// Payload bytes of the largest message; a channel refuses more than its limit.
    pub largest_message: u64,
}

/// The replay of one session. Starts in stage 0, as a channel does.
#[derive(Debug, Clone)]
pub struct Ledger {
    mpc: MpcShape,
    products: ProductShape,
    stages: BTreeMap<u16, StageEntry>,
    current: u16,
    /// A party's next send opens a flight.
    fresh: [bool; 2],
    /// Unused COTs, by the party that is the COT sender.
    pool: [u64; 2],
    schedule: Option<Vec<Message>>,
}

/// Bytes on the wire of a message of `payload` bytes. Mirrors `net::message_bytes`.
#[must_use]
pub fn message_bytes(payload: u64) -> u64 {
    payload + FRAME_HEADER_BYTES * payload.div_ceil(FRAME_PAYLOAD).max(1)
}

/// Bytes of a message of `bits` bits. Mirrors `mpc::bits::packed_len`.
#[must_use]
pub(crate) fn packed(bits: u64) -> u64 {
    bits.div_ceil(8)
}

impl Ledger {
    /// A session in which nothing was sent yet.
    #[must_use]
    pub fn new(mpc: MpcShape, products: ProductShape) -> Self {
        Self {
            mpc,
            products,
            stages: BTreeMap::from([(0, StageEntry::default())]),
            current: 0,
            fresh: [true; 2],
            pool: [0; 2],
            schedule: None,
        }
    }

    /// Enters a stage; what follows counts there. A stage may be entered again.
    pub fn enter(&mut self, stage: u16) {
        self.current = stage;
        self.stages.entry(stage).or_default();
    }

    /// Starts to remember every message.
    pub fn record_schedule(&mut self) {
        self.schedule = Some(Vec::new());
    }

    /// The remembered messages. Within one direction they are in order.
    #[must_use]
    pub fn schedule(&self) -> &[Message] {
        self.schedule.as_deref().unwrap_or(&[])
    }

    /// Bytes, flights and operations of one stage; zero if it was never entered.
    #[must_use]
    pub fn stage(&self, stage: u16) -> (Traffic, MpcCounts) {
        let e = self.entry(stage);
        (e.traffic, e.mpc)
    }

    /// All that is known of one stage; zero if it was never entered.
    #[must_use]
    pub fn entry(&self, stage: u16) -> StageEntry {
        self.stages.get(&stage).copied().unwrap_or_default()
    }

    /// All stages that were entered, in the order of their numbers.
    pub fn stages(&self) -> impl Iterator<Item = (u16, &StageEntry)> {
        self.stages.iter().map(|(k, v)| (*k, v))
    }

    /// Sum over all stages.
    #[must_use]
    pub fn total(&self) -> (Traffic, MpcCounts) {
        (
            self.stages.values().map(|e| e.traffic).sum(),
            self.stages.values().map(|e| e.mpc).sum(),
        )
    }

    /// Unused COTs in the pool in which `sender` is the COT sender.
    #[must_use]
    pub fn cots_available(&self, sender: Side) -> u64 {
        self.pool[sender as usize]
    }

    /// The two-party parameters.
    #[must_use]
    pub fn mpc_shape(&self) -> MpcShape {
        self.mpc
    }

    /// The source of products.
    #[must_use]
    pub fn product_shape(&self) -> &ProductShape {
        &self.products
    }

    fn now(&mut self) -> &mut StageEntry {
        self.stages.entry(self.current).or_default()
    }

    /// `from` sends one message. The other party's [`Ledger::recv`] is separate, because both may send first.
    pub fn send(&mut self, from: Side, payload: u64) {
        self.send_many(from, payload, 1);
    }

    /// `from` sends `count` messages of one length in a row. Constant work: a plan may be long, its replay must not be.
    fn send_many(&mut self, from: Side, payload: u64, count: u64) {
        if count == 0 {
            return;
        }
        let opens = std::mem::replace(&mut self.fresh[from as usize], false);
        let stage = self.current;
        let e = self.now();
        let bytes = count * message_bytes(payload);
        match from {
            Side::Client => e.traffic.client_to_server += bytes,
            Side::Server => e.traffic.server_to_client += bytes,
        }
        e.traffic.flights += u64::from(opens);
        e.messages += count;
        e.largest_message = e.largest_message.max(payload);
        if let Some(list) = &mut self.schedule {
            let message = Message {
                from,
                stage,
                payload,
            };
            list.extend(std::iter::repeat_n(message, count as usize));
        }
    }

    /// `to` receives a message: its next send opens a flight.
    pub fn recv(&mut self, to: Side) {
        self.fresh[to as usize] = true;
    }

    /// One message that is received before anything else happens.
    pub fn message(&mut self, from: Side, payload: u64) {
        self.send(from, payload);
        self.recv(from.other());
    }

    /// `count` messages of one length in a row, all received before anything else happens.
    pub fn messages(&mut self, from: Side, payload: u64, count: u64) {
        self.send_many(from, payload, count);
        if count > 0 {
            self.recv(from.other());
        }
    }

    /// Both parties send, then both receive: two flights, one round.
    pub fn exchange(&mut self, client_payload: u64, server_payload: u64) {
        self.send(Side::Client, client_payload);
        self.send(Side::Server, server_payload);
        self.recv(Side::Client);
        self.recv(Side::Server);
    }

    /// The end of a session (`Channel::finish`): both parties send an empty message.
    pub fn finish(&mut self) {
        self.exchange(0, 0);
    }

    /// Adds operations to the current stage.
    pub fn count(&mut self, counts: MpcCounts) {
        self.now().mpc += counts;
    }

    /// Takes `n` COTs from the pool of `sender`; returns how many refills this needs. Mirrors `take` of both sides in
    /// `mpc::softspoken`: a batch is fetched when the pool is empty and COTs are still missing.
    pub(crate) fn reserve(&mut self, sender: Side, n: u64) -> u64 {
        let batch = (self.mpc.cot_batch as u64).max(1);
        let pool = &mut self.pool[sender as usize];
        let refills = n.saturating_sub(*pool).div_ceil(batch);
        *pool = *pool + refills * batch - n;
        self.now().mpc.cots += n;
        refills
    }

    /// Payload of one refill. Mirrors `mpc::refill_bytes`.
    #[must_use]
    pub fn refill_bytes(&self) -> u64 {
        (KAPPA / u64::from(self.mpc.cot_k.max(1)) - 1) * self.mpc.cot_batch as u64 / 8
    }

    /// The COT receiver's part of the refills: it sends them.
    pub(crate) fn send_refills(&mut self, receiver: Side, refills: u64) {
        self.send_many(receiver, self.refill_bytes(), refills);
    }

    /// The COT sender's part of the refills.
    pub(crate) fn recv_refills(&mut self, sender: Side, refills: u64) {
        if refills > 0 {
            self.recv(sender);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flight_opens_after_a_receive_only() {
        let mut l = Ledger::new(MpcShape::default(), ProductShape::default());
        l.send(Side::Client, 10);
        l.send(Side::Client, 10);
        l.recv(Side::Server);
        l.enter(3);
        l.message(Side::Server, 1 << 20);
        l.message(Side::Client, (1 << 20) + 1);
        assert_eq!(l.stage(0).0.client_to_server, 52);
        assert_eq!(l.stage(0).0.flights, 1);
        let t = l.stage(3).0;
        assert_eq!(
            (t.client_to_server, t.server_to_client, t.flights),
            ((1 << 20) + 33, (1 << 20) + 16, 2)
        );
        assert_eq!(l.entry(3).largest_message, (1 << 20) + 1);
        assert_eq!(l.stage(9), Default::default());
    }

    #[test]
    fn pools_are_refilled_by_whole_batches_when_empty() {
        let mut l = Ledger::new(MpcShape::default(), ProductShape::Cot);
        assert_eq!(l.reserve(Side::Client, 0), 0);
        assert_eq!(l.reserve(Side::Client, 1), 1);
        assert_eq!(l.reserve(Side::Client, 65_535), 0);
        assert_eq!(l.cots_available(Side::Client), 0);
        assert_eq!(l.reserve(Side::Client, 65_536), 1);
        assert_eq!(l.reserve(Side::Client, 65_537), 2);
        assert_eq!(l.reserve(Side::Server, 3), 1);
        assert_eq!(l.cots_available(Side::Server), 65_533);
        assert_eq!(l.refill_bytes(), 31 * 8192);
    }

    #[test]
    fn messages_in_a_row_count_as_one_after_the_other() {
        let start = || {
            let mut l = Ledger::new(MpcShape::default(), ProductShape::default());
            l.record_schedule();
            l.message(Side::Server, 3);
            l
        };
        let (mut one, mut many) = (start(), start());
        for payload in [0, 5, (1 << 20) + 1] {
            for _ in 0..3 {
                one.message(Side::Client, payload);
            }
            many.messages(Side::Client, payload, 3);
        }
        many.messages(Side::Server, 9, 0);
        one.message(Side::Server, 7);
        many.messages(Side::Server, 7, 1);
        assert_eq!(one.entry(0), many.entry(0));
        assert_eq!(one.schedule(), many.schedule());
        assert_eq!(one.fresh, many.fresh);
    }
}
