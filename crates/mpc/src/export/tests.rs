use super::*;
use cipherloom_net::ChannelConfig;
use cipherloom_ring::SecretSeed;
use cipherloom_spec::primes::largest_below;

const N: usize = 1024;

struct Keys {
    basis: Basis,
    secret: SecretPoly<Ntt>,
    public: ExportKey,
    prg: SecretPrg,
}

/// Small insecure ring with four primes, so that an export may use a prefix.
fn keys() -> Keys {
    let mut primes = vec![];
    for bits in [40, 40, 38, 39] {
        primes.push(largest_below(bits, 11, &primes).unwrap());
    }
    let basis = Basis::new(N, &primes).unwrap();
    let mut prg = SecretSeed::from_bytes([5; 32]).derive("export test", 0);
    let secret = prg.ternary_poly(&basis).unwrap().into_ntt();
    let a = prg.uniform_poly::<Ntt>(&basis).expose().clone();
    let mut b = prg.cbd21_poly(&basis).unwrap().expose().to_ntt();
    b.sub_assign(&a.mul(secret.expose()).unwrap()).unwrap();
    Keys {
        public: ExportKey::new(b, a).unwrap(),
        basis,
        secret,
        prg,
    }
}

/// A ciphertext of degree `d` whose phase is the constant `message` in every coefficient, with small noise.
fn ciphertext(k: &mut Keys, limbs: usize, d: usize, message: i64) -> (Poly<Coeff>, Vec<Poly<Ntt>>) {
    let q = k.basis.prefix(limbs).unwrap();
    let rest: Vec<Poly<Ntt>> = (0..d)
        .map(|_| k.prg.uniform_poly::<Ntt>(&q).expose().clone())
        .collect();
    let mut acc = Poly::<Ntt>::zero(&q);
    for c in rest.iter().rev() {
        acc.add_assign(c).unwrap();
        acc.mul_assign(k.secret.expose()).unwrap();
    }
    let mut c0 = Poly::<Coeff>::from_i64(&q, &vec![message; N]).unwrap();
    c0.add_assign(k.prg.cbd21_poly(&q).unwrap().expose())
        .unwrap();
    c0.sub_assign(&acc.into_coeff()).unwrap();
    (c0, rest)
}

/// `phase - mask - message` of an export, centred, from the first limb; the same in every limb.
fn residual(phase: &Poly<Coeff>, mask: &Poly<Coeff>, message: i64) -> Vec<i64> {
    let d = phase.sub(mask).unwrap();
    let of = |i: usize| -> Vec<i64> {
        let m = *d.basis().modulus(i);
        d.limb(i)
            .iter()
            .map(|&x| m.center(m.sub(x, m.reduce_i64(message))))
            .collect()
    };
    for i in 1..d.limbs() {
        assert_eq!(of(0), of(i));
    }
    of(0)
}

#[test]
fn what_is_received_decrypts_to_message_plus_mask_with_the_noise_of_the_zero() {
    for (limbs, degree) in [(3, 1), (2, 2), (4, 1)] {
        let mut k = keys();
        let (c0, rest) = ciphertext(&mut k, limbs, degree, 123_456);
        let q = k.basis.prefix(limbs).unwrap();
        let prepared = PreparedExport::new(&k.public, &q, degree, &mut k.prg).unwrap();
        let (exported, mask) = export(c0, rest, prepared).unwrap();
        let (mut server, mut client) = Channel::memory_pair(ChannelConfig::default()).unwrap();
        exported.send(&mut server).unwrap();
        let received = ReceivedExport::recv(&mut client, &q, degree).unwrap();
        let phase = received.decrypt(&k.secret).unwrap();
        let noise = residual(phase.expose(), mask.into_poly().expose(), 123_456);
        let rms = (noise.iter().map(|&e| (e * e) as f64).sum::<f64>() / N as f64).sqrt();
        // One zero: sqrt(2 N 2/3 10.5 + 10.5) = 120. The second is multiplied by s: sqrt(2N/3) times as much.
        let expected = 120.0 * if degree == 2 { 26.1 } else { 1.0 };
        assert!(
            rms > 0.7 * expected && rms < 1.5 * expected,
            "degree {degree}: {rms}"
        );
    }
}

/// Chi-square of 256 bins over `samples`.
fn chi_square(samples: impl Iterator<Item = u8>) -> (f64, usize) {
    let (mut bins, mut n) = ([0u64; 256], 0);
    for s in samples {
        bins[s as usize] += 1;
        n += 1;
    }
    let e = n as f64 / 256.0;
    (bins.iter().map(|&b| (b as f64 - e).powi(2) / e).sum(), n)
}

