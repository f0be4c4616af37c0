//! Framed, counted channels between two parties.
//!
//! A [`Channel`] carries messages whose kind and length both parties know beforehand (from the plan); anything else is a
//! typed error. It counts bytes, messages and flights by stage, exactly and equally on both sides, and has a
//! deadline on every wait. Transports are TLS 1.3 with a pinned certificate, TCP, an in-process
//! pair, and an emulated link around any of them.
//!
//! ```
//! use cipherloom_net::{Channel, ChannelConfig, FrameKind};
//! let (mut a, mut b) = Channel::memory_pair(ChannelConfig::default())?;
//! a.send(FrameKind::Ot, b"abc")?;
//! assert_eq!(b.recv(FrameKind::Ot, 3)?, b"abc");
//! assert_eq!(a.snapshot().total().sent.bytes, 16 + 3);
//! # Ok::<(), cipherloom_net::NetError>(())
//! ```

mod channel;
mod counters;
mod emulated;
mod error;
mod frame;
mod memory;
mod outbox;
mod tcp;
pub mod tls;
mod transport;

pub use channel::{Channel, ChannelConfig};
pub use counters::{DirectionCounts, MessageRecord, StageTraffic, TrafficSnapshot};
pub use emulated::{EmulatedLink, LinkProfile};
pub use error::NetError;
pub use frame::{message_bytes, FrameKind, FRAME_PAYLOAD, HEADER_BYTES, MAX_MESSAGE};
pub use memory::MemoryTransport;
pub use tcp::{TcpAcceptor, TcpCloser, TcpTransport};
pub use tls::{Pin, TlsAcceptor, TlsIdentity, TlsTransport, Validity};
pub use transport::{Halves, LinkFault, RecvHalf, SendHalf, Transport};
