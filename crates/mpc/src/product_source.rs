//! Where products of two shared values come from. RLWE ([`crate::rlwe`]) is the usual source, [`crate::cot_products`]
//! a slower one from OTs alone; the bridge adds one over CKKS slots.

use crate::{MpcError, Party, Session};

/// Exact products of additive shares modulo 2^64. Both parties call the same method with vectors of the same length; each
/// gives its own shares and receives its own shares of the results. Correct for any shares, no range is assumed.
pub trait ProductSource: Send {
    /// Shares of `(x0 + x1)(y0 + y1)`, element by element.
    ///
    /// # Errors
    /// `Length` when the lengths differ; transport errors.
    fn product(
        &mut self,
        session: &mut Session,
        x: &[u64],
        y: &[u64],
    ) -> Result<Vec<u64>, MpcError>;

    /// Shares of `(x0 + x1)^2`.
    ///
    /// # Errors
    /// Transport errors.
    fn square(&mut self, session: &mut Session, x: &[u64]) -> Result<Vec<u64>, MpcError>;

    /// Shares of `(x0 + x1) c`, where only `owner` knows `c` (`Some` there, `None` at the other party).
    ///
    /// # Errors
    /// `Length`; `Owner` when `c` is given by the wrong party or missing at its owner; transport errors.
    fn product_known(
        &mut self,
        session: &mut Session,
        owner: Party,
        x: &[u64],
        c: Option<&[u64]>,
    ) -> Result<Vec<u64>, MpcError>;
}
