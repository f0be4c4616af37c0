//! A server's certificate chain and private key.

use super::pin::Pin;
use super::validity::Validity;
use crate::error::NetError;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use zeroize::{Zeroize, Zeroizing};

/// Largest certificate or key file that is read.
const MAX_FILE: u64 = 1 << 20;
/// Most certificates of a chain.
const MAX_CHAIN: usize = 10;
/// A self-signed certificate is valid from this long ago on, for clients whose clock is behind.
const CLOCK_MARGIN: Duration = Duration::from_secs(24 * 3600);
/// About 1000 years: dates stay below the year 10000, which certificates cannot express.
const MAX_DAYS: u32 = 365_000;
const PEM_BEGIN: &[u8] = b"-----BEGIN ";

/// A certificate chain (leaf first) and the private key of the leaf, checked to belong together. The raw key bytes
/// are wiped once the signer is built; the signer itself holds the key until it is dropped and cannot be wiped (it is
/// inside the TLS library). Neither `Debug` nor any error shows key material.
pub struct TlsIdentity {
    certified: Arc<CertifiedKey>,
    pin: Pin,
    validity: Validity,
}

/// A new identity as text, to be stored.
pub struct IdentityPem {
    /// The certificate, public.
    pub certificate: String,
    /// The private key (PKCS #8), wiped on drop. Write it to a file that only its owner can read (mode 0600).
    pub private_key: Zeroizing<String>,
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIdentity")
            .field("pin", &self.pin)
            .field("validity", &self.validity)
            .finish_non_exhaustive()
    }
}

fn unusable(what: &str, expected: &str, got: impl fmt::Display) -> NetError {
    NetError::Certificate {
        what: what.to_owned(),
        expected: expected.to_owned(),
        got: got.to_string(),
    }
}

/// What the PEM reader says, without the bytes that it saw.
fn pem_fault(e: &pem::Error) -> &'static str {
    match e {
        pem::Error::MissingSectionEnd { .. } => "a PEM section without its END line",
        pem::Error::IllegalSectionStart { .. } => "a malformed BEGIN line",
        pem::Error::Base64Decode(_) => "a PEM section that is not base64",
        pem::Error::NoItemsFound => "no such PEM section",
        _ => "malformed PEM",
    }
}

fn read_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, NetError> {
    let name = path.display().to_string();
    let io = |e: std::io::Error| NetError::Io {
        phase: name.clone(),
        detail: e.to_string(),
    };
    let file = std::fs::File::open(path).map_err(io)?;
    // The whole capacity at once: a buffer that grows would leave unwiped copies behind.
    let len = file.metadata().map_err(io)?.len().min(MAX_FILE);
    let mut bytes = Zeroizing::new(Vec::with_capacity(len as usize + 1));
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(io)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(unusable(&name, "a file of at most 1 MiB", "a larger one"));
    }
    Ok(bytes)
}

fn is_pem(bytes: &[u8]) -> bool {
    bytes.windows(PEM_BEGIN.len()).any(|w| w == PEM_BEGIN)
}

fn parse_chain(what: &str, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, NetError> {
    let expected = "one to ten certificates, leaf first, in PEM (or one in DER)";
    let chain = if bytes.is_empty() || is_pem(bytes) {
        CertificateDer::pem_slice_iter(bytes)
            .take(MAX_CHAIN + 1)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| unusable(what, expected, pem_fault(&e)))?
    } else {
        vec![CertificateDer::from(bytes.to_vec())]
    };
    if chain.is_empty() || chain.len() > MAX_CHAIN {
        return Err(unusable(
            what,
            expected,
            format_args!("{} certificates", chain.len()),
        ));
    }
    Ok(chain)
}

