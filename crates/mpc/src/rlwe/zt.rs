//! Shares modulo one NTT prime `t` (R13, second part): products and sums of products without any OT, lifts from and to
//! `Z_2^64` by one COT an element.
//!
//! Against [`super::CrtProducts`]: a third of the traffic and of the work a product, and sums of products for one
//! answer; but values are bounded. A shared integer stands for a signed `V` and must satisfy `|V| < t / 4` (so
//! about `2^45` for `t = 2^47`) wherever it is lifted out. Every vector carries the bound that its owner declared at
//! the entry, propagated through each operation; an operation whose result may leave `t / 4` is refused. At `F`
//! fraction bits a product holds values below `2^(45 - 2F)`, so lower `F` for sums of squares.
//!
//! The declared bound is public, it is part of the plan. It is not checked against the shared values, which no party
//! knows: a value outside gives a wrong result and nothing else (R20).

use cipherloom_ring::Modulus;
use cipherloom_spec::FracBits;

use crate::domain::Party;
use crate::rlwe::crt::CrtToWord;
use crate::rlwe::crt_products::{resolve_wrap, SlotSums};
use crate::rlwe::{cot_mod, ClientSums, ProductKey, ProductPublicKey, RlweParameters, ServerSums};
use crate::{MpcError, Session, Shares};

/// Largest `|word|` that [`ZtProducts::lift_in`] accepts.
pub const LIFT_IN_BOUND: f64 = (1u64 << 62) as f64;

/// One party's shares modulo `t` of a vector of signed integers. Wiped on drop.
pub struct ZtShares {
    v: Vec<u64>,
    frac: FracBits,
    bound: f64,
}

impl Drop for ZtShares {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.v);
    }
}

impl ZtShares {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.v.len()
    }
    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.v.is_empty()
    }
    /// Fraction bits.
    #[must_use]
    pub fn frac(&self) -> FracBits {
        self.frac
    }
    /// Declared bound on `|V|`, in units of `2^-frac`.
    #[must_use]
    pub fn bound(&self) -> f64 {
        self.bound
    }
    /// This party's residues, reduced.
    #[must_use]
    pub fn residues(&self) -> &[u64] {
        &self.v
    }
}

/// Products and sums of products modulo one prime, with the lifts.
pub struct ZtProducts<S: SlotSums> {
    sums: S,
    crt: CrtToWord,
    t: Modulus,
}

impl ZtProducts<ClientSums> {
    /// The client's side. The key may be that of earlier sessions; the randomness of uploads is drawn here, fresh for this
    /// session. Sends nothing. Talks to [`ZtProducts::server`].
    ///
    /// # Errors
    /// As [`ZtProducts::new`].
    pub fn client(
        session: &mut Session,
        params: RlweParameters,
        key: ProductKey,
    ) -> Result<Self, MpcError> {
        let seed = crate::rlwe::fork_seed(session);
        Self::new(ClientSums::new(params, key, seed))
    }
}

impl ZtProducts<ServerSums> {
    /// The server's side, with the client's public key. The randomness of zeros and masks is drawn here, fresh for this
    /// session. Sends nothing.
    ///
    /// # Errors
    /// As [`ZtProducts::new`].
    pub fn server(
        session: &mut Session,
        params: RlweParameters,
        key: ProductPublicKey,
    ) -> Result<Self, MpcError> {
        let seed = crate::rlwe::fork_seed(session);
        Self::new(ServerSums::new(params, key, seed))
    }
}

impl<S: SlotSums> ZtProducts<S> {
    /// Wraps one party's slot sums.
    ///
    /// # Errors
    /// `Format` unless the parameters have exactly one plaintext prime.
    pub fn new(sums: S) -> Result<Self, MpcError> {
        let t = match sums.params().plain().as_slice() {
            [one] => *one.modulus(),
            more => {
                return Err(MpcError::Format {
                    op: "products modulo t",
                    detail: format!("{} plaintext primes; choose a set with one", more.len()),
                })
            }
        };
        Ok(Self {
            crt: CrtToWord::new(&[t])?,
            sums,
            t,
        })
    }

    /// The prime `t`.
    #[must_use]
    pub fn modulus(&self) -> &Modulus {
        &self.t
    }

    /// Largest declared bound of a vector: `t / 4`.
    #[must_use]
    pub fn max_bound(&self) -> f64 {
        (self.t.value() / 4) as f64
    }

    /// The underlying slot sums, for example to prepare answers.
    pub fn sums_mut(&mut self) -> &mut S {
        &mut self.sums
    }

