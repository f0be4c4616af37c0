//! A TLS connection as a transport. The library's connection cannot be split, so the halves share it behind a lock.
//! The lock is held only while bytes are encrypted or decrypted, never during a read or write of the socket, so both
//! parties may send at once. Only the sending half writes to the socket, so records stay in order.

use super::handshake::{client, Wire};
use super::pin::Pin;
use super::records::{Meter, RecordWatch, RECORD_OVERHEAD, RECORD_PLAINTEXT};
use crate::error::NetError;
use crate::outbox::{Outbox, Piece, Sink};
use crate::tcp::{write_all, TcpTransport};
use crate::transport::{Halves, LinkFault, RecvHalf, SendHalf, Transport};
use rustls::{AlertDescription, Connection, Error};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Plaintext that is encrypted under one hold of the lock: whole records.
const CHUNK: usize = 4 * RECORD_PLAINTEXT;
/// Ciphertext that is collected before it is written to the socket.
const WRITE_BUFFER: usize = 64 << 10;
/// Longest label of an exporter (RFC 8446, section 7.1).
const MAX_LABEL: usize = 249;

/// An authenticated, encrypted stream after its handshake. On the client's side the server is the pinned one.
pub struct TlsTransport {
    conn: Connection,
    wire: Wire,
    write_wait: Duration,
    watch: Option<RecordWatch>,
}

impl TlsTransport {
    /// Connects and runs the handshake, both within `wait`, which is also the deadline of every later write.
    ///
    /// # Errors
    /// `Timeout`, `Io`, `PeerLost`; `PinMismatch`, `Expired`, `NotYetValid`, `NotKeyHolder` when the server is not the
    /// pinned one; `TlsHandshake` for everything else that is no TLS 1.3 server of this protocol.
    pub fn connect(addr: impl ToSocketAddrs, pin: Pin, wait: Duration) -> Result<Self, NetError> {
        let start = Instant::now();
        let tcp = TcpTransport::connect(addr, wait)?;
        Self::client(tcp, pin, wait.saturating_sub(start.elapsed()))
    }

    /// As [`TlsTransport::connect`] over a connected socket; the deadline of every later write is that of `tcp`.
    ///
    /// # Errors
    /// As [`TlsTransport::connect`].
    pub fn client(tcp: TcpTransport, pin: Pin, wait: Duration) -> Result<Self, NetError> {
        client(tcp, pin, wait)
    }

    pub(super) fn new(conn: Connection, wire: Wire, write_wait: Duration) -> Self {
        Self {
            conn,
            wire,
            write_wait,
            watch: None,
        }
    }

    /// 32 bytes that both ends derive from this connection's secrets for a label and a context (RFC 8446, section 7.5).
    /// Another connection, label or context gives others. For session ids and labels of pseudo-random streams.
    ///
    /// # Errors
    /// `TlsHandshake` for a label of 0 or more than 249 bytes, or when the library refuses.
    pub fn exporter(&self, label: &str, context: &[u8]) -> Result<[u8; 32], NetError> {
        // The label travels with a prefix of 6 bytes and a length byte; the library does not check that it fits.
        if label.is_empty() || label.len() > MAX_LABEL {
            return Err(NetError::TlsHandshake {
                detail: format!(
                    "exporter: a label of {} bytes, 1 to {MAX_LABEL} are possible",
                    label.len()
                ),
            });
        }
        self.conn
            .export_keying_material([0u8; 32], label.as_bytes(), Some(context))
            .map_err(|e| NetError::TlsHandshake {
                detail: format!("exporter: {e}"),
            })
    }

    /// Starts to remember the sizes of all records after the handshake. Call it before the transport is split.
    pub fn watch_records(&mut self) -> RecordWatch {
        self.watch.get_or_insert_default().clone()
    }
}

impl Transport for TlsTransport {
    fn split(self: Box<Self>) -> Result<Halves, std::io::Error> {
        let stream = self.wire.stream.try_clone()?;
        let shared = Arc::new(Shared(Mutex::new(self.conn)));
        let sink = TlsSink {
            shared: Arc::clone(&shared),
            stream,
            out: Vec::with_capacity(WRITE_BUFFER + CHUNK + 5 * RECORD_OVERHEAD),
            wait: self.write_wait,
            meter: Meter::new(self.watch.clone()),
            cut: false,
        };
        let send = TlsSend(Outbox::start(sink, "net-tls-writer")?);
        let mut meter = Meter::new(self.watch);
        meter.see(self.wire.unread(), |s| &mut s.received);
        let recv = TlsRecv {
            shared,
            wire: self.wire,
            meter,
        };
        Ok((Box::new(send), Box::new(recv)))
    }
}

