//! From a request to a plan: layouts, rings, keys, and the stages with their costs. Arithmetic on shapes.

use crate::describe::boundary::{export_bytes, seeded_ciphertext_bytes};
use crate::describe::ledger::{Ledger, MpcShape, ProductShape};
use crate::describe::{linear, opening, scan::describe_scan, KernelCost};
use crate::document::{
    Document, KeyRequest, KeyUse, MemoryEstimate, MpcChoices, FIRST_STAGE, FORMAT, OFFLINE_STAGE,
    SETUP_STAGE, VERSION,
};
use crate::layouts::{LinearLayouts, ScanChoice, PROJECTION_DEPTH, PROJECTION_LOG_N};
use crate::rings::chain_for_depth;
use crate::stage::{Domain, Layout, Port, Ring, Stage, StageCost, StageKind};
use crate::{failure, PlanError, Request};
use cipherloom_spec::chain::CkksChain;
use cipherloom_spec::cost::Traffic;
use cipherloom_spec::fixed::{DEFAULT_FRAC, OUTPUT_BITS, OUTPUT_FRAC, SHARE_BITS};
use cipherloom_spec::formats::{BlockConfig, HeadShape, NormConfig, PoolConfig};
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

struct Builder {
    ledger: Ledger,
    stages: Vec<Stage>,
    failures: Vec<f64>,
}

impl Builder {
    /// Opens the next stage: everything the ledger sees from here on is its traffic.
    fn open(&mut self) -> u16 {
        let id = FIRST_STAGE + self.stages.len() as u16;
        self.ledger.enter(id);
        id
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one call a stage kind, all fields differ"
    )]
    fn close(
        &mut self,
        id: u16,
        layer: Option<usize>,
        kind: StageKind,
        name: &str,
        variant: String,
        ports: (Vec<Port>, Vec<Port>),
        kernel: KernelCost,
        failure_log2: f64,
    ) {
        let (traffic, mpc) = self.ledger.stage(id);
        self.failures.push(failure_log2);
        self.stages.push(Stage {
            id,
            name: layer.map_or_else(|| name.to_string(), |l| format!("layer{l}.{name}")),
            layer,
            kind,
            variant,
            inputs: ports.0,
            outputs: ports.1,
            depth: kernel.depth,
            cost: StageCost {
                he: kernel.he,
                mpc,
                traffic,
                peak_live_ciphertexts: kernel.peak_live,
            },
            failure_log2: failure_log2.max(-1074.0),
        });
    }
}

