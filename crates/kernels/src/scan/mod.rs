//! HEScan: encrypted affine prefix scan `h_t = a_t h_(t-1) + x_t B_t` and contraction `y_t = Re sum_i C_t[i] h_t[i]`.
//!
//! Structure (protocols 3): expand the compact factors step by step, scan the tuples inside a block in Brent-Kung
//! order, carry the state over blocks (serial or Brent-Kung), over segments by rotations (Kogge-Stone), contract with C.
//!
//! The tuples stream: a prefix is used as soon as it exists, so a block holds about `2 log2 B` tuples instead of `B`.
//! With one segment every carry depends on earlier blocks only, and one pass suffices. With several segments in a
//! ciphertext the entering state needs the whole sequence first: one block keeps its tuples, several blocks are built
//! twice (summaries, then replay).

mod contract;
mod expand;
mod masks;
mod prefix;

use crate::{KernelError, SlotDomain};
use cipherloom_spec::schedule::ScanSchedule;
use cipherloom_spec::SpecError;
use contract::Contraction;
use expand::{Axis, Expander};
use masks::{expand_columns, expand_rows, fold_rows, MaskSet};
use prefix::{compose, Chain, PrefixStream, SummaryStream, Tuple};
use std::sync::Arc;

/// The compact factors of one channel chunk: `tiles` ciphertexts each, laid out as in
/// `cipherloom_spec::layout::ScanTensors`, all at the kernel's input level. Chunks of one group share B and C.
#[derive(Debug)]
pub struct ScanPacket<'a, C> {
    /// Input factor: time step times input.
    pub x: &'a [C],
    /// Decay factor in [0, 1]; zero for token 0.
    pub decay: &'a [C],
    /// Input projection B, two components a slot.
    pub b: &'a [C],
    /// Output projection C, two components a slot, the second negated.
    pub c: &'a [C],
}

impl<C> Clone for ScanPacket<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<C> Copy for ScanPacket<'_, C> {}

/// The scan kernel of one schedule between two levels, with its encoded masks.
pub struct HeScan<P> {
    schedule: ScanSchedule,
    level_in: usize,
    level_out: usize,
    rows_in: MaskSet<P>,
    columns_in: MaskSet<P>,
    columns_out: MaskSet<P>,
    rows_out: MaskSet<P>,
}

impl<P: Send + Sync> HeScan<P> {
    /// Encodes the masks for packets at `level_in` and outputs at `level_out`. Memory: up to `4 R` plaintexts, half of
    /// them at the lowest levels.
    ///
    /// # Errors
    /// `Spec(LevelExhausted)` naming the depth that the schedule needs; `Slots` when the layout is not the
    /// domain's; encoding errors.
    pub fn new<D: SlotDomain<Plain = P>>(
        domain: &D,
        schedule: ScanSchedule,
        level_in: usize,
        level_out: usize,
    ) -> Result<Self, KernelError> {
        let (need, have) = (schedule.depth(), level_in.saturating_sub(level_out));
        if have < need {
            return Err(KernelError::Spec(SpecError::LevelExhausted {
                op: scan_name(&schedule),
                need,
                have,
            }));
        }
        if level_out < domain.base_level() {
            return Err(KernelError::LevelExhausted {
                op: "scan output",
                level: level_out,
                base: domain.base_level(),
            });
        }
        let slots = schedule.layout().slots();
        if slots != domain.slots() {
            return Err(KernelError::Slots {
                op: "scan layout",
                got: slots,
                slots: domain.slots(),
            });
        }
        Ok(Self {
            schedule,
            level_in,
            level_out,
            rows_in: expand_rows(domain, &schedule, level_in)?,
            columns_in: expand_columns(domain, &schedule, level_in)?,
            columns_out: expand_columns(domain, &schedule, level_out + 3)?,
            rows_out: fold_rows(domain, &schedule, level_out + 1)?,
        })
    }

    /// The schedule.
    #[must_use]
    pub fn schedule(&self) -> &ScanSchedule {
        &self.schedule
    }

    /// Level of the packet.
    #[must_use]
    pub fn level_in(&self) -> usize {
        self.level_in
    }

    /// Level of the outputs.
    #[must_use]
    pub fn level_out(&self) -> usize {
        self.level_out
    }

