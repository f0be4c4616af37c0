//! Errors of the command line and their exit codes.

use cipherloom_engine::bundle::BundleError;
use cipherloom_engine::service::NoRoom;
use cipherloom_engine::EngineError;
use cipherloom_model::{ModelError, Side};
use cipherloom_plan::PlanError;
use thiserror::Error;

/// What a command can end with. Exit code 2: the user's input; 3: the peer or the link.
#[derive(Debug, Error)]
pub enum CliError {
    /// A session or a stage.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The model folder, the data or the text.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Planning.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A bundle or a deployment.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// Limits of a service.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// A text that must be cut, without permission.
    #[error(
        "the text has {tokens} tokens, this deployment takes {fit}; give --truncate to drop tokens at the {side}, or ask the \
         provider for a longer one"
    )]
    TooLong {
        /// Tokens of the text.
        tokens: usize,
        /// Tokens that fit.
        fit: usize,
        /// What would be cut.
        side: Side,
    },
    /// An argument.
    #[error("{argument}: {detail}")]
    Argument {
        /// Which.
        argument: &'static str,
        /// Given value and what is allowed.
        detail: String,
    },
    /// A local file.
    #[error("{path}: {detail}")]
    File {
        /// Path.
        path: String,
        /// System message.
        detail: String,
    },
    /// The two parties' reports differ.
    #[error("the reports of the two parties differ: {0}")]
    Reports(String),
}

impl CliError {
    /// The process's exit code.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Engine(e) if e.is_peer() => 3,
            Self::Reports(_) => 3,
            _ => 2,
        }
    }
}

impl From<cipherloom_spec::SpecError> for CliError {
    fn from(e: cipherloom_spec::SpecError) -> Self {
        Self::Plan(e.into())
    }
}

/// A file error with its path.
pub fn file_error(path: &std::path::Path, e: impl std::fmt::Display) -> CliError {
    CliError::File {
        path: path.display().to_string(),
        detail: e.to_string(),
    }
}
