//! What an upload accepts, what its fingerprint covers, and that stored keys are the ones that were sent.

use super::*;
use cipherloom_ckks::CkksError;
use cipherloom_mpc::MpcError;
use cipherloom_net::{Channel, ChannelConfig, FrameKind};
use cipherloom_plan::{ModelShape, Plan, Request};
use cipherloom_spec::approx::Stack;
use cipherloom_spec::schedule::Carry;

#[test]
fn keys_come_back_as_they_were_sent_in_the_same_run_and_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let toy = Toy::new(1);
    let store = open(dir.path(), 1 << 30, 4);
    assert!(toy.load(&store).keys.is_none());
    let uploaded = toy.upload(&store);
    assert!(uploaded.is_kept());
    assert_eq!(uploaded.fingerprint(), toy.fingerprint());
    toy.check(&uploaded);
    drop(uploaded);
    // Read from disk: nobody holds the decoded keys.
    toy.check(&toy.found(&store));
    drop(store);
    let store = open(dir.path(), 1 << 30, 4);
    let a = toy.found(&store);
    toy.check(&a);
    // A second session of the client shares the decoded keys.
    let b = toy.found(&store);
    assert!(Arc::ptr_eq(
        &a.server_keys().scan.keys,
        &b.server_keys().scan.keys
    ));
    assert_eq!(
        store.usage(),
        StoreUsage {
            entries: 1,
            bytes: toy.file_bytes(),
            ..StoreUsage::default()
        }
    );
    assert_eq!(a.memory_bytes(), toy.list.memory_bytes());
    let held = a.server_keys();
    let publics: u64 = RINGS
        .iter()
        .map(|r| 16 * (toy.list.params(*r).n() * toy.list.params(*r).chain().q().len()) as u64)
        .sum();
    // Two polynomials over three primes.
    let product = 2 * 3 * 8192 * 8;
    assert_eq!(
        held.memory_bytes() + publics + product,
        toy.list.memory_bytes()
    );
}

/// The hash written out by hand: what a second implementation would compute.
#[test]
fn the_fingerprint_is_the_documented_hash() {
    let toy = Toy::new(3);
    let mut h = blake3::Hasher::new_derive_key("cipherloom evaluation keys fingerprint");
    h.update(&2u32.to_le_bytes());
    for (ring, log_n, q, p) in [
        (
            Ring::Projection,
            9u32,
            vec![50u32, 50, 40, 40, 40],
            vec![50u32; 2],
        ),
        (
            Ring::Scan,
            10,
            vec![50, 50, 40, 40, 40, 40, 40],
            vec![50; 3],
        ),
    ] {
        h.update(&toy.list.params(ring).digest().0);
        for v in [log_n, 40, 3] {
            h.update(&v.to_le_bytes());
        }
        for bits in [q, p] {
            h.update(&(bits.len() as u32).to_le_bytes());
            bits.iter().for_each(|b| {
                h.update(&b.to_le_bytes());
            });
        }
    }
    // Degree, primes of the public key and of the secret, then these: 39, 38, 38 and 45 bits.
    let product = [8192, 3, 4].into_iter().chain(PRODUCT_PRIMES);
    for word in product {
        h.update(&word.to_le_bytes());
    }
    for o in &toy.objects {
        h.update(&(o.len() as u64).to_le_bytes());
        h.update(o);
    }
    h.update(&8u64.to_le_bytes());
    assert_eq!(toy.fingerprint().0, *h.finalize().as_bytes());
    let text = toy.fingerprint().to_string();
    assert_eq!(text.parse(), Ok(toy.fingerprint()));
    assert_eq!(text.to_uppercase().parse::<Fingerprint>(), Err(NotHex));
    assert_eq!(text[1..].parse::<Fingerprint>(), Err(NotHex));
}

/// The largest primes below a power of two that are 1 modulo 2^14, each once.
const PRODUCT_PRIMES: [u64; 4] = [
    549_755_731_969,
    274_877_562_881,
    274_877_202_433,
    35_184_371_613_697,
];