    /// Scans one chunk and returns its output tiles at `level_out`, in the map of x; rows past the last step are
    /// zero. The real lanes hold the result; the imaginary lanes hold no result.
    ///
    /// # Errors
    /// `Count` or `LevelMismatch` for a packet that does not fit; missing keys.
    pub fn run<D: SlotDomain<Plain = P>>(
        &self,
        domain: &D,
        packet: ScanPacket<'_, D::Ct>,
    ) -> Result<Vec<D::Ct>, KernelError> {
        self.check(domain, &packet)?;
        let s = &self.schedule;
        let c = Expander::new(domain, s, Axis::Columns, packet.c, &self.columns_out);
        let mut out = Contraction::new(domain, s, c, &self.rows_out);
        if s.layout().segments() == 1 {
            self.one_segment(domain, packet, &mut out)?;
        } else if s.blocks() == 1 {
            self.one_block(domain, packet, &mut out)?;
        } else {
            self.replay(domain, packet, &mut out)?;
        }
        Ok(out.into_outputs())
    }

    fn check<D: SlotDomain>(
        &self,
        d: &D,
        packet: &ScanPacket<'_, D::Ct>,
    ) -> Result<(), KernelError> {
        let expected = self.schedule.tiles();
        for (what, tiles) in [
            ("scan x", packet.x),
            ("scan decay", packet.decay),
            ("scan B", packet.b),
            ("scan C", packet.c),
        ] {
            if tiles.len() != expected {
                return Err(KernelError::Count {
                    what,
                    got: tiles.len(),
                    expected,
                });
            }
            if let Some(t) = tiles.iter().find(|&t| d.level(t) != self.level_in) {
                return Err(KernelError::LevelMismatch {
                    op: what,
                    left: d.level(t),
                    right: self.level_in,
                });
            }
        }
        Ok(())
    }

    /// One segment: a single pass, the carry runs ahead of the tokens.
    fn one_segment<D: SlotDomain<Plain = P>>(
        &self,
        d: &D,
        packet: ScanPacket<'_, D::Ct>,
        out: &mut Contraction<'_, D>,
    ) -> Result<(), KernelError> {
        let s = &self.schedule;
        let mut tuples = Tuples::new(d, self, packet);
        let carried = s.blocks() - 1;
        let mut chain = Chain::new(s.carry(), carried, false);
        let mut entering: Option<Arc<D::Ct>> = None;
        for block in 0..s.blocks() {
            let steps = s.block(block);
            let mut stream = PrefixStream::new(steps.len(), entering.is_some());
            let mut next = None;
            for step in steps.clone() {
                let with_decay = entering.is_some() || step != steps.start;
                let prefix = stream.push(d, tuples.build(step, with_decay)?)?;
                let state = match &entering {
                    None => prefix.input.clone(),
                    Some(state) => Arc::new(prefix.apply(d, state)?),
                };
                let summary = (step + 1 == steps.end && block < carried).then_some(prefix);
                out.push(step, &state)?;
                drop(state);
                if let Some(summary) = summary {
                    next = Some(chain.push(d, summary)?.input);
                }
            }
            entering = next;
        }
        Ok(())
    }

    /// Several segments, one block: the prefixes wait for the state that enters their segment.
    fn one_block<D: SlotDomain<Plain = P>>(
        &self,
        d: &D,
        packet: ScanPacket<'_, D::Ct>,
        out: &mut Contraction<'_, D>,
    ) -> Result<(), KernelError> {
        let steps = self.schedule.steps();
        let mut tuples = Tuples::new(d, self, packet);
        let mut stream = PrefixStream::new(steps, true);
        let mut prefixes = Vec::with_capacity(steps);
        for step in 0..steps {
            prefixes.push(stream.push(d, tuples.build(step, true)?)?);
        }
        drop((tuples, stream));
        let total = prefixes.last().cloned().ok_or(NO_STEPS)?;
        let entering = self.enter_segments(d, total)?;
        for (step, prefix) in prefixes.into_iter().enumerate() {
            let state = prefix.apply(d, &entering)?;
            drop(prefix);
            out.push(step, &state)?;
        }
        Ok(())
    }

