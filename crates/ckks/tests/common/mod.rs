//! Every public operation of the crate, run once, as a list of digests: what tests compare between backends and threads.
#![allow(dead_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cipherloom_ckks::{Ciphertext, CkksError, Complex64, Decryptor, KeyPurpose, Plaintext};
use cipherloom_ring::PublicSeed;
use cipherloom_spec::{CkksLiteral, Scale};
use cipherloom_testkit::fixture::test_values;
use cipherloom_testkit::CkksFixture;

/// Rotations that the fixtures of these tests have keys for.
pub const ROTATIONS: [i64; 2] = [1, 5];

/// `[50, 50, 40 x levels]` with `special` special primes of 50 bits, scale 2^40. Insecure.
pub fn insecure_literal(log_n: u32, levels: usize, special: usize, dnum: u32) -> CkksLiteral {
    let mut q_bits = vec![50, 50];
    q_bits.resize(2 + levels, 40);
    CkksLiteral {
        log_n,
        q_bits,
        p_bits: vec![50; special],
        log_scale: 40,
        dnum,
    }
}

/// Results by the operation that gave them: source file without its ending, and function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record(pub Vec<(&'static str, [u8; 32])>);

impl Record {
    fn bytes(&mut self, name: &'static str, bytes: &[u8]) {
        self.0.push((name, *blake3::hash(bytes).as_bytes()));
    }

    fn ct(&mut self, name: &'static str, ct: &Ciphertext) {
        self.bytes(name, &ct.to_bytes());
    }

    /// An operation in place, which must give the bits of the one that makes a new ciphertext.
    fn in_place(
        &mut self,
        name: &'static str,
        a: &Ciphertext,
        want: Result<Ciphertext, CkksError>,
        f: impl Fn(&mut Ciphertext) -> Result<(), CkksError>,
    ) {
        let mut got = a.clone();
        f(&mut got).unwrap();
        assert_eq!(got, want.unwrap(), "{name}");
        self.ct(name, &got);
    }

    fn plain(&mut self, name: &'static str, plain: &Plaintext) {
        let mut bytes = plain.poly().to_bytes();
        bytes.extend(format!("{:?}", plain.scale()).bytes());
        self.bytes(name, &bytes);
    }

    fn values(&mut self, name: &'static str, values: &[Complex64]) {
        let bits = values.iter().flat_map(|v| [v.re, v.im]);
        let bytes: Vec<u8> = bits.flat_map(|x| x.to_bits().to_le_bytes()).collect();
        self.bytes(name, &bytes);
    }

    /// Fails with the name of the first operation that differs.
    pub fn assert_same(&self, other: &Self, what: &str) {
        assert_eq!(self.0.len(), other.0.len(), "{what}");
        for (i, (a, b)) in self.0.iter().zip(&other.0).enumerate() {
            assert_eq!(a.0, b.0, "{what}: result {i}");
            assert!(a.1 == b.1, "{what}: {} differs (result {i})", a.0);
        }
    }
}

/// Two ciphertexts at each level that [`operations`] works at.
pub struct Inputs {
    pairs: Vec<[Ciphertext; 2]>,
}

impl Inputs {
    pub fn new(f: &CkksFixture) -> Self {
        let (top, base) = (f.params.top_level(), f.params.base_level());
        let pairs = [top, base + 1, base]
            .map(|level| [3, 4].map(|seed| f.encrypt(&test_values(f.params.slots(), seed), level)));
        Self {
            pairs: pairs.into(),
        }
    }
}

