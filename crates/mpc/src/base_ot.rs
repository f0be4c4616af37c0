//! 128 base OTs over Ristretto, semi-honest, in one simultaneous exchange (the two-message endemic OT of Masny and
//! Rindal, ePrint 2019/706, with Diffie-Hellman).
//!
//! Sender: `Y = y G`. Receiver with bit `c`: `R_{1-c}` uniform with unknown logarithm, `R_c = a G - H_c(R_{1-c})`. The keys
//! are `K_b = KDF(y (R_b + H_b(R_{1-b})))`; the receiver computes `K_c = KDF(a Y)`. Session id, direction and position enter
//! every hash; identity points are refused.

use crate::MpcError;
use cipherloom_ring::SecretPrg;
use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::IsIdentity;
use subtle::{Choice, ConditionallySelectable};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Number of base OTs of one direction.
pub(crate) const BASE_OTS: usize = 128;
/// Bytes of the sender's message.
pub(crate) const SENDER_BYTES: usize = 32;
/// Bytes of the receiver's message.
pub(crate) const RECEIVER_BYTES: usize = BASE_OTS * 64;

const OP: &str = "base OT";

/// Both keys of every OT, at the sender.
pub(crate) type SenderKeys = Zeroizing<Vec<[u128; 2]>>;

/// What binds one direction of one session.
pub(crate) struct BaseContext<'a> {
    pub session: &'a [u8; 32],
    /// 0 when the client is the base receiver (the later COT sender), 1 when the server is.
    pub direction: u8,
}

impl BaseContext<'_> {
    fn point(&self, position: usize, bit: u8, of: &[u8]) -> RistrettoPoint {
        let mut h = blake3::Hasher::new_derive_key("cipherloom 2026 base OT hash to group v1");
        h.update(self.session)
            .update(&[self.direction, bit])
            .update(&(position as u32).to_le_bytes())
            .update(of);
        let mut wide = [0u8; 64];
        h.finalize_xof().fill(&mut wide);
        RistrettoPoint::from_uniform_bytes(&wide)
    }

    fn key(&self, position: usize, bit: u8, transcript: &[&[u8]], shared: &RistrettoPoint) -> u128 {
        let mut h = blake3::Hasher::new_derive_key("cipherloom 2026 base OT key v1");
        h.update(self.session)
            .update(&[self.direction, bit])
            .update(&(position as u32).to_le_bytes());
        for t in transcript {
            h.update(t);
        }
        h.update(shared.compress().as_bytes());
        let mut key = [0u8; 16];
        h.finalize_xof().fill(&mut key);
        // The input of the hash is the shared point.
        h.zeroize();
        u128::from_le_bytes(key)
    }
}

fn point(bytes: &[u8]) -> Result<RistrettoPoint, MpcError> {
    CompressedRistretto::from_slice(bytes)
        .ok()
        .and_then(|c| c.decompress())
        .filter(|p| !p.is_identity())
        .ok_or(MpcError::Malformed {
            op: OP,
            detail: "not a point of the group, or the identity".to_owned(),
        })
}

fn scalar(prg: &mut SecretPrg) -> Scalar {
    let mut wide = [0u8; 64];
    prg.fill_bytes(&mut wide);
    let s = Scalar::from_bytes_mod_order_wide(&wide);
    wide.zeroize();
    s
}

fn check(bytes: &[u8], expected: usize) -> Result<(), MpcError> {
    if bytes.len() != expected {
        return Err(MpcError::Malformed {
            op: OP,
            detail: format!("{} bytes, expected {expected}", bytes.len()),
        });
    }
    Ok(())
}

/// The sender between its message and the receiver's.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct BaseSender {
    y: Scalar,
    message: [u8; SENDER_BYTES],
}

impl BaseSender {
    pub fn new(prg: &mut SecretPrg) -> Self {
        let y = scalar(prg);
        Self {
            y,
            message: RistrettoPoint::mul_base(&y).compress().to_bytes(),
        }
    }

    pub fn message(&self) -> &[u8; SENDER_BYTES] {
        &self.message
    }

