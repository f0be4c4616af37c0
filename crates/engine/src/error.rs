//! Errors of a run.

use crate::bundle::BundleError;
use crate::keystore::KeyStoreError;
use cipherloom_bridge::BridgeError;
use cipherloom_ckks::CkksError;
use cipherloom_kernels::KernelError;
use cipherloom_model::ModelError;
use cipherloom_mpc::MpcError;
use cipherloom_net::NetError;
use cipherloom_nonlinear::NonlinearError;
use cipherloom_plan::{Plan, PlanError, OFFLINE_STAGE, SETUP_STAGE};
use thiserror::Error;

/// Why a session ended early. What the peer is told is the stage and [`EngineError::code`], nothing else.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The link or the peer.
    #[error(transparent)]
    Net(#[from] NetError),
    /// Two-party computation.
    #[error(transparent)]
    Mpc(#[from] MpcError),
    /// CKKS.
    #[error(transparent)]
    Ckks(#[from] CkksError),
    /// Conversion between CKKS and shares.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    /// An encrypted kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A nonlinear function.
    #[error(transparent)]
    Nonlinear(#[from] NonlinearError),
    /// The model folder or the text.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The key store, or keys that it refused.
    #[error(transparent)]
    KeyStore(#[from] KeyStoreError),
    /// A client bundle or a deployment folder. Boxed: it is the largest of all.
    #[error(transparent)]
    Bundle(Box<BundleError>),
    /// A measurement that cannot be made.
    #[error("cannot measure: {detail}")]
    Measure {
        /// Why, and what is allowed.
        detail: String,
    },
    /// The two parties do not run the same thing.
    #[error("the parties differ in {what}: here {here}, at the peer {peer}; use the same release and the same plan")]
    Mismatch {
        /// What differs.
        what: &'static str,
        /// Own value.
        here: String,
        /// Peer's value.
        peer: String,
    },
    /// An executed stage differs from its description in the plan.
    #[error("stage {stage}: {field} executed {executed}, planned {planned}")]
    NotAsPlanned {
        /// Stage name.
        stage: String,
        /// Which count.
        field: &'static str,
        /// Counted.
        executed: u64,
        /// Predicted.
        planned: u64,
    },
    /// A tensor that a stage needs is not there or has the wrong length: the plan's stages are out of order.
    #[error("stage {stage}: tensor {tensor:?} has {have} values, {need} are needed")]
    Tensor {
        /// Stage name.
        stage: String,
        /// Tensor name.
        tensor: &'static str,
        /// Values there are.
        have: usize,
        /// Values needed.
        need: usize,
    },
    /// Reading or writing a local file.
    #[error("{path}: {detail}")]
    File {
        /// Path.
        path: String,
        /// System message.
        detail: String,
    },
    /// An unknown link profile.
    #[error("network {name:?} is not known; use none, lan, wan1, wan2 or wan3")]
    Network {
        /// Given name.
        name: String,
    },
    /// The system gave no randomness.
    #[error("no randomness from the operating system: {0}")]
    Entropy(String),
    /// The server is at its limit of sessions or memory.
    #[error("the server is at its limit of sessions or memory")]
    Busy,
    /// The server is being stopped.
    #[error("the server is being stopped")]
    Stopping,
    /// The peer ended the session and said where and why.
    #[error("the peer ended the session in stage {stage} with code {code}: {meaning}")]
    PeerEnded {
        /// Its stage.
        stage: String,
        /// Its code.
        code: u16,
        /// What the code says.
        meaning: &'static str,
    },
    /// The server does not take this client now.
    #[error("the server refused the session: {reason}; try again later")]
    Refused {
        /// What its code says.
        reason: &'static str,
    },
    /// The other process of a demo failed.
    #[error("the {party} process failed: {detail}")]
    Process {
        /// Which.
        party: &'static str,
        /// What it said.
        detail: String,
    },
}

/// The code of a server at its limit.
pub const BUSY: u16 = 19;
/// The code of a server that is being stopped.
pub const STOPPING: u16 = 20;

/// What the code of an error frame says, with the remedy.
#[must_use]
pub fn meaning(code: u16) -> &'static str {
    match code {
        1 => "it lost the link, got something else than it expected, or its time for a message or the session was up",
        2 | 4 | 5 | 6 => "a protocol on shares failed there; try again, and tell the provider if it happens again",
        3 | 17 => "it does not take the keys or ciphertexts that it got; try again with --fresh-key",
        9 => "the two sides do not run the same release or the same plan; get the provider's current bundle",
        10 | 11 => "it did not run as planned; tell the provider",
        _ => "it has a problem of its own; tell the provider",
    }
}

impl EngineError {
    /// The error of a session, in words where the peer said with its code why it refused.
    #[must_use]
    pub fn explained(self, plan: &Plan) -> Self {
        let Some(&NetError::Peer { stage, code }) = self.net() else {
            return self;
        };
        match code {
            BUSY => Self::Refused {
                reason: "it is at its limit of sessions or memory",
            },
            STOPPING => Self::Refused {
                reason: "it is being stopped",
            },
            code => Self::PeerEnded {
                stage: match stage {
                    SETUP_STAGE => "setup".to_owned(),
                    OFFLINE_STAGE => "offline".to_owned(),
                    id => {
                        let stage = plan.stages().iter().find(|s| s.id == id);
                        stage.map_or_else(|| id.to_string(), |s| s.name.clone())
                    }
                },
                code,
                meaning: meaning(code),
            },
        }
    }

    /// The link's error inside, whichever layer wrapped it.
    #[must_use]
    pub fn net(&self) -> Option<&NetError> {
        match (self, self.two_party()) {
            (Self::Net(e), _) | (_, Some(MpcError::Net(e))) => Some(e),
            _ => None,
        }
    }

    /// A short name of the kind of error, for logs and metrics. Contains nothing of the session.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        if let Some(e) = self.net() {
            return match e {
                NetError::Timeout { .. } => "timeout",
                NetError::Overtime { .. } => "overtime",
                NetError::PeerLost { .. } => "peer-lost",
                NetError::Peer { .. } => "peer-error",
                NetError::Altered { .. } => "altered",
                NetError::TlsHandshake { .. } => "tls",
                NetError::Io { .. } => "io",
                _ => "malformed",
            };
        }
        match self {
            Self::Mismatch { .. } => "mismatch",
            Self::Busy => "busy",
            Self::Stopping => "stopping",
            e if e.is_peer() => "malformed",
            _ => "internal",
        }
    }

    /// In what the parties differ, if that is the error.
    #[must_use]
    pub fn difference(&self) -> Option<&'static str> {
        match self {
            Self::Mismatch { what, .. } => Some(what),
            _ => None,
        }
    }

    /// The two-party error inside, whichever layer wrapped it.
    fn two_party(&self) -> Option<&MpcError> {
        match self {
            Self::Mpc(e)
            | Self::Bridge(BridgeError::Mpc(e))
            | Self::Nonlinear(NonlinearError::Mpc(e)) => Some(e),
            _ => None,
        }
    }

    /// The number that the peer is told. A failed link is 1 whichever layer met it.
    #[must_use]
    pub fn code(&self) -> u16 {
        if let Some(MpcError::Net(_)) = self.two_party() {
            return 1;
        }
        match self {
            Self::Net(_) => 1,
            Self::Mpc(_) => 2,
            Self::Ckks(_) => 3,
            Self::Bridge(_) => 4,
            Self::Kernel(_) => 5,
            Self::Nonlinear(_) => 6,
            Self::Model(_) => 7,
            Self::Plan(_) => 8,
            Self::Mismatch { .. } => 9,
            Self::NotAsPlanned { .. } => 10,
            Self::Tensor { .. } => 11,
            Self::File { .. } => 12,
            Self::Process { .. } => 13,
            Self::Network { .. } => 14,
            Self::Entropy(_) => 15,
            Self::Measure { .. } => 16,
            Self::Busy => BUSY,
            Self::Stopping => STOPPING,
            Self::Refused { .. } | Self::PeerEnded { .. } => 21,
            Self::KeyStore(_) => 17,
            Self::Bundle(_) => 18,
        }
    }

    /// Whether the peer or the link is to blame (exit code 3) rather than this side's input (exit code 2).
    #[must_use]
    pub fn is_peer(&self) -> bool {
        if let Some(MpcError::Net(_) | MpcError::Malformed { .. }) = self.two_party() {
            return true;
        }
        if let Self::KeyStore(e) = self {
            return e.is_peer();
        }
        // A session meets CKKS errors only in what the peer sent: ciphertexts.
        matches!(
            self,
            Self::Net(_)
                | Self::Ckks(_)
                | Self::Bridge(BridgeError::Ckks(_))
                | Self::Mismatch { .. }
                | Self::Refused { .. }
                | Self::PeerEnded { .. }
                | Self::Process { .. }
        )
    }
}