/// A key that is wiped on drop.
struct WipedKey(PrivateKeyDer<'static>);

impl Drop for WipedKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

fn parse_key(what: &str, bytes: &[u8]) -> Result<WipedKey, NetError> {
    let expected = "a private key in PEM or DER (PKCS #8, PKCS #1 or SEC1, not encrypted)";
    let key = if is_pem(bytes) {
        PrivateKeyDer::from_pem_slice(bytes).map_err(|e| unusable(what, expected, pem_fault(&e)))?
    } else {
        PrivateKeyDer::try_from(bytes)
            .map_err(|_| unusable(what, expected, "something else"))?
            .clone_key()
    };
    Ok(WipedKey(key))
}

impl TlsIdentity {
    /// Reads a certificate chain and a private key from files, each PEM or DER. Ed25519, ECDSA (P-256, P-384) and RSA
    /// keys work.
    ///
    /// # Errors
    /// `Io`; `Certificate` when a file is too large or malformed, the kind of key is not supported, or the key is not
    /// that of the leaf. Dates are not checked here but by [`TlsAcceptor::new`](super::TlsAcceptor::new).
    pub fn from_files(certificate: &Path, private_key: &Path) -> Result<Self, NetError> {
        Self::build(
            &certificate.display().to_string(),
            &read_file(certificate)?,
            &private_key.display().to_string(),
            &read_file(private_key)?,
        )
    }

    /// As [`TlsIdentity::from_files`], from the contents of the files.
    ///
    /// # Errors
    /// `Certificate`.
    pub fn from_bytes(certificate: &[u8], private_key: &[u8]) -> Result<Self, NetError> {
        Self::build(
            "server certificate",
            certificate,
            "server private key",
            private_key,
        )
    }

    fn build(cert_name: &str, cert: &[u8], key_name: &str, key: &[u8]) -> Result<Self, NetError> {
        let chain = parse_chain(cert_name, cert)?;
        let key = parse_key(key_name, key)?;
        let signer = any_supported_type(&key.0).map_err(|_| {
            unusable(
                key_name,
                "an Ed25519, ECDSA P-256, ECDSA P-384 or RSA private key",
                "a key of another kind, or a damaged one",
            )
        })?;
        let leaf = chain[0].clone();
        let validity = Validity::of_certificate(cert_name, &leaf)?;
        let certified = CertifiedKey::new(chain, signer);
        certified.keys_match().map_err(|e| {
            let got = match e {
                rustls::Error::InconsistentKeys(_) => "the key of another certificate".to_owned(),
                e => e.to_string(),
            };
            unusable(
                key_name,
                &format!("the private key of the first certificate in {cert_name}"),
                got,
            )
        })?;
        Ok(Self {
            certified: Arc::new(certified),
            pin: Pin::of_certificate(&leaf),
            validity,
        })
    }

    /// Makes a new Ed25519 key and a self-signed certificate for it, valid from a day ago for `days` days from now.
    /// `names` (host names or addresses) are for people and other tools: clients check the pin, not the names.
    /// Ed25519 signatures have one length, so handshake records have the same sizes in every session.
    ///
    /// # Errors
    /// `Certificate` for a name that no certificate can hold, or for 0 or more than 365000 days.
    pub fn self_signed(names: &[&str], days: u32) -> Result<(Self, IdentityPem), NetError> {
        let what = "new certificate";
        if days == 0 || days > MAX_DAYS {
            return Err(unusable(
                what,
                "1 to 365000 days of validity",
                format_args!("{days}"),
            ));
        }
        let failed = |e: rcgen::Error| unusable(what, "names of hosts or addresses", e);
        let names: Vec<String> = names.iter().map(|&s| s.to_owned()).collect();
        let mut params = rcgen::CertificateParams::new(names).map_err(failed)?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, "cipherloom server");
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        params.not_before = epoch + now.saturating_sub(CLOCK_MARGIN);
        params.not_after = epoch + now + Duration::from_secs(u64::from(days) * 24 * 3600);
        let mut key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).map_err(failed)?;
        let certificate = params.self_signed(&key).map_err(failed);
        let private_key = Zeroizing::new(key.serialize_pem());
        key.zeroize();
        let certificate = certificate?;
        let pem = IdentityPem {
            certificate: certificate.pem(),
            private_key,
        };
        let identity = Self::from_bytes(certificate.der(), pem.private_key.as_bytes())?;
        Ok((identity, pem))
    }

    /// SHA-256 of the leaf certificate: what clients pin.
    #[must_use]
    pub fn fingerprint(&self) -> Pin {
        self.pin
    }

    /// The validity dates of the leaf.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.validity
    }

    pub(super) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn refusal(certificate: &[u8], key: &[u8]) -> (String, String) {
        match TlsIdentity::from_bytes(certificate, key) {
            Err(NetError::Certificate { what, got, .. }) => (what, got),
            other => (String::new(), format!("{other:?}")),
        }
    }

    #[test]
    fn an_identity_is_read_back_from_files_in_pem_and_der() {
        let (a, pem) = TlsIdentity::self_signed(&["localhost", "127.0.0.1"], 30).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (c, k) = (dir.path().join("c"), dir.path().join("k"));
        std::fs::write(&c, &pem.certificate).unwrap();
        std::fs::write(&k, pem.private_key.as_bytes()).unwrap();
        let b = TlsIdentity::from_files(&c, &k).unwrap();
        assert_eq!(a.fingerprint(), b.fingerprint());
        assert_eq!(a.validity(), b.validity());
        let v = a.validity();
        assert_eq!(v.not_after - v.not_before, 31 * 86400);
        let der = CertificateDer::from_pem_slice(pem.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(pem.private_key.as_bytes()).unwrap();
        std::fs::write(&c, &der).unwrap();
        std::fs::write(&k, key.secret_der()).unwrap();
        let d = TlsIdentity::from_files(&c, &k).unwrap();
        assert_eq!(a.fingerprint(), d.fingerprint());
        assert_eq!(a.fingerprint(), Pin::of_certificate(&der));
        let (e, _) = TlsIdentity::self_signed(&["localhost", "127.0.0.1"], 30).unwrap();
        assert_ne!(a.fingerprint(), e.fingerprint(), "a fresh key each time");
        assert!(!format!("{a:?}").contains("key"));
    }

    #[test]
    fn unusable_files_are_named() {
        let (_, a) = TlsIdentity::self_signed(&["a"], 1).unwrap();
        let (_, b) = TlsIdentity::self_signed(&["b"], 1).unwrap();
        let (cert, key) = (a.certificate.as_bytes(), a.private_key.as_bytes());
        let (what, got) = refusal(cert, b.private_key.as_bytes());
        assert_eq!(what, "server private key");
        assert_eq!(got, "the key of another certificate");
        let (what, got) = refusal(b"", key);
        assert_eq!((&*what, &*got), ("server certificate", "0 certificates"));
        let (what, got) = refusal(key, key);
        assert_eq!((&*what, &*got), ("server certificate", "0 certificates"));
        let (what, got) = refusal(cert, cert);
        assert_eq!(
            (&*what, &*got),
            ("server private key", "no such PEM section")
        );
        assert_eq!(refusal(cert, b"\x30\x03abc").0, "server private key");
        assert_eq!(refusal(b"\x30\x03abc", key).0, "server certificate");
        assert_eq!(
            refusal(&cert[..cert.len() / 2], key).0,
            "server certificate"
        );
        assert_eq!(refusal(cert, &key[..key.len() / 2]).0, "server private key");
        let many = a.certificate.repeat(MAX_CHAIN + 1);
        assert_eq!(refusal(many.as_bytes(), key).1, "11 certificates");
        for days in [0, MAX_DAYS + 1] {
            assert!(matches!(
                TlsIdentity::self_signed(&["a"], days).map(|_| ()),
                Err(NetError::Certificate { .. })
            ));
        }
        assert!(TlsIdentity::self_signed(&["a"], MAX_DAYS).is_ok());
        assert!(matches!(
            TlsIdentity::self_signed(&["bücher"], 1).map(|_| ()),
            Err(NetError::Certificate { .. })
        ));
        let dir = tempfile::tempdir().unwrap();
        let large = dir.path().join("large");
        std::fs::write(&large, vec![b'x'; MAX_FILE as usize + 1]).unwrap();
        assert!(matches!(
            TlsIdentity::from_files(&large, &large),
            Err(NetError::Certificate { .. })
        ));
        assert!(matches!(
            TlsIdentity::from_files(&dir.path().join("none"), &large),
            Err(NetError::Io { .. })
        ));
    }
}
