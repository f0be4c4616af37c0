//! The folder for clients.

use super::sealed::{self, Sealed};
use super::{
    files, BundleError, BUNDLE_FILE, CONFIG_FILE, EMBEDDING_FILE, PLAN_FILE, TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
};
use crate::handshake::hex;
use crate::keystore::parse_hex;
use crate::session::ClientInput;
use cipherloom_model::tokenizer::TOKENIZER_LIMIT;
use cipherloom_model::{
    EmbeddingTable, Encoded, ModelError, Pooling, Side, TextRules, Tokenizer, Truncation,
};
use cipherloom_plan::failure::LIMIT_LOG2;
use cipherloom_plan::{Plan, Ring};
use cipherloom_spec::security::SECURITY_BITS;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Files that a bundle must list, with the most bytes that are read; the embedding's length follows from the plan.
const REQUIRED: [(&str, u64); 4] = [
    (PLAN_FILE, cipherloom_plan::document::MAX_BYTES as u64),
    (CONFIG_FILE, 1 << 20),
    (TOKENIZER_FILE, TOKENIZER_LIMIT),
    (EMBEDDING_FILE, u64::MAX),
];
/// Most bytes of the tokenizer's settings.
const TOKENIZER_CONFIG_LIMIT: u64 = 16 << 20;
/// Longest name of a label or model, in bytes.
const NAME_BYTES: usize = 1024;

/// One file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileDigest {
    /// Its bytes.
    pub bytes: u64,
    /// Its BLAKE3, in hexadecimal.
    pub blake3: String,
}

impl FileDigest {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.len() as u64,
            blake3: hex(blake3::hash(bytes).as_bytes()),
        }
    }
}

/// `bundle.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleDocument {
    /// Always `cipherloom-bundle`.
    pub format: String,
    /// Always 1.
    pub version: u32,
    /// Names of the classes, in order of the logits.
    pub labels: Vec<String>,
    /// SHA-256 of the server's certificate, in hexadecimal.
    pub pin: String,
    /// Hash of the plan, in hexadecimal.
    pub plan_hash: String,
    /// All other files of the folder.
    pub files: BTreeMap<String, FileDigest>,
    /// BLAKE3 of this document with an empty digest, in hexadecimal.
    pub digest: String,
}

impl Sealed for BundleDocument {
    const FORMAT: &'static str = "cipherloom-bundle";
    const VERSION: u32 = 1;
    fn seal(&mut self) -> &mut String {
        &mut self.digest
    }
}

/// `config.json` of a bundle: how a text becomes the client's input, nothing else of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextConfig {
    /// Rows of the embedding table.
    pub vocab_size: usize,
    /// Columns of the embedding table.
    pub hidden_size: usize,
    /// How a document becomes one vector.
    pub pooling: Pooling,
    /// Which end of a long text is dropped.
    pub truncation_side: Side,
    /// Id used for right padding.
    pub pad_token_id: u32,
}

impl TextConfig {
    pub(super) fn rules(&self) -> TextRules {
        TextRules {
            vocab_size: self.vocab_size,
            truncation_side: self.truncation_side,
            pad_token_id: self.pad_token_id,
        }
    }
}

/// A validated bundle: everything that a client brings into a session besides its text and its seed.
pub struct ClientBundle {
    /// Text to token ids, with the model's rules of cutting and padding.
    pub tokenizer: Tokenizer,
    /// The public embedding table.
    pub embedding: EmbeddingTable,
    /// How a document becomes one vector.
    pub pooling: Pooling,
    /// Names of the classes.
    pub labels: Vec<String>,
    /// The plan, derived again.
    pub plan: Arc<Plan>,
    /// SHA-256 of the server's certificate.
    pub pin: [u8; 32],
}

impl std::fmt::Debug for ClientBundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientBundle")
            .field("labels", &self.labels)
            .field("plan", &hex(&self.plan.hash()))
            .field("pin", &hex(&self.pin))
            .finish_non_exhaustive()
    }
}

