//! The channel: messages of known kind and length over a transport, counted, with deadlines.

use crate::counters::{Counters, MessageRecord, TrafficSnapshot};
use crate::error::NetError;
use crate::frame::{
    message_bytes, FrameKind, Header, FRAME_PAYLOAD, FRAME_VERSION, HEADER_BYTES, MAX_MESSAGE,
};
use crate::memory::MemoryTransport;
use crate::transport::{LinkFault, RecvHalf, SendHalf, Transport};
use std::time::{Duration, Instant};

const ERROR_PAYLOAD: usize = 4;
/// Longest wait for an error frame to go out.
const ERROR_WAIT: Duration = Duration::from_secs(5);
/// How long a side that ends early reads on, so that what the peer still sends does not reset the connection before the
/// error frame was read; and how long a side whose write failed looks for such a frame.
const LAST_WORDS_WAIT: Duration = Duration::from_secs(1);

/// Limits of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelConfig {
    /// Longest wait for one frame header or one frame payload, and for room in the outgoing queue.
    pub deadline: Duration,
    /// Longest message that may be sent or expected, in bytes.
    pub max_message: u64,
    /// The moment at which every wait ends, however lively the peer is. Bounds a session that trickles.
    pub until: Option<Instant>,
}

impl Default for ChannelConfig {
    /// Two minutes, 2 GiB, no end of the session.
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(120),
            max_message: 2 << 30,
            until: None,
        }
    }
}

/// A framed, counted, full-duplex channel to the other party. Both parties may send any amount up to the queue
/// bound (256 MiB, or one message of any length) before either reads. After an error only [`Channel::send_error`] works.
pub struct Channel {
    send: Box<dyn SendHalf>,
    recv: Box<dyn RecvHalf>,
    config: ChannelConfig,
    counters: Counters,
    sent_frames: u32,
    received_frames: u32,
    sent_flight: u32,
    received_flight: u32,
    fresh: bool,
    broken: bool,
}

impl Channel {
    /// Opens a channel in stage 0, named "start".
    ///
    /// # Errors
    /// `Io` when the transport cannot be split.
    pub fn new(transport: Box<dyn Transport>, config: ChannelConfig) -> Result<Self, NetError> {
        let (send, recv) = transport.split().map_err(|e| NetError::Io {
            phase: "open channel".to_owned(),
            detail: e.to_string(),
        })?;
        let mut counters = Counters::default();
        counters.enter(0, "start");
        Ok(Self {
            send,
            recv,
            config: ChannelConfig {
                max_message: config.max_message.min(MAX_MESSAGE),
                ..config
            },
            counters,
            sent_frames: 0,
            received_frames: 0,
            sent_flight: 0,
            received_flight: 0,
            fresh: true,
            broken: false,
        })
    }

    /// Two joined channels in one process.
    ///
    /// # Errors
    /// None in practice; the type is that of [`Channel::new`].
    pub fn memory_pair(config: ChannelConfig) -> Result<(Self, Self), NetError> {
        let (a, b) = MemoryTransport::pair();
        Ok((
            Self::new(Box::new(a), config)?,
            Self::new(Box::new(b), config)?,
        ))
    }

    /// Enters a stage. Frames carry its number, counts and errors go under its name. Both parties enter stages in
    /// the same order; a stage may be entered again.
    pub fn set_stage(&mut self, stage: u16, name: &str) {
        self.counters.enter(stage, name);
    }

    /// The current stage number.
    #[must_use]
    pub fn stage(&self) -> u16 {
        self.counters.current()
    }

    /// The current stage name.
    #[must_use]
    pub fn stage_name(&self) -> &str {
        self.counters.name()
    }

    /// The limits in use.
    #[must_use]
    pub fn config(&self) -> ChannelConfig {
        self.config
    }

    /// Another longest wait from now on.
    pub fn set_deadline(&mut self, deadline: Duration) {
        self.config.deadline = deadline;
    }

