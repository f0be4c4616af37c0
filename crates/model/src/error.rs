//! Everything that can be wrong with a model folder, a text or a calibration.

use crate::config::Side;
use std::fmt;
use std::path::PathBuf;

/// Error of this crate. Messages name the file or tensor, the numbers and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A file could not be opened or read.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// File.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// A file is larger than this crate reads.
    #[error("{path}: {bytes} bytes, at most {limit} are read", path = path.display())]
    FileTooLarge {
        /// File.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// Accepted size.
        limit: u64,
    },
    /// A file is not the JSON that it should be.
    #[error("{path}: not valid: {reason}", path = path.display())]
    Json {
        /// File.
        path: PathBuf,
        /// Parser message.
        reason: String,
    },
    /// The weights file is truncated, corrupt, or in a format that is not read.
    #[error("{path}: {reason}", path = path.display())]
    Weights {
        /// File.
        path: PathBuf,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The configuration or the tensors do not fit; every problem is listed.
    #[error("{path}: {n} problem(s) with this model:{list}", path = path.display(), n = problems.len(), list = bullets(problems))]
    Unsupported {
        /// Model folder.
        path: PathBuf,
        /// All problems found.
        problems: Vec<Problem>,
    },
    /// The tokenizer file cannot be used.
    #[error("{path}: {reason}", path = path.display())]
    Tokenizer {
        /// File.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The tokenizer failed on a text.
    #[error("the tokenizer could not encode the text: {0}")]
    Encoding(String),
    /// A text without any token.
    #[error("the text is empty: it has 0 tokens, at least 1 is needed (up to {fit} fit)")]
    EmptyText {
        /// How many tokens fit.
        fit: usize,
    },
    /// A text file that is not UTF-8.
    #[error("{path}: not UTF-8 text: byte {offset} is invalid; convert the file to UTF-8", path = path.display())]
    NotUtf8 {
        /// File.
        path: PathBuf,
        /// Offset of the first invalid byte.
        offset: usize,
    },
    /// A text longer than the length, without permission to cut it.
    #[error(
        "the text has {tokens} tokens, {fit} fit: raise the length to at least {tokens}, or allow \
         cutting (tokens at the {side} would be dropped)"
    )]
    TooLong {
        /// Tokens in the whole text.
        tokens: usize,
        /// Tokens that fit.
        fit: usize,
        /// Side that would be cut.
        side: Side,
    },
    /// A text of more bytes than is tokenized.
    #[error("the text has {bytes} bytes, at most {limit} are accepted")]
    TextTooLarge {
        /// Bytes given.
        bytes: u64,
        /// Limit.
        limit: u64,
    },
    /// A sequence length that cannot be used.
    #[error("length {length}: must be between 1 and {max}")]
    Length {
        /// Length given.
        length: usize,
        /// Largest accepted length.
        max: usize,
    },
    /// A token id outside the embedding table.
    #[error("token id {id} at position {position} is outside the embedding table of {vocab} rows")]
    TokenId {
        /// Id.
        id: u32,
        /// Where.
        position: usize,
        /// Rows of the table.
        vocab: usize,
    },
    /// The number of real tokens does not fit the sequence.
    #[error("{real} real tokens of a sequence of {length}: need 1 <= real <= length")]
    RealTokens {
        /// Real tokens given.
        real: usize,
        /// Sequence length.
        length: usize,
    },
    /// A line of a data file cannot be used.
    #[error("{path}, line {line}: {reason}", path = path.display())]
    Document {
        /// File.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A ranges file names tensors that this model does not have, or gives unusable numbers.
    #[error("{path}: {reason}", path = path.display())]
    RangesFile {
        /// File.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The activations leave the domain of the approximations or of the fixed-point format.
    #[error("the model leaves the domain of the protocol in {n} place(s):{list}", n = violations.len(), list = bullets(violations))]
    OutOfDomain {
        /// Every violation, with tensor, range and remedy.
        violations: Vec<DomainViolation>,
    },
    /// A calibration cannot be made from what was given.
    #[error("calibration: {0}")]
    Calibrate(String),
    /// A calibration file does not belong to this model or contradicts itself.
    #[error("{path}: {n} problem(s) with this calibration:{list}", path = path.display(), n = problems.len(), list = bullets(problems))]
    Calibration {
        /// File.
        path: PathBuf,
        /// All problems found.
        problems: Vec<String>,
    },
}

/// One tensor that leaves the domain.
#[derive(Debug, Clone, PartialEq)]
pub struct DomainViolation {
    /// Tensor, for example `layer0.scan_out`.
    pub tensor: String,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Which rule is broken, with its numbers and the remedy.
    pub reason: String,
}

impl fmt::Display for DomainViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: values in [{}, {}]: {}",
            self.tensor, self.min, self.max, self.reason
        )
    }
}