#[test]
fn the_stored_format_is_frozen() {
    let dir = tempfile::tempdir().unwrap();
    let toy = Toy::new(9);
    drop(toy.upload(&open(dir.path(), 1 << 30, 4)));
    let path = dir.path().join(format!("{}.keys", toy.fingerprint()));
    let bytes = std::fs::read(path).unwrap();
    let hash = blake3::hash(&bytes).to_hex()[..16].to_string();
    assert_eq!((bytes.len(), hash.as_str()), GOLDEN);
}

/// Any change of the file must raise the entry's version.
const GOLDEN: (usize, &str) = (448_418, "034201f230a80e9c");

/// A key that differs in a residue is another key: it cannot take the place of the first one.
#[test]
fn changed_keys_have_another_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 1 << 30, 4);
    let mut names = vec![Toy::new(1).fingerprint(), Toy::new(2).fingerprint()];
    for object in 0..8 {
        let mut toy = Toy::new(1);
        // A low bit of a residue: it still decodes (a residue of q - 1 would not, and has no such bit set to flip here).
        let at = toy.objects[object].len() - 7;
        toy.objects[object][at] ^= 1;
        names.push(toy.upload(&store).fingerprint());
        drop(toy.load(&store));
    }
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn whatever_is_not_the_planned_key_is_refused_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 1 << 30, 4);
    let toy = Toy::new(1);
    let refused = |objects: &[Vec<u8>], session: &SessionId| -> KeyStoreError {
        let mut upload = store.begin(&toy.list, session).unwrap();
        for o in objects {
            if let Err(e) = upload.push(o) {
                // Nothing more is accepted, not even the right object, and it cannot be finished.
                let again = upload.push(&toy.objects[0]).unwrap_err();
                assert!(
                    matches!(
                        again,
                        KeyStoreError::Incomplete { .. } | KeyStoreError::Surplus { .. }
                    ),
                    "{again}"
                );
                assert!(matches!(
                    upload.finish(),
                    Err(KeyStoreError::Incomplete { total: 8, .. })
                ));
                return e;
            }
        }
        upload.finish().unwrap_err()
    };
    let with = |at: usize, object: Vec<u8>| {
        let mut o = toy.objects.clone();
        o[at] = object;
        o
    };
    let mut short = toy.objects[2].clone();
    short.pop();
    let mut long = toy.objects[2].clone();
    long.push(0);
    for wrong in [short, long, Vec::new()] {
        assert!(matches!(
            refused(&with(2, wrong), &toy.session),
            KeyStoreError::Length {
                index: 2,
                total: 8,
                ..
            }
        ));
    }
    // The two rotations of the projection ring have different levels; make one of the right length.
    let params = toy.list.params(Ring::Projection);
    let generator = KeyGenerator::new(params, SecretSeed::from_bytes([1; 32]));
    let secret = generator.secret_key().unwrap();
    let other = generator.rotation_key(&secret, 7, 3).unwrap().to_bytes();
    let e = refused(&with(2, other), &toy.session);
    assert!(
        matches!(&e, KeyStoreError::Key { index: 2, got, expected, .. }
            if got.contains("rotation by 7") && expected.contains("rotation by 1 up to level 3")),
        "{e}"
    );
    assert!(matches!(
        refused(&toy.objects, &SessionId([0; 32])),
        KeyStoreError::PublicSeed { ring: "projection" }
    ));
    // The other ring's public key.
    let e = refused(&with(0, toy.objects[4].clone()), &toy.session);
    assert!(matches!(e, KeyStoreError::Length { index: 0, .. }), "{e}");
    let mut garbage = toy.objects[5].clone();
    garbage.iter_mut().skip(60).for_each(|b| *b = 0xff);
    let e = refused(&with(5, garbage), &toy.session);
    assert!(matches!(e, KeyStoreError::Ckks(CkksError::Ring(_))), "{e}");
    // A product key: of another session, with residues above the primes, of another length.
    let e = refused(
        &with(7, product_key(&toy.list, 1, PublicSeed([9; 32]))),
        &toy.session,
    );
    assert!(
        matches!(e, KeyStoreError::PublicSeed { ring: "products" }) && e.is_peer(),
        "{e}"
    );
    let mut garbage = toy.objects[7].clone();
    garbage.iter_mut().skip(32).for_each(|b| *b = 0xff);
    let e = refused(&with(7, garbage), &toy.session);
    assert!(
        matches!(e, KeyStoreError::Products(MpcError::Malformed { .. })) && e.is_peer(),
        "{e}"
    );
    let e = refused(&with(7, toy.objects[7][1..].to_vec()), &toy.session);
    assert!(
        matches!(e, KeyStoreError::Length { index: 7, expected, .. } if expected == 32 + 8192 * 115 / 8),
        "{e}"
    );
    assert!(matches!(
        refused(&toy.objects[..7], &toy.session),
        KeyStoreError::Incomplete { have: 7, total: 8 }
    ));
    let mut more = toy.objects.clone();
    more.push(more[7].clone());
    assert!(matches!(
        refused(&more, &toy.session),
        KeyStoreError::Surplus { total: 8 }
    ));
    assert_eq!(store.usage(), StoreUsage::default());
    assert!(files(dir.path(), ".tmp").is_empty());
    assert!(files(dir.path(), ".keys").is_empty());
    // An upload that is dropped, or told to start and never continued.
    let mut upload = store.begin(&toy.list, &toy.session).unwrap();
    upload.push(&toy.objects[0]).unwrap();
    assert_eq!(store.usage().reserved, toy.file_bytes());
    assert_eq!(files(dir.path(), ".tmp").len(), 1);
    drop(upload);
    assert_eq!(store.usage(), StoreUsage::default());
    assert!(files(dir.path(), ".tmp").is_empty());
}

