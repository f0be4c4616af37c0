//! What is switched and what is added to it: polynomials, or products that exist one row at a time.

use std::ops::Range;

use cipherloom_ring::{Ahead, Backend, Modulus, Ntt, Poly};

/// The polynomial that is switched.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand<'a> {
    /// A polynomial.
    Poly(&'a Poly<Ntt>),
    /// A product; its factors have the same limbs.
    Product(&'a Poly<Ntt>, &'a Poly<Ntt>),
}

impl<'a> Operand<'a> {
    pub(super) fn level(&self) -> usize {
        let (Self::Poly(p) | Self::Product(p, _)) = self;
        p.limbs() - 1
    }

    /// Says that row `row` of limb `i` will be read.
    pub(super) fn announce_row(&self, i: usize, row: Range<usize>, ahead: &mut Ahead<'a>) {
        match self {
            Self::Poly(p) => ahead.push(&p.limb(i)[row]),
            Self::Product(a, b) => {
                ahead.push(&a.limb(i)[row.clone()]);
                ahead.push(&b.limb(i)[row]);
            }
        }
    }

    /// Writes a row of limb `i`, which is modulo `m`.
    pub(super) fn write_row(
        &self,
        backend: &dyn Backend,
        m: &Modulus,
        i: usize,
        row: Range<usize>,
        out: &mut [u64],
    ) {
        match self {
            Self::Poly(p) => out.copy_from_slice(&p.limb(i)[row]),
            Self::Product(a, b) => {
                backend.mul(m, out, &a.limb(i)[row.clone()], &b.limb(i)[row]);
            }
        }
    }
}

/// A pair of polynomials that joins the switched one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Addend<'a> {
    /// `(c0, c1)`; no c1 means zero.
    Polys(&'a Poly<Ntt>, Option<&'a Poly<Ntt>>),
    /// `(a0 b0, a0 b1 + a1 b0)`.
    Tensor([&'a Poly<Ntt>; 2], [&'a Poly<Ntt>; 2]),
}

impl<'a> Addend<'a> {
    /// Says that row `row` of limb `i` of all parts will be read.
    pub(super) fn announce_row(&self, i: usize, row: Range<usize>, ahead: &mut Ahead<'a>) {
        match self {
            Self::Polys(c0, c1) => {
                for c in [Some(*c0), *c1].into_iter().flatten() {
                    ahead.push(&c.limb(i)[row.clone()]);
                }
            }
            Self::Tensor(a, b) => {
                for c in a.iter().chain(b) {
                    ahead.push(&c.limb(i)[row.clone()]);
                }
            }
        }
    }

    /// The first part alone, if the other is zero.
    pub(super) fn first_only(&self) -> Option<&'a Poly<Ntt>> {
        match self {
            Self::Polys(c0, None) => Some(c0),
            _ => None,
        }
    }

    /// Adds words `row` of limb `i` of part `half` to `acc`.
    pub(super) fn add_row(
        &self,
        backend: &dyn Backend,
        m: &Modulus,
        (half, i): (usize, usize),
        row: Range<usize>,
        acc: &mut [u64],
    ) {
        match self {
            Self::Polys(c0, c1) => {
                if let Some(c) = if half == 0 { Some(*c0) } else { *c1 } {
                    backend.add_assign(m, acc, &c.limb(i)[row]);
                }
            }
            Self::Tensor(a, b) => {
                let [a, b] = [a, b].map(|parts| parts.map(|p| &p.limb(i)[row.clone()]));
                if half == 0 {
                    backend.mul_add(m, acc, a[0], b[0]);
                } else {
                    backend.dot_add(m, acc, &[(a[0], b[1]), (a[1], b[0])]);
                }
            }
        }
    }
}
