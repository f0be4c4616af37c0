//! poulpy-ckks's worker, on its fastest processor backend (NTT over three 42-bit primes, 52-bit multiply-add).
//!
//! poulpy is not RNS: a ciphertext has a modulus of `2^k` in digits of 52 bits. A product divides by the scale itself.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use peers_protocol::{Error, Operations, Options, max_error, serve, test_values};
use poulpy_ckks::api::{
    CKKSAllOpsTmpBytes, CKKSDecryptOps, CKKSEncodingHostOps, CKKSEncryptOps, CKKSMulOps,
    CKKSRotateOps,
};
use poulpy_ckks::layouts::{CKKSCiphertextAlloc, CKKSCiphertextOwned, CKKSPlaintextAlloc};
use poulpy_ckks::{
    CKKSInfos, CKKSLayout, CKKSModuleInfos, GLWEPlaintextMeta, Scale, SetCKKSInfos, SlotsKind,
};
use poulpy_core::api::{
    GLWEAutomorphismKeyPreparedFactory, GLWESecretPreparedFactory, GLWESecretSampling,
    GLWETensorKeyPreparedFactory,
};
use poulpy_core::layouts::prepared::GLWESecretPrepared;
use poulpy_core::layouts::{
    GGLWELayout, GLWEAutomorphismKeyAlloc, GLWEAutomorphismKeyLayout, GLWEAutomorphismKeyPrepared,
    GLWELayout, GLWESecretAlloc, GLWETensorKeyAlloc, GLWETensorKeyLayout, GLWETensorKeyPrepared,
    Rank, TorusPrecision, k_digit_of,
};
use poulpy_core::{GLWEAutomorphismKeyEncryptSk, GLWETensorKeyEncryptSk};
use poulpy_cpu_avx512::NTT3x42Ifma;
use poulpy_hal::api::{ScratchOwnedAlloc, ScratchOwnedBorrow};
use poulpy_hal::layouts::{Backend, Module, ScratchOwned};
use poulpy_hal::source::Source;
use serde::Deserialize;
use serde_json::{Value, json};

type Be = NTT3x42Ifma;
type Buf = <Be as Backend>::OwnedBuf;

/// Bits of a digit: the radix of the library's own presets on this backend.
const BASE2K: usize = 52;
/// Bits above the scale that a plaintext keeps when it is decrypted.
const HEAD_ROOM: usize = 20;
/// Largest error of a slot: as for the other workers.
const TOLERANCE: f64 = 1e-5;

/// Parameters: keys for ciphertexts of up to `key_bits`, ciphertexts of `ct_bits`.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Point {
    log_n: u32,
    key_bits: usize,
    ct_bits: usize,
    dsize: usize,
    dnum: u32,
    log_delta: usize,
}

impl Point {
    fn glwe(&self, bits: usize) -> GLWELayout {
        GLWELayout {
            n: (1usize << self.log_n).into(),
            base2k: BASE2K.into(),
            k: bits.into(),
            rank: Rank(1),
        }
    }

    fn meta(&self) -> GLWEPlaintextMeta {
        GLWEPlaintextMeta {
            scale: Scale::Log(self.log_delta),
            slots: SlotsKind::Complex,
            log_sparsity: 0,
        }
    }

    /// Bits of the guard modulus below a key's digits.
    fn guard_bits(&self) -> usize {
        self.dsize * BASE2K + self.log_n as usize
    }

    fn tensor_key(&self) -> Result<GLWETensorKeyLayout, Error> {
        let k_digit = k_digit_of(BASE2K, self.dsize);
        let dnum = GGLWELayout::dnum_for_input(TorusPrecision(self.key_bits as u32), k_digit);
        if dnum.0 != self.dnum {
            return Err(format!("{} digits instead of {}", dnum.0, self.dnum).into());
        }
        Ok(GLWETensorKeyLayout {
            n: (1usize << self.log_n).into(),
            base2k: BASE2K.into(),
            dnum,
            k_aux: self.guard_bits().into(),
            rank: Rank(1),
            k_digit,
        })
    }

    fn rotation_key(&self) -> Result<GLWEAutomorphismKeyLayout, Error> {
        let t = self.tensor_key()?;
        Ok(GLWEAutomorphismKeyLayout {
            n: t.n,
            base2k: t.base2k,
            dnum: t.dnum,
            k_aux: t.k_aux,
            rank: t.rank,
            k_digit: t.k_digit,
        })
    }
}

