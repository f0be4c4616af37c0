//! Opening links: TLS over TCP, with an emulated network around it if asked for.

use crate::handshake::{receive_hello, Binding, HELLO_BYTES};
use crate::EngineError;
use cipherloom_net::{
    Channel, ChannelConfig, EmulatedLink, LinkProfile, Pin, TcpTransport, TlsTransport, Transport,
};
use cipherloom_plan::SETUP_STAGE;
use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

/// What the exporter value is for (RFC 8446, section 7.5).
const EXPORTER_LABEL: &str = "EXPORTER-cipherloom-session-v1";

/// How long a party waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    /// For a connection with its TLS handshake.
    pub connect: Duration,
    /// For the next message, or for room to send one: the peer may be running a kernel.
    pub message: Duration,
    /// For the whole session.
    pub session: Option<Duration>,
}

impl Default for Waits {
    /// 30 seconds, 10 minutes, no limit of the session.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            message: Duration::from_secs(600),
            session: None,
        }
    }
}

/// A channel and the connection's value that session ids are bound to.
pub struct Link {
    /// The channel.
    pub channel: Channel,
    /// What the session id is bound to.
    pub binding: Binding,
    /// The client's hello, if it was read already.
    pub(crate) hello: Option<[u8; HELLO_BYTES]>,
}

impl Link {
    /// Over an authenticated connection. The session's time begins now.
    ///
    /// # Errors
    /// Transport errors.
    pub fn over_tls(
        tls: TlsTransport,
        network: Option<LinkProfile>,
        waits: &Waits,
    ) -> Result<Self, EngineError> {
        let binding = Binding(tls.exporter(EXPORTER_LABEL, b"")?);
        let transport: Box<dyn Transport> = match network {
            None => Box::new(tls),
            Some(p) => Box::new(EmulatedLink::new(Box::new(tls), p, waits.message)),
        };
        let config = ChannelConfig {
            deadline: waits.message,
            until: waits.session.map(|t| Instant::now() + t),
            ..ChannelConfig::default()
        };
        Ok(Self {
            channel: Channel::new(transport, config)?,
            binding,
            hello: None,
        })
    }

    /// Reads the client's hello within `wait` for its header and again for the rest, before the server commits anything to it.
    /// What it says is looked at by the session.
    ///
    /// # Errors
    /// Transport errors.
    pub(crate) fn await_hello(&mut self, wait: Duration) -> Result<(), EngineError> {
        self.channel.set_stage(SETUP_STAGE, "setup");
        let deadline = self.channel.config().deadline;
        self.channel.set_deadline(wait);
        let hello = receive_hello(&mut self.channel);
        self.channel.set_deadline(deadline);
        self.hello = Some(hello?);
        Ok(())
    }

    /// Two parties of one process, over memory: nobody is between them, and nothing is authenticated.
    #[must_use]
    pub fn insecure_local(channel: Channel) -> Self {
        Self {
            channel,
            binding: Binding::insecure_none(),
            hello: None,
        }
    }

    /// Connects to the server that holds the pinned certificate.
    ///
    /// # Errors
    /// Transport errors; `PinMismatch`, `NotKeyHolder`, `Expired`, `NotYetValid` for another server.
    pub fn connect(
        server: impl ToSocketAddrs,
        pin: Pin,
        network: Option<LinkProfile>,
        waits: &Waits,
    ) -> Result<Self, EngineError> {
        let start = Instant::now();
        let tcp = TcpTransport::connect(server, waits.connect)?.with_write_wait(waits.message);
        let left = waits.connect.saturating_sub(start.elapsed());
        Self::over_tls(TlsTransport::client(tcp, pin, left)?, network, waits)
    }
}

/// The emulated network of that name; `None` for `none`.
///
/// # Errors
/// `Network` listing the names.
pub fn profile(name: &str) -> Result<Option<LinkProfile>, EngineError> {
    if name == "none" {
        return Ok(None);
    }
    LinkProfile::named(name)
        .map(Some)
        .ok_or_else(|| EngineError::Network {
            name: name.to_string(),
        })
}