    fn checked(&self, op: &'static str, bound: f64) -> Result<f64, MpcError> {
        // Written so that a NaN is refused.
        if bound >= 0.0 && bound <= self.max_bound() {
            return Ok(bound);
        }
        Err(MpcError::Format {
            op,
            detail: format!(
                "declared |V| up to 2^{:.2}, more than t / 4 = 2^{:.2}; scale the operands or lower their fraction bits",
                bound.log2(),
                self.max_bound().log2()
            ),
        })
    }

    fn same(op: &'static str, a: &ZtShares, b: &ZtShares, frac: bool) -> Result<(), MpcError> {
        if a.len() != b.len() {
            return Err(MpcError::Length {
                op,
                left: a.len(),
                right: b.len(),
            });
        }
        if frac && a.frac != b.frac {
            return Err(MpcError::Frac {
                op,
                left: a.frac.0,
                right: b.frac.0,
            });
        }
        Ok(())
    }

    /// Shares modulo `t` from shares modulo 2^64 of values with `|value| < max_abs` (in real units, the plan's bound).
    /// Exact for `|word| < 2^62`: P0 adds 2^62, so that the sum has its top bit clear, and one COT modulo `t` resolves
    /// the wrap. Cost an element: 1 bit from the server, `ceil(log2 t)` bits from the client.
    ///
    /// # Errors
    /// `Format` when the bound exceeds `t / 4`; transport errors.
    pub fn lift_in(
        &self,
        session: &mut Session,
        x: &Shares,
        max_abs: f64,
    ) -> Result<ZtShares, MpcError> {
        let op = "lift to Z_t";
        let bound = self.checked(op, max_abs * x.frac.unit())?;
        if bound > LIFT_IN_BOUND {
            return Err(MpcError::Format {
                op,
                detail: format!("declared |V| up to 2^{:.2}, more than 2^62", bound.log2()),
            });
        }
        self.check_party(session)?;
        let t = &self.t;
        let bias = match S::PARTY {
            Party::Client => 1u64 << 62,
            Party::Server => 0,
        };
        let top: Vec<u8> =
            x.v.iter()
                .map(|w| (w.wrapping_add(bias) >> 63) as u8)
                .collect();
        let mut v: Vec<u64> = x.v.iter().map(|w| t.reduce(w.wrapping_add(bias))).collect();
        let wrap = t.reduce_u128(1 << 64);
        if !v.is_empty() {
            match S::PARTY {
                Party::Client => {
                    // P0 takes the bias off again after the lift.
                    let bias = t.reduce(bias);
                    let sent = cot_mod::send(session, t, v.len(), |j| {
                        wrap & u64::from(top[j] ^ 1).wrapping_neg()
                    })?;
                    for ((y, &b), s) in v.iter_mut().zip(&top).zip(sent) {
                        let own = t.add(wrap & u64::from(b).wrapping_neg(), bias);
                        *y = t.add(t.sub(*y, own), s);
                    }
                }
                Party::Server => {
                    let got = cot_mod::receive(session, t, &top)?;
                    for (y, g) in v.iter_mut().zip(got) {
                        *y = t.sub(*y, g);
                    }
                }
            }
        }
        Ok(ZtShares {
            v,
            frac: x.frac,
            bound,
        })
    }

    /// Shares modulo 2^64 from shares modulo `t`. Exact for `|V| < t / 4`: P0 adds `t / 4`, one COT resolves the wrap.
    /// Cost an element: 1 bit from the server, 64 bits from the client.
    ///
    /// # Errors
    /// Transport errors.
    pub fn lift_out(&self, session: &mut Session, z: &ZtShares) -> Result<Shares, MpcError> {
        self.check_party(session)?;
        let quarter = match S::PARTY {
            Party::Client => self.t.value() / 4,
            Party::Server => 0,
        };
        let mut residues =
            [z.v.iter()
                .map(|&x| self.t.add(x, quarter))
                .collect::<Vec<_>>()];
        let half = self.crt.half_lift(&residues)?;
        zeroize::Zeroize::zeroize(&mut residues[0]);
        let mut v = resolve_wrap(S::PARTY, session, half, self.t.value())?;
        for y in &mut v {
            *y = y.wrapping_sub(quarter);
        }
        Ok(Shares { v, frac: z.frac })
    }

    fn check_party(&self, session: &Session) -> Result<(), MpcError> {
        if session.party() == S::PARTY {
            return Ok(());
        }
        Err(MpcError::Format {
            op: "products modulo t",
            detail: format!(
                "this side belongs to {:?}, the session to {:?}",
                S::PARTY,
                session.party()
            ),
        })
    }

    /// Sum; bounds add up. Local.
    ///
    /// # Errors
    /// `Length`, `Frac`; `Format` when the bound exceeds `t / 4`.
    pub fn plus(&self, a: &ZtShares, b: &ZtShares) -> Result<ZtShares, MpcError> {
        Self::same("add modulo t", a, b, true)?;
        Ok(ZtShares {
            bound: self.checked("add modulo t", a.bound + b.bound)?,
            v: a.v
                .iter()
                .zip(&b.v)
                .map(|(x, y)| self.t.add(*x, *y))
                .collect(),
            frac: a.frac,
        })
    }