    /// Several segments and blocks: block summaries first, then every block again with its entering state.
    fn replay<D: SlotDomain<Plain = P>>(
        &self,
        d: &D,
        packet: ScanPacket<'_, D::Ct>,
        out: &mut Contraction<'_, D>,
    ) -> Result<(), KernelError> {
        let s = &self.schedule;
        let mut tuples = Tuples::new(d, self, packet);
        let mut chain = Chain::new(s.carry(), s.blocks(), true);
        let mut through = Vec::with_capacity(s.blocks());
        for block in 0..s.blocks() {
            let mut stream = SummaryStream::new();
            for step in s.block(block) {
                stream.push(d, tuples.build(step, true)?)?;
            }
            through.push(chain.push(d, stream.finish(d)?)?);
        }
        drop((tuples, chain));
        let total = through.pop().ok_or(NO_STEPS)?;
        let entering = self.enter_segments(d, total)?;
        let mut before = through.into_iter();
        let mut tuples = Tuples::new(d, self, packet);
        for block in 0..s.blocks() {
            let own;
            let state = if block == 0 {
                &entering
            } else {
                own = before.next().ok_or(NO_STEPS)?.apply(d, &entering)?;
                &own
            };
            let steps = s.block(block);
            let mut stream = PrefixStream::new(steps.len(), true);
            for step in steps {
                let prefix = stream.push(d, tuples.build(step, true)?)?;
                let h = prefix.apply(d, state)?;
                drop(prefix);
                out.push(step, &h)?;
            }
        }
        Ok(())
    }

    /// The state that enters each segment, from the composition of each segment: Kogge-Stone over the segments. Rotations are
    /// cyclic; what wraps around is multiplied by the decay of segment 0, which is zero since that of token 0 is.
    fn enter_segments<D: SlotDomain<Plain = P>>(
        &self,
        d: &D,
        total: Tuple<D::Ct>,
    ) -> Result<D::Ct, KernelError> {
        let channels = self.schedule.layout().channels() as i64;
        let distances = self.schedule.segment_distances();
        let mut all = total;
        for (i, &distance) in distances.iter().enumerate() {
            let last = i + 1 == distances.len();
            let by = -(distance as i64) * channels;
            let input = Arc::new(d.rotate(&all.input, by)?);
            // The last composition needs the input only.
            let decay = if last {
                None
            } else {
                Some(Arc::new(d.rotate(all.decay()?, by)?))
            };
            all = compose(d, all, Tuple { decay, input }, !last)?;
        }
        d.rotate(&all.input, -channels)
    }
}

/// Name of a scan in error messages.
fn scan_name(s: &ScanSchedule) -> String {
    format!(
        "scan of {} tokens in {} blocks of {} steps, {} carry",
        s.tokens(),
        s.blocks(),
        s.block_steps(),
        s.carry().name()
    )
}

const NO_STEPS: KernelError = KernelError::Order {
    op: "scan",
    detail: "the schedule has no steps left",
};

/// Builds the tuple of each step from the compact tiles.
struct Tuples<'a, D: SlotDomain> {
    d: &'a D,
    x: Expander<'a, D>,
    decay: Expander<'a, D>,
    b: Expander<'a, D>,
}

impl<'a, D: SlotDomain> Tuples<'a, D> {
    fn new(d: &'a D, k: &'a HeScan<D::Plain>, packet: ScanPacket<'a, D::Ct>) -> Self {
        let s = &k.schedule;
        Self {
            d,
            x: Expander::new(d, s, Axis::Rows, packet.x, &k.rows_in),
            decay: Expander::new(d, s, Axis::Rows, packet.decay, &k.rows_in),
            b: Expander::new(d, s, Axis::Columns, packet.b, &k.columns_in),
        }
    }

    fn build(&mut self, step: usize, with_decay: bool) -> Result<Tuple<D::Ct>, KernelError> {
        let x = self.x.expand(step)?;
        self.x.release_after(step);
        let b = self.b.expand(step)?;
        self.b.release_after(step);
        let input = Arc::new(self.d.mul(&x, &b)?);
        drop((x, b));
        let decay = if with_decay {
            Some(Arc::new(self.decay.expand(step)?))
        } else {
            None
        };
        self.decay.release_after(step);
        Ok(Tuple { decay, input })
    }
}
