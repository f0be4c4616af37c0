//! Encoded plaintexts in compact form.
//!
//! A plaintext at level l takes 8 (l + 1) bytes a coefficient once it is expanded to residues and transformed. Before
//! that it is a vector of integers of about the size of the scale: the same number of bytes at every level. The
//! store keeps these, at the smallest whole number of bytes that holds them (typically 5), in memory or in a file, and
//! expands on use: for each prime a reduction and one number-theoretic transform.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cipherloom_ring::{Basis, CrtLift, Ntt, Poly};
use cipherloom_spec::Scale;

use crate::complex::Complex64;
use crate::encoder::Encoder;
use crate::error::CkksError;
use crate::params::CkksParameters;
use crate::plaintext::Plaintext;

/// Coefficients must be below 2^62: one sign bit, one bit of slack.
const LIMIT: i128 = 1 << 62;

/// Names one plaintext of the store that made it; any other store refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoredPlaintext {
    store: u64,
    index: usize,
}

/// Tells the stores of a process apart. It has no other meaning.
static STORES: AtomicU64 = AtomicU64::new(0);

/// Numbers about a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStatistics {
    /// Plaintexts stored.
    pub plaintexts: usize,
    /// Bytes of their compact form, in memory or in the file.
    pub compact_bytes: usize,
    /// Bytes of expanded plaintexts that are kept: at most the cap.
    pub kept_bytes: usize,
    /// Requests that found a kept plaintext.
    pub hits: u64,
    /// Requests that expanded.
    pub expansions: u64,
}

/// Plaintexts as small integer coefficients, expanded on use. Keeps expanded plaintexts up to a cap in bytes: the
/// first ones that are used stay, later ones are expanded at each use. (Weights are used in the same order in
/// every pass, for which this has the most hits; the least recently used one would be evicted just before its next
/// use.) `Send + Sync`.
#[derive(Debug)]
pub struct PlaintextStore {
    /// What its names carry.
    tag: u64,
    params: CkksParameters,
    encoder: Encoder,
    cap_bytes: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    backing: Backing,
    entries: Vec<Entry>,
    kept: HashMap<usize, Arc<Plaintext>>,
    statistics: StoreStatistics,
}

#[derive(Debug)]
enum Backing {
    Memory(Vec<u8>),
    File(File),
}

/// Where a plaintext lies and what it is.
#[derive(Clone, Copy, Debug)]
struct Entry {
    offset: usize,
    /// Bytes for each coefficient, 1 to 8.
    width: usize,
    /// Coefficients that are not zero by the period: 2 for each value.
    count: usize,
    level: usize,
    scale: Scale,
}

impl PlaintextStore {
    /// A store in memory that keeps up to `cap_bytes` of expanded plaintexts; 0 keeps none.
    #[must_use]
    pub fn in_memory(params: &CkksParameters, cap_bytes: usize) -> Self {
        Self::with(params, cap_bytes, Backing::Memory(vec![]))
    }

    /// A store in a new file at `path`, which must not exist. The file holds coefficients only; it is of no use
    /// without this store and stays behind when the store is dropped.
    ///
    /// # Errors
    /// `Store` when the file cannot be made.
    pub fn in_file(
        params: &CkksParameters,
        path: &Path,
        cap_bytes: usize,
    ) -> Result<Self, CkksError> {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(|e| failed("creating the file", &e))?;
        Ok(Self::with(params, cap_bytes, Backing::File(file)))
    }

