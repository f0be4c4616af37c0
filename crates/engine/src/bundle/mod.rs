//! What a provider publishes: a folder for clients and one for its server.
//!
//! `client/` holds the plan, the tokenizer, the public embedding table, the rules of cutting, padding and pooling, the label
//! names and the pin of the server's certificate: all that a client needs, and no other weight. `server/` holds the plan and
//! what ties it to the weights; certificate and key are put beside them. Everything is validated when it is read: digests,
//! the plan (derived again), shapes and values.

mod client;
mod deployment;
mod error;
mod files;
mod identity;
mod publish;
mod sealed;
#[cfg(test)]
mod tests;

pub use client::{BundleDocument, ClientBundle, FileDigest, TextConfig};
pub use deployment::{Deployment, DeploymentDocument};
pub use error::BundleError;
pub use identity::{deploy, Deployed, IdentitySource};
pub use publish::{publish, publish_loaded, Published};

/// The document of a client bundle.
pub const BUNDLE_FILE: &str = "bundle.json";
/// The plan, in both folders.
pub const PLAN_FILE: &str = "plan.json";
/// The tokenizer.
pub const TOKENIZER_FILE: &str = "tokenizer.json";
/// The tokenizer's settings for other programs; optional.
pub const TOKENIZER_CONFIG_FILE: &str = "tokenizer_config.json";
/// Rules of cutting, padding and pooling.
pub const CONFIG_FILE: &str = "config.json";
/// The public embedding table.
pub const EMBEDDING_FILE: &str = "embedding.safetensors";
/// The document of a server's folder.
pub const DEPLOYMENT_FILE: &str = "deployment.json";
/// The server's certificate.
pub const CERTIFICATE_FILE: &str = "certificate.pem";
/// The server's private key.
pub const KEY_FILE: &str = "key.pem";
