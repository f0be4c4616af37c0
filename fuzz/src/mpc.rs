//! Messages of the two-party layer: opening, oblivious transfers, products.

use super::support::{config, edit_bytes, framed_peer, EditedTransport, Input};
use cipherloom_mpc::rlwe::{ClientSums, ProductKey, ProductPublicKey, RlweParameters, ServerSums};
use cipherloom_mpc::session::OPEN_PAYLOADS;
use cipherloom_mpc::{
    Bits, CompareFormat, CotProducts, Domain, MpcConfig, MpcError, Party, Session, Shares, TwoParty,
};
use cipherloom_net::{Channel, FrameKind, MemoryTransport};
use cipherloom_ring::{PublicSeed, SecretSeed};
use cipherloom_spec::fixed::DEFAULT_FRAC;
use std::sync::OnceLock;

fn small() -> MpcConfig {
    MpcConfig {
        cot_k: 2,
        cot_batch: 8192,
        digit_bits: 4,
    }
}

/// The opening (nonce, base OTs, trees) as the peer sends it, in one piece.
pub fn opening(data: &[u8]) -> bool {
    let mut d = Input(data);
    let party = if d.byte() % 2 == 0 {
        Party::Client
    } else {
        Party::Server
    };
    let messages: Vec<(FrameKind, Vec<u8>)> = OPEN_PAYLOADS
        .iter()
        .map(|n| (FrameKind::Ot, d.take(*n).to_vec()))
        .collect();
    let (_peer, channel) = framed_peer(&messages);
    Session::open(channel, party, b"fuzz", small()).is_ok()
}

fn party(channel: Channel, party: Party) -> Result<(Vec<u64>, Option<Vec<u64>>), MpcError> {
    let session = Session::open(channel, party, b"fuzz", small())?;
    let mut two = TwoParty::new(session, Box::new(CotProducts));
    let x = Shares {
        v: vec![1 << 19, 5, u64::MAX, 1 << 40],
        frac: DEFAULT_FRAC,
    };
    let mut bits: Vec<Bits> = two.less_than(
        &x,
        &[0.5, 2.0],
        CompareFormat {
            int_bits: 8,
            kept_frac: 13,
        },
    )?;
    let b = bits.remove(0);
    let y = two.mux(&[(&b, &x)])?;
    two.b2a(&[&b])?;
    let p = two.product(&x, &y[0])?;
    let p = two.truncate(&p, 12)?;
    two.extend_64_88(&p.v)?;
    let first = two.argmax(&x, 21)?;
    two.open_to_client(&first, 2)?;
    let out = two.truncate_reduce_faithful(&p, 7, 40)?;
    let opened = two.open_to_client(&out, 40)?;
    two.into_session().finish()?;
    Ok((out.v, opened))
}

/// A real session of both parties, in which the payloads that one sends are changed on the way. Garbage is not detected
/// where any bits are a message (the parties are semi-honest); nothing may panic, index or wait because of it.
pub fn session(data: &[u8]) -> bool {
    let mut d = Input(data);
    let edited_client = d.byte() % 2 == 0;
    let (a, b) = MemoryTransport::pair();
    let [to_a, to_b]: [&[u8]; 2] = if edited_client {
        [d.0, &[]]
    } else {
        [&[], d.0]
    };
    let end = |t, program: &[u8]| {
        Channel::new(Box::new(EditedTransport::new(t, program)), config()).unwrap()
    };
    let (client, server) = (end(a, to_a), end(b, to_b));
    std::thread::scope(|s| {
        let server = s.spawn(|| party(server, Party::Server));
        let client = party(client, Party::Client);
        // A panic of the other party is one of this target.
        let server = match server.join() {
            Ok(r) => r,
            Err(p) => std::panic::resume_unwind(p),
        };
        client.is_ok() && server.is_ok()
    })
}

/// Recorded messages of products.
pub struct Rlwe {
    pub params: RlweParameters,
    /// The client's public key as the server stores it.
    pub public: Vec<u8>,
    /// The client's upload of one square, and the server's answer to it.
    upload: Vec<u8>,
    answer: Vec<u8>,
}

const WORDS: [u64; 3] = [3, u64::MAX, 1 << 63];

