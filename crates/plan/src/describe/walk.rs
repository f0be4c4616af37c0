//! Level numbers in place of ciphertexts: what a description walks with.

use cipherloom_spec::cost::HeCounts;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Stands for one live ciphertext; `used` counts the levels that it lies below the input.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) used: usize,
    live: Option<Rc<Live>>,
}

#[derive(Debug, Default)]
struct Live {
    now: Cell<u64>,
    peak: Cell<u64>,
}

impl Drop for Item {
    fn drop(&mut self) {
        if let Some(live) = &self.live {
            live.now.set(live.now.get().saturating_sub(1));
        }
    }
}

/// Counts operations, live items and rotations.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// By levels used by the operands.
    counts: RefCell<BTreeMap<usize, HeCounts>>,
    live: Rc<Live>,
    rotations: RefCell<BTreeMap<usize, usize>>,
    highest_product: Cell<Option<usize>>,
}

impl Walk {
    /// Starts at zero.
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn counts(&self) -> HeCounts {
        self.counts.borrow().values().copied().sum()
    }
    /// Operations by the levels that their operands have used.
    pub(super) fn counts_by_use(&self) -> BTreeMap<usize, HeCounts> {
        self.counts.borrow().clone()
    }
    pub(super) fn peak(&self) -> u64 {
        self.live.peak.get()
    }
    /// Rotations with the fewest levels used when they happened.
    pub(super) fn rotations(&self) -> BTreeMap<usize, usize> {
        self.rotations.borrow().clone()
    }
    /// Fewest levels used by the operands of a ciphertext product.
    pub(super) fn highest_product(&self) -> Option<usize> {
        self.highest_product.get()
    }

    /// A new item.
    pub(super) fn item(&self, used: usize) -> Item {
        let now = self.live.now.get() + 1;
        self.live.now.set(now);
        self.live.peak.set(self.live.peak.get().max(now));
        Item {
            used,
            live: Some(self.live.clone()),
        }
    }

    /// An item that is counted elsewhere, to read its level.
    pub(super) fn item_elsewhere(&self, used: usize) -> Item {
        Item { used, live: None }
    }

    fn count(&self, used: usize, f: impl FnOnce(&mut HeCounts)) {
        f(self.counts.borrow_mut().entry(used).or_default());
    }

    /// The lower level of two; one align if they differ.
    fn meet(&self, a: usize, b: usize) -> usize {
        let low = a.max(b);
        if a != b {
            // Done one level above the result.
            self.count(low - 1, |c| c.aligns += 1);
        }
        low
    }

    pub(super) fn mul(&self, a: &Item, b: &Item) -> Item {
        let used = self.meet(a.used, b.used);
        self.count(used, |c| {
            c.ct_ct += 1;
            c.relinearizations += 1;
            c.rescales += 1;
        });
        let highest = self.highest_product.get().map_or(used, |h| h.min(used));
        self.highest_product.set(Some(highest));
        self.item(used + 1)
    }

    pub(super) fn add(&self, a: &mut Item, b: &Item) {
        a.used = self.meet(a.used, b.used);
    }

    /// At a lower level: one align, none where it already is.
    pub(super) fn align(&self, a: &Item, used: usize) -> Item {
        let used = self.meet(a.used, used);
        self.item(used)
    }

    /// A rotation by `left` slots of `slots`.
    pub(super) fn rotate(&self, a: &Item, left: i64, slots: usize) -> Item {
        let left = left.rem_euclid(slots as i64) as usize;
        if left != 0 {
            self.count(a.used, |c| c.rotations += 1);
            let mut all = self.rotations.borrow_mut();
            let used = all.entry(left).or_insert(a.used);
            *used = a.used.min(*used);
        }
        self.item(a.used)
    }

    /// Products with `terms` masks, added up and rescaled.
    pub(super) fn masked_sum(&self, used: usize, terms: usize) -> Item {
        self.count(used, |c| {
            c.pt_ct += terms as u64;
            c.rescales += 1;
        });
        self.item(used + 1)
    }

    /// One product of `a` with a mask into a sum that is rescaled later.
    pub(super) fn masked_term(&self, a: &Item) {
        self.count(a.used, |c| c.pt_ct += 1);
    }

    /// The rescale of such a sum.
    pub(super) fn rescale(&self, a: &mut Item) {
        self.count(a.used, |c| c.rescales += 1);
        a.used += 1;
    }
}
