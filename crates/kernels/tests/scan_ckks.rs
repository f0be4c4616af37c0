//! HEScan on ciphertexts at a toy ring: values, counts and peak equal those of the oracle and of the plan, with exactly the
//! keys that the plan lists, each no longer than the plan says.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use cipherloom_ckks::{
    CkksParameters, Complex64, Decryptor, EvaluationKeys, Evaluator, KeyGenerator, SecretEncryptor,
};
use cipherloom_kernels::{CkksSlots, HeScan, KernelError, ScanPacket, SlotDomain, SlotSim};
use cipherloom_plan::describe::scan::{describe_scan, ScanDescription};
use cipherloom_spec::layout::ScanLayout;
use cipherloom_spec::schedule::{Carry, ScanSchedule};
use cipherloom_spec::CkksLiteral;
use common::Problem;
use std::sync::Arc;

struct Client {
    params: CkksParameters,
    encryptor: SecretEncryptor,
    decryptor: Decryptor,
    keys: EvaluationKeys,
}

/// A toy chain with `levels` rescales at 2^(log_slots + 1), and the keys of the description.
fn client(log_slots: u32, levels: usize, d: &ScanDescription) -> Client {
    let mut q_bits = vec![50, 50];
    q_bits.resize(2 + levels, 40);
    let literal = CkksLiteral {
        log_n: log_slots + 1,
        q_bits,
        p_bits: vec![50; 5],
        log_scale: 40,
        dnum: (levels as u32 + 2).div_ceil(5),
    };
    let chain = literal.insecure_build().unwrap();
    let params = CkksParameters::insecure_for_tests(chain).unwrap();
    let generator = KeyGenerator::from_os(&params).unwrap();
    let secret = Arc::new(generator.secret_key().unwrap());
    let mut keys = EvaluationKeys::new(&params);
    let relin = generator.relinearization_key(&secret, d.relinearization_level);
    keys.insert(relin.unwrap()).unwrap();
    for k in &d.rotations {
        let key = generator.rotation_key(&secret, k.rotation as i64, k.max_level);
        keys.insert(key.unwrap()).unwrap();
    }
    Client {
        encryptor: SecretEncryptor::new(&params, secret.clone()).unwrap(),
        decryptor: Decryptor::new(&params, secret).unwrap(),
        params,
        keys,
    }
}

fn check(s: ScanSchedule, spare: usize, limit: f64) {
    let slots = s.layout().slots();
    let levels = s.depth() + spare;
    let block = s.block_steps() * s.layout().segments();
    let d = describe_scan(s.layout(), s.tokens(), block, s.carry(), levels + 1, 1).unwrap();
    let client = client(slots.ilog2(), levels, &d);
    let (level_in, level_out) = (client.params.top_level(), client.params.base_level());
    assert_eq!((level_in, level_out), (d.level_in, d.level_out));
    let p = Problem::new(s.layout(), s.tokens(), 1, 2, 1, 11);

    let sim = SlotSim::new(slots, level_out);
    let [x, decay, b, c] = p.packet(0).map(|tiles| -> Vec<_> {
        let make = |v| sim.input(v, level_in).unwrap();
        tiles.into_iter().map(make).collect()
    });
    let packet = ScanPacket {
        x: &x,
        decay: &decay,
        b: &b,
        c: &c,
    };
    let scan = HeScan::new(&sim, s, level_in, level_out).unwrap();
    let clear = scan.run(&sim, packet).unwrap();

    let dom = CkksSlots::new(Evaluator::new(&client.params, client.keys).unwrap());
    let encoder = dom.evaluator().encoder().clone();
    let scale = client.params.scale(level_in);
    let encrypt = |v: Vec<Complex64>| {
        let plain = encoder.encode(&v, level_in, scale).unwrap();
        let ct = client.encryptor.encrypt(&plain).unwrap();
        dom.input(ct.expand(&client.params).unwrap()).unwrap()
    };
    let [x, decay, b, c] = p
        .packet(0)
        .map(|tiles| -> Vec<_> { tiles.into_iter().map(encrypt).collect() });
    let packet = ScanPacket {
        x: &x,
        decay: &decay,
        b: &b,
        c: &c,
    };
    let scan = HeScan::new(&dom, s, level_in, level_out).unwrap();
    let start = std::time::Instant::now();
    let out = scan.run(&dom, packet).unwrap();
    println!("{:.2} s", start.elapsed().as_secs_f64());

    assert_eq!(dom.counts(), sim.counts());
    assert_eq!(dom.counts(), d.cost.he);
    assert_eq!(dom.live().peak(), sim.live().peak());
    assert_eq!(dom.live().peak() as u64, d.cost.peak_live);
    let tiles: Vec<Vec<Complex64>> = out
        .iter()
        .map(|t| {
            assert_eq!(dom.level(t), level_out);
            let plain = client.decryptor.decrypt(t.ciphertext()).unwrap();
            encoder.decode(&plain).unwrap()
        })
        .collect();
    let against_oracle = tiles
        .iter()
        .zip(&clear)
        .flat_map(|(t, c)| t.iter().zip(c.values()))
        .map(|(t, c)| (*t - *c).abs())
        .fold(0.0, f64::max);
    let error = p.error(0, &tiles);
    println!(
        "{s:?}: error {error:.2e}, against the oracle {against_oracle:.2e}, {:?}, peak {}",
        d.cost.he, d.cost.peak_live
    );
    assert!(against_oracle < limit && error < limit);
}

