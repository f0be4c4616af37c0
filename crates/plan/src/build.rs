//! From a request to a plan: layouts, rings, keys, and the stages with their costs. Arithmetic on shapes.

use crate::block_stages::{Parts, Writer};
use crate::describe::ledger::{Ledger, MpcShape, ProductShape};
use crate::describe::{linear, opening, scan::describe_scan};
use crate::document::{
    Document, KeyRequest, KeyUse, MemoryEstimate, FORMAT, OFFLINE_STAGE, SETUP_STAGE, VERSION,
};
use crate::layouts::{LinearLayouts, ScanChoice, PROJECTION_DEPTH, PROJECTION_LOG_N};
use crate::rings::chain_for_depth;
use crate::stage::Ring;
use crate::{failure, Answer, PlanError, Request};
use cipherloom_spec::chain::CkksChain;
use cipherloom_spec::cost::Traffic;
use cipherloom_spec::formats::{BlockConfig, NormConfig, PoolConfig};
use cipherloom_spec::security::SECURITY_BITS;

/// Longest message that a channel carries, in bytes.
pub const MAX_MESSAGE: u64 = 2 << 30;
/// Longest sequence of a plan.
pub const MAX_LENGTH: usize = 1 << 16;

/// What follows from a request besides the document.
#[derive(Debug, Clone)]
pub struct Derived {
    /// Layouts of the linear stages.
    pub linear: LinearLayouts,
    /// Scan ring, layout and schedule.
    pub scan: ScanChoice,
    /// Projection chain.
    pub projection: CkksChain,
    /// Keys of the projection ring and of the scan ring.
    pub keys: [KeyRequest; 2],
}

/// Keys that the stages of a ring use, each up to the highest level of its use.
fn key_request(
    ring: Ring,
    relinearization: Option<usize>,
    conjugation: Option<usize>,
    mut uses: Vec<KeyUse>,
) -> KeyRequest {
    uses.sort_by_key(|k| (k.rotation, std::cmp::Reverse(k.max_level)));
    uses.dedup_by_key(|k| k.rotation);
    KeyRequest {
        ring,
        relinearization,
        conjugation,
        rotations: uses,
    }
}

fn projection_keys(l: &LinearLayouts, taps: usize, top: usize) -> KeyRequest {
    let at = |steps: Vec<usize>, level: usize| {
        steps.into_iter().map(move |rotation| KeyUse {
            rotation,
            max_level: level,
        })
    };
    let mut uses = Vec::new();
    for (m, level) in [(&l.input, top), (&l.output, top - 1)] {
        // Baby steps rotate the input; giant steps and folds the rescaled parts.
        uses.extend(at(linear::baby_rotations(m), level));
        uses.extend(at(linear::late_rotations(m), level - 1));
    }
    uses.extend(at(
        linear::convolution_rotations(&l.convolved, taps),
        top - 1,
    ));
    let conjugation = l.tokens.paired().then_some(top - 1);
    key_request(Ring::Projection, None, conjugation, uses)
}

/// Builds document and derived data.
///
/// # Errors
/// As [`crate::Plan::build`].
pub(crate) fn build(request: Request, mpc: MpcShape) -> Result<(Document, Derived), PlanError> {
    let shape = request.shape.clone();
    shape.validate()?;
    mpc.validate()?;
    let tokens = request.length;
    if tokens == 0 || tokens > MAX_LENGTH {
        return Err(PlanError::Request {
            field: "length",
            value: tokens.to_string(),
            detail: format!("use 1 to {MAX_LENGTH} tokens"),
        });
    }
    if request.blocks.len() != shape.layers || request.labels.len() != shape.labels {
        return Err(PlanError::Request {
            field: "blocks, labels",
            value: format!("{}, {}", request.blocks.len(), request.labels.len()),
            detail: format!(
                "the shape has {} layers and {} labels",
                shape.layers, shape.labels
            ),
        });
    }
    let blocks: Vec<BlockConfig> = request
        .blocks
        .iter()
        .map(|b| BlockConfig::new(*b))
        .collect::<Result<_, _>>()?;
    let final_norm = NormConfig::new(request.final_norm.clone())?;
    let pool = PoolConfig::new(request.pool)?;
    let label = match request.answer {
        Answer::Logits => None,
        Answer::Label => Some(pool.label_format()?),
    };
    let linear = LinearLayouts::choose(&shape, tokens)?;
    let scan = ScanChoice::choose(&shape, tokens, request.block, request.carry)?;
    let projection = chain_for_depth(PROJECTION_LOG_N, PROJECTION_DEPTH)?;
    let top = projection.top_level();
    let (scan_top, scan_base) = (scan.chain.top_level(), scan.chain.base_level());
    let s = scan.schedule;
    let description = describe_scan(
        s.layout(),
        tokens,
        scan.block,
        request.carry,
        scan_top,
        scan_base,
    )?;
    let scan_keys = key_request(
        Ring::Scan,
        Some(description.relinearization_level),
        None,
        description
            .rotations
            .iter()
            .map(|r| KeyUse {
                rotation: r.rotation,
                max_level: r.max_level,
            })
            .collect(),
    );
    let keys = [projection_keys(&linear, shape.conv, top), scan_keys];

    let mut ledger = Ledger::new(mpc, ProductShape::default());
    ledger.enter(SETUP_STAGE);
    opening::handshake(&mut ledger);
    opening::offer(&mut ledger);
    opening::keys(&mut ledger, &projection, &keys[0]);
    opening::keys(&mut ledger, &scan.chain, &keys[1]);
    opening::product_key(&mut ledger);
    ledger.enter(OFFLINE_STAGE);
    ledger.open_session();
    let parts = Parts {
        request: &request,
        blocks: &blocks,
        final_norm: &final_norm,
        pool: &pool,
        label,
        linear: &linear,
        scan: &scan,
        description: &description,
        projection: &projection,
    };
    let (stages, failures, ledger) = Writer::new(parts, ledger).write();

    let largest = ledger
        .stages()
        .map(|(_, e)| e.largest_message)
        .max()
        .unwrap_or(0);
    if largest > MAX_MESSAGE {
        return Err(PlanError::Bound {
            stage: "the longest message".into(),
            what: "bytes of one message".into(),
            have: (largest as f64).log2(),
            limit: (MAX_MESSAGE as f64).log2(),
        });
    }
    let failure_log2 = failure::total(&stages, &failures)?;
    let setup = ledger.stage(SETUP_STAGE).0;
    let offline: Traffic = ledger.stage(OFFLINE_STAGE).0;
    let (server_memory, client_memory) = crate::memory::estimate(
        &linear,
        &projection,
        &scan,
        &keys,
        &stages,
        shape.layers,
        shape.conv,
    );
    let document = Document {
        format: FORMAT.into(),
        version: VERSION,
        mpc,
        products: ProductShape::default(),
        token_rows: linear.tokens.rows,
        scan_block: scan.block,
        projection_ring: projection.literal().clone(),
        scan_ring: scan.chain.literal().clone(),
        keys: keys.to_vec(),
        setup_bytes: setup.client_to_server + setup.server_to_client,
        offline,
        stages,
        security_bits: SECURITY_BITS,
        failure_log2,
        server_memory,
        client_memory,
        request,
    };
    Ok((
        document,
        Derived {
            linear,
            scan,
            projection,
            keys,
        },
    ))
}

impl MemoryEstimate {
    /// Sum of all parts.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.keys + self.weights + self.ciphertexts
    }
}
