//! One party's side of a session: the channel, both directions of correlated OTs, the generator of secrets.

use crate::base_ot::{BaseContext, BaseReceiver, BaseSender, RECEIVER_BYTES, SENDER_BYTES};
use crate::hash::CotHash;
use crate::softspoken::{
    base_choices, check_k, CotReceiver, CotSender, ReceiverCots, SenderCots, PPRF_BYTES, UNIT,
};
use crate::{MpcError, Party};
use cipherloom_net::{Channel, FrameKind};
use cipherloom_ring::SecretPrg;
use zeroize::Zeroizing;

/// Public parameters of the two-party layer. Both parties must use the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MpcConfig {
    /// SoftSpoken parameter, 1, 2, 4 or 8: `(128/k - 1)/8` bytes and about `2^k/k` units of work a COT.
    pub cot_k: u32,
    /// COTs of one refill of a pool, a multiple of 8192. A pool holds at most one batch.
    pub cot_batch: usize,
    /// Bits of a comparison digit, 1 to 4.
    pub digit_bits: u32,
}

impl Default for MpcConfig {
    /// k = 4, batches of 2^16, radix 16.
    fn default() -> Self {
        Self {
            cot_k: 4,
            cot_batch: 1 << 16,
            digit_bits: 4,
        }
    }
}

impl MpcConfig {
    fn check(&self) -> Result<(), MpcError> {
        check_k(self.cot_k)?;
        if self.cot_batch == 0 || !self.cot_batch.is_multiple_of(UNIT) || self.cot_batch > 1 << 22 {
            return Err(MpcError::Format {
                op: "COT pool",
                detail: format!(
                    "batch {}; choose a multiple of {UNIT} up to 2^22",
                    self.cot_batch
                ),
            });
        }
        if !(1..=4).contains(&self.digit_bits) {
            return Err(MpcError::Format {
                op: "comparison",
                detail: format!("digits of {} bits; choose 1 to 4", self.digit_bits),
            });
        }
        Ok(())
    }
}

const NONCE_BYTES: usize = 32;

/// Payload bytes that each party sends in [`Session::open`], one message each: nonce, base OTs, trees.
pub const OPEN_PAYLOADS: [usize; 3] = [NONCE_BYTES, SENDER_BYTES + RECEIVER_BYTES, PPRF_BYTES];

/// One party's side of a session. Never resumed: after an error the channel refuses everything, and the correlations
/// die with the session.
pub struct Session {
    party: Party,
    channel: Channel,
    id: [u8; 32],
    config: MpcConfig,
    prg: SecretPrg,
    sender: CotSender,
    receiver: CotReceiver,
    hash: CotHash,
    /// Next unused hash index with this party as COT sender, and as COT receiver. In each direction both parties take
    /// COTs in the same order, so their counters agree.
    next_index: [u64; 2],
}

/// A set-up that failed, with its channel: the caller may still tell the peer.
pub struct OpenFailure {
    /// Why.
    pub error: MpcError,
    /// The channel. After a failed message it carries nothing but an error frame.
    pub channel: Channel,
}

/// What the set-up gives.
struct Correlations {
    id: [u8; 32],
    prg: SecretPrg,
    sender: CotSender,
    receiver: CotReceiver,
}

impl Party {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
    fn byte(self) -> u8 {
        match self {
            Self::Client => 0,
            Self::Server => 1,
        }
    }
}

impl Session {
    /// Runs the set-up: nonces, base OTs, trees; three simultaneous exchanges of [`OPEN_PAYLOADS`] bytes each way.
    ///
    /// `binding` is what the session is bound to (plan hash, TLS exporter value); it must be equal at both parties.
    /// Together with a fresh nonce of each party it gives the session id, which enters every hash.
    ///
    /// # Errors
    /// `Format` for unsupported parameters; `Malformed` for a bad message; transport and entropy errors.
    pub fn open(
        channel: Channel,
        party: Party,
        binding: &[u8],
        config: MpcConfig,
    ) -> Result<Self, MpcError> {
        Self::try_open(channel, party, binding, config).map_err(|f| f.error)
    }