/// Module, keys and working memory of one point.
struct Context {
    point: Point,
    module: Module<Be>,
    secret: GLWESecretPrepared<Buf, Be>,
    tensor: GLWETensorKeyPrepared<Buf, Be>,
    rotation: HashMap<i64, GLWEAutomorphismKeyPrepared<Buf, Be>>,
    scratch: RefCell<ScratchOwned<Be>>,
    /// Noise and masks of encryptions.
    sources: RefCell<(Source, Source)>,
}

impl Context {
    fn new(point: Point) -> Result<Self, Error> {
        let module = Module::<Be>::new(1 << point.log_n);
        let widest = point.glwe(point.key_bits);
        let (tensor_layout, rotation_layout) = (point.tensor_key()?, point.rotation_key()?);
        let mut ct = module.ckks_ciphertext_alloc_from_glwe_infos(&widest);
        ct.set_meta(point.meta());
        let plain = CKKSLayout {
            glwe_layout: point.glwe(point.log_delta + HEAD_ROOM),
            meta: point.meta(),
        };
        let bytes = module
            .ckks_all_ops_with_atk_tmp_bytes(&ct, &plain, &tensor_layout, &rotation_layout)
            .max(
                <Module<Be> as CKKSEncodingHostOps<Be, f64>>::ckks_encoding_host_tmp_bytes(
                    &module,
                    module.ckks_max_slots(),
                ),
            );
        let mut scratch = ScratchOwned::<Be>::alloc(bytes);

        // Fixed seeds: the keys of a benchmark guard nothing.
        let mut source = Source::new([1; 32]);
        let (mut xe, mut xa) = (Source::new([2; 32]), Source::new([3; 32]));
        let mut raw = module.glwe_secret_alloc_from_infos(&widest);
        module.glwe_secret_fill_ternary_prob(&mut raw, 2.0 / 3.0, &mut source);
        let mut secret = module.glwe_secret_prepared_alloc_from_infos(&widest);
        module.glwe_secret_prepare(&mut secret, &raw);

        let mut key = module.glwe_tensor_key_alloc_from_infos(&tensor_layout);
        module.glwe_tensor_key_encrypt_sk(&mut key, &raw, &mut xe, &mut xa, &mut scratch.borrow());
        let mut tensor = module.glwe_tensor_key_prepared_alloc_from_infos(&tensor_layout);
        module.glwe_tensor_key_prepare(&mut tensor, &key, &mut scratch.borrow());

        let element = module.ckks_galois_element(1);
        let mut key = module.glwe_automorphism_key_alloc_from_infos(&rotation_layout);
        module.glwe_automorphism_key_encrypt_sk(
            &mut key,
            element,
            &raw,
            &mut xe,
            &mut xa,
            &mut scratch.borrow(),
        );
        let mut prepared = module.glwe_automorphism_key_prepared_alloc_from_infos(&rotation_layout);
        module.glwe_automorphism_key_prepare(&mut prepared, &key, &mut scratch.borrow());
        Ok(Self {
            point,
            module,
            secret,
            tensor,
            rotation: HashMap::from([(element, prepared)]),
            scratch: RefCell::new(scratch),
            sources: RefCell::new((xe, xa)),
        })
    }

    fn slots(&self) -> usize {
        self.module.ckks_max_slots()
    }

    /// An empty ciphertext of so many bits.
    fn ciphertext(&self, bits: usize) -> CKKSCiphertextOwned<Be> {
        self.module
            .ckks_ciphertext_alloc_from_glwe_infos(&self.point.glwe(bits))
    }

    fn encrypt(&self, values: &[f64], bits: usize) -> Result<CKKSCiphertextOwned<Be>, Error> {
        let scratch = &mut *self.scratch.borrow_mut();
        let (xe, xa) = &mut *self.sources.borrow_mut();
        let mut plain = self.module.ckks_plaintext_alloc_from_slots(
            self.slots(),
            BASE2K.into(),
            (self.point.log_delta + HEAD_ROOM).into(),
        );
        plain.set_meta(self.point.meta());
        self.module.ckks_encode_slots_host_into(
            &mut plain,
            values,
            &vec![0.0; values.len()],
            &mut scratch.borrow(),
        )?;
        let mut ct = self.ciphertext(bits);
        self.module.ckks_encrypt_sk(
            &mut ct,
            &plain,
            &self.secret,
            xe,
            xa,
            &mut scratch.borrow(),
        )?;
        Ok(ct)
    }

