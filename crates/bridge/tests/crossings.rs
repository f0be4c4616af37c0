//! Both crossings between two parties over a channel, against values in the clear.
#![allow(clippy::unwrap_used, clippy::panic)]

use cipherloom_bridge::size::{
    extend_bytes, to_ckks_bytes, to_shares_bytes, EXTEND_FLIGHTS, TO_CKKS_FLIGHTS,
    TO_SHARES_FLIGHTS,
};
use cipherloom_bridge::{
    arrange, arrange_slots, extend, BridgeError, CkksToShares, ExportDecryptor, SharesToCkks,
    SlotMap, SlotWords, WideFft, NO_VALUE,
};
use cipherloom_ckks::{Ciphertext, Complex64};
use cipherloom_mpc::harness::{run_pair, share_words};
use cipherloom_mpc::MpcConfig;
use cipherloom_net::{Channel, ChannelConfig};
use cipherloom_ring::SecretPrg;
use cipherloom_spec::{CkksLiteral, FracBits, Scale};
use cipherloom_testkit::{
    secure_13, CkksFixture, INSECURE_TOY_10, INSECURE_TOY_11, INSECURE_TOY_9,
};
use std::sync::Arc;

const F: FracBits = FracBits(19);

/// Words below `2^bits` in absolute value from the system's generator.
fn random_words(prg: &mut SecretPrg, count: usize, bits: u32) -> Vec<i128> {
    (0..count)
        .map(|_| {
            let w = (i128::from(prg.next_u64()) << 64) | i128::from(prg.next_u64());
            (w << 1 >> 1) >> (127 - bits - 1)
        })
        .collect()
}

fn centred_88(v: i128) -> i128 {
    v << 40 >> 40
}

/// Uniform shares modulo 2^88 of `values`, lifted centred.
fn split_88(prg: &mut SecretPrg, values: &[i128]) -> (Vec<i128>, Vec<i128>) {
    let a: Vec<i128> = random_words(prg, values.len(), 100)
        .into_iter()
        .map(centred_88)
        .collect();
    let b = values
        .iter()
        .zip(&a)
        .map(|(v, a)| centred_88(v - a))
        .collect();
    (a, b)
}

struct Side {
    fixture: CkksFixture,
    fft: Arc<WideFft>,
}

impl Side {
    fn new(fixture: CkksFixture) -> Self {
        let fft = Arc::new(WideFft::new(fixture.params.chain().log_n()).unwrap());
        Self { fixture, fft }
    }
    fn insecure(literal: CkksLiteral) -> Self {
        Self::new(CkksFixture::insecure(literal, &[]))
    }

    /// Shares of both parties from ciphertexts, and the traffic.
    fn to_shares(
        &self,
        boundary: &CkksToShares,
        cts: &[Ciphertext],
    ) -> (Vec<SlotWords>, Vec<SlotWords>) {
        let (mut client, mut server) = Channel::memory_pair(ChannelConfig::default()).unwrap();
        let f = &self.fixture;
        std::thread::scope(|scope| {
            let at_server = scope.spawn(move || {
                let key = boundary.export_key(&f.public_key).unwrap();
                let mut prg = SecretPrg::from_os().unwrap();
                let prepared = boundary.prepare(&key, cts.len(), &mut prg).unwrap();
                let words = boundary.server(cts, prepared, &mut server).unwrap();
                (words, server.snapshot().total())
            });
            let secret = ExportDecryptor::new(&f.params, &f.decryptor).unwrap();
            let mine = boundary.client(cts.len(), &secret, &mut client).unwrap();
            let (theirs, traffic) = at_server.join().unwrap();
            let degree = cts[0].parts().len() - 1;
            let expected = to_shares_bytes(f.params.chain(), degree, cts.len());
            assert_eq!(traffic.sent.bytes, expected);
            assert_eq!(traffic.received.bytes, 0);
            assert_eq!(traffic.flights(), TO_SHARES_FLIGHTS);
            (mine, theirs)
        })
    }

    fn to_ckks(
        &self,
        boundary: &SharesToCkks,
        client_words: &[SlotWords],
        server_words: &[SlotWords],
    ) -> Vec<Ciphertext> {
        let (mut client, mut server) = Channel::memory_pair(ChannelConfig::default()).unwrap();
        let f = &self.fixture;
        std::thread::scope(|scope| {
            let at_server = scope.spawn(move || {
                let cts = boundary.server(server_words, &mut server).unwrap();
                (cts, server.snapshot().total())
            });
            boundary
                .client(client_words, &f.secret_encryptor, &mut client)
                .unwrap();
            let (cts, traffic) = at_server.join().unwrap();
            let expected = to_ckks_bytes(f.params.chain(), boundary.level(), cts.len());
            assert_eq!(traffic.received.bytes, expected);
            assert_eq!(traffic.sent.bytes, 0);
            assert_eq!(traffic.flights(), TO_CKKS_FLIGHTS);
            cts
        })
    }
}

