//! Framed, counted channels between two parties.

use thiserror::Error;

/// What went wrong on the link.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NetError {
    /// The peer closed the connection.
    #[error("the peer closed the connection in phase {phase}")]
    Closed {
        /// Phase name.
        phase: String,
    },
}
