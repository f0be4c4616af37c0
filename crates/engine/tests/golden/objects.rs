//! What is sent: frames, greeting, CKKS objects, product key, exported ciphertext.

use super::targets::ckks::{client, Toy};
use super::targets::engine::{greet, hello};
use super::targets::mpc::rlwe;
use super::targets::net::KINDS;
use super::targets::plan::tiny_plan;
use super::targets::support::{config, framed_peer, raw_peer, wire};
use super::{same, with};
use cipherloom_bridge::{CkksToShares, ExportDecryptor, WideFft};
use cipherloom_ckks::{
    Ciphertext, CkksError, Decryptor, EvaluationKey, EvaluationKeys, Evaluator, KeyPurpose,
    PublicKey, SeededCiphertext,
};
use cipherloom_engine::EngineError;
use cipherloom_mpc::export::Exported;
use cipherloom_mpc::rlwe::ProductPublicKey;
use cipherloom_mpc::MpcError;
use cipherloom_net::{Channel, FrameKind, NetError, HEADER_BYTES};
use cipherloom_ring::SecretSeed;
use cipherloom_spec::fixed::DEFAULT_FRAC;
use std::sync::Arc;

/// One message of each kind, its kind's name as payload.
#[test]
fn frames_of_every_kind() {
    let texts = KINDS.map(|k| format!("{k:?}").into_bytes());
    let messages: Vec<(FrameKind, &[u8])> = KINDS
        .iter()
        .zip(&texts)
        .map(|(k, t)| (*k, &t[..]))
        .collect();
    let bytes = same("frames.bin", || wire(0x0102, &messages));
    let (_peer, mut channel) = raw_peer(&bytes, 1000);
    channel.set_stage(0x0102, "golden");
    for (kind, text) in &messages {
        assert_eq!(channel.recv(*kind, text.len()).unwrap(), *text);
    }
    let total = channel.snapshot().total().received;
    assert_eq!(
        (total.bytes, total.messages, total.flights),
        (bytes.len() as u64, KINDS.len() as u64, 1)
    );
    // Little-endian: what is left, kind, version, stage, number, flight.
    assert_eq!(
        bytes[..HEADER_BYTES],
        [5, 0, 0, 0, 1, 1, 2, 1, 0, 0, 0, 0, 1, 0, 0, 0]
    );
    let (_peer, mut channel) = raw_peer(&with(&bytes, 5, &[2]), 1000);
    channel.set_stage(0x0102, "golden");
    let e = channel.recv(KINDS[0], 5).unwrap_err();
    assert!(
        matches!(
            e,
            NetError::Version {
                expected: 1,
                got: 2,
                ..
            }
        ),
        "{e}"
    );
}

#[test]
fn the_greeting() {
    let bytes = same("hello.bin", hello);
    let plan = tiny_plan();
    assert_eq!(bytes[..8], *b"CLOOM\0\0\0");
    assert_eq!(bytes[8..10], [2, 0]);
    assert_eq!(bytes[10..42], plan.hash());
    // Length, block, layers, widths, vocabulary, labels; then the answer, the tag of no connection, and room.
    let shapes: Vec<u32> = bytes[74..102]
        .as_chunks::<4>()
        .0
        .iter()
        .map(|b| u32::from_le_bytes(*b))
        .collect();
    let block = plan.document().scan_block as u32;
    assert_eq!(shapes, [16, block, 1, 16, 32, 12, 2]);
    assert_eq!(bytes[102], 0);
    let tag = blake3::derive_key("cipherloom hello connection v1", &[0; 32]);
    assert_eq!(bytes[103..119], tag[..16]);
    assert!(bytes[119..].iter().all(|b| *b == 0));
    let id = |to_client| greet(to_client, &bytes).unwrap().0.to_vec();
    let both = same("hello.session-ids", || [id(false), id(true)].concat());
    assert_eq!(both.len(), 64);
    for to_client in [false, true] {
        let e = greet(to_client, &with(&bytes, 8, &[3])).unwrap_err();
        assert!(
            matches!(
                &e,
                EngineError::Mismatch { what: "protocol version", peer, .. } if peer == "3"
            ),
            "{e}"
        );
    }
}

fn slots(t: &Toy, c: &Ciphertext) -> Vec<f64> {
    let decryptor = Decryptor::new(&t.params, Arc::clone(&t.secret)).unwrap();
    t.encoder
        .decode_real(&decryptor.decrypt(c).unwrap())
        .unwrap()
}

fn near(got: &[f64], want: impl Fn(usize) -> f64) {
    assert_eq!(got.len(), 16);
    for (i, g) in got.iter().enumerate() {
        assert!((g - want(i)).abs() < 1e-4, "slot {i}: {g}, {}", want(i));
    }
}

fn version_error<T: std::fmt::Debug>(r: Result<T, CkksError>) {
    let e = r.unwrap_err();
    assert!(matches!(e, CkksError::Version { got: 3, known: 2 }), "{e}");
}

