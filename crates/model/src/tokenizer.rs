//! Text to token ids, cut and padded to a sequence length.

use crate::config::{Mamba2Config, Side, MAX_LENGTH};
use crate::error::ModelError;
use crate::json::{read_limited, read_text};
use serde::{Deserialize, Serialize};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;

/// Largest `tokenizer.json` that is read, in bytes.
pub const TOKENIZER_LIMIT: u64 = 256 << 20;
/// Largest text that is tokenized, in bytes.
pub const TEXT_LIMIT: u64 = 16 << 20;

/// What to do with a text that is longer than the sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncation {
    /// Return [`ModelError::TooLong`] with both numbers.
    Refuse,
    /// Drop tokens at the model's `truncation_side` and say so in [`Encoded::cut`].
    Allow,
}

/// A tokenized text, right-padded to its sequence length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// Token ids; the first `real` are the text, the rest is padding.
    pub ids: Vec<u32>,
    /// Number of real tokens, at least 1.
    pub real: usize,
    /// Tokens of the whole text before cutting.
    pub total: usize,
    /// Side at which tokens were dropped, if any were.
    pub cut: Option<Side>,
}

impl Encoded {
    /// The ids without padding.
    pub fn real_ids(&self) -> &[u32] {
        &self.ids[..self.real]
    }
}

/// What a tokenizer needs of a model's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextRules {
    /// Rows of the embedding table; larger ids are refused.
    pub vocab_size: usize,
    /// Which end of a long text is dropped.
    pub truncation_side: Side,
    /// Id used for right padding.
    pub pad_token_id: u32,
}

impl TextRules {
    /// Those of a configuration.
    #[must_use]
    pub fn of(config: &Mamba2Config) -> Self {
        Self {
            vocab_size: config.vocab_size,
            truncation_side: config.truncation_side,
            pad_token_id: config.pad_token_id,
        }
    }
}

/// Tokenizer of a model folder with the model's conventions for cutting and padding.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    vocab_size: usize,
    side: Side,
    pad: u32,
}

/// Runs the library on a file that somebody else made. It checks most of what it reads, and panics on the rest.
fn contained<T>(f: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f))
        .unwrap_or_else(|_| Err("the tokenizer library cannot handle this file".into()))
}

/// Parses a file without the parts that are not used: they need not be sound.
fn parse(bytes: &[u8]) -> Result<tokenizers::Tokenizer, String> {
    let mut file: serde_json::Value = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    for unused in ["decoder", "padding", "truncation"] {
        if let Some(v) = file.get_mut(unused) {
            *v = serde_json::Value::Null;
        }
    }
    let bytes = serde_json::to_vec(&file).map_err(|e| e.to_string())?;
    contained(|| tokenizers::Tokenizer::from_bytes(bytes).map_err(|e| e.to_string()))
}

impl Tokenizer {
    /// Loads `tokenizer.json` from `dir`. Truncation and padding stored in that file are switched off:
    /// the model's configuration decides.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] when the file is corrupt or knows ids outside the embedding table.
    pub fn load(dir: &Path, config: &Mamba2Config) -> Result<Self, ModelError> {
        let path = dir.join("tokenizer.json");
        let bytes = read_limited(&path, TOKENIZER_LIMIT)?;
        Self::from_bytes(&bytes, config).map_err(|reason| ModelError::Tokenizer { path, reason })
    }

    /// Builds the tokenizer from the bytes of a `tokenizer.json`. The error says what is wrong.
    pub fn from_bytes(bytes: &[u8], config: &Mamba2Config) -> Result<Self, String> {
        Self::with_rules(bytes, TextRules::of(config))
    }

    /// As [`Self::from_bytes`], from the few rules that it needs.
    ///
    /// # Errors
    /// Says what is wrong: the file, an id or the padding outside the embedding table.
    pub fn with_rules(bytes: &[u8], rules: TextRules) -> Result<Self, String> {
        if rules.pad_token_id as usize >= rules.vocab_size {
            return Err(format!(
                "the padding id {} is outside the embedding table of {} rows",
                rules.pad_token_id, rules.vocab_size
            ));
        }
        let mut inner = parse(bytes).map_err(|e| format!("not a usable tokenizer file: {e}"))?;
        inner.with_padding(None);
        inner
            .with_truncation(None)
            .map_err(|e| format!("truncation cannot be switched off: {e}"))?;
        let vocab_size = rules.vocab_size;
        let mut outside = 0usize;
        let mut largest = 0u32;
        for id in inner.get_vocab(true).into_values() {
            largest = largest.max(id);
            outside += usize::from(id as usize >= vocab_size);
        }
        if outside > 0 {
            return Err(format!(
                "{outside} token(s) have ids outside the embedding table of {vocab_size} rows, the \
                 largest is {largest}: the tokenizer belongs to another model"
            ));
        }
        Ok(Self {
            inner,
            vocab_size,
            side: rules.truncation_side,
            pad: rules.pad_token_id,
        })
    }

    /// Token ids of the whole text.
    ///
    /// # Errors
    /// [`ModelError::EmptyText`] when there are none, [`ModelError::TextTooLarge`] above 16 MiB.
    pub fn tokens(&self, text: &str, fit: usize) -> Result<Vec<u32>, ModelError> {
        if text.len() as u64 > TEXT_LIMIT {
            return Err(ModelError::TextTooLarge {
                bytes: text.len() as u64,
                limit: TEXT_LIMIT,
            });
        }
        if text.trim().is_empty() {
            return Err(ModelError::EmptyText { fit });
        }
        let encoding = contained(|| self.inner.encode(text, true).map_err(|e| e.to_string()))
            .map_err(ModelError::Encoding)?;
        let ids = encoding.get_ids().to_vec();
        if ids.is_empty() {
            return Err(ModelError::EmptyText { fit });
        }
        for (position, id) in ids.iter().enumerate() {
            if *id as usize >= self.vocab_size {
                return Err(ModelError::TokenId {
                    id: *id,
                    position,
                    vocab: self.vocab_size,
                });
            }
        }
        Ok(ids)
    }

    /// Tokenizes `text` and fits it into `length` tokens: longer texts are cut at the model's
    /// `truncation_side` if `truncation` allows, shorter ones are padded on the right.
    ///
    /// # Errors
    /// [`ModelError::TooLong`] says how many tokens the text has and how many fit; also those of
    /// [`Self::tokens`], and [`ModelError::Length`] for a length of 0 or above 2^20.
    pub fn encode(
        &self,
        text: &str,
        length: usize,
        truncation: Truncation,
    ) -> Result<Encoded, ModelError> {
        if length == 0 || length > MAX_LENGTH {
            return Err(ModelError::Length {
                length,
                max: MAX_LENGTH,
            });
        }
        let mut ids = self.tokens(text, length)?;
        let total = ids.len();
        let mut cut = None;
        if total > length {
            if truncation == Truncation::Refuse {
                return Err(ModelError::TooLong {
                    tokens: total,
                    fit: length,
                    side: self.side,
                });
            }
            cut = Some(self.side);
            match self.side {
                Side::Left => {
                    ids.drain(..total - length);
                }
                Side::Right => ids.truncate(length),
            }
        }
        let real = ids.len();
        ids.resize(length, self.pad);
        Ok(Encoded {
            ids,
            real,
            total,
            cut,
        })
    }
}

/// Reads a text file as UTF-8.
///
/// # Errors
/// [`ModelError::NotUtf8`] names the first invalid byte; [`ModelError::FileTooLarge`] above 16 MiB.
pub fn read_text_file(path: &Path) -> Result<String, ModelError> {
    read_text(path, TEXT_LIMIT)
}
