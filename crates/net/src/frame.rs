//! The frame format. A message is cut into frames of at most [`FRAME_PAYLOAD`] payload bytes.
//!
//! Header, little endian, 16 bytes: what is left of the message including this frame (`u32`), kind (`u8`),
//! version (`u8`), stage (`u16`), frame number in this direction (`u32`), sender's flight number (`u32`).

/// Bytes of a frame header.
pub const HEADER_BYTES: usize = 16;

/// Payload bytes of every frame of a message but the last one.
pub const FRAME_PAYLOAD: usize = 1 << 20;

/// Largest message that the header can describe.
pub const MAX_MESSAGE: u64 = u32::MAX as u64;

/// Version of the frame format.
pub const FRAME_VERSION: u8 = 1;

/// What a message carries. There is deliberately no kind for an intermediate share (protocols.md R5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FrameKind {
    /// Versions, plan hash, nonces.
    Hello,
    /// Public and evaluation keys of the client.
    Setup,
    /// The server's share of the client's input: a uniform vector that the client draws (protocols.md R14).
    Input,
    /// Fresh (seeded) encryptions, client to server.
    Ciphertext,
    /// Masked and re-randomised ciphertexts, to the key's owner (protocols.md R1).
    Exported,
    /// Oblivious-transfer messages and openings masked by fresh correlations.
    Ot,
    /// The server's share of the final answer (protocols.md R4).
    Output,
    /// Stage and code of a failure, nothing else (protocols.md R12).
    Error,
    /// The end of a session.
    Bye,
}

impl FrameKind {
    /// The byte on the wire.
    #[must_use]
    pub fn byte(self) -> u8 {
        match self {
            Self::Hello => 1,
            Self::Setup => 2,
            Self::Ciphertext => 3,
            Self::Exported => 4,
            Self::Ot => 5,
            Self::Output => 6,
            Self::Error => 7,
            Self::Bye => 8,
            Self::Input => 9,
        }
    }
}

/// One parsed header. The kind stays a raw byte: the receiver compares it with the one it expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub remaining: u32,
    pub kind: u8,
    pub version: u8,
    pub stage: u16,
    pub sequence: u32,
    pub flight: u32,
}

impl Header {
    pub fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut h = [0u8; HEADER_BYTES];
        h[0..4].copy_from_slice(&self.remaining.to_le_bytes());
        h[4] = self.kind;
        h[5] = self.version;
        h[6..8].copy_from_slice(&self.stage.to_le_bytes());
        h[8..12].copy_from_slice(&self.sequence.to_le_bytes());
        h[12..16].copy_from_slice(&self.flight.to_le_bytes());
        h
    }

    pub fn parse(h: &[u8; HEADER_BYTES]) -> Self {
        Self {
            remaining: u32::from_le_bytes([h[0], h[1], h[2], h[3]]),
            kind: h[4],
            version: h[5],
            stage: u16::from_le_bytes([h[6], h[7]]),
            sequence: u32::from_le_bytes([h[8], h[9], h[10], h[11]]),
            flight: u32::from_le_bytes([h[12], h[13], h[14], h[15]]),
        }
    }
}

/// Bytes on the wire of a message of `payload` bytes: the payload and one header for every started
/// [`FRAME_PAYLOAD`] bytes, at least one.
#[must_use]
pub fn message_bytes(payload: u64) -> u64 {
    payload + HEADER_BYTES as u64 * payload.div_ceil(FRAME_PAYLOAD as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_the_wire() {
        let h = Header {
            remaining: 0x0102_0304,
            kind: 5,
            version: 1,
            stage: 0xabcd,
            sequence: 77,
            flight: 0xffff_fff0,
        };
        assert_eq!(Header::parse(&h.bytes()), h);
    }

    #[test]
    fn message_bytes_counts_one_header_a_frame() {
        assert_eq!(message_bytes(0), 16);
        assert_eq!(message_bytes(1), 17);
        assert_eq!(message_bytes(1 << 20), (1 << 20) + 16);
        assert_eq!(message_bytes((1 << 20) + 1), (1 << 20) + 33);
    }
}
