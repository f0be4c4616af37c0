//! The client's check of the server: pin, dates, handshake signature.

use super::pin::Pin;
use super::validity::Validity;
use crate::error::NetError;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{verify_tls13_signature, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, PeerIncompatible, SignatureScheme,
};
use std::sync::Arc;

/// Accepts exactly one certificate, while it is valid, from whoever signs the handshake with its key.
#[derive(Debug)]
pub(super) struct PinnedVerifier {
    pub pin: Pin,
    pub algorithms: WebPkiSupportedAlgorithms,
}

/// Carries a typed error through the TLS library.
fn refuse(e: NetError) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(e))))
}

/// The typed error of a failed handshake.
pub(super) fn handshake_error(e: &Error) -> NetError {
    if let Error::InvalidCertificate(CertificateError::Other(o)) = e {
        if let Some(typed) = o.0.downcast_ref::<NetError>() {
            return typed.clone();
        }
    }
    NetError::TlsHandshake {
        detail: match e {
            Error::AlertReceived(alert) => format!("the peer refused with alert {alert:?}"),
            e => e.to_string(),
        },
    }
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // First the pin: what is parsed afterwards is what the provider published.
        let got = Pin::of_certificate(end_entity);
        if !self.pin.matches(&got) {
            return Err(refuse(NetError::PinMismatch {
                expected: self.pin,
                got,
            }));
        }
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        Validity::of_certificate("server certificate", end_entity)
            .and_then(|v| v.check(now))
            .map_err(refuse)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms).map_err(|e| {
            refuse(NetError::NotKeyHolder {
                pin: self.pin,
                detail: e.to_string(),
            })
        })
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
