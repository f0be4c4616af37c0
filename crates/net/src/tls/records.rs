//! How plaintext is cut into records, and a witness of the sizes on the wire.

use crate::frame::{FRAME_PAYLOAD, HEADER_BYTES};
use std::sync::{Arc, Mutex, PoisonError};

/// Plaintext bytes of every record of a piece but the last one (RFC 8446, section 5.1).
pub const RECORD_PLAINTEXT: usize = 1 << 14;

/// Bytes that a record adds to its plaintext: header 5, content type 1, authentication tag 16.
pub const RECORD_OVERHEAD: usize = 22;

const HEADER: usize = 5;

/// Sizes on the wire of the records of one piece of `len` bytes, in order.
pub fn piece_records(len: usize) -> impl Iterator<Item = u32> {
    let size = |n: usize| (n + RECORD_OVERHEAD) as u32;
    let rest = len % RECORD_PLAINTEXT;
    std::iter::repeat_n(size(RECORD_PLAINTEXT), len / RECORD_PLAINTEXT)
        .chain((rest > 0).then(|| size(rest)))
}

/// Bytes on the wire of one channel message with `payload` bytes: frame headers and record overhead included.
#[must_use]
pub fn message_wire_bytes(payload: u64) -> u64 {
    let records = |piece: u64| piece.div_ceil(RECORD_PLAINTEXT as u64);
    let (full, header) = (FRAME_PAYLOAD as u64, HEADER_BYTES as u64);
    // An empty message is one frame; otherwise the last frame holds 1 to FRAME_PAYLOAD bytes.
    let frames = payload.div_ceil(full).max(1);
    let last = payload - (frames - 1) * full;
    let count = (frames - 1) * records(full + header) + records(last + header);
    payload + frames * header + count * RECORD_OVERHEAD as u64
}

/// Follows the record boundaries of a byte stream.
#[derive(Default)]
pub(super) struct RecordCursor {
    header: [u8; HEADER],
    have: usize,
    left: usize,
}

impl RecordCursor {
    /// Takes bytes up to the end of the current record; returns how many, and the record's size when it is complete.
    pub fn advance(&mut self, bytes: &[u8]) -> (usize, Option<u32>) {
        let mut taken = 0;
        if self.have < HEADER {
            taken = bytes.len().min(HEADER - self.have);
            self.header[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
            self.have += taken;
            if self.have < HEADER {
                return (taken, None);
            }
            self.left = self.body();
        }
        let n = self.left.min(bytes.len() - taken);
        self.left -= n;
        taken += n;
        if self.left > 0 {
            return (taken, None);
        }
        self.have = 0;
        (taken, Some((HEADER + self.body()) as u32))
    }

    fn body(&self) -> usize {
        usize::from(u16::from_be_bytes([self.header[3], self.header[4]]))
    }
}

/// Sizes in bytes of whole records, as they lie on the wire, since the watch began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordSizes {
    /// Records that were written to the socket.
    pub sent: Vec<u32>,
    /// Records that were read from the socket.
    pub received: Vec<u32>,
}

/// Remembers the size of every record after the handshake, for tests that the schedule does not depend on secrets.
/// Four bytes a record; see [`TlsTransport::watch_records`](super::TlsTransport::watch_records).
#[derive(Clone, Default)]
pub struct RecordWatch(Arc<Mutex<RecordSizes>>);

impl RecordWatch {
    /// The sizes so far.
    #[must_use]
    pub fn sizes(&self) -> RecordSizes {
        self.with(|s| s.clone())
    }

    pub(super) fn with<T>(&self, f: impl FnOnce(&mut RecordSizes) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One direction of a watched stream.
#[derive(Default)]
pub(super) struct Meter {
    cursor: RecordCursor,
    watch: Option<RecordWatch>,
}

impl Meter {
    pub fn new(watch: Option<RecordWatch>) -> Self {
        Self {
            cursor: RecordCursor::default(),
            watch,
        }
    }

    /// Sees bytes of the wire; `pick` says which list they belong to.
    pub fn see(&mut self, mut bytes: &[u8], pick: impl Fn(&mut RecordSizes) -> &mut Vec<u32>) {
        let Some(watch) = &self.watch else { return };
        while !bytes.is_empty() {
            let (n, record) = self.cursor.advance(bytes);
            bytes = &bytes[n..];
            if let Some(size) = record {
                watch.with(|s| pick(s).push(size));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::frame::message_bytes;

    #[test]
    fn records_of_a_message_add_up() {
        let full = FRAME_PAYLOAD;
        for payload in [
            0,
            1,
            16384 - 16,
            16384 - 15,
            full - 1,
            full,
            full + 1,
            3 * full + 5,
        ] {
            // Frame by frame, as the channel cuts a message.
            let (mut left, mut bytes, mut records) = (payload, 0u64, 0u64);
            loop {
                let n = left.min(full);
                for r in piece_records(n + HEADER_BYTES) {
                    bytes += u64::from(r);
                    records += 1;
                }
                left -= n;
                if left == 0 {
                    break;
                }
            }
            let payload = payload as u64;
            assert_eq!(message_wire_bytes(payload), bytes, "{payload}");
            assert_eq!(bytes, message_bytes(payload) + 22 * records, "{payload}");
        }
        assert_eq!(piece_records(0).count(), 0);
        assert_eq!(piece_records(16384).collect::<Vec<_>>(), [16406]);
        assert_eq!(piece_records(16385).collect::<Vec<_>>(), [16406, 23]);
    }

    #[test]
    fn a_cursor_finds_boundaries_however_the_bytes_are_cut() {
        let sizes = [0u16, 1, 300, 7, 16401];
        let mut stream = Vec::new();
        for s in sizes {
            stream.extend([23, 3, 3]);
            stream.extend(s.to_be_bytes());
            stream.resize(stream.len() + usize::from(s), 0xff);
        }
        for step in [1, 2, 5, 6, 64, stream.len()] {
            let watch = RecordWatch::default();
            let mut meter = Meter::new(Some(watch.clone()));
            stream
                .chunks(step)
                .for_each(|c| meter.see(c, |s| &mut s.sent));
            let want: Vec<u32> = sizes.iter().map(|&s| u32::from(s) + 5).collect();
            assert_eq!(watch.sizes().sent, want, "step {step}");
            assert!(watch.sizes().received.is_empty());
        }
    }
}