/// Shares -> ciphertexts -> shares for `count` ciphertexts at every level in `levels`.
fn round_trip(side: &Side, levels: &[usize], count: usize) {
    let params = &side.fixture.params;
    let n = params.slots();
    let mut prg = SecretPrg::from_os().unwrap();
    for &level in levels {
        // Values up to 2^8 in both lanes.
        let values: Vec<[Vec<i128>; 2]> = (0..count)
            .map(|_| [0, 1].map(|_| random_words(&mut prg, n, 27)))
            .collect();
        let (mut client, mut server) = (Vec::new(), Vec::new());
        for lanes in &values {
            let (re0, re1) = split_88(&mut prg, &lanes[0]);
            let (im0, im1) = split_88(&mut prg, &lanes[1]);
            client.push(SlotWords::new(re0, im0).unwrap());
            server.push(SlotWords::new(re1, im1).unwrap());
        }
        let import = SharesToCkks::new(params, &side.fft, level, F).unwrap();
        let cts = side.to_ckks(&import, &client, &server);
        assert_eq!(cts.len(), count);
        for (ct, lanes) in cts.iter().zip(&values) {
            assert_eq!((ct.level(), ct.scale()), (level, params.scale(level)));
            // What a kernel would see.
            for (j, v) in side.fixture.decrypt(ct).iter().enumerate() {
                let want = lanes.clone().map(|l| l[j] as f64 / F.unit());
                assert!((v.re - want[0]).abs() < 1e-6 && (v.im - want[1]).abs() < 1e-6);
            }
        }
        // Straight back: trimmed to the base, the scale of the level kept.
        let export = CkksToShares::new(params, &side.fft, params.scale(level), F).unwrap();
        let (a, b) = side.to_shares(&export, &cts);
        for ((a, b), lanes) in a.iter().zip(&b).zip(&values) {
            let ((ar, ai), (br, bi)) = (a.to_ring64(), b.to_ring64());
            let bound = 1i128 << export.word_bits();
            for j in 0..n {
                let sums = [
                    (a.re[j] + b.re[j], ar[j].wrapping_add(br[j]), lanes[0][j]),
                    (a.im[j] + b.im[j], ai[j].wrapping_add(bi[j]), lanes[1][j]),
                ];
                for (integer, word, want) in sums {
                    // 1/2 + 1/2 for two roundings, CKKS noise below 2^-3.
                    assert!((integer - want).abs() <= 1, "level {level} slot {j}");
                    assert!((word as i64 - want as i64).abs() <= 1);
                }
                assert!([a.re[j], a.im[j], b.re[j], b.im[j]]
                    .iter()
                    .all(|w| w.abs() <= bound));
            }
            // Shares look nothing like values: they are about 2^80, so one in a thousand or fewer is below 2^70.
            assert!(a.re.iter().filter(|w| w.abs() >> 70 == 0).count() < 3 + n / 128);
        }
    }
}

#[test]
fn round_trips_lose_at_most_one_unit() {
    round_trip(&Side::insecure(INSECURE_TOY_9()), &[1, 4], 2);
    round_trip(&Side::insecure(INSECURE_TOY_11()), &[1, 13], 1);
}

#[test]
fn round_trip_over_a_secure_ring() {
    round_trip(
        &Side::new(CkksFixture::checked(secure_13(), &[])),
        &[1, 2],
        2,
    );
}

#[test]
fn batches_beyond_one_message_arrive_in_order() {
    round_trip(&Side::insecure(INSECURE_TOY_9()), &[2], 35);
}

