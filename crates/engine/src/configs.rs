//! Checked fixed-point formats of a plan.

use crate::EngineError;
use cipherloom_nonlinear::{BlockConfig, HeadShape, NonlinearError, NormConfig, PoolConfig};
use cipherloom_plan::Plan;

/// Formats of every nonlinear function of a plan.
#[derive(Debug, Clone)]
pub struct Configs {
    /// One a block.
    pub blocks: Vec<BlockConfig>,
    /// The norm after the last block.
    pub final_norm: NormConfig,
    /// Pooling and classifier.
    pub pool: PoolConfig,
    /// Tokens, heads, channels of a head.
    pub heads: HeadShape,
}

impl Configs {
    /// Derives and checks all formats.
    ///
    /// # Errors
    /// A range that does not fit a format.
    pub fn new(plan: &Plan) -> Result<Self, EngineError> {
        let r = plan.request();
        Ok(Self {
            blocks: r
                .blocks
                .iter()
                .map(|b| BlockConfig::new(*b))
                .collect::<Result<_, _>>()
                .map_err(NonlinearError::from)?,
            final_norm: NormConfig::new(r.final_norm.clone()).map_err(NonlinearError::from)?,
            pool: PoolConfig::new(r.pool).map_err(NonlinearError::from)?,
            heads: HeadShape {
                tokens: r.length,
                heads: r.shape.heads,
                head_dim: r.shape.head_dim,
            },
        })
    }
}