impl ClientBundle {
    /// Reads a bundle and checks all of it: the files and their digests, the plan (derived again, its security and failure
    /// probability held against this release's own limits), and that tokenizer, embedding, labels and rules are the plan's.
    /// Lengths are checked before files are read. Memory: the embedding table, twice while it is read.
    ///
    /// # Errors
    /// A [`BundleError`] that names the file.
    pub fn load(dir: &Path) -> Result<Self, BundleError> {
        let allowed = [
            BUNDLE_FILE,
            PLAN_FILE,
            CONFIG_FILE,
            TOKENIZER_FILE,
            TOKENIZER_CONFIG_FILE,
            EMBEDDING_FILE,
        ];
        let path = dir.join(BUNDLE_FILE);
        let document: BundleDocument =
            sealed::read(&path, &files::read(&path, sealed::MAX_BYTES)?)?;
        files::only(dir, &allowed)?;
        let pin = parse_hex(&document.pin).ok_or_else(|| {
            BundleError::invalid(
                &path,
                format!(
                    "pin {:?} is not 64 lower-case hexadecimal digits",
                    document.pin
                ),
            )
        })?;
        check_listing(dir, &document)?;
        let open = |name: &str, limit: u64| read_listed(dir, &document, name, limit);
        let [(plan_file, plan_limit), (config_file, config_limit), (tokenizer_file, tokenizer_limit), _] =
            REQUIRED;

        let plan = read_plan(&dir.join(plan_file), &open(plan_file, plan_limit)?)?;
        agree(&path, "plan hash", &document.plan_hash, &hex(&plan.hash()))?;
        check_names(&dir.join(plan_file), &plan)?;
        let request = plan.request();
        agree_debug(&path, "labels", &document.labels, &request.labels)?;

        let config_path = dir.join(config_file);
        let config: TextConfig = serde_json::from_slice(&open(config_file, config_limit)?)
            .map_err(|e| BundleError::invalid(&config_path, e))?;
        let planned = (
            request.shape.vocab,
            request.shape.hidden,
            pooling(request.shape.pooling),
        );
        agree_debug(
            &config_path,
            "vocabulary, width and pooling",
            &(config.vocab_size, config.hidden_size, config.pooling),
            &planned,
        )?;

        let tokenizer =
            Tokenizer::with_rules(&open(tokenizer_file, tokenizer_limit)?, config.rules())
                .map_err(|reason| ModelError::Tokenizer {
                    path: dir.join(tokenizer_file),
                    reason,
                })?;
        if document.files.contains_key(TOKENIZER_CONFIG_FILE) {
            open(TOKENIZER_CONFIG_FILE, TOKENIZER_CONFIG_LIMIT)?;
        }
        let (rows, cols) = (config.vocab_size, config.hidden_size);
        let table = open(EMBEDDING_FILE, EmbeddingTable::file_bytes(rows, cols))?;
        let embedding = EmbeddingTable::from_safetensors(&table, rows, cols)
            .map_err(|e| BundleError::invalid(&dir.join(EMBEDDING_FILE), e))?;
        Ok(Self {
            tokenizer,
            embedding,
            pooling: config.pooling,
            labels: document.labels,
            plan: Arc::new(plan),
            pin,
        })
    }

    /// Tokenizes a text and fits it into the plan's length.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode`].
    pub fn encode(&self, text: &str, truncation: Truncation) -> Result<Encoded, ModelError> {
        let length = self.plan.request().length;
        self.tokenizer.encode(text, length, truncation)
    }

    /// What the client brings into a session: embedded tokens and pooling weights.
    ///
    /// # Errors
    /// `TokenId` for an id outside the table.
    pub fn input(&self, text: &Encoded) -> Result<ClientInput, ModelError> {
        Ok(ClientInput {
            embedded: self.embedding.embed(&text.ids)?,
            pooling: self.pooling.weights(text.real, text.ids.len()),
        })
    }
}

/// The plan's pooling in the model's words.
pub(super) fn pooling(p: cipherloom_plan::Pooling) -> Pooling {
    match p {
        cipherloom_plan::Pooling::Mean => Pooling::Mean,
        cipherloom_plan::Pooling::Last => Pooling::Last,
    }
}

/// The listed files are the ones a bundle has, and those on disk.
fn check_listing(dir: &Path, document: &BundleDocument) -> Result<(), BundleError> {
    let path = dir.join(BUNDLE_FILE);
    let optional = TOKENIZER_CONFIG_FILE;
    for (name, _) in REQUIRED {
        if !document.files.contains_key(name) {
            return Err(BundleError::invalid(&path, format!("{name} is not listed")));
        }
    }
    let known = |n: &str| n == optional || REQUIRED.iter().any(|(r, _)| *r == n);
    if let Some(name) = document.files.keys().find(|n| !known(n)) {
        return Err(BundleError::invalid(
            &path,
            format!("{name:?} is listed, but is no file of a bundle"),
        ));
    }
    let extra = dir.join(optional);
    if !document.files.contains_key(optional) && extra.symlink_metadata().is_ok() {
        return Err(BundleError::Unexpected {
            path: extra.display().to_string(),
            allowed: "the files that bundle.json lists".into(),
        });
    }
    Ok(())
}