#[test]
fn integer_shares_return_to_ciphertexts_after_linear_steps() {
    let side = Side::insecure(INSECURE_TOY_10());
    let f = &side.fixture;
    let n = f.params.slots();
    let values = cipherloom_testkit::fixture::test_values(2 * n, 5);
    let cts = [f.encrypt(&values[..n], 1), f.encrypt(&values[n..], 1)];
    let export = CkksToShares::new(&f.params, &side.fft, f.params.scale(1), F).unwrap();
    let (a, b) = side.to_shares(&export, &cts);
    // 3 x + y on integer shares; no extension, no wrap.
    let combine = |w: &[SlotWords]| {
        let lane = |x: &[i128], y: &[i128]| x.iter().zip(y).map(|(x, y)| 3 * x + y).collect();
        vec![SlotWords::new(lane(&w[0].re, &w[1].re), lane(&w[0].im, &w[1].im)).unwrap()]
    };
    let import =
        SharesToCkks::for_integers(&f.params, &side.fft, 4, F, export.word_bits() + 2).unwrap();
    let cts = side.to_ckks(&import, &combine(&a), &combine(&b));
    assert_eq!(cts[0].scale(), f.params.scale(4));
    for (j, v) in f.decrypt(&cts[0]).iter().enumerate() {
        let want = values[j].scaled(3.0) + values[n + j];
        assert!(
            (*v - want).abs() < 8.0 / F.unit(),
            "slot {j}: {v:?} {want:?}"
        );
    }
}

#[test]
fn a_product_crosses_before_relinearisation() {
    let side = Side::insecure(INSECURE_TOY_10());
    let f = &side.fixture;
    let n = f.params.slots();
    let values = cipherloom_testkit::fixture::test_values(2 * n, 6);
    let top = f.params.top_level();
    let product = f
        .evaluator
        .mul(&f.encrypt(&values[..n], top), &f.encrypt(&values[n..], top))
        .unwrap();
    let product = f.evaluator.rescale(&product).unwrap();
    assert_eq!(product.parts().len(), 3);
    let export = CkksToShares::new(&f.params, &side.fft, product.scale(), F)
        .unwrap()
        .with_degree(2)
        .unwrap();
    let (a, b) = side.to_shares(&export, std::slice::from_ref(&product));
    for j in 0..n {
        let want = values[j] * values[n + j];
        let got = Complex64::new(
            (a[0].re[j] + b[0].re[j]) as f64,
            (a[0].im[j] + b[0].im[j]) as f64,
        )
        .scaled(1.0 / F.unit());
        assert!(
            (got - want).abs() < 4.0 / F.unit(),
            "slot {j}: {got:?} {want:?}"
        );
    }
}

#[test]
fn one_value_fills_many_slots() {
    let side = Side::insecure(INSECURE_TOY_9());
    let f = &side.fixture;
    let n = f.params.slots();
    let mut prg = SecretPrg::from_os().unwrap();
    let values = random_words(&mut prg, 7, 27);
    let (s0, s1) = split_88(&mut prg, &values);
    let map: Vec<u32> = (0..n as u32)
        .map(|j| if j % 11 == 10 { NO_VALUE } else { j % 7 })
        .collect();
    let words = |s: &[i128]| vec![SlotWords::new(arrange(s, &map).unwrap(), Vec::new()).unwrap()];
    let import = SharesToCkks::new(&f.params, &side.fft, 3, F).unwrap();
    let cts = side.to_ckks(&import, &words(&s0), &words(&s1));
    for (j, v) in f.decrypt(&cts[0]).iter().enumerate() {
        let want = match map[j] {
            NO_VALUE => 0.0,
            i => values[i as usize] as f64 / F.unit(),
        };
        assert!((v.re - want).abs() < 1e-6 && v.im.abs() < 1e-6);
    }
}

