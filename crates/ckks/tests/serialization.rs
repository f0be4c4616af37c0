//! Encodings: exact sizes, round trips, and corruptions that must be typed errors.

// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used)]

use cipherloom_ckks::{size, Ciphertext, CkksError, EvaluationKey, PublicKey, SeededCiphertext};
use cipherloom_testkit::fixture::test_values;
use cipherloom_testkit::*;

struct Objects {
    f: CkksFixture,
    public_key: Vec<u8>,
    relin: Vec<u8>,
    galois: Vec<u8>,
    seeded: Vec<u8>,
    ciphertext: Vec<u8>,
    degree2: Vec<u8>,
}

fn objects() -> Objects {
    let f = CkksFixture::insecure(INSECURE_TOY_10(), &[1]);
    let p = &f.params;
    let (n, top) = (p.slots(), p.top_level());
    let plain = f.encoder.encode(&test_values(n, 1), 3, p.scale(3)).unwrap();
    let seeded = f.secret_encryptor.encrypt(&plain).unwrap();
    let ct = f.encryptor.encrypt(&plain).unwrap();
    Objects {
        public_key: f.public_key.to_bytes(),
        relin: f
            .keygen
            .relinearization_key(&f.secret_key, top)
            .unwrap()
            .to_bytes(),
        galois: f
            .keygen
            .rotation_key(&f.secret_key, 1, 4)
            .unwrap()
            .to_bytes(),
        seeded: seeded.to_bytes(),
        ciphertext: ct.to_bytes(),
        degree2: f.evaluator.mul(&ct, &ct).unwrap().to_bytes(),
        f,
    }
}

#[test]
fn sizes_are_those_of_the_pure_functions() {
    let o = objects();
    let c = o.f.params.chain();
    assert_eq!(o.public_key.len(), size::public_key_bytes(c));
    assert_eq!(o.relin.len(), size::evaluation_key_bytes(c, c.top_level()));
    assert_eq!(o.galois.len(), size::evaluation_key_bytes(c, 4));
    assert_eq!(o.seeded.len(), size::seeded_ciphertext_bytes(c, 3));
    assert_eq!(o.ciphertext.len(), size::ciphertext_bytes(c, 3, 2));
    assert_eq!(o.degree2.len(), size::ciphertext_bytes(c, 3, 3));
    // By hand: N = 2^10, level 3: primes of 50, 50 and two near 2^40 (41 bits if above).
    let bits: u32 = c.q()[..4].iter().map(|q| q.ilog2() + 1).sum();
    assert_eq!(o.seeded.len(), 40 + 22 + 32 + 128 * bits as usize);
    // A seeded key is little more than half of what it is in memory at 50 of 64 bits.
    let key = EvaluationKey::from_bytes(&o.f.params, &o.relin).unwrap();
    assert_eq!(
        key.memory_bytes(),
        size::evaluation_key_memory_bytes(c, c.top_level(), false)
    );
    let ct = Ciphertext::from_bytes(&o.f.params, &o.ciphertext).unwrap();
    assert_eq!(ct.memory_bytes(), size::ciphertext_memory_bytes(c, 3, 2));
}

#[test]
fn round_trips_keep_every_bit() {
    let o = objects();
    let p = &o.f.params;
    assert_eq!(
        PublicKey::from_bytes(p, &o.public_key).unwrap(),
        *o.f.public_key
    );
    for (bytes, want) in [
        (
            &o.relin,
            o.f.keygen
                .relinearization_key(&o.f.secret_key, p.top_level())
                .unwrap(),
        ),
        (
            &o.galois,
            o.f.keygen.rotation_key(&o.f.secret_key, 1, 4).unwrap(),
        ),
    ] {
        let key = EvaluationKey::from_bytes(p, bytes).unwrap();
        assert_eq!(key, want);
        assert_eq!(&key.to_bytes(), bytes);
    }
    let seeded = SeededCiphertext::from_bytes(p, &o.seeded).unwrap();
    assert_eq!(seeded.to_bytes(), o.seeded);
    let values = o.f.decrypt(&seeded.expand(p).unwrap());
    assert!(fixture::max_error(&values, &test_values(p.slots(), 1)) < 1e-7);
    for bytes in [&o.ciphertext, &o.degree2] {
        assert_eq!(&Ciphertext::from_bytes(p, bytes).unwrap().to_bytes(), bytes);
    }
}

type Decoder = fn(&cipherloom_ckks::CkksParameters, &[u8]) -> Result<Vec<u8>, CkksError>;

fn decoders(o: &Objects) -> Vec<(&[u8], Decoder)> {
    vec![
        (&o.public_key, |p, b| {
            PublicKey::from_bytes(p, b).map(|x| x.to_bytes())
        }),
        (&o.relin, |p, b| {
            EvaluationKey::from_bytes(p, b).map(|x| x.to_bytes())
        }),
        (&o.galois, |p, b| {
            EvaluationKey::from_bytes(p, b).map(|x| x.to_bytes())
        }),
        (&o.seeded, |p, b| {
            SeededCiphertext::from_bytes(p, b).map(|x| x.to_bytes())
        }),
        (&o.ciphertext, |p, b| {
            Ciphertext::from_bytes(p, b).map(|x| x.to_bytes())
        }),
        (&o.degree2, |p, b| {
            Ciphertext::from_bytes(p, b).map(|x| x.to_bytes())
        }),
    ]
}

