//! The server's side of a session. No type here can hold a client's secret key.

use crate::client::index;
use crate::face::{Face, Kernel, Known, Slot};
use crate::keys::ServerKeys;
use crate::weights::ServerWeights;
use crate::EngineError;
use cipherloom_bridge::{CkksToShares, SharesToCkks, SlotWords, WideFft};
use cipherloom_ckks::{Ciphertext, Evaluator, PublicKey};
use cipherloom_kernels::{
    convolve, project, CkksSlots, KernelError, ScanPacket, SlotCiphertext, SlotDomain,
};
use cipherloom_mpc::TwoParty;
use cipherloom_plan::{Plan, Ring};
use cipherloom_spec::cost::HeCounts;
use cipherloom_spec::fixed::DEFAULT_FRAC;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The server during the stages: holds the client's evaluation keys and the model's weights.
pub struct ServerFace {
    two: TwoParty,
    plan: Arc<Plan>,
    weights: Arc<ServerWeights>,
    domains: [CkksSlots; 2],
    publics: [PublicKey; 2],
    fft: [Arc<WideFft>; 2],
    held: BTreeMap<Slot, Vec<SlotCiphertext>>,
    key_bytes: u64,
}

/// What the server makes from a client's keys before the session opens, so that nothing can fail once it is joined.
pub struct ServerTables {
    domains: [CkksSlots; 2],
    publics: [PublicKey; 2],
    fft: [Arc<WideFft>; 2],
    key_bytes: u64,
}

impl ServerTables {
    /// Transforms and evaluators of both rings.
    ///
    /// # Errors
    /// Bridge and CKKS errors.
    pub fn new(keys: ServerKeys) -> Result<Self, EngineError> {
        let key_bytes = keys.memory_bytes();
        let fft = [
            Arc::new(WideFft::new(keys.projection.params.chain().log_n())?),
            Arc::new(WideFft::new(keys.scan.params.chain().log_n())?),
        ];
        let domains = [
            CkksSlots::new(Evaluator::new(
                &keys.projection.params,
                keys.projection.keys,
            )?),
            CkksSlots::new(Evaluator::new(&keys.scan.params, keys.scan.keys)?),
        ];
        Ok(Self {
            domains,
            publics: [keys.projection.public, keys.scan.public],
            fft,
            key_bytes,
        })
    }
}

impl ServerFace {
    /// Joins session, keys and weights.
    #[must_use]
    pub fn new(
        two: TwoParty,
        plan: Arc<Plan>,
        weights: Arc<ServerWeights>,
        tables: ServerTables,
    ) -> Self {
        let ServerTables {
            domains,
            publics,
            fft,
            key_bytes,
        } = tables;
        Self {
            two,
            plan,
            weights,
            domains,
            publics,
            fft,
            held: BTreeMap::new(),
            key_bytes,
        }
    }

    /// Bytes of evaluation keys in memory.
    #[must_use]
    pub fn key_bytes(&self) -> u64 {
        self.key_bytes
    }

    /// Gives the session back, to end it.
    #[must_use]
    pub fn into_two(self) -> TwoParty {
        self.two
    }

    fn take(&mut self, slot: Slot) -> Vec<SlotCiphertext> {
        self.held.remove(&slot).unwrap_or_default()
    }
}

/// Groups a flat list into rows of `width`.
fn rows<T>(items: Vec<T>, width: usize) -> Vec<Vec<T>> {
    let mut out = Vec::new();
    let mut it = items.into_iter().peekable();
    while it.peek().is_some() {
        out.push(it.by_ref().take(width.max(1)).collect());
    }
    out
}

impl Face for ServerFace {
    fn two(&mut self) -> &mut TwoParty {
        &mut self.two
    }

    fn to_ckks(
        &mut self,
        ring: Ring,
        level: usize,
        slot: Slot,
        words: Vec<SlotWords>,
    ) -> Result<(), EngineError> {
        let dom = &self.domains[index(ring)];
        let params = dom.evaluator().params();
        let boundary = SharesToCkks::new(params, &self.fft[index(ring)], level, DEFAULT_FRAC)?;
        let cts = boundary.server(&words, self.two.session().channel())?;
        let cts = cts
            .into_iter()
            .map(|c| dom.input(c))
            .collect::<Result<Vec<_>, KernelError>>()?;
        self.held.insert(slot, cts);
        Ok(())
    }

