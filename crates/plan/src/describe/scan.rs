//! What the encrypted scan costs: levels, operation counts, live ciphertexts, keys.
//!
//! The description walks through the schedule with level numbers in place of ciphertexts. It shares the schedule (block
//! bounds, prefix order, number of copies) with the kernel, and no code.

use super::scan_prefix::{compose, Chain, Prefixes, Roots, Tuple};
use super::walk::{Item, Walk};
use super::KernelCost;
use cipherloom_spec::cost::HeCounts;
use cipherloom_spec::layout::ScanLayout;
use cipherloom_spec::schedule::copies::copy_groups;
use cipherloom_spec::schedule::{Carry, ScanSchedule};
use cipherloom_spec::SpecError;
use std::rc::Rc;

/// A rotation key and the highest level it is used at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RotationUse {
    /// Left rotation in slots, `1..slots`.
    pub rotation: usize,
    /// Highest level.
    pub max_level: usize,
}

/// The description of one scan of one channel chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanDescription {
    /// Level of the packet.
    pub level_in: usize,
    /// Level of the outputs.
    pub level_out: usize,
    /// Counts, peak of live ciphertexts (packet and outputs included) and depth, of one chunk.
    pub cost: KernelCost,
    /// The operations of one chunk by the level of their operands, highest first.
    pub by_level: Vec<(usize, HeCounts)>,
    /// Ciphertexts of each packet tensor (x, decay, B, C) and of the output, a chunk.
    pub tiles: usize,
    /// Rotation keys, ascending.
    pub rotations: Vec<RotationUse>,
    /// Highest level of a relinearisation.
    pub relinearization_level: usize,
}

impl ScanDescription {
    /// The cost of `chunks` chunks in `groups` groups, run one after the other while all packets and finished outputs
    /// are held; chunks of a group share B and C.
    #[must_use]
    pub fn stage_cost(&self, chunks: usize, groups: usize) -> KernelCost {
        let (chunks, groups, tiles) = (chunks as u64, groups as u64, self.tiles as u64);
        let held = (2 * chunks + 2 * groups + chunks.saturating_sub(1)) * tiles;
        KernelCost {
            he: (0..chunks).map(|_| self.cost.he).sum(),
            peak_live: held + self.cost.peak_live - 4 * tiles,
            depth: self.cost.depth,
        }
    }
}

/// Describes the scan of `tokens` tokens in blocks of `block` from `level_in` to `level_out`.
///
/// # Errors
/// `Shape` for lengths that are not multiples of the segments; `LevelExhausted` naming need and have when there are
/// fewer levels than the longest path.
pub fn describe_scan(
    layout: ScanLayout,
    tokens: usize,
    block: usize,
    carry: Carry,
    level_in: usize,
    level_out: usize,
) -> Result<ScanDescription, SpecError> {
    let schedule = ScanSchedule::new(layout, tokens, block, carry)?;
    let mut walk = ScanWalk::new(&schedule, level_in, level_out);
    walk.run();
    // The deepest state, the product with C and the output mask.
    let need = walk.deepest + 2;
    let have = level_in.saturating_sub(level_out);
    if have < need {
        return Err(SpecError::LevelExhausted {
            op: format!(
                "scan of {tokens} tokens in blocks of {block}, {} carry",
                carry.name()
            ),
            need,
            have,
        });
    }
    let rotations = walk.w.rotations();
    Ok(ScanDescription {
        level_in,
        level_out,
        cost: KernelCost {
            he: walk.w.counts(),
            peak_live: walk.w.peak(),
            depth: need,
        },
        by_level: walk
            .w
            .counts_by_use()
            .into_iter()
            .map(|(used, he)| (level_in - used, he))
            .collect(),
        tiles: schedule.tiles(),
        rotations: rotations
            .into_iter()
            .map(|(rotation, used)| RotationUse {
                rotation,
                max_level: level_in - used,
            })
            .collect(),
        relinearization_level: level_in - walk.w.highest_product().unwrap_or(0),
    })
}

/// Which factor is expanded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Factor {
    X,
    Decay,
    B,
    C,
}

/// The copies of an open tile; levels used by the tile when it is masked.
struct Tile {
    index: usize,
    used: usize,
    _copies: Vec<Item>,
}

struct ScanWalk<'a> {
    w: Walk,
    s: &'a ScanSchedule,
    /// Levels used by a state when it meets C.
    meeting: usize,
    /// Open tiles by factor.
    open: [Option<Tile>; 4],
    partial: Vec<Item>,
    outputs: Vec<Item>,
    /// Most levels used by a state.
    deepest: usize,
}