/// Key generation and encryption. Changes the state of the encryptors.
pub fn keys_and_encryptions(f: &CkksFixture) -> Record {
    let mut r = Record::default();
    let (params, keygen, sk) = (&f.params, &f.keygen, &f.secret_key);
    let top = params.top_level();
    let base = params.base_level();
    r.bytes(
        "keygen.public_key",
        &keygen
            .public_key(sk, PublicSeed([7; 32]))
            .unwrap()
            .to_bytes(),
    );
    for level in [top, base] {
        let relin = keygen.relinearization_key(sk, level).unwrap();
        r.bytes("keygen.relinearization_key", &relin.to_bytes());
        let rotation = keygen.rotation_key(sk, -3, level).unwrap();
        r.bytes("keygen.rotation_key", &rotation.to_bytes());
        let conjugation = keygen.conjugation_key(sk, level).unwrap();
        r.bytes("keygen.conjugation_key", &conjugation.to_bytes());
        let purpose = KeyPurpose::Galois(params.galois_element(2));
        let key = keygen.evaluation_key(sk, purpose, level).unwrap();
        r.bytes("keygen.evaluation_key", &key.to_bytes());

        let values = test_values(params.slots(), 9);
        let plain = f
            .encoder
            .encode(&values, level, params.scale(level))
            .unwrap();
        let ct = f.encryptor.encrypt(&plain).unwrap();
        r.ct("encrypt.encrypt", &ct);
        let (c0, c1) = f.encryptor.zero(level).unwrap();
        r.bytes("encrypt.zero", &c0.to_bytes());
        r.bytes("encrypt.zero", &c1.to_bytes());
        let sealed = &f.secret_encryptor;
        let seeded = [
            ("encrypt.encrypt", sealed.encrypt(&plain)),
            (
                "encrypt.encrypt_poly",
                sealed.encrypt_poly(plain.poly(), plain.scale()),
            ),
            (
                "encrypt.encrypt_coeffs",
                sealed.encrypt_coeffs(&plain.poly().to_coeff(), plain.scale()),
            ),
        ];
        for (name, seeded) in seeded {
            let seeded = seeded.unwrap();
            r.bytes(name, &seeded.to_bytes());
            r.ct(name, &seeded.expand(params).unwrap());
        }
        // A secret key is known by what it decrypts.
        let again = Decryptor::new(params, keygen.secret_key().unwrap().into()).unwrap();
        let seen = again.decrypt_ntt(&ct).unwrap();
        r.bytes("keygen.secret_key", &seen.to_bytes());
        assert_eq!(seen, f.decryptor.decrypt_ntt(&ct).unwrap());
    }
    r
}

/// Encoding, evaluation and decryption: functions of the inputs, whatever else runs.
pub fn operations(f: &CkksFixture, inputs: &Inputs) -> Record {
    let mut r = Record::default();
    for [a, b] in &inputs.pairs {
        encodings(f, a, &mut r);
        sums(f, a, b, &mut r);
        key_switches(f, a, b, &mut r);
        if a.level() > f.params.base_level() {
            products_and_levels(f, a, b, &mut r);
        }
    }
    r
}

fn encodings(f: &CkksFixture, a: &Ciphertext, r: &mut Record) {
    let (e, params, level) = (&f.encoder, &f.params, a.level());
    let scale = params.scale(level);
    let values = test_values(params.slots(), level as u64);
    let real: Vec<f64> = values[1..].iter().map(|v| v.re).collect();
    r.plain("encoder.encode", &e.encode(&values, level, scale).unwrap());
    // Wide coefficients take another path.
    let wide = scale.times(scale);
    if level > 1 {
        r.plain("encoder.encode", &e.encode(&values, level, wide).unwrap());
    }
    r.plain(
        "encoder.encode_real",
        &e.encode_real(&real, level, scale).unwrap(),
    );
    let period = &values[..params.slots() / 4];
    r.plain(
        "encoder.encode_repeated",
        &e.encode_repeated(period, level, scale).unwrap(),
    );
    r.plain(
        "encoder.encode_constant",
        &e.encode_constant(values[0], level, scale).unwrap(),
    );
    if level > params.base_level() {
        r.plain(
            "encoder.encode_for_product",
            &e.encode_for_product(&values, level).unwrap(),
        );
        r.plain(
            "encoder.encode_real_for_product",
            &e.encode_real_for_product(&real, level).unwrap(),
        );
    }
    let ntt = f.decryptor.decrypt_ntt(a).unwrap();
    r.bytes("decrypt.decrypt_ntt", &ntt.to_bytes());
    let coeffs = f.decryptor.decrypt_coeffs(a).unwrap();
    r.bytes("decrypt.decrypt_coeffs", &coeffs.to_bytes());
    let plain = f.decryptor.decrypt(a).unwrap();
    r.plain("decrypt.decrypt", &plain);
    r.values("encoder.decode", &e.decode(&plain).unwrap());
    let real: Vec<Complex64> = e
        .decode_real(&plain)
        .unwrap()
        .iter()
        .map(|&x| x.into())
        .collect();
    r.values("encoder.decode_real", &real);
    let decoded = e.decode_coeffs(&coeffs, plain.scale()).unwrap();
    r.values("encoder.decode_coeffs", &decoded);
}

