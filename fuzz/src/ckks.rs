//! CKKS objects and the crossings between ciphertexts and shares, over a toy ring.

use super::support::{framed_peer, Input};
use cipherloom_bridge::{CkksToShares, ExportDecryptor, SharesToCkks, SlotWords, WideFft};
use cipherloom_ckks::{
    Ciphertext, CkksError, CkksParameters, Decryptor, Encoder, EvaluationKey, EvaluationKeys,
    Evaluator, KeyGenerator, PublicKey, SecretEncryptor, SecretKey, SeededCiphertext,
};
use cipherloom_mpc::export::{export, ExportKey, Exported, PreparedExport, ReceivedExport};
use cipherloom_net::FrameKind;
use cipherloom_ring::{Coeff, Ntt, Poly, PublicSeed, SecretPrg, SecretSeed};
use cipherloom_spec::fixed::DEFAULT_FRAC;
use cipherloom_spec::CkksLiteral;
use std::sync::{Arc, OnceLock};

/// 16 slots, two levels. No security at all.
pub fn toy() -> CkksLiteral {
    CkksLiteral {
        log_n: 5,
        q_bits: vec![50, 50, 40, 40],
        p_bits: vec![50, 50],
        log_scale: 40,
        dnum: 2,
    }
}

/// A client and its keys over the toy ring, from fixed seeds.
pub struct Toy {
    pub params: CkksParameters,
    pub generator: KeyGenerator,
    pub secret: Arc<SecretKey>,
    pub public: PublicKey,
    pub encoder: Encoder,
    pub encryptor: SecretEncryptor,
}

/// The toy client.
pub fn client() -> &'static Toy {
    static TOY: OnceLock<Toy> = OnceLock::new();
    TOY.get_or_init(Toy::new)
}

impl Toy {
    /// The same client each time, with all its randomness before it.
    pub fn new() -> Self {
        let params = CkksParameters::insecure_for_tests(toy().insecure_build().unwrap()).unwrap();
        let seed = |tag: u8| SecretSeed::from_bytes([tag; 32]);
        let generator = KeyGenerator::new(&params, seed(1));
        let secret = Arc::new(generator.secret_key().unwrap());
        let encryptor =
            SecretEncryptor::insecure_with_seed(&params, Arc::clone(&secret), seed(3)).unwrap();
        Self {
            public: generator.public_key(&secret, PublicSeed([2; 32])).unwrap(),
            encoder: Encoder::new(&params),
            encryptor,
            generator,
            secret,
            params,
        }
    }

    /// Slots 1, 2, 3, ... at a level, seeded.
    pub fn seeded(&self, level: usize) -> SeededCiphertext {
        let values: Vec<f64> = (0..self.params.slots()).map(|i| i as f64 + 1.0).collect();
        let plain = self
            .encoder
            .encode_real(&values, level, self.params.scale(level))
            .unwrap();
        self.encryptor.encrypt(&plain).unwrap()
    }

    pub fn relinearization(&self) -> EvaluationKey {
        self.generator.relinearization_key(&self.secret, 3).unwrap()
    }

    pub fn rotation(&self) -> EvaluationKey {
        self.generator.rotation_key(&self.secret, 3, 2).unwrap()
    }
}

/// One encoded object: public key, evaluation key, seeded ciphertext or ciphertext. What is accepted encodes to the same
/// bytes, and is used.
pub fn objects(data: &[u8]) -> bool {
    let t = client();
    let p = &t.params;
    let mut accepted = 0;
    let mut same = |encoded: Result<Vec<u8>, CkksError>| {
        if let Ok(bytes) = encoded {
            assert_eq!(bytes, data);
            accepted += 1;
        }
    };
    same(PublicKey::from_bytes(p, data).map(|k| k.to_bytes()));
    same(EvaluationKey::from_bytes(p, data).map(|k| {
        let bytes = k.to_bytes();
        let purpose = k.purpose();
        let mut keys = EvaluationKeys::new(p);
        keys.insert(k).unwrap();
        assert!(keys.contains(purpose) && !purpose.name(p).is_empty());
        assert!(keys.rotations().len() <= 1);
        Evaluator::new(p, keys).unwrap();
        bytes
    }));
    same(SeededCiphertext::from_bytes(p, data).map(|c| {
        let bytes = c.to_bytes();
        use_it(t, &c.expand(p).unwrap());
        bytes
    }));
    same(Ciphertext::from_bytes(p, data).map(|c| {
        use_it(t, &c);
        c.to_bytes()
    }));
    assert!(accepted <= 1);
    accepted == 1
}