    fn to_shares(
        &mut self,
        ring: Ring,
        slots: &[(Slot, usize, usize)],
    ) -> Result<Vec<Vec<SlotWords>>, EngineError> {
        let mut out = Vec::with_capacity(slots.len());
        for &(slot, level, count) in slots {
            let cts: Vec<Ciphertext> = self
                .take(slot)
                .into_iter()
                .map(SlotCiphertext::into_ciphertext)
                .collect();
            if cts.len() != count {
                return Err(EngineError::Tensor {
                    stage: self
                        .two
                        .session_ref()
                        .channel_ref()
                        .stage_name()
                        .to_string(),
                    tensor: "ciphertexts to export",
                    have: cts.len(),
                    need: count,
                });
            }
            let params = self.domains[index(ring)].evaluator().params();
            let boundary = CkksToShares::new(
                params,
                &self.fft[index(ring)],
                params.scale(level),
                DEFAULT_FRAC,
            )?;
            let key = boundary.export_key(&self.publics[index(ring)])?;
            let session = self.two.session();
            let prepared = boundary.prepare(&key, count, session.prg())?;
            out.push(boundary.server(&cts, prepared, session.channel())?);
        }
        Ok(out)
    }

    fn kernel(&mut self, layer: usize, kernel: Kernel) -> Result<(), EngineError> {
        let weights = Arc::clone(&self.weights);
        let w = weights.layers.get(layer).ok_or(EngineError::Tensor {
            stage: format!("layer{layer}"),
            tensor: "layer weights",
            have: weights.layers.len(),
            need: layer + 1,
        })?;
        let linear = *self.plan.linear();
        match kernel {
            Kernel::Input => {
                let inputs = rows(self.take(Slot::ProjectionIn), linear.input.groups());
                let dom = &self.domains[index(Ring::Projection)];
                dom.live().reset_peak();
                let out = project(dom, &w.input, inputs)?;
                let (mut z, mut rest) = (Vec::new(), Vec::new());
                for mut pair in out {
                    let tail = pair.split_off(linear.z_blocks);
                    z.extend(pair);
                    rest.extend(tail);
                }
                self.held.insert(Slot::Z, z);
                self.held.insert(Slot::Unconvolved, rest);
            }
            Kernel::Convolution => {
                let inputs = rows(self.take(Slot::Unconvolved), linear.convolved.blocks());
                let dom = &self.domains[index(Ring::Projection)];
                dom.live().reset_peak();
                let out = convolve(dom, &w.convolution, inputs)?;
                self.held
                    .insert(Slot::Convolved, out.into_iter().flatten().collect());
            }
            Kernel::Output => {
                let inputs = rows(self.take(Slot::ProjectionIn), linear.output.groups());
                let dom = &self.domains[index(Ring::Projection)];
                dom.live().reset_peak();
                let out = project(dom, &w.output, inputs)?;
                self.held
                    .insert(Slot::ProjectionOut, out.into_iter().flatten().collect());
            }
            Kernel::Scan => {
                let packet = self.take(Slot::Packet);
                let s = self.plan.scan().tensors;
                let (tiles, chunks) = (s.tiles(), s.chunks());
                let dom = &self.domains[index(Ring::Scan)];
                dom.live().reset_peak();
                let (factors, shared) = packet.split_at((2 * chunks * tiles).min(packet.len()));
                let part = |all: &'_ [SlotCiphertext], i: usize| -> std::ops::Range<usize> {
                    let from = (i * tiles).min(all.len());
                    from..(from + tiles).min(all.len())
                };
                let mut out = Vec::with_capacity(chunks * tiles);
                for chunk in 0..chunks {
                    let group = s.group_of(chunk);
                    let packet = ScanPacket {
                        x: &factors[part(factors, 2 * chunk)],
                        decay: &factors[part(factors, 2 * chunk + 1)],
                        b: &shared[part(shared, 2 * group)],
                        c: &shared[part(shared, 2 * group + 1)],
                    };
                    out.extend(weights.scan.run(dom, packet)?);
                }
                self.held.insert(Slot::ScanOut, out);
            }
        }
        Ok(())
    }

    fn known(&self, layer: usize) -> Known<'_> {
        let w = self.weights.layers.get(layer);
        Known {
            rates: w.map(|w| &w.rates[..]),
            skip: w.map(|w| &w.skip[..]),
        }
    }

    fn classifier(&self) -> Option<(&[f64], &[f64])> {
        Some((&self.weights.classifier, &self.weights.classifier_bias))
    }

    fn pooling(&self) -> Option<&[f64]> {
        None
    }

    fn embedded(&self) -> Option<&[f64]> {
        None
    }

    fn he_counts(&self) -> HeCounts {
        self.domains.iter().map(SlotDomain::counts).sum()
    }

    fn take_peak_live(&mut self) -> u64 {
        let peak = self
            .domains
            .iter()
            .map(|d| d.live().peak())
            .max()
            .unwrap_or(0);
        for d in &self.domains {
            d.live().reset_peak();
        }
        peak as u64
    }
}
