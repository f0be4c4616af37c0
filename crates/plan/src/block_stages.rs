//! The stages of an inference in order, each with its contract and cost.

use crate::describe::boundary::{export_bytes, seeded_ciphertext_bytes};
use crate::describe::ledger::Ledger;
use crate::describe::scan::ScanDescription;
use crate::describe::{linear, opening, KernelCost};
use crate::document::FIRST_STAGE;
use crate::failure::{self, Bounds};
use crate::layouts::{LinearLayouts, ScanChoice};
use crate::stage::{Domain, Layout, Port, Ring, Stage, StageCost, StageKind};
use crate::Request;
use cipherloom_spec::chain::CkksChain;
use cipherloom_spec::fixed::{DEFAULT_FRAC, OUTPUT_BITS, OUTPUT_FRAC, SHARE_BITS};
use cipherloom_spec::formats::{BlockConfig, CompareFormat, HeadShape, NormConfig, PoolConfig};
use cipherloom_spec::projection::MatrixLayout;

/// What the stages are made from.
pub struct Parts<'a> {
    /// The request.
    pub request: &'a Request,
    /// Formats of the blocks.
    pub blocks: &'a [BlockConfig],
    /// Format of the last norm.
    pub final_norm: &'a NormConfig,
    /// Format of pooling and classifier.
    pub pool: &'a PoolConfig,
    /// Format of the comparisons of logits, for an answer by label.
    pub label: Option<CompareFormat>,
    /// Linear layouts.
    pub linear: &'a LinearLayouts,
    /// Scan.
    pub scan: &'a ScanChoice,
    /// Cost of the scan of one chunk.
    pub description: &'a ScanDescription,
    /// Projection chain.
    pub projection: &'a CkksChain,
}

/// A stage before its traffic is read from the ledger.
struct Draft {
    kind: StageKind,
    name: &'static str,
    variant: String,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    kernel: KernelCost,
}

/// Writes stages: the ledger replays their messages.
pub struct Writer<'a> {
    parts: Parts<'a>,
    bounds: Bounds,
    ledger: Ledger,
    stages: Vec<Stage>,
    failures: Vec<f64>,
    layer: Option<usize>,
}

const NONE: f64 = f64::NEG_INFINITY;
const IMPORT: &str = "seeded, 88-bit extension";
const EXPORT: &str = "complex lanes, trimmed";

impl<'a> Writer<'a> {
    /// Starts after set-up and offline phase, which the ledger has seen.
    #[must_use]
    pub fn new(parts: Parts<'a>, ledger: Ledger) -> Self {
        let bounds = Bounds::of(parts.request);
        Self {
            parts,
            bounds,
            ledger,
            stages: Vec::new(),
            failures: Vec::new(),
            layer: None,
        }
    }

    /// Writes all stages; returns them with their failure probabilities and the ledger.
    #[must_use]
    pub fn write(mut self) -> (Vec<Stage>, Vec<f64>, Ledger) {
        self.embed();
        let blocks = self.parts.blocks;
        for (i, cfg) in blocks.iter().enumerate() {
            self.layer = Some(i);
            self.before_scan(cfg);
            self.scan();
            self.after_scan(cfg);
        }
        self.layer = None;
        self.answer();
        (self.stages, self.failures, self.ledger)
    }

    /// One stage: `run` replays its messages and returns the log2 of its failure probability; products are added here.
    fn stage(&mut self, d: Draft, run: impl FnOnce(&mut Ledger) -> f64) {
        let id = FIRST_STAGE + self.stages.len() as u16;
        self.ledger.enter(id);
        let crossing = run(&mut self.ledger);
        let (traffic, mpc) = self.ledger.stage(id);
        let failure_log2 = failure::log2_sum(crossing, failure::products(&mpc));
        self.failures.push(failure_log2);
        self.stages.push(Stage {
            id,
            name: self
                .layer
                .map_or_else(|| d.name.to_string(), |l| format!("layer{l}.{}", d.name)),
            layer: self.layer,
            kind: d.kind,
            variant: d.variant,
            inputs: d.inputs,
            outputs: d.outputs,
            depth: d.kernel.depth,
            cost: StageCost {
                he: d.kernel.he,
                mpc,
                traffic,
                peak_live_ciphertexts: d.kernel.peak_live,
            },
            failure_log2: failure_log2.max(-1074.0),
        });
    }

