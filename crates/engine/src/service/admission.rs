//! Who may begin a session: a limit on sessions and a limit on memory.

use cipherloom_plan::Plan;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thiserror::Error;

/// What the program itself holds: code, tables, buffers of the allocator.
const PROGRAM_BYTES: u64 = 64 << 20;
/// What a session holds besides keys and ciphertexts: shares, correlations, queues.
const SESSION_BYTES: u64 = 128 << 20;
/// What the allocator keeps of memory that a running session freed, in percent. With it the estimate is above what was
/// measured: 1.20 GiB for each of two sessions at a time of the shipped model at 128 tokens.
const ALLOCATOR_PERCENT: u64 = 25;

/// Limits of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Sessions at a time.
    pub sessions: usize,
    /// Bytes of memory, the model's weights included; `None` for no limit.
    pub memory: Option<u64>,
}

/// Memory of a service, from the plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServiceMemory {
    /// Held once: weights, tables, the program.
    pub fixed: u64,
    /// Held by every session: a client's keys and the ciphertexts of the largest stage.
    pub session: u64,
}

impl ServiceMemory {
    /// Of a plan.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let document = plan.document();
        let e = document.server_memory;
        // The keys' encodings are in memory too while they are read.
        let held = e.keys + e.ciphertexts + document.setup_bytes;
        let held = held + held / 100 * ALLOCATOR_PERCENT;
        Self {
            fixed: e.weights + PROGRAM_BYTES,
            session: held + SESSION_BYTES,
        }
    }

    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            fixed: self.fixed.max(other.fixed),
            session: self.session.max(other.session),
        }
    }
}

/// Not even one session fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "one session needs {need} bytes ({fixed} for the model, {session} for the session), {sessions} sessions and {} bytes are \
     allowed; raise --max-memory or --max-sessions, or publish for a shorter length",
    memory.map_or_else(|| "any number of".to_owned(), |m| m.to_string())
)]
pub struct NoRoom {
    /// Bytes needed.
    pub need: u64,
    /// Of these, held once.
    pub fixed: u64,
    /// Of these, by the session.
    pub session: u64,
    /// Sessions allowed.
    pub sessions: usize,
    /// Bytes allowed.
    pub memory: Option<u64>,
}

/// Gives places to sessions.
#[derive(Debug)]
pub struct Admission {
    most: usize,
    running: Mutex<usize>,
}

impl Admission {
    /// As many places as both limits allow.
    ///
    /// # Errors
    /// `NoRoom` when that is none.
    pub fn new(memory: ServiceMemory, limits: Limits) -> Result<Arc<Self>, NoRoom> {
        let fitting = limits.memory.map_or(usize::MAX, |bytes| {
            let n = bytes.saturating_sub(memory.fixed) / memory.session.max(1);
            usize::try_from(n).unwrap_or(usize::MAX)
        });
        let most = fitting.min(limits.sessions);
        if most == 0 {
            return Err(NoRoom {
                need: memory.fixed + memory.session,
                fixed: memory.fixed,
                session: memory.session,
                sessions: limits.sessions,
                memory: limits.memory,
            });
        }
        Ok(Arc::new(Self {
            most,
            running: Mutex::new(0),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place until the returned value is dropped; `None` when all are taken.
    #[must_use]
    pub fn enter(self: &Arc<Self>) -> Option<Place> {
        let mut running = self.lock();
        if *running >= self.most {
            return None;
        }
        *running += 1;
        Some(Place(Arc::clone(self)))
    }

    /// Places taken.
    #[must_use]
    pub fn running(&self) -> usize {
        *self.lock()
    }

    /// Places there are.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }
}

/// A session's place.
#[derive(Debug)]
pub struct Place(Arc<Admission>);

impl Drop for Place {
    fn drop(&mut self) {
        *self.0.lock() -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: ServiceMemory = ServiceMemory {
        fixed: 100,
        session: 40,
    };

    fn most(sessions: usize, memory: Option<u64>) -> Result<usize, NoRoom> {
        Admission::new(MEMORY, Limits { sessions, memory }).map(|a| a.most())
    }

    #[test]
    fn both_limits_hold() {
        assert_eq!(most(3, None), Ok(3));
        assert_eq!(most(3, Some(1000)), Ok(3));
        assert_eq!(most(3, Some(180)), Ok(2));
        assert_eq!(most(3, Some(179)), Ok(1));
        let e = most(3, Some(139)).unwrap_err();
        assert_eq!((e.need, e.memory), (140, Some(139)));
        assert!(most(3, Some(5)).is_err() && most(0, None).is_err());
    }

    #[test]
    fn a_place_is_free_again_after_the_session() {
        let limits = Limits {
            sessions: 2,
            memory: None,
        };
        let a = Admission::new(MEMORY, limits).unwrap();
        let first = a.enter().unwrap();
        let _second = a.enter().unwrap();
        assert!(a.enter().is_none());
        drop(first);
        assert_eq!(a.running(), 1);
        assert!(a.enter().is_some());
    }
}