    /// Counts so far.
    #[must_use]
    pub fn snapshot(&self) -> TrafficSnapshot {
        self.counters.snapshot()
    }

    /// Starts to remember every message (direction, kind, stage, length), for tests of schedule equality.
    pub fn record_schedule(&mut self) {
        self.counters.record_schedule();
    }

    /// What was remembered.
    #[must_use]
    pub fn schedule(&self) -> &[MessageRecord] {
        self.counters.schedule()
    }

    /// Sends one message. Cost: [`message_bytes`] bytes; opens a flight if something was received since the last send.
    ///
    /// # Errors
    /// `TooLarge`; `Timeout` when the outgoing queue stays full; `PeerLost`; `Broken`.
    pub fn send(&mut self, kind: FrameKind, payload: &[u8]) -> Result<(), NetError> {
        self.usable()?;
        self.check_size(payload.len() as u64)?;
        let opens = self.fresh;
        if opens {
            self.sent_flight = self.sent_flight.wrapping_add(1);
            self.fresh = false;
        }
        if let Err(e) = self.send_frames(kind, payload, self.wait()) {
            self.broken = true;
            return Err(self.last_words(e));
        }
        self.counters.count(
            true,
            kind,
            payload.len() as u64,
            message_bytes(payload.len() as u64),
            u64::from(opens),
        );
        Ok(())
    }

    /// The error of a failed write; if the peer said why it left, that.
    fn last_words(&mut self, e: NetError) -> NetError {
        if !matches!(e, NetError::PeerLost { .. }) {
            return e;
        }
        let end = Instant::now() + LAST_WORDS_WAIT;
        let mut scratch = Vec::new();
        let mut next = |buf: &mut [u8]| {
            let left = end.saturating_duration_since(Instant::now());
            self.recv.recv_exact(buf, left).is_ok()
        };
        loop {
            let mut raw = [0u8; HEADER_BYTES];
            if !next(&mut raw) {
                return e;
            }
            let h = Header::parse(&raw);
            if h.version != FRAME_VERSION {
                return e;
            }
            scratch.resize((h.remaining as usize).min(FRAME_PAYLOAD), 0);
            if !next(&mut scratch) {
                return e;
            }
            if h.kind == FrameKind::Error.byte() {
                return match scratch[..] {
                    [a, b, c, d] => NetError::Peer {
                        stage: u16::from_le_bytes([a, b]),
                        code: u16::from_le_bytes([c, d]),
                    },
                    _ => e,
                };
            }
        }
    }

    /// The longest wait that is allowed now.
    fn wait(&self) -> Duration {
        self.config.until.map_or(self.config.deadline, |end| {
            let left = end.saturating_duration_since(Instant::now());
            left.min(self.config.deadline)
        })
    }

    fn send_frames(
        &mut self,
        kind: FrameKind,
        payload: &[u8],
        wait: Duration,
    ) -> Result<(), NetError> {
        let mut at = 0;
        loop {
            let n = (payload.len() - at).min(FRAME_PAYLOAD);
            let header = Header {
                remaining: (payload.len() - at) as u32,
                kind: kind.byte(),
                version: FRAME_VERSION,
                stage: self.counters.current(),
                sequence: self.sent_frames,
                flight: self.sent_flight,
            };
            self.sent_frames = self.sent_frames.wrapping_add(1);
            let mut frame = Vec::with_capacity(HEADER_BYTES + n);
            frame.extend_from_slice(&header.bytes());
            frame.extend_from_slice(&payload[at..at + n]);
            let start = Instant::now();
            self.send
                .send(frame, wait)
                .map_err(|f| self.fault(f, "write", start))?;
            at += n;
            if at == payload.len() {
                return Ok(());
            }
        }
    }