fn sums(f: &CkksFixture, a: &Ciphertext, b: &Ciphertext, r: &mut Record) {
    let (ev, level) = (&f.evaluator, a.level());
    let values = test_values(f.params.slots(), 11);
    let plain = f.encoder.encode(&values, level, a.scale()).unwrap();
    r.ct("evaluator.add", &ev.add(a, b).unwrap());
    r.ct("evaluator.sub", &ev.sub(a, b).unwrap());
    let mut c = a.clone();
    ev.add_assign(&mut c, b).unwrap();
    r.ct("evaluator.add_assign", &c);
    ev.sub_assign(&mut c, a).unwrap();
    r.ct("evaluator.sub_assign", &c);
    r.ct("evaluator.neg", &ev.neg(a).unwrap());
    r.ct("evaluator.add_plain", &ev.add_plain(a, &plain).unwrap());
    r.ct("evaluator.sub_plain", &ev.sub_plain(a, &plain).unwrap());
    r.ct(
        "evaluator.add_constant",
        &ev.add_constant(a, values[0]).unwrap(),
    );
    let terms = [(a, values[1]), (b, values[2]), (a, values[3])];
    let scale = a.scale().times(Scale::pow2(30));
    for level in [level, (level / 2).max(1)] {
        let sum = ev.linear_combination(&terms, values[0], level, scale);
        r.ct("evaluator.linear_combination", &sum.unwrap());
    }
    let e = "evaluator.neg_assign";
    r.in_place(e, a, ev.neg(a), |c| ev.neg_assign(c));
    let (e, p) = ("evaluator.add_plain_assign", &plain);
    r.in_place(e, a, ev.add_plain(a, p), |c| ev.add_plain_assign(c, p));
    let e = "evaluator.sub_plain_assign";
    r.in_place(e, a, ev.sub_plain(a, p), |c| ev.sub_plain_assign(c, p));
    let (e, v) = ("evaluator.add_constant_assign", values[0]);
    r.in_place(e, a, ev.add_constant(a, v), |c| {
        ev.add_constant_assign(c, v)
    });
    let e = "evaluator.mul_by_i_assign";
    r.in_place(e, a, ev.mul_by_i(a), |c| ev.mul_by_i_assign(c));
    let e = "evaluator.mul_by_neg_i_assign";
    r.in_place(e, a, ev.mul_by_neg_i(a), |c| ev.mul_by_neg_i_assign(c));
    let (e, low) = ("evaluator.drop_level_assign", level / 2);
    r.in_place(e, a, ev.drop_level(a, low), |c| {
        ev.drop_level_assign(c, low)
    });
    r.ct("evaluator.mul_by_i", &ev.mul_by_i(a).unwrap());
    r.ct("evaluator.mul_by_neg_i", &ev.mul_by_neg_i(a).unwrap());
    r.ct("evaluator.drop_level", &ev.drop_level(a, 0).unwrap());
    let low = ev.drop_level(a, level / 2).unwrap();
    r.ct("evaluator.drop_level", &low);
}

