//! What several targets share: programs that edit bytes and JSON, raw and framed peers, temporary folders.

use cipherloom_net::{
    message_bytes, Channel, ChannelConfig, FrameKind, Halves, LinkFault, MemoryTransport, RecvHalf,
    SendHalf, Transport,
};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Longest wait of a channel: a peer that sent too little has hung up already, so nothing waits that long.
pub const WAIT: Duration = Duration::from_millis(500);

/// Most edits of one program.
const MAX_EDITS: usize = 64;
/// Most values of an edited document.
const MAX_VALUES: usize = 20_000;

/// Limits of every channel here.
pub fn config() -> ChannelConfig {
    ChannelConfig {
        deadline: WAIT,
        ..ChannelConfig::default()
    }
}

/// Reads an input front to back; past the end everything is zero.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn byte(&mut self) -> u8 {
        let Some((&b, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        b
    }

    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let n = N.min(self.0.len());
        out[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        out
    }

    pub fn word(&mut self) -> usize {
        usize::from(u16::from_le_bytes(self.array()))
    }

    pub fn take(&mut self, n: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(n.min(self.0.len()));
        self.0 = tail;
        head
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Applies a program of edits to a valid object that is too long to be an input itself. An edit is a place (u32), an
/// operation and up to 8 bytes: 0 writes them, 1 flips them, 2 cuts the object at the place, 3 inserts them.
pub fn edit_bytes(base: &[u8], program: &[u8]) -> Vec<u8> {
    let mut out = base.to_vec();
    let mut p = Input(program);
    let mut steps = 0;
    while !p.is_empty() && !out.is_empty() && steps < MAX_EDITS {
        steps += 1;
        let at = u32::from_le_bytes(p.array()) as usize % out.len();
        let op = p.byte();
        let n = usize::from(p.byte() % 9);
        let bytes = p.take(n);
        match op % 4 {
            0 => out
                .iter_mut()
                .skip(at)
                .zip(bytes)
                .for_each(|(o, b)| *o = *b),
            1 => out
                .iter_mut()
                .skip(at)
                .zip(bytes)
                .for_each(|(o, b)| *o ^= *b),
            2 => out.truncate(at),
            _ => {
                out.splice(at..at, bytes.iter().copied());
            }
        }
    }
    out
}

fn paths(v: &Value, at: &str, out: &mut Vec<String>) {
    out.push(at.to_string());
    match v {
        Value::Object(m) => m.iter().for_each(|(k, v)| {
            let k = k.replace('~', "~0").replace('/', "~1");
            paths(v, &format!("{at}/{k}"), out);
        }),
        Value::Array(a) => a
            .iter()
            .enumerate()
            .for_each(|(i, v)| paths(v, &format!("{at}/{i}"), out)),
        _ => {}
    }
}

/// Applies a program of edits to a valid document: a place (u16, among all values of the document) and what to put there.
/// Raw bytes seldom stay JSON when they are mutated; this reaches what comes after the parser.
pub fn edit_json(base: &Value, program: &[u8]) -> Vec<u8> {
    let mut doc = base.clone();
    let mut p = Input(program);
    let mut steps = 0;
    while !p.is_empty() && steps < MAX_EDITS {
        steps += 1;
        let mut all = Vec::new();
        paths(&doc, "", &mut all);
        if all.len() > MAX_VALUES {
            break;
        }
        let path = all[p.word() % all.len()].clone();
        let op = p.byte();
        let number: [u8; 8] = p.array();
        let word = u64::from_le_bytes(number);
        let Some(place) = doc.pointer_mut(&path) else {
            continue;
        };
        match op % 16 {
            0 => *place = Value::from(word),
            1 => *place = Value::from(word as i64),
            2 => *place = Value::from(f64::from_bits(word)),
            3 => *place = Value::from(1u64 << (word % 64)),
            4 => *place = Value::from(-(1i64 << (word % 63))),
            5 => *place = Value::from((f64::from(word as u16 as i16) / 256.0).exp2()),
            6 => *place = Value::Null,
            7 => *place = Value::from(word & 1 == 1),
            8 => *place = Value::from("x".repeat(word as u16 as usize)),
            9 => *place = Value::from(String::from_utf8_lossy(&number).into_owned()),
            10 => *place = Value::Array(vec![]),
            // One element more, or many more.
            11 => {
                if let Value::Array(a) = place {
                    if let Some(v) = a.get(word as usize % a.len().max(1)).cloned() {
                        let mut inside = Vec::new();
                        paths(&v, "", &mut inside);
                        let most = MAX_VALUES / inside.len();
                        let more = [1, 1, 2, 200][(word >> 16) as usize % 4].min(most);
                        a.extend(std::iter::repeat_n(v, more));
                    }
                }
            }
            12 => match place {
                Value::Array(a) if !a.is_empty() => {
                    a.remove(word as usize % a.len());
                }
                Value::Object(m) if !m.is_empty() => {
                    let key = m.keys().nth(word as usize % m.len()).cloned();
                    m.remove(&key.unwrap_or_default());
                }
                _ => {}
            },
            13 => {
                if let Value::Object(m) = place {
                    m.insert(format!("f{}", word % 7), Value::from(word));
                }
            }
            // Small steps and powers of two around a number that is there.
            14 => {
                if let Some(n) = place.as_u64() {
                    *place = Value::from(n.wrapping_add(u64::from(word as u8)).wrapping_sub(128));
                } else if let Some(x) = place.as_f64() {
                    *place = Value::from(x * f64::from(word as i8));
                }
            }
            _ => {
                if let Some(n) = place.as_u64() {
                    *place = Value::from(n.rotate_left(word as u32 % 64));
                }
            }
        }
    }
    serde_json::to_vec(&doc).unwrap_or_default()
}

/// First byte even: the rest is the document itself; odd: edits of a valid one.
pub fn json_input(base: &Value, data: &[u8]) -> Vec<u8> {
    match data.split_first() {
        Some((tag, rest)) if tag % 2 == 1 => edit_json(base, rest),
        Some((_, rest)) => rest.to_vec(),
        None => Vec::new(),
    }
}

/// A channel whose peer sent these bytes, whatever they are, and hung up. The other value takes what the victim sends.
pub fn raw_peer(wire: &[u8], piece: usize) -> (Box<dyn RecvHalf>, Channel) {
    let (a, b) = MemoryTransport::pair();
    let (mut send, recv) = (Box::new(a) as Box<dyn Transport>).split().unwrap();
    for part in wire.chunks(piece.max(1)) {
        send.send(part.to_vec(), WAIT).unwrap();
    }
    (recv, Channel::new(Box::new(b), config()).unwrap())
}

/// The wire bytes of these messages, all of one stage.
pub fn wire(stage: u16, messages: &[(FrameKind, &[u8])]) -> Vec<u8> {
    let (a, b) = MemoryTransport::pair();
    let mut sender = Channel::new(Box::new(a), config()).unwrap();
    sender.set_stage(stage, "fuzz");
    let mut len = 0;
    for (kind, payload) in messages {
        sender.send(*kind, payload).unwrap();
        len += message_bytes(payload.len() as u64);
    }
    let (_send, mut recv) = (Box::new(b) as Box<dyn Transport>).split().unwrap();
    let mut out = vec![0; len as usize];
    recv.recv_exact(&mut out, WAIT).unwrap();
    out
}

/// A channel whose peer sent these messages in correct frames and hung up, so that no victim waits for more.
pub fn framed_peer(messages: &[(FrameKind, Vec<u8>)]) -> (Box<dyn RecvHalf>, Channel) {
    let messages: Vec<(FrameKind, &[u8])> = messages.iter().map(|(k, m)| (*k, &m[..])).collect();
    raw_peer(&wire(0, &messages), usize::MAX)
}

/// Changes the payloads that go out: a program of (frame, place, bytes).
pub struct EditedTransport {
    inner: MemoryTransport,
    program: Vec<u8>,
}

impl EditedTransport {
    pub fn new(inner: MemoryTransport, program: &[u8]) -> Self {
        Self {
            inner,
            program: program.to_vec(),
        }
    }
}

struct EditedSend {
    inner: Box<dyn SendHalf>,
    program: Vec<u8>,
    frame: usize,
}

impl SendHalf for EditedSend {
    fn send(&mut self, mut bytes: Vec<u8>, wait: Duration) -> Result<(), LinkFault> {
        let mut p = Input(&self.program);
        while !p.is_empty() {
            let frame = usize::from(p.byte()) % 32;
            let at = p.word();
            let n = usize::from(p.byte() % 33);
            let flip = p.take(n);
            if frame == self.frame {
                // Headers are left alone: the frames target is for them.
                let len = bytes.len().max(17) - 16;
                bytes
                    .iter_mut()
                    .skip(16 + at % len)
                    .zip(flip)
                    .for_each(|(b, f)| *b ^= *f);
            }
        }
        self.frame += 1;
        self.inner.send(bytes, wait)
    }

    fn flush(&mut self, wait: Duration) -> Result<(), LinkFault> {
        self.inner.flush(wait)
    }
}

impl Transport for EditedTransport {
    fn split(self: Box<Self>) -> Result<Halves, std::io::Error> {
        let (inner, recv) = (Box::new(self.inner) as Box<dyn Transport>).split()?;
        let send = EditedSend {
            inner,
            program: self.program,
            frame: 0,
        };
        Ok((Box::new(send), recv))
    }
}

/// Replaces a file.
pub fn put(dir: &Path, name: &str, bytes: &[u8]) {
    std::fs::write(dir.join(name), bytes).unwrap();
}

/// A temporary folder, in memory where the system has such a place.
pub fn temp_dir() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        if let Ok(d) = tempfile::tempdir_in(memory) {
            return d;
        }
    }
    tempfile::tempdir().unwrap()
}