    /// Real parts; the imaginary parts must be zero and count as errors.
    fn error(&self, ct: &CKKSCiphertextOwned<Be>, want: &[f64]) -> Result<f64, Error> {
        let scratch = &mut *self.scratch.borrow_mut();
        let room = HEAD_ROOM.min(ct.log_budget());
        let mut plain = self.module.ckks_plaintext_alloc_from_slots(
            self.slots(),
            BASE2K.into(),
            (ct.log_delta() + room).into(),
        );
        plain.set_meta(ct.meta());
        self.module
            .ckks_decrypt(&mut plain, ct, &self.secret, &mut scratch.borrow())?;
        let (mut re, mut im) = (vec![0.0f64; self.slots()], vec![0.0f64; self.slots()]);
        self.module
            .ckks_decode_slots_host_into(&plain, &mut re, &mut im, &mut scratch.borrow())?;
        Ok(max_error(&re, want).max(max_error(&im, &vec![0.0; im.len()])))
    }
}

fn operations(context: &Rc<Context>) -> Result<Operations, Error> {
    let (bits, slots) = (context.point.ct_bits, context.slots());
    let (a, b) = (test_values(slots, 1), test_values(slots, 2));
    let ct_a = Rc::new(context.encrypt(&a, bits)?);
    let ct_b = context.encrypt(&b, bits)?;
    let mut ops = Operations::new();

    // Results go to a ciphertext that is there already, as the library's own interface has it.
    let out = Rc::new(RefCell::new(
        context.ciphertext(bits - context.point.log_delta),
    ));
    let (c, x, dst) = (context.clone(), ct_a.clone(), out.clone());
    let d = context.clone();
    let want: Vec<f64> = a.iter().zip(&b).map(|(x, y)| x * y).collect();
    ops.add_with(
        "mul_relin_rescale",
        TOLERANCE,
        Options {
            note: Some("its product rescales itself; into a given ciphertext"),
            ..Options::default()
        },
        move || {
            let scratch = &mut *c.scratch.borrow_mut();
            Ok(c.module.ckks_mul_into(
                &mut *dst.borrow_mut(),
                &*x,
                &ct_b,
                &c.tensor,
                &mut scratch.borrow(),
            )?)
        },
        move |()| d.error(&out.borrow(), &want),
    );

    let out = Rc::new(RefCell::new(context.ciphertext(bits)));
    let (c, x, dst) = (context.clone(), ct_a, out.clone());
    let d = context.clone();
    let mut want = a;
    want.rotate_left(1);
    ops.add_with(
        "rotate",
        TOLERANCE,
        Options {
            note: Some("into a given ciphertext"),
            ..Options::default()
        },
        move || {
            let scratch = &mut *c.scratch.borrow_mut();
            Ok(c.module.ckks_rotate_into(
                1,
                &mut *dst.borrow_mut(),
                &*x,
                &c.rotation,
                &mut scratch.borrow(),
            )?)
        },
        move |()| d.error(&out.borrow(), &want),
    );
    Ok(ops)
}

fn main() -> std::io::Result<()> {
    // Keys are made once for a parameter set, also when only the ciphertexts' width changes.
    let mut kept: Option<Rc<Context>> = None;
    serve(
        move |params: &Value| -> Result<(Value, Operations), Error> {
            let point: Point = serde_json::from_value(params.clone())?;
            let same_keys = |c: &Context| {
                c.point
                    == Point {
                        ct_bits: c.point.ct_bits,
                        ..point.clone()
                    }
            };
            let context = match kept.take().and_then(Rc::into_inner) {
                Some(context) if same_keys(&context) => Context {
                    point: point.clone(),
                    ..context
                },
                other => {
                    drop(other);
                    Context::new(point.clone())?
                }
            };
            let context = Rc::new(context);
            let ops = operations(&context)?;
            let info = json!({
                "backend": "NTT3x42Ifma",
                "log_qp": context.point.dnum as usize * context.point.dsize * BASE2K + context.point.guard_bits(),
                "ct_bits": context.point.ct_bits,
            });
            kept = Some(context);
            Ok((info, ops))
        },
    )
}
