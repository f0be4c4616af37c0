//! The longest path of the scan, counted in rescales.

use super::brent_kung::{down_source, roots, up_distances};
use super::{Carry, ScanSchedule};

/// Levels consumed when a decay and an input exist.
#[derive(Clone, Copy)]
struct Used {
    decay: usize,
    input: usize,
}

/// One mask for the decay; one mask and one product for the input.
const LEAF: Used = Used { decay: 1, input: 2 };

/// `later` after `earlier`: `(a2 a1, a2 u1 + u2)`.
fn compose(later: Used, earlier: Used) -> Used {
    Used {
        decay: later.decay.max(earlier.decay) + 1,
        input: product(later.decay, earlier.input).max(later.input),
    }
}

fn product(a: usize, b: usize) -> usize {
    a.max(b) + 1
}

/// Inclusive prefixes in Brent-Kung order, and the up-sweep summary of the whole.
fn prefixes(leaves: &[Used]) -> (Vec<Used>, Used) {
    let mut nodes = leaves.to_vec();
    let mut out: Vec<Used> = Vec::with_capacity(leaves.len());
    for k in 0..leaves.len() {
        for d in up_distances(k) {
            nodes[k] = compose(nodes[k], nodes[k - d]);
        }
        let prefix = down_source(k).map_or(nodes[k], |s| compose(nodes[k], out[s]));
        out.push(prefix);
    }
    let summary = roots(leaves.len())
        .into_iter()
        .map(|r| nodes[r])
        .reduce_right();
    (out, summary.unwrap_or(LEAF))
}

trait ReduceRight: Iterator<Item = Used> + Sized {
    /// Combines the short nodes at the right end first.
    fn reduce_right(self) -> Option<Used> {
        let all: Vec<Used> = self.collect();
        all.into_iter().rev().reduce(compose)
    }
}
impl<I: Iterator<Item = Used>> ReduceRight for I {}

/// See [`ScanSchedule::depth`].
pub(super) fn depth(s: &ScanSchedule) -> usize {
    let segmented = s.layout().segments() > 1;
    let blocks: Vec<(Vec<Used>, Used)> = distinct_blocks(s);
    let of = |j: usize| &blocks[usize::from(j + 1 == s.blocks()) * (blocks.len() - 1)];
    // With one segment a block's summary is its last prefix (one pass); otherwise the first pass builds it apart.
    let summary = |j: usize| {
        let (all, up) = of(j);
        match (segmented && s.replays(), all.last()) {
            (false, Some(&last)) => last,
            _ => *up,
        }
    };
    let count = if segmented {
        s.blocks()
    } else {
        s.blocks() - 1
    };
    let summaries: Vec<Used> = (0..count).map(summary).collect();
    let through = match s.carry() {
        Carry::Serial => serial(&summaries),
        Carry::BrentKung => prefixes(&summaries).0,
    };
    let entering = segmented.then(|| {
        let total = through.last().map_or(LEAF, |t| *t);
        s.segment_distances()
            .iter()
            .fold(total, |t, _| compose(t, t))
            .input
    });
    let state = |j: usize| {
        let carry = match (j.checked_sub(1).map(|i| through[i]), entering) {
            (None, e) => e,
            (Some(g), None) => Some(g.input),
            (Some(g), Some(e)) => Some(product(g.decay, e).max(g.input)),
        };
        let h = |p: &Used| carry.map_or(p.input, |c| product(p.decay, c).max(p.input));
        of(j).0.iter().map(h).max().unwrap_or(0)
    };
    // Contraction with C and the output mask.
    (0..s.blocks()).map(state).max().unwrap_or(0) + 2
}

/// Prefixes and summary of a full block and, when it differs, of the last one.
fn distinct_blocks(s: &ScanSchedule) -> Vec<(Vec<Used>, Used)> {
    let mut lengths = vec![s.block(0).len()];
    let last = s.block(s.blocks() - 1).len();
    if last != lengths[0] {
        lengths.push(last);
    }
    lengths
        .into_iter()
        .map(|len| prefixes(&vec![LEAF; len]))
        .collect()
}

fn serial(summaries: &[Used]) -> Vec<Used> {
    summaries
        .iter()
        .scan(None, |carry: &mut Option<Used>, &s| {
            *carry = Some(carry.map_or(s, |c| compose(s, c)));
            *carry
        })
        .collect()
}
