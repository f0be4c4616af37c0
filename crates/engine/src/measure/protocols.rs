//! The two-party protocols, both parties in this process, each on a thread of its own, over an in-memory channel.

use super::clock::{median, ThreadClock};
use super::MeasureOptions;
use crate::EngineError;
use cipherloom_mpc::harness::{run_pair_with, share_words};
use cipherloom_mpc::rlwe::{CrtProducts, ProductKey, ProductPublicKey, RlweParameters};
use cipherloom_mpc::{
    Bits, CompareFormat, Domain, MpcConfig, MpcError, Party, ProductSource, Session, Shares,
    TwoParty,
};
use cipherloom_plan::profile::ProtocolCost;
use cipherloom_ring::{SecretPrg, SecretSeed};
use cipherloom_spec::fixed::DEFAULT_FRAC;
use cipherloom_spec::FracBits;
use rayon::ThreadPool;
use std::collections::BTreeMap;

/// Calls of one sample.
const CALLS: usize = 4;
/// COTs a pool batch of the plans; smaller where the elements of a sample are no multiple.
const BATCHES: [usize; 4] = [1 << 16, 1 << 15, 1 << 14, 1 << 13];
/// Elements are rounded up to a multiple of this: a sample then uses whole batches of COTs.
pub(super) const ELEMENTS_UNIT: usize = BATCHES[3] / CALLS;
/// Frame stages of the single calls and of the samples.
const FIRST_STAGE: u16 = 16;

/// One party's inputs.
struct Inputs {
    /// Small values with [`DEFAULT_FRAC`] fraction bits.
    x: Shares,
    /// Values with twice as many, as products have.
    wide: Shares,
    bits: Bits,
    /// What the server knows in the clear.
    known: Option<Vec<u64>>,
}

impl Inputs {
    /// The first `n` elements.
    fn prefix(&self, n: usize) -> Self {
        let cut = |s: &Shares| Shares {
            v: s.v.iter().take(n).copied().collect(),
            frac: s.frac,
        };
        Self {
            x: cut(&self.x),
            wide: cut(&self.wide),
            bits: Bits {
                v: self.bits.v.iter().take(n).copied().collect(),
            },
            known: self
                .known
                .as_ref()
                .map(|k| k.iter().take(n).copied().collect()),
        }
    }
}

type Step = fn(&mut TwoParty, &Inputs) -> Result<(), MpcError>;

const COMPARE: CompareFormat = CompareFormat {
    kept_frac: 12,
    int_bits: 5,
};

/// Names of `plan::profile::PROTOCOLS` and what they run.
const STEPS: [(&str, Step); 11] = [
    ("product", |p, i| p.product(&i.x, &i.x).map(drop)),
    ("square", |p, i| p.square(&i.x).map(drop)),
    ("product_known", |p, i| {
        p.product_known(Party::Server, &i.x, i.known.as_deref(), FracBits(0))
            .map(drop)
    }),
    ("compare17_one_threshold", |p, i| {
        p.less_than(&i.x, &[0.5], COMPARE).map(drop)
    }),
    ("compare17_two_thresholds", |p, i| {
        p.less_than(&i.x, &[-0.5, 0.5], COMPARE).map(drop)
    }),
    ("mux", |p, i| p.mux(&[(&i.bits, &i.x)]).map(drop)),
    ("b2a", |p, i| p.b2a(&[&i.bits]).map(drop)),
    ("truncate_known_sign", |p, i| {
        p.truncate(&i.wide, DEFAULT_FRAC.0).map(drop)
    }),
    ("truncate_faithful", |p, i| {
        p.truncate_reduce_faithful(&i.wide, 26, 32).map(drop)
    }),
    ("extend_64_88", |p, i| p.extend_64_88(&i.x.v).map(drop)),
    ("cot_softspoken4", |p, i| p.skip_cots(i.x.len())),
];

/// What one party saw of one protocol.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    bytes: u64,
    flights: u64,
    cots: u64,
    seconds: f64,
}