    /// As [`Session::open`]; a failure hands the channel back.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn try_open(
        mut channel: Channel,
        party: Party,
        binding: &[u8],
        config: MpcConfig,
    ) -> Result<Self, Box<OpenFailure>> {
        match Self::correlate(&mut channel, party, binding, config) {
            Ok(c) => Ok(Self {
                party,
                channel,
                hash: CotHash::for_session(&c.id),
                id: c.id,
                config,
                prg: c.prg,
                sender: c.sender,
                receiver: c.receiver,
                next_index: [0; 2],
            }),
            Err(error) => Err(Box::new(OpenFailure { error, channel })),
        }
    }

    fn correlate(
        channel: &mut Channel,
        party: Party,
        binding: &[u8],
        config: MpcConfig,
    ) -> Result<Correlations, MpcError> {
        config.check()?;
        let mut prg = SecretPrg::from_os().map_err(|e| MpcError::Ring {
            op: "session",
            detail: e.to_string(),
        })?;
        let id = exchange_nonces(channel, party, binding, &mut prg)?;
        let mut ot_prg = prg.fork("base OT");
        let mut word = || {
            let mut b = [0u8; 16];
            ot_prg.fill_bytes(&mut b);
            u128::from_le_bytes(b)
        };
        let delta = Zeroizing::new(word());
        // Direction names the COT sender. The COT sender is the base receiver.
        let own = BaseContext {
            session: &id,
            direction: party.byte(),
        };
        let theirs = BaseContext {
            session: &id,
            direction: party.other().byte(),
        };
        let choices = base_choices(*delta, config.cot_k);
        let base_receiver = BaseReceiver::new(&own, choices, &mut prg);
        let base_sender = BaseSender::new(&mut prg);
        let mut message = base_sender.message().to_vec();
        message.extend_from_slice(base_receiver.message());
        channel.send(FrameKind::Ot, &message)?;
        let got = channel.recv(FrameKind::Ot, OPEN_PAYLOADS[1])?;
        let (their_sender, their_receiver) = got.split_at(SENDER_BYTES);
        let chosen = base_receiver.finish(&own, their_sender)?;
        let keys = base_sender.finish(&theirs, their_receiver)?;
        let (receiver, message) =
            CotReceiver::new(&id, config.cot_k, config.cot_batch, &keys, &mut word);
        channel.send(FrameKind::Ot, &message)?;
        let got = channel.recv(FrameKind::Ot, PPRF_BYTES)?;
        let sender = CotSender::new(&id, config.cot_k, config.cot_batch, *delta, &chosen, &got)?;
        Ok(Correlations {
            id,
            prg,
            sender,
            receiver,
        })
    }

    /// Which party this is.
    #[must_use]
    pub fn party(&self) -> Party {
        self.party
    }

    /// Whether this is P0.
    #[must_use]
    pub fn is_client(&self) -> bool {
        self.party == Party::Client
    }

    /// The channel.
    pub fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    /// The channel, to read its counts.
    #[must_use]
    pub fn channel_ref(&self) -> &Channel {
        &self.channel
    }

    /// Public id of the session: hash of the binding and both nonces.
    #[must_use]
    pub fn id(&self) -> &[u8; 32] {
        &self.id
    }

    /// The public parameters.
    #[must_use]
    pub fn config(&self) -> MpcConfig {
        self.config
    }

    /// This party's generator of secrets. Take a fork for each purpose.
    pub fn prg(&mut self) -> &mut SecretPrg {
        &mut self.prg
    }

    /// COTs used so far, both directions.
    #[must_use]
    pub fn cots_used(&self) -> u64 {
        self.sender.taken() + self.receiver.taken()
    }

    /// Unused COTs in the pool in which `sender` is the COT sender.
    #[must_use]
    pub fn cots_available(&self, sender: Party) -> usize {
        if sender == self.party {
            self.sender.available()
        } else {
            self.receiver.available()
        }
    }

    /// Ends the session in order and returns the final counts.
    ///
    /// # Errors
    /// Transport errors.
    pub fn finish(self) -> Result<cipherloom_net::TrafficSnapshot, MpcError> {
        Ok(self.channel.finish()?)
    }

    /// COTs with this party as sender.
    pub(crate) fn take_sender(&mut self, n: usize) -> Result<SenderCots, MpcError> {
        let first = self.next_index[0];
        self.next_index[0] += n as u64;
        let q = self.sender.take(&mut self.channel, n)?;
        Ok(SenderCots { first, q })
    }

    /// COTs with this party as receiver.
    pub(crate) fn take_receiver(&mut self, n: usize) -> Result<ReceiverCots, MpcError> {
        let first = self.next_index[1];
        self.next_index[1] += n as u64;
        let (t, r) = self.receiver.take(&mut self.channel, n)?;
        Ok(ReceiverCots { first, t, r })
    }

    /// COTs in both directions under the same, fresh indices: each direction has its own Delta, so an index still
    /// serves one OT for each Delta, and one key schedule serves both. Receiver first at both parties, so that refills cross.
    pub(crate) fn take_both(&mut self, n: usize) -> Result<(ReceiverCots, SenderCots), MpcError> {
        let first = self.next_index[0].max(self.next_index[1]);
        self.next_index = [first; 2];
        Ok((self.take_receiver(n)?, self.take_sender(n)?))
    }

    /// The hash of this session and this party's Delta.
    pub(crate) fn sender_side(&self) -> (&CotHash, u128) {
        (&self.hash, self.sender.delta())
    }

    /// The hash of this session.
    pub(crate) fn hash(&self) -> &CotHash {
        &self.hash
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), MpcError> {
        Ok(self.channel.send(FrameKind::Ot, bytes)?)
    }

    pub(crate) fn recv(&mut self, len: usize) -> Result<Vec<u8>, MpcError> {
        Ok(self.channel.recv(FrameKind::Ot, len)?)
    }
}

fn exchange_nonces(
    channel: &mut Channel,
    party: Party,
    binding: &[u8],
    prg: &mut SecretPrg,
) -> Result<[u8; 32], MpcError> {
    let mut mine = [0u8; NONCE_BYTES];
    prg.fill_bytes(&mut mine);
    channel.send(FrameKind::Ot, &mine)?;
    let theirs = channel.recv(FrameKind::Ot, NONCE_BYTES)?;
    let (client, server) = match party {
        Party::Client => (&mine[..], &theirs[..]),
        Party::Server => (&theirs[..], &mine[..]),
    };
    let mut h = blake3::Hasher::new_derive_key("cipherloom 2026 two-party session id v1");
    h.update(client).update(server).update(binding);
    let mut id = [0u8; 32];
    h.finalize_xof().fill(&mut id);
    Ok(id)
}