/// The messages of a real run, recorded.
pub fn rlwe() -> &'static Rlwe {
    static RLWE: OnceLock<Rlwe> = OnceLock::new();
    RLWE.get_or_init(|| {
        let params = RlweParameters::crt64().unwrap();
        let public = product_key(&params)
            .public_key(&params, PublicSeed([3; 32]))
            .unwrap();
        let (up, down) = params.sum_bytes(WORDS.len(), 1);
        // The upload, caught; then the server's answer to it, caught.
        let (mut a, mut b) = Channel::memory_pair(config()).unwrap();
        let upload = std::thread::scope(|s| {
            let client = s.spawn(|| client_sums(&params).sums(&mut a, &[&WORDS]).is_ok());
            let upload = b.recv(FrameKind::Ciphertext, up as usize).unwrap();
            drop(b);
            client.join().unwrap();
            upload
        });
        let (mut peer, mut channel) = Channel::memory_pair(config()).unwrap();
        peer.send(FrameKind::Ciphertext, &upload).unwrap();
        ServerSums::new(
            params.clone(),
            public.clone(),
            SecretSeed::from_bytes([5; 32]),
        )
        .sums(&mut channel, &[&WORDS])
        .unwrap();
        let answer = peer.recv(FrameKind::Exported, down as usize).unwrap();
        Rlwe {
            public: public.to_bytes(),
            upload,
            answer,
            params,
        }
    })
}

fn product_key(params: &RlweParameters) -> ProductKey {
    ProductKey::from_seed(params, &SecretSeed::from_bytes([1; 32])).unwrap()
}

fn client_sums(params: &RlweParameters) -> ClientSums {
    ClientSums::new(
        params.clone(),
        product_key(params),
        SecretSeed::from_bytes([4; 32]),
    )
}

/// The stored public key (0), the client's upload at the server (1), the server's answer at the client (2):
/// edits of a valid one.
pub fn products(data: &[u8]) -> bool {
    let r = rlwe();
    let mut d = Input(data);
    match d.byte() % 3 {
        0 => {
            let bytes = edit_bytes(&r.public, d.0);
            match ProductPublicKey::from_bytes(&r.params, &bytes) {
                Ok(key) => {
                    assert!(key.to_bytes() == bytes);
                    true
                }
                Err(MpcError::Length { .. } | MpcError::Malformed { .. }) => false,
                Err(e) => panic!("{e:?}"),
            }
        }
        1 => {
            let key = ProductPublicKey::from_bytes(&r.params, &r.public).unwrap();
            let mut server =
                ServerSums::new(r.params.clone(), key, SecretSeed::from_bytes([5; 32]));
            let (_peer, mut channel) =
                framed_peer(&[(FrameKind::Ciphertext, edit_bytes(&r.upload, d.0))]);
            server.sums(&mut channel, &[&WORDS]).is_ok()
        }
        _ => {
            let (_peer, mut channel) =
                framed_peer(&[(FrameKind::Exported, edit_bytes(&r.answer, d.0))]);
            client_sums(&r.params).sums(&mut channel, &[&WORDS]).is_ok()
        }
    }
}

pub fn seeds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let edit = |tag: u8| vec![tag, 40, 0, 0, 0, 0, 1, 7];
    // The opening of a real party.
    let (mut a, b) = Channel::memory_pair(config()).unwrap();
    let real = std::thread::scope(|s| {
        s.spawn(|| Session::open(b, Party::Server, b"fuzz", small()).map(drop));
        let mut out = vec![0];
        let mine = a.recv(FrameKind::Ot, OPEN_PAYLOADS[0]).unwrap();
        a.send(FrameKind::Ot, &mine).unwrap();
        out.extend(mine);
        let ot = a.recv(FrameKind::Ot, OPEN_PAYLOADS[1]).unwrap();
        a.send(FrameKind::Ot, &ot).unwrap();
        out.extend(ot);
        out.extend(a.recv(FrameKind::Ot, OPEN_PAYLOADS[2]).unwrap());
        drop(a);
        out
    });
    vec![
        ("opening", "ok-real", real),
        ("mpc_session", "ok-unchanged", vec![0]),
        (
            "mpc_session",
            "trees-changed",
            vec![0, 2, 9, 0, 4, 1, 2, 3, 4],
        ),
        (
            "mpc_session",
            "points-changed",
            vec![1, 1, 9, 0, 4, 1, 2, 3, 4],
        ),
        (
            "mpc_session",
            "refill-changed",
            vec![0, 3, 9, 0, 4, 1, 2, 3, 4],
        ),
        ("products", "ok-stored-key", vec![0]),
        ("products", "ok-upload", vec![1]),
        ("products", "ok-answer", vec![2]),
        ("products", "edited-stored-key", edit(0)),
        ("products", "edited-upload", edit(1)),
        ("products", "edited-answer", edit(2)),
    ]
}