    /// Receives one message of exactly this kind and length.
    ///
    /// # Errors
    /// `Length`, `Kind`, `Stage`, `Sequence`, `Flight`, `Version` for anything else than the plan says; `Peer` when the
    /// peer reported an error; `Timeout`, `PeerLost`, `TooLarge`, `Broken`.
    pub fn recv(&mut self, kind: FrameKind, expected_len: usize) -> Result<Vec<u8>, NetError> {
        self.usable()?;
        self.check_size(expected_len as u64)?;
        let mut out = Vec::new();
        let mut opened = 0;
        loop {
            let left = expected_len - out.len();
            opened += self.guarded(|c| c.recv_header(kind, left))?;
            // Grows by what was announced and accepted, so a silent peer pins no memory.
            let at = out.len();
            let n = left.min(FRAME_PAYLOAD);
            out.resize(at + n, 0);
            self.guarded(|c| c.fill(&mut out[at..]))?;
            if n == left {
                self.received(kind, expected_len as u64, opened);
                return Ok(out);
            }
        }
    }

    /// As [`Channel::recv`], into a buffer whose length is the expected one.
    ///
    /// # Errors
    /// As [`Channel::recv`].
    pub fn recv_into(&mut self, kind: FrameKind, buf: &mut [u8]) -> Result<(), NetError> {
        self.usable()?;
        self.check_size(buf.len() as u64)?;
        let mut opened = 0;
        let mut at = 0;
        loop {
            let left = buf.len() - at;
            opened += self.guarded(|c| c.recv_header(kind, left))?;
            let n = left.min(FRAME_PAYLOAD);
            self.guarded(|c| c.fill(&mut buf[at..at + n]))?;
            at += n;
            if n == left {
                self.received(kind, buf.len() as u64, opened);
                return Ok(());
            }
        }
    }

    fn received(&mut self, kind: FrameKind, len: u64, opened: u64) {
        self.fresh = true;
        self.counters
            .count(false, kind, len, message_bytes(len), opened);
    }

    /// Reads and checks one header; returns how many flights it opens (0 or 1).
    fn recv_header(&mut self, kind: FrameKind, left: usize) -> Result<u64, NetError> {
        let mut raw = [0u8; HEADER_BYTES];
        self.fill(&mut raw)?;
        let h = Header::parse(&raw);
        let phase = || self.phase("read");
        if h.version != FRAME_VERSION {
            return Err(NetError::Version {
                phase: phase(),
                expected: FRAME_VERSION,
                got: h.version,
            });
        }
        if h.kind == FrameKind::Error.byte() && kind != FrameKind::Error {
            return Err(self.peer_error(&h));
        }
        if h.sequence != self.received_frames {
            return Err(NetError::Sequence {
                phase: phase(),
                expected: self.received_frames,
                got: h.sequence,
            });
        }
        if h.stage != self.counters.current() {
            return Err(NetError::Stage {
                phase: phase(),
                expected: self.counters.current(),
                got: h.stage,
            });
        }
        if h.kind != kind.byte() {
            return Err(NetError::Kind {
                phase: phase(),
                expected: kind,
                got: h.kind,
            });
        }
        if u64::from(h.remaining) != left as u64 {
            return Err(NetError::Length {
                phase: phase(),
                kind,
                expected: left as u64,
                got: u64::from(h.remaining),
            });
        }
        let step = h.flight.wrapping_sub(self.received_flight);
        if step > 1 {
            return Err(NetError::Flight {
                phase: phase(),
                last: self.received_flight,
                got: h.flight,
            });
        }
        self.received_flight = h.flight;
        self.received_frames = self.received_frames.wrapping_add(1);
        Ok(u64::from(step))
    }

    fn peer_error(&mut self, h: &Header) -> NetError {
        let mut p = [0u8; ERROR_PAYLOAD];
        if h.remaining as usize != ERROR_PAYLOAD {
            return NetError::Length {
                phase: self.phase("read"),
                kind: FrameKind::Error,
                expected: ERROR_PAYLOAD as u64,
                got: u64::from(h.remaining),
            };
        }
        match self.fill(&mut p) {
            Ok(()) => NetError::Peer {
                stage: u16::from_le_bytes([p[0], p[1]]),
                code: u16::from_le_bytes([p[2], p[3]]),
            },
            Err(e) => e,
        }
    }

