//! No memory is taken in a steady loop: results live in the polynomials of dropped results, working space in that of the evaluator.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use allocation_counter::{measure, AllocationInfo};
use cipherloom_ckks::{Ciphertext, Complex64};
use cipherloom_spec::{CkksLiteral, Scale};
use cipherloom_testkit::fixture::test_values;
use cipherloom_testkit::CkksFixture;

/// Turns of a loop that are counted.
const TURNS: u64 = 10;

/// A limb has 32 KiB: no polynomial hides below the bounds. Shorter than limbs that are worked on by several threads, since only
/// what this thread allocates is counted.
fn fixture() -> CkksFixture {
    let literal = CkksLiteral {
        log_n: 12,
        q_bits: vec![50, 50, 40, 40, 40, 40],
        p_bits: vec![50, 50],
        log_scale: 40,
        dnum: 3,
    };
    let chain = literal.insecure_build().unwrap();
    let params = cipherloom_ckks::CkksParameters::insecure_for_tests(chain).unwrap();
    CkksFixture::with_params(params, &[1])
}

/// What `TURNS` turns take after a few that warm up.
fn steady(mut turn: impl FnMut()) -> AllocationInfo {
    (0..3).for_each(|_| turn());
    measure(|| (0..TURNS).for_each(|_| turn()))
}

/// At most `each` allocations a turn, all of them together below a page: so none is a limb or a page.
#[track_caller]
fn at_most(each: u64, what: &str, info: &AllocationInfo) {
    println!(
        "{what}: {:.1} allocations, {:.0} bytes a turn",
        info.count_total as f64 / TURNS as f64,
        info.bytes_total as f64 / TURNS as f64
    );
    assert!(info.count_total <= each * TURNS, "{what}: {info:?}");
    assert!(info.bytes_total < 4096 * TURNS, "{what}: {info:?}");
    assert_eq!(info.count_current, 0, "{what} keeps memory: {info:?}");
}

#[test]
fn the_counter_sees_a_polynomial() {
    let f = fixture();
    let ct = f.encrypt(&test_values(8, 1), 2);
    let info = measure(|| drop(ct.clone()));
    assert!(info.bytes_total > 2 * 3 * 8 * 4096, "{info:?}");
}

/// One: the list of the parts.
#[test]
fn results_are_made_of_dropped_results() {
    let f = fixture();
    let (ev, p) = (&f.evaluator, &f.params);
    let v = test_values(p.slots(), 1);
    for level in [p.top_level(), p.base_level() + 1] {
        let (a, b) = (f.encrypt(&v, level), f.encrypt(&v, level));
        let plain = f.encoder.encode_for_product(&v, level).unwrap();
        let same = f.encoder.encode(&v, level, a.scale()).unwrap();
        let terms: Vec<_> = (0..20).map(|_| (&a, &plain)).collect();
        let linear = [(&a, v[0]), (&b, v[1])];
        let wide = a.scale().times(plain.scale());
        let (square, product) = (ev.mul(&a, &b).unwrap(), ev.mul_relin(&a, &b).unwrap());
        let hoisted = ev.hoist(&a).unwrap();
        type Op<'a> = (&'static str, Box<dyn Fn() -> Ciphertext + 'a>);
        let ops: Vec<Op<'_>> = vec![
            ("add", Box::new(|| ev.add(&a, &b).unwrap())),
            (
                "add, degrees 1 and 2",
                Box::new(|| ev.add(&product, &square).unwrap()),
            ),
            (
                "sub, degrees 1 and 2",
                Box::new(|| ev.sub(&product, &square).unwrap()),
            ),
            ("sub", Box::new(|| ev.sub(&a, &b).unwrap())),
            ("neg", Box::new(|| ev.neg(&a).unwrap())),
            ("add_plain", Box::new(|| ev.add_plain(&a, &same).unwrap())),
            ("sub_plain", Box::new(|| ev.sub_plain(&a, &same).unwrap())),
            (
                "add_constant",
                Box::new(|| ev.add_constant(&a, v[0]).unwrap()),
            ),
            ("mul_by_i", Box::new(|| ev.mul_by_i(&a).unwrap())),
            ("mul_by_neg_i", Box::new(|| ev.mul_by_neg_i(&a).unwrap())),
            (
                "mul_constant",
                Box::new(|| ev.mul_constant(&a, v[0], plain.scale()).unwrap()),
            ),
            ("mul_plain", Box::new(|| ev.mul_plain(&a, &plain).unwrap())),
            (
                "mul_plain_sum",
                Box::new(|| ev.mul_plain_sum(&terms).unwrap()),
            ),
            ("mul", Box::new(|| ev.mul(&a, &b).unwrap())),
            ("mul_relin", Box::new(|| ev.mul_relin(&a, &b).unwrap())),
            (
                "mul_relin_rescale",
                Box::new(|| ev.mul_relin_rescale(&a, &b).unwrap()),
            ),
            ("relinearize", Box::new(|| ev.relinearize(&square).unwrap())),
            (
                "relinearize_rescale",
                Box::new(|| ev.relinearize_rescale(&square).unwrap()),
            ),
            ("rescale", Box::new(|| ev.rescale(&product).unwrap())),
            ("rotate", Box::new(|| ev.rotate(&a, 1).unwrap())),
            ("rotate by nothing", Box::new(|| ev.rotate(&a, 0).unwrap())),
            ("conjugate", Box::new(|| ev.conjugate(&a).unwrap())),
            (
                "rotate_hoisted",
                Box::new(|| ev.rotate_hoisted(&hoisted, 1).unwrap()),
            ),
            ("align", Box::new(|| ev.align(&a, level - 1).unwrap())),
            ("drop_level", Box::new(|| ev.drop_level(&a, 0).unwrap())),
        ];
        for (name, op) in &ops {
            at_most(1, name, &steady(|| drop(op())));
        }
        at_most(0, "hoist", &steady(|| drop(ev.hoist(&a).unwrap())));
        // The sum before the rescale has a list of its own.
        let info = steady(|| drop(ev.mul_plain_accumulate(&terms).unwrap()));
        at_most(2, "mul_plain_accumulate", &info);
        // The constants are a list.
        let info = steady(|| {
            drop(
                ev.linear_combination(&linear, Complex64::ONE, level, wide)
                    .unwrap(),
            );
        });
        at_most(2, "linear_combination", &info);
        // The rotated ciphertexts are a list.
        let info = steady(|| drop(ev.rotate_many(&a, &[0, 1, 1]).unwrap()));
        at_most(4, "rotate_many", &info);
    }
}

