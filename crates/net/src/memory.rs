//! Two transports in one process, joined by queues.

use crate::outbox::QUEUE_BYTES;
use crate::transport::{Halves, LinkFault, RecvHalf, SendHalf, Transport};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Default)]
struct State {
    queue: VecDeque<Vec<u8>>,
    bytes: usize,
    sender_gone: bool,
    receiver_gone: bool,
}

#[derive(Default)]
struct Pipe {
    state: Mutex<State>,
    changed: Condvar,
}

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(
        &'a self,
        s: MutexGuard<'a, State>,
        deadline: Instant,
    ) -> Result<MutexGuard<'a, State>, LinkFault> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(LinkFault::Timeout);
        }
        let (s, _) = self
            .changed
            .wait_timeout(s, left)
            .unwrap_or_else(PoisonError::into_inner);
        Ok(s)
    }
}

struct MemorySend(Arc<Pipe>);

impl SendHalf for MemorySend {
    fn send(&mut self, bytes: Vec<u8>, wait: Duration) -> Result<(), LinkFault> {
        let deadline = Instant::now() + wait;
        let mut s = self.0.lock();
        while !s.receiver_gone && s.bytes > 0 && s.bytes + bytes.len() > QUEUE_BYTES {
            s = self.0.wait(s, deadline)?;
        }
        if s.receiver_gone {
            return Err(LinkFault::Lost);
        }
        s.bytes += bytes.len();
        s.queue.push_back(bytes);
        drop(s);
        self.0.changed.notify_all();
        Ok(())
    }

    fn flush(&mut self, _wait: Duration) -> Result<(), LinkFault> {
        Ok(())
    }
}

impl Drop for MemorySend {
    fn drop(&mut self) {
        self.0.lock().sender_gone = true;
        self.0.changed.notify_all();
    }
}

struct MemoryRecv {
    pipe: Arc<Pipe>,
    front: Vec<u8>,
    at: usize,
}

impl RecvHalf for MemoryRecv {
    fn recv_exact(&mut self, buf: &mut [u8], wait: Duration) -> Result<(), LinkFault> {
        let deadline = Instant::now() + wait;
        let mut done = 0;
        while done < buf.len() {
            if self.at == self.front.len() {
                let mut s = self.pipe.lock();
                self.front = loop {
                    if let Some(v) = s.queue.pop_front() {
                        s.bytes -= v.len();
                        break v;
                    }
                    if s.sender_gone {
                        return Err(LinkFault::Lost);
                    }
                    s = self.pipe.wait(s, deadline)?;
                };
                self.at = 0;
                drop(s);
                self.pipe.changed.notify_all();
            }
            let n = (buf.len() - done).min(self.front.len() - self.at);
            buf[done..done + n].copy_from_slice(&self.front[self.at..self.at + n]);
            done += n;
            self.at += n;
        }
        Ok(())
    }
}

impl Drop for MemoryRecv {
    fn drop(&mut self) {
        self.pipe.lock().receiver_gone = true;
        self.pipe.changed.notify_all();
    }
}

/// One end of an in-process stream.
pub struct MemoryTransport {
    send: MemorySend,
    recv: MemoryRecv,
}

impl MemoryTransport {
    /// Two joined ends.
    #[must_use]
    pub fn pair() -> (Self, Self) {
        let (a, b) = (Arc::new(Pipe::default()), Arc::new(Pipe::default()));
        let end = |out: &Arc<Pipe>, inn: &Arc<Pipe>| Self {
            send: MemorySend(Arc::clone(out)),
            recv: MemoryRecv {
                pipe: Arc::clone(inn),
                front: Vec::new(),
                at: 0,
            },
        };
        (end(&a, &b), end(&b, &a))
    }
}

impl Transport for MemoryTransport {
    fn split(self: Box<Self>) -> Result<Halves, std::io::Error> {
        Ok((Box::new(self.send), Box::new(self.recv)))
    }
}
