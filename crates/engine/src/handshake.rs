//! The first exchange: versions, plan, shapes, and a nonce of each party.
//!
//! The client speaks first. The server may serve several plans (the same model with logits or with the label only); it
//! answers with the one that the client named, or with its first. Both then compare, so both can say what differs.
//!
//! A hello also carries a tag of the connection that its sender sees, so that a relay between two connections is noticed here.
//!
//! The session id binds everything that follows to this exchange and to the connection under it: base OTs hash it in, hashing
//! salts and the uniform part of public keys derive from it.

use crate::EngineError;
use cipherloom_net::{Channel, FrameKind};
use cipherloom_plan::{Answer, Plan};
use cipherloom_ring::{PublicSeed, SecretPrg};
use std::sync::Arc;

/// Version of the session protocol. Peers of another version are refused.
pub const PROTOCOL_VERSION: u16 = 2;
const MAGIC: [u8; 8] = *b"CLOOM\0\0\0";
/// Bytes of a hello, in every version: magic, version, plan hash, nonce, shapes, answer, connection, and zeros for what later versions need.
pub const HELLO_BYTES: usize = 128;
const SHAPES_AT: usize = 8 + 2 + 32 + 32;
const ANSWER_AT: usize = SHAPES_AT + 4 * SHAPES.len();
const CONNECTION_AT: usize = ANSWER_AT + 1;
const CONNECTION_BYTES: usize = 16;
const CONNECTION: &str = "TLS connection (somebody relays this session)";
const SHAPES: [&str; 7] = [
    "sequence length",
    "scan block",
    "layers",
    "hidden width",
    "inner width",
    "vocabulary",
    "labels",
];

/// What both parties know after the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionId(pub [u8; 32]);

impl SessionId {
    /// A public seed for one purpose: the same at both parties, unpredictable to each before the handshake.
    #[must_use]
    pub fn public_seed(&self, purpose: &str) -> PublicSeed {
        let mut h = blake3::Hasher::new_derive_key("cipherloom session public seed v1");
        h.update(&self.0);
        h.update(purpose.as_bytes());
        PublicSeed(*h.finalize().as_bytes())
    }
}

/// What a connection gives to a session id: the value that both ends of one TLS connection share and nobody else has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding(pub(crate) [u8; 32]);

impl Binding {
    /// No binding: for two parties in one process. Over a network it would leave the session open to whoever relays it.
    #[must_use]
    pub fn insecure_none() -> Self {
        Self([0; 32])
    }

    /// What a hello says of it. One-way, so that it gives nothing of the value itself away.
    fn tag(&self) -> [u8; CONNECTION_BYTES] {
        let mut h = blake3::Hasher::new_derive_key("cipherloom hello connection v1");
        h.update(&self.0);
        let mut tag = [0; CONNECTION_BYTES];
        h.finalize_xof().fill(&mut tag);
        tag
    }
}

/// A hello, parsed. The nonce is apart.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hello {
    version: u16,
    plan_hash: [u8; 32],
    shapes: [u32; SHAPES.len()],
    answer: u8,
    /// Tag of the connection under the session.
    connection: [u8; CONNECTION_BYTES],
}

/// What a client learns, as a byte.
const LOGITS: u8 = 0;
const LABEL: u8 = 1;

fn answer_name(byte: u8) -> String {
    match byte {
        LOGITS => Answer::Logits.name().to_owned(),
        LABEL => Answer::Label.name().to_owned(),
        other => format!("kind {other}"),
    }
}

