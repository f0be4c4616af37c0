//! Both slot domains follow the same rules: levels, values, counts, live ciphertexts, refusals.

#![allow(clippy::unwrap_used)]

use cipherloom_ckks::{
    CkksParameters, Complex64, Decryptor, EvaluationKeys, Evaluator, KeyGenerator, SecretEncryptor,
};
use cipherloom_kernels::{CkksSlots, KernelError, SlotDomain, SlotSim};
use std::sync::Arc;

fn values(slots: usize, seed: usize) -> Vec<Complex64> {
    (0..slots)
        .map(|i| {
            let t = (i * 37 + seed * 101) as f64;
            Complex64::new(t.sin(), (1.3 * t).cos())
        })
        .collect()
}

/// Every operation on `a`, `b` (top level) and `c` (one level lower).
fn all_operations<D: SlotDomain>(
    d: &D,
    a: &D::Ct,
    b: &D::Ct,
    c: &D::Ct,
) -> Result<Vec<D::Ct>, KernelError> {
    let n = d.slots();
    let top = d.level(a);
    let factor = d.encode_factor(&values(n, 8), top)?;
    let real = d.encode_real_factor(&vec![0.5; n], top)?;
    let term = d.encode_term(&values(n, 9), top)?;
    let mut out = vec![d.mul(a, b)?, d.mul(a, c)?, d.mul(c, b)?];
    for (x, y) in [(a, b), (a, c), (c, a)] {
        let mut sum = d.copy(x);
        d.add_assign(&mut sum, y)?;
        let mut difference = d.copy(x);
        d.sub_assign(&mut difference, y)?;
        out.extend([sum, difference]);
    }
    let mut biased = d.copy(a);
    d.add_plain_assign(&mut biased, &term)?;
    out.push(biased);
    out.push(d.mul_plain(a, &factor)?);
    out.push(d.mul_plain_sum(&[(a, &factor), (b, &real)])?);
    let mut acc = None;
    d.accumulate(&mut acc, a, &factor)?;
    d.accumulate(&mut acc, b, &real)?;
    out.push(d.finish(acc.unwrap())?);
    out.push(d.align(a, top - 2)?);
    out.push(d.align(a, top)?);
    out.extend([d.rotate(a, 3)?, d.rotate(a, -1)?, d.rotate(a, 0)?]);
    out.extend(d.rotate_many(c, &[3, -1])?);
    out.extend([d.conjugate(a)?, d.mul_by_i(a)?]);
    Ok(out)
}

/// What must be refused: the same kinds of error in both domains.
fn refusals<D: SlotDomain>(d: &D, a: &D::Ct) -> Vec<std::mem::Discriminant<KernelError>> {
    let n = d.slots();
    let top = d.level(a);
    let base = d.align(a, d.base_level()).unwrap();
    let factor = d.encode_factor(&values(n, 8), top).unwrap();
    let mut low = d.copy(&base);
    let errors = [
        d.mul(&base, a).err(),
        d.mul_plain(&base, &factor).err(),
        d.align(&base, top).err(),
        d.align(&base, d.base_level() - 1).err(),
        d.encode_factor(&values(n, 8), d.base_level()).err(),
        d.encode_factor(&values(n / 2, 8), top).err(),
        d.mul_plain_sum(&[]).err(),
        d.add_plain_assign(&mut low, &d.encode_term(&values(n, 1), top).unwrap())
            .err(),
    ];
    let errors: Vec<KernelError> = errors.into_iter().map(Option::unwrap).collect();
    assert!(matches!(errors[0], KernelError::LevelExhausted { .. }));
    assert!(matches!(errors[1], KernelError::LevelMismatch { .. }));
    assert!(matches!(errors[2], KernelError::AlignUp { .. }));
    assert!(matches!(errors[3], KernelError::LevelExhausted { .. }));
    errors.iter().map(std::mem::discriminant).collect()
}

#[test]
fn ciphertexts_and_the_oracle_agree_on_every_operation() {
    let chain = cipherloom_testkit::INSECURE_TOY_9()
        .insecure_build()
        .unwrap();
    let params = CkksParameters::insecure_for_tests(chain).unwrap();
    let generator = KeyGenerator::from_os(&params).unwrap();
    let secret = Arc::new(generator.secret_key().unwrap());
    let (n, top, base) = (params.slots(), params.top_level(), params.base_level());
    let mut keys = EvaluationKeys::new(&params);
    keys.insert(generator.relinearization_key(&secret, top).unwrap())
        .unwrap();
    keys.insert(generator.conjugation_key(&secret, top).unwrap())
        .unwrap();
    for r in [3, -1] {
        keys.insert(generator.rotation_key(&secret, r, top).unwrap())
            .unwrap();
    }
    let dom = CkksSlots::new(Evaluator::new(&params, keys).unwrap());
    let encryptor = SecretEncryptor::new(&params, secret.clone()).unwrap();
    let decryptor = Decryptor::new(&params, secret).unwrap();
    let encoder = dom.evaluator().encoder().clone();
    let inputs = [(1, top), (2, top), (3, top - 1)];
    let [a, b, c] = inputs.map(|(seed, level)| {
        let plain = encoder.encode(&values(n, seed), level, params.scale(level));
        let ct = encryptor.encrypt(&plain.unwrap()).unwrap();
        dom.input(ct.expand(&params).unwrap()).unwrap()
    });
    let got = all_operations(&dom, &a, &b, &c).unwrap();

    let sim = SlotSim::new(n, base);
    let [x, y, z] = inputs.map(|(seed, level)| sim.input(values(n, seed), level).unwrap());
    let want = all_operations(&sim, &x, &y, &z).unwrap();

    assert_eq!(got.len(), want.len());
    for (k, (g, w)) in got.iter().zip(&want).enumerate() {
        assert_eq!(dom.level(g), sim.level(w), "result {k}");
        let plain = decryptor.decrypt(g.ciphertext()).unwrap();
        let slots = encoder.decode(&plain).unwrap();
        for (s, v) in slots.iter().zip(w.values()) {
            assert!((*s - *v).abs() < 1e-6, "result {k}: {s:?} and {v:?}");
        }
    }
    assert_eq!(dom.counts(), sim.counts());
    assert_eq!(dom.live().current(), sim.live().current());
    assert_eq!(dom.live().peak(), sim.live().peak());
    assert_eq!(refusals(&dom, &a), refusals(&sim, &x));
    drop((got, want));
    assert_eq!((dom.live().current(), sim.live().current()), (3, 3));
    // The oracle's slots are the definition; two of its results by hand.
    let turned = sim.rotate(&x, 3).unwrap();
    assert_eq!(turned.values()[0], values(n, 1)[3]);
    let product = sim.mul(&x, &y).unwrap();
    assert_eq!(product.values()[5], values(n, 1)[5] * values(n, 2)[5]);
}