fn port(tensor: &str, layout: Layout, domain: Domain) -> Port {
    Port {
        tensor: tensor.into(),
        layout,
        domain,
    }
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
pub(crate) fn build(request: Request, mpc: MpcChoices) -> Result<(Document, Derived), PlanError> {
    let shape = request.shape.clone();
    shape.validate()?;
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

    let bounds = failure::Bounds::of(&request);
    let linear = LinearLayouts::choose(&shape, tokens)?;
    let scan = ScanChoice::choose(&shape, tokens, request.block, request.carry)?;
    let projection = chain_for_depth(PROJECTION_LOG_N, PROJECTION_DEPTH)?;
    let (top, base) = (projection.top_level(), projection.base_level());
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

    let (hidden, inner, conv_dim, heads) =
        (shape.hidden, shape.inner(), shape.conv_dim(), shape.heads);
    let bc = shape.groups * shape.state;
    let head_shape = HeadShape {
        tokens,
        heads,
        head_dim: shape.head_dim,
    };
    let mut ledger = Ledger::new(
        MpcShape {
            cot_k: mpc.cot_k,
            cot_batch: mpc.cot_batch,
            digit_bits: mpc.digit_bits,
        },
        ProductShape::default(),
    );
    ledger.enter(SETUP_STAGE);
    opening::handshake(&mut ledger);
    opening::keys(&mut ledger, &projection, &keys[0]);
    opening::keys(&mut ledger, &scan.chain, &keys[1]);
    ledger.enter(OFFLINE_STAGE);
    ledger.open_session();
    ledger.open_products();
    let mut b = Builder {
        ledger,
        stages: Vec::new(),
        failures: Vec::new(),
    };

    let stored = Domain::Shares {
        bits: SHARE_BITS,
        frac: DEFAULT_FRAC.0,
    };
    let rows = |columns: usize| Layout::Rows {
        rows: tokens,
        columns,
    };
    let segment = |columns: usize| Layout::SegmentColumn {
        rows: linear.tokens.rows,
        columns,
    };
    let ckks = |ring, level| Domain::Ckks { ring, level };
    let h = || port("h", rows(hidden), stored.clone());
    let none = f64::NEG_INFINITY;
    let products = |b: &Builder, id: u16| failure::products(&b.ledger.stage(id).1);

    let id = b.open();
    opening::input(&mut b.ledger, tokens * hidden);
    b.close(
        id,
        None,
        StageKind::Embed,
        "embed",
        "shares".into(),
        (vec![], vec![h()]),
        KernelCost::default(),
        none,
    );

    let in_cost = linear::projection(&linear.input);
    let mut conv_cost = linear::convolution(&linear.convolved, shape.conv);
    // z waits for its export while the rest is convolved.
    conv_cost.peak_live += (linear.tokens.pairs() * linear.z_blocks) as u64;
    let out_cost = linear::projection(&linear.output);
    let scan_cost = description.stage_cost(scan.tensors.chunks(), scan.tensors.groups());
    let pairs = linear.tokens.pairs();
    let packet_cts = (2 * scan.tensors.chunks() + 2 * scan.tensors.groups()) * scan.tensors.tiles();
    let scan_variant = format!(
        "he_scan(brent-kung, block {}, carry {})",
        scan.block,
        request.carry.name()
    );
    let bsgs = |l: &cipherloom_spec::projection::MatrixLayout| {
        format!(
            "ckks_bsgs({} baby, {} giant, {} rows)",
            l.babies,
            l.giants(),
            l.tokens.rows
        )
    };
    for (i, cfg) in blocks.iter().enumerate() {
        let layer = Some(i);
        let shares = |t: &str, columns: usize| port(t, rows(columns), stored.clone());

        let id = b.open();
        b.ledger.rms_norm(&cfg.pre_norm, tokens);
        let f = products(&b, id);
        b.close(
            id,
            layer,
            StageKind::PreNorm,
            "pre_norm",
            format!("nerms(N{})", cfg.pre_norm.newton()),
            (vec![h()], vec![shares("u", hidden)]),
            KernelCost::default(),
            f,
        );

        let id = b.open();
        b.ledger.extend_64_88(tokens * hidden);
        b.ledger.to_ckks(
            pairs * linear.input.groups(),
            seeded_ciphertext_bytes(&projection, top),
        );
        let f = failure::to_ckks(tokens * hidden, bounds);
        b.close(
            id,
            layer,
            StageKind::ToCkks,
            "to_ckks",
            "seeded, 88-bit extension".into(),
            (
                vec![shares("u", hidden)],
                vec![port("u_ct", segment(hidden), ckks(Ring::Projection, top))],
            ),
            KernelCost::default(),
            f,
        );

        let id = b.open();
        let z_ct = || port("z_ct", segment(inner), ckks(Ring::Projection, top - 1));
        let raw_ct = || {
            port(
                "xbcdt_ct",
                segment(conv_dim + heads),
                ckks(Ring::Projection, top - 1),
            )
        };
        b.close(
            id,
            layer,
            StageKind::InProjection,
            "in_projection",
            bsgs(&linear.input),
            (
                vec![port("u_ct", segment(hidden), ckks(Ring::Projection, top))],
                vec![z_ct(), raw_ct()],
            ),
            in_cost,
            none,
        );

        let id = b.open();
        let conv_ct = || {
            port(
                "conv_ct",
                segment(conv_dim + heads),
                ckks(Ring::Projection, top - 2),
            )
        };
        b.close(
            id,
            layer,
            StageKind::Convolution,
            "convolution",
            format!("ckks_segment_column({} taps)", shape.conv),
            (vec![raw_ct()], vec![conv_ct()]),
            conv_cost,
            none,
        );

        let id = b.open();
        let (nz, nc) = (pairs * linear.z_blocks, pairs * linear.convolved.blocks());
        b.ledger.to_shares(nz, export_bytes(&projection, 1));
        b.ledger.to_shares(nc, export_bytes(&projection, 1));
        let f = failure::to_shares(&projection, nz + nc, bounds);
        b.close(
            id,
            layer,
            StageKind::ToShares,
            "to_shares",
            "complex lanes, trimmed".into(),
            (
                vec![z_ct(), conv_ct()],
                vec![
                    shares("z", inner),
                    shares("xbc", conv_dim),
                    shares("dt", heads),
                ],
            ),
            KernelCost::default(),
            f,
        );

        let id = b.open();
        b.ledger.mosilu(&cfg.silu_conv, tokens * conv_dim);
        b.ledger.factors(cfg, head_shape);
        let f = products(&b, id);
        let factors = || {
            vec![
                shares("dtx", inner),
                shares("decay", heads),
                shares("b", bc),
                shares("c", bc),
            ]
        };
        let mut made = factors();
        made.push(shares("x", inner));
        b.close(
            id,
            layer,
            StageKind::Factors,
            "factors",
            format!("mpc(stack {})", cfg.literal().stack.name()),
            (vec![shares("xbc", conv_dim), shares("dt", heads)], made),
            KernelCost::default(),
            f,
        );

        let id = b.open();
        let values = tokens * (inner + heads + 2 * bc);
        b.ledger.extend_64_88(values);
        b.ledger
            .to_ckks(packet_cts, seeded_ciphertext_bytes(&scan.chain, scan_top));
        let f = failure::to_ckks(values, bounds);
        let packet = || port("packet_ct", Layout::ScanCompact, ckks(Ring::Scan, scan_top));
        b.close(
            id,
            layer,
            StageKind::Packet,
            "packet",
            "seeded, 88-bit extension, compact".into(),
            (factors(), vec![packet()]),
            KernelCost::default(),
            f,
        );

        let id = b.open();
        let m_ct = || port("m_ct", Layout::ScanCompact, ckks(Ring::Scan, scan_base));
        b.close(
            id,
            layer,
            StageKind::ScanContract,
            "scan",
            scan_variant.clone(),
            (vec![packet()], vec![m_ct()]),
            scan_cost,
            none,
        );

        let id = b.open();
        let nm = scan.tensors.chunks() * scan.tensors.tiles();
        b.ledger.to_shares(nm, export_bytes(&scan.chain, 1));
        let f = failure::to_shares(&scan.chain, nm, bounds);
        b.close(
            id,
            layer,
            StageKind::ScanToShares,
            "scan_to_shares",
            "real lane, trimmed".into(),
            (vec![m_ct()], vec![shares("m", inner)]),
            KernelCost::default(),
            f,
        );

        let id = b.open();
        b.ledger.gate(cfg, head_shape);
        b.ledger.rms_norm(&cfg.gated_norm, tokens);
        let f = products(&b, id);
        b.close(
            id,
            layer,
            StageKind::Post,
            "post",
            format!(
                "mpc(stack {}, nerms N{})",
                cfg.literal().stack.name(),
                cfg.gated_norm.newton()
            ),
            (
                vec![shares("m", inner), shares("x", inner), shares("z", inner)],
                vec![shares("y", inner)],
            ),
            KernelCost::default(),
            f,
        );

        let id = b.open();
        b.ledger.extend_64_88(tokens * inner);
        b.ledger.to_ckks(
            pairs * linear.output.groups(),
            seeded_ciphertext_bytes(&projection, top - 1),
        );
        let f = failure::to_ckks(tokens * inner, bounds);
        let y_ct = || port("y_ct", segment(inner), ckks(Ring::Projection, top - 1));
        b.close(
            id,
            layer,
            StageKind::PostToCkks,
            "post_to_ckks",
            "seeded, 88-bit extension".into(),
            (vec![shares("y", inner)], vec![y_ct()]),
            KernelCost::default(),
            f,
        );

        let id = b.open();
        let o_ct = || port("o_ct", segment(hidden), ckks(Ring::Projection, base));
        b.close(
            id,
            layer,
            StageKind::OutProjection,
            "out_projection",
            bsgs(&linear.output),
            (vec![y_ct()], vec![o_ct()]),
            out_cost,
            none,
        );

        let id = b.open();
        let no = pairs * linear.output.blocks();
        b.ledger.to_shares(no, export_bytes(&projection, 1));
        let f = failure::to_shares(&projection, no, bounds);
        b.close(
            id,
            layer,
            StageKind::Residual,
            "residual",
            "complex lanes, trimmed".into(),
            (vec![o_ct(), h()], vec![h()]),
            KernelCost::default(),
            f,
        );
    }

    let logits = || {
        port(
            "logits",
            Layout::Labels(shape.labels),
            Domain::Shares {
                bits: OUTPUT_BITS,
                frac: OUTPUT_FRAC.0,
            },
        )
    };
    let id = b.open();
    b.ledger.rms_norm(&final_norm, tokens);
    b.ledger.pool_and_classify(&pool);
    let f = products(&b, id);
    b.close(
        id,
        None,
        StageKind::Classify,
        "classify",
        "mpc, faithful cut".into(),
        (vec![h()], vec![logits()]),
        KernelCost::default(),
        f,
    );
    let id = b.open();
    b.ledger.open_to_client(shape.labels, OUTPUT_BITS);
    b.close(
        id,
        None,
        StageKind::Output,
        "output",
        "logits, 12 fraction bits".into(),
        (
            vec![logits()],
            vec![port("answer", Layout::Labels(shape.labels), Domain::Client)],
        ),
        KernelCost::default(),
        none,
    );

    let largest = b
        .ledger
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
    let failure_log2 = failure::total(&b.stages, &b.failures)?;
    let setup = b.ledger.stage(SETUP_STAGE).0;
    let offline: Traffic = b.ledger.stage(OFFLINE_STAGE).0;
    let (server_memory, client_memory) = crate::memory::estimate(
        &linear,
        &projection,
        &scan,
        &keys,
        &b.stages,
        shape.layers,
        shape.conv,
    );
    let Builder { stages, .. } = b;
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
