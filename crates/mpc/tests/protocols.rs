//! Every protocol against the plain oracle, on edge values and random ones, with the real protocols between two threads.

#![allow(clippy::unwrap_used, clippy::panic)]

use cipherloom_mpc::harness::{join_bits, join_words, run_pair, share_words};
use cipherloom_mpc::{
    centred_88, Bits, CompareFormat, Domain, MpcConfig, MpcError, Party, Plain, Shares, TwoParty,
};
use cipherloom_ring::SecretPrg;
use cipherloom_spec::FracBits;

const F: FracBits = FracBits(19);
const F2: FracBits = FracBits(38);

fn prg(seed: u8) -> SecretPrg {
    cipherloom_ring::SecretSeed::from_bytes([seed; 32]).derive("test", 0)
}

fn quick() -> MpcConfig {
    MpcConfig {
        cot_batch: 8192,
        ..MpcConfig::default()
    }
}

/// Uniform shares, and the extreme ones for the first values: 0, 2^63, 2^64-1 and their neighbours.
fn shares_of(words: &[u64], seed: u8) -> (Vec<u64>, Vec<u64>) {
    let (mut a, mut b) = share_words(words, &mut prg(seed));
    let edges = [
        0u64,
        1,
        1 << 62,
        (1 << 63) - 1,
        1 << 63,
        (1 << 63) + 1,
        u64::MAX,
    ];
    for (j, w) in words.iter().enumerate().take(words.len() / 2) {
        a[j] = edges[j % edges.len()];
        b[j] = w.wrapping_sub(a[j]);
    }
    (a, b)
}

/// Runs the same shared computation at both parties.
fn both<T: Send>(
    config: MpcConfig,
    (a, b): (Vec<u64>, Vec<u64>),
    frac: FracBits,
    f: impl Fn(&mut TwoParty, &Shares) -> Result<T, MpcError> + Sync,
) -> (T, T) {
    let (x0, x1) = (Shares { v: a, frac }, Shares { v: b, frac });
    run_pair(config, |p| f(p, &x0), |p| f(p, &x1)).unwrap()
}

fn words_below(n: usize, bits: u32, seed: u8) -> Vec<u64> {
    let mut g = prg(seed);
    let mut v: Vec<u64> = (0..n)
        .map(|_| ((g.next_u64() as i64) >> (63 - bits)) as u64)
        .collect();
    let top = (1i64 << bits) - 1;
    for (j, w) in [0, 1, -1, top, -top].into_iter().enumerate() {
        v[j * 7] = w as u64;
    }
    v
}

#[test]
fn products_squares_and_known_products_are_exact_modulo_2_64() {
    let (x, y) = (words_below(60, 63, 1), words_below(60, 63, 2));
    let (xs, ys) = (shares_of(&x, 3), shares_of(&y, 4));
    let y_shares = [ys.0, ys.1];
    let known = words_below(60, 63, 5);
    let (p, q) = both(quick(), xs, F, |d, x| {
        let side = usize::from(d.party() == Party::Server);
        let y = Shares {
            v: y_shares[side].clone(),
            frac: F,
        };
        let mut out = vec![d.product(x, &y)?, d.square(x)?];
        for owner in [Party::Client, Party::Server] {
            let c = (d.party() == owner).then_some(&known[..]);
            out.push(d.product_known(owner, x, c, FracBits(3))?);
        }
        Ok(out)
    });
    for j in 0..60 {
        let got = |k: usize| p[k].v[j].wrapping_add(q[k].v[j]);
        assert_eq!(got(0), x[j].wrapping_mul(y[j]));
        assert_eq!(got(1), x[j].wrapping_mul(x[j]));
        assert_eq!(got(2), x[j].wrapping_mul(known[j]));
        assert_eq!(got(3), x[j].wrapping_mul(known[j]));
    }
    assert_eq!((p[0].frac.0, p[1].frac.0, p[2].frac.0), (38, 38, 22));
}

