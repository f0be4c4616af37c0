//! TCP with deadlines on connect, accept, read and write.

use crate::error::NetError;
use crate::outbox::{Outbox, Piece, Sink};
use crate::transport::{Halves, LinkFault, RecvHalf, SendHalf, Transport};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

const READ_BUFFER: usize = 64 << 10;
const WRITE_BUFFER: usize = 64 << 10;

fn io(phase: &str, e: &std::io::Error) -> NetError {
    NetError::Io {
        phase: phase.to_owned(),
        detail: e.to_string(),
    }
}

/// A connected TCP stream.
pub struct TcpTransport {
    pub(crate) stream: TcpStream,
    pub(crate) write_wait: Duration,
}

impl TcpTransport {
    /// Connects to the first address that answers within `wait`, which is also the deadline of every single write.
    ///
    /// # Errors
    /// `Timeout`, or `Io` with the system's message.
    pub fn connect(addr: impl ToSocketAddrs, wait: Duration) -> Result<Self, NetError> {
        let phase = "connect";
        let start = Instant::now();
        let mut last = None;
        for a in addr.to_socket_addrs().map_err(|e| io(phase, &e))? {
            let left = wait.saturating_sub(start.elapsed());
            if left.is_zero() {
                break;
            }
            match TcpStream::connect_timeout(&a, left) {
                Ok(s) => return Self::from_stream(s, wait),
                Err(e) => last = Some(e),
            }
        }
        match last {
            Some(e) if e.kind() != ErrorKind::TimedOut && e.kind() != ErrorKind::WouldBlock => {
                Err(io(phase, &e))
            }
            _ => Err(NetError::Timeout {
                phase: phase.to_owned(),
                waited: start.elapsed(),
            }),
        }
    }

    /// Another deadline for every single write than that of the connection.
    #[must_use]
    pub fn with_write_wait(mut self, wait: Duration) -> Self {
        self.write_wait = wait;
        self
    }

    /// Wraps a connected stream. Sets `TCP_NODELAY`; `write_wait` is the deadline of every single write.
    ///
    /// # Errors
    /// `Io` with the system's message.
    pub fn from_stream(stream: TcpStream, write_wait: Duration) -> Result<Self, NetError> {
        stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_nodelay(true))
            .map_err(|e| io("socket options", &e))?;
        Ok(Self { stream, write_wait })
    }

    /// What ends this connection from another thread, whoever owns it then and whatever it waits for.
    ///
    /// # Errors
    /// `Io` with the system's message.
    pub fn closer(&self) -> Result<TcpCloser, NetError> {
        let stream = self.stream.try_clone().map_err(|e| io("connection", &e))?;
        Ok(TcpCloser(stream))
    }
}

/// Ends a connection that belongs to somebody else. Dropping it does nothing.
#[derive(Debug)]
pub struct TcpCloser(TcpStream);

impl TcpCloser {
    /// Every read and write of the connection fails from now on, at both ends.
    pub fn close(&self) {
        // It may have ended by itself.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A listening TCP socket.
pub struct TcpAcceptor {
    listener: TcpListener,
}

impl TcpAcceptor {
    /// Binds and listens.
    ///
    /// # Errors
    /// `Io` with the system's message.
    pub fn bind(addr: impl ToSocketAddrs) -> Result<Self, NetError> {
        let listener = TcpListener::bind(addr).map_err(|e| io("bind", &e))?;
        listener.set_nonblocking(true).map_err(|e| io("bind", &e))?;
        Ok(Self { listener })
    }

    /// The address in use, with the port that the system chose.
    ///
    /// # Errors
    /// `Io` with the system's message.
    pub fn local_addr(&self) -> Result<SocketAddr, NetError> {
        self.listener.local_addr().map_err(|e| io("bind", &e))
    }

    /// Waits for one connection, at most `wait`. `write_wait` as in [`TcpTransport::from_stream`].
    ///
    /// # Errors
    /// `Timeout`, or `Io` with the system's message.
    pub fn accept(&self, wait: Duration, write_wait: Duration) -> Result<TcpTransport, NetError> {
        let start = Instant::now();
        loop {
            match self.listener.accept() {
                Ok((s, _)) => return TcpTransport::from_stream(s, write_wait),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    if start.elapsed() >= wait {
                        return Err(NetError::Timeout {
                            phase: "accept".to_owned(),
                            waited: start.elapsed(),
                        });
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(io("accept", &e)),
            }
        }
    }
}

fn fault(e: &std::io::Error) -> LinkFault {
    match e.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => LinkFault::Timeout,
        _ => LinkFault::Lost,
    }
}

/// Writes everything before the deadline.
pub(crate) fn write_all(
    stream: &mut TcpStream,
    mut b: &[u8],
    deadline: Instant,
) -> Result<(), LinkFault> {
    while !b.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(LinkFault::Timeout);
        }
        stream
            .set_write_timeout(Some(left))
            .map_err(|e| fault(&e))?;
        match stream.write(b) {
            Ok(0) => return Err(LinkFault::Lost),
            Ok(n) => b = &b[n..],
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(fault(&e)),
        }
    }
    Ok(())
}