/// Decryption and decoding work or say why not, for any level, scale and degree.
fn use_it(t: &Toy, c: &Ciphertext) {
    let decryptor = Decryptor::new(&t.params, Arc::clone(&t.secret)).unwrap();
    if let Ok(plain) = decryptor.decrypt(c) {
        let _ = t.encoder.decode(&plain);
    }
    let evaluator = Evaluator::new(&t.params, EvaluationKeys::new(&t.params)).unwrap();
    let _ = evaluator.rescale(c);
    let _ = evaluator.add(c, c);
}

/// Exported ciphertexts at the client: degree, number, the message; decrypted.
pub fn exports(data: &[u8]) -> bool {
    let t = client();
    let mut d = Input(data);
    let (degree, count) = (1 + usize::from(d.byte() % 2), usize::from(d.byte() % 4));
    let basis = t.params.basis(1).unwrap();
    let (_peer, mut channel) = framed_peer(&[(FrameKind::Exported, d.0.to_vec())]);
    let got = ReceivedExport::recv_all(&mut channel, &basis, degree, count);
    got.is_ok_and(|all| {
        assert_eq!(all.len(), count);
        count > 0
    })
}

/// The server at the crossing to ciphertexts, and the client at the crossing to shares: one message of the peer each.
pub fn crossings(data: &[u8]) -> bool {
    let t = client();
    let mut d = Input(data);
    let which = d.byte();
    let fft = Arc::new(WideFft::new(5).unwrap());
    let message = d.0.to_vec();
    if which % 2 == 0 {
        let boundary = SharesToCkks::new(&t.params, &fft, 3, DEFAULT_FRAC).unwrap();
        let (_peer, mut channel) = framed_peer(&[(FrameKind::Ciphertext, message)]);
        let words = SlotWords::new(vec![5; 16], vec![]).unwrap();
        return boundary.server(&[words], &mut channel).is_ok();
    }
    let boundary = CkksToShares::new(&t.params, &fft, t.params.scale(1), DEFAULT_FRAC).unwrap();
    let decryptor = Decryptor::new(&t.params, Arc::clone(&t.secret)).unwrap();
    let decryptor = ExportDecryptor::new(&t.params, &decryptor).unwrap();
    let (_peer, mut channel) = framed_peer(&[(FrameKind::Exported, message)]);
    match boundary.client(1, &decryptor, &mut channel) {
        Ok(words) => {
            assert_eq!(words[0].to_ring64().0.len(), 16);
            true
        }
        Err(_) => false,
    }
}

/// One exported ciphertext of degree `degree` that holds slots 1, 2, 3, ...: the message.
pub fn export_message(degree: usize) -> Vec<u8> {
    let t = client();
    let basis = t.params.basis(1).unwrap();
    let key = ExportKey::new(
        t.public.b().prefix(2).unwrap(),
        t.public.a().prefix(2).unwrap(),
    )
    .unwrap();
    let mut prg: SecretPrg = SecretSeed::from_bytes([9; 32]).derive("export", 0);
    let prepared = PreparedExport::new(&key, &basis, degree, &mut prg).unwrap();
    let c = t.seeded(1).expand(&t.params).unwrap();
    let mut parts = c.into_parts();
    let c0: Poly<Coeff> = parts.remove(0).into_coeff();
    parts.resize(degree, Poly::<Ntt>::zero(&basis));
    let (exported, _mask) = export(c0, parts, prepared).unwrap();
    let (mut a, mut b) = cipherloom_net::Channel::memory_pair(super::support::config()).unwrap();
    exported.send(&mut a).unwrap();
    b.recv(FrameKind::Exported, Exported::byte_len(&basis, degree))
        .unwrap()
}

pub fn seeds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let t = client();
    let two = |degree: u8, count: u8, m: Vec<u8>| [vec![degree - 1, count], m].concat();
    let seeded = t.seeded(3).to_bytes();
    vec![
        ("ckks_objects", "ok-public-key", t.public.to_bytes()),
        (
            "ckks_objects",
            "ok-relinearization",
            t.relinearization().to_bytes(),
        ),
        ("ckks_objects", "ok-rotation", t.rotation().to_bytes()),
        ("ckks_objects", "ok-seeded", seeded.clone()),
        (
            "ckks_objects",
            "ok-ciphertext",
            t.seeded(1).expand(&t.params).unwrap().to_bytes(),
        ),
        ("exports", "ok-one", two(1, 1, export_message(1))),
        ("exports", "ok-degree-two", two(2, 1, export_message(2))),
        (
            "exports",
            "ok-two",
            two(1, 2, [export_message(1), export_message(1)].concat()),
        ),
        ("crossings", "ok-to-ckks", [vec![0], seeded].concat()),
        (
            "crossings",
            "ok-to-shares",
            [vec![1], export_message(1)].concat(),
        ),
    ]
}