#[test]
fn comparison_is_exact_outside_its_band_for_every_radix_and_format() {
    for (digit_bits, kept, int_bits) in [(1, 4, 3), (2, 9, 5), (3, 12, 6), (4, 12, 5), (4, 19, 44)]
    {
        let format = CompareFormat {
            kept_frac: kept,
            int_bits,
        };
        let taus = [-1.5, 0.0, 2.25];
        let band = if kept == 19 {
            0
        } else {
            1i64 << (F.0 - kept - 1)
        };
        // Values around each threshold just outside the band, and random ones in the range.
        let mut x: Vec<u64> = Vec::new();
        for tau in taus {
            let t = F.encode(tau) as i64;
            for d in [-band - 1, band, band + 1, band + 1000, -band - 1000] {
                x.push((t + d) as u64);
            }
            if band == 0 {
                x.push(t as u64);
                x.push((t - 1) as u64);
            }
        }
        let range = int_bits.min(40) + F.0;
        x.extend(words_below(400, range - 1, 9).into_iter().filter(|w| {
            taus.iter().all(|t| {
                let d = (*w as i64) - F.encode(*t) as i64;
                d >= band || d < -band
            })
        }));
        let config = MpcConfig {
            digit_bits,
            ..quick()
        };
        let (p, q) = both(config, shares_of(&x, 11), F, |d, x| {
            d.less_than(x, &taus, format)
        });
        let shares = Shares {
            v: x.clone(),
            frac: F,
        };
        let want = Plain::new().less_than(&shares, &taus, format).unwrap();
        for t in 0..taus.len() {
            let got = join_bits(&p[t].v, &q[t].v);
            assert!(
                got == want[t].v,
                "radix 2^{digit_bits}, kept {kept}, threshold {t}: {:?}",
                (0..x.len())
                    .filter(|&j| got[j] != want[t].v[j])
                    .map(|j| x[j] as i64)
                    .collect::<Vec<_>>()
            );
        }
    }
}

#[test]
fn comparison_is_a_centred_ramp_inside_its_band() {
    // g = 12 of 19 bits: the band is [-64, 64) units of 2^-19; P(x < tau) must be (63 - d) / 128 with d = x - tau: symmetric around -1/2, like [x < tau] on integers.
    let format = CompareFormat {
        kept_frac: 12,
        int_bits: 4,
    };
    const N: usize = 40_000;
    let offsets = [-64i64, -48, -16, 0, 16, 48, 63];
    let x: Vec<u64> = offsets
        .iter()
        .flat_map(|d| std::iter::repeat_n((F.encode(1.0) as i64 + d) as u64, N))
        .collect();
    let shares = share_words(&x, &mut prg(21));
    let (p, q) = both(MpcConfig::default(), shares, F, |d, x| {
        d.less_than(x, &[1.0], format)
    });
    let got = join_bits(&p[0].v, &q[0].v);
    for (k, d) in offsets.iter().enumerate() {
        let mean = got[k * N..(k + 1) * N]
            .iter()
            .map(|b| f64::from(*b))
            .sum::<f64>()
            / N as f64;
        let want = (63 - d) as f64 / 128.0;
        // Fixed seeds of the shares; five standard deviations are 0.0125.
        assert!((mean - want).abs() < 0.0125, "offset {d}: {mean} {want}");
    }
}

#[test]
fn truncation_errs_by_less_than_one_unit_with_mean_zero() {
    for bits in [1, 8, 19, 38] {
        let x = words_below(4000, 61, bits as u8);
        let (p, q) = both(quick(), shares_of(&x, 31), F2, |d, x| d.truncate(x, bits));
        assert_eq!(p.frac.0, 38 - bits);
        for (w, got) in x.iter().zip(join_words(&p.v, &q.v)) {
            let exact = (*w as i64 as f64) / f64::from(bits).exp2();
            // Compared in integers where floats are too coarse.
            let low = (*w as i64) >> bits;
            let d = (got as i64).wrapping_sub(low);
            assert!((0..=1).contains(&d), "{exact} {got}");
            if *w as i64 & ((1 << bits) - 1) == 0 {
                assert_eq!(d, 0, "a multiple is exact");
            }
        }
    }
}

