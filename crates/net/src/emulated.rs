//! A link of given bandwidth and round-trip time around any transport. Each end delays what it sends, so both
//! ends must be wrapped; the two directions do not disturb one another.

use crate::outbox::{Outbox, Piece, Sink};
use crate::transport::{Halves, LinkFault, SendHalf, Transport};
use std::time::{Duration, Instant};

/// Bandwidth and round-trip time of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkProfile {
    /// Short name.
    pub name: &'static str,
    /// Bits a second in each direction.
    pub bits_per_second: f64,
    /// Round-trip time.
    pub rtt: Duration,
}

impl LinkProfile {
    /// 1 Gbit/s, 0.3 ms.
    pub const LAN: Self = Self::new("lan", 1e9, 300);
    /// 400 Mbit/s, 4 ms.
    pub const WAN1: Self = Self::new("wan1", 400e6, 4_000);
    /// 100 Mbit/s, 4 ms.
    pub const WAN2: Self = Self::new("wan2", 100e6, 4_000);
    /// 100 Mbit/s, 80 ms.
    pub const WAN3: Self = Self::new("wan3", 100e6, 80_000);

    /// A profile of its own; the round-trip time in microseconds.
    #[must_use]
    pub const fn new(name: &'static str, bits_per_second: f64, rtt_us: u64) -> Self {
        Self {
            name,
            bits_per_second,
            rtt: Duration::from_micros(rtt_us),
        }
    }

    /// The profile of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::LAN, Self::WAN1, Self::WAN2, Self::WAN3]
            .into_iter()
            .find(|p| p.name == name)
    }

    /// Time that `bytes` occupy the line.
    #[must_use]
    pub fn transmission(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 * 8.0 / self.bits_per_second)
    }
}

/// A transport whose outgoing bytes are delayed as on the given link.
pub struct EmulatedLink {
    inner: Box<dyn Transport>,
    profile: LinkProfile,
    wait: Duration,
}

impl EmulatedLink {
    /// Wraps one end. `wait` is the deadline of handing one delayed frame to the inner transport.
    #[must_use]
    pub fn new(inner: Box<dyn Transport>, profile: LinkProfile, wait: Duration) -> Self {
        Self {
            inner,
            profile,
            wait,
        }
    }
}

struct DelaySink {
    inner: Box<dyn SendHalf>,
    profile: LinkProfile,
    wait: Duration,
    line_free: Instant,
}

/// Sleeps until shortly before `t`, then yields: a plain sleep overshoots by a good part of a LAN round trip.
fn sleep_until(t: Instant) {
    const SLACK: Duration = Duration::from_micros(100);
    loop {
        let left = t.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        if left > 2 * SLACK {
            std::thread::sleep(left - SLACK);
        } else {
            std::thread::yield_now();
        }
    }
}

impl Sink for DelaySink {
    fn deliver(&mut self, piece: Piece, _last: bool) -> Result<(), LinkFault> {
        let start = self.line_free.max(piece.queued);
        self.line_free = start + self.profile.transmission(piece.bytes.len() as u64);
        sleep_until(self.line_free + self.profile.rtt / 2);
        self.inner.send(piece.bytes, self.wait)
    }
}

struct DelayedSend(Outbox);

impl SendHalf for DelayedSend {
    fn send(&mut self, bytes: Vec<u8>, wait: Duration) -> Result<(), LinkFault> {
        self.0.push(bytes, wait)
    }
    fn flush(&mut self, wait: Duration) -> Result<(), LinkFault> {
        self.0.flush(wait)
    }
}

impl Transport for EmulatedLink {
    fn split(self: Box<Self>) -> Result<Halves, std::io::Error> {
        let (inner, recv) = self.inner.split()?;
        let sink = DelaySink {
            inner,
            profile: self.profile,
            wait: self.wait,
            line_free: Instant::now(),
        };
        Ok((
            Box::new(DelayedSend(Outbox::start(sink, "net-emulated-link")?)),
            recv,
        ))
    }
}
