//! A queue bounded by bytes that a background thread empties. It is what lets both parties send at once.

use crate::transport::LinkFault;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that may wait in one outgoing queue. One message may exceed it when the queue is empty.
pub(crate) const QUEUE_BYTES: usize = 256 << 20;

/// One queued piece and the moment it was queued.
pub(crate) struct Piece {
    pub bytes: Vec<u8>,
    pub queued: Instant,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Piece>,
    bytes: usize,
    busy: bool,
    closed: Option<Instant>,
    fault: Option<LinkFault>,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the background thread puts the pieces. Dropped when the queue is closed and empty, or after a fault.
pub(crate) trait Sink: Send + 'static {
    /// Delivers one piece. `last` says that nothing else is queued, so that buffers must be flushed.
    fn deliver(&mut self, piece: Piece, last: bool) -> Result<(), LinkFault>;
}

/// How long the rest of a dropped queue may take, besides the piece that is being written. Whoever needs its last message
/// delivered flushes before.
const CLOSING_WAIT: Duration = Duration::from_secs(5);

/// The queue. Dropping it lets the thread deliver the rest for a few seconds. A push that found no room in time breaks it.
pub(crate) struct Outbox {
    inner: Arc<Inner>,
}

impl Outbox {
    pub fn start(mut sink: impl Sink, name: &str) -> Result<Self, std::io::Error> {
        let inner = Arc::new(Inner::default());
        let theirs = Arc::clone(&inner);
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&theirs, &mut sink))?;
        Ok(Self { inner })
    }

    pub fn push(&self, bytes: Vec<u8>, wait: Duration) -> Result<(), LinkFault> {
        let deadline = Instant::now() + wait;
        let mut s = self.inner.lock();
        while s.fault.is_none() && s.bytes > 0 && s.bytes + bytes.len() > QUEUE_BYTES {
            s = self
                .wait_until(s, deadline)
                .inspect_err(|f| self.give_up(*f))?;
        }
        if let Some(f) = s.fault {
            return Err(f);
        }
        s.bytes += bytes.len();
        s.queue.push_back(Piece {
            bytes,
            queued: Instant::now(),
        });
        drop(s);
        self.inner.changed.notify_all();
        Ok(())
    }

    pub fn flush(&self, wait: Duration) -> Result<(), LinkFault> {
        let deadline = Instant::now() + wait;
        let mut s = self.inner.lock();
        while s.fault.is_none() && (s.busy || !s.queue.is_empty()) {
            s = self.wait_until(s, deadline)?;
        }
        s.fault.map_or(Ok(()), Err)
    }

    /// What is queued will not arrive in time: a later error frame would wait behind it.
    fn give_up(&self, fault: LinkFault) {
        let mut s = self.inner.lock();
        s.fault = Some(fault);
        s.queue.clear();
        s.bytes = 0;
    }

    fn wait_until<'a>(
        &'a self,
        s: MutexGuard<'a, State>,
        deadline: Instant,
    ) -> Result<MutexGuard<'a, State>, LinkFault> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(LinkFault::Timeout);
        }
        let (s, _) = self
            .inner
            .changed
            .wait_timeout(s, left)
            .unwrap_or_else(PoisonError::into_inner);
        Ok(s)
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.inner.lock().closed = Some(Instant::now());
        self.inner.changed.notify_all();
    }
}

fn run(inner: &Inner, sink: &mut impl Sink) {
    loop {
        let mut s = inner.lock();
        let (piece, last) = loop {
            if s.fault.is_some() || s.closed.is_some_and(|at| at.elapsed() > CLOSING_WAIT) {
                return;
            }
            if let Some(p) = s.queue.pop_front() {
                s.bytes -= p.bytes.len();
                s.busy = true;
                break (p, s.queue.is_empty());
            }
            if s.closed.is_some() {
                return;
            }
            s = inner
                .changed
                .wait(s)
                .unwrap_or_else(PoisonError::into_inner);
        };
        drop(s);
        inner.changed.notify_all();
        let result = sink.deliver(piece, last);
        let mut s = inner.lock();
        s.busy = false;
        if let Err(fault) = result {
            s.fault.get_or_insert(fault);
            s.queue.clear();
            s.bytes = 0;
            drop(s);
            inner.changed.notify_all();
            return;
        }
        drop(s);
        inner.changed.notify_all();
    }
}
