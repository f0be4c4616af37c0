//! The plan document: what both parties load, hash and re-validate.

use crate::build::{build, Derived};
use crate::describe::ledger::{MpcShape, ProductShape};
use crate::layouts::{LinearLayouts, ScanChoice};
use crate::stage::{check_contracts, Ring, Stage};
use crate::{Answer, PlanError, Request};
use cipherloom_spec::chain::{CkksChain, CkksLiteral};
use cipherloom_spec::security::SECURITY_BITS;
use serde::{Deserialize, Serialize};

/// Value of [`Document::format`].
pub const FORMAT: &str = "cipherloom-plan";
/// Version of the document and of everything it implies.
pub const VERSION: u32 = 2;
/// Largest plan document that is read, in bytes.
pub const MAX_BYTES: usize = 64 << 20;
/// Frame stage of the set-up (handshake, keys).
pub const SETUP_STAGE: u16 = 0;
/// Frame stage of the offline phase (base OTs).
pub const OFFLINE_STAGE: u16 = 1;
/// Frame stage of the first planned stage.
pub const FIRST_STAGE: u16 = 2;

/// One evaluation key: up to which level it reaches, and its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyUse {
    /// Left rotation in slots (zero for relinearisation and conjugation).
    pub rotation: usize,
    /// Highest level at which it is used.
    pub max_level: usize,
}

/// The keys of one ring: exactly those that the stages use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRequest {
    /// Which ring.
    pub ring: Ring,
    /// Level of the relinearisation key.
    pub relinearization: Option<usize>,
    /// Level of the conjugation key.
    pub conjugation: Option<usize>,
    /// Rotations, ascending.
    pub rotations: Vec<KeyUse>,
}

impl KeyRequest {
    /// Number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rotations.len()
            + usize::from(self.relinearization.is_some())
            + usize::from(self.conjugation.is_some())
    }
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Highest level of every key, in the order in which they are sent: relinearisation, conjugation, rotations.
    #[must_use]
    pub fn levels(&self) -> Vec<usize> {
        self.relinearization
            .into_iter()
            .chain(self.conjugation)
            .chain(self.rotations.iter().map(|k| k.max_level))
            .collect()
    }
}

/// Memory of one party, in bytes: what the plan knows, without the program itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryEstimate {
    /// Evaluation keys held.
    pub keys: u64,
    /// Encoded weights and masks held.
    pub weights: u64,
    /// Ciphertexts at the peak of the largest stage.
    pub ciphertexts: u64,
}

/// The serialised form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Always [`FORMAT`].
    pub format: String,
    /// Always [`VERSION`].
    pub version: u32,
    /// What the plan was built from.
    pub request: Request,
    /// Two-party parameters.
    pub mpc: MpcShape,
    /// Parameters of secure products.
    pub products: ProductShape,
    /// Rows of a token tile.
    pub token_rows: usize,
    /// Scan block in tokens, as chosen.
    pub scan_block: usize,
    /// Chain of the projection ring.
    pub projection_ring: CkksLiteral,
    /// Chain of the scan ring.
    pub scan_ring: CkksLiteral,
    /// Evaluation keys.
    pub keys: Vec<KeyRequest>,
    /// Bytes of the set-up, both directions, frame headers included.
    pub setup_bytes: u64,
    /// Bytes and flights of the offline phase.
    pub offline: cipherloom_spec::cost::Traffic,
    /// The stages in order.
    pub stages: Vec<Stage>,
    /// Classical security of every ring.
    pub security_bits: u32,
    /// log2 of the failure probability of one inference.
    pub failure_log2: f64,
    /// Server memory.
    pub server_memory: MemoryEstimate,
    /// Client memory.
    pub client_memory: MemoryEstimate,
}

/// A checked plan: the document and what follows from it.
#[derive(Debug, Clone)]
pub struct Plan {
    document: Document,
    derived: Derived,
    hash: [u8; 32],
}

impl Plan {
    /// Builds the plan of a request.
    ///
    /// # Errors
    /// Names what does not fit: a length, a depth, a range, the failure budget.
    pub fn build(request: Request) -> Result<Self, PlanError> {
        Self::build_with(request, MpcShape::default())
    }

    /// As [`Plan::build`], with given two-party parameters.
    ///
    /// # Errors
    /// As [`Plan::build`].
    pub fn build_with(request: Request, mpc: MpcShape) -> Result<Self, PlanError> {
        let (document, derived) = build(request, mpc)?;
        check_contracts(&document.stages)?;
        let hash = hash(&document)?;
        Ok(Self {
            document,
            derived,
            hash,
        })
    }