/// Reads a listed file; its length and digest must be as listed.
fn read_listed(
    dir: &Path,
    document: &BundleDocument,
    name: &str,
    limit: u64,
) -> Result<Vec<u8>, BundleError> {
    let path = dir.join(name);
    let Some(listed) = document.files.get(name) else {
        return Err(BundleError::invalid(
            &dir.join(BUNDLE_FILE),
            format!("{name} is not listed"),
        ));
    };
    if listed.bytes > limit {
        return Err(BundleError::Length {
            path: path.display().to_string(),
            got: listed.bytes,
            expected: format!("at most {limit} are read"),
        });
    }
    let changed = |got| BundleError::Length {
        path: path.display().to_string(),
        got,
        expected: format!(
            "the bundle says {}; get the folder again from the model's provider",
            listed.bytes
        ),
    };
    let bytes = files::read(&path, listed.bytes).map_err(|e| match e {
        BundleError::Length { got, .. } => changed(got),
        e => e,
    })?;
    let found = FileDigest::of(&bytes);
    if found.bytes != listed.bytes {
        return Err(changed(found.bytes));
    }
    if found.blake3 != listed.blake3 {
        return Err(BundleError::Digest {
            path: path.display().to_string(),
            got: found.blake3,
            expected: listed.blake3.clone(),
        });
    }
    Ok(bytes)
}

/// Derives the plan again and holds it against this release's own limits.
pub(super) fn read_plan(path: &Path, bytes: &[u8]) -> Result<Plan, BundleError> {
    let plan = Plan::from_json(bytes).map_err(|source| BundleError::Plan {
        path: path.display().to_string(),
        source,
    })?;
    let secure = [Ring::Projection, Ring::Scan]
        .iter()
        .all(|r| plan.chain(*r).is_secure());
    let d = plan.document();
    check_limits(path, secure, d.security_bits, d.failure_log2)?;
    Ok(plan)
}

/// A plan that was derived passes these by construction; they are the client's own, whatever deriving does.
fn check_limits(
    path: &Path,
    secure: bool,
    security_bits: u32,
    failure_log2: f64,
) -> Result<(), BundleError> {
    let weak = |what, have: String, need: String| {
        Err(BundleError::Weak {
            path: path.display().to_string(),
            what,
            have,
            need,
        })
    };
    if !secure || security_bits < SECURITY_BITS {
        return weak(
            "security",
            format!("{security_bits} bits, checked against the table: {secure}"),
            format!("{SECURITY_BITS} bits"),
        );
    }
    // NaN is refused too.
    if !matches!(failure_log2.partial_cmp(&LIMIT_LOG2), Some(o) if o.is_le()) {
        return weak(
            "the failure probability",
            format!("2^{failure_log2}"),
            format!("at most 2^{LIMIT_LOG2}"),
        );
    }
    Ok(())
}

/// Names are shown to people: no control characters, no endless lines.
fn check_names(path: &Path, plan: &Plan) -> Result<(), BundleError> {
    let r = plan.request();
    for name in r.labels.iter().chain([&r.shape.name]) {
        if name.is_empty() || name.len() > NAME_BYTES || name.chars().any(char::is_control) {
            return Err(BundleError::invalid(
                path,
                format!(
                    "{:?} is no name: 1 to {NAME_BYTES} bytes without control characters are allowed",
                    name.chars().take(40).collect::<String>()
                ),
            ));
        }
    }
    Ok(())
}

pub(super) fn agree(
    path: &Path,
    what: &'static str,
    given: &str,
    planned: &str,
) -> Result<(), BundleError> {
    if given == planned {
        return Ok(());
    }
    Err(BundleError::Differs {
        what,
        path: path.display().to_string(),
        given: given.to_string(),
        planned: planned.to_string(),
    })
}

pub(super) fn agree_debug<T: PartialEq + std::fmt::Debug>(
    path: &Path,
    what: &'static str,
    given: &T,
    planned: &T,
) -> Result<(), BundleError> {
    if given == planned {
        return Ok(());
    }
    agree(path, what, &format!("{given:?}"), &format!("{planned:?}"))
}

#[cfg(test)]
mod limits {
    use super::*;

    #[test]
    fn weak_plans_are_refused_by_the_clients_own_limits() {
        let check = |s, b, f| check_limits(Path::new("plan.json"), s, b, f);
        check(true, 128, -20.0).unwrap();
        for (s, b, f) in [
            (false, 128, -30.0),
            (true, 127, -30.0),
            (true, 128, -19.9),
            (true, 128, f64::NAN),
        ] {
            let e = check(s, b, f).unwrap_err();
            assert!(matches!(e, BundleError::Weak { .. }), "{e}");
        }
    }
}