#[test]
fn keys_of_a_session_without_a_store_are_checked_alike_and_kept_nowhere() {
    let toy = Toy::new(4);
    let mut upload = KeyUpload::unkept(&toy.list, &toy.session);
    for o in &toy.objects {
        upload.push(o).unwrap();
    }
    let keys = upload.finish().unwrap();
    assert!(!keys.is_kept());
    assert_eq!(keys.fingerprint(), toy.fingerprint());
    toy.check(&keys);
    let mut upload = KeyUpload::unkept(&toy.list, &SessionId([1; 32]));
    assert!(upload.push(&toy.objects[0]).is_err());
}

/// The list of a real plan has the plan's keys with the lengths that they really have, and arrives over a channel.
#[test]
fn a_plans_list_is_what_its_keys_are() {
    let plan = |length| {
        let shape = ModelShape::named("moviedoc").unwrap();
        let request =
            Request::for_shape(shape, length, None, Carry::Serial, Stack::default()).unwrap();
        Plan::build(request).unwrap()
    };
    let of = plan(16);
    let list = KeyList::of(&of).unwrap();
    for ring in RINGS {
        let levels: Vec<usize> = list
            .keys()
            .iter()
            .filter(|k| k.kind.ring() == Some(ring))
            .filter_map(|k| match k.kind {
                KeyKind::Evaluation { max_level, .. } => Some(max_level),
                _ => None,
            })
            .collect();
        assert_eq!(levels, of.keys(ring).levels());
    }
    assert!(list.memory_bytes() >= of.document().server_memory.keys);
    // Hellos both ways, fingerprint, answer, and every object in a message of its own.
    let messages: u64 = list
        .keys()
        .iter()
        .map(|k| k.bytes as u64)
        .chain([
            crate::handshake::HELLO_BYTES as u64,
            crate::handshake::HELLO_BYTES as u64,
            32,
            1,
        ])
        .map(cipherloom_net::message_bytes)
        .sum();
    assert_eq!(messages, of.document().setup_bytes);
    let toy = Toy::with(5, Arc::clone(&list));
    let (mut a, mut b) = Channel::memory_pair(ChannelConfig::default()).unwrap();
    let keys = std::thread::scope(|s| {
        s.spawn(|| {
            for o in &toy.objects {
                a.send(FrameKind::Setup, o).unwrap();
            }
        });
        let upload = KeyUpload::unkept(&list, &toy.session);
        upload.receive(&mut b).unwrap()
    });
    assert_eq!(keys.fingerprint(), toy.fingerprint());
    let k = keys.server_keys();
    let held = k.projection.keys.len() + k.scan.keys.len();
    // Three public keys beside them, that of the products last.
    assert_eq!(held + 3, list.keys().len());
    assert_eq!(list.keys().last().unwrap().kind, KeyKind::Product);
    // Another length has other keys.
    assert_ne!(KeyList::of(&plan(32)).unwrap().digest(), list.digest());
}
