//! Counting homomorphic operations, each exactly once.

use cipherloom_spec::cost::HeCounts;
use std::sync::atomic::{AtomicU64, Ordering};

/// Thread-safe operation counts of one evaluator.
#[derive(Debug, Default)]
pub struct OpCounter {
    rotations: AtomicU64,
    conjugations: AtomicU64,
    relinearizations: AtomicU64,
    ct_ct: AtomicU64,
    pt_ct: AtomicU64,
    rescales: AtomicU64,
    aligns: AtomicU64,
}

impl OpCounter {
    /// What was counted so far; take the difference of two with [`HeCounts::since`].
    #[must_use]
    pub fn counts(&self) -> HeCounts {
        let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
        HeCounts {
            rotations: get(&self.rotations),
            conjugations: get(&self.conjugations),
            relinearizations: get(&self.relinearizations),
            ct_ct: get(&self.ct_ct),
            pt_ct: get(&self.pt_ct),
            rescales: get(&self.rescales),
            aligns: get(&self.aligns),
        }
    }

    pub(crate) fn rotation(&self) {
        self.rotations.fetch_add(1, Ordering::Relaxed);
    }
    pub(crate) fn conjugation(&self) {
        self.conjugations.fetch_add(1, Ordering::Relaxed);
    }
    pub(crate) fn relinearization(&self) {
        self.relinearizations.fetch_add(1, Ordering::Relaxed);
    }
    pub(crate) fn ct_ct(&self) {
        self.ct_ct.fetch_add(1, Ordering::Relaxed);
    }
    pub(crate) fn pt_ct(&self, products: usize) {
        self.pt_ct.fetch_add(products as u64, Ordering::Relaxed);
    }
    pub(crate) fn rescale(&self) {
        self.rescales.fetch_add(1, Ordering::Relaxed);
    }
    pub(crate) fn align(&self) {
        self.aligns.fetch_add(1, Ordering::Relaxed);
    }
}