fn key_switches(f: &CkksFixture, a: &Ciphertext, b: &Ciphertext, r: &mut Record) {
    let (ev, params) = (&f.evaluator, &f.params);
    let [k, l] = ROTATIONS;
    r.ct("evaluator.rotate", &ev.rotate(a, k).unwrap());
    r.ct("evaluator.rotate", &ev.rotate(b, l).unwrap());
    r.ct("evaluator.rotate", &ev.rotate(a, 0).unwrap());
    r.ct("evaluator.conjugate", &ev.conjugate(a).unwrap());
    let g = params.galois_element(l);
    r.ct("evaluator.apply_galois", &ev.apply_galois(a, g).unwrap());
    let hoisted = ev.hoist(a).unwrap();
    r.ct("evaluator.hoist", hoisted.ciphertext());
    r.ct(
        "evaluator.rotate_hoisted",
        &ev.rotate_hoisted(&hoisted, k).unwrap(),
    );
    r.ct(
        "evaluator.galois_hoisted",
        &ev.galois_hoisted(&hoisted, params.conjugation_element())
            .unwrap(),
    );
    for rotated in ev.rotate_many(b, &ROTATIONS).unwrap() {
        r.ct("evaluator.rotate_many", &rotated);
    }
    // Enough for several keys in one pass, a copy between them, and some left over.
    let many = [&ROTATIONS[..], &ROTATIONS, &[0], &ROTATIONS, &ROTATIONS].concat();
    for rotated in ev.rotate_hoisted_many(&hoisted, &many).unwrap() {
        r.ct("evaluator.rotate_hoisted_many", &rotated);
    }
    // Below the level of the keys, on a level whose last digit is short.
    let low = ev.drop_level(a, 0).unwrap();
    r.ct("evaluator.rotate", &ev.rotate(&low, k).unwrap());
    let degree2 = ev.mul(a, b).unwrap();
    r.ct("evaluator.mul", &degree2);
    r.ct("evaluator.relinearize", &ev.relinearize(&degree2).unwrap());
    r.ct("evaluator.mul_relin", &ev.mul_relin(a, b).unwrap());
}

fn products_and_levels(f: &CkksFixture, a: &Ciphertext, b: &Ciphertext, r: &mut Record) {
    let (ev, params, level) = (&f.evaluator, &f.params, a.level());
    let values = test_values(params.slots(), 13);
    let plain = f.encoder.encode_for_product(&values, level).unwrap();
    let product = ev.mul_plain(a, &plain).unwrap();
    r.ct("evaluator.mul_plain", &product);
    r.ct("evaluator.rescale", &ev.rescale(&product).unwrap());
    // More terms than any backend adds up without a reduction.
    let terms: Vec<_> = (0..20)
        .map(|i| (if i % 3 == 0 { b } else { a }, &plain))
        .collect();
    r.ct(
        "evaluator.mul_plain_sum",
        &ev.mul_plain_sum(&terms).unwrap(),
    );
    r.ct(
        "evaluator.mul_plain_accumulate",
        &ev.mul_plain_accumulate(&terms[..2]).unwrap(),
    );
    let mut acc = product;
    ev.mul_plain_add_assign(&mut acc, b, &plain).unwrap();
    r.ct("evaluator.mul_plain_add_assign", &acc);
    let scaled = ev.mul_constant(a, values[0], plain.scale()).unwrap();
    r.ct("evaluator.mul_constant", &scaled);
    let (e, p) = ("evaluator.mul_plain_assign", &plain);
    r.in_place(e, a, ev.mul_plain(a, p), |c| ev.mul_plain_assign(c, p));
    let (e, v, s) = ("evaluator.mul_constant_assign", values[0], plain.scale());
    r.in_place(e, a, ev.mul_constant(a, v, s), |c| {
        ev.mul_constant_assign(c, v, s)
    });
    let degree2 = ev.mul(a, b).unwrap();
    let e = "evaluator.rescale_assign";
    r.in_place(e, &degree2, ev.rescale(&degree2), |c| ev.rescale_assign(c));
    let e = "evaluator.mul_plain_assign";
    let low = f.encoder.encode(&values, level, Scale::pow2(15)).unwrap();
    r.in_place(e, &degree2, ev.mul_plain(&degree2, &low), |c| {
        ev.mul_plain_assign(c, &low)
    });
    r.ct(
        "evaluator.relinearize_rescale",
        &ev.relinearize_rescale(&degree2).unwrap(),
    );
    r.ct(
        "evaluator.mul_relin_rescale",
        &ev.mul_relin_rescale(a, b).unwrap(),
    );
    r.ct("evaluator.rescale", &ev.rescale(&degree2).unwrap());
    r.ct("evaluator.align", &ev.align(a, level).unwrap());
    r.ct("evaluator.align", &ev.align(a, level - 1).unwrap());
    let base = params.base_level();
    r.ct("evaluator.align", &ev.align(a, base).unwrap());
}