#[test]
fn ckks_keys() {
    let t = client();
    let p = &t.params;
    let public = same("ckks-public-key.bin", || t.public.to_bytes());
    let key = PublicKey::from_bytes(p, &public).unwrap();
    assert_eq!((key.seed().0, &key), ([2; 32], &t.public));
    assert_eq!(key.to_bytes(), public);
    version_error(PublicKey::from_bytes(p, &with(&public, 4, &[3])));

    let relinearization = same("ckks-relinearization-key.bin", || {
        t.relinearization().to_bytes()
    });
    let rotation = same("ckks-rotation-key.bin", || t.rotation().to_bytes());
    let (relin, rotate) = (
        EvaluationKey::from_bytes(p, &relinearization).unwrap(),
        EvaluationKey::from_bytes(p, &rotation).unwrap(),
    );
    assert_eq!(relin.purpose(), KeyPurpose::Relinearization);
    assert_eq!(rotate.purpose(), KeyPurpose::Galois(p.galois_element(3)));
    assert_eq!((relin.max_level(), rotate.max_level()), (3, 2));
    assert_eq!(relin.to_bytes(), relinearization);
    assert_eq!(rotate.to_bytes(), rotation);
    version_error(EvaluationKey::from_bytes(p, &with(&rotation, 4, &[3])));

    // They are the keys of the golden ciphertexts.
    let mut keys = EvaluationKeys::new(p);
    keys.insert(relin).unwrap();
    keys.insert(rotate).unwrap();
    let evaluator = Evaluator::new(p, keys).unwrap();
    let x = Ciphertext::from_bytes(p, &ciphertext()).unwrap();
    let turned = evaluator.rotate(&x, 3).unwrap();
    near(&slots(t, &turned), |i| ((i + 3) % 16 + 1) as f64);
    let square = evaluator.mul_relin_rescale(&x, &x).unwrap();
    near(&slots(t, &square), |i| ((i + 1) * (i + 1)) as f64);
}

fn ciphertext() -> Vec<u8> {
    same("ckks-ciphertext.bin", || {
        let t = Toy::new();
        t.seeded(2).expand(&t.params).unwrap().to_bytes()
    })
}

#[test]
fn ckks_ciphertexts() {
    let t = client();
    let p = &t.params;
    let bytes = ciphertext();
    let c = Ciphertext::from_bytes(p, &bytes).unwrap();
    assert_eq!((c.level(), c.parts().len(), c.scale()), (2, 2, p.scale(2)));
    near(&slots(t, &c), |i| i as f64 + 1.0);
    assert_eq!(c.to_bytes(), bytes);
    version_error(Ciphertext::from_bytes(p, &with(&bytes, 4, &[3])));

    let bytes = same("ckks-seeded-ciphertext.bin", || {
        Toy::new().seeded(3).to_bytes()
    });
    let c = SeededCiphertext::from_bytes(p, &bytes).unwrap();
    assert_eq!((c.level(), c.scale()), (3, p.scale(3)));
    near(&slots(t, &c.expand(p).unwrap()), |i| i as f64 + 1.0);
    assert_eq!(c.to_bytes(), bytes);
    version_error(SeededCiphertext::from_bytes(p, &with(&bytes, 4, &[3])));
}

/// As sent and as stored. It has no version of its own: the greeting and the store's entry have.
#[test]
fn the_public_key_of_products() {
    let r = rlwe();
    let bytes = same("product-public-key.bin", || r.public.clone());
    let key = ProductPublicKey::from_bytes(&r.params, &bytes).unwrap();
    assert_eq!(key.to_bytes(), bytes);
    assert_eq!(key.export_key().basis(), r.params.export_basis());
    let e = ProductPublicKey::from_bytes(&r.params, &bytes[1..]).unwrap_err();
    assert!(matches!(e, MpcError::Length { .. }), "{e}");
}

fn boundary() -> CkksToShares {
    let t = client();
    let fft = Arc::new(WideFft::new(5).unwrap());
    CkksToShares::new(&t.params, &fft, t.params.scale(1), DEFAULT_FRAC).unwrap()
}

/// The masked ciphertext that goes back to the client, and the server's shares of its slots.
fn exported() -> (Vec<u8>, Vec<u64>) {
    let (t, boundary) = (Toy::new(), boundary());
    let c = t.seeded(1).expand(&t.params).unwrap();
    let mut prg = SecretSeed::from_bytes([7; 32]).derive("export", 0);
    let key = boundary.export_key(&t.public).unwrap();
    let prepared = boundary.prepare(&key, 1, &mut prg).unwrap();
    let (mut a, mut b) = Channel::memory_pair(config()).unwrap();
    let words = boundary.server(&[c], prepared, &mut a).unwrap();
    let len = Exported::byte_len(boundary.basis(), 1);
    (
        b.recv(FrameKind::Exported, len).unwrap(),
        words[0].to_ring64().0,
    )
}

#[test]
fn an_exported_ciphertext() {
    let t = client();
    let message = same("exported-ciphertext.bin", || exported().0);
    let shares = same("exported-ciphertext.shares", || {
        exported().1.iter().flat_map(|w| w.to_le_bytes()).collect()
    });
    let decryptor = Decryptor::new(&t.params, Arc::clone(&t.secret)).unwrap();
    let decryptor = ExportDecryptor::new(&t.params, &decryptor).unwrap();
    let (_peer, mut channel) = framed_peer(&[(FrameKind::Exported, message)]);
    let words = boundary().client(1, &decryptor, &mut channel).unwrap();
    let sums: Vec<f64> = words[0]
        .to_ring64()
        .0
        .iter()
        .zip(shares.as_chunks::<8>().0)
        .map(|(c, s)| c.wrapping_add(u64::from_le_bytes(*s)) as i64 as f64 / 524_288.0)
        .collect();
    near(&sums, |i| i as f64 + 1.0);
}
