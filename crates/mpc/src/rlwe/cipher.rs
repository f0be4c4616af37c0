//! Uploaded ciphertexts: seeded secret-key encryptions of slot vectors modulo one `t_i`, and what the server computes
//! from them.

use cipherloom_ring::{Coeff, Ntt, Poly, PublicSeed, RingError, SecretPoly, SecretPrg, UniformXof};
use zeroize::Zeroizing;

use crate::export::{export, Exported, Mask, PreparedExport, ReceivedExport};
use crate::rlwe::params::SEED_BYTES;
use crate::rlwe::scaling::PlainModulus;
use crate::rlwe::{ring_error, ProductKey, RlweParameters};
use crate::MpcError;

/// An uploaded ciphertext at the server, NTT form over `q`.
pub struct Uploaded {
    pub(crate) c0: Poly<Ntt>,
    pub(crate) c1: Poly<Ntt>,
}

/// Encrypts up to N words, reduced modulo `t`, in slots: `c_1 = a` from its own 256-bit seed,
/// `c_0 = -a s + e + round(q x / t)`. Appends seed and `c_0` to `out`. Cost: `limbs + 1` NTTs.
///
/// # Errors
/// `Ring` in practice never.
pub(crate) fn encrypt(
    params: &RlweParameters,
    plain: &PlainModulus,
    key: &ProductKey,
    words: &[u64],
    prg: &mut SecretPrg,
    out: &mut Vec<u8>,
) -> Result<(), MpcError> {
    let err = ring_error("product upload");
    let seed = prg.public_seed();
    let mut x = Zeroizing::new(plain.residues(words));
    plain.slots_to_coefficients(&mut x)?;
    let mut c0 = plain.scale_up(&x)?;
    let e = prg.cbd21_poly(params.upload_basis()).map_err(err)?;
    c0.add_assign(e.expose()).map_err(err)?;
    let mut c0 = c0.into_ntt();
    let mut a_s = UniformXof::new(seed).poly::<Ntt>(params.upload_basis());
    a_s.mul_assign(key.secret().expose()).map_err(err)?;
    c0.sub_assign(&a_s).map_err(err)?;
    a_s.zeroize();
    out.extend_from_slice(&seed.0);
    out.extend_from_slice(&c0.to_bytes());
    Ok(())
}

impl Uploaded {
    /// Reads what [`encrypt`] appended.
    pub(crate) fn from_bytes(params: &RlweParameters, bytes: &[u8]) -> Result<Self, MpcError> {
        let (seed, c0) = bytes
            .split_first_chunk::<SEED_BYTES>()
            .ok_or(MpcError::Length {
                op: "product upload",
                left: bytes.len(),
                right: params.upload_ciphertext_bytes(),
            })?;
        let c0 = Poly::<Ntt>::from_bytes(params.upload_basis(), c0).map_err(|e: RingError| {
            MpcError::Malformed {
                op: "product upload",
                detail: e.to_string(),
            }
        })?;
        Ok(Self {
            c0,
            c1: UniformXof::new(PublicSeed(*seed)).poly(params.upload_basis()),
        })
    }
}

/// The server's operand in NTT form over `q`: slots modulo `t`, centred coefficients. Cost: `limbs + 1` NTTs.
pub(crate) fn operand(plain: &PlainModulus, words: &[u64]) -> Result<SecretPoly<Ntt>, MpcError> {
    let mut w = Zeroizing::new(plain.residues(words));
    plain.slots_to_coefficients(&mut w)?;
    Ok(SecretPoly::new(plain.centred(&w)).into_ntt())
}

/// `sum_k Enc(x_k) w_k`, switched to `q'`: `c_0` in coefficients, `c_1` in NTT form. Still unmasked: the only way on is
/// [`answer`].
pub(crate) fn weighted_sum(
    params: &RlweParameters,
    terms: &[(&Uploaded, &SecretPoly<Ntt>)],
) -> Result<(Poly<Coeff>, Poly<Ntt>), MpcError> {
    let err = ring_error("product sum");
    let mut c0 = Poly::<Ntt>::zero(params.upload_basis());
    let mut c1 = c0.clone();
    let t0: Vec<_> = terms.iter().map(|(u, w)| (&u.c0, w.expose())).collect();
    let t1: Vec<_> = terms.iter().map(|(u, w)| (&u.c1, w.expose())).collect();
    // One reduction serves up to 15 products.
    for (a, b) in t0.chunks(15).zip(t1.chunks(15)) {
        c0.dot_add_assign(a).map_err(err)?;
        c1.dot_add_assign(b).map_err(err)?;
    }
    let mut c0 = c0.into_coeff();
    while c0.limbs() > params.export_basis().len() {
        c0.rescale().map_err(err)?;
        c1.rescale().map_err(err)?;
    }
    Ok((c0, c1))
}

/// Exports a weighted sum and returns the server's share of its slots, modulo `t`.
pub(crate) fn answer(
    params: &RlweParameters,
    plain: &PlainModulus,
    terms: &[(&Uploaded, &SecretPoly<Ntt>)],
    prepared: PreparedExport,
) -> Result<(Exported, Vec<u64>), MpcError> {
    let (c0, c1) = weighted_sum(params, terms)?;
    let (exported, mask) = export(c0, vec![c1], prepared)?;
    Ok((exported, server_share(plain, mask)?))
}

/// `-round(t r / q') mod t`, in slots.
pub(crate) fn server_share(plain: &PlainModulus, mask: Mask) -> Result<Vec<u64>, MpcError> {
    let mut share = plain.scale_down(mask.into_poly().expose())?;
    for x in &mut share {
        *x = plain.modulus().neg(*x);
    }
    plain.coefficients_to_slots(&mut share)?;
    Ok(share)
}

/// `round(t c / q') mod t` of the decrypted polynomial, in slots: the client's share.
pub(crate) fn client_share(
    plain: &PlainModulus,
    key: &ProductKey,
    received: &ReceivedExport,
) -> Result<Vec<u64>, MpcError> {
    let c = received.decrypt(key.secret())?;
    let mut share = plain.scale_down(c.expose())?;
    plain.coefficients_to_slots(&mut share)?;
    Ok(share)
}
