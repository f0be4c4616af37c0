//! Keys of a session: made and streamed by the client, received and held by the server.
//!
//! Every ring has its own secret, the product ring too. The client makes one evaluation key at a time, sends it, and drops it; it keeps the
//! secret keys only. A server's types contain no secret key.

use crate::handshake::SessionId;
use crate::keystore::{
    Fingerprint, FingerprintHasher, KeyList, KeyStore, KeyStoreError, KeyUpload, StoreWarning,
    StoredKeys, PRODUCTS,
};
use crate::EngineError;
use cipherloom_ckks::{
    CkksParameters, Decryptor, EvaluationKeys, KeyGenerator, KeyPurpose, PublicKey,
    SecretEncryptor, SecretKey,
};
use cipherloom_mpc::rlwe::{ProductKey, RlweParameters};
use cipherloom_net::{Channel, FrameKind};
use cipherloom_plan::{KeyRequest, Plan, Ring};
use cipherloom_ring::SecretSeed;
use std::sync::Arc;

/// The keys of a request with their levels, in the order in which they are sent.
fn purposes(params: &CkksParameters, r: &KeyRequest) -> Vec<(KeyPurpose, usize)> {
    let mut out = Vec::new();
    out.extend(r.relinearization.map(|l| (KeyPurpose::Relinearization, l)));
    out.extend(
        r.conjugation
            .map(|l| (KeyPurpose::Galois(params.conjugation_element()), l)),
    );
    out.extend(r.rotations.iter().map(|k| {
        (
            KeyPurpose::Galois(params.galois_element(k.rotation as i64)),
            k.max_level,
        )
    }));
    out
}

/// The client's side of one ring.
pub struct ClientRing {
    /// Parameters.
    pub params: CkksParameters,
    /// Encrypts shares under the ring's secret.
    pub encryptor: SecretEncryptor,
    /// Decrypts masked exports.
    pub decryptor: Decryptor,
}

/// The server's side of one ring.
pub struct ServerRing {
    /// Parameters.
    pub params: CkksParameters,
    /// The client's public key: makes fresh zeros for exports.
    pub public: PublicKey,
    /// The client's evaluation keys.
    pub keys: Arc<EvaluationKeys>,
}

/// Both CKKS rings of a client.
pub struct ClientKeys {
    /// Projections and convolution.
    pub projection: ClientRing,
    /// The scan.
    pub scan: ClientRing,
}

/// What the set-up gives the client.
pub struct Offered {
    /// Both CKKS rings.
    pub rings: ClientKeys,
    /// Parameters of the products.
    pub products: RlweParameters,
    /// Secret key of the products.
    pub product_key: ProductKey,
    /// Bytes of evaluation and public keys sent in this session; 0 when the server had them.
    pub sent_bytes: u64,
    /// Name of all keys at the server.
    pub fingerprint: Fingerprint,
}

/// What the set-up gives the server.
#[derive(Debug)]
pub struct Accepted {
    /// The client's keys. Keep them while the session runs.
    pub keys: StoredKeys,
    /// Whether the store had them, so that none was sent.
    pub reused: bool,
    /// What the store found on the way, for the log.
    pub warning: Option<StoreWarning>,
}

/// Both CKKS rings of a server.
pub struct ServerKeys {
    /// Projections and convolution.
    pub projection: ServerRing,
    /// The scan.
    pub scan: ServerRing,
}

impl ServerKeys {
    /// Bytes in memory of all evaluation keys.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        (self.projection.keys.memory_bytes() + self.scan.keys.memory_bytes()) as u64
    }
}

struct ClientSide {
    ring: ClientRing,
    generator: KeyGenerator,
    secret: Arc<SecretKey>,
}

fn client_side(plan: &Plan, ring: Ring, seed: &SecretSeed) -> Result<ClientSide, EngineError> {
    let params = CkksParameters::new(plan.chain(ring).clone())?;
    let generator = KeyGenerator::new(&params, seed.derive_seed(ring.name(), 0));
    let secret: Arc<SecretKey> = Arc::new(generator.secret_key()?);
    let ring = ClientRing {
        encryptor: SecretEncryptor::new(&params, Arc::clone(&secret))?,
        decryptor: Decryptor::new(&params, Arc::clone(&secret))?,
        params,
    };
    Ok(ClientSide {
        ring,
        generator,
        secret,
    })
}

/// The server's answers to an offered fingerprint.
const KEEP: u8 = 1;
const SEND: u8 = 0;