    fn tokens(&self) -> usize {
        self.parts.request.length
    }
    fn hidden(&self) -> usize {
        self.parts.request.shape.hidden
    }
    fn inner(&self) -> usize {
        self.parts.request.shape.inner()
    }
    fn heads(&self) -> HeadShape {
        let s = &self.parts.request.shape;
        HeadShape {
            tokens: self.tokens(),
            heads: s.heads,
            head_dim: s.head_dim,
        }
    }

    fn shares(&self, tensor: &str, columns: usize) -> Port {
        Port {
            tensor: tensor.into(),
            layout: Layout::Rows {
                rows: self.tokens(),
                columns,
            },
            domain: Domain::Shares {
                bits: SHARE_BITS,
                frac: DEFAULT_FRAC.0,
            },
        }
    }
    fn stream(&self) -> Port {
        self.shares("h", self.hidden())
    }
    fn slots(&self, tensor: &str, columns: usize, level: usize) -> Port {
        Port {
            tensor: tensor.into(),
            layout: Layout::SegmentColumn {
                rows: self.parts.linear.tokens.rows,
                columns,
            },
            domain: Domain::Ckks {
                ring: Ring::Projection,
                level,
            },
        }
    }
    fn compact(tensor: &str, level: usize) -> Port {
        Port {
            tensor: tensor.into(),
            layout: Layout::ScanCompact,
            domain: Domain::Ckks {
                ring: Ring::Scan,
                level,
            },
        }
    }
    fn factors(&self) -> Vec<Port> {
        let s = &self.parts.request.shape;
        let bc = s.groups * s.state;
        vec![
            self.shares("dtx", self.inner()),
            self.shares("decay", s.heads),
            self.shares("b", bc),
            self.shares("c", bc),
        ]
    }

    fn embed(&mut self) {
        let n = self.tokens() * self.hidden();
        let d = Draft {
            kind: StageKind::Embed,
            name: "embed",
            variant: "shares".into(),
            inputs: vec![],
            outputs: vec![self.stream()],
            kernel: KernelCost::default(),
        };
        self.stage(d, |l| {
            opening::input(l, n);
            NONE
        });
    }

