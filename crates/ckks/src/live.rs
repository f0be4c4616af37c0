//! Counting the ciphertexts that are alive at one time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// A counter of live ciphertexts with its peak; cloning gives another handle on the same counter.
#[derive(Debug, Clone, Default)]
pub struct LiveCounter {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    current: AtomicUsize,
    peak: AtomicUsize,
}

/// Held by a ciphertext: counts it until it is dropped. Cloning registers another one.
#[derive(Debug)]
pub struct LiveGuard {
    inner: Arc<Inner>,
}

impl LiveCounter {
    /// A counter at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ciphertexts alive now.
    #[must_use]
    pub fn current(&self) -> usize {
        self.inner.current.load(Ordering::Relaxed)
    }

    /// Most ciphertexts alive at one time since the start or the last [`LiveCounter::reset_peak`].
    #[must_use]
    pub fn peak(&self) -> usize {
        self.inner.peak.load(Ordering::Relaxed)
    }

    /// Starts a new peak at the current count.
    pub fn reset_peak(&self) {
        self.inner.peak.store(self.current(), Ordering::Relaxed);
    }

    /// Counts one more until the guard is dropped.
    #[must_use]
    pub fn register(&self) -> LiveGuard {
        LiveGuard::new(self.inner.clone())
    }
}

impl LiveGuard {
    fn new(inner: Arc<Inner>) -> Self {
        let now = inner.current.fetch_add(1, Ordering::Relaxed) + 1;
        inner.peak.fetch_max(now, Ordering::Relaxed);
        Self { inner }
    }
}

impl Clone for LiveGuard {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone())
    }
}

impl Drop for LiveGuard {
    fn drop(&mut self) {
        self.inner.current.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_remembers_clones_and_drops_lower_the_count() {
        let c = LiveCounter::new();
        let a = c.register();
        let b = a.clone();
        assert_eq!((c.current(), c.peak()), (2, 2));
        drop(a);
        assert_eq!((c.current(), c.peak()), (1, 2));
        c.reset_peak();
        assert_eq!(c.peak(), 1);
        drop(b);
        assert_eq!(c.current(), 0);
    }
}