/// Measures every protocol.
///
/// # Errors
/// Those of the protocols; `Mismatch` when the parties' counts differ.
pub(super) fn protocol_costs(
    clock: &ThreadClock,
    options: &MeasureOptions,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<BTreeMap<String, ProtocolCost>, EngineError> {
    let n = options.elements.next_multiple_of(ELEMENTS_UNIT);
    let batch = BATCHES
        .into_iter()
        .find(|b| (CALLS * n).is_multiple_of(*b))
        .unwrap_or(BATCHES[3]);
    let config = MpcConfig {
        cot_batch: batch,
        ..MpcConfig::default()
    };
    let [client, server] = inputs(n)?;
    let products = Products::new()?;
    let pools = [super::one_thread()?, super::one_thread()?];
    let [client_pool, server_pool] = &pools;
    let (mine, theirs) = run_pair_with(
        config,
        &|session| products.source(session),
        |p| on(client_pool, || run(p, &client, clock, options, progress)),
        |p| {
            on(server_pool, || {
                run(p, &server, clock, options, &mut |_: &str| {})
            })
        },
    )?;
    let samples = options.repeats.max(1) * CALLS * n;
    let mut out = BTreeMap::new();
    for ((name, _), (a, b)) in STEPS.iter().zip(mine.into_iter().zip(theirs)) {
        if (a.bytes, a.flights, a.cots) != (b.bytes, b.flights, b.cots) {
            return Err(EngineError::Mismatch {
                what: "bytes, flights and COTs of a measured protocol",
                here: format!("{a:?}"),
                peer: format!("{b:?}"),
            });
        }
        let ns = |s: f64| s / (CALLS * n) as f64 * 1e9;
        out.insert(
            (*name).to_string(),
            ProtocolCost {
                bytes_per_element: a.bytes as f64 / samples as f64,
                flights: a.flights,
                cots: a.cots as f64 / samples as f64,
                cpu_ns_per_element: ns(a.seconds + b.seconds) / 2.0,
                client_ns_per_element: ns(a.seconds),
                server_ns_per_element: ns(b.seconds),
            },
        );
    }
    Ok(out)
}

fn on<T: Send>(pool: &ThreadPool, f: impl FnOnce() -> T + Send) -> T {
    pool.install(f)
}

/// Keys of products as the plans make them.
struct Products {
    params: RlweParameters,
    seed: SecretSeed,
    public: ProductPublicKey,
}

impl Products {
    fn new() -> Result<Self, EngineError> {
        let params = RlweParameters::crt64()?;
        let mut prg = super::randomness()?;
        let (seed, uniform) = (prg.fork_seed(), prg.public_seed());
        let public = ProductKey::from_seed(&params, &seed)?.public_key(&params, uniform)?;
        Ok(Self {
            params,
            seed,
            public,
        })
    }

    /// One party's source; sends nothing.
    fn source(&self, session: &mut Session) -> Result<Box<dyn ProductSource>, MpcError> {
        let params = self.params.clone();
        if session.is_client() {
            let key = ProductKey::from_seed(&params, &self.seed)?;
            return Ok(Box::new(CrtProducts::client(session, params, key)?));
        }
        let public = self.public.clone();
        Ok(Box::new(CrtProducts::server(session, params, public)?))
    }
}

fn inputs(n: usize) -> Result<[Inputs; 2], EngineError> {
    let mut prg = super::randomness()?;
    let real = |j: usize| (j as f64 * 0.37).sin();
    let wide = FracBits(2 * DEFAULT_FRAC.0);
    let shared = |frac: FracBits, prg: &mut SecretPrg| {
        let words: Vec<u64> = (0..n).map(|j| frac.encode(real(j))).collect();
        let (a, b) = share_words(&words, prg);
        [a, b].map(|v| Shares { v, frac })
    };
    let (x, w) = (shared(DEFAULT_FRAC, &mut prg), shared(wide, &mut prg));
    let own: Vec<u8> = (0..n).map(|_| (prg.next_u64() & 1) as u8).collect();
    let other = own
        .iter()
        .enumerate()
        .map(|(j, b)| b ^ (j as u8 & 1))
        .collect();
    let known = (0..n).map(|j| DEFAULT_FRAC.encode(real(j + n))).collect();
    let ([x0, x1], [w0, w1]) = (x, w);
    let party = |x, wide, v, known| Inputs {
        x,
        wide,
        bits: Bits { v },
        known,
    };
    Ok([party(x0, w0, own, None), party(x1, w1, other, Some(known))])
}

/// One party's part. Each protocol runs once to warm up, once on one element for its flights, then in samples of several
/// calls.
fn run(
    p: &mut TwoParty,
    inputs: &Inputs,
    clock: &ThreadClock,
    options: &MeasureOptions,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<Vec<Seen>, MpcError> {
    let few = inputs.prefix(1);
    let mut out = Vec::with_capacity(STEPS.len());
    for (k, (name, step)) in STEPS.iter().enumerate() {
        progress(&format!("two-party protocol {name}"));
        step(p, inputs)?;
        // Both parties send, then both receive: the next message of either opens a flight.
        p.mux(&[(&few.bits, &few.x)])?;
        let (alone, many) = (FIRST_STAGE + 2 * k as u16, FIRST_STAGE + 2 * k as u16 + 1);
        p.session().channel().set_stage(alone, name);
        step(p, &few)?;
        p.session().channel().set_stage(many, name);
        let before = p.counts().cots;
        let mut samples = Vec::new();
        for _ in 0..options.repeats.max(1) {
            let start = clock.seconds();
            for _ in 0..CALLS {
                step(p, inputs)?;
            }
            samples.push(clock.seconds() - start);
        }
        let traffic = p.session_ref().channel_ref().snapshot();
        let (alone, many) = (traffic.stage(alone), traffic.stage(many));
        out.push(Seen {
            bytes: many.sent.bytes + many.received.bytes,
            flights: alone.flights(),
            cots: p.counts().cots - before,
            seconds: median(samples),
        });
    }
    Ok(out)
}