#[test]
fn truncation_has_no_bias_over_a_million_sharings() {
    const N: usize = 1_000_000;
    let mut g = prg(41);
    let x: Vec<u64> = (0..N).map(|_| (g.next_u64() as i64 >> 20) as u64).collect();
    let shares = share_words(&x, &mut prg(42));
    let (p, q) = both(MpcConfig::default(), shares, F2, |d, x| d.truncate(x, 19));
    let unit = (19f64).exp2();
    let sum: f64 = x
        .iter()
        .zip(join_words(&p.v, &q.v))
        .map(|(w, y)| y as i64 as f64 - *w as i64 as f64 / unit)
        .sum();
    let mean = sum / N as f64;
    // One standard deviation is 0.41 / 1000.
    assert!(mean.abs() < 0.003, "mean error {mean} units");
}

#[test]
fn faithful_truncation_rounds_exactly_like_the_oracle() {
    // Narrow (truncate and reduce, any word), wide (needs |x| < 2^62), no dropped bits at all.
    for (bits, out, size) in [
        (26, 32, 63),
        (7, 32, 63),
        (19, 45, 63),
        (19, 64, 61),
        (1, 64, 61),
        (0, 20, 63),
    ] {
        let mut x = words_below(900, size, 51);
        for k in 0..40u64 {
            x.push((k << bits).wrapping_add(((1u64 << bits) / 2).wrapping_sub(k & 1)));
        }
        let (p, q) = both(quick(), shares_of(&x, 52), F2, |d, x| {
            d.truncate_reduce_faithful(x, bits, out)
        });
        let shares = Shares {
            v: x.clone(),
            frac: F2,
        };
        let want = Plain::new()
            .truncate_reduce_faithful(&shares, bits, out)
            .unwrap();
        let mask = if out == 64 { u64::MAX } else { (1 << out) - 1 };
        for (j, w) in join_words(&p.v, &q.v).into_iter().enumerate() {
            assert_eq!(
                w & mask,
                want.v[j],
                "bits {bits} out {out} x {}",
                x[j] as i64
            );
            assert_eq!(p.v[j] & !mask, 0, "zero-extended");
        }
    }
}

#[test]
fn mux_and_b2a_are_exact() {
    let x = words_below(500, 63, 61);
    let bits: Vec<u8> = (0..500).map(|j| (j * 7 % 3 % 2) as u8).collect();
    let b0: Vec<u8> = (0..500).map(|j| (j % 2) as u8).collect();
    let b1: Vec<u8> = bits.iter().zip(&b0).map(|(a, b)| a ^ b).collect();
    let (p, q) = both(quick(), shares_of(&x, 62), F, |d, x| {
        let b = Bits {
            v: if d.party() == Party::Client {
                b0.clone()
            } else {
                b1.clone()
            },
        };
        let half = Shares {
            v: x.v[..250].to_vec(),
            frac: FracBits(3),
        };
        let half_bits = Bits {
            v: b.v[..250].to_vec(),
        };
        let not = d.not(&b);
        let mut out = d.mux(&[(&b, x), (&half_bits, &half), (&not, x)])?;
        out.extend(d.b2a(&[&b, &half_bits])?);
        Ok(out)
    });
    let join = |k: usize| join_words(&p[k].v, &q[k].v);
    for j in 0..500 {
        let b = u64::from(bits[j]);
        assert_eq!(join(0)[j], b * x[j]);
        assert_eq!(join(2)[j], (1 - b) * x[j]);
        assert_eq!(join(3)[j], b);
        if j < 250 {
            assert_eq!(join(1)[j], b * x[j]);
            assert_eq!(join(4)[j], b);
        }
    }
    assert_eq!(p[1].frac.0, 3);
}

#[test]
fn extension_gives_integer_shares_modulo_2_88() {
    let x = words_below(3000, 61, 71);
    let (p, q) = both(quick(), shares_of(&x, 72), F, |d, x| d.extend_64_88(&x.v));
    let mut high_ones = 0u32;
    for (j, w) in x.iter().enumerate() {
        assert!(p[j] >> 88 == 0 && q[j] >> 88 == 0);
        let sum = centred_88(p[j]) + centred_88(q[j]);
        assert_eq!(sum, i128::from(*w as i64), "{j}");
        high_ones += ((p[j] >> 64) as u32).count_ones();
    }
    // The 24 new bits of a share are uniform: 36000 expected ones, deviation 134.
    assert!((35_000..37_000).contains(&high_ones), "{high_ones}");
}

