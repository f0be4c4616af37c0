//! Checked CKKS parameters: the chain with every table that the operations need.

use std::fmt;
use std::sync::Arc;

use cipherloom_ring::vector::SlotFft;
use cipherloom_ring::{galois_element, Basis, SimdChoice};
use cipherloom_spec::{CkksChain, Scale};

use crate::error::CkksError;
use crate::keyswitch::KeySwitchTables;
use crate::scratch::PolyPool;

/// Version of the parameter semantics: part of the digest, raised when a chain comes to mean
/// something else.
const PARAMS_VERSION: u32 = 1;

/// A 32-byte digest over the literal, the primes and the version. Two parties with the same digest
/// use the same rings, scales and formats.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ParamsDigest(pub [u8; 32]);

impl fmt::Display for ParamsDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for b in &self.0[..8] {
            write!(f, "{b:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ParamsDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ParamsDigest({self}...)")
    }
}

/// Checked, immutable parameters with their tables; cloning shares them.
///
/// Memory: about 32N bytes for each prime (NTT tables), 8N for the encoder, and the polynomials of up to four plaintexts
/// that were dropped, for the next ones; [`CkksParameters::memory_bytes`] has the number.
#[derive(Clone)]
pub struct CkksParameters {
    inner: Arc<Inner>,
}

struct Inner {
    chain: CkksChain,
    q: Basis,
    /// Special primes first, then the ciphertext primes: a level is a prefix.
    pq: Basis,
    fft: SlotFft,
    tables: KeySwitchTables,
    digest: ParamsDigest,
    /// Polynomials of dropped plaintexts, for the codec.
    pool: Arc<PolyPool>,
}

impl fmt::Debug for CkksParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CkksParameters")
            .field("literal", self.chain().literal())
            .field("digest", &self.digest())
            .finish_non_exhaustive()
    }
}

impl PartialEq for CkksParameters {
    fn eq(&self, o: &Self) -> bool {
        self.digest() == o.digest()
    }
}

impl CkksParameters {
    /// Builds the tables of a chain that passed the security table.
    ///
    /// # Errors
    /// `InsecureChain` for a chain built with `insecure_build`.
    pub fn new(chain: CkksChain) -> Result<Self, CkksError> {
        if !chain.is_secure() {
            return Err(CkksError::InsecureChain {
                log_n: chain.log_n(),
                log_qp: chain.log_qp(),
            });
        }
        Self::build(chain, SimdChoice::from_env()?)
    }

    /// Builds the tables of any chain. For tests with toy rings only: gives no security.
    ///
    /// # Errors
    /// Those of the ring.
    pub fn insecure_for_tests(chain: CkksChain) -> Result<Self, CkksError> {
        Self::build(chain, SimdChoice::from_env()?)
    }

    /// As [`CkksParameters::insecure_for_tests`] with an explicit SIMD backend.
    ///
    /// # Errors
    /// Those of the ring.
    pub fn insecure_for_tests_with(chain: CkksChain, simd: SimdChoice) -> Result<Self, CkksError> {
        Self::build(chain, simd)
    }

    fn build(chain: CkksChain, simd: SimdChoice) -> Result<Self, CkksError> {
        let backend = simd.backend()?;
        let n = chain.n();
        let k = chain.p().len();
        let primes: Vec<u64> = chain.p().iter().chain(chain.q()).copied().collect();
        let pq = Basis::with_backend(n, &primes, backend)?;
        let q = pq.range(k..primes.len())?;
        let tables = KeySwitchTables::new(&chain, &q, &pq)?;
        let fft = SlotFft::new(chain.slots(), q.backend());
        let digest = digest(&chain);
        Ok(Self {
            inner: Arc::new(Inner {
                chain,
                q,
                pq,
                fft,
                tables,
                digest,
                pool: Arc::new(PolyPool::of_messages()),
            }),
        })
    }

    /// The chain: primes, levels, canonical scales.
    #[must_use]
    pub fn chain(&self) -> &CkksChain {
        &self.inner.chain
    }

    /// Ring degree N.
    #[must_use]
    pub fn n(&self) -> usize {
        self.chain().n()
    }

