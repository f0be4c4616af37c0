//! The one way in which a ciphertext returns to the owner of its key (protocols.md R1, R2, 6.5), for any scheme.
//!
//! A ciphertext that the server computed carries the server's operands twice: in `c_1, ..., c_d`, which are public
//! linear functions of what the key owner sent, and in the noise `e w` of the decrypted polynomial. [`export`] hides
//! both. It adds a fresh public-key encryption of zero, so that `c_1, ..., c_d` are pseudorandom under the server's
//! ephemeral secrets, and a mask `r` uniform modulo the ciphertext modulus, so that `c_0` (hence the decrypted
//! polynomial, noise included) is uniform. The view is simulated by uniform polynomials; no noise flooding is needed.
//!
//! [`Exported`] has no other constructor, and it is the only type whose ciphertexts are sent to their key's owner; the
//! same holds for the client's answers under a key of the server (R3). Call it after the *last* operation, packing and
//! modulus switch included.

use cipherloom_net::{Channel, FrameKind};
use cipherloom_ring::{Basis, Coeff, Ntt, Poly, RingError, SecretPoly, SecretPrg};

use crate::MpcError;

/// Largest degree that may leave unrelinearised (R2).
pub const MAX_DEGREE: usize = 2;

fn ring(e: RingError) -> MpcError {
    MpcError::Ring {
        op: "export",
        detail: e.to_string(),
    }
}

/// The recipient's public key `(b, a)`, `b = -a s + e`, over all primes that an export may use.
#[derive(Debug, Clone)]
pub struct ExportKey {
    b: Poly<Ntt>,
    a: Poly<Ntt>,
}

impl ExportKey {
    /// Takes both halves.
    ///
    /// # Errors
    /// `Length` when the halves live over different bases.
    pub fn new(b: Poly<Ntt>, a: Poly<Ntt>) -> Result<Self, MpcError> {
        if b.basis() != a.basis() {
            return Err(MpcError::Length {
                op: "export key: limbs",
                left: b.limbs(),
                right: a.limbs(),
            });
        }
        Ok(Self { b, a })
    }

    /// The half that is not uniform.
    pub(crate) fn b(&self) -> &Poly<Ntt> {
        &self.b
    }

    /// The basis of the key. An export basis must be a prefix of it.
    #[must_use]
    pub fn basis(&self) -> &Basis {
        self.b.basis()
    }
}

/// The input-independent part of one export: the zero encryptions and the mask. Made offline, used once, by value.
/// Wiped on drop; neither `Clone` nor serialisable.
pub struct PreparedExport {
    /// What `c_0` receives besides the mask: `v b + e0`.
    zero0: SecretPoly<Coeff>,
    /// What `c_1, ..., c_d` receive.
    zero_rest: Vec<SecretPoly<Ntt>>,
    /// `r`, uniform modulo `q`.
    mask: SecretPoly<Coeff>,
}

impl PreparedExport {
    /// Draws `degree` zero encryptions under `key`, reduced to the primes of `basis`, and a mask uniform modulo their
    /// product, every limb by rejection (6.5, steps 1 and 2).
    ///
    /// For `j = d, ..., 1`: `v` uniform ternary, `e0, e1` centred binomial(21), one `v` for all limbs;
    /// `c_{j-1} += v b + e0`, `c_j += v a + e1`. Cost for `l` limbs at degree 1: `3 l` NTTs.
    ///
    /// # Errors
    /// `Format` for a degree outside `1..=2`; `Ring` when `basis` is not a prefix of the key's.
    pub fn new(
        key: &ExportKey,
        basis: &Basis,
        degree: usize,
        prg: &mut SecretPrg,
    ) -> Result<Self, MpcError> {
        if degree == 0 || degree > MAX_DEGREE {
            return Err(MpcError::Format {
                op: "export",
                detail: format!("degree {degree} is outside 1..={MAX_DEGREE}; relinearise first"),
            });
        }
        // zero[j] in NTT form for j >= 1; the part of c_0 leaves it, its error joins in coefficients.
        let mut zero_rest: Vec<SecretPoly<Ntt>> = (0..degree)
            .map(|_| SecretPoly::new(Poly::zero(basis)))
            .collect();
        let mut zero0 = SecretPoly::new(Poly::<Coeff>::zero(basis));
        for j in (1..=degree).rev() {
            let v = prg.ternary_poly(basis).map_err(ring)?.into_ntt();
            let e0 = prg.cbd21_poly(basis).map_err(ring)?;
            let e1 = prg.cbd21_poly(basis).map_err(ring)?.into_ntt();
            let upper = zero_rest[j - 1].expose_mut();
            upper.mul_add_assign(v.expose(), &key.a).map_err(ring)?;
            upper.add_assign(e1.expose()).map_err(ring)?;
            let vb = SecretPoly::new(v.expose().mul(&key.b).map_err(ring)?);
            if j == 1 {
                zero0 = vb.into_coeff();
                zero0.expose_mut().add_assign(e0.expose()).map_err(ring)?;
            } else {
                let lower = zero_rest[j - 2].expose_mut();
                lower.add_assign(vb.expose()).map_err(ring)?;
                lower.add_assign(e0.into_ntt().expose()).map_err(ring)?;
            }
        }
        Ok(Self {
            zero0,
            zero_rest,
            mask: prg.uniform_poly(basis),
        })
    }