#[test]
fn what_does_not_fit_the_plan_is_refused_before_anything_is_sent() {
    let side = Side::insecure(INSECURE_TOY_9());
    let f = &side.fixture;
    let (mut client, mut server) = Channel::memory_pair(ChannelConfig::default()).unwrap();
    let mut prg = SecretPrg::from_os().unwrap();
    let ct = f.encrypt_real(&[1.0], 2);
    let at = |scale| CkksToShares::new(&f.params, &side.fft, scale, F).unwrap();
    let boundary = at(f.params.scale(1));
    let key = boundary.export_key(&f.public_key).unwrap();
    let mut prepare = |n| boundary.prepare(&key, n, &mut prg).unwrap();

    // Scales of neighbouring levels differ by about 2^-18, and are told apart.
    let cts = std::slice::from_ref(&ct);
    let e = boundary.server(cts, prepare(1), &mut server).err().unwrap();
    assert!(
        matches!(e, BridgeError::ScaleMismatch { got, want, .. }
        if got == f.params.scale(2) && want == f.params.scale(1)),
        "{e}"
    );
    let e = at(f.params.scale(2))
        .server(cts, prepare(2), &mut server)
        .err()
        .unwrap();
    assert!(
        matches!(
            e,
            BridgeError::Length {
                got: 2,
                expected: 1,
                ..
            }
        ),
        "{e}"
    );
    let low = f.evaluator.drop_level(&ct, 0).unwrap();
    let e = at(f.params.scale(2))
        .server(&[low], prepare(1), &mut server)
        .err()
        .unwrap();
    assert!(
        matches!(e, BridgeError::Level { got: 0, min: 1, .. }),
        "{e}"
    );
    let product = f.evaluator.mul(&ct, &ct).unwrap();
    let e = at(product.scale())
        .server(&[product], prepare(1), &mut server)
        .err()
        .unwrap();
    assert!(matches!(e, BridgeError::Ckks(_)), "{e}");
    assert_eq!(server.snapshot().total().sent.bytes, 0);

    // A client whose plan names another level: the message has another length.
    let words = || vec![SlotWords::new(vec![0; f.params.slots()], Vec::new()).unwrap()];
    let import = |level| SharesToCkks::new(&f.params, &side.fft, level, F).unwrap();
    import(2)
        .client(&words(), &f.secret_encryptor, &mut client)
        .unwrap();
    let e = import(3).server(&words(), &mut server).err().unwrap();
    assert!(matches!(e, BridgeError::Mpc(_)), "{e}");
    // Words of another ring.
    let short = vec![SlotWords::new(vec![0; 3], Vec::new()).unwrap()];
    let e = import(2)
        .client(&short, &f.secret_encryptor, &mut client)
        .err()
        .unwrap();
    assert!(matches!(e, BridgeError::Length { got: 3, .. }), "{e}");
    assert!(matches!(
        SlotWords::new(vec![0; 3], vec![0; 2]),
        Err(BridgeError::Length {
            got: 2,
            expected: 3,
            ..
        })
    ));
    // A scale so small that a share would not fit.
    assert!(matches!(
        CkksToShares::new(&f.params, &side.fft, Scale::pow2(0), F),
        Err(BridgeError::Headroom { .. })
    ));
}

#[test]
fn words_modulo_two_to_the_64_are_extended_then_cross() {
    let side = Side::insecure(INSECURE_TOY_9());
    let f = &side.fixture;
    let n = f.params.slots();
    let mut prg = SecretPrg::from_os().unwrap();
    // Small and large, both signs, up to 2^37 (|v| < 2^18).
    let values: Vec<i64> = random_words(&mut prg, 100, 37)
        .iter()
        .map(|&v| v as i64)
        .chain([0, 1, -1, 1 << 37, -(1 << 37)])
        .collect();
    let words: Vec<u64> = values.iter().map(|&v| v as u64).collect();
    let (s0, s1) = share_words(&words, &mut prg);
    let count = values.len();
    let index = |j: usize| match j % 7 {
        0 => NO_VALUE,
        _ => (j * 31 % count) as u32,
    };
    let maps = vec![SlotMap {
        re: (0..n).map(index).collect(),
        im: (0..n).map(|j| index(j + 1)).collect(),
    }];
    let import = SharesToCkks::new(&f.params, &side.fft, 4, F).unwrap();
    let (maps, import) = (&maps, &import);
    let ((), (cts, traffic)) = run_pair(
        MpcConfig::default(),
        |p| {
            extend(p, &s0[..3]).unwrap();
            p.session().channel().set_stage(1, "crossing");
            let wide = extend(p, &s0).unwrap();
            let words = arrange_slots(&wide, maps).unwrap();
            import
                .client(&words, &f.secret_encryptor, p.session().channel())
                .unwrap();
            Ok(())
        },
        |p| {
            // Fills the pool of COTs.
            extend(p, &s1[..3]).unwrap();
            p.session().channel().set_stage(1, "crossing");
            let wide = extend(p, &s1).unwrap();
            let words = arrange_slots(&wide, maps).unwrap();
            let cts = import.server(&words, p.session().channel()).unwrap();
            Ok((cts, p.session_ref().channel_ref().snapshot().stage(1)))
        },
    )
    .unwrap();
    let (down, up) = extend_bytes(count);
    assert_eq!(traffic.sent.bytes, down);
    assert_eq!(
        traffic.received.bytes,
        up + to_ckks_bytes(f.params.chain(), 4, 1)
    );
    assert_eq!(traffic.flights(), EXTEND_FLIGHTS);
    for (j, v) in f.decrypt(&cts[0]).iter().enumerate() {
        let want = |i: u32| match i {
            NO_VALUE => 0.0,
            i => values[i as usize] as f64 / F.unit(),
        };
        let (re, im) = (want(maps[0].re[j]), want(maps[0].im[j]));
        assert!(
            (v.re - re).abs() < 1e-6 && (v.im - im).abs() < 1e-6,
            "slot {j}"
        );
    }
}
