//! One connection, from its first byte to its end.

use super::metrics::Watch;
use super::{Connection, Service};
use crate::link::Link;
use crate::session::run_server;
use crate::{EngineError, PartyReport};
use cipherloom_net::TcpTransport;
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
        /// In what the parties differ, for a `mismatch`.
        #[serde(skip_serializing_if = "Option::is_none")]
        what: Option<&'static str>,
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
    pub(super) fn connection(&self, tcp: TcpTransport, connection: &Connection) {
        let waits = &self.options.waits;
        let link = self
            .tls
            .accept(tcp, waits.connect)
            .map_err(EngineError::from)
            .and_then(|tls| Link::over_tls(tls, self.options.network, waits));
        let mut link = match link {
            Ok(link) => link,
            Err(e) => {
                // Whoever does not finish the TLS handshake is no client: a scanner, or one with another pin.
                self.metrics.refused("handshake");
                tracing::debug!(kind = e.kind(), "no TLS handshake");
                return;
            }
        };
        // No hello, no place: whoever connects and says nothing takes nothing from others.
        if let Err(e) = link.await_hello(waits.connect.min(waits.message)) {
            self.metrics.refused("hello");
            tracing::debug!(kind = e.kind(), "no hello");
            // The client may be gone already.
            let _ = link.channel.send_error(e.code());
            return;
        }
        let place = match self.admission.enter() {
            _ if self.stopping.load(Ordering::SeqCst) => Err(("stopping", EngineError::Stopping)),
            Some(place) => Ok(place),
            None => Err(("busy", EngineError::Busy)),
        };
        let place = match place {
            Ok(p) => p,
            Err((reason, error)) => {
                self.metrics.refused(reason);
                tracing::info!(reason, "session refused");
                let _ = link.channel.send_error(error.code());
                let end = SessionEnd {
                    session: 0,
                    result: SessionResult::Refused { reason },
                };
                return (self.on_end)(&end);
            }
        };
        connection.admitted();
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
                what: e.difference(),
            },
            Err(_) => SessionResult::Failed {
                stage: watch.place().to_owned(),
                code: u16::MAX,
                kind: "panic",
                what: None,
            },
        };
        match &result {
            SessionResult::Failed {
                stage,
                code,
                kind,
                what,
            } => {
                tracing::warn!(session = number, stage, code, kind, what, "session failed");
            }
            _ => tracing::info!(session = number, "session answered"),
        }
        watch.end(&result);
        cipherloom_ring::heap::give_back();
        self.ended.fetch_add(1, Ordering::SeqCst);
        // Whoever reads the reports may be slow; that must not keep the next client out.
        drop(place);
        (self.on_end)(&SessionEnd {
            session: number,
            result,
        });
    }
}
