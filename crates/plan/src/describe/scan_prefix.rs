//! Brent-Kung prefixes and the carry over blocks, on level numbers.

use super::walk::{Item, Walk};
use cipherloom_spec::schedule::brent_kung::{
    down_source, node_is_absorbed, prefix_last_use, up_distances,
};
use cipherloom_spec::schedule::Carry;
use std::rc::Rc;

/// `h -> a h + u`; the decay is absent where no state can enter.
#[derive(Clone)]
pub(super) struct Tuple {
    pub(super) a: Option<Rc<Item>>,
    pub(super) u: Rc<Item>,
}

/// `later` after `earlier`: two products, or one where the decay is not kept.
pub(super) fn compose(w: &Walk, later: Tuple, earlier: Tuple, keep: bool) -> Tuple {
    let a2 = later.a.unwrap_or_else(|| later.u.clone());
    let mut u = w.mul(&a2, &earlier.u);
    drop(earlier.u);
    w.add(&mut u, &later.u);
    drop(later.u);
    let a = match (keep, earlier.a) {
        (true, Some(a1)) => Some(Rc::new(w.mul(&a2, &a1))),
        _ => None,
    };
    Tuple { a, u: Rc::new(u) }
}

/// Inclusive prefixes of a sequence of known length.
pub(super) struct Prefixes {
    len: usize,
    entered: bool,
    /// For each element: its up-sweep node and its prefix, while somebody needs them.
    held: Vec<(Option<Tuple>, Option<Tuple>)>,
}

impl Prefixes {
    pub(super) fn new(len: usize, entered: bool) -> Self {
        Self {
            len,
            entered,
            held: Vec::with_capacity(len),
        }
    }

    pub(super) fn push(&mut self, w: &Walk, leaf: Tuple) -> Tuple {
        let k = self.held.len();
        let mut node = leaf;
        for d in up_distances(k) {
            if let Some(left) = self.held[k - d].0.take() {
                node = compose(w, node, left, self.entered || 2 * d <= k);
            }
        }
        let kept = node_is_absorbed(k, self.len).then(|| node.clone());
        let source = down_source(k).map(|s| (s, self.held[s].1.clone()));
        let prefix = match source {
            Some((s, Some(earlier))) => {
                if prefix_last_use(s, self.len) == Some(k) {
                    self.held[s].1 = None;
                }
                compose(w, node, earlier, self.entered)
            }
            _ => node,
        };
        let later = prefix_last_use(k, self.len).map(|_| prefix.clone());
        self.held.push((kept, later));
        prefix
    }
}

/// The up-sweep alone.
#[derive(Default)]
pub(super) struct Roots {
    nodes: Vec<Tuple>,
    seen: usize,
}

impl Roots {
    pub(super) fn push(&mut self, w: &Walk, leaf: Tuple) {
        let mut node = leaf;
        for _ in up_distances(self.seen) {
            if let Some(left) = self.nodes.pop() {
                node = compose(w, node, left, true);
            }
        }
        self.nodes.push(node);
        self.seen += 1;
    }

    pub(super) fn fold(mut self, w: &Walk) -> Option<Tuple> {
        let mut sum = self.nodes.pop()?;
        while let Some(left) = self.nodes.pop() {
            sum = compose(w, sum, left, true);
        }
        Some(sum)
    }
}

/// The composition of all blocks up to the current one.
pub(super) enum Chain {
    Serial(Option<Tuple>, bool),
    BrentKung(Prefixes),
}

impl Chain {
    pub(super) fn new(carry: Carry, len: usize, entered: bool) -> Self {
        match carry {
            Carry::Serial => Self::Serial(None, entered),
            Carry::BrentKung => Self::BrentKung(Prefixes::new(len, entered)),
        }
    }

    pub(super) fn push(&mut self, w: &Walk, block: Tuple) -> Tuple {
        match self {
            Self::BrentKung(prefixes) => prefixes.push(w, block),
            Self::Serial(last, entered) => {
                let all = match last.take() {
                    None => block,
                    Some(before) => compose(w, block, before, *entered),
                };
                *last = Some(all.clone());
                all
            }
        }
    }
}