/// 255 degrees of freedom: mean 255, standard deviation 22.6; six deviations.
const CHI_SQUARE_LIMIT: f64 = 255.0 + 6.0 * 22.6;

/// Chi-square of the top and of the low byte of 2^20 residues (spread over the limbs), for `c_0` and for what the key
/// owner decrypts.
fn statistics(masked: bool) -> [f64; 4] {
    let mut k = keys();
    let q = k.basis.prefix(3).unwrap();
    let exports = (1 << 20) / (3 * N) + 1;
    let mut samples: [Vec<u8>; 4] = Default::default();
    for _ in 0..exports {
        let (c0, rest) = ciphertext(&mut k, 3, 1, 1 << 30);
        let prepared = PreparedExport::new(&k.public, &q, 1, &mut k.prg).unwrap();
        let received = if masked {
            weakened::received(export(c0, rest, prepared).unwrap().0)
        } else {
            weakened::without_mask(c0, rest, prepared)
        };
        let phase = received.decrypt(&k.secret).unwrap();
        for (p, at) in [(received.c0(), 0), (phase.expose(), 2)] {
            for i in 0..3 {
                let m = p.basis().modulus(i).value();
                samples[at].extend(p.limb(i).iter().map(|&x| (256 * x / m) as u8));
                samples[at + 1].extend(p.limb(i).iter().map(|&x| x as u8));
            }
        }
    }
    samples.map(|s| {
        let (chi, n) = chi_square(s.into_iter());
        assert!(n >= 1 << 20);
        chi
    })
}

#[test]
fn masked_residues_are_uniform_and_unmasked_ones_are_not() {
    let [top0, low0, top, low] = statistics(true);
    println!("masked: c_0 {top0:.0} {low0:.0}, decrypted {top:.0} {low:.0}");
    for chi in [top0, low0, top, low] {
        assert!(chi < CHI_SQUARE_LIMIT, "{chi}");
    }
    let [_, _, top, low] = statistics(false);
    println!("unmasked: decrypted {top:.0} {low:.0}");
    assert!(
        top > CHI_SQUARE_LIMIT && low > CHI_SQUARE_LIMIT,
        "{top} {low}"
    );
}

#[test]
fn the_parts_above_c_0_are_rerandomised_and_nothing_repeats() {
    let mut k = keys();
    let q = k.basis.prefix(3).unwrap();
    for degree in [1, 2] {
        let (c0, rest) = ciphertext(&mut k, 3, degree, 0);
        let mut once = || {
            let p = PreparedExport::new(&k.public, &q, degree, &mut k.prg).unwrap();
            weakened::received(export(c0.clone(), rest.clone(), p).unwrap().0)
        };
        let (a, b) = (once(), once());
        assert_ne!(a.c0(), b.c0());
        // Not one residue in a hundred agrees with the input or between two exports.
        for ((mine, other), input) in a.rest().iter().zip(b.rest()).zip(&rest) {
            for o in [other, input] {
                let pairs = mine.data().iter().zip(o.data());
                assert!(pairs.filter(|(x, y)| x == y).count() < 3 * N / 100);
            }
        }
    }
}

#[test]
fn wrong_degrees_bases_and_messages_are_typed_errors() {
    let mut k = keys();
    let q = k.basis.prefix(3).unwrap();
    for d in [0, 3] {
        assert!(matches!(
            PreparedExport::new(&k.public, &q, d, &mut k.prg),
            Err(MpcError::Format { .. })
        ));
    }
    let (c0, rest) = ciphertext(&mut k, 2, 1, 0);
    let p = PreparedExport::new(&k.public, &q, 1, &mut k.prg).unwrap();
    assert!(matches!(
        export(c0, rest, p),
        Err(MpcError::Length {
            left: 2,
            right: 3,
            ..
        })
    ));
    let (c0, rest) = ciphertext(&mut k, 3, 2, 0);
    let p = PreparedExport::new(&k.public, &q, 1, &mut k.prg).unwrap();
    assert!(matches!(
        export(c0, rest, p),
        Err(MpcError::Length {
            left: 2,
            right: 1,
            ..
        })
    ));
    let (mut server, mut client) = Channel::memory_pair(ChannelConfig::default()).unwrap();
    // All ones: every residue is above its prime.
    server
        .send(FrameKind::Exported, &vec![0xff; Exported::byte_len(&q, 1)])
        .unwrap();
    assert!(matches!(
        ReceivedExport::recv(&mut client, &q, 1),
        Err(MpcError::Malformed { .. })
    ));
    server.send(FrameKind::Exported, &[0; 7]).unwrap();
    assert!(matches!(
        ReceivedExport::recv(&mut client, &q, 1),
        Err(MpcError::Net(_))
    ));
}