fn schedule(layout: (usize, usize, usize), l: usize, b: usize, carry: Carry) -> ScanSchedule {
    let (r, s, c) = layout;
    ScanSchedule::new(ScanLayout::new(r, s, c).unwrap(), l, b, carry).unwrap()
}

#[test]
fn segments_in_one_block() {
    check(schedule((4, 4, 16), 32, 32, Carry::Serial), 0, 2e-6);
}

#[test]
fn segments_in_blocks_with_both_carries() {
    check(schedule((4, 4, 16), 48, 16, Carry::Serial), 0, 2e-6);
    check(schedule((4, 4, 16), 48, 16, Carry::BrentKung), 1, 2e-6);
}

#[test]
fn one_segment_in_blocks() {
    check(schedule((4, 1, 64), 16, 4, Carry::Serial), 0, 2e-6);
    check(schedule((4, 1, 64), 16, 4, Carry::BrentKung), 0, 2e-6);
}

/// The fixture's shape at its real ring: some seconds and 1 GiB.
#[test]
fn the_fixture_shape_at_its_real_ring() {
    check(schedule((8, 16, 128), 128, 128, Carry::Serial), 0, 2e-6);
}

#[test]
fn a_missing_key_and_a_foreign_scale_are_named() {
    let s = schedule((2, 2, 4), 8, 8, Carry::Serial);
    let d = describe_scan(s.layout(), 8, 8, Carry::Serial, s.depth() + 1, 1).unwrap();
    let mut fewer = d.clone();
    fewer.rotations.pop();
    let client = client(4, s.depth(), &fewer);
    let dom = CkksSlots::new(Evaluator::new(&client.params, client.keys).unwrap());
    let level = client.params.top_level();
    let scan = HeScan::new(&dom, s, level, 1).unwrap();
    let make = |level: usize| {
        let scale = client.params.scale(level);
        let zero = dom.evaluator().encoder().encode(&[], level, scale).unwrap();
        client
            .encryptor
            .encrypt(&zero)
            .unwrap()
            .expand(&client.params)
    };
    let tiles: Vec<_> = (0..s.tiles())
        .map(|_| dom.input(make(level).unwrap()).unwrap())
        .collect();
    let packet = ScanPacket {
        x: &tiles,
        decay: &tiles,
        b: &tiles,
        c: &tiles,
    };
    let error = scan.run(&dom, packet).err().map(|e| e.to_string());
    assert!(
        error.as_deref().is_some_and(|e| e.contains("no key")),
        "{error:?}"
    );
    let product = make(level).unwrap();
    let product = dom
        .evaluator()
        .mul_constant(&product, Complex64::ONE, client.params.scale(1));
    let foreign = dom.input(product.unwrap());
    assert!(matches!(foreign, Err(KernelError::Ckks(_))));
}
