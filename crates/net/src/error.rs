//! Errors of the link.

use crate::frame::FrameKind;
use crate::tls::{utc, Pin};
use std::time::Duration;
use thiserror::Error;

/// What went wrong on the link. Messages carry the phase and the numbers, never a payload.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NetError {
    /// A wait (connect, accept, read or write) exceeded its deadline.
    #[error("phase {phase}: nothing happened for {waited:?}; is the peer still running?")]
    Timeout {
        /// Phase, and what was waited for.
        phase: String,
        /// How long the wait lasted.
        waited: Duration,
    },
    /// The session as a whole took longer than it may.
    #[error("phase {phase}: the session took longer than its limit allows; raise the limit, or use a faster link")]
    Overtime {
        /// Phase, and what was waited for.
        phase: String,
    },
    /// The connection was closed or reset.
    #[error("phase {phase}: the peer is gone (flight {flight}); start a new session")]
    PeerLost {
        /// Phase, and what was tried.
        phase: String,
        /// The last flight that this party took part in, both directions counted.
        flight: u64,
    },
    /// The peer reported an error and ended the session.
    #[error("the peer ended the session at its stage {stage} with code {code}")]
    Peer {
        /// The peer's stage.
        stage: u16,
        /// The peer's code.
        code: u16,
    },
    /// A message of another length than the plan says.
    #[error("phase {phase}: expected a {kind:?} message of {expected} bytes, got {got}")]
    Length {
        /// Phase.
        phase: String,
        /// Kind of the message.
        kind: FrameKind,
        /// Length that the plan says, in bytes (what was left of it, in a later frame).
        expected: u64,
        /// Length that was announced.
        got: u64,
    },
    /// A message of another kind than the plan says.
    #[error("phase {phase}: expected a {expected:?} message, got kind {got}")]
    Kind {
        /// Phase.
        phase: String,
        /// Expected kind.
        expected: FrameKind,
        /// Received kind byte.
        got: u8,
    },
    /// The parties are at different stages.
    #[error("phase {phase}: this party is at stage {expected}, the peer sent from stage {got}")]
    Stage {
        /// Phase.
        phase: String,
        /// Stage of this party.
        expected: u16,
        /// Stage in the frame.
        got: u16,
    },
    /// A frame was lost, repeated or reordered.
    #[error("phase {phase}: expected frame number {expected}, got {got}")]
    Sequence {
        /// Phase.
        phase: String,
        /// Expected number.
        expected: u32,
        /// Received number.
        got: u32,
    },
    /// The peer's flight number neither stayed nor grew by one.
    #[error("phase {phase}: the peer's flight went from {last} to {got}")]
    Flight {
        /// Phase.
        phase: String,
        /// Last flight number.
        last: u32,
        /// Received number.
        got: u32,
    },
    /// The peer speaks another version of the frame format.
    #[error("phase {phase}: frame version {expected} expected, got {got}; update the older side")]
    Version {
        /// Phase.
        phase: String,
        /// Version of this side.
        expected: u8,
        /// Received version.
        got: u8,
    },
    /// A message that is longer than a frame header can say, or than the channel allows.
    #[error("phase {phase}: a message of {len} bytes exceeds the limit of {max} bytes; split it")]
    TooLarge {
        /// Phase.
        phase: String,
        /// Length.
        len: u64,
        /// Limit.
        max: u64,
    },
    /// An earlier error broke this channel. A session is never resumed.
    #[error("phase {phase}: the channel is closed after an earlier error; start a new session")]
    Broken {
        /// Phase.
        phase: String,
    },
    /// The operating system refused something.
    #[error("{phase}: {detail}")]
    Io {
        /// Phase, and what was tried.
        phase: String,
        /// The system's message.
        detail: String,
    },
    /// Bytes were changed, lost, repeated or reordered on the way: the record authentication failed.
    #[error(
        "phase {phase}: the encrypted stream was altered on the way; start a new session, over another network if it \
         happens again"
    )]
    Altered {
        /// Phase, and what was tried.
        phase: String,
    },
    /// The TLS handshake failed for another reason than the certificate.
    #[error("TLS handshake: {detail}; check that the peer is a cipherloom of this release and the address is right")]
    TlsHandshake {
        /// What went wrong.
        detail: String,
    },
    /// The server shows another certificate than the pinned one.
    #[error(
        "the server's certificate has SHA-256 {got}, the pin is {expected}; ask the provider for a new bundle if the \
         certificate was replaced, otherwise somebody is between you and the server"
    )]
    PinMismatch {
        /// The pin.
        expected: Pin,
        /// What the server showed.
        got: Pin,
    },
    /// The server shows the pinned certificate and cannot sign with its key.
    #[error(
        "the server shows certificate {pin} but does not prove that it holds its private key ({detail}); somebody is \
         between you and the server, do not connect"
    )]
    NotKeyHolder {
        /// The certificate.
        pin: Pin,
        /// What the signature check says.
        detail: String,
    },
    /// The certificate is no longer valid.
    #[error(
        "the certificate expired at {}, it is {} now; publish again with a new certificate, or set the clock",
        utc(*not_after),
        utc(*now)
    )]
    Expired {
        /// Last second of validity, Unix time.
        not_after: i64,
        /// The time of the check, Unix time.
        now: i64,
    },
    /// The certificate is not valid yet.
    #[error(
        "the certificate is valid from {}, it is {} now; set the clock, or wait",
        utc(*not_before),
        utc(*now)
    )]
    NotYetValid {
        /// First second of validity, Unix time.
        not_before: i64,
        /// The time of the check, Unix time.
        now: i64,
    },
    /// A certificate, private key or pin that cannot be used.
    #[error("{what}: expected {expected}, got {got}")]
    Certificate {
        /// Which one (a file name, or a description).
        what: String,
        /// What is needed.
        expected: String,
        /// What is there. Never key material.
        got: String,
    },
}
