//! Greeting, keys on their way to the server, stored keys, the client's own files, published folders.

use super::ckks::toy;
use super::model::{programs, tiny};
use super::plan::tiny_plan;
use super::support::{edit_bytes, framed_peer, json_input, put, temp_dir, Input};
use cipherloom_ckks::{CkksParameters, KeyGenerator};
use cipherloom_engine::bundle::{
    publish_loaded, BundleDocument, ClientBundle, Deployment, DeploymentDocument, FileDigest,
};
use cipherloom_engine::handshake::{
    client_handshake, hex, server_handshake, Binding, SessionId, HELLO_BYTES,
};
use cipherloom_engine::keys::accept_keys;
use cipherloom_engine::keystore::{
    ClientKeyFile, FileKeyStore, Fingerprint, KeyKind, KeyList, KeyStore, KeyUpload,
    MemoryKeyStore, StoreLimits, PRODUCTS, RINGS,
};
use cipherloom_engine::EngineError;
use cipherloom_mpc::rlwe::{ProductKey, RlweParameters};
use cipherloom_net::FrameKind;
use cipherloom_plan::{KeyRequest, KeyUse, Ring};
use cipherloom_ring::SecretSeed;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The pin of the published folders.
pub const PIN: [u8; 32] = [0xc4; 32];
const LIMITS: StoreLimits = StoreLimits {
    max_bytes: 1 << 24,
    max_entries: 4,
};

/// The peer's hello, to the server (first byte even) or the client.
pub fn greeting(data: &[u8]) -> bool {
    let mut d = Input(data);
    let to_client = d.byte() % 2 == 1;
    greet(to_client, d.0).is_ok()
}

/// What one party makes of the other's hello; its own nonce is always the same.
pub fn greet(to_client: bool, hello: &[u8]) -> Result<SessionId, EngineError> {
    let (_peer, mut channel) = framed_peer(&[(FrameKind::Hello, hello.to_vec())]);
    let mut prg = SecretSeed::from_bytes([8; 32]).derive("hello", 0);
    let binding = Binding::insecure_none();
    if to_client {
        return client_handshake(&mut channel, tiny_plan(), &binding, &mut prg);
    }
    let plans = [Arc::new(tiny_plan().clone())];
    server_handshake(&mut channel, &plans, &binding, &mut prg).map(|(id, _)| id)
}

/// One client's keys over two toy rings.
pub struct ToyKeys {
    pub list: Arc<KeyList>,
    pub session: SessionId,
    pub objects: Vec<Vec<u8>>,
    /// As a store keeps them, and under which name.
    pub entry: Vec<u8>,
    pub fingerprint: Fingerprint,
}

pub fn toy_keys() -> &'static ToyKeys {
    static KEYS: OnceLock<ToyKeys> = OnceLock::new();
    KEYS.get_or_init(|| {
        let params =
            || CkksParameters::insecure_for_tests(toy().insecure_build().unwrap()).unwrap();
        let request = |ring, relinearization, conjugation, rotation, max_level| KeyRequest {
            ring,
            relinearization,
            conjugation,
            rotations: vec![KeyUse {
                rotation,
                max_level,
            }],
        };
        let list = KeyList::insecure_for_tests(
            [params(), params()],
            [
                &request(Ring::Projection, None, Some(2), 1, 3),
                &request(Ring::Scan, Some(3), None, 2, 1),
            ],
            RlweParameters::crt64().unwrap(),
        );
        let session = SessionId([0x33; 32]);
        let seed = |name: &str| SecretSeed::from_bytes([6; 32]).derive_seed(name, 0);
        let generators = RINGS.map(|r| KeyGenerator::new(list.params(r), seed(r.name())));
        let secrets = [0, 1].map(|i| generators[i].secret_key().unwrap());
        let at = |ring: Ring| usize::from(ring == Ring::Scan);
        let object = |kind: KeyKind| match kind {
            KeyKind::Public { ring } => generators[at(ring)]
                .public_key(&secrets[at(ring)], session.public_seed(ring.name()))
                .unwrap()
                .to_bytes(),
            KeyKind::Evaluation {
                ring,
                purpose,
                max_level,
            } => generators[at(ring)]
                .evaluation_key(&secrets[at(ring)], purpose, max_level)
                .unwrap()
                .to_bytes(),
            KeyKind::Product => ProductKey::from_seed(list.products(), &seed(PRODUCTS))
                .unwrap()
                .public_key(list.products(), session.public_seed(PRODUCTS))
                .unwrap()
                .to_bytes(),
        };
        let objects: Vec<Vec<u8>> = list.keys().iter().map(|k| object(k.kind)).collect();
        let dir = temp_dir();
        let (store, _) = FileKeyStore::open(dir.path(), LIMITS).unwrap();
        let mut upload = store.begin(&list, &session).unwrap();
        for o in &objects {
            upload.push(o).unwrap();
        }
        let fingerprint = upload.finish().unwrap().fingerprint();
        let entry = std::fs::read(dir.path().join(format!("{fingerprint}.keys"))).unwrap();
        ToyKeys {
            list,
            session,
            objects,
            entry,
            fingerprint,
        }
    })
}