    /// Tells the peer that this party failed at its current stage, and breaks the channel. Carries the stage and the code,
    /// nothing else. Waits a few seconds at most until the frame is handed over, then reads on for a second, so that the peer
    /// sees the frame and not a reset connection.
    ///
    /// # Errors
    /// `Timeout` or `PeerLost`: the peer is not told.
    pub fn send_error(&mut self, code: u16) -> Result<(), NetError> {
        self.broken = true;
        let mut p = [0u8; ERROR_PAYLOAD];
        p[..2].copy_from_slice(&self.counters.current().to_le_bytes());
        p[2..].copy_from_slice(&code.to_le_bytes());
        self.send_frames(FrameKind::Error, &p, ERROR_WAIT)?;
        let start = Instant::now();
        self.send
            .flush(ERROR_WAIT)
            .map_err(|f| self.fault(f, "write", start))?;
        let end = Instant::now() + LAST_WORDS_WAIT;
        let mut scratch = [0u8; 4096];
        // Ends with the time, or when the peer closes.
        while self
            .recv
            .recv_exact(&mut scratch, end.saturating_duration_since(Instant::now()))
            .is_ok()
        {}
        Ok(())
    }

    /// Waits until everything sent was handed to the transport.
    ///
    /// # Errors
    /// `Timeout` or `PeerLost`.
    pub fn flush(&mut self) -> Result<(), NetError> {
        let start = Instant::now();
        self.send
            .flush(self.wait())
            .map_err(|f| self.fault(f, "write", start))
    }

    /// Ends the session in order: sends `Bye`, waits for the peer's, returns the final counts.
    ///
    /// # Errors
    /// Transport errors.
    pub fn finish(mut self) -> Result<TrafficSnapshot, NetError> {
        self.send(FrameKind::Bye, &[])?;
        self.recv(FrameKind::Bye, 0)?;
        self.flush()?;
        Ok(self.snapshot())
    }

    fn fill(&mut self, buf: &mut [u8]) -> Result<(), NetError> {
        let start = Instant::now();
        self.recv
            .recv_exact(buf, self.wait())
            .map_err(|f| self.fault(f, "read", start))
    }

    fn guarded<T>(
        &mut self,
        f: impl FnOnce(&mut Self) -> Result<T, NetError>,
    ) -> Result<T, NetError> {
        let r = f(self);
        self.broken |= r.is_err();
        r
    }

    fn usable(&self) -> Result<(), NetError> {
        if self.broken {
            return Err(NetError::Broken {
                phase: self.counters.name().to_owned(),
            });
        }
        Ok(())
    }

    fn check_size(&self, len: u64) -> Result<(), NetError> {
        if len > self.config.max_message {
            return Err(NetError::TooLarge {
                phase: self.counters.name().to_owned(),
                len,
                max: self.config.max_message,
            });
        }
        Ok(())
    }

    fn phase(&self, action: &str) -> String {
        format!("{}: {action}", self.counters.name())
    }

    fn fault(&self, f: LinkFault, action: &str, start: Instant) -> NetError {
        match f {
            LinkFault::Timeout if self.config.until.is_some_and(|end| end <= Instant::now()) => {
                NetError::Overtime {
                    phase: self.phase(action),
                }
            }
            LinkFault::Timeout => NetError::Timeout {
                phase: self.phase(action),
                waited: start.elapsed(),
            },
            LinkFault::Lost => NetError::PeerLost {
                phase: self.phase(action),
                flight: u64::from(self.sent_flight) + u64::from(self.received_flight),
            },
            LinkFault::Altered => NetError::Altered {
                phase: self.phase(action),
            },
        }
    }
}