fn clamp(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl Hello {
    fn of(plan: &Plan, binding: &Binding) -> Self {
        let (r, s) = (plan.request(), &plan.request().shape);
        let block = plan.document().scan_block;
        Self {
            version: PROTOCOL_VERSION,
            plan_hash: plan.hash(),
            shapes: [
                r.length,
                block,
                s.layers,
                s.hidden,
                s.inner(),
                s.vocab,
                s.labels,
            ]
            .map(clamp),
            answer: match r.answer {
                Answer::Logits => LOGITS,
                Answer::Label => LABEL,
            },
            connection: binding.tag(),
        }
    }

    fn bytes(&self, nonce: &[u8; 32]) -> [u8; HELLO_BYTES] {
        let mut out = [0u8; HELLO_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..10].copy_from_slice(&self.version.to_le_bytes());
        out[10..42].copy_from_slice(&self.plan_hash);
        out[42..SHAPES_AT].copy_from_slice(nonce);
        for (b, s) in out[SHAPES_AT..].chunks_exact_mut(4).zip(self.shapes) {
            b.copy_from_slice(&s.to_le_bytes());
        }
        out[ANSWER_AT] = self.answer;
        out[CONNECTION_AT..CONNECTION_AT + CONNECTION_BYTES].copy_from_slice(&self.connection);
        out
    }

    fn parse(bytes: &[u8; HELLO_BYTES]) -> Result<(Self, [u8; 32]), EngineError> {
        if bytes[..8] != MAGIC {
            return Err(EngineError::Mismatch {
                what: "protocol",
                here: "cipherloom".into(),
                peer: format!("{:02x?}", &bytes[..8]),
            });
        }
        let mut plan_hash = [0; 32];
        plan_hash.copy_from_slice(&bytes[10..42]);
        let mut nonce = [0; 32];
        nonce.copy_from_slice(&bytes[42..SHAPES_AT]);
        let mut shapes = [0; SHAPES.len()];
        for (s, b) in shapes.iter_mut().zip(bytes[SHAPES_AT..].chunks_exact(4)) {
            *s = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        }
        let mut connection = [0; CONNECTION_BYTES];
        connection.copy_from_slice(&bytes[CONNECTION_AT..CONNECTION_AT + CONNECTION_BYTES]);
        let hello = Self {
            connection,
            version: u16::from_le_bytes([bytes[8], bytes[9]]),
            plan_hash,
            shapes,
            answer: bytes[ANSWER_AT],
        };
        Ok((hello, nonce))
    }

    /// Names the first thing in which `peer` differs.
    fn compare(&self, peer: &Self) -> Result<(), EngineError> {
        let differ =
            |what, here: String, peer: String| Err(EngineError::Mismatch { what, here, peer });
        if self.version != peer.version {
            return differ(
                "protocol version",
                self.version.to_string(),
                peer.version.to_string(),
            );
        }
        if self.plan_hash == peer.plan_hash {
            if self.connection == peer.connection {
                return Ok(());
            }
            // Keys that the server knows would take both parties to the end, to an answer that is noise.
            return differ(CONNECTION, hex(&self.connection), hex(&peer.connection));
        }
        for ((what, a), b) in SHAPES.into_iter().zip(self.shapes).zip(peer.shapes) {
            if a != b {
                return differ(what, a.to_string(), b.to_string());
            }
        }
        if self.answer != peer.answer {
            return differ("answer", answer_name(self.answer), answer_name(peer.answer));
        }
        differ("plan", hex(&self.plan_hash), hex(&peer.plan_hash))
    }
}

fn session_id(
    plan: [u8; 32],
    client: &[u8; 32],
    server: &[u8; 32],
    binding: &Binding,
) -> SessionId {
    let mut h = blake3::Hasher::new_derive_key("cipherloom session id v1");
    h.update(&plan);
    h.update(client);
    h.update(server);
    h.update(&binding.0);
    SessionId(*h.finalize().as_bytes())
}

fn fresh_nonce(prg: &mut SecretPrg) -> [u8; 32] {
    let mut nonce = [0u8; 32];
    prg.fill_bytes(&mut nonce);
    nonce
}

/// Reads a hello, unparsed.
pub(crate) fn receive_hello(channel: &mut Channel) -> Result<[u8; HELLO_BYTES], EngineError> {
    let mut bytes = [0u8; HELLO_BYTES];
    channel.recv_into(FrameKind::Hello, &mut bytes)?;
    Ok(bytes)
}

/// The client's side: one flight out, one back.
///
/// # Errors
/// `Mismatch` naming what differs; transport errors.
pub fn client_handshake(
    channel: &mut Channel,
    plan: &Plan,
    binding: &Binding,
    prg: &mut SecretPrg,
) -> Result<SessionId, EngineError> {
    let (own, nonce) = (Hello::of(plan, binding), fresh_nonce(prg));
    channel.send(FrameKind::Hello, &own.bytes(&nonce))?;
    let (peer, theirs) = Hello::parse(&receive_hello(channel)?)?;
    own.compare(&peer)?;
    Ok(session_id(own.plan_hash, &nonce, &theirs, binding))
}

/// The server's side: answers with the plan of `plans` that the client named. Returns that plan.
///
/// # Errors
/// `Mismatch` naming what differs from the first plan; transport errors.
pub fn server_handshake<'a>(
    channel: &mut Channel,
    plans: &'a [Arc<Plan>],
    binding: &Binding,
    prg: &mut SecretPrg,
) -> Result<(SessionId, &'a Arc<Plan>), EngineError> {
    let hello = receive_hello(channel)?;
    answer_hello(&hello, channel, plans, binding, prg)
}

