//! What the TLS tests share: pairs of connected ends, and a man in the middle who sees and changes records.

#![allow(dead_code)]

use cipherloom_net::{
    ChannelConfig, NetError, Pin, TcpAcceptor, TcpTransport, TlsAcceptor, TlsIdentity, TlsTransport,
};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

pub const WAIT: Duration = Duration::from_secs(10);

pub fn config(deadline: Duration) -> ChannelConfig {
    ChannelConfig {
        deadline,
        ..ChannelConfig::default()
    }
}

/// A server that accepts one connection after the other.
pub struct Server {
    pub tls: TlsAcceptor,
    pub tcp: TcpAcceptor,
    pub pin: Pin,
}

impl Server {
    pub fn new() -> Self {
        let (identity, _) = TlsIdentity::self_signed(&["localhost"], 2).unwrap();
        Self {
            pin: identity.fingerprint(),
            tls: TlsAcceptor::new(identity).unwrap(),
            tcp: TcpAcceptor::bind("127.0.0.1:0").unwrap(),
        }
    }

    pub fn addr(&self) -> SocketAddr {
        self.tcp.local_addr().unwrap()
    }

    pub fn accept(&self, wait: Duration) -> Result<TlsTransport, NetError> {
        let tcp: TcpTransport = self.tcp.accept(WAIT, WAIT).unwrap();
        self.tls.accept(tcp, wait)
    }

    /// Client and server end of one connection.
    pub fn pair(&self) -> (TlsTransport, TlsTransport) {
        self.pair_through(self.addr())
    }

    pub fn pair_through(&self, addr: SocketAddr) -> (TlsTransport, TlsTransport) {
        let pin = self.pin;
        let t = std::thread::spawn(move || TlsTransport::connect(addr, pin, WAIT).unwrap());
        let server = self.accept(WAIT).unwrap();
        (t.join().unwrap(), server)
    }
}

/// What the man in the middle does with the next record from server to client, once armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Flips the lowest bit of one byte (0 to 4: the header).
    Flip(usize),
    /// Loses the record.
    Lose,
    /// Sends it twice.
    Repeat,
    /// Sends it after the next one.
    Swap,
    /// Closes the connection in order (TCP), at the record boundary.
    Cut,
    /// Closes it in the middle of the record.
    Half,
    /// Holds it and everything after it back.
    Stall,
    /// Sends it late.
    Delay,
    /// From client to server, armed or not: holds records back until as many as told are there, then sends them at once.
    Join(usize),
}

/// Forwards one connection and remembers the size of every record: client to server, server to client.
pub struct Middle {
    pub addr: SocketAddr,
    pub armed: Arc<AtomicBool>,
    sizes: Arc<Mutex<[Vec<u32>; 2]>>,
    threads: Vec<JoinHandle<()>>,
}

impl Middle {
    pub fn new(target: SocketAddr, act: Act) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let armed = Arc::new(AtomicBool::new(false));
        let sizes = Arc::new(Mutex::new([Vec::new(), Vec::new()]));
        let (a, s) = (Arc::clone(&armed), Arc::clone(&sizes));
        let outer = std::thread::spawn(move || {
            let (client, _) = listener.accept().unwrap();
            let server = TcpStream::connect(target).unwrap();
            let (c, v) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let (up_sizes, never) = (Arc::clone(&s), AtomicBool::new(false));
            let up = std::thread::spawn(move || {
                forward(c, v, &never, act, &|n| up_sizes.lock().unwrap()[0].push(n));
            });
            let act = if let Act::Join(_) = act {
                Act::Delay
            } else {
                act
            };
            forward(server, client, &a, act, &|n| {
                s.lock().unwrap()[1].push(n);
            });
            up.join().unwrap();
        });
        Self {
            addr,
            armed,
            sizes,
            threads: vec![outer],
        }
    }

    pub fn arm(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    /// All sizes, once both ends have closed.
    pub fn finish(self) -> [Vec<u32>; 2] {
        for t in self.threads {
            t.join().unwrap();
        }
        let sizes = self.sizes.lock().unwrap();
        sizes.clone()
    }
}

/// Above every count of [`Act::Join`].
const JOINED: usize = 1000;

fn read_record(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut record = vec![0; 5];
    from.read_exact(&mut record).ok()?;
    let n = usize::from(u16::from_be_bytes([record[3], record[4]]));
    record.resize(5 + n, 0);
    from.read_exact(&mut record[5..]).ok()?;
    Some(record)
}

fn forward(
    mut from: TcpStream,
    mut to: TcpStream,
    armed: &AtomicBool,
    act: Act,
    seen: &dyn Fn(u32),
) {
    let mut held = (0, Vec::new());
    while let Some(mut record) = read_record(&mut from) {
        seen(record.len() as u32);
        let mut out = Vec::new();
        // The first record, the greeting, must pass at once.
        if let (Act::Join(count), true) = (act, held.0 <= JOINED) {
            held.0 += 1;
            if held.0 > 1 {
                held.1.extend_from_slice(&record);
                if held.0 <= count {
                    continue;
                }
                held.0 = JOINED + 1;
                record = std::mem::take(&mut held.1);
            }
        }
        if armed.swap(false, Ordering::SeqCst) {
            match act {
                Act::Flip(at) => {
                    record[at] ^= 1;
                    out = record;
                }
                Act::Lose => {}
                Act::Repeat => out = [record.clone(), record].concat(),
                Act::Swap => {
                    out = read_record(&mut from).unwrap_or_default();
                    out.extend(record);
                }
                Act::Half => {
                    let _ = to.write_all(&record[..record.len() / 2]);
                    break;
                }
                Act::Cut => break,
                Act::Stall => {
                    // Until the other side gives up and closes.
                    while read_record(&mut from).is_some() {}
                    break;
                }
                Act::Join(_) => out = record,
                Act::Delay => {
                    std::thread::sleep(Duration::from_millis(100));
                    out = record;
                }
            }
        } else {
            out = record;
        }
        if to.write_all(&out).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}
