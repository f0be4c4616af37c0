//! Exact products modulo 2^64 of any shares, over several plaintext primes.
//!
//! `x y = x0 y0 + x1 y1 + (x0 y1 + y0 x1)`. The first two terms are local; the cross term is an integer below `2^129`,
//! shared modulo `T = t_0 t_1 t_2 > 2^130` by one sum of two one-sided products ([`super::sums`]) and lifted to 2^64 by
//! one OT of a word an element ([`super::crt`]). A square needs one product, a product with a known vector too.
//!
//! Flights: upload, answer, then the OT exchange. In the OT the server receives: its choice bit is known once it has
//! drawn its mask, so the choices may follow the answer at once.

use cipherloom_net::Channel;

use crate::domain::Party;
use crate::rlwe::crt::{CrtToWord, HalfLift};
use crate::rlwe::{ClientSums, RlweParameters, ServerSums};
use crate::MpcError;

/// Correlated OTs over words modulo 2^64, from the two-party layer.
pub trait WordCot {
    /// One party's side. `corr[i]` is the sender's correlation. Returns `a` with `a + b = corr * choice` modulo 2^64,
    /// where `b` is what the receiver gets.
    ///
    /// # Errors
    /// Transport errors.
    fn cot_send(&mut self, channel: &mut Channel, corr: &[u64]) -> Result<Vec<u64>, MpcError>;
    /// The receiver's side; `choice[i]` is 0 or 1.
    ///
    /// # Errors
    /// Transport errors.
    fn cot_recv(&mut self, channel: &mut Channel, choice: &[u8]) -> Result<Vec<u64>, MpcError>;
}

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
pub struct CrtProducts<S: SlotSums> {
    sums: S,
    crt: CrtToWord,
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

    /// Shares of `x y` modulo 2^64. Cost for `n` elements: 2 uploads and 1 answer for every prime and every started N
    /// elements, `n` COTs of a word.
    ///
    /// # Errors
    /// `Length` when the vectors differ; transport errors; `Malformed`.
    pub fn products(
        &mut self,
        channel: &mut Channel,
        cot: &mut impl WordCot,
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
        let mut out = self.cross(channel, cot, &terms)?;
        for ((o, a), b) in out.iter_mut().zip(x).zip(y) {
            *o = o.wrapping_add(a.wrapping_mul(*b));
        }
        Ok(out)
    }

    /// Shares of `x^2` modulo 2^64: half the uploads of a product.
    ///
    /// # Errors
    /// Transport errors; `Malformed`.
    pub fn squares(
        &mut self,
        channel: &mut Channel,
        cot: &mut impl WordCot,
        x: &[u64],
    ) -> Result<Vec<u64>, MpcError> {
        let mut out = self.cross(channel, cot, &[x])?;
        for (o, a) in out.iter_mut().zip(x) {
            *o = o.wrapping_mul(2).wrapping_add(a.wrapping_mul(*a));
        }
        Ok(out)
    }

    /// Shares of `x c` modulo 2^64 for words `c` that only `owner` knows (`Some` there, `None` at the other party). Costs
    /// what a square costs.
    ///
    /// # Errors
    /// `Owner` when the words are on the wrong side; `Length`; transport errors; `Malformed`.
    pub fn known_products(
        &mut self,
        channel: &mut Channel,
        cot: &mut impl WordCot,
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
        let mut out = self.cross(channel, cot, &[c.unwrap_or(x)])?;
        if let Some(c) = c {
            for ((o, a), b) in out.iter_mut().zip(x).zip(c) {
                *o = o.wrapping_add(a.wrapping_mul(*b));
            }
        }
        Ok(out)
    }

    /// Shares modulo 2^64 of the integer `sum_k x_k w_k < 2^129`.
    fn cross(
        &mut self,
        channel: &mut Channel,
        cot: &mut impl WordCot,
        terms: &[&[u64]],
    ) -> Result<Vec<u64>, MpcError> {
        let mut residues = self.sums.sums(channel, terms)?;
        let half = self.crt.half_lift(&residues)?;
        for r in &mut residues {
            zeroize::Zeroize::zeroize(r);
        }
        resolve_wrap(S::PARTY, channel, cot, half, self.crt.modulus_word())
    }
}

/// Shares modulo 2^64 of `h_0 + h_1 - T (b_0 OR b_1)`: `b_0 OR b_1 = b_0 + (1 - b_0) b_1`, one COT with the client as
/// sender (correlation `T (1 - b_0)`) and the server's `b_1` as choice.
pub(crate) fn resolve_wrap(
    party: Party,
    channel: &mut Channel,
    cot: &mut impl WordCot,
    mut half: HalfLift,
    t_word: u64,
) -> Result<Vec<u64>, MpcError> {
    let mut words = std::mem::take(&mut half.words);
    let parts = match party {
        Party::Client => {
            let corr: Vec<u64> = half
                .upper
                .iter()
                .map(|&b| t_word.wrapping_mul(1 - u64::from(b)))
                .collect();
            for (y, &b) in words.iter_mut().zip(&half.upper) {
                *y = y.wrapping_sub(t_word.wrapping_mul(u64::from(b)));
            }
            cot.cot_send(channel, &corr)?
        }
        Party::Server => cot.cot_recv(channel, &half.upper)?,
    };
    if parts.len() != words.len() {
        return Err(MpcError::Length {
            op: "wrap resolution",
            left: words.len(),
            right: parts.len(),
        });
    }
    for (y, p) in words.iter_mut().zip(&parts) {
        *y = y.wrapping_sub(*p);
    }
    Ok(words)
}

#[cfg(test)]
mod tests;