    /// The degree that it was made for.
    #[must_use]
    pub fn degree(&self) -> usize {
        self.zero_rest.len()
    }

    /// The basis that it was made for.
    #[must_use]
    pub fn basis(&self) -> &Basis {
        self.mask.expose().basis()
    }
}

/// A ciphertext on its way to the owner of its key: re-randomised and masked. Only [`export`] makes one.
pub struct Exported {
    c0: Poly<Coeff>,
    rest: Vec<Poly<Ntt>>,
}

/// The exporter's mask `r`, its half of the sharing: the recipient decrypts `m + e + r`. Used once, by value; wiped on
/// drop; neither `Clone` nor serialisable.
pub struct Mask(SecretPoly<Coeff>);

impl Mask {
    /// The mask in coefficient form, to derive the exporter's share from (`-r` in the sense of the scheme).
    #[must_use]
    pub fn into_poly(self) -> SecretPoly<Coeff> {
        self.0
    }
}

/// Sends a ciphertext back to its key's owner: the one function for that (module documentation). `c0` in coefficients,
/// `rest` = `c_1, ..., c_d` in NTT form, all over the basis that `prepared` was made for. Consumes the prepared
/// randomness. Cost: `d + 1` additions, the rest was paid in [`PreparedExport::new`].
///
/// # Errors
/// `Length` when the degree differs from the prepared one; `Ring` when a basis differs.
pub fn export(
    c0: Poly<Coeff>,
    rest: Vec<Poly<Ntt>>,
    prepared: PreparedExport,
) -> Result<(Exported, Mask), MpcError> {
    blind(c0, rest, prepared, Blinding::FULL)
}

/// What [`blind`] adds. Anything but `FULL` exists for the recovery tests only.
#[derive(Clone, Copy)]
struct Blinding {
    zero: bool,
    mask: bool,
}

impl Blinding {
    const FULL: Self = Self {
        zero: true,
        mask: true,
    };
}

fn blind(
    mut c0: Poly<Coeff>,
    mut rest: Vec<Poly<Ntt>>,
    prepared: PreparedExport,
    what: Blinding,
) -> Result<(Exported, Mask), MpcError> {
    if rest.len() != prepared.degree() {
        return Err(MpcError::Length {
            op: "export: degree of the ciphertext and of the prepared randomness",
            left: rest.len(),
            right: prepared.degree(),
        });
    }
    let basis = prepared.basis();
    if c0.basis() != basis || rest.iter().any(|c| c.basis() != basis) {
        return Err(MpcError::Length {
            op: "export: limbs of the ciphertext and of the prepared randomness",
            left: c0.limbs(),
            right: basis.len(),
        });
    }
    if what.zero {
        c0.add_assign(prepared.zero0.expose()).map_err(ring)?;
        for (c, z) in rest.iter_mut().zip(&prepared.zero_rest) {
            c.add_assign(z.expose()).map_err(ring)?;
        }
    }
    if what.mask {
        c0.add_assign(prepared.mask.expose()).map_err(ring)?;
    }
    Ok((Exported { c0, rest }, Mask(prepared.mask)))
}

impl Exported {
    /// Bytes of one exported ciphertext of degree `degree` over `basis`: `(degree + 1) * sum of N ceil(log2 q_i) / 8`.
    #[must_use]
    pub fn byte_len(basis: &Basis, degree: usize) -> usize {
        (degree + 1) * Poly::<Coeff>::packed_len(basis)
    }

    fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.c0.to_bytes());
        for c in &self.rest {
            out.extend_from_slice(&c.to_bytes());
        }
    }

    /// Sends this ciphertext as one frame of [`Exported::byte_len`] bytes.
    ///
    /// # Errors
    /// Transport errors.
    pub fn send(&self, channel: &mut Channel) -> Result<(), MpcError> {
        Self::send_all(std::slice::from_ref(self), channel)
    }

    /// Sends several ciphertexts of one basis and degree as one frame.
    ///
    /// # Errors
    /// Transport errors.
    pub fn send_all(items: &[Self], channel: &mut Channel) -> Result<(), MpcError> {
        let mut out = Vec::with_capacity(
            items
                .iter()
                .map(|e| Self::byte_len(e.c0.basis(), e.rest.len()))
                .sum(),
        );
        for e in items {
            e.append_to(&mut out);
        }
        channel.send(FrameKind::Exported, &out)?;
        Ok(())
    }
}