struct Shared(Mutex<Connection>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writer thread's end.
struct TlsSink {
    shared: Arc<Shared>,
    stream: TcpStream,
    /// Whole records that wait for the socket.
    out: Vec<u8>,
    wait: Duration,
    meter: Meter,
    /// A write failed, perhaps inside a record: nothing can follow it.
    cut: bool,
}

fn collect(conn: &mut Connection, out: &mut Vec<u8>) -> Result<(), LinkFault> {
    while conn.wants_write() {
        conn.write_tls(out).map_err(|_| LinkFault::Lost)?;
    }
    Ok(())
}

impl TlsSink {
    fn encrypt(&mut self, mut chunk: &[u8]) -> Result<(), LinkFault> {
        let mut conn = self.shared.lock();
        while !chunk.is_empty() {
            // Takes less only at a key change, and then whole records.
            match conn.writer().write(chunk) {
                Ok(n) if n > 0 => chunk = &chunk[n..],
                _ => return Err(LinkFault::Lost),
            }
            collect(&mut conn, &mut self.out)?;
        }
        Ok(())
    }

    fn drain(&mut self, deadline: Instant) -> Result<(), LinkFault> {
        self.meter.see(&self.out, |s| &mut s.sent);
        let r = write_all(&mut self.stream, &self.out, deadline);
        self.out.clear();
        self.cut |= r.is_err();
        r
    }
}

impl Sink for TlsSink {
    fn deliver(&mut self, piece: Piece, last: bool) -> Result<(), LinkFault> {
        let deadline = Instant::now() + self.wait;
        for chunk in piece.bytes.chunks(CHUNK) {
            self.encrypt(chunk)?;
            if self.out.len() >= WRITE_BUFFER {
                self.drain(deadline)?;
            }
        }
        if last {
            self.drain(deadline)?;
        }
        Ok(())
    }
}

impl Drop for TlsSink {
    fn drop(&mut self) {
        if !self.cut {
            let mut conn = self.shared.lock();
            conn.send_close_notify();
            let collected = collect(&mut conn, &mut self.out);
            drop(conn);
            if collected.is_ok() {
                let _ = self.drain(Instant::now() + self.wait);
            }
        }
        // The peer must see the end of the stream even while the reading half is still open.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

struct TlsSend(Outbox);

impl SendHalf for TlsSend {
    fn send(&mut self, bytes: Vec<u8>, wait: Duration) -> Result<(), LinkFault> {
        self.0.push(bytes, wait)
    }
    fn flush(&mut self, wait: Duration) -> Result<(), LinkFault> {
        self.0.flush(wait)
    }
}

struct TlsRecv {
    shared: Arc<Shared>,
    wire: Wire,
    meter: Meter,
}

/// A fatal alert other than "bad record" is the peer's way to leave.
fn record_fault(e: &Error) -> LinkFault {
    match e {
        Error::AlertReceived(AlertDescription::BadRecordMac) => LinkFault::Altered,
        Error::AlertReceived(_) => LinkFault::Lost,
        _ => LinkFault::Altered,
    }
}

impl TlsRecv {
    /// Moves decrypted bytes into `buf`, decrypting what was read; 0 when the socket must be read.
    fn decrypt(&mut self, buf: &mut [u8]) -> Result<usize, LinkFault> {
        let mut conn = self.shared.lock();
        loop {
            match conn.reader().read(buf) {
                Ok(0) => return Err(LinkFault::Lost),
                Ok(n) => return Ok(n),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return Err(LinkFault::Lost),
            }
            let mut raw = self.wire.unread();
            if raw.is_empty() {
                return Ok(0);
            }
            // The library takes a few kilobytes at a time, and no plaintext waits now: its buffers stay small.
            let n = conn.read_tls(&mut raw).map_err(|_| LinkFault::Altered)?;
            if n == 0 {
                return Err(LinkFault::Lost);
            }
            self.wire.skip(n);
            conn.process_new_packets().map_err(|e| record_fault(&e))?;
        }
    }
}

impl RecvHalf for TlsRecv {
    fn recv_exact(&mut self, buf: &mut [u8], wait: Duration) -> Result<(), LinkFault> {
        let deadline = Instant::now() + wait;
        let mut done = 0;
        while done < buf.len() {
            match self.decrypt(&mut buf[done..])? {
                0 => {
                    let raw = self.wire.fill(deadline)?;
                    self.meter.see(raw, |s| &mut s.received);
                }
                n => done += n,
            }
        }
        Ok(())
    }
}

impl Drop for TlsRecv {
    fn drop(&mut self) {
        let _ = self.wire.stream.shutdown(Shutdown::Read);
    }
}