#[test]
fn operations_in_place_take_nothing() {
    let f = fixture();
    let (ev, p) = (&f.evaluator, &f.params);
    let level = p.top_level();
    let v = test_values(p.slots(), 1);
    let (mut a, b) = (f.encrypt(&v, level), f.encrypt(&v, level));
    let same = f.encoder.encode(&v, level, a.scale()).unwrap();
    let plain = f.encoder.encode_for_product(&v, level).unwrap();
    let one = Scale::pow2(0);
    at_most(
        0,
        "add_assign",
        &steady(|| ev.add_assign(&mut a, &b).unwrap()),
    );
    at_most(
        0,
        "sub_assign",
        &steady(|| ev.sub_assign(&mut a, &b).unwrap()),
    );
    at_most(0, "neg_assign", &steady(|| ev.neg_assign(&mut a).unwrap()));
    let info = steady(|| ev.add_plain_assign(&mut a, &same).unwrap());
    at_most(0, "add_plain_assign", &info);
    let info = steady(|| ev.sub_plain_assign(&mut a, &same).unwrap());
    at_most(0, "sub_plain_assign", &info);
    let info = steady(|| ev.add_constant_assign(&mut a, v[0]).unwrap());
    at_most(0, "add_constant_assign", &info);
    at_most(
        0,
        "mul_by_i_assign",
        &steady(|| ev.mul_by_i_assign(&mut a).unwrap()),
    );
    let info = steady(|| ev.mul_by_neg_i_assign(&mut a).unwrap());
    at_most(0, "mul_by_neg_i_assign", &info);
    let info = steady(|| ev.mul_constant_assign(&mut a, 1.0.into(), one).unwrap());
    at_most(0, "mul_constant_assign", &info);
    let mut acc = ev.mul_plain(&b, &plain).unwrap();
    let info = steady(|| ev.mul_plain_add_assign(&mut acc, &b, &plain).unwrap());
    at_most(0, "mul_plain_add_assign", &info);
    let info = steady(|| ev.drop_level_assign(&mut acc, level).unwrap());
    at_most(0, "drop_level_assign", &info);

    // Each turn starts from a copy, which takes one list; what follows takes none, but for the rescaled parts.
    let square = ev.mul(&b, &b).unwrap();
    let info = steady(|| {
        let mut c = ev.drop_level(&b, level).unwrap();
        ev.mul_plain_assign(&mut c, &plain).unwrap();
        ev.rescale_assign(&mut c).unwrap();
        ev.drop_level_assign(&mut c, 1).unwrap();
    });
    at_most(
        2,
        "mul_plain_assign, rescale_assign, drop_level_assign",
        &info,
    );
    // The list grows by the third part.
    let info = steady(|| {
        let mut c = ev.mul_relin(&b, &b).unwrap();
        ev.add_assign(&mut c, &square).unwrap();
        let mut d = ev.mul_relin(&b, &b).unwrap();
        ev.sub_assign(&mut d, &square).unwrap();
    });
    at_most(4, "add_assign and sub_assign of degrees 1 and 2", &info);
}

/// A circuit through all levels and back: buffers of one level serve others, so nothing is taken after a few rounds.
#[test]
fn a_circuit_over_many_levels_takes_lists_only() {
    let f = fixture();
    let (ev, p) = (&f.evaluator, &f.params);
    let v = test_values(p.slots(), 1);
    let x = f.encrypt(&v, p.top_level());
    let mut operations = 0;
    let turn = || {
        let mut y = ev.rotate(&x, 1).unwrap();
        operations = 1;
        while y.level() > p.base_level() {
            let z = ev.align(&x, y.level()).unwrap();
            y = ev.mul_relin_rescale(&y, &z).unwrap();
            let hoisted = ev.hoist(&y).unwrap();
            let w = ev
                .add(&ev.rotate_hoisted(&hoisted, 1).unwrap(), &y)
                .unwrap();
            drop(hoisted);
            y = ev.mul_by_i(&w).unwrap();
            operations += 5;
        }
    };
    let info = steady(turn);
    at_most(operations, "circuit", &info);
}
