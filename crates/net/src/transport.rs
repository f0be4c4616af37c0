//! What a channel needs from a byte stream. TCP, TLS, memory and the emulated link implement it.

use std::time::Duration;

/// Why a transport could not do what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkFault {
    /// The deadline passed.
    Timeout,
    /// The other end is gone.
    Lost,
    /// The bytes that arrived are not those that the other end sent (authenticated transports only).
    Altered,
}

/// Sending half of a byte stream.
pub trait SendHalf: Send {
    /// Queues `bytes`. Returns at once while the queue has room, so that both parties may send large messages
    /// before either reads; otherwise waits at most `wait` for room.
    ///
    /// # Errors
    /// `Timeout`, or `Lost` when an earlier write failed.
    fn send(&mut self, bytes: Vec<u8>, wait: Duration) -> Result<(), LinkFault>;

    /// Waits until everything queued was handed over, at most `wait`.
    ///
    /// # Errors
    /// `Timeout` or `Lost`.
    fn flush(&mut self, wait: Duration) -> Result<(), LinkFault>;
}

/// Receiving half of a byte stream.
pub trait RecvHalf: Send {
    /// Fills `buf` completely, within `wait` in total.
    ///
    /// # Errors
    /// `Timeout` or `Lost`.
    fn recv_exact(&mut self, buf: &mut [u8], wait: Duration) -> Result<(), LinkFault>;
}

/// The two halves of a split transport.
pub type Halves = (Box<dyn SendHalf>, Box<dyn RecvHalf>);

/// A connected, ordered, full-duplex byte stream. Dropping a half closes its direction.
pub trait Transport: Send {
    /// Splits into halves that work independently.
    ///
    /// # Errors
    /// The system's message when the stream cannot be split.
    fn split(self: Box<Self>) -> Result<Halves, std::io::Error>;
}
