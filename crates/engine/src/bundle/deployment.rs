//! The folder for the server.

use super::client::{agree, agree_debug, read_plan};
use super::sealed::{self, Sealed};
use super::{files, BundleError, CERTIFICATE_FILE, DEPLOYMENT_FILE, KEY_FILE, PLAN_FILE};
use crate::handshake::hex;
use crate::keystore::parse_hex;
use cipherloom_model::Mamba2;
use cipherloom_plan::{ModelShape, Plan};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `deployment.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeploymentDocument {
    /// Always `cipherloom-deployment`.
    pub format: String,
    /// Always 1.
    pub version: u32,
    /// Hash of the plan, in hexadecimal.
    pub plan_hash: String,
    /// [`Mamba2::checksum`] of the weights, in hexadecimal.
    pub weights_checksum: String,
    /// SHA-256 of the certificate that clients expect, in hexadecimal.
    pub pin: String,
    /// BLAKE3 of this document with an empty digest, in hexadecimal.
    pub digest: String,
}

impl Sealed for DeploymentDocument {
    const FORMAT: &'static str = "cipherloom-deployment";
    const VERSION: u32 = 1;
    fn seal(&mut self) -> &mut String {
        &mut self.digest
    }
}

/// A validated deployment.
#[derive(Debug)]
pub struct Deployment {
    /// The plan, derived again.
    pub plan: Arc<Plan>,
    /// SHA-256 of the certificate that clients expect: compare it with the certificate that is served.
    pub pin: [u8; 32],
    /// Where the certificate is.
    pub certificate: PathBuf,
    /// Where its private key is.
    pub key: PathBuf,
}

impl Deployment {
    /// Reads the server's folder and checks that plan and weights belong together. Certificate and key are not read here;
    /// other files are left alone.
    ///
    /// # Errors
    /// A [`BundleError`] that names the file and what differs.
    pub fn load(dir: &Path, model: &Mamba2) -> Result<Self, BundleError> {
        let path = dir.join(DEPLOYMENT_FILE);
        let document: DeploymentDocument =
            sealed::read(&path, &files::read(&path, sealed::MAX_BYTES)?)?;
        let plan_path = dir.join(PLAN_FILE);
        let limit = cipherloom_plan::document::MAX_BYTES as u64;
        let plan = read_plan(&plan_path, &files::read(&plan_path, limit)?)?;
        agree(&path, "plan hash", &document.plan_hash, &hex(&plan.hash()))?;
        check_model(&path, &plan, model)?;
        let checksum = checksum(model);
        if document.weights_checksum != checksum {
            return Err(BundleError::invalid(
                &path,
                format!(
                    "made for weights with checksum {}, this model has {checksum}; serve the model that was published, or \
                     publish again",
                    document.weights_checksum
                ),
            ));
        }
        let pin = parse_hex(&document.pin).ok_or_else(|| {
            BundleError::invalid(&path, "the pin is not 64 lower-case hexadecimal digits")
        })?;
        Ok(Self {
            plan: Arc::new(plan),
            pin,
            certificate: dir.join(CERTIFICATE_FILE),
            key: dir.join(KEY_FILE),
        })
    }
}

/// The weights' checksum as written.
pub(super) fn checksum(model: &Mamba2) -> String {
    format!("{:016x}", model.checksum())
}

/// The plan is for this model's shape and labels.
pub(super) fn check_model(path: &Path, plan: &Plan, model: &Mamba2) -> Result<(), BundleError> {
    let r = plan.request();
    let shape = ModelShape::of(&r.shape.name, &model.config);
    agree_debug(path, "model shape", &shape, &r.shape)?;
    agree_debug(path, "labels", &model.config.labels, &r.labels)
}