    /// Both keys of every OT.
    pub fn finish(&self, ctx: &BaseContext, received: &[u8]) -> Result<SenderKeys, MpcError> {
        check(received, RECEIVER_BYTES)?;
        let keys: Result<Vec<[u128; 2]>, MpcError> = received
            .chunks_exact(64)
            .enumerate()
            .map(|(j, pair)| {
                let (r0, r1) = pair.split_at(32);
                let transcript = [&self.message[..], r0, r1];
                let mut keys = [0; 2];
                for (bit, (own, other)) in [(r0, r1), (r1, r0)].into_iter().enumerate() {
                    let m = point(own)? + ctx.point(j, bit as u8, other);
                    if m.is_identity() {
                        return Err(MpcError::Malformed {
                            op: OP,
                            detail: format!("OT {j}: the identity"),
                        });
                    }
                    keys[bit] = ctx.key(j, bit as u8, &transcript, &(m * self.y));
                }
                Ok(keys)
            })
            .collect();
        keys.map(Zeroizing::new)
    }
}

/// The receiver between its message and the sender's.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct BaseReceiver {
    exponents: Vec<Scalar>,
    choices: u128,
    message: Vec<u8>,
}

impl BaseReceiver {
    /// Bit `j` of `choices` is the choice of OT `j`.
    pub fn new(ctx: &BaseContext, choices: u128, prg: &mut SecretPrg) -> Self {
        let mut exponents = Vec::with_capacity(BASE_OTS);
        let mut message = Vec::with_capacity(RECEIVER_BYTES);
        for j in 0..BASE_OTS {
            let bit = (choices >> j) as u8 & 1;
            let mut wide = [0u8; 64];
            prg.fill_bytes(&mut wide);
            let other = RistrettoPoint::from_uniform_bytes(&wide);
            wide.zeroize();
            let a = scalar(prg);
            let own = RistrettoPoint::mul_base(&a) - ctx.point(j, bit, other.compress().as_bytes());
            let swap = Choice::from(bit);
            let r0 = RistrettoPoint::conditional_select(&own, &other, swap);
            let r1 = RistrettoPoint::conditional_select(&other, &own, swap);
            message.extend_from_slice(r0.compress().as_bytes());
            message.extend_from_slice(r1.compress().as_bytes());
            exponents.push(a);
        }
        Self {
            exponents,
            choices,
            message,
        }
    }

    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// The chosen key of every OT.
    pub fn finish(
        &self,
        ctx: &BaseContext,
        received: &[u8],
    ) -> Result<Zeroizing<Vec<u128>>, MpcError> {
        check(received, SENDER_BYTES)?;
        let y = point(received)?;
        let keys = self
            .exponents
            .iter()
            .zip(self.message.chunks_exact(64))
            .enumerate()
            .map(|(j, (a, pair))| {
                let bit = (self.choices >> j) as u8 & 1;
                let (r0, r1) = pair.split_at(32);
                ctx.key(j, bit, &[received, r0, r1], &(y * a))
            })
            .collect();
        Ok(Zeroizing::new(keys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receiver_gets_exactly_the_chosen_keys() {
        let session = [7u8; 32];
        let ctx = BaseContext {
            session: &session,
            direction: 0,
        };
        let mut prg = SecretPrg::from_os().unwrap();
        let choices = 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210_u128;
        let s = BaseSender::new(&mut prg);
        let r = BaseReceiver::new(&ctx, choices, &mut prg);
        let both = s.finish(&ctx, r.message()).unwrap();
        let chosen = r.finish(&ctx, s.message()).unwrap();
        for j in 0..BASE_OTS {
            let c = (choices >> j) as usize & 1;
            assert_eq!(both[j][c], chosen[j]);
            assert_ne!(both[j][1 - c], chosen[j]);
        }
        // Another session id gives other keys.
        let other = BaseContext {
            session: &[8; 32],
            direction: 0,
        };
        assert_ne!(r.finish(&other, s.message()).unwrap()[0], chosen[0]);
    }

    #[test]
    fn identity_and_garbage_are_refused() {
        let session = [7u8; 32];
        let ctx = BaseContext {
            session: &session,
            direction: 1,
        };
        let mut prg = SecretPrg::from_os().unwrap();
        let s = BaseSender::new(&mut prg);
        let r = BaseReceiver::new(&ctx, 1, &mut prg);
        assert!(r.finish(&ctx, &[0; 32]).is_err());
        assert!(r.finish(&ctx, &[255; 32]).is_err());
        assert!(r.finish(&ctx, &[0; 31]).is_err());
        let mut m = r.message().to_vec();
        m[32..64].fill(0);
        assert!(s.finish(&ctx, &m).is_err());
        assert!(s.finish(&ctx, &m[..100]).is_err());
    }
}