    fn before_scan(&mut self, cfg: &BlockConfig) {
        let (linear, projection, bounds) = (self.parts.linear, self.parts.projection, self.bounds);
        let shape = &self.parts.request.shape;
        let (tokens, hidden, inner) = (self.tokens(), self.hidden(), self.inner());
        let (conv_dim, heads, taps) = (shape.conv_dim(), shape.heads, shape.conv);
        let (top, pairs) = (projection.top_level(), linear.tokens.pairs());
        let u = self.shares("u", hidden);
        let u_ct = self.slots("u_ct", hidden, top);
        let z_ct = self.slots("z_ct", inner, top - 1);
        let raw_ct = self.slots("xbcdt_ct", conv_dim + heads, top - 1);
        let conv_ct = self.slots("conv_ct", conv_dim + heads, top - 2);

        let d = Draft {
            kind: StageKind::PreNorm,
            name: "pre_norm",
            variant: format!("nerms(N{})", cfg.pre_norm.newton()),
            inputs: vec![self.stream()],
            outputs: vec![u.clone()],
            kernel: KernelCost::default(),
        };
        self.stage(d, |l| {
            l.rms_norm(&cfg.pre_norm, tokens);
            NONE
        });

        let d = Draft {
            kind: StageKind::ToCkks,
            name: "to_ckks",
            variant: IMPORT.into(),
            inputs: vec![u],
            outputs: vec![u_ct.clone()],
            kernel: KernelCost::default(),
        };
        self.stage(d, |l| {
            l.extend_64_88(tokens * hidden);
            l.to_ckks(
                pairs * linear.input.groups(),
                seeded_ciphertext_bytes(projection, top),
            );
            failure::to_ckks(tokens * hidden, bounds)
        });

        let d = Draft {
            kind: StageKind::InProjection,
            name: "in_projection",
            variant: bsgs(&linear.input),
            inputs: vec![u_ct],
            outputs: vec![z_ct.clone(), raw_ct.clone()],
            kernel: linear::projection(&linear.input),
        };
        self.stage(d, |_| NONE);

        let mut kernel = linear::convolution(&linear.convolved, taps);
        // z waits for its export while the rest is convolved.
        kernel.peak_live += (pairs * linear.z_blocks) as u64;
        let d = Draft {
            kind: StageKind::Convolution,
            name: "convolution",
            variant: format!("ckks_segment_column({taps} taps)"),
            inputs: vec![raw_ct],
            outputs: vec![conv_ct.clone()],
            kernel,
        };
        self.stage(d, |_| NONE);

        let (nz, nc) = (pairs * linear.z_blocks, pairs * linear.convolved.blocks());
        let (xbc, dt) = (self.shares("xbc", conv_dim), self.shares("dt", heads));
        let d = Draft {
            kind: StageKind::ToShares,
            name: "to_shares",
            variant: EXPORT.into(),
            inputs: vec![z_ct, conv_ct],
            outputs: vec![self.shares("z", inner), xbc.clone(), dt.clone()],
            kernel: KernelCost::default(),
        };
        self.stage(d, |l| {
            l.to_shares(nz, export_bytes(projection, 1));
            l.to_shares(nc, export_bytes(projection, 1));
            failure::to_shares(projection, nz + nc, bounds)
        });

        let mut outputs = self.factors();
        outputs.push(self.shares("x", inner));
        let head_shape = self.heads();
        let d = Draft {
            kind: StageKind::Factors,
            name: "factors",
            variant: format!("mpc(stack {})", cfg.literal().stack.name()),
            inputs: vec![xbc, dt],
            outputs,
            kernel: KernelCost::default(),
        };
        self.stage(d, |l| {
            l.mosilu(&cfg.silu_conv, tokens * conv_dim);
            l.factors(cfg, head_shape);
            NONE
        });
    }

    fn scan(&mut self) {
        let (scan, bounds) = (self.parts.scan, self.bounds);
        let (top, base) = (scan.chain.top_level(), scan.chain.base_level());
        let s = &self.parts.request.shape;
        let t = scan.tensors;
        let values = self.tokens() * (self.inner() + s.heads + 2 * s.groups * s.state);
        let packet_cts = (2 * t.chunks() + 2 * t.groups()) * t.tiles();
        let (packet, m_ct) = (Self::compact("packet_ct", top), Self::compact("m_ct", base));
        let d = Draft {
            kind: StageKind::Packet,
            name: "packet",
            variant: format!("{IMPORT}, compact"),
            inputs: self.factors(),
            outputs: vec![packet.clone()],
            kernel: KernelCost::default(),
        };
        self.stage(d, |l| {
            l.extend_64_88(values);
            l.to_ckks(packet_cts, seeded_ciphertext_bytes(&scan.chain, top));
            failure::to_ckks(values, bounds)
        });

        let d = Draft {
            kind: StageKind::ScanContract,
            name: "scan",
            variant: format!(
                "he_scan(brent-kung, block {}, carry {})",
                scan.block,
                self.parts.request.carry.name()
            ),
            inputs: vec![packet],
            outputs: vec![m_ct.clone()],
            kernel: self.parts.description.stage_cost(t.chunks(), t.groups()),
        };
        self.stage(d, |_| NONE);

        let n = t.chunks() * t.tiles();
        let d = Draft {
            kind: StageKind::ScanToShares,
            name: "scan_to_shares",
            variant: "real lane, trimmed".into(),
            inputs: vec![m_ct],
            outputs: vec![self.shares("m", self.inner())],
            kernel: KernelCost::default(),
        };
        self.stage(d, |l| {
            l.to_shares(n, export_bytes(&scan.chain, 1));
            failure::to_shares(&scan.chain, n, bounds)
        });
    }

