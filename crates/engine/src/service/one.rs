//! One connection, from its first byte to its end.

use super::metrics::Watch;
use super::Service;
use crate::handshake::HELLO_BYTES;
use crate::link::Link;
use crate::session::run_server;
use crate::{EngineError, PartyReport};
use cipherloom_net::{FrameKind, NetError, TcpTransport};
use serde::Serialize;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering;

/// How a session ended.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "lowercase", tag = "outcome")]
pub enum SessionResult {
    /// The client has its answer.
    Answered {
        /// The server's report.
        report: Box<PartyReport>,
    },
    /// It failed.
    Failed {
        /// The stage it was in.
        stage: String,
        /// What the peer was told.
        code: u16,
        /// Kind of the error.
        kind: &'static str,
    },
    /// It never began.
    Refused {
        /// Why.
        reason: &'static str,
    },
}

/// The end of one session.
#[derive(Debug, Clone, Serialize)]
pub struct SessionEnd {
    /// Its number, from 1; 0 for one that was refused.
    pub session: u64,
    /// How.
    #[serde(flatten)]
    pub result: SessionResult,
}

impl Service {
    /// Serves a connection. Nothing that a client does ends more than its own session.
    pub(super) fn connection(&self, tcp: TcpTransport) {
        let waits = &self.options.waits;
        let link = self
            .tls
            .accept(tcp, waits.connect)
            .map_err(EngineError::from)
            .and_then(|tls| Link::over_tls(tls, self.options.network, waits));
        let link = match link {
            Ok(link) => link,
            Err(e) => {
                // Whoever does not finish the TLS handshake is no client: a scanner, or one with another pin.
                self.metrics.refused("handshake");
                tracing::debug!(kind = e.kind(), "no TLS handshake");
                return;
            }
        };
        let place = match self.admission.enter() {
            _ if self.stopping.load(Ordering::SeqCst) => Err(("stopping", EngineError::Stopping)),
            Some(place) => Ok(place),
            None => Err(("busy", EngineError::Busy)),
        };
        let _place = match place {
            Ok(p) => p,
            Err((reason, error)) => {
                self.metrics.refused(reason);
                tracing::info!(reason, "session refused");
                refuse(link, &error);
                let end = SessionEnd {
                    session: 0,
                    result: SessionResult::Refused { reason },
                };
                return (self.on_end)(&end);
            }
        };
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        let mut watch = Watch::begin(&self.metrics, number);
        tracing::info!(session = number, "session begins");
        let options = self.session_options();
        // A defect in one session must not take the others down.
        let run = AssertUnwindSafe(|| run_server(link, &self.side, &options, &mut watch));
        let result = match catch_unwind(run) {
            Ok(Ok(outcome)) => SessionResult::Answered {
                report: Box::new(outcome.report),
            },
            Ok(Err(e)) => SessionResult::Failed {
                stage: watch.place().to_owned(),
                code: e.code(),
                kind: e.kind(),
            },
            Err(_) => SessionResult::Failed {
                stage: watch.place().to_owned(),
                code: u16::MAX,
                kind: "panic",
            },
        };
        match &result {
            SessionResult::Failed { stage, code, kind } => {
                tracing::warn!(session = number, stage, code, kind, "session failed");
            }
            _ => tracing::info!(session = number, "session answered"),
        }
        watch.end(&result);
        cipherloom_ring::heap::give_back();
        self.ended.fetch_add(1, Ordering::SeqCst);
        (self.on_end)(&SessionEnd {
            session: number,
            result,
        });
    }
}

/// Reads the hello, so that nothing unread resets the connection, and says no.
fn refuse(mut link: Link, error: &EngineError) {
    let mut hello = [0u8; HELLO_BYTES];
    let read: Result<(), NetError> = link.channel.recv_into(FrameKind::Hello, &mut hello);
    if read.is_ok() {
        // The client may be gone already.
        let _ = link.channel.send_error(error.code());
    }
}