    /// Number of complex slots, N/2.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.chain().slots()
    }

    /// Highest level.
    #[must_use]
    pub fn top_level(&self) -> usize {
        self.chain().top_level()
    }

    /// Base level: no rescale below it.
    #[must_use]
    pub fn base_level(&self) -> usize {
        self.chain().base_level()
    }

    /// Canonical scale of a level.
    #[must_use]
    pub fn scale(&self, level: usize) -> Scale {
        self.chain().scale(level)
    }

    /// The plaintext scale for which a product with a ciphertext of scale `ct_scale` at `level`, rescaled once, has
    /// exactly the canonical scale of `level - 1`: `scale(level-1) * q_level / ct_scale`.
    ///
    /// # Errors
    /// `LevelExhausted` at or below the base level, `LevelRange` above the top.
    pub fn product_scale(&self, level: usize, ct_scale: Scale) -> Result<Scale, CkksError> {
        self.check_level("product_scale", level)?;
        if level <= self.base_level() {
            return Err(CkksError::LevelExhausted {
                op: "product_scale",
                level,
                base: self.base_level(),
            });
        }
        let q = Scale::prime(self.chain().q()[level]);
        Ok(self.scale(level - 1).times(q).over(ct_scale))
    }

    /// The ring basis of a level: primes q_0 ... q_level.
    ///
    /// # Errors
    /// `LevelRange` above the top.
    pub fn basis(&self, level: usize) -> Result<Basis, CkksError> {
        self.check_level("basis", level)?;
        Ok(self.inner.q.prefix(level + 1)?)
    }

    /// The ring basis of the evaluation keys up to a level: the special primes, then q_0 ... q_level.
    ///
    /// # Errors
    /// `LevelRange` above the top.
    pub fn key_basis(&self, level: usize) -> Result<Basis, CkksError> {
        self.check_level("key_basis", level)?;
        Ok(self.inner.pq.prefix(self.chain().p().len() + level + 1)?)
    }

    /// Digest over literal, primes and version.
    #[must_use]
    pub fn digest(&self) -> ParamsDigest {
        self.inner.digest
    }

    /// The Galois element 5^k mod 2N of a left rotation by `k` slots (negative: to the right).
    #[must_use]
    pub fn galois_element(&self, k: i64) -> u64 {
        galois_element(self.n(), k)
    }

    /// The Galois element 2N - 1 of complex conjugation.
    #[must_use]
    pub fn conjugation_element(&self) -> u64 {
        2 * self.n() as u64 - 1
    }

    /// The rotation in 0..slots whose Galois element is `g`; `None` for any other element. O(slots).
    #[must_use]
    pub fn rotation_of(&self, g: u64) -> Option<usize> {
        let mask = 2 * self.n() as u64 - 1;
        let mut power = 1u64;
        for k in 0..self.slots() {
            if power == g {
                return Some(k);
            }
            power = power.wrapping_mul(5) & mask;
        }
        None
    }

    /// Bytes in memory: the twiddle factors of the NTT for each prime and those of the encoder, the constants of base conversion, and the
    /// polynomials of dropped plaintexts that are kept at this moment. Clones share all of it.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let ntt: usize = self
            .inner
            .pq
            .tables()
            .iter()
            .map(|t| t.memory_bytes())
            .sum();
        // Real and imaginary parts of one root for each slot.
        let fft = 16 * self.slots();
        ntt + fft + 8 * self.conversion_words() + self.pool().memory_bytes()
    }

    /// Weights of all base conversions and, two words each, the inverses of what is divided by.
    fn conversion_words(&self) -> usize {
        let (limbs, special) = (self.chain().q().len(), self.chain().p().len());
        let alpha = self.chain().alpha();
        // From `from` primes to `to` others.
        let convert = |from: usize, to: usize| (from + 1) * to;
        let divide = |from: usize, to: usize| convert(from, to) + 2 * to;
        let of_level = |level: usize| {
            let own = level % alpha + 1;
            convert(own, special + limbs - own) + divide(special + 1, level) + divide(1, level)
        };
        divide(special, limbs) + (0..limbs).map(of_level).sum::<usize>()
    }

    pub(crate) fn fft(&self) -> &SlotFft {
        &self.inner.fft
    }

    pub(crate) fn pool(&self) -> &Arc<PolyPool> {
        &self.inner.pool
    }

    pub(crate) fn tables(&self) -> &KeySwitchTables {
        &self.inner.tables
    }

    pub(crate) fn check_level(&self, op: &'static str, level: usize) -> Result<(), CkksError> {
        if level > self.top_level() {
            return Err(CkksError::LevelRange {
                op,
                level,
                max: self.top_level(),
            });
        }
        Ok(())
    }

    pub(crate) fn check_digest(
        &self,
        what: &'static str,
        got: ParamsDigest,
    ) -> Result<(), CkksError> {
        if got != self.digest() {
            return Err(CkksError::ParamsMismatch {
                what,
                got,
                expected: self.digest(),
            });
        }
        Ok(())
    }
}

/// Every field at a fixed width, so that no two chains share an encoding.
fn digest(chain: &CkksChain) -> ParamsDigest {
    let mut h = blake3::Hasher::new();
    h.update(b"cipherloom ckks parameters");
    let literal = chain.literal();
    let mut word = |v: u64| {
        h.update(&v.to_le_bytes());
    };
    word(u64::from(PARAMS_VERSION));
    word(u64::from(literal.log_n));
    word(u64::from(literal.log_scale));
    word(u64::from(literal.dnum));
    for bits in [&literal.q_bits, &literal.p_bits] {
        word(bits.len() as u64);
        bits.iter().for_each(|&b| word(u64::from(b)));
    }
    for primes in [chain.q(), chain.p()] {
        word(primes.len() as u64);
        primes.iter().for_each(|&q| word(q));
    }
    ParamsDigest(*h.finalize().as_bytes())
}
