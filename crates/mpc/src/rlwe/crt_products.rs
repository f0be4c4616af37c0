//! Exact products modulo 2^64 of any shares, over several plaintext primes.
//!
//! `x y = x0 y0 + x1 y1 + (x0 y1 + y0 x1)`. The first two terms are local; the cross term is an integer below `2^129`,
//! shared modulo `T = t_0 t_1 t_2 > 2^130` by one sum of two one-sided products ([`super::sums`]) and lifted to 2^64 by
//! one OT of a word an element ([`super::crt`]). A square needs one product, a product with a known vector too.
//!
//! Messages of one batch of `n` elements, `m` = 2 for a product, 1 for a square or a product with known words, `k`
//! primes, groups of `g <= 4` slot vectors ([`super::sums::CHUNKS_A_MESSAGE`]):
//! 1. client: for each group, `Ciphertext` of `g k m (32 + sum over q of N ceil(log2 q_i) / 8)` bytes;
//! 2. server: for each group, `Exported` of `g k 2 sum over q' of N ceil(log2 q_i) / 8` bytes; then, at once, `Ot` of
//!    `ceil(n / 8)` bytes (its choice bits are known once it has drawn its masks);
//! 3. client: `Ot` of `8 n` bytes.
//!
//! Three flights. The session's COT pool (client as sender) sends its own refills. No element, no message. Memory of
//! the server: the answers of the batch, `limbs' * 16 N` bytes a ciphertext; split batches of many million elements.

use cipherloom_net::Channel;

use crate::cot::{self, Widths};
use crate::domain::Party;
use crate::rlwe::crt::{CrtToWord, HalfLift};
use crate::rlwe::{ClientSums, ProductKey, ProductPublicKey, RlweParameters, ServerSums};
use crate::{MpcError, ProductSource, Session};

/// One party's side of slot sums: [`ClientSums`] or [`ServerSums`].
pub trait SlotSums {
    /// Whose side it is.
    const PARTY: Party;
    /// Shares of `sum_k x_k w_k` modulo every plaintext prime. At the client `terms` are the encrypted vectors, at the
    /// server the multiplying ones.
    ///
    /// # Errors
    /// `Length`, transport errors, `Malformed`.
    fn sums(&mut self, channel: &mut Channel, terms: &[&[u64]]) -> Result<Vec<Vec<u64>>, MpcError>;
    /// The parameters.
    fn params(&self) -> &RlweParameters;
}

impl SlotSums for ClientSums {
    const PARTY: Party = Party::Client;
    fn sums(&mut self, channel: &mut Channel, terms: &[&[u64]]) -> Result<Vec<Vec<u64>>, MpcError> {
        Self::sums(self, channel, terms)
    }
    fn params(&self) -> &RlweParameters {
        Self::params(self)
    }
}

impl SlotSums for ServerSums {
    const PARTY: Party = Party::Server;
    fn sums(&mut self, channel: &mut Channel, terms: &[&[u64]]) -> Result<Vec<Vec<u64>>, MpcError> {
        Self::sums(self, channel, terms)
    }
    fn params(&self) -> &RlweParameters {
        Self::params(self)
    }
}

/// `log2` bound of the integer cross term of two 64-bit words: `2 (2^64 - 1)^2 < 2^129`.
const CROSS_BITS: f64 = 129.0;

/// Products modulo 2^64 of any shares.
///
/// Cost for `n` elements, with `c` = the started multiples of N in `n` and `k` primes: a product takes `2 c k` uploads and
/// `c k` answers, a square or a product with known words `c k` of each; all take `n` COTs of a word (client sends).
pub struct CrtProducts<S: SlotSums> {
    sums: S,
    crt: CrtToWord,
}

impl CrtProducts<ClientSums> {
    /// The client's side. The key may be that of earlier sessions; the randomness of uploads is drawn here, fresh for this
    /// session. Sends nothing. Talks to [`CrtProducts::server`].
    ///
    /// # Errors
    /// As [`CrtProducts::new`].
    pub fn client(
        session: &mut Session,
        params: RlweParameters,
        key: ProductKey,
    ) -> Result<Self, MpcError> {
        let seed = crate::rlwe::fork_seed(session);
        Self::new(ClientSums::new(params, key, seed))
    }
}

impl CrtProducts<ServerSums> {
    /// The server's side, with the client's public key. The randomness of zeros and masks is drawn here, fresh for this
    /// session. Sends nothing.
    ///
    /// # Errors
    /// As [`CrtProducts::new`].
    pub fn server(
        session: &mut Session,
        params: RlweParameters,
        key: ProductPublicKey,
    ) -> Result<Self, MpcError> {
        let seed = crate::rlwe::fork_seed(session);
        Self::new(ServerSums::new(params, key, seed))
    }
}

