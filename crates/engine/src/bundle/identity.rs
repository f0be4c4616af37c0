//! The server's certificate and key, beside its plan.

use super::publish::{make_server_dir, publish_loaded, Published};
use super::{files, BundleError, Deployment, CERTIFICATE_FILE, KEY_FILE};
use cipherloom_model::Mamba2;
use cipherloom_net::{NetError, Pin, TlsAcceptor, TlsIdentity, Validity};
use cipherloom_plan::Plan;
use std::path::Path;
use zeroize::Zeroizing;

/// Largest certificate or key file.
const PEM_LIMIT: u64 = 1 << 20;

/// Where a server's certificate and key come from.
#[derive(Debug, Clone, Copy)]
pub enum IdentitySource<'a> {
    /// Given files, PEM or DER.
    Files {
        /// Certificate chain, leaf first.
        certificate: &'a Path,
        /// The leaf's private key.
        key: &'a Path,
    },
    /// A new key with a self-signed certificate. Clients trust it by its pin.
    SelfSigned {
        /// Host names, for people and other tools.
        names: &'a [&'a str],
        /// Days of validity.
        days: u32,
    },
}

/// Both folders with the server's identity in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployed {
    /// The folders.
    pub folders: Published,
    /// SHA-256 of the certificate.
    pub pin: Pin,
    /// Its last second of validity, Unix time.
    pub validity: Validity,
}

impl From<NetError> for BundleError {
    fn from(e: NetError) -> Self {
        Self::Identity(e.to_string())
    }
}

/// Publishes a model and puts certificate and key into the server's folder (mode 0600).
///
/// # Errors
/// Those of [`publish_loaded`]; a certificate or key that cannot be used, or is not valid now. Nothing stays behind.
pub fn deploy(
    model_dir: &Path,
    model: &Mamba2,
    plan: &Plan,
    source: IdentitySource<'_>,
    out: &Path,
) -> Result<Deployed, BundleError> {
    let (identity, certificate, key) = match source {
        IdentitySource::Files { certificate, key } => {
            let identity = TlsIdentity::from_files(certificate, key)?;
            let certificate = files::read_source(certificate, PEM_LIMIT)?;
            let key = Zeroizing::new(files::read_source(key, PEM_LIMIT)?);
            (identity, certificate, key)
        }
        IdentitySource::SelfSigned { names, days } => {
            let (identity, pem) = TlsIdentity::self_signed(names, days)?;
            let key = Zeroizing::new(pem.private_key.as_bytes().to_vec());
            (identity, pem.certificate.into_bytes(), key)
        }
    };
    let (pin, validity) = (identity.fingerprint(), identity.validity());
    // Refuses a certificate that no client would accept.
    TlsAcceptor::new(identity)?;
    let server = out.join("server");
    make_server_dir(&server)?;
    let paths = [server.join(CERTIFICATE_FILE), server.join(KEY_FILE)];
    files::write_new(&paths[0], &certificate)?;
    let written = files::write_private(&paths[1], &key)
        .and_then(|()| publish_loaded(model_dir, model, plan, &pin.bytes(), out));
    match written {
        Ok(folders) => Ok(Deployed {
            folders,
            pin,
            validity,
        }),
        Err(e) => {
            // A key of a deployment that is none would only lie about.
            for p in &paths {
                let _ = std::fs::remove_file(p);
            }
            Err(e)
        }
    }
}

impl Deployment {
    /// Reads certificate and key: what turns accepted connections into TLS connections.
    ///
    /// # Errors
    /// `Identity` for unusable files or a certificate that is not valid now; `Invalid` for another certificate than clients
    /// expect.
    pub fn acceptor(&self) -> Result<TlsAcceptor, BundleError> {
        let identity = TlsIdentity::from_files(&self.certificate, &self.key)?;
        let (found, expected) = (identity.fingerprint(), Pin::from_bytes(self.pin));
        if found != expected {
            return Err(BundleError::invalid(
                &self.certificate,
                format!(
                    "its SHA-256 is {found}, clients of this deployment expect {expected}; put the published certificate \
                     back, or publish again"
                ),
            ));
        }
        Ok(TlsAcceptor::new(identity)?)
    }

    /// Whether others than its owner can read the private key.
    #[must_use]
    pub fn key_is_exposed(&self) -> bool {
        files::readable_by_others(&self.key)
    }
}