/// An exported ciphertext at the key owner's side.
pub struct ReceivedExport {
    c0: Poly<Coeff>,
    rest: Vec<Poly<Ntt>>,
}

impl ReceivedExport {
    /// Receives one ciphertext of the given basis and degree.
    ///
    /// # Errors
    /// Transport errors (a frame of any other length among them); `Malformed` for a residue that is not reduced.
    pub fn recv(channel: &mut Channel, basis: &Basis, degree: usize) -> Result<Self, MpcError> {
        let mut all = Self::recv_all(channel, basis, degree, 1)?;
        all.pop().ok_or(MpcError::Length {
            op: "export",
            left: 0,
            right: 1,
        })
    }

    /// Receives one frame of `count` ciphertexts.
    ///
    /// # Errors
    /// As [`ReceivedExport::recv`].
    pub fn recv_all(
        channel: &mut Channel,
        basis: &Basis,
        degree: usize,
        count: usize,
    ) -> Result<Vec<Self>, MpcError> {
        let one = Exported::byte_len(basis, degree);
        let bytes = channel.recv(FrameKind::Exported, count * one)?;
        bytes
            .chunks_exact(one)
            .map(|b| Self::from_bytes(b, basis, degree))
            .collect()
    }

    fn from_bytes(bytes: &[u8], basis: &Basis, degree: usize) -> Result<Self, MpcError> {
        let malformed = |e: RingError| MpcError::Malformed {
            op: "export",
            detail: e.to_string(),
        };
        let (head, tail) = bytes
            .split_at_checked(Poly::<Coeff>::packed_len(basis))
            .ok_or(MpcError::Length {
                op: "export",
                left: bytes.len(),
                right: Exported::byte_len(basis, degree),
            })?;
        let c0 = Poly::<Coeff>::from_bytes(basis, head).map_err(malformed)?;
        let rest = tail
            .chunks(head.len())
            .map(|b| Poly::<Ntt>::from_bytes(basis, b).map_err(malformed))
            .collect::<Result<Vec<_>, _>>()?;
        if rest.len() != degree {
            return Err(MpcError::Length {
                op: "export: degree",
                left: rest.len(),
                right: degree,
            });
        }
        Ok(Self { c0, rest })
    }

    /// `c_0 + c_1 s + ... + c_d s^d` modulo `q` in coefficients: the masked message with its noise. `secret` in NTT form
    /// over a basis that starts with the export's.
    ///
    /// # Errors
    /// `Ring` when the bases do not fit.
    pub fn decrypt(&self, secret: &SecretPoly<Ntt>) -> Result<SecretPoly<Coeff>, MpcError> {
        let mut acc = SecretPoly::new(Poly::<Ntt>::zero(self.c0.basis()));
        for c in self.rest.iter().rev() {
            let acc = acc.expose_mut();
            acc.add_assign(c).map_err(ring)?;
            acc.mul_assign(secret.expose()).map_err(ring)?;
        }
        let mut out = acc.into_coeff();
        out.expose_mut().add_assign(&self.c0).map_err(ring)?;
        Ok(out)
    }
}

#[cfg(test)]
pub(crate) mod weakened {
    //! Exports that lack a part, for the tests that must recover the operands from them.

    use super::*;

    /// Without the zero: `c_1, ..., c_d` as computed.
    pub(crate) fn without_zero(
        c0: Poly<Coeff>,
        rest: Vec<Poly<Ntt>>,
        prepared: PreparedExport,
    ) -> ReceivedExport {
        let what = Blinding {
            zero: false,
            mask: true,
        };
        received(blind(c0, rest, prepared, what).unwrap().0)
    }

    /// Without the mask modulo `q`: the caller may have masked modulo something smaller.
    pub(crate) fn without_mask(
        c0: Poly<Coeff>,
        rest: Vec<Poly<Ntt>>,
        prepared: PreparedExport,
    ) -> ReceivedExport {
        let what = Blinding {
            zero: true,
            mask: false,
        };
        received(blind(c0, rest, prepared, what).unwrap().0)
    }

    /// What the key owner holds after a transfer without a channel.
    pub(crate) fn received(e: Exported) -> ReceivedExport {
        ReceivedExport {
            c0: e.c0,
            rest: e.rest,
        }
    }

    impl ReceivedExport {
        pub(crate) fn c0(&self) -> &Poly<Coeff> {
            &self.c0
        }
        pub(crate) fn rest(&self) -> &[Poly<Ntt>] {
            &self.rest
        }
    }
}

#[cfg(test)]
mod tests;
