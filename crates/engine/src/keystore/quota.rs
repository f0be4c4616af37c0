//! Limits, order of use and eviction: the same for both stores.
//!
//! An entry is in use while anybody but the map holds it. Rights are only made under the lock of the map, so an entry that
//! is idle under the lock stays idle until it is released.

use super::{Fingerprint, KeyStoreError, StoreLimits, StoreUsage};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What an entry counts for.
pub(super) trait Weighed {
    fn bytes(&self) -> u64;
}

/// The entries of a store and what is set aside for uploads.
pub(super) struct Quota<T> {
    limits: StoreLimits,
    /// Entries with the counter of their last use.
    entries: BTreeMap<Fingerprint, (u64, Arc<T>)>,
    bytes: u64,
    reserved: u64,
    uploads: usize,
    counter: u64,
    evicted: u64,
}

impl<T: Weighed> Quota<T> {
    pub(super) fn new(limits: StoreLimits) -> Result<Self, KeyStoreError> {
        if limits.max_bytes == 0 || limits.max_entries == 0 {
            return Err(KeyStoreError::Limits {
                bytes: limits.max_bytes,
                entries: limits.max_entries,
            });
        }
        Ok(Self {
            limits,
            entries: BTreeMap::new(),
            bytes: 0,
            reserved: 0,
            uploads: 0,
            counter: 0,
            evicted: 0,
        })
    }

    /// Evicts until `need` bytes and `slots` entries more fit; `remove` deletes what belongs to an entry. Nothing is evicted
    /// when that cannot be reached.
    pub(super) fn make_room(
        &mut self,
        need: u64,
        slots: usize,
        mut remove: impl FnMut(&Fingerprint) -> Result<(), KeyStoreError>,
    ) -> Result<(), KeyStoreError> {
        let StoreLimits {
            max_bytes,
            max_entries,
        } = self.limits;
        if need > max_bytes {
            return Err(KeyStoreError::TooLarge {
                need,
                limit: max_bytes,
            });
        }
        let idle = |e: &Arc<T>| Arc::strong_count(e) == 1;
        let (mut in_use, mut entries_in_use) = (self.reserved, self.uploads);
        for (_, e) in self.entries.values().filter(|(_, e)| !idle(e)) {
            in_use += e.bytes();
            entries_in_use += 1;
        }
        if in_use.saturating_add(need) > max_bytes || entries_in_use + slots > max_entries {
            return Err(KeyStoreError::Full {
                need,
                in_use,
                limit: max_bytes,
                entries_in_use,
                entries: max_entries,
            });
        }
        let full = |q: &Self| {
            (q.bytes + q.reserved).saturating_add(need) > max_bytes
                || q.entries.len() + q.uploads + slots > max_entries
        };
        while full(self) {
            let oldest = self
                .entries
                .iter()
                .filter(|(_, (_, e))| idle(e))
                .min_by_key(|(f, (used, _))| (*used, **f))
                .map(|(f, _)| *f);
            // There is one: what is in use fits beside `need`.
            let Some(f) = oldest else { break };
            remove(&f)?;
            self.remove(&f);
            self.evicted += 1;
        }
        Ok(())
    }

    /// Makes room for one upload and sets it aside.
    pub(super) fn reserve(
        &mut self,
        need: u64,
        remove: impl FnMut(&Fingerprint) -> Result<(), KeyStoreError>,
    ) -> Result<(), KeyStoreError> {
        self.make_room(need, 1, remove)?;
        self.reserved += need;
        self.uploads += 1;
        Ok(())
    }

    /// Gives back what [`Self::reserve`] set aside.
    pub(super) fn release(&mut self, need: u64) {
        self.reserved -= need;
        self.uploads -= 1;
    }

    pub(super) fn get(&self, f: &Fingerprint) -> Option<&Arc<T>> {
        self.entries.get(f).map(|(_, e)| e)
    }

    /// The entry with the counter of this use.
    pub(super) fn use_now(&mut self, f: &Fingerprint) -> Option<(u64, Arc<T>)> {
        let (used, entry) = self.entries.get_mut(f)?;
        self.counter += 1;
        *used = self.counter;
        Some((*used, Arc::clone(entry)))
    }

    /// Adds an entry, or takes the one that is there; either is used now.
    pub(super) fn add(&mut self, f: &Fingerprint, new: impl FnOnce() -> Arc<T>) -> (u64, Arc<T>) {
        if let Some(there) = self.use_now(f) {
            return there;
        }
        let entry = new();
        self.counter += 1;
        self.restore(*f, self.counter, Arc::clone(&entry));
        (self.counter, entry)
    }

    /// Adds an entry of an earlier run.
    pub(super) fn restore(&mut self, f: Fingerprint, used: u64, entry: Arc<T>) {
        self.remove(&f);
        self.bytes += entry.bytes();
        self.counter = self.counter.max(used);
        self.entries.insert(f, (used, entry));
    }

    pub(super) fn remove(&mut self, f: &Fingerprint) {
        if let Some((_, e)) = self.entries.remove(f) {
            self.bytes -= e.bytes();
        }
    }

    pub(super) fn usage(&self) -> StoreUsage {
        StoreUsage {
            entries: self.entries.len(),
            bytes: self.bytes,
            reserved: self.reserved,
            evicted: self.evicted,
        }
    }
}