/// Keys on their way to the server: edits of what a client sends, cut into messages of the planned lengths. First byte:
/// without a store (even), or with the offer of a fingerprint before.
pub fn upload(data: &[u8]) -> bool {
    let t = toy_keys();
    let mut d = Input(data);
    let offer = d.byte() % 2 == 1;
    let mut all = t.objects.concat();
    if offer {
        all.splice(0..0, [0; 32]);
    }
    let all = edit_bytes(&all, d.0);
    let mut rest = Input(&all);
    let mut messages = Vec::new();
    if offer {
        messages.push((FrameKind::Setup, rest.take(32).to_vec()));
    }
    for k in t.list.keys() {
        messages.push((FrameKind::Setup, rest.take(k.bytes).to_vec()));
    }
    let (_peer, mut channel) = framed_peer(&messages);
    let keys = if offer {
        let store = MemoryKeyStore::new(LIMITS).unwrap();
        accept_keys(&mut channel, &t.list, &t.session, &store).map(|a| a.keys)
    } else {
        KeyUpload::unkept(&t.list, &t.session).receive(&mut channel)
    };
    match keys {
        Ok(k) => {
            assert_eq!(
                k.fingerprint() == t.fingerprint,
                all.ends_with(&t.objects.concat())
            );
            true
        }
        Err(e) => {
            assert!(!e.to_string().is_empty());
            false
        }
    }
}

/// A stored entry: the file (0), edits of a valid one (1), the same with the header's digest made right (2), or the note of
/// its last use (3).
pub fn entry(data: &[u8]) -> bool {
    let t = toy_keys();
    let mut d = Input(data);
    let (mut file, mut used) = (t.entry.clone(), 3u64.to_le_bytes().to_vec());
    match d.byte() % 4 {
        0 => file = d.0.to_vec(),
        1 => file = edit_bytes(&file, d.0),
        2 => {
            file = edit_bytes(&file, d.0);
            let sealed = 144;
            if file.len() >= sealed + 32 {
                let seal = blake3::hash(&file[..sealed]);
                file[sealed..sealed + 32].copy_from_slice(seal.as_bytes());
            }
        }
        _ => used = d.0.to_vec(),
    }
    let dir = temp_dir();
    put(dir.path(), &format!("{}.keys", t.fingerprint), &file);
    put(dir.path(), &format!("{}.used", t.fingerprint), &used);
    let (store, warnings) = FileKeyStore::open(dir.path(), LIMITS).unwrap();
    let found = store.load(&t.fingerprint, &t.list);
    for w in warnings.iter().chain(&found.warning) {
        assert!(!w.to_string().is_empty());
    }
    match found.keys {
        // The fingerprint covers every byte.
        Some(k) => {
            assert!(file == t.entry && k.fingerprint() == t.fingerprint);
            true
        }
        None => {
            assert!(file != t.entry);
            false
        }
    }
}

