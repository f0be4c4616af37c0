//! Toy clients and stores, shared by the tests of this module.

mod client_key;
mod damage;
mod limits;
mod uploads;

use super::*;
use cipherloom_ckks::{CkksParameters, KeyGenerator};
use cipherloom_mpc::rlwe::{ProductKey, RlweParameters};
use cipherloom_plan::{KeyRequest, KeyUse, Ring};
use cipherloom_ring::{PublicSeed, SecretSeed};
use cipherloom_spec::CkksLiteral;
use std::path::Path;

fn params(literal: CkksLiteral) -> CkksParameters {
    CkksParameters::insecure_for_tests(literal.insecure_build().unwrap()).unwrap()
}

fn request(
    ring: Ring,
    relin: Option<usize>,
    conj: Option<usize>,
    uses: &[(usize, usize)],
) -> KeyRequest {
    KeyRequest {
        ring,
        relinearization: relin,
        conjugation: conj,
        rotations: uses
            .iter()
            .map(|&(rotation, max_level)| KeyUse {
                rotation,
                max_level,
            })
            .collect(),
    }
}

/// Two toy rings and the real product ring, eight objects.
fn toy_list(last_level: usize) -> Arc<KeyList> {
    KeyList::insecure_for_tests(
        [
            params(cipherloom_testkit::INSECURE_TOY_9()),
            params(cipherloom_testkit::INSECURE_TOY_10()),
        ],
        [
            &request(Ring::Projection, None, Some(2), &[(1, 3), (5, 2)]),
            &request(Ring::Scan, Some(4), None, &[(2, last_level)]),
        ],
        RlweParameters::crt64().unwrap(),
    )
}

/// The encoded product key of a client.
fn product_key(list: &KeyList, tag: u8, uniform: PublicSeed) -> Vec<u8> {
    let seed = SecretSeed::from_bytes([tag; 32]).derive_seed(PRODUCTS, 0);
    let key = ProductKey::from_seed(list.products(), &seed).unwrap();
    let public = key.public_key(list.products(), uniform).unwrap();
    public.to_bytes()
}

/// One client's keys as sent in one session.
struct Toy {
    list: Arc<KeyList>,
    session: SessionId,
    objects: Vec<Vec<u8>>,
}

impl Toy {
    fn new(tag: u8) -> Self {
        Self::with(tag, toy_list(3))
    }

    fn with(tag: u8, list: Arc<KeyList>) -> Self {
        let session = SessionId([tag ^ 0x55; 32]);
        let mut objects = Vec::new();
        let client = SecretSeed::from_bytes([tag; 32]);
        for ring in RINGS {
            let params = list.params(ring);
            let seed = client.derive_seed(ring.name(), 0);
            let generator = KeyGenerator::new(params, seed);
            let secret = generator.secret_key().unwrap();
            for k in list.keys() {
                match k.kind {
                    KeyKind::Public { ring: r } if r == ring => objects.push(
                        generator
                            .public_key(&secret, session.public_seed(ring.name()))
                            .unwrap()
                            .to_bytes(),
                    ),
                    KeyKind::Evaluation {
                        ring: r,
                        purpose,
                        max_level,
                    } if r == ring => objects.push(
                        generator
                            .evaluation_key(&secret, purpose, max_level)
                            .unwrap()
                            .to_bytes(),
                    ),
                    _ => {}
                }
            }
        }
        objects.push(product_key(&list, tag, session.public_seed(PRODUCTS)));
        Self {
            list,
            session,
            objects,
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        let mut h = FingerprintHasher::new(&self.list);
        self.objects.iter().for_each(|o| h.update(o));
        h.finish()
    }

    fn file_bytes(&self) -> u64 {
        self.list.total_bytes() + super::entry::HEADER_BYTES as u64
    }

    fn try_upload(&self, store: &dyn KeyStore) -> Result<StoredKeys, KeyStoreError> {
        let mut upload = store.begin(&self.list, &self.session)?;
        for o in &self.objects {
            assert_eq!(upload.next_len(), Some(o.len()));
            upload.push(o)?;
        }
        assert_eq!(upload.next_len(), None);
        upload.finish()
    }

    fn upload(&self, store: &dyn KeyStore) -> StoredKeys {
        self.try_upload(store).unwrap()
    }

    fn load(&self, store: &dyn KeyStore) -> Lookup {
        store.load(&self.fingerprint(), &self.list)
    }

    fn found(&self, store: &dyn KeyStore) -> StoredKeys {
        let l = self.load(store);
        assert_eq!(l.warning, None);
        l.keys.expect("the store has the keys")
    }

    fn is_in(&self, dir: &Path) -> bool {
        dir.join(format!("{}.keys", self.fingerprint())).exists()
    }

    /// The decoded keys, encoded again, are what the client sent.
    fn check(&self, keys: &StoredKeys) {
        let k = keys.server_keys();
        let mut objects = self.objects.iter();
        for (ring, name) in [(&k.projection, Ring::Projection), (&k.scan, Ring::Scan)] {
            for listed in self.list.keys() {
                let held = match listed.kind {
                    KeyKind::Public { ring: r } if r == name => ring.public.to_bytes(),
                    KeyKind::Evaluation {
                        ring: r, purpose, ..
                    } if r == name => ring.keys.key(purpose).unwrap().to_bytes(),
                    _ => continue,
                };
                assert_eq!(&held, objects.next().unwrap());
            }
        }
        assert_eq!(&keys.product_key().to_bytes(), objects.next().unwrap());
        assert_eq!(k.projection.keys.len() + k.scan.keys.len(), 5);
    }
}

fn limits(max_bytes: u64, max_entries: usize) -> StoreLimits {
    StoreLimits {
        max_bytes,
        max_entries,
    }
}

fn open(dir: &Path, max_bytes: u64, max_entries: usize) -> FileKeyStore {
    let (store, warnings) = FileKeyStore::open(dir, limits(max_bytes, max_entries)).unwrap();
    assert_eq!(warnings, []);
    store
}

fn files(dir: &Path, end: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|n| n.ends_with(end))
        .collect();
    names.sort();
    names
}
