//! `/metrics` and `/health` over HTTP, on an address of its own that clients need not reach.

use super::Metrics;
use crate::EngineError;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;
use tiny_http::{Header, Method, Request, Response, Server};

const POLL: Duration = Duration::from_millis(200);
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A listening metrics endpoint.
pub struct MetricsEndpoint {
    server: Server,
}

impl MetricsEndpoint {
    /// Binds; port 0 for any free port.
    ///
    /// # Errors
    /// `File` with the address and the system's message.
    pub fn bind(addr: SocketAddr) -> Result<Self, EngineError> {
        let server = Server::http(addr).map_err(|e| EngineError::File {
            path: addr.to_string(),
            detail: e.to_string(),
        })?;
        Ok(Self { server })
    }

    /// The bound address.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.server.server_addr().to_ip()
    }

    /// Answers requests until `stop` is true, one after the other.
    pub fn run(&self, metrics: &Arc<Metrics>, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            match self.server.recv_timeout(POLL) {
                Ok(Some(request)) => answer(request, metrics),
                Ok(None) => {}
                Err(_) => std::thread::sleep(POLL),
            }
        }
    }
}

fn answer(request: Request, metrics: &Metrics) {
    let get = *request.method() == Method::Get;
    let path = request.url().split('?').next().unwrap_or_default();
    let response = match path {
        "/metrics" if get => {
            let mut r = Response::from_string(metrics.text());
            if let Ok(h) = Header::from_bytes("Content-Type", CONTENT_TYPE) {
                r.add_header(h);
            }
            r
        }
        "/health" if get => Response::from_string("ok\n"),
        _ => Response::from_string("only GET /metrics and GET /health\n").with_status_code(404),
    };
    // The scraper may be gone.
    let _ = request.respond(response);
}
