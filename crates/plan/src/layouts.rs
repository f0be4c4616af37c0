//! Layouts and schedules that follow from a request: which token tile, which ring, which block.

use crate::rings::chain_for_depth;
use crate::{ModelShape, PlanError};
use cipherloom_spec::chain::CkksChain;
use cipherloom_spec::layout::{ScanLayout, ScanTensors};
use cipherloom_spec::projection::{MatrixLayout, TokenLayout};
use cipherloom_spec::schedule::{Carry, ScanSchedule};
use cipherloom_spec::SpecError;

/// Ring degree of the projections.
pub const PROJECTION_LOG_N: u32 = 14;
/// Rescales of the projection ring: projection and convolution.
pub const PROJECTION_DEPTH: usize = 2;
/// Ring degrees tried for the scan.
const SCAN_LOG_N: std::ops::RangeInclusive<u32> = 13..=16;

/// The index maps of one block's linear stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinearLayouts {
    /// Token tiles.
    pub tokens: TokenLayout,
    /// In-projection: z padded to whole ciphertexts, then x, B, C, dt.
    pub input: MatrixLayout,
    /// Ciphertexts of z a pair.
    pub z_blocks: usize,
    /// The convolved part x, B, C, dt as a matrix output (dt passes through).
    pub convolved: MatrixLayout,
    /// Out-projection.
    pub output: MatrixLayout,
}

/// Ring, layout and schedule of the scan.
#[derive(Debug, Clone)]
pub struct ScanChoice {
    /// Checked chain.
    pub chain: CkksChain,
    /// Tensors and their maps.
    pub tensors: ScanTensors,
    /// Blocks and carry.
    pub schedule: ScanSchedule,
    /// Block in tokens.
    pub block: usize,
}

impl LinearLayouts {
    /// Layouts for `rows` tokens a tile.
    ///
    /// # Errors
    /// `Spec` when tiles do not fit.
    pub fn with_rows(shape: &ModelShape, length: usize, rows: usize) -> Result<Self, PlanError> {
        let tokens = TokenLayout::new(1 << (PROJECTION_LOG_N - 1), rows, length)?;
        let seg = tokens.segments();
        let z_blocks = shape.inner().div_ceil(seg);
        let tail = shape.conv_dim() + shape.heads;
        Ok(Self {
            tokens,
            input: MatrixLayout::new(tokens, shape.hidden, z_blocks * seg + tail)?,
            z_blocks,
            convolved: MatrixLayout::new(tokens, shape.hidden, tail)?,
            output: MatrixLayout::new(tokens, shape.inner(), shape.hidden)?,
        })
    }

    /// The layouts with the fewest key switches.
    ///
    /// # Errors
    /// `Request` when no tile size divides the length.
    pub fn choose(shape: &ModelShape, length: usize) -> Result<Self, PlanError> {
        let mut best: Option<(u64, Self)> = None;
        let mut rows = shape.conv.next_power_of_two().max(4);
        while rows <= 1 << (PROJECTION_LOG_N - 1) {
            if let Ok(l) = Self::with_rows(shape, length, rows) {
                let cost = crate::describe::linear::projection(&l.input)
                    .he
                    .key_switches()
                    + crate::describe::linear::convolution(&l.convolved, shape.conv)
                        .he
                        .key_switches()
                    + crate::describe::linear::projection(&l.output)
                        .he
                        .key_switches();
                if best.is_none_or(|(c, _)| cost < c) {
                    best = Some((cost, l));
                }
            }
            rows *= 2;
        }
        best.map(|(_, l)| l).ok_or_else(|| PlanError::Request {
            field: "length",
            value: length.to_string(),
            detail: "no token tile fits; use a multiple of 16 tokens, best a power of two".into(),
        })
    }
}

impl ScanChoice {
    /// The smallest ring whose chain is long enough. Without a given block, the largest block (least work) that fits.
    ///
    /// # Errors
    /// `LevelExhausted` when no ring has the depth; `Spec` for shapes that do not fit.
    pub fn choose(
        shape: &ModelShape,
        length: usize,
        block: Option<usize>,
        carry: Carry,
    ) -> Result<Self, PlanError> {
        let mut last: Option<PlanError> = None;
        let mut exhausted: Option<PlanError> = None;
        let blocks: Vec<usize> = match block {
            Some(b) => vec![b],
            None => std::iter::successors(Some(length), |b| {
                (b.is_multiple_of(2) && *b > 2).then_some(b / 2)
            })
            .collect(),
        };
        for b in blocks {
            for log_n in SCAN_LOG_N {
                match Self::at(shape, length, b, carry, log_n) {
                    Ok(c) => return Ok(c),
                    Err(e @ PlanError::Spec(SpecError::LevelExhausted { .. })) => {
                        exhausted = Some(e)
                    }
                    Err(e) => last = Some(e),
                }
            }
        }
        Err(exhausted.or(last).unwrap_or_else(|| PlanError::Request {
            field: "block",
            value: format!("{block:?}"),
            detail: "no scan block fits".into(),
        }))
    }

    /// The choice in one ring.
    ///
    /// # Errors
    /// As [`ScanChoice::choose`].
    pub fn at(
        shape: &ModelShape,
        length: usize,
        block: usize,
        carry: Carry,
        log_n: u32,
    ) -> Result<Self, PlanError> {
        let layout =
            ScanLayout::for_state(1 << (log_n - 1), shape.state, shape.inner(), shape.groups)?;
        let tensors = ScanTensors::new(layout, length, shape.inner(), shape.heads, shape.groups)?;
        let schedule = ScanSchedule::new(layout, length, block, carry)?;
        let chain = chain_for_depth(log_n, schedule.depth()).map_err(|e| match e {
            PlanError::Spec(SpecError::LevelExhausted { need, have, .. }) => SpecError::LevelExhausted {
                op: format!("a scan of {length} tokens in blocks of {block} ({} carry, ring degree 2^{log_n})", carry.name()),
                need,
                have,
            }
            .into(),
            e => e,
        })?;
        Ok(Self {
            chain,
            tensors,
            schedule,
            block,
        })
    }
}