#[test]
fn local_operations_keep_the_shared_value() {
    let x = words_below(40, 50, 81);
    let c: Vec<u64> = words_below(40, 50, 82);
    let (p, q) = both(quick(), shares_of(&x, 83), F, |d, x| {
        let known = |owner| (d.party() == owner).then_some(&c[..]);
        Ok(vec![
            d.add_const(x, -1.25),
            d.add_public(x, &c)?,
            d.add_known(Party::Client, x, known(Party::Client))?,
            d.add_known(Party::Server, x, known(Party::Server))?,
        ])
    });
    for j in 0..40 {
        let got = |k: usize| p[k].v[j].wrapping_add(q[k].v[j]);
        assert_eq!(got(0), x[j].wrapping_add(F.encode(-1.25)));
        for k in 1..4 {
            assert_eq!(got(k), x[j].wrapping_add(c[j]));
        }
    }
}

#[test]
fn every_extension_parameter_gives_the_same_results() {
    let x = words_below(300, 40, 91);
    for cot_k in [1, 2, 4, 8] {
        let config = MpcConfig { cot_k, ..quick() };
        let (p, q) = both(config, shares_of(&x, 92), F2, |d, x| {
            d.truncate_reduce_faithful(x, 19, 45)
        });
        for (w, y) in x.iter().zip(join_words(&p.v, &q.v)) {
            let want = ((*w as i64 + (1 << 18)) >> 19) as u64 & ((1 << 45) - 1);
            assert_eq!(y & ((1 << 45) - 1), want);
        }
    }
}

#[test]
fn the_answer_opens_to_the_client_only() {
    let x = words_below(50, 20, 95);
    let (p, q) = both(quick(), shares_of(&x, 96), F, |d, x| {
        let y = d.truncate_reduce_faithful(x, 7, 32)?;
        d.open_to_client(&y, 32)
    });
    assert!(q.is_none());
    for (w, got) in x.iter().zip(p.unwrap()) {
        assert_eq!(got as u32 as i32, (((*w as i64) + 64) >> 7) as i32);
    }
}

#[test]
fn wrong_lengths_formats_and_owners_are_named() {
    let x = vec![1u64; 4];
    let (p, _) = both(quick(), shares_of(&x, 99), F, |d, x| {
        let short = Shares::zeros(3, F);
        let other = if d.party() == Party::Client {
            Some(&x.v[..])
        } else {
            None
        };
        let f = |kept_frac, int_bits| CompareFormat {
            kept_frac,
            int_bits,
        };
        Ok(vec![
            d.product(x, &short).err().unwrap().to_string(),
            d.product_known(Party::Server, x, other, F)
                .err()
                .unwrap()
                .to_string(),
            d.less_than(x, &[0.0], f(20, 3)).err().unwrap().to_string(),
            d.less_than(x, &[0.0], f(19, 45)).err().unwrap().to_string(),
            d.less_than(x, &[0.0; 33], f(12, 5))
                .err()
                .unwrap()
                .to_string(),
            d.truncate(x, 20).err().unwrap().to_string(),
            d.truncate_reduce_faithful(x, 3, 65)
                .err()
                .unwrap()
                .to_string(),
            d.mux(&[(&Bits { v: vec![0; 2] }, x)])
                .err()
                .unwrap()
                .to_string(),
        ])
    });
    for (message, part) in p.iter().zip([
        "lengths 4 and 3",
        "owner only",
        "20 fraction bits to keep of 19",
        "1 + 45 integer + 19 fraction bits exceed 64",
        "33 thresholds exceed 32",
        "20 bits of 19 fraction bits",
        "into 65 bits",
        "lengths 2 and 4",
    ]) {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn unsupported_parameters_are_refused_before_anything_is_sent() {
    for config in [
        MpcConfig {
            cot_k: 3,
            ..quick()
        },
        MpcConfig {
            cot_batch: 100,
            ..quick()
        },
        MpcConfig {
            digit_bits: 5,
            ..quick()
        },
    ] {
        let r = run_pair(config, |_| Ok(()), |_| Ok(()));
        assert!(matches!(r.err().unwrap(), MpcError::Format { .. }));
    }
}