/// As [`server_handshake`], for a hello that was read already.
pub(crate) fn answer_hello<'a>(
    hello: &[u8; HELLO_BYTES],
    channel: &mut Channel,
    plans: &'a [Arc<Plan>],
    binding: &Binding,
    prg: &mut SecretPrg,
) -> Result<(SessionId, &'a Arc<Plan>), EngineError> {
    let (peer, theirs) = Hello::parse(hello)?;
    let named = plans.iter().find(|p| p.hash() == peer.plan_hash);
    let plan = named.or(plans.first()).ok_or(EngineError::Mismatch {
        what: "plan",
        here: "none".into(),
        peer: hex(&peer.plan_hash),
    })?;
    let (own, nonce) = (Hello::of(plan, binding), fresh_nonce(prg));
    channel.send(FrameKind::Hello, &own.bytes(&nonce))?;
    own.compare(&peer)?;
    Ok((session_id(own.plan_hash, &theirs, &nonce, binding), plan))
}

/// Lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut s, b| {
            // Writing to a string does not fail.
            let _ = write!(s, "{b:02x}");
            s
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            version: PROTOCOL_VERSION,
            plan_hash: [7; 32],
            shapes: [128, 128, 2, 128, 256, 1024, 2],
            answer: LOGITS,
            connection: [3; CONNECTION_BYTES],
        }
    }

    #[test]
    fn a_hello_survives_the_wire() {
        let (back, nonce) = Hello::parse(&hello().bytes(&[9; 32])).unwrap();
        assert_eq!((back, nonce), (hello(), [9; 32]));
    }

    #[test]
    fn what_differs_is_named() {
        let what = |peer: &Hello| match hello().compare(peer) {
            Err(EngineError::Mismatch { what, here, peer }) => (what, here, peer),
            other => panic!("{other:?}"),
        };
        let mut other = hello();
        other.version = 0;
        assert_eq!(what(&other), ("protocol version", "2".into(), "0".into()));
        let mut other = hello();
        other.connection[15] = 0;
        assert_eq!(what(&other).0, CONNECTION);
        other.plan_hash[0] = 1;
        assert_eq!(what(&other).0, "plan");
        other.answer = LABEL;
        assert_eq!(what(&other), ("answer", "logits".into(), "label".into()));
        for (i, name) in SHAPES.into_iter().enumerate() {
            let mut other = other.clone();
            other.shapes[i] += 1;
            assert_eq!(what(&other).0, name);
        }
        assert!(hello().compare(&hello()).is_ok());
    }

    #[test]
    fn the_session_id_depends_on_every_part() {
        let id = |p, c, s, b| session_id([p; 32], &[c; 32], &[s; 32], &Binding([b; 32])).0;
        let all = [
            id(0, 0, 0, 0),
            id(1, 0, 0, 0),
            id(0, 1, 0, 0),
            id(0, 0, 1, 0),
            id(0, 0, 0, 1),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|b| a != b));
        }
    }
}
