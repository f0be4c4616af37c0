//! Opening links: TLS over TCP, with an emulated network around it if asked for.

use crate::handshake::Binding;
use crate::EngineError;
use cipherloom_net::{
    Channel, ChannelConfig, EmulatedLink, LinkProfile, Pin, TcpTransport, TlsTransport, Transport,
};
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
        })
    }

    /// Two parties of one process, over memory: nobody is between them, and nothing is authenticated.
    #[must_use]
    pub fn insecure_local(channel: Channel) -> Self {
        Self {
            channel,
            binding: Binding::insecure_none(),
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