    /// Sums of consecutive groups of `k` elements; the bound grows `k` times. Local.
    ///
    /// # Errors
    /// `Length` when `k` does not divide the length; `Format` when the bound exceeds `t / 4`.
    pub fn sum_groups(&self, a: &ZtShares, k: usize) -> Result<ZtShares, MpcError> {
        if k == 0 || !a.len().is_multiple_of(k) {
            return Err(MpcError::Length {
                op: "sum groups modulo t",
                left: a.len(),
                right: k,
            });
        }
        let sum = |c: &[u64]| self.t.reduce_u128(c.iter().map(|&x| u128::from(x)).sum());
        Ok(ZtShares {
            bound: self.checked("sum groups modulo t", a.bound * k as f64)?,
            v: a.v.chunks_exact(k).map(sum).collect(),
            frac: a.frac,
        })
    }

    /// Element-wise products; fraction bits add up, bounds multiply. Cost: that of [`ZtProducts::sum_products`].
    ///
    /// # Errors
    /// As [`ZtProducts::sum_products`].
    pub fn product(
        &mut self,
        session: &mut Session,
        x: &ZtShares,
        y: &ZtShares,
    ) -> Result<ZtShares, MpcError> {
        self.sum_products(session, &[(x, y)])
    }

    /// `sum_k x_k y_k`, element by element, for `m` pairs: `2 m` uploads and one answer for every started N elements, one
    /// flight each way. All pairs have the same length and the same sum of fraction bits.
    ///
    /// # Errors
    /// `Length`, `Frac`; `Format` when the bound of the sum exceeds `t / 4`; transport errors; `Malformed`.
    pub fn sum_products(
        &mut self,
        session: &mut Session,
        pairs: &[(&ZtShares, &ZtShares)],
    ) -> Result<ZtShares, MpcError> {
        let op = "sum of products modulo t";
        let Some((first, second)) = pairs.first() else {
            return Err(MpcError::Length {
                op,
                left: 0,
                right: 1,
            });
        };
        let (n, frac) = (first.len(), FracBits(first.frac.0 + second.frac.0));
        let mut bound = 0.0;
        let mut terms: Vec<&[u64]> = Vec::with_capacity(2 * pairs.len());
        for (x, y) in pairs {
            Self::same(op, x, y, false)?;
            if x.len() != n {
                return Err(MpcError::Length {
                    op,
                    left: n,
                    right: x.len(),
                });
            }
            if x.frac.0 + y.frac.0 != frac.0 {
                return Err(MpcError::Frac {
                    op,
                    left: frac.0,
                    right: x.frac.0 + y.frac.0,
                });
            }
            bound += x.bound * y.bound;
            // Client: Enc(x0), Enc(y0). Server: times y1, x1.
            match S::PARTY {
                Party::Client => terms.extend([&x.v[..], &y.v[..]]),
                Party::Server => terms.extend([&y.v[..], &x.v[..]]),
            }
        }
        let bound = self.checked(op, bound)?;
        let mut v = self.cross(session, &terms)?;
        for (x, y) in pairs {
            for ((o, &a), &b) in v.iter_mut().zip(&x.v).zip(&y.v) {
                *o = self.t.mul_add(a, b, *o);
            }
        }
        Ok(ZtShares { v, frac, bound })
    }

    /// Squares: one upload and one answer for every started N elements. One more bit fits than the bound of a sum of
    /// products suggests, since a square is not negative; it is not used.
    ///
    /// # Errors
    /// `Format` when the bound exceeds `t / 4`; transport errors; `Malformed`.
    pub fn square(&mut self, session: &mut Session, x: &ZtShares) -> Result<ZtShares, MpcError> {
        let bound = self.checked("square modulo t", x.bound * x.bound)?;
        let mut v = self.cross(session, &[&x.v])?;
        for (o, &a) in v.iter_mut().zip(&x.v) {
            *o = self.t.mul_add(a, a, self.t.add(*o, *o));
        }
        Ok(ZtShares {
            v,
            frac: FracBits(2 * x.frac.0),
            bound,
        })
    }

    fn cross(&mut self, session: &mut Session, terms: &[&[u64]]) -> Result<Vec<u64>, MpcError> {
        self.check_party(session)?;
        let mut shares = self.sums.sums(session.channel(), terms)?;
        shares.pop().ok_or(MpcError::Length {
            op: "sum of products modulo t",
            left: 0,
            right: 1,
        })
    }
}

#[cfg(test)]
mod tests;