impl<'a> ScanWalk<'a> {
    fn new(s: &'a ScanSchedule, level_in: usize, level_out: usize) -> Self {
        Self {
            w: Walk::new(),
            s,
            // A chain that is too short is reported from `deepest`, after the walk.
            meeting: level_in.saturating_sub(level_out + 2).max(1),
            open: [None, None, None, None],
            partial: Vec::new(),
            outputs: Vec::new(),
            deepest: 0,
        }
    }

    fn run(&mut self) {
        let packet: Vec<Item> = (0..4 * self.s.tiles()).map(|_| self.w.item(0)).collect();
        if self.s.layout().segments() == 1 {
            self.single_pass();
        } else if self.s.blocks() == 1 {
            self.kept_prefixes();
        } else {
            self.two_passes();
        }
        drop(packet);
    }

    /// One segment: the state after a block is known before the next one starts.
    fn single_pass(&mut self) {
        let s = self.s;
        let mut chain = Chain::new(s.carry(), s.blocks() - 1, false);
        let mut entering: Option<Rc<Item>> = None;
        for j in 0..s.blocks() {
            let mut scan = Prefixes::new(s.block(j).len(), entering.is_some());
            let mut after = None;
            for step in s.block(j) {
                let leaf = self.leaf(step, entering.is_some() || step > s.block(j).start);
                let p = scan.push(&self.w, leaf);
                let h = match &entering {
                    None => p.u.clone(),
                    Some(state) => Rc::new(self.apply(&p, state)),
                };
                let ends = step + 1 == s.block(j).end && j + 1 < s.blocks();
                let summary = ends.then_some(p);
                self.contract(step, &h);
                drop(h);
                if let Some(t) = summary {
                    after = Some(chain.push(&self.w, t).u);
                }
            }
            entering = after;
        }
    }

    /// Several segments, one block: all prefixes wait for the entering state.
    fn kept_prefixes(&mut self) {
        let mut scan = Prefixes::new(self.s.steps(), true);
        let mut all = Vec::new();
        for step in 0..self.s.steps() {
            let leaf = self.leaf(step, true);
            all.push(scan.push(&self.w, leaf));
        }
        drop(scan);
        let Some(total) = all.last().cloned() else {
            return;
        };
        let entering = self.over_segments(total);
        for (step, p) in all.into_iter().enumerate() {
            let h = self.apply(&p, &entering);
            drop(p);
            self.contract(step, &h);
        }
    }

    /// Several segments and blocks: summaries first, then every block again.
    fn two_passes(&mut self) {
        let s = self.s;
        let mut chain = Chain::new(s.carry(), s.blocks(), true);
        let mut through = Vec::new();
        for j in 0..s.blocks() {
            let mut roots = Roots::default();
            for step in s.block(j) {
                let leaf = self.leaf(step, true);
                roots.push(&self.w, leaf);
            }
            let summary = roots.fold(&self.w);
            through.extend(summary.map(|t| chain.push(&self.w, t)));
        }
        drop(chain);
        let Some(total) = through.pop() else { return };
        let entering = self.over_segments(total);
        let mut through = through.into_iter();
        for j in 0..s.blocks() {
            let before = if j == 0 { None } else { through.next() };
            let own = before.map(|g| self.apply(&g, &entering));
            let mut scan = Prefixes::new(s.block(j).len(), true);
            for step in s.block(j) {
                let leaf = self.leaf(step, true);
                let p = scan.push(&self.w, leaf);
                let h = self.apply(&p, own.as_ref().unwrap_or(&entering));
                drop(p);
                self.contract(step, &h);
            }
        }
    }

    /// The state after a range: one product and one sum.
    fn apply(&self, t: &Tuple, state: &Item) -> Item {
        let a = t.a.as_deref().unwrap_or(state);
        let mut h = self.w.mul(a, state);
        self.w.add(&mut h, &t.u);
        h
    }

    /// Kogge-Stone over the segments, then one segment to the right.
    fn over_segments(&self, total: Tuple) -> Item {
        let l = self.s.layout();
        let (n, width) = (l.slots(), l.channels() as i64);
        let mut all = total;
        let mut distance = 1;
        while distance < l.segments() {
            let by = -width * distance as i64;
            let last = 2 * distance == l.segments();
            let u = Rc::new(self.w.rotate(&all.u, by, n));
            let a = match &all.a {
                Some(a) if !last => Some(Rc::new(self.w.rotate(a, by, n))),
                _ => None,
            };
            all = compose(&self.w, all, Tuple { a, u }, !last);
            distance *= 2;
        }
        self.w.rotate(&all.u, -width, n)
    }

