//! Errors of bundles and deployments.

use cipherloom_model::ModelError;
use cipherloom_plan::PlanError;
use std::path::Path;
use thiserror::Error;

/// Why a folder cannot be published, or is refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BundleError {
    /// Reading or writing a file.
    #[error("{path}: {detail}")]
    Io {
        /// Path.
        path: String,
        /// System message.
        detail: String,
    },
    /// A certificate or private key that cannot be used.
    #[error("{0}")]
    Identity(String),
    /// A file that must be there.
    #[error("{path} is missing; get the folder again from the model's provider")]
    Missing {
        /// Path.
        path: String,
    },
    /// A file that has no place in this folder.
    #[error("{path} does not belong here: this folder holds {allowed} and nothing else")]
    Unexpected {
        /// Path.
        path: String,
        /// What belongs there.
        allowed: String,
    },
    /// A file that is a link, a folder or a device.
    #[error("{path} is not an ordinary file")]
    NotAFile {
        /// Path.
        path: String,
    },
    /// A file of another length than allowed or stated.
    #[error("{path} has {got} bytes, {expected}")]
    Length {
        /// Path.
        path: String,
        /// Its bytes.
        got: u64,
        /// What is right.
        expected: String,
    },
    /// A file that was changed.
    #[error("{path} has digest {got}, the bundle says {expected}; get the folder again from the model's provider")]
    Digest {
        /// Path.
        path: String,
        /// Computed.
        got: String,
        /// Stated.
        expected: String,
    },
    /// A file that is not what this release reads.
    #[error("{path}: {reason}")]
    Invalid {
        /// Path.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// A format or version that this release does not know.
    #[error("{path} is {format:?} version {version}; this release reads {known_format:?} version {known}; use a matching release")]
    Version {
        /// Path.
        path: String,
        /// Its format.
        format: String,
        /// Its version.
        version: u64,
        /// Own format.
        known_format: &'static str,
        /// Own version.
        known: u32,
    },
    /// Two parts that must agree.
    #[error("{what}: {path} says {given}, the plan says {planned}; publish again")]
    Differs {
        /// What.
        what: &'static str,
        /// Where.
        path: String,
        /// There.
        given: String,
        /// In the plan.
        planned: String,
    },
    /// A plan that does not meet the client's own limits.
    #[error("{path}: {what} is {have}, {need} is needed; do not use this plan")]
    Weak {
        /// Path.
        path: String,
        /// What.
        what: &'static str,
        /// The plan's.
        have: String,
        /// What is needed.
        need: String,
    },
    /// The folder to write exists.
    #[error("{path} exists; remove it or publish to another folder")]
    Exists {
        /// Path.
        path: String,
    },
    /// The plan does not follow from its request, or breaks a limit.
    #[error("{path}: {source}")]
    Plan {
        /// Path.
        path: String,
        /// Cause.
        source: PlanError,
    },
    /// The model folder.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl BundleError {
    pub(super) fn io(path: &Path, e: &std::io::Error) -> Self {
        Self::Io {
            path: path.display().to_string(),
            detail: e.to_string(),
        }
    }

    pub(super) fn invalid(path: &Path, reason: impl ToString) -> Self {
        Self::Invalid {
            path: path.display().to_string(),
            reason: reason.to_string(),
        }
    }
}
