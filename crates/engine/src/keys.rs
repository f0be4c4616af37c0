//! Keys of a session: made and streamed by the client, received and held by the server.
//!
//! Every ring has its own secret. The client makes one evaluation key at a time, sends it, and drops it; it keeps the
//! secret keys only. A server's types contain no secret key.

use crate::handshake::SessionId;
use crate::EngineError;
use cipherloom_ckks::{
    size, CkksParameters, Decryptor, EvaluationKey, EvaluationKeys, KeyGenerator, KeyPurpose,
    PublicKey, SecretEncryptor, SecretKey,
};
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

/// Both rings of a client.
pub struct ClientKeys {
    /// Projections and convolution.
    pub projection: ClientRing,
    /// The scan.
    pub scan: ClientRing,
    /// Bytes of evaluation and public keys sent.
    pub sent_bytes: u64,
}

/// Both rings of a server.
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

fn client_ring(
    channel: &mut Channel,
    plan: &Plan,
    ring: Ring,
    session: &SessionId,
    seed: &SecretSeed,
    sent: &mut u64,
) -> Result<ClientRing, EngineError> {
    let params = CkksParameters::new(plan.chain(ring).clone())?;
    let generator = KeyGenerator::new(&params, seed.derive_seed(ring.name(), 0));
    let secret: Arc<SecretKey> = Arc::new(generator.secret_key()?);
    let public = generator.public_key(&secret, session.public_seed(ring.name()))?;
    let mut send = |bytes: Vec<u8>| -> Result<(), EngineError> {
        *sent += bytes.len() as u64;
        Ok(channel.send(FrameKind::Setup, &bytes)?)
    };
    send(public.to_bytes())?;
    let request = plan.keys(ring);
    for (purpose, level) in purposes(&params, request) {
        send(
            generator
                .evaluation_key(&secret, purpose, level)?
                .to_bytes(),
        )?;
    }
    Ok(ClientRing {
        encryptor: SecretEncryptor::new(&params, Arc::clone(&secret))?,
        decryptor: Decryptor::new(&params, secret)?,
        params,
    })
}

fn server_ring(
    channel: &mut Channel,
    plan: &Plan,
    ring: Ring,
    session: &SessionId,
) -> Result<ServerRing, EngineError> {
    let chain = plan.chain(ring);
    let public_bytes = size::public_key_bytes(chain);
    let request = plan.keys(ring);
    let params = CkksParameters::new(chain.clone())?;
    let public = PublicKey::from_bytes(&params, &channel.recv(FrameKind::Setup, public_bytes)?)?;
    let expected = session.public_seed(ring.name());
    if public.seed().0 != expected.0 {
        return Err(EngineError::Mismatch {
            what: "public key seed",
            here: crate::handshake::hex(&expected.0),
            peer: crate::handshake::hex(&public.seed().0),
        });
    }
    let mut keys = EvaluationKeys::new(&params);
    for (purpose, level) in purposes(&params, request) {
        let bytes = channel.recv(FrameKind::Setup, size::evaluation_key_bytes(chain, level))?;
        let key = EvaluationKey::from_bytes(&params, &bytes)?;
        if key.purpose() != purpose || key.max_level() != level {
            return Err(EngineError::Mismatch {
                what: "evaluation key",
                here: format!("{} up to level {}", purpose.name(&params), level),
                peer: format!(
                    "{} up to level {}",
                    key.purpose().name(&params),
                    key.max_level()
                ),
            });
        }
        keys.insert(key)?;
    }
    Ok(ServerRing {
        params,
        public,
        keys: Arc::new(keys),
    })
}

/// Makes the client's keys from `seed` and sends the public ones.
///
/// # Errors
/// Transport errors; parameters that the plan should have refused.
pub fn send_keys(
    channel: &mut Channel,
    plan: &Plan,
    session: &SessionId,
    seed: &SecretSeed,
) -> Result<ClientKeys, EngineError> {
    let mut sent_bytes = 0;
    let projection = client_ring(
        channel,
        plan,
        Ring::Projection,
        session,
        seed,
        &mut sent_bytes,
    )?;
    let scan = client_ring(channel, plan, Ring::Scan, session, seed, &mut sent_bytes)?;
    Ok(ClientKeys {
        projection,
        scan,
        sent_bytes,
    })
}

/// Receives the client's keys; every length is known from the plan.
///
/// # Errors
/// Transport errors, malformed keys, keys that the plan does not ask for.
pub fn receive_keys(
    channel: &mut Channel,
    plan: &Plan,
    session: &SessionId,
) -> Result<ServerKeys, EngineError> {
    Ok(ServerKeys {
        projection: server_ring(channel, plan, Ring::Projection, session)?,
        scan: server_ring(channel, plan, Ring::Scan, session)?,
    })
}