impl<S: SlotSums> CrtProducts<S> {
    /// Wraps one party's slot sums.
    ///
    /// # Errors
    /// `Format` when the plaintext primes multiply to `2^130` or less.
    pub fn new(sums: S) -> Result<Self, MpcError> {
        let primes: Vec<_> = sums.params().plain().iter().map(|p| *p.modulus()).collect();
        let crt = CrtToWord::new(&primes)?;
        if crt.log2() <= CROSS_BITS + 1.0 {
            return Err(MpcError::Format {
                op: "products modulo 2^64",
                detail: format!(
                    "{} plaintext primes multiply to {:.1} bits; more than {} are needed",
                    primes.len(),
                    crt.log2(),
                    CROSS_BITS + 1.0
                ),
            });
        }
        Ok(Self { sums, crt })
    }

    /// The underlying slot sums, for example to prepare answers.
    pub fn sums_mut(&mut self) -> &mut S {
        &mut self.sums
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> &RlweParameters {
        self.sums.params()
    }

    /// Shares modulo 2^64 of the integer `sum_k x_k w_k < 2^129`.
    fn cross(&mut self, session: &mut Session, terms: &[&[u64]]) -> Result<Vec<u64>, MpcError> {
        let mut residues = self.sums.sums(session.channel(), terms)?;
        let half = self.crt.half_lift(&residues)?;
        for r in &mut residues {
            zeroize::Zeroize::zeroize(r);
        }
        resolve_wrap(S::PARTY, session, half, self.crt.modulus_word())
    }
}

impl<S: SlotSums + Send> ProductSource for CrtProducts<S> {
    fn product(
        &mut self,
        session: &mut Session,
        x: &[u64],
        y: &[u64],
    ) -> Result<Vec<u64>, MpcError> {
        if x.len() != y.len() {
            return Err(MpcError::Length {
                op: "product",
                left: x.len(),
                right: y.len(),
            });
        }
        // Client: Enc(x0), Enc(y0). Server: times y1, x1.
        let terms = match S::PARTY {
            Party::Client => [x, y],
            Party::Server => [y, x],
        };
        let mut out = self.cross(session, &terms)?;
        for ((o, a), b) in out.iter_mut().zip(x).zip(y) {
            *o = o.wrapping_add(a.wrapping_mul(*b));
        }
        Ok(out)
    }

    fn square(&mut self, session: &mut Session, x: &[u64]) -> Result<Vec<u64>, MpcError> {
        let mut out = self.cross(session, &[x])?;
        for (o, a) in out.iter_mut().zip(x) {
            *o = o.wrapping_mul(2).wrapping_add(a.wrapping_mul(*a));
        }
        Ok(out)
    }

    fn product_known(
        &mut self,
        session: &mut Session,
        owner: Party,
        x: &[u64],
        c: Option<&[u64]>,
    ) -> Result<Vec<u64>, MpcError> {
        let op = "product with known words";
        if c.is_some() != (owner == S::PARTY) {
            return Err(MpcError::Owner { op });
        }
        if c.is_some_and(|c| c.len() != x.len()) {
            return Err(MpcError::Length {
                op,
                left: x.len(),
                right: c.map_or(0, <[u64]>::len),
            });
        }
        // The owner's operand of the cross term is c itself, the other party's its share of x.
        let mut out = self.cross(session, &[c.unwrap_or(x)])?;
        if let Some(c) = c {
            for ((o, a), b) in out.iter_mut().zip(x).zip(c) {
                *o = o.wrapping_add(a.wrapping_mul(*b));
            }
        }
        Ok(out)
    }
}

/// Shares modulo 2^64 of `h_0 + h_1 - T (b_0 OR b_1)`: `b_0 OR b_1 = b_0 + (1 - b_0) b_1`, one COT with the client as
/// sender (correlation `T (1 - b_0)`) and the server's `b_1` as choice.
pub(crate) fn resolve_wrap(
    party: Party,
    session: &mut Session,
    mut half: HalfLift,
    t_word: u64,
) -> Result<Vec<u64>, MpcError> {
    let mut words = std::mem::take(&mut half.words);
    let n = words.len();
    if n == 0 {
        return Ok(words);
    }
    if session.party() != party {
        return Err(MpcError::Format {
            op: "wrap resolution",
            detail: format!(
                "this side belongs to {party:?}, the session to {:?}",
                session.party()
            ),
        });
    }
    match party {
        Party::Client => {
            let upper = &half.upper;
            let sent: Vec<u64> = cot::send(session, n, Widths::Same(64), |j| {
                t_word.wrapping_mul(1 - u64::from(upper[j]))
            })?;
            for ((y, &b), s) in words.iter_mut().zip(upper).zip(&sent) {
                // The receiver gets s + T (1 - b_0) b_1 and subtracts it.
                *y = y
                    .wrapping_sub(t_word.wrapping_mul(u64::from(b)))
                    .wrapping_add(*s);
            }
        }
        Party::Server => {
            let pending = cot::receive_begin(session, &half.upper)?;
            let got: Vec<u64> = cot::receive_finish(session, &pending, Widths::Same(64))?;
            for (y, g) in words.iter_mut().zip(&got) {
                *y = y.wrapping_sub(*g);
            }
        }
    }
    Ok(words)
}

#[cfg(test)]
pub(crate) mod tests;
