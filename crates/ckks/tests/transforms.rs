//! Linear transforms on ciphertexts against the matrix product in double precision, and the plaintext store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use cipherloom_ckks::circuits::{DiagonalMatrix, LinearPlan, LinearTransform, PlaintextStore};
use cipherloom_ckks::{
    Ciphertext, CkksError, CkksParameters, Complex64, EvaluationKeys, Evaluator,
};
use cipherloom_spec::Scale;
use cipherloom_testkit::fixture::{max_error, test_values};
use cipherloom_testkit::*;

fn params() -> CkksParameters {
    CkksParameters::insecure_for_tests(INSECURE_TOY_10().insecure_build().unwrap()).unwrap()
}

/// Complex diagonals at these places.
fn matrix(size: usize, diagonals: &[i64]) -> DiagonalMatrix {
    let mut m = DiagonalMatrix::zero(size).unwrap();
    for &k in diagonals {
        let seed = k.rem_euclid(1000) as u64;
        m.set_diagonal(k, &test_values(size, seed)).unwrap();
    }
    m
}

fn repeated(values: &[Complex64], slots: usize) -> Vec<Complex64> {
    values.iter().copied().cycle().take(slots).collect()
}

/// `M x`, entry by entry, from the definition of a diagonal.
fn product(m: &DiagonalMatrix, x: &[Complex64]) -> Vec<Complex64> {
    let n = m.size();
    let mut dense = vec![vec![Complex64::ZERO; n]; n];
    for (k, d) in m.diagonals() {
        for i in 0..n {
            dense[i][(i + k) % n] = d[i];
        }
    }
    dense
        .iter()
        .map(|row| {
            let mut sum = Complex64::ZERO;
            for (a, b) in row.iter().zip(x) {
                sum += *a * *b;
            }
            sum
        })
        .collect()
}

#[test]
fn transforms_multiply_and_count_as_planned() {
    let p = params();
    let slots = p.slots();
    let dense: Vec<i64> = (0..16).collect();
    let strided: Vec<i64> = (0..slots as i64).step_by(32).collect();
    for (m, switches) in [
        (matrix(16, &dense), 6),
        (matrix(slots, &[0, 1, 2, -1, -2]), 3),
        (matrix(slots, &strided), 6),
        (matrix(slots, &[0]), 0),
        (matrix(slots, &[7]), 1),
        (matrix(64, &[3, 9, 40]), 3),
    ] {
        let level = p.top_level();
        let plan = LinearPlan::new(&p, &m, level, p.scale(level)).unwrap();
        assert_eq!(plan.counts().rotations, switches);
        let f = CkksFixture::with_params(p.clone(), &plan.rotations());
        for level in [level, p.base_level() + 1] {
            let t = LinearTransform::new(&p, &m, level).unwrap();
            assert_eq!(t.plan().rotations(), plan.rotations());
            let x = test_values(m.size(), 77);
            let ct = f.encrypt(&repeated(&x, slots), level);
            let before = f.evaluator.counts();
            let y = t.apply(&f.evaluator, &ct).unwrap();
            assert_eq!(f.evaluator.counts().since(&before), t.plan().counts());
            assert_eq!(y.level(), level - 1);
            assert!(y.scale().matches(p.scale(level - 1)));
            let want = repeated(&product(&m, &x), slots);
            let e = max_error(&f.decrypt(&y), &want);
            assert!(e < 1e-6, "error {e}");
        }
    }
}

#[test]
fn the_store_gives_the_bits_of_direct_encoding() {
    let p = params();
    let encoder = cipherloom_ckks::Encoder::new(&p);
    let file = tempfile::tempdir().unwrap();
    let path = file.path().join("weights");
    let memory = PlaintextStore::in_memory(&p, 0);
    let disk = PlaintextStore::in_file(&p, &path, usize::MAX).unwrap();
    let mut bytes = 0;
    for (i, (m, level, log_scale, size)) in [
        (1usize, 1, 20, 1.0),
        (4, 3, 40, 1e-3),
        (256, 6, 40, 1.0),
        (512, 6, 45, 1000.0),
        (512, 2, 30, 0.0),
        (512, 0, 30, 1.0),
    ]
    .into_iter()
    .enumerate()
    {
        let values: Vec<Complex64> = test_values(m, i as u64)
            .iter()
            .map(|v| v.scaled(size))
            .collect();
        let scale = Scale::pow2(log_scale);
        let want = encoder.encode_repeated(&values, level, scale).unwrap();
        for store in [&memory, &disk] {
            let id = store.insert(&values, level, scale).unwrap();
            for _ in 0..2 {
                assert_eq!(*store.get(id).unwrap().0, want);
            }
        }
        bytes += want.memory_bytes();
    }
    let s = memory.statistics();
    assert_eq!((s.hits, s.expansions, s.kept_bytes), (0, 12, 0));
    let d = disk.statistics();
    assert_eq!((d.hits, d.expansions, d.kept_bytes), (6, 6, bytes));
    assert_eq!(
        std::fs::metadata(&path).unwrap().len(),
        d.compact_bytes as u64
    );
    assert_eq!(s.compact_bytes, d.compact_bytes);
    disk.release();
    assert_eq!(disk.statistics().kept_bytes, 0);

    assert!(matches!(
        PlaintextStore::in_file(&p, &path, 0),
        Err(CkksError::Store { .. })
    ));
    let big = memory.insert(&[Complex64::ONE], 6, Scale::pow2(70));
    assert!(matches!(big, Err(CkksError::ValueTooLarge { .. })));
    // A name of another store is an error, not the plaintext at the same place in this one.
    let foreign = disk.insert(&[Complex64::ONE], 1, Scale::pow2(30)).unwrap();
    for _ in 0..2 {
        assert!(matches!(memory.get(foreign), Err(CkksError::Store { .. })));
    }
    memory
        .insert(&[Complex64::ONE], 1, Scale::pow2(30))
        .unwrap();
    assert!(matches!(memory.get(foreign), Err(CkksError::Store { .. })));
    // A file that was cut is an error, not a wrong weight.
    let id = disk
        .insert(&test_values(512, 1), 6, Scale::pow2(40))
        .unwrap();
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(10)
        .unwrap();
    assert!(matches!(disk.get(id), Err(CkksError::Store { .. })));
}

