//! TLS 1.3 with a pinned server certificate.
//!
//! - **Who is authenticated.** The server, by the SHA-256 of its leaf certificate ([`Pin`]), which the client has from
//!   its bundle or from the command line. There is no certificate authority and no trust on first use. The client
//!   checks the pin, the validity dates and the handshake signature, so a copy of the certificate without its private
//!   key is worth nothing. Clients are anonymous.
//! - **What is off.** Every version before 1.3, 0-RTT, session tickets and resumption, server name indication. Both
//!   sides demand the application protocol `cipherloom`.
//! - **Records.** Every piece that a channel sends (one frame: header and at most 1 MiB) is cut into records of 16384
//!   plaintext bytes and one shorter last record; pieces never share a record. A record of n bytes takes n + 22 on
//!   the wire ([`piece_records`]). So record sizes depend on the message schedule only, never on contents, timing
//!   or on how full a queue is. How records are grouped into TCP segments does depend on timing.
//!   [`RecordWatch`] shows the sizes.
//! - **Channel binding.** [`TlsTransport::exporter`] gives 32 bytes that both ends of this one connection share (RFC
//!   8446, section 7.5). Ask for them before the transport goes into a channel.
//! - **Ends.** A half that is dropped sends `close_notify`. A stream that ends without one is `PeerLost`, as is one
//!   that ends in order while a message is expected: the channel has its own last message. A record that fails its
//!   authentication is `Altered`.
//!
//! ```no_run
//! use cipherloom_net::{Channel, ChannelConfig, TcpAcceptor, TlsAcceptor, TlsIdentity, TlsTransport};
//! use std::time::Duration;
//! let wait = Duration::from_secs(10);
//! // Server.
//! let (identity, _pem) = TlsIdentity::self_signed(&["localhost"], 365)?;
//! let pin = identity.fingerprint();
//! let tls = TlsAcceptor::new(identity)?;
//! let tcp = TcpAcceptor::bind("127.0.0.1:0")?;
//! let server = tls.accept(tcp.accept(wait, wait)?, wait)?;
//! let binding = server.exporter("EXPORTER-cipherloom", b"")?;
//! let channel = Channel::new(Box::new(server), ChannelConfig::default())?;
//! // Client.
//! let client = TlsTransport::connect("127.0.0.1:7000", pin, wait)?;
//! # Ok::<(), cipherloom_net::NetError>(())
//! ```

mod handshake;
mod identity;
mod pin;
mod records;
mod stream;
mod validity;
mod verify;

pub use handshake::TlsAcceptor;
pub use identity::{IdentityPem, TlsIdentity};
pub use pin::Pin;
pub use records::{
    message_wire_bytes, piece_records, RecordSizes, RecordWatch, RECORD_OVERHEAD, RECORD_PLAINTEXT,
};
pub use stream::TlsTransport;
pub use validity::Validity;

pub(crate) use validity::utc;