    fn with(params: &CkksParameters, cap_bytes: usize, backing: Backing) -> Self {
        Self {
            tag: STORES.fetch_add(1, Ordering::Relaxed),
            params: params.clone(),
            encoder: Encoder::new(params),
            cap_bytes,
            state: Mutex::new(State {
                backing,
                entries: vec![],
                kept: HashMap::new(),
                statistics: StoreStatistics::default(),
            }),
        }
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> &CkksParameters {
        &self.params
    }

    /// Counts so far.
    #[must_use]
    pub fn statistics(&self) -> StoreStatistics {
        self.lock().statistics
    }

    /// Encodes values of power-of-two length m, repeated to fill the slots, and stores 2m coefficients.
    /// Cost: one FFT of m points and a transform of two limbs each way.
    ///
    /// # Errors
    /// As [`Encoder::encode_repeated`]; `ValueTooLarge` for coefficients of 2^62 and more; `Store`.
    pub fn insert(
        &self,
        values: &[Complex64],
        level: usize,
        scale: Scale,
    ) -> Result<StoredPlaintext, CkksError> {
        self.params.check_level("plaintext store", level)?;
        // Two primes hold every coefficient that can be stored; the integers do not depend on the level.
        let plain = self.encoder.encode_repeated(values, level.min(1), scale)?;
        let poly = plain.into_poly().into_coeff();
        let all = CrtLift::new(poly.basis())?.lift(&poly)?;
        let stride = self.params.slots() / values.len();
        let coefficients: Vec<i128> = all.into_iter().step_by(stride).collect();
        let largest = coefficients.iter().map(|c| c.abs()).max().unwrap_or(0);
        if largest >= LIMIT {
            return Err(CkksError::ValueTooLarge {
                log_coefficient: (largest as f64).log2(),
                log_limit: 62.0,
                level,
                scale,
            });
        }
        // One bit for the sign.
        let width = (129 - largest.leading_zeros() as usize).div_ceil(8);
        let bytes: Vec<u8> = coefficients
            .iter()
            .flat_map(|c| c.to_le_bytes().into_iter().take(width))
            .collect();
        let mut state = self.lock();
        let offset = state.statistics.compact_bytes;
        match &mut state.backing {
            Backing::Memory(data) => data.extend_from_slice(&bytes),
            Backing::File(file) => file
                .seek(SeekFrom::Start(offset as u64))
                .and_then(|_| file.write_all(&bytes))
                .map_err(|e| failed("writing", &e))?,
        }
        state.entries.push(Entry {
            offset,
            width,
            count: coefficients.len(),
            level,
            scale,
        });
        state.statistics.plaintexts += 1;
        state.statistics.compact_bytes += bytes.len();
        Ok(StoredPlaintext {
            store: self.tag,
            index: state.entries.len() - 1,
        })
    }

    /// The expanded plaintext, equal to a direct encoding bit for bit, and whether the store keeps it.
    ///
    /// # Errors
    /// `Store` when the file cannot be read or the name is from another store.
    pub fn get(&self, id: StoredPlaintext) -> Result<(Arc<Plaintext>, bool), CkksError> {
        let entry = self.entry(id)?;
        {
            let mut state = self.lock();
            if let Some(plain) = state.kept.get(&id.index).cloned() {
                state.statistics.hits += 1;
                return Ok((plain, true));
            }
        }
        let poly = self.expand(id, &self.params.basis(entry.level)?)?;
        let plain = Arc::new(Plaintext::from_poly(&self.params, poly, entry.scale)?);
        let mut state = self.lock();
        state.statistics.expansions += 1;
        // Another thread may have expanded the same one meanwhile.
        let bytes = plain.memory_bytes();
        let kept = state.kept.contains_key(&id.index);
        let fits = state.statistics.kept_bytes + bytes <= self.cap_bytes;
        if fits && !kept {
            state.statistics.kept_bytes += bytes;
            state.kept.insert(id.index, plain.clone());
        }
        Ok((plain, fits || kept))
    }

    /// The polynomial over any basis of the same degree, for example one with the special primes.
    ///
    /// # Errors
    /// As [`PlaintextStore::get`]; those of the ring.
    pub fn expand(&self, id: StoredPlaintext, basis: &Basis) -> Result<Poly<Ntt>, CkksError> {
        let entry = self.entry(id)?;
        let bytes = self.read(&entry)?;
        let mut coefficients = vec![0i64; basis.n()];
        let stride = (basis.n() / entry.count).max(1);
        let unused = 64 - 8 * entry.width as u32;
        for (c, raw) in coefficients
            .iter_mut()
            .step_by(stride)
            .zip(bytes.chunks_exact(entry.width))
        {
            let mut word = [0u8; 8];
            word[..entry.width].copy_from_slice(raw);
            // The shifts extend the sign.
            *c = (i64::from_le_bytes(word) << unused) >> unused;
        }
        Ok(Poly::from_i64(basis, &coefficients)?.into_ntt())
    }

    /// Drops all kept expansions.
    pub fn release(&self) {
        let mut state = self.lock();
        state.kept.clear();
        state.statistics.kept_bytes = 0;
    }

    fn entry(&self, id: StoredPlaintext) -> Result<Entry, CkksError> {
        let state = self.lock();
        let own = id.store == self.tag;
        let found = state.entries.get(id.index).copied().filter(|_| own);
        found.ok_or_else(|| CkksError::Store {
            action: "looking up",
            detail: format!(
                "plaintext {} of store {} is not in store {}: use the store that named it",
                id.index, id.store, self.tag
            ),
        })
    }

    fn read(&self, entry: &Entry) -> Result<Vec<u8>, CkksError> {
        let length = entry.count * entry.width;
        let mut state = self.lock();
        match &mut state.backing {
            Backing::Memory(data) => Ok(data[entry.offset..entry.offset + length].to_vec()),
            Backing::File(file) => {
                let mut out = vec![0; length];
                file.seek(SeekFrom::Start(entry.offset as u64))
                    .and_then(|_| file.read_exact(&mut out))
                    .map_err(|e| failed("reading", &e))?;
                Ok(out)
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(action: &'static str, error: &std::io::Error) -> CkksError {
    CkksError::Store {
        action,
        detail: error.to_string(),
    }
}
