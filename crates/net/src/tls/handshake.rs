//! The handshake of both sides, within one deadline.

use super::identity::TlsIdentity;
use super::pin::Pin;
use super::records::RecordCursor;
use super::stream::TlsTransport;
use super::validity::Validity;
use super::verify::{handshake_error, PinnedVerifier};
use crate::error::NetError;
use crate::tcp::{read_some, write_all, TcpTransport};
use crate::transport::LinkFault;
use rustls::client::Resumption;
use rustls::crypto::{ring, CryptoProvider};
use rustls::pki_types::ServerName;
use rustls::server::NoServerSessionStorage;
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The application protocol (ALPN) that both sides demand. Versions are compared later, by the session's own greeting.
const PROTOCOL: &[u8] = b"cipherloom";
/// Never sent and never checked (the pin is), but the TLS library wants a name.
const NO_NAME: &str = "cipherloom.invalid";
const READ_BUFFER: usize = 64 << 10;
/// Longest wait for a last alert to go out after a failure.
const ALERT_WAIT: Duration = Duration::from_secs(1);
const PHASE: &str = "TLS handshake";

/// The socket's reading side and what was read and not yet given to TLS.
pub(super) struct Wire {
    pub stream: TcpStream,
    raw: Vec<u8>,
    start: usize,
    end: usize,
}

impl Wire {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            raw: vec![0; READ_BUFFER],
            start: 0,
            end: 0,
        }
    }

    pub fn unread(&self) -> &[u8] {
        &self.raw[self.start..self.end]
    }

    pub fn skip(&mut self, n: usize) {
        self.start += n;
    }

    /// Reads more once everything was taken. Returns the new bytes.
    pub fn fill(&mut self, deadline: Instant) -> Result<&[u8], LinkFault> {
        self.start = 0;
        self.end = 0;
        self.end = read_some(&mut self.stream, &mut self.raw, deadline)?;
        Ok(&self.raw[..self.end])
    }
}

/// Writes what TLS has queued.
fn send_pending(
    conn: &mut Connection,
    stream: &mut TcpStream,
    deadline: Instant,
) -> Result<(), LinkFault> {
    let mut out = Vec::new();
    while conn.wants_write() {
        conn.write_tls(&mut out).map_err(|_| LinkFault::Lost)?;
    }
    write_all(stream, &out, deadline)
}

/// Runs the handshake. Gives TLS one record at a time, so that whatever follows the handshake stays in `wire`.
fn drive(conn: &mut Connection, wire: &mut Wire, wait: Duration) -> Result<(), NetError> {
    let start = Instant::now();
    let deadline = start + wait;
    let link = |f: LinkFault| match f {
        LinkFault::Timeout => NetError::Timeout {
            phase: PHASE.to_owned(),
            waited: start.elapsed(),
        },
        LinkFault::Lost | LinkFault::Altered => NetError::PeerLost {
            phase: PHASE.to_owned(),
            flight: 0,
        },
    };
    let mut cursor = RecordCursor::default();
    loop {
        send_pending(conn, &mut wire.stream, deadline).map_err(link)?;
        if !conn.is_handshaking() {
            break;
        }
        if wire.unread().is_empty() {
            wire.fill(deadline).map_err(link)?;
        }
        let (n, _) = cursor.advance(wire.unread());
        let mut piece = &wire.unread()[..n];
        while !piece.is_empty() {
            let read = conn
                .read_tls(&mut piece)
                .map_err(|e| NetError::TlsHandshake {
                    detail: e.to_string(),
                })?;
            if let Err(e) = conn.process_new_packets() {
                // The peer learns why from the alert, if it still listens.
                let soon = deadline.min(Instant::now() + ALERT_WAIT);
                let _ = send_pending(conn, &mut wire.stream, soon);
                return Err(handshake_error(&e));
            }
            if read == 0 {
                return Err(link(LinkFault::Lost));
            }
        }
        wire.skip(n);
    }
    if conn.alpn_protocol() == Some(PROTOCOL) {
        return Ok(());
    }
    Err(NetError::TlsHandshake {
        detail: "the peer speaks another application protocol".to_owned(),
    })
}

/// TLS 1.3 suites only: the library is built without TLS 1.2.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn config_error(e: &rustls::Error) -> NetError {
    NetError::TlsHandshake {
        detail: format!("configuration: {e}"),
    }
}

/// The server's side: turns accepted TCP connections into TLS connections. Can be shared by threads.
pub struct TlsAcceptor {
    config: Arc<ServerConfig>,
    validity: Validity,
}

impl TlsAcceptor {
    /// Takes the identity that is shown to every client.
    ///
    /// # Errors
    /// `Expired` or `NotYetValid`: clients would refuse the certificate now.
    pub fn new(identity: TlsIdentity) -> Result<Self, NetError> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let validity = identity.validity();
        validity.check(i64::try_from(now.as_secs()).unwrap_or(i64::MAX))?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(|e| config_error(&e))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity.certified())));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.max_early_data_size = 0;
        Ok(Self {
            config: Arc::new(config),
            validity,
        })
    }

    /// The certificate's dates. Clients refuse it after its end, whatever this side does.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Runs the handshake with one client, within `wait` in total. Nothing more than one handshake message (64 KiB) is
    /// buffered for a client that has not finished. The deadline of every later write is that of `tcp`. A server runs
    /// this in the connection's own thread, so that a slow client keeps nobody waiting.
    ///
    /// # Errors
    /// `TlsHandshake` for a client that sends anything else than a TLS 1.3 handshake for this protocol, or refuses
    /// the certificate; `Timeout` for one that stalls or trickles; `PeerLost`.
    pub fn accept(&self, tcp: TcpTransport, wait: Duration) -> Result<TlsTransport, NetError> {
        let conn = ServerConnection::new(Arc::clone(&self.config)).map_err(|e| config_error(&e))?;
        finish(conn.into(), tcp, wait)
    }
}

/// The client's side over a connected socket.
pub(super) fn client(
    tcp: TcpTransport,
    pin: Pin,
    wait: Duration,
) -> Result<TlsTransport, NetError> {
    let provider = provider();
    let verifier = PinnedVerifier {
        pin,
        algorithms: provider.signature_verification_algorithms,
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|e| config_error(&e))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    config.enable_early_data = false;
    let name = ServerName::try_from(NO_NAME).map_err(|e| NetError::TlsHandshake {
        detail: e.to_string(),
    })?;
    let conn = ClientConnection::new(Arc::new(config), name).map_err(|e| config_error(&e))?;
    finish(conn.into(), tcp, wait)
}

fn finish(
    mut conn: Connection,
    tcp: TcpTransport,
    wait: Duration,
) -> Result<TlsTransport, NetError> {
    // The queue bounds what is buffered; a limit here would cut records at other places.
    conn.set_buffer_limit(None);
    let mut wire = Wire::new(tcp.stream);
    drive(&mut conn, &mut wire, wait)?;
    Ok(TlsTransport::new(conn, wire, tcp.write_wait))
}
