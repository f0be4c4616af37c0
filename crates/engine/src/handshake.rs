//! The first exchange: versions, plan hash, and a nonce of each party.
//!
//! The session id binds everything that follows to this exchange: base OTs hash it in, hashing salts and the uniform part of public
//! keys derive from it. (A TLS exporter value joins it once a session runs over TLS.)

use crate::EngineError;
use cipherloom_mpc::Party;
use cipherloom_net::{Channel, FrameKind};
use cipherloom_ring::{PublicSeed, SecretPrg};

/// Version of the session protocol. Peers of another version are refused.
pub const PROTOCOL_VERSION: u16 = 1;
const MAGIC: [u8; 8] = *b"CLOOM\0\0\0";
/// Bytes of a hello: magic, version, plan hash, nonce.
pub const HELLO_BYTES: usize = 8 + 2 + 32 + 32;

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

/// Exchanges hellos. Both parties send at once: two flights.
///
/// # Errors
/// `Mismatch` for another release or plan; transport errors.
pub fn handshake(
    channel: &mut Channel,
    party: Party,
    plan_hash: [u8; 32],
    prg: &mut SecretPrg,
) -> Result<SessionId, EngineError> {
    let mut nonce = [0u8; 32];
    prg.fill_bytes(&mut nonce);
    let mut hello = Vec::with_capacity(HELLO_BYTES);
    hello.extend_from_slice(&MAGIC);
    hello.extend_from_slice(&PROTOCOL_VERSION.to_le_bytes());
    hello.extend_from_slice(&plan_hash);
    hello.extend_from_slice(&nonce);
    channel.send(FrameKind::Hello, &hello)?;
    let peer = channel.recv(FrameKind::Hello, HELLO_BYTES)?;
    let (magic, rest) = peer.split_at(8);
    let (version, rest) = rest.split_at(2);
    let (hash, peer_nonce) = rest.split_at(32);
    if magic != MAGIC {
        return Err(EngineError::Mismatch {
            what: "protocol",
            here: "cipherloom".into(),
            peer: format!("{magic:02x?}"),
        });
    }
    let version = u16::from_le_bytes([version[0], version[1]]);
    if version != PROTOCOL_VERSION {
        return Err(EngineError::Mismatch {
            what: "protocol version",
            here: PROTOCOL_VERSION.to_string(),
            peer: version.to_string(),
        });
    }
    if hash != plan_hash {
        return Err(EngineError::Mismatch {
            what: "plan",
            here: hex(&plan_hash),
            peer: hex(hash),
        });
    }
    let (client, server) = match party {
        Party::Client => (&nonce[..], peer_nonce),
        Party::Server => (peer_nonce, &nonce[..]),
    };
    let mut h = blake3::Hasher::new_derive_key("cipherloom session id v1");
    h.update(&plan_hash);
    h.update(client);
    h.update(server);
    Ok(SessionId(*h.finalize().as_bytes()))
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