#[test]
fn every_header_byte_matters() {
    let o = objects();
    let p = &o.f.params;
    for (bytes, decode) in decoders(&o) {
        let mut b = bytes.to_vec();
        for i in 0..size::HEADER_BYTES {
            for mask in [1u8, 0x80, 0xff] {
                b[i] ^= mask;
                let e = decode(p, &b).unwrap_err();
                let expected = match i {
                    0..=3 => matches!(e, CkksError::Magic),
                    4..=5 => matches!(e, CkksError::Version { known: 2, .. }),
                    6..=7 => matches!(e, CkksError::Kind { .. }),
                    _ => matches!(e, CkksError::ParamsMismatch { .. }),
                };
                assert!(expected, "byte {i}: {e}");
                b[i] ^= mask;
            }
        }
    }
}

#[test]
fn truncations_and_extensions_are_refused() {
    let o = objects();
    let p = &o.f.params;
    for (bytes, decode) in decoders(&o) {
        let cuts = (0..size::HEADER_BYTES + 64).chain([
            bytes.len() / 2,
            bytes.len() - 33,
            bytes.len() - 1,
        ]);
        for cut in cuts {
            assert!(
                matches!(decode(p, &bytes[..cut]), Err(CkksError::Length { .. })),
                "cut at {cut}"
            );
        }
        let mut longer = bytes.to_vec();
        longer.push(0);
        assert!(matches!(decode(p, &longer), Err(CkksError::Length { .. })));
    }
}

/// Flips bytes behind the header: either a typed error, or an object that encodes to exactly these bytes (another
/// seed, scale or residue). Never a panic, never a value that was silently changed.
#[test]
fn flipped_payload_bytes_never_panic_and_never_pass_unnoticed() {
    let o = objects();
    let p = &o.f.params;
    for (bytes, decode) in decoders(&o) {
        let mut b = bytes.to_vec();
        let fields = size::HEADER_BYTES..size::HEADER_BYTES + 40;
        for i in fields.chain((0..40).map(|k| bytes.len() - 1 - 97 * k)) {
            for mask in [1u8, 0x80, 0xff] {
                b[i] ^= mask;
                match decode(p, &b) {
                    Ok(again) => assert_eq!(again, b, "byte {i}"),
                    Err(e) => assert!(!e.to_string().is_empty()),
                }
                b[i] ^= mask;
            }
        }
        assert!(decode(p, &b).is_ok());
    }
}

#[test]
fn residues_at_or_above_the_prime_are_refused() {
    let o = objects();
    let p = &o.f.params;
    for (bytes, decode) in decoders(&o) {
        // All ones in the last residues: 2^bits - 1 is never below the prime.
        let mut b = bytes.to_vec();
        let end = b.len();
        b[end - 16..].fill(0xff);
        assert!(matches!(decode(p, &b), Err(CkksError::Ring(_))));
    }
    // The prime itself, exactly, as the first residue of c0.
    let mut b = o.seeded.clone();
    let at = size::HEADER_BYTES + size::SEEDED_FIELDS_BYTES + size::SEED_BYTES;
    let q = p.chain().q()[0];
    let old = u64::from_le_bytes(b[at..at + 8].try_into().unwrap());
    let new = (old >> 50 << 50) | q;
    b[at..at + 8].copy_from_slice(&new.to_le_bytes());
    assert!(matches!(
        SeededCiphertext::from_bytes(p, &b),
        Err(CkksError::Ring(_))
    ));
    b[at..at + 8].copy_from_slice(&(new - 1).to_le_bytes());
    assert!(SeededCiphertext::from_bytes(p, &b).is_ok());
}

#[test]
fn fields_out_of_range_are_named() {
    let o = objects();
    let p = &o.f.params;
    let h = size::HEADER_BYTES;
    let top = p.top_level() as u16;
    let with = |bytes: &[u8], at: usize, field: &[u8]| {
        let mut b = bytes.to_vec();
        b[at..at + field.len()].copy_from_slice(field);
        b
    };
    let level = (top + 1).to_le_bytes();
    for (bytes, at) in [(&o.seeded, h), (&o.ciphertext, h)] {
        let b = with(bytes, at, &level);
        let e = match at {
            _ if bytes == &o.seeded => SeededCiphertext::from_bytes(p, &b).unwrap_err(),
            _ => Ciphertext::from_bytes(p, &b).unwrap_err(),
        };
        assert!(matches!(e, CkksError::Field { field: "level", .. }), "{e}");
    }
    for parts in [0u16, 1, 4, u16::MAX] {
        let b = with(&o.ciphertext, h + 2, &parts.to_le_bytes());
        assert!(matches!(
            Ciphertext::from_bytes(p, &b),
            Err(CkksError::Field { field: "parts", .. })
        ));
    }
    // A mantissa without its top bit.
    let b = with(&o.ciphertext, h + 4, &1u128.to_le_bytes());
    assert!(matches!(
        Ciphertext::from_bytes(p, &b),
        Err(CkksError::ScaleEncoding)
    ));
    let b = with(&o.ciphertext, h + 20, &i32::MAX.to_le_bytes());
    assert!(matches!(
        Ciphertext::from_bytes(p, &b),
        Err(CkksError::ScaleEncoding)
    ));
    for g in [1u64, 2, 2048, 2049, u64::MAX] {
        let b = with(&o.galois, h, &g.to_le_bytes());
        assert!(
            matches!(
                EvaluationKey::from_bytes(p, &b),
                Err(CkksError::Field { .. })
            ),
            "{g}"
        );
    }
    let b = with(&o.galois, h + 8, &(top + 1).to_le_bytes());
    assert!(matches!(
        EvaluationKey::from_bytes(p, &b),
        Err(CkksError::Field { field: "level", .. })
    ));
    let b = with(&o.galois, h + 8, &3u16.to_le_bytes());
    assert!(matches!(
        EvaluationKey::from_bytes(p, &b),
        Err(CkksError::Length { .. })
    ));
}
