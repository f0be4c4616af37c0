//! CKKS operations and crossings at one parameter set, with fresh keys of it.

use super::clock::{time, ThreadClock};
use super::MeasureOptions;
use crate::EngineError;
use cipherloom_bridge::{CkksToShares, ExportDecryptor, SharesToCkks, SlotWords, WideFft};
use cipherloom_ckks::{
    Ciphertext, CkksError, CkksParameters, Complex64, Decryptor, EvaluationKeys, Evaluator,
    KeyGenerator, PublicKey, SecretEncryptor, SecretKey,
};
use cipherloom_net::{Channel, ChannelConfig};
use cipherloom_plan::profile::CkksCosts;
use cipherloom_ring::SecretPrg;
use cipherloom_spec::fixed::DEFAULT_FRAC;
use cipherloom_spec::CkksChain;
use std::sync::Arc;

/// Both sides of one parameter set.
struct Ring {
    params: CkksParameters,
    evaluator: Evaluator,
    encryptor: SecretEncryptor,
    exports: ExportDecryptor,
    public: PublicKey,
    fft: Arc<WideFft>,
    values: Vec<Complex64>,
}

impl Ring {
    fn new(chain: CkksChain, prg: &mut SecretPrg) -> Result<Self, EngineError> {
        let params = CkksParameters::new(chain)?;
        let top = params.top_level();
        let keygen = KeyGenerator::new(&params, prg.fork_seed());
        let secret: Arc<SecretKey> = Arc::new(keygen.secret_key()?);
        let public = keygen.public_key(&secret, prg.public_seed())?;
        let mut keys = EvaluationKeys::new(&params);
        keys.insert(keygen.relinearization_key(&secret, top)?)?;
        keys.insert(keygen.conjugation_key(&secret, top)?)?;
        keys.insert(keygen.rotation_key(&secret, 1, top)?)?;
        let values = (0..params.slots())
            .map(|j| Complex64::new((j as f64 * 0.37).sin(), (j as f64 * 0.11).cos()))
            .collect();
        Ok(Self {
            evaluator: Evaluator::new(&params, keys)?,
            encryptor: SecretEncryptor::new(&params, Arc::clone(&secret))?,
            exports: ExportDecryptor::new(&params, &Decryptor::new(&params, secret)?)?,
            fft: Arc::new(WideFft::new(params.chain().log_n())?),
            public,
            values,
            params,
        })
    }

    fn encrypt(&self, level: usize) -> Result<Ciphertext, EngineError> {
        let plain =
            self.evaluator
                .encoder()
                .encode(&self.values, level, self.params.scale(level))?;
        Ok(self.encryptor.encrypt(&plain)?.expand(&self.params)?)
    }

    /// Both lanes full of words of 20 bits.
    fn words(&self) -> Result<Vec<SlotWords>, EngineError> {
        let lane = |k: usize| -> Vec<i128> {
            (0..self.params.slots())
                .map(|j| ((j * k) % (1 << 20)) as i128 - (1 << 19))
                .collect()
        };
        Ok(vec![SlotWords::new(lane(7919), lane(104_729))?])
    }
}

/// Times operations of an evaluator.
struct Timer<'a> {
    clock: &'a ThreadClock,
    options: &'a MeasureOptions,
}

impl Timer<'_> {
    fn of<T>(&self, mut f: impl FnMut() -> Result<T, CkksError>) -> Result<f64, EngineError> {
        let (repeats, at_least) = (self.options.repeats, self.options.sample_seconds);
        Ok(time(self.clock, repeats, at_least, &mut f)?)
    }
}

/// Measures one chain at several levels, all above the base.
///
/// # Errors
/// Those of the operations.
pub(super) fn chain_costs(
    chain: &CkksChain,
    levels: &[usize],
    clock: &ThreadClock,
    options: &MeasureOptions,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<Vec<CkksCosts>, EngineError> {
    let mut prg = super::randomness()?;
    progress(&format!(
        "CKKS N=2^{}, {} primes: making keys",
        chain.log_n(),
        chain.q().len()
    ));
    let ring = Ring::new(chain.clone(), &mut prg)?;
    let mut out = Vec::with_capacity(levels.len());
    for &level in levels {
        progress(&format!("CKKS N=2^{}, {} primes", chain.log_n(), level + 1));
        out.push(level_costs(&ring, level, clock, options, &mut prg)?);
    }
    Ok(out)
}

fn level_costs(
    ring: &Ring,
    level: usize,
    clock: &ThreadClock,
    options: &MeasureOptions,
    prg: &mut SecretPrg,
) -> Result<CkksCosts, EngineError> {
    let (ev, params) = (&ring.evaluator, &ring.params);
    let chain = params.chain();
    let ct = ring.encrypt(level)?;
    let factor = ev.encoder().encode_for_product(&ring.values, level)?;
    let product = ev.mul_plain(&ct, &factor)?;
    let mut sum = product.clone();
    let hoisted = ev.hoist(&ct)?;
    let timer = Timer { clock, options };

    let (mut client, mut server) = Channel::memory_pair(ChannelConfig::default())?;
    let import = SharesToCkks::new(params, &ring.fft, level, DEFAULT_FRAC)?;
    let export = CkksToShares::new(params, &ring.fft, params.scale(level), DEFAULT_FRAC)?;
    let export_key = export.export_key(&ring.public)?;
    let words = ring.words()?;
    // Each direction is timed where it works; the other party's part runs between the readings.
    let mut imports = Vec::new();
    let mut exports = Vec::new();
    for _ in 0..=2 * options.repeats {
        let t0 = clock.seconds();
        import.client(&words, &ring.encryptor, &mut client)?;
        let t1 = clock.seconds();
        let cts = import.server(&words, &mut server)?;
        let t2 = clock.seconds();
        let prepared = export.prepare(&export_key, 1, prg)?;
        export.server(&cts, prepared, &mut server)?;
        let t3 = clock.seconds();
        export.client(1, &ring.exports, &mut client)?;
        let t4 = clock.seconds();
        imports.push((t1 - t0, t2 - t1));
        exports.push((t3 - t2, t4 - t3));
    }
    // The first round filled caches and tables.
    let middle = |pairs: &[(f64, f64)], pick: fn(&(f64, f64)) -> f64| {
        super::clock::median(pairs.iter().skip(1).map(pick).collect()).max(1e-12)
    };

    Ok(CkksCosts {
        log_n: chain.log_n(),
        limbs: level + 1,
        alpha: chain.alpha(),
        digits: chain.digits(level).len(),
        special: chain.p().len(),
        rotate: timer.of(|| ev.rotate(&ct, 1))?,
        rotate_hoisted: timer.of(|| ev.rotate_hoisted(&hoisted, 1))?,
        conjugate: timer.of(|| ev.conjugate(&ct))?,
        mul_relin_rescale: timer.of(|| ev.mul_relin_rescale(&ct, &ct))?,
        mul_plain_accumulate: timer.of(|| ev.mul_plain_add_assign(&mut sum, &ct, &factor))?,
        rescale: timer.of(|| ev.rescale(&product))?,
        align: timer.of(|| ev.align(&ct, level - 1))?,
        encode: timer.of(|| ev.encoder().encode_for_product(&ring.values, level))?,
        encrypt_seeded: middle(&imports, |p| p.0),
        expand: middle(&imports, |p| p.1),
        export: middle(&exports, |p| p.0),
        decode: middle(&exports, |p| p.1),
    })
}