/// Bytes of keys that may wait in the outgoing queue, so that the client holds few of them and its progress is true.
const QUEUED_KEYS: u64 = 8 << 20;

/// Opens the client's rings. Offers the fingerprint under which the server may still have the keys; sends the keys if it does
/// not, one at a time, and calls `progress` every few megabytes. A fingerprint of zeros offers nothing.
///
/// # Errors
/// Transport errors; parameters that the plan should have refused.
pub fn offer_keys(
    channel: &mut Channel,
    plan: &Plan,
    session: &SessionId,
    seed: &SecretSeed,
    known: Option<Fingerprint>,
    progress: &mut dyn FnMut(&Channel),
) -> Result<Offered, EngineError> {
    let offered = known.unwrap_or(Fingerprint([0; 32]));
    channel.send(FrameKind::Setup, &offered.0)?;
    let sides = [
        client_side(plan, Ring::Projection, seed)?,
        client_side(plan, Ring::Scan, seed)?,
    ];
    let products = RlweParameters::crt64()?;
    // A label beside those of the rings: independent of every CKKS secret.
    let product_key = ProductKey::from_seed(&products, &seed.derive_seed(PRODUCTS, 0))?;
    let answer = channel.recv(FrameKind::Setup, 1)?;
    let (mut sent_bytes, mut flushed) = (0, 0);
    let fingerprint = match (answer.first(), known) {
        (Some(&KEEP), Some(f)) => f,
        (Some(&SEND), _) => {
            let list = KeyList::of(plan)?;
            let mut hasher = FingerprintHasher::new(&list);
            let mut send = |bytes: &[u8]| -> Result<(), EngineError> {
                sent_bytes += bytes.len() as u64;
                hasher.update(bytes);
                channel.send(FrameKind::Setup, bytes)?;
                if sent_bytes > flushed + QUEUED_KEYS {
                    flushed = sent_bytes;
                    channel.flush()?;
                    progress(channel);
                }
                Ok(())
            };
            for (side, ring) in sides.iter().zip([Ring::Projection, Ring::Scan]) {
                let public = side
                    .generator
                    .public_key(&side.secret, session.public_seed(ring.name()))?;
                send(&public.to_bytes())?;
                for (purpose, level) in purposes(&side.ring.params, plan.keys(ring)) {
                    send(
                        &side
                            .generator
                            .evaluation_key(&side.secret, purpose, level)?
                            .to_bytes(),
                    )?;
                }
            }
            let uniform = session.public_seed(PRODUCTS);
            send(&product_key.public_key(&products, uniform)?.to_bytes())?;
            hasher.finish()
        }
        (other, _) => {
            return Err(EngineError::Mismatch {
                what: "answer to the offered keys",
                here: format!("{KEEP} (kept, if offered) or {SEND} (send them)"),
                peer: format!("{other:?}"),
            })
        }
    };
    let [projection, scan] = sides.map(|s| s.ring);
    Ok(Offered {
        rings: ClientKeys { projection, scan },
        products,
        product_key,
        sent_bytes,
        fingerprint,
    })
}

/// The client's keys at the server: from the store if it has what the client offers, else received and stored. Where the store
/// has no room, the keys live as long as the session. A damaged entry is a warning, and the client sends again.
///
/// # Errors
/// Transport errors, malformed keys, keys that the plan does not ask for, a store that cannot be written.
pub fn accept_keys(
    channel: &mut Channel,
    list: &Arc<KeyList>,
    session: &SessionId,
    store: &dyn KeyStore,
) -> Result<Accepted, EngineError> {
    let mut offered = Fingerprint([0; 32]);
    channel.recv_into(FrameKind::Setup, &mut offered.0)?;
    let mut warning = None;
    if offered.0 != [0; 32] {
        let found = store.load(&offered, list);
        warning = found.warning;
        if let Some(keys) = found.keys {
            channel.send(FrameKind::Setup, &[KEEP])?;
            return Ok(Accepted {
                keys,
                reused: true,
                warning,
            });
        }
    }
    let upload = match store.begin(list, session) {
        Ok(u) => u,
        Err(KeyStoreError::Full { .. }) => KeyUpload::unkept(list, session),
        Err(e) => return Err(e.into()),
    };
    channel.send(FrameKind::Setup, &[SEND])?;
    Ok(Accepted {
        keys: upload.receive(channel)?,
        reused: false,
        warning,
    })
}