#[cfg(unix)]
fn private(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// The client's note (first byte even) or its seed file.
pub fn client_key(data: &[u8]) -> bool {
    let t = toy_keys();
    let mut d = Input(data);
    let dir = temp_dir();
    let keys = ClientKeyFile::at(dir.path(), &PIN).unwrap();
    let seed = SecretSeed::from_bytes([6; 32]);
    if d.byte() % 2 == 1 {
        std::fs::write(keys.path(), d.0).unwrap();
        private(&keys.path());
        return match keys.load() {
            Ok(s) => {
                assert_eq!(s.unwrap().expose()[..], *d.0);
                true
            }
            Err(e) => {
                assert!(d.0.len() != 32 && !e.to_string().is_empty());
                false
            }
        };
    }
    put(dir.path(), &note_name(&t.list), d.0);
    match keys.fingerprint(&t.list, &seed) {
        Ok(Some(f)) => {
            assert_eq!(f.0[..], d.0[8..40]);
            true
        }
        Ok(None) => false,
        Err(e) => panic!("{e}"),
    }
}

/// Name of the client's note for a list.
pub fn note_name(list: &KeyList) -> String {
    format!("{}.keys-{}", hex(&PIN), hex(&list.digest()[..16]))
}

/// The files of both folders of the tiny model, by name.
pub struct Folders {
    pub client: BTreeMap<String, Vec<u8>>,
    pub server: BTreeMap<String, Vec<u8>>,
}

pub fn folders() -> &'static Folders {
    static FOLDERS: OnceLock<Folders> = OnceLock::new();
    FOLDERS.get_or_init(|| {
        let t = tiny();
        let (source, out) = (temp_dir(), temp_dir());
        t.write(source.path());
        let at = publish_loaded(source.path(), &t.model, tiny_plan(), &PIN, out.path()).unwrap();
        let read = |dir: &Path| {
            std::fs::read_dir(dir)
                .unwrap()
                .map(|f| {
                    let f = f.unwrap();
                    let name = f.file_name().to_string_lossy().into_owned();
                    (name, std::fs::read(f.path()).unwrap())
                })
                .collect()
        };
        Folders {
            client: read(&at.client),
            server: read(&at.server),
        }
    })
}

fn write_all(dir: &Path, files: &BTreeMap<String, Vec<u8>>) {
    files.iter().for_each(|(name, bytes)| put(dir, name, bytes));
}

/// A document as its writer makes it, with the right digest; other bytes stay as they are.
fn sealed<T: serde::de::DeserializeOwned + serde::Serialize>(
    bytes: Vec<u8>,
    digest: impl Fn(&mut T) -> &mut String,
) -> Vec<u8> {
    let Ok(mut doc) = serde_json::from_slice::<T>(&bytes) else {
        return bytes;
    };
    let encode = |d: &T| {
        let mut out = serde_json::to_vec_pretty(d).unwrap();
        out.push(b'\n');
        out
    };
    digest(&mut doc).clear();
    let seal = hex(blake3::hash(&encode(&doc)).as_bytes());
    *digest(&mut doc) = seal;
    encode(&doc)
}

const BUNDLE_FILES: [&str; 5] = [
    "bundle.json",
    "config.json",
    "plan.json",
    "tokenizer.json",
    "embedding.safetensors",
];

/// One changed file of a client bundle (first byte), by somebody who lists it and seals the document again (second byte
/// odd) or not. JSON files by JSON input, the table by edits.
pub fn bundle(data: &[u8]) -> bool {
    let mut files = folders().client.clone();
    let mut d = Input(data);
    let name = BUNDLE_FILES[usize::from(d.byte()) % BUNDLE_FILES.len()];
    let forged = d.byte() % 2 == 1;
    let before = &files[name];
    let bytes = match serde_json::from_slice::<Value>(before) {
        Ok(base) => json_input(&base, d.0),
        Err(_) => edit_bytes(before, d.0),
    };
    files.insert(name.to_string(), bytes.clone());
    if forged {
        let mut document = files["bundle.json"].clone();
        if name != "bundle.json" {
            let mut doc: BundleDocument = serde_json::from_slice(&document).unwrap();
            let digest = FileDigest {
                bytes: bytes.len() as u64,
                blake3: hex(blake3::hash(&bytes).as_bytes()),
            };
            doc.files.insert(name.to_string(), digest);
            document = serde_json::to_vec(&doc).unwrap();
        }
        let document = sealed(document, |d: &mut BundleDocument| &mut d.digest);
        files.insert("bundle.json".to_string(), document);
    }
    let dir = temp_dir();
    write_all(dir.path(), &files);
    match ClientBundle::load(dir.path()) {
        Ok(b) => {
            let text = b.encode("a good film", cipherloom_model::Truncation::Allow);
            if let Ok(e) = text {
                assert_eq!(b.input(&e).unwrap().embedded.len(), 16 * 16);
            }
            true
        }
        Err(e) => {
            assert!(!e.to_string().is_empty());
            false
        }
    }
}