    /// The variant of this plan in which the client learns `answer`: all stages but the last, rings and keys are the same,
    /// so weights and stored keys serve both; the hash differs.
    ///
    /// # Errors
    /// `Request` for an answer that says more than this plan's ([`Answer::covers`]); as [`Plan::build`].
    pub fn with_answer(&self, answer: Answer) -> Result<Self, PlanError> {
        let request = self.request();
        if !request.answer.covers(answer) {
            return Err(PlanError::Request {
                field: "answer",
                value: answer.name().into(),
                detail: format!(
                    "this plan gives the {} and no more; publish a plan that answers with {}",
                    request.answer.name(),
                    answer.name()
                ),
            });
        }
        let request = Request {
            answer,
            ..request.clone()
        };
        Self::build_with(request, self.mpc())
    }

    /// Reads and re-validates a document: everything is derived again from its request and must be equal.
    ///
    /// # Errors
    /// `Document` for malformed JSON, an unknown version or too many bytes; `Mismatch` naming the field that does not follow.
    pub fn from_json(bytes: &[u8]) -> Result<Self, PlanError> {
        if bytes.len() > MAX_BYTES {
            return Err(PlanError::Document(format!(
                "{} bytes exceed the limit of {MAX_BYTES}",
                bytes.len()
            )));
        }
        let given: Document =
            serde_json::from_slice(bytes).map_err(|e| PlanError::Document(e.to_string()))?;
        if given.format != FORMAT || given.version != VERSION {
            return Err(PlanError::Document(format!(
                "{} version {}; this release reads {FORMAT} version {VERSION}",
                given.format, given.version
            )));
        }
        let plan = Self::build_with(given.request.clone(), given.mpc)?;
        let d = &plan.document;
        let mismatch = |field: &str, given: String, derived: String| {
            Err(PlanError::Mismatch {
                field: field.into(),
                given,
                derived,
            })
        };
        macro_rules! same {
            ($($f:ident),+) => { $(
                if given.$f != d.$f {
                    return mismatch(stringify!($f), format!("{:?}", given.$f), format!("{:?}", d.$f));
                }
            )+ };
        }
        same!(
            products,
            token_rows,
            scan_block,
            projection_ring,
            scan_ring,
            keys,
            setup_bytes,
            offline,
            security_bits,
            failure_log2
        );
        same!(server_memory, client_memory);
        for (g, s) in given.stages.iter().zip(&d.stages) {
            if g != s {
                return mismatch(
                    &format!("stage {}", s.name),
                    format!("{g:?}"),
                    format!("{s:?}"),
                );
            }
        }
        if given.stages.len() != d.stages.len() {
            return mismatch(
                "stages",
                given.stages.len().to_string(),
                d.stages.len().to_string(),
            );
        }
        Ok(plan)
    }

    /// The document as pretty JSON.
    ///
    /// # Errors
    /// `Document` in practice never.
    pub fn to_json(&self) -> Result<String, PlanError> {
        serde_json::to_string_pretty(&self.document).map_err(|e| PlanError::Document(e.to_string()))
    }

    /// BLAKE3 of the compact document: both parties compare it in the handshake.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        self.hash
    }
    /// The document.
    #[must_use]
    pub fn document(&self) -> &Document {
        &self.document
    }
    /// What the plan was built from.
    #[must_use]
    pub fn request(&self) -> &Request {
        &self.document.request
    }
    /// Two-party parameters.
    #[must_use]
    pub fn mpc(&self) -> MpcShape {
        self.document.mpc
    }
    /// The stages in order.
    #[must_use]
    pub fn stages(&self) -> &[Stage] {
        &self.document.stages
    }
    /// Layouts of the linear stages.
    #[must_use]
    pub fn linear(&self) -> &LinearLayouts {
        &self.derived.linear
    }
    /// Ring, layout and schedule of the scan.
    #[must_use]
    pub fn scan(&self) -> &ScanChoice {
        &self.derived.scan
    }
    /// The checked chain of a ring.
    #[must_use]
    pub fn chain(&self, ring: Ring) -> &CkksChain {
        match ring {
            Ring::Projection => &self.derived.projection,
            Ring::Scan => &self.derived.scan.chain,
        }
    }
    /// The keys of a ring.
    #[must_use]
    pub fn keys(&self, ring: Ring) -> &KeyRequest {
        match ring {
            Ring::Projection => &self.derived.keys[0],
            Ring::Scan => &self.derived.keys[1],
        }
    }
}

fn hash(d: &Document) -> Result<[u8; 32], PlanError> {
    let compact = serde_json::to_vec(d).map_err(|e| PlanError::Document(e.to_string()))?;
    let mut h = blake3::Hasher::new_derive_key("cipherloom plan hash v1");
    h.update(&compact);
    Ok(*h.finalize().as_bytes())
}

/// Classical security of every accepted ring.
#[must_use]
pub fn security_bits() -> u32 {
    SECURITY_BITS
}
