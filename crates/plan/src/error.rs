//! Errors of planning.

use cipherloom_spec::SpecError;
use thiserror::Error;

/// Why there is no plan, or why a plan is refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A parameter, layout or depth does not fit.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A shape name that is not known.
    #[error("shape {name:?} is not known; known shapes: {known}")]
    UnknownShape {
        /// Given name.
        name: String,
        /// Known names.
        known: &'static str,
    },
    /// A model feature that the protocols do not support.
    #[error("the model's {field} is not supported: {detail}")]
    Unsupported {
        /// Field.
        field: &'static str,
        /// Values and remedy.
        detail: String,
    },
    /// A request field outside its range.
    #[error("{field} = {value}: {detail}")]
    Request {
        /// Field.
        field: &'static str,
        /// Given value.
        value: String,
        /// What is allowed.
        detail: String,
    },
    /// Two adjacent stages do not fit together.
    #[error("stage {stage}: input {tensor:?} is {want}, but it was produced as {have}")]
    Contract {
        /// Consumer.
        stage: String,
        /// Tensor.
        tensor: String,
        /// What the consumer needs.
        want: String,
        /// What was produced.
        have: String,
    },
    /// The failure probability is above the limit.
    #[error("the plan fails with probability 2^{have:.1}, above the limit 2^{limit:.0}; stage {stage} contributes most")]
    Failure {
        /// log2 of the probability.
        have: f64,
        /// log2 of the limit.
        limit: f64,
        /// Worst stage.
        stage: String,
    },
    /// A value can leave its range.
    #[error("stage {stage}: {what} can reach 2^{have:.1} but must stay below 2^{limit:.0}")]
    Bound {
        /// Stage.
        stage: String,
        /// Which value.
        what: String,
        /// log2 of the bound reached.
        have: f64,
        /// log2 of the limit.
        limit: f64,
    },
    /// A plan document that cannot be read.
    #[error("the plan document is not valid: {0}")]
    Document(String),
    /// A machine profile that cannot be used.
    #[error("{source_name} is not a machine profile that can be used: {detail}; write a new one with `cipherloom measure`")]
    Profile {
        /// Which profile: a path, or the shipped one.
        source_name: String,
        /// What is wrong.
        detail: String,
    },
    /// A fixed-point format does not fit its range.
    #[error(transparent)]
    Format(#[from] cipherloom_spec::formats::FormatError),
    /// Two plans that should be one differ.
    #[error("the plan's {field} is {given}, but it follows from the rest as {derived}; rebuild the plan")]
    Mismatch {
        /// Field.
        field: String,
        /// In the document.
        given: String,
        /// Recomputed.
        derived: String,
    },
}