impl From<BundleError> for EngineError {
    fn from(e: BundleError) -> Self {
        Self::Bundle(Box::new(e))
    }
}

impl From<cipherloom_spec::SpecError> for EngineError {
    fn from(e: cipherloom_spec::SpecError) -> Self {
        Self::Plan(e.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_peer_is_the_peers_fault_in_every_layer() {
        let lost = || {
            MpcError::Net(NetError::PeerLost {
                phase: "test".into(),
                flight: 1,
            })
        };
        for e in [
            EngineError::Mpc(lost()),
            EngineError::Bridge(BridgeError::Mpc(lost())),
            EngineError::Nonlinear(NonlinearError::Mpc(lost())),
        ] {
            assert!(e.is_peer() && e.code() == 1, "{e}");
        }
        let own = EngineError::Entropy("none".into());
        assert!(!own.is_peer());
    }

    #[test]
    fn refused_keys_are_the_peers_fault_and_a_full_disk_is_not() {
        let of = |e: KeyStoreError| EngineError::from(e);
        let peers = [
            of(KeyStoreError::PublicSeed { ring: "products" }),
            of(KeyStoreError::Ckks(CkksError::Magic)),
            of(KeyStoreError::Products(MpcError::Malformed {
                op: "public key",
                detail: "residue".into(),
            })),
        ];
        let (path, detail) = (String::from("keys"), String::from("no space"));
        let own = [
            of(KeyStoreError::Io { path, detail }),
            of(KeyStoreError::Limits {
                bytes: 0,
                entries: 0,
            }),
            of(KeyStoreError::Products(MpcError::Format {
                op: "RLWE parameters",
                detail: "primes".into(),
            })),
        ];
        assert!(peers.iter().all(|e| e.is_peer() && e.code() == 17));
        assert!(own.iter().all(|e| !e.is_peer() && e.code() == 17));
        let bundle = EngineError::from(BundleError::Missing {
            path: "plan.json".into(),
        });
        assert!(!bundle.is_peer() && bundle.code() == 18);
    }
}