#[test]
fn a_stored_transform_is_the_same_within_any_cap() {
    let p = params();
    let m = matrix(16, &(0..16).collect::<Vec<_>>());
    let level = p.top_level();
    let direct = LinearTransform::new(&p, &m, level).unwrap();
    let f = CkksFixture::with_params(p.clone(), &direct.plan().rotations());
    let x = f.encrypt(&repeated(&test_values(16, 5), p.slots()), level);
    let want = direct.apply(&f.evaluator, &x).unwrap();
    let one = p.n() * 8 * (level + 1);
    assert_eq!(direct.plan().plaintext_bytes(&p), 16 * one);
    for (cap, keeps) in [(0, 0), (one - 1, 0), (5 * one, 5), (100 * one, 16)] {
        let store = Arc::new(PlaintextStore::in_memory(&p, cap));
        let t = LinearTransform::with_store(&m, level, &store).unwrap();
        for pass in 1..=2 {
            let before = f.evaluator.counts();
            assert_eq!(t.apply(&f.evaluator, &x).unwrap(), want);
            assert_eq!(f.evaluator.counts().since(&before), t.plan().counts());
            let s = store.statistics();
            assert_eq!(s.kept_bytes, keeps * one);
            assert_eq!(s.hits, (pass - 1) * keeps as u64);
        }
        let s = store.statistics();
        // 16 values have 32 coefficients of at most 41 bits and a sign.
        assert!(s.compact_bytes <= 16 * 32 * 6, "{}", s.compact_bytes);
    }
}

#[test]
fn wrong_use_is_refused_before_any_operation() {
    let p = params();
    let top = p.top_level();
    let m = matrix(p.slots(), &[0, 1, 2, 3]);
    let t = LinearTransform::new(&p, &m, top).unwrap();
    let f = CkksFixture::with_params(p.clone(), &[1]);
    let x: Ciphertext = f.encrypt_real(&[1.0], top);
    let before = f.evaluator.counts();
    let e = t.apply(&f.evaluator, &x).unwrap_err();
    assert!(matches!(e, CkksError::MissingKey { .. }), "{e}");
    assert!(e.to_string().contains("rotation by 2"), "{e}");
    let low = f.encrypt_real(&[1.0], top - 1);
    assert!(matches!(
        t.apply(&f.evaluator, &low),
        Err(CkksError::LevelMismatch { .. })
    ));
    assert_eq!(f.evaluator.counts(), before);
    let base = p.base_level();
    assert!(matches!(
        LinearTransform::new(&p, &m, base),
        Err(CkksError::LevelExhausted { .. })
    ));
    let large = matrix(2 * p.slots(), &[0]);
    assert!(matches!(
        LinearTransform::new(&p, &large, top),
        Err(CkksError::Matrix { .. })
    ));
    let zero = DiagonalMatrix::zero(4).unwrap();
    assert!(matches!(
        LinearTransform::new(&p, &zero, top),
        Err(CkksError::Empty { .. })
    ));
    // The unit matrix needs no key.
    let bare = Evaluator::new(&p, EvaluationKeys::new(&p)).unwrap();
    let mut unit = DiagonalMatrix::zero(1).unwrap();
    unit.set_diagonal(0, &[Complex64::new(0.0, 2.0)]).unwrap();
    let t = LinearTransform::new(&p, &unit, top).unwrap();
    let y = t.apply(&bare, &x).unwrap();
    assert!((f.decrypt(&y)[0] - Complex64::new(0.0, 2.0)).abs() < 1e-6);
}
