//! Opening channels: TCP, with an emulated link if asked for.

use crate::EngineError;
use cipherloom_net::{
    Channel, ChannelConfig, EmulatedLink, LinkProfile, NetError, TcpAcceptor, TcpTransport,
    Transport,
};
use std::net::SocketAddr;
use std::time::Duration;

/// Longest wait for a connection.
pub const CONNECT_WAIT: Duration = Duration::from_secs(30);

/// Longest wait for the next message: the peer may be running a kernel.
pub const MESSAGE_WAIT: Duration = Duration::from_secs(600);

/// The emulated link of that name; `None` for `none`.
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

fn channel(transport: TcpTransport, network: Option<LinkProfile>) -> Result<Channel, NetError> {
    let transport: Box<dyn Transport> = match network {
        None => Box::new(transport),
        Some(p) => Box::new(EmulatedLink::new(Box::new(transport), p, MESSAGE_WAIT)),
    };
    Channel::new(
        transport,
        ChannelConfig {
            deadline: MESSAGE_WAIT,
            ..ChannelConfig::default()
        },
    )
}

/// Connects to a server.
///
/// # Errors
/// Transport errors.
pub fn connect(addr: SocketAddr, network: Option<LinkProfile>) -> Result<Channel, EngineError> {
    Ok(channel(
        TcpTransport::connect(addr, CONNECT_WAIT)?,
        network,
    )?)
}

/// A listening socket.
pub struct Listener {
    acceptor: TcpAcceptor,
}

impl Listener {
    /// Binds; port 0 for any free port.
    ///
    /// # Errors
    /// Transport errors.
    pub fn bind(addr: SocketAddr) -> Result<Self, EngineError> {
        Ok(Self {
            acceptor: TcpAcceptor::bind(addr)?,
        })
    }

    /// The bound address.
    ///
    /// # Errors
    /// Transport errors.
    pub fn local_addr(&self) -> Result<SocketAddr, EngineError> {
        Ok(self.acceptor.local_addr()?)
    }

    /// Waits for the next client.
    ///
    /// # Errors
    /// `Timeout` when none comes; transport errors.
    pub fn accept(
        &self,
        wait: Duration,
        network: Option<LinkProfile>,
    ) -> Result<Channel, EngineError> {
        Ok(channel(self.acceptor.accept(wait, MESSAGE_WAIT)?, network)?)
    }
}