/// Reads at least one byte before the deadline. The end of the stream is `Lost`.
pub(crate) fn read_some(
    stream: &mut TcpStream,
    b: &mut [u8],
    deadline: Instant,
) -> Result<usize, LinkFault> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(LinkFault::Timeout);
        }
        stream.set_read_timeout(Some(left)).map_err(|e| fault(&e))?;
        match stream.read(b) {
            Ok(0) => return Err(LinkFault::Lost),
            Ok(n) => return Ok(n),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(fault(&e)),
        }
    }
}

/// The writer thread's end: small frames are joined, and flushed when the queue runs empty.
struct TcpSink {
    stream: TcpStream,
    buffer: Vec<u8>,
    wait: Duration,
}

impl TcpSink {
    fn write_all(&mut self, b: &[u8]) -> Result<(), LinkFault> {
        write_all(&mut self.stream, b, Instant::now() + self.wait)
    }

    fn drain(&mut self) -> Result<(), LinkFault> {
        let b = std::mem::take(&mut self.buffer);
        let r = self.write_all(&b);
        self.buffer = b;
        self.buffer.clear();
        r
    }
}

impl Sink for TcpSink {
    fn deliver(&mut self, piece: Piece, last: bool) -> Result<(), LinkFault> {
        if self.buffer.len() + piece.bytes.len() > WRITE_BUFFER {
            self.drain()?;
        }
        if piece.bytes.len() >= WRITE_BUFFER {
            self.write_all(&piece.bytes)?;
        } else {
            self.buffer.extend_from_slice(&piece.bytes);
        }
        if last {
            self.drain()?;
        }
        Ok(())
    }
}

impl Drop for TcpSink {
    fn drop(&mut self) {
        // The peer must see the end of the stream even while the reading half is still open.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

struct TcpSend(Outbox);

impl SendHalf for TcpSend {
    fn send(&mut self, bytes: Vec<u8>, wait: Duration) -> Result<(), LinkFault> {
        self.0.push(bytes, wait)
    }
    fn flush(&mut self, wait: Duration) -> Result<(), LinkFault> {
        self.0.flush(wait)
    }
}

struct TcpRecv {
    stream: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl RecvHalf for TcpRecv {
    fn recv_exact(&mut self, buf: &mut [u8], wait: Duration) -> Result<(), LinkFault> {
        let deadline = Instant::now() + wait;
        let mut done = 0;
        while done < buf.len() {
            if self.start < self.end {
                let n = (buf.len() - done).min(self.end - self.start);
                buf[done..done + n].copy_from_slice(&self.buffer[self.start..self.start + n]);
                self.start += n;
                done += n;
            } else if buf.len() - done >= READ_BUFFER {
                done += read_some(&mut self.stream, &mut buf[done..], deadline)?;
            } else {
                self.start = 0;
                self.end = 0;
                self.end = read_some(&mut self.stream, &mut self.buffer, deadline)?;
            }
        }
        Ok(())
    }
}

impl Drop for TcpRecv {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Read);
    }
}

impl Transport for TcpTransport {
    fn split(self: Box<Self>) -> Result<Halves, std::io::Error> {
        let sink = TcpSink {
            stream: self.stream.try_clone()?,
            buffer: Vec::with_capacity(WRITE_BUFFER),
            wait: self.write_wait,
        };
        let send = TcpSend(Outbox::start(sink, "net-tcp-writer")?);
        let recv = TcpRecv {
            stream: self.stream,
            buffer: vec![0; READ_BUFFER],
            start: 0,
            end: 0,
        };
        Ok((Box::new(send), Box::new(recv)))
    }
}
