//! Hybrid key switching: raise the digits, inner product with the key, divide by P.
//!
//! For a polynomial c at level l with digits D_0, D_1, ...: `sum_d [c]_(D_d) * key_d` is, modulo P q_0 ... q_l,
//! an encryption of `P c s_from` under `s_to`, because key digit d encrypts `P s_from` modulo the primes of
//! D_d and 0 modulo the others. Dividing by P leaves `c s_from` with the noise divided by P.
//!
//! Keys are stored divided by P modulo each q_i already. So the quotient (x - r) / P, r being the remainder that is
//! converted from the special primes, is one sum of products: the inner product with the stored key plus -r/P, whose
//! factor is in the weights of the conversion.
//!
//! The order of the work follows the caches (see [`tiles`]). A polynomial of 30 limbs at N = 2^16 has 15 MB; raised, three
//! times that and more. So limbs are raised a few at a time, from terms that are kept in tiles; a raised row is
//! multiplied with the key as soon as its transform is complete; the special limbs come first, so that of every other limb only
//! the finished result is written.

mod convert;
mod divide;
mod operand;
mod raise;
mod rescale;
mod tiles;

use std::ops::Range;

use cipherloom_ring::{Basis, Modulus};
use cipherloom_spec::CkksChain;

use crate::error::CkksError;
use convert::{Converter, Divisor, LastDivisor};
use tiles::Tiling;

pub(crate) use divide::{Job, Source};
pub(crate) use operand::{Addend, Operand};
pub(crate) use raise::Decomposed;

/// Most limbs that are raised together.
const GROUP: usize = 10;

/// Conversion tables. Memory: a few words for each pair of primes.
#[derive(Debug)]
pub(crate) struct KeySwitchTables {
    q: Basis,
    /// Special primes first.
    pq: Basis,
    tiling: Tiling,
    special: usize,
    alpha: usize,
    /// Entry e: from the primes of e's digit up to and including q_e to all other primes of `pq`, in order.
    raise: Vec<Converter>,
    /// By P, to all q.
    down: Divisor,
    /// Entry l: by P q_l, to q_0 ... q_(l-1).
    down_rescale: Vec<Divisor>,
    /// Entry l: by q_l, to q_0 ... q_(l-1).
    rescale: Vec<LastDivisor>,
}

impl KeySwitchTables {
    pub(crate) fn new(chain: &CkksChain, q: &Basis, pq: &Basis) -> Result<Self, CkksError> {
        let special = chain.p().len();
        let alpha = chain.alpha();
        let moduli: Vec<Modulus> = pq.moduli().copied().collect();
        let (p_moduli, q_moduli) = moduli.split_at(special);
        let (p_tables, q_tables) = pq.tables().split_at(special);
        let raise = (0..q_moduli.len())
            .map(|end| {
                let start = end / alpha * alpha;
                let others: Vec<Modulus> = p_moduli
                    .iter()
                    .chain(&q_moduli[..start])
                    .chain(&q_moduli[end + 1..])
                    .copied()
                    .collect();
                Converter::new(q_tables[start..=end].to_vec(), &others)
            })
            .collect::<Result<_, _>>()?;
        let down_rescale = (0..q_moduli.len())
            .map(|level| Divisor::new(p_tables, Some(&q_tables[level]), &q_moduli[..level]))
            .collect::<Result<_, _>>()?;
        let rescale = (0..q_moduli.len())
            .map(|level| LastDivisor::new(&q_tables[level], &q_moduli[..level]))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            q: q.clone(),
            pq: pq.clone(),
            tiling: Tiling::new(&q.tables()[0]),
            special,
            alpha,
            raise,
            down: Divisor::new(p_tables, None, q_moduli)?,
            down_rescale,
            rescale,
        })
    }

    /// The first and last limb of each digit at `level`.
    fn digits(&self, level: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..=level)
            .step_by(self.alpha)
            .map(move |start| (start, (start + self.alpha - 1).min(level)))
    }

    fn digit_count(&self, level: usize) -> usize {
        level / self.alpha + 1
    }

    /// The digit to which limb `j` of the key basis belongs.
    fn own_digit(&self, j: usize) -> Option<usize> {
        j.checked_sub(self.special).map(|i| i / self.alpha)
    }

    /// `limbs` in ranges that are raised together: more would take memory and no less time.
    fn ranges(&self, limbs: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        // Of one size, as far as that goes: a last range of few limbs would read all terms for them.
        let size = limbs
            .len()
            .div_ceil(limbs.len().div_ceil(GROUP).max(1))
            .max(1);
        limbs
            .clone()
            .step_by(size)
            .map(move |start| start..(start + size).min(limbs.end))
    }
}