/// One reason why a model folder is refused.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Problem {
    /// A field of `config.json` that is needed and absent.
    MissingField {
        /// Field.
        field: String,
        /// What it must hold.
        expected: String,
    },
    /// A field whose value or presence this release does not support.
    Field {
        /// Field.
        field: String,
        /// Value found, as JSON.
        value: String,
        /// What is supported.
        reason: String,
    },
    /// Two fields that contradict each other.
    Inconsistent {
        /// The contradiction with its numbers.
        reason: String,
    },
    /// A tensor that is needed and absent.
    MissingTensor {
        /// Name.
        name: String,
        /// Shape needed.
        shape: Vec<usize>,
    },
    /// A tensor that this architecture does not have.
    UnexpectedTensor {
        /// Name.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// A tensor of the wrong shape.
    Shape {
        /// Name.
        name: String,
        /// Shape needed.
        expected: Vec<usize>,
        /// Shape found.
        found: Vec<usize>,
    },
    /// A tensor of a type that is not read.
    Dtype {
        /// Name.
        name: String,
        /// Type found.
        dtype: String,
    },
    /// Values that are NaN or infinite.
    NotFinite {
        /// Tensor.
        name: String,
        /// How many.
        count: usize,
        /// Flat index of the first.
        first: usize,
    },
    /// Values too large to be weights.
    TooLarge {
        /// Tensor.
        name: String,
        /// How many.
        count: usize,
        /// Flat index of the first.
        first: usize,
        /// The first such value.
        value: f64,
        /// Accepted magnitude.
        limit: f64,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingField { field, expected } => {
                write!(f, "config field `{field}` is missing: {expected}")
            }
            Self::Field {
                field,
                value,
                reason,
            } => write!(f, "config field `{field}` = {value}: {reason}"),
            Self::Inconsistent { reason } => write!(f, "config: {reason}"),
            Self::MissingTensor { name, shape } => {
                write!(f, "tensor `{name}` of shape {shape:?} is missing")
            }
            Self::UnexpectedTensor { name, shape } => {
                write!(f, "tensor `{name}` of shape {shape:?} is not part of this architecture")
            }
            Self::Shape {
                name,
                expected,
                found,
            } => write!(f, "tensor `{name}` has shape {found:?}, needed {expected:?}"),
            Self::Dtype { name, dtype } => {
                write!(f, "tensor `{name}` has type {dtype}; F64, F32, F16 and BF16 are read")
            }
            Self::NotFinite { name, count, first } => {
                write!(f, "tensor `{name}`: {count} value(s) NaN or infinite, first at index {first}")
            }
            Self::TooLarge {
                name,
                count,
                first,
                value,
                limit,
            } => write!(
                f,
                "tensor `{name}`: {count} value(s) above {limit} in magnitude, first {value} at index {first}"
            ),
        }
    }
}

/// One list item a line.
fn bullets<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(|i| format!("\n  - {i}")).collect()
}