/// A changed `deployment.json` (first byte even) or plan of the server's folder, sealed again (second byte odd) or not.
pub fn deployment(data: &[u8]) -> bool {
    let mut files = folders().server.clone();
    let mut d = Input(data);
    let name = ["deployment.json", "plan.json"][usize::from(d.byte()) % 2];
    let forged = d.byte() % 2 == 1;
    let base: Value = serde_json::from_slice(&files[name]).unwrap();
    let mut bytes = json_input(&base, d.0);
    if forged && name == "deployment.json" {
        bytes = sealed(bytes, |d: &mut DeploymentDocument| &mut d.digest);
    }
    files.insert(name.to_string(), bytes);
    let dir = temp_dir();
    write_all(dir.path(), &files);
    match Deployment::load(dir.path(), &tiny().model) {
        Ok(d) => {
            assert_eq!(d.plan.hash(), tiny_plan().hash());
            true
        }
        Err(e) => {
            assert!(!e.to_string().is_empty());
            false
        }
    }
}

/// The hello of a client with the plan of the tiny model.
pub fn hello() -> Vec<u8> {
    let (mut a, mut b) = cipherloom_net::Channel::memory_pair(super::support::config()).unwrap();
    std::thread::scope(|s| {
        s.spawn(move || {
            let mut prg = SecretSeed::from_bytes([9; 32]).derive("hello", 0);
            let _ = client_handshake(&mut a, tiny_plan(), &Binding::insecure_none(), &mut prg);
        });
        let hello = b.recv(FrameKind::Hello, HELLO_BYTES).unwrap();
        drop(b);
        hello
    })
}

pub fn seeds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let t = toy_keys();
    let edit = |tag: u8, at: u8| vec![tag, at, 0, 0, 0, 0, 1, 7];
    let dir = temp_dir();
    let keys = ClientKeyFile::at(dir.path(), &PIN).unwrap();
    let seed = SecretSeed::from_bytes([6; 32]);
    keys.remember(&t.list, &seed, &t.fingerprint).unwrap();
    let note = std::fs::read(dir.path().join(note_name(&t.list))).unwrap();
    let mut out = vec![
        ("greeting", "ok-to-server", [vec![0], hello()].concat()),
        ("greeting", "ok-to-client", [vec![1], hello()].concat()),
        ("upload", "ok-unkept", vec![0]),
        ("upload", "ok-offered", vec![1]),
        ("upload", "edited", edit(0, 45)),
        ("upload", "offers-another", edit(1, 3)),
        ("entry", "ok-unchanged", vec![1]),
        ("entry", "edited", edit(1, 90)),
        ("entry", "edited-and-sealed", edit(2, 130)),
        (
            "entry",
            "ok-used",
            [vec![3], 9u64.to_le_bytes().to_vec()].concat(),
        ),
        // Bound to the release: refused, and right, after the next one.
        ("client_key", "note", [vec![0], note].concat()),
        ("client_key", "ok-seed", [vec![1], vec![6; 32]].concat()),
    ];
    for file in 0..4u8 {
        for (name, p) in programs(0) {
            let name: &'static str = match (file, name) {
                (0, "ok-unchanged") => "ok-document",
                (1, "ok-unchanged") => "ok-config",
                (2, "ok-unchanged") => "ok-plan",
                (3, "ok-unchanged") => "ok-tokenizer",
                (0, "number") => "document-number",
                (0, "delete") => "document-delete",
                (1, "number") => "config-number",
                (1, "power") => "config-power",
                (2, "number") => "plan-number",
                (2, "two") => "plan-two",
                (3, "add") => "tokenizer-add",
                _ => continue,
            };
            // Unchanged JSON is written in another order: it is accepted where it is listed again.
            out.push(("bundle", name, [vec![file, 1], p].concat()));
        }
    }
    out.push(("bundle", "ok-table", vec![4, 0]));
    out.push((
        "bundle",
        "table-edited",
        [vec![4, 1], edit(120, 0)[1..].to_vec()].concat(),
    ));
    for (name, p) in programs(0) {
        let name = match name {
            "ok-unchanged" => "ok-document",
            "number" => "document-number",
            "delete" => "document-delete",
            _ => continue,
        };
        out.push(("deployment", name, [vec![0, 1], p].concat()));
    }
    out.push(("deployment", "ok-plan", vec![1, 0, 1]));
    out
}
