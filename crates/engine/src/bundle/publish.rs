//! Writing both folders.

use super::client::{agree_debug, pooling};
use super::deployment::{check_model, checksum};
use super::sealed::{self, Sealed};
use super::{
    files, BundleDocument, BundleError, ClientBundle, DeploymentDocument, FileDigest, TextConfig,
    BUNDLE_FILE, CONFIG_FILE, DEPLOYMENT_FILE, EMBEDDING_FILE, PLAN_FILE, TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
};
use crate::handshake::hex;
use cipherloom_model::tokenizer::TOKENIZER_LIMIT;
use cipherloom_model::{EmbeddingTable, Mamba2};
use cipherloom_plan::Plan;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::path::{Path, PathBuf};

/// Most bytes of the tokenizer's settings.
const TOKENIZER_CONFIG_LIMIT: u64 = 16 << 20;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The folder for clients: public.
    pub client: PathBuf,
    /// The folder for the server: put `certificate.pem` and `key.pem` into it.
    pub server: PathBuf,
}

/// Writes `out/client` and `out/server` for the model in `model_dir` under `plan`. `pin` is the SHA-256 of the certificate that
/// the server will show.
///
/// `out/client` must not exist; it appears complete or not at all, after it was read back and validated. `out/server` may
/// exist (with certificate and key), without a plan. It is made with mode 0700.
///
/// # Errors
/// A plan that is not this model's; `Exists`; file errors; whatever [`ClientBundle::load`] finds.
pub fn publish(
    model_dir: &Path,
    plan: &Plan,
    pin: &[u8; 32],
    out: &Path,
) -> Result<Published, BundleError> {
    publish_loaded(model_dir, &Mamba2::load(model_dir)?, plan, pin, out)
}

/// As [`publish`], for a model that is loaded already. The tokenizer is read from `model_dir`.
///
/// # Errors
/// As [`publish`].
pub fn publish_loaded(
    model_dir: &Path,
    model: &Mamba2,
    plan: &Plan,
    pin: &[u8; 32],
    out: &Path,
) -> Result<Published, BundleError> {
    let published = Published {
        client: out.join("client"),
        server: out.join("server"),
    };
    let server_files = [PLAN_FILE, DEPLOYMENT_FILE].map(|n| published.server.join(n));
    for path in [&published.client].into_iter().chain(&server_files) {
        if path.symlink_metadata().is_ok() {
            return Err(BundleError::Exists {
                path: path.display().to_string(),
            });
        }
    }
    check_model(model_dir, plan, model)?;
    let plan_json = plan.to_json().map_err(|source| BundleError::Plan {
        path: PLAN_FILE.into(),
        source,
    })?;
    let deployment = DeploymentDocument {
        format: DeploymentDocument::FORMAT.into(),
        version: DeploymentDocument::VERSION,
        plan_hash: hex(&plan.hash()),
        weights_checksum: checksum(model),
        pin: hex(pin),
        digest: String::new(),
    };
    let deployment = sealed::write(&server_files[1], deployment)?;

    fs::create_dir_all(out).map_err(|e| BundleError::io(out, &e))?;
    let draft = files::Draft::beside(&published.client)?;
    write_client(
        draft.path(),
        model_dir,
        model,
        plan,
        plan_json.as_bytes(),
        pin,
    )?;
    let read_back = ClientBundle::load(draft.path())?;
    agree_debug(
        &published.client,
        "plan hash",
        &read_back.plan.hash(),
        &plan.hash(),
    )?;

    make_server_dir(&published.server)?;
    files::write_new(&server_files[0], plan_json.as_bytes())?;
    files::write_new(&server_files[1], &deployment)?;
    draft.publish(&published.client)?;
    Ok(published)
}

fn write_client(
    dir: &Path,
    model_dir: &Path,
    model: &Mamba2,
    plan: &Plan,
    plan_json: &[u8],
    pin: &[u8; 32],
) -> Result<(), BundleError> {
    let c = &model.config;
    let config = TextConfig {
        vocab_size: c.vocab_size,
        hidden_size: c.hidden_size,
        pooling: pooling(plan.request().shape.pooling),
        truncation_side: c.truncation_side,
        pad_token_id: c.pad_token_id,
    };
    let config = serde_json::to_vec_pretty(&config)
        .map_err(|e| BundleError::invalid(&dir.join(CONFIG_FILE), e))?;
    let embedding = EmbeddingTable::of(&model.embeddings)
        .map_err(|e| BundleError::invalid(model_dir, e))?
        .to_safetensors();
    let mut listed = BTreeMap::new();
    let mut put = |name: &str, bytes: &[u8]| {
        listed.insert(name.to_string(), FileDigest::of(bytes));
        files::write_new(&dir.join(name), bytes)
    };
    put(PLAN_FILE, plan_json)?;
    put(CONFIG_FILE, &config)?;
    put(EMBEDDING_FILE, &embedding)?;
    let tokenizer = model_dir.join(TOKENIZER_FILE);
    put(
        TOKENIZER_FILE,
        &files::read_source(&tokenizer, TOKENIZER_LIMIT)?,
    )?;
    let settings = model_dir.join(TOKENIZER_CONFIG_FILE);
    if settings.exists() {
        let bytes = files::read_source(&settings, TOKENIZER_CONFIG_LIMIT)?;
        put(TOKENIZER_CONFIG_FILE, &bytes)?;
    }
    let document = BundleDocument {
        format: BundleDocument::FORMAT.into(),
        version: BundleDocument::VERSION,
        labels: plan.request().labels.clone(),
        pin: hex(pin),
        plan_hash: hex(&plan.hash()),
        files: listed,
        digest: String::new(),
    };
    let path = dir.join(BUNDLE_FILE);
    files::write_new(&path, &sealed::write(&path, document)?)
}

/// Only the owner may enter: the private key is put there.
pub(super) fn make_server_dir(dir: &Path) -> Result<(), BundleError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(dir).map_err(|e| BundleError::io(dir, &e))
}
