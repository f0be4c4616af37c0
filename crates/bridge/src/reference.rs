//! Slow exact arithmetic for tests: sines by integer square roots, decoding by its definition.

use num_bigint::{BigInt, BigUint};

/// `exp(i pi e / N)` with [`RefTrig::BITS`] fraction bits, by halving the angle from a quarter turn.
pub(crate) struct RefTrig {
    roots: Vec<(BigInt, BigInt)>,
}

impl RefTrig {
    pub(crate) const BITS: usize = 300;

    pub(crate) fn new(log_n: u32) -> Self {
        let one = BigInt::from(1) << Self::BITS;
        let sqrt = |v: BigInt| {
            let v: BigUint = v.try_into().unwrap();
            BigInt::from((v << Self::BITS).sqrt())
        };
        // exp(i pi / 2), halved log_n - 1 times; cos and sin by the half-angle formulas.
        let mut c = BigInt::from(0);
        let mut s = one.clone();
        for _ in 1..log_n {
            let nc = sqrt((&one + &c) >> 1);
            s = sqrt((&one - &c) >> 1);
            c = nc;
        }
        let mut roots = vec![(one, BigInt::from(0))];
        for e in 1..2usize << log_n {
            let (a, b) = &roots[e - 1];
            let next = (
                (a * &c - b * &s) >> Self::BITS,
                (a * &s + b * &c) >> Self::BITS,
            );
            roots.push(next);
        }
        Self { roots }
    }

    pub(crate) fn root(&self, e: usize) -> (&BigInt, &BigInt) {
        let (c, s) = &self.roots[e % self.roots.len()];
        (c, s)
    }

    /// Slot values of an integer polynomial with [`RefTrig::BITS`] fraction bits: the sum of its definition.
    pub(crate) fn slots(&self, coeffs: &[i128]) -> Vec<(BigInt, BigInt)> {
        let two_n = self.roots.len();
        assert_eq!(two_n, 2 * coeffs.len());
        let mut g = 1usize;
        (0..coeffs.len() / 2)
            .map(|_| {
                let (mut re, mut im) = (BigInt::from(0), BigInt::from(0));
                for (k, &c) in coeffs.iter().enumerate() {
                    let (cos, sin) = self.root(g * k);
                    re += cos * c;
                    im += sin * c;
                }
                g = g * 5 % two_n;
                (re, im)
            })
            .collect()
    }
}