    fn leaf(&mut self, step: usize, decays: bool) -> Tuple {
        let x = self.expand(Factor::X, step);
        self.close(Factor::X, step);
        let b = self.expand(Factor::B, step);
        self.close(Factor::B, step);
        let u = Rc::new(self.w.mul(&x, &b));
        drop(x);
        drop(b);
        let a = decays.then(|| Rc::new(self.expand(Factor::Decay, step)));
        self.close(Factor::Decay, step);
        Tuple { a, u }
    }

    /// One step of a factor in all rows or columns: masked copies of its tile, then doublings.
    fn expand(&mut self, f: Factor, step: usize) -> Item {
        let l = self.s.layout();
        let (index, r) = (step / l.rows(), step % l.rows());
        if self.open[f as usize].as_ref().map(|t| t.index) != Some(index) {
            self.open[f as usize] = None;
            self.open[f as usize] = Some(self.open_tile(f, index));
        }
        let used = self.open[f as usize].as_ref().map_or(0, |t| t.used);
        let by_rows = matches!(f, Factor::X | Factor::Decay);
        let copies = if by_rows {
            self.s.row_copies()
        } else {
            self.s.column_copies()
        };
        let mut v = self.w.masked_sum(used, copies);
        let mut reach = copies;
        while reach < l.rows() {
            let by = match by_rows {
                true => (reach * l.row_stride()) as i64,
                // An even block of columns spreads to the right, an odd one to the left.
                false if (r / reach).is_multiple_of(2) => -((reach * l.replicas()) as i64),
                false => (reach * l.replicas()) as i64,
            };
            let turned = self.w.rotate(&v, by, l.slots());
            self.w.add(&mut v, &turned);
            reach *= 2;
        }
        v
    }

    fn open_tile(&self, f: Factor, index: usize) -> Tile {
        let l = self.s.layout();
        let tile = self.w.item_elsewhere(0);
        let mut copies = Vec::new();
        let (q, unit) = match f {
            Factor::X | Factor::Decay => (self.s.row_copies(), l.row_stride()),
            Factor::B | Factor::C => (self.s.column_copies(), l.replicas()),
        };
        // C is needed one level above the states.
        let used = if f == Factor::C { self.meeting - 1 } else { 0 };
        if used > 0 {
            copies.push(self.w.align(&tile, used));
        }
        self.copy_tile(used, q, unit, &mut copies);
        if matches!(f, Factor::B | Factor::C) && q > 1 {
            let low = self.w.item_elsewhere(used);
            let back = self.w.rotate(&low, -((q * unit) as i64), l.slots());
            self.copy_tile(used, q, unit, &mut copies);
            drop(back);
        }
        Tile {
            index,
            used,
            _copies: copies,
        }
    }

    /// `q - 1` rotated copies.
    fn copy_tile(&self, used: usize, q: usize, unit: usize, copies: &mut Vec<Item>) {
        let from = self.w.item_elsewhere(used);
        for (_, distances) in copy_groups(q) {
            for d in distances {
                let by = (d * unit) as i64;
                copies.push(self.w.rotate(&from, by, self.s.layout().slots()));
            }
        }
    }

    /// Frees the copies after the last step of a tile.
    fn close(&mut self, f: Factor, step: usize) {
        if (step + 1).is_multiple_of(self.s.layout().rows()) || step + 1 == self.s.steps() {
            self.open[f as usize] = None;
        }
    }

    /// Product with C, sum over rows, and the partial sums of the output tile.
    fn contract(&mut self, step: usize, h: &Item) {
        let l = self.s.layout();
        let q = self.s.row_copies();
        self.deepest = self.deepest.max(h.used);
        let c = self.expand(Factor::C, step);
        self.close(Factor::C, step);
        let met = (h.used != self.meeting).then(|| self.w.align(h, self.meeting));
        let mut z = self.w.mul(&c, met.as_ref().unwrap_or(h));
        drop(met);
        drop(c);
        let mut reach = q;
        while reach < l.rows() {
            let turned = self
                .w
                .rotate(&z, (reach * l.row_stride()) as i64, l.slots());
            self.w.add(&mut z, &turned);
            reach *= 2;
        }
        for part in 0..q {
            if self.partial.len() <= part {
                self.partial.push(self.w.item(z.used));
            }
            self.w.masked_term(&z);
        }
        drop(z);
        if step % l.rows() + 1 == l.rows() || step + 1 == self.s.steps() {
            let mut tile: Option<Item> = None;
            while let Some(mut sum) = self.partial.pop() {
                self.w.rescale(&mut sum);
                tile = Some(match tile.take() {
                    None => sum,
                    Some(so_far) => {
                        let mut turned = self.w.rotate(&so_far, l.row_stride() as i64, l.slots());
                        drop(so_far);
                        self.w.add(&mut turned, &sum);
                        turned
                    }
                });
            }
            self.outputs.extend(tile);
        }
    }
}