    fn after_scan(&mut self, cfg: &BlockConfig) {
        let (linear, projection, bounds) = (self.parts.linear, self.parts.projection, self.bounds);
        let (tokens, hidden, inner) = (self.tokens(), self.hidden(), self.inner());
        let (top, pairs) = (projection.top_level(), linear.tokens.pairs());
        let y = self.shares("y", inner);
        let y_ct = self.slots("y_ct", inner, top - 1);
        let o_ct = self.slots("o_ct", hidden, projection.base_level());
        let head_shape = self.heads();
        let d = Draft {
            kind: StageKind::Post,
            name: "post",
            variant: format!(
                "mpc(stack {}, nerms N{})",
                cfg.literal().stack.name(),
                cfg.gated_norm.newton()
            ),
            inputs: vec![
                self.shares("m", inner),
                self.shares("x", inner),
                self.shares("z", inner),
            ],
            outputs: vec![y.clone()],
            kernel: KernelCost::default(),
        };
        self.stage(d, |l| {
            l.gate(cfg, head_shape);
            l.rms_norm(&cfg.gated_norm, tokens);
            NONE
        });

        let d = Draft {
            kind: StageKind::PostToCkks,
            name: "post_to_ckks",
            variant: IMPORT.into(),
            inputs: vec![y],
            outputs: vec![y_ct.clone()],
            kernel: KernelCost::default(),
        };
        self.stage(d, |l| {
            l.extend_64_88(tokens * inner);
            l.to_ckks(
                pairs * linear.output.groups(),
                seeded_ciphertext_bytes(projection, top - 1),
            );
            failure::to_ckks(tokens * inner, bounds)
        });

        let d = Draft {
            kind: StageKind::OutProjection,
            name: "out_projection",
            variant: bsgs(&linear.output),
            inputs: vec![y_ct],
            outputs: vec![o_ct.clone()],
            kernel: linear::projection(&linear.output),
        };
        self.stage(d, |_| NONE);

        let n = pairs * linear.output.blocks();
        let d = Draft {
            kind: StageKind::Residual,
            name: "residual",
            variant: EXPORT.into(),
            inputs: vec![o_ct, self.stream()],
            outputs: vec![self.stream()],
            kernel: KernelCost::default(),
        };
        self.stage(d, |l| {
            l.to_shares(n, export_bytes(projection, 1));
            failure::to_shares(projection, n, bounds)
        });
    }

    fn answer(&mut self) {
        let (tokens, labels) = (self.tokens(), self.parts.request.shape.labels);
        let (final_norm, pool) = (self.parts.final_norm, self.parts.pool);
        let logits = Port {
            tensor: "logits".into(),
            layout: Layout::Labels(labels),
            domain: Domain::Shares {
                bits: OUTPUT_BITS,
                frac: OUTPUT_FRAC.0,
            },
        };
        let d = Draft {
            kind: StageKind::Classify,
            name: "classify",
            variant: "mpc, faithful cut".into(),
            inputs: vec![self.stream()],
            outputs: vec![logits.clone()],
            kernel: KernelCost::default(),
        };
        self.stage(d, |l| {
            l.rms_norm(final_norm, tokens);
            l.pool_and_classify(pool);
            NONE
        });
        let label = self.parts.label;
        let (variant, layout) = match label {
            None => ("logits, 12 fraction bits".into(), Layout::Labels(labels)),
            Some(f) => (
                format!("label, argmax on {} bits", f.int_bits + f.kept_frac),
                Layout::Labels(1),
            ),
        };
        let answer = Port {
            tensor: "answer".into(),
            layout,
            domain: Domain::Client,
        };
        let d = Draft {
            kind: StageKind::Output,
            name: "output",
            variant,
            inputs: vec![logits],
            outputs: vec![answer],
            kernel: KernelCost::default(),
        };
        self.stage(d, |l| {
            match label {
                None => l.open_to_client(labels, OUTPUT_BITS),
                Some(format) => l.open_label(labels, format),
            }
            // The comparisons of a label drop no bit, so they are exact: they add nothing to the budget.
            NONE
        });
    }
}

fn bsgs(l: &MatrixLayout) -> String {
    format!(
        "ckks_bsgs({} baby, {} giant, {} rows)",
        l.babies,
        l.giants(),
        l.tokens.rows
    )
}
