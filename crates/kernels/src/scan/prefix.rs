//! Tuples of the affine recurrence and their prefixes (protocols 3.1 and 3.2).

use crate::{KernelError, SlotDomain};
use cipherloom_spec::schedule::brent_kung::{
    down_source, node_is_absorbed, prefix_last_use, up_distances,
};
use cipherloom_spec::schedule::Carry;
use std::sync::Arc;

/// `h -> decay h + input` over a range of steps. The decay is absent where no state enters the range: what
/// starts at the beginning of the sequence needs none.
pub(super) struct Tuple<C> {
    pub(super) decay: Option<Arc<C>>,
    pub(super) input: Arc<C>,
}

impl<C> Clone for Tuple<C> {
    fn clone(&self) -> Self {
        Self {
            decay: self.decay.clone(),
            input: self.input.clone(),
        }
    }
}

impl<C> Tuple<C> {
    /// Applied to the state that enters the range: `decay state + input`.
    pub(super) fn apply<D: SlotDomain<Ct = C>>(&self, d: &D, state: &C) -> Result<C, KernelError> {
        let mut h = d.mul(self.decay()?, state)?;
        d.add_assign(&mut h, &self.input)?;
        Ok(h)
    }

    pub(super) fn decay(&self) -> Result<&Arc<C>, KernelError> {
        self.decay.as_ref().ok_or(KernelError::Order {
            op: "scan",
            detail: "a decay is needed of a range that starts at the beginning",
        })
    }
}

/// `later` after `earlier`: `(a2 a1, a2 u1 + u2)`. Operands that nobody else holds are freed as soon as they are used.
pub(super) fn compose<D: SlotDomain>(
    d: &D,
    later: Tuple<D::Ct>,
    earlier: Tuple<D::Ct>,
    keep_decay: bool,
) -> Result<Tuple<D::Ct>, KernelError> {
    let mut input = d.mul(later.decay()?, &earlier.input)?;
    drop(earlier.input);
    d.add_assign(&mut input, &later.input)?;
    drop(later.input);
    let decay = match (keep_decay, later.decay, earlier.decay) {
        (false, ..) => None,
        (true, Some(a2), Some(a1)) => Some(Arc::new(d.mul(&a2, &a1)?)),
        _ => {
            return Err(KernelError::Order {
                op: "scan",
                detail: "a composition lacks a decay",
            })
        }
    };
    Ok(Tuple {
        decay,
        input: Arc::new(input),
    })
}

/// Inclusive Brent-Kung prefixes of a known number of tuples that arrive in order. Holds about `2 log2 len` tuples.
pub(super) struct PrefixStream<C> {
    /// Whether a state enters: then the prefixes keep their decays.
    state_enters: bool,
    nodes: Vec<Option<Tuple<C>>>,
    prefixes: Vec<Option<Tuple<C>>>,
    next: usize,
}

impl<C> PrefixStream<C> {
    pub(super) fn new(len: usize, state_enters: bool) -> Self {
        Self {
            state_enters,
            nodes: std::iter::repeat_with(|| None).take(len).collect(),
            prefixes: std::iter::repeat_with(|| None).take(len).collect(),
            next: 0,
        }
    }

    /// Takes the next tuple and returns its prefix.
    pub(super) fn push<D: SlotDomain<Ct = C>>(
        &mut self,
        d: &D,
        leaf: Tuple<C>,
    ) -> Result<Tuple<C>, KernelError> {
        let (k, len) = (self.next, self.nodes.len());
        self.next += 1;
        let mut node = leaf;
        for distance in up_distances(k) {
            let left = take(&mut self.nodes, k - distance)?;
            let from_start = 2 * distance == k + 1;
            node = compose(d, node, left, self.state_enters || !from_start)?;
        }
        if node_is_absorbed(k, len) {
            self.nodes[k] = Some(node.clone());
        }
        let prefix = match down_source(k) {
            None => node,
            Some(source) => {
                let earlier = if prefix_last_use(source, len) == Some(k) {
                    take(&mut self.prefixes, source)?
                } else {
                    self.prefixes[source].clone().ok_or(OUT_OF_ORDER)?
                };
                compose(d, node, earlier, self.state_enters)?
            }
        };
        if prefix_last_use(k, len).is_some() {
            self.prefixes[k] = Some(prefix.clone());
        }
        Ok(prefix)
    }
}

const OUT_OF_ORDER: KernelError = KernelError::Order {
    op: "scan prefix",
    detail: "an element is used before it exists or after it was freed",
};

fn take<C>(all: &mut [Option<Tuple<C>>], k: usize) -> Result<Tuple<C>, KernelError> {
    all.get_mut(k).and_then(Option::take).ok_or(OUT_OF_ORDER)
}

/// The composition of tuples that arrive in order, without their prefixes (up-sweep only). Holds at most `log2 len + 1` tuples.
pub(super) struct SummaryStream<C> {
    nodes: Vec<Tuple<C>>,
    next: usize,
}

impl<C> SummaryStream<C> {
    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            next: 0,
        }
    }

    pub(super) fn push<D: SlotDomain<Ct = C>>(
        &mut self,
        d: &D,
        leaf: Tuple<C>,
    ) -> Result<(), KernelError> {
        let mut node = leaf;
        for _ in up_distances(self.next) {
            let left = self.nodes.pop().ok_or(OUT_OF_ORDER)?;
            node = compose(d, node, left, true)?;
        }
        self.nodes.push(node);
        self.next += 1;
        Ok(())
    }

    /// Folds the nodes, the short ones at the right end first: the shallowest order.
    pub(super) fn finish<D: SlotDomain<Ct = C>>(mut self, d: &D) -> Result<Tuple<C>, KernelError> {
        let mut sum = self.nodes.pop().ok_or(OUT_OF_ORDER)?;
        while let Some(left) = self.nodes.pop() {
            sum = compose(d, sum, left, true)?;
        }
        Ok(sum)
    }
}

/// The composition of all blocks up to the current one.
pub(super) enum Chain<C> {
    Serial {
        last: Option<Tuple<C>>,
        state_enters: bool,
    },
    BrentKung(PrefixStream<C>),
}

impl<C> Chain<C> {
    pub(super) fn new(carry: Carry, len: usize, state_enters: bool) -> Self {
        match carry {
            Carry::Serial => Self::Serial {
                last: None,
                state_enters,
            },
            Carry::BrentKung => Self::BrentKung(PrefixStream::new(len, state_enters)),
        }
    }

    /// Takes the summary of the next block and returns the composition of all blocks so far.
    pub(super) fn push<D: SlotDomain<Ct = C>>(
        &mut self,
        d: &D,
        summary: Tuple<C>,
    ) -> Result<Tuple<C>, KernelError> {
        match self {
            Self::BrentKung(stream) => stream.push(d, summary),
            Self::Serial { last, state_enters } => {
                let all = match last.take() {
                    None => summary,
                    Some(before) => compose(d, summary, before, *state_enters)?,
                };
                *last = Some(all.clone());
                Ok(all)
            }
        }
    }
}
