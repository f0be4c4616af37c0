//! Planning of polynomial evaluation.
//!
//! Paterson-Stockmeyer with a binary tree of giant steps (Bossuat, Mouchet, Troncoso-Pastoriza, Hubaux 2021, ePrint
//! 2020/1203, section 5, there for Chebyshev polynomials). A polynomial of degree at least g is `q B_g + r` with B_g the
//! basis polynomial of degree g = 2^k; low degrees are sums of constants times the B_j ("leaves").
//!
//! Depth. B_j is available `ceil(log2 j)` levels below the argument. A leaf takes one more level for its constants, so
//! that a leaf with B_(2^k - 1) would come one level too late on the path of the leading quotients. There, and only
//! there, it is split further. So degree d takes exactly `ceil(log2(d + 1))` levels.
//!
//! Scales. A node is a sum at one level and one scale: constants times B_j, products of a rescaled quotient with B_g,
//! and one number. Its scale is decided from above: the root's is the canonical scale of the result times the prime to
//! be divided out; a quotient must have the node's scale over that of B_g; a constant is encoded at the node's scale over that
//! of B_j. No scale is approximated. All products of a node are added before one relinearisation and one rescale:
//! the remainder r belongs to the same node.

use std::collections::BTreeMap;

use cipherloom_spec::cost::HeCounts;
use cipherloom_spec::Scale;

use super::polynomial::{degree, Argument, Polynomial, PolynomialBasis};
use crate::complex::Complex64;
use crate::error::CkksError;
use crate::params::CkksParameters;

/// Integer factors of the affine map up to this cost nothing; larger ones would use up the modulus.
const MAX_FREE_FACTOR: f64 = 1024.0;

/// A planned evaluation of one polynomial on ciphertexts of one level: what will be done, at which level and scale.
#[derive(Clone, Debug)]
pub struct PolynomialPlan {
    pub(super) params: CkksParameters,
    pub(super) level: usize,
    pub(super) basis: PolynomialBasis,
    pub(super) map: Map,
    /// By degree, ascending: each needs lower ones only.
    pub(super) powers: BTreeMap<usize, Power>,
    pub(super) root: Node,
    counts: HeCounts,
}

/// How the argument becomes u.
#[derive(Clone, Copy, Debug)]
pub(super) struct Map {
    pub factor: Factor,
    pub shift: f64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Factor {
    One,
    /// A product with an integer: no level.
    Integer(f64),
    /// A product with a constant at this scale, and a rescale.
    Level(f64, Scale),
}

/// `B_(high + low)` from a product of two lower ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Power {
    pub high: usize,
    pub low: usize,
    /// Level of the product, one above that of the result.
    pub level: usize,
    /// After the rescale.
    pub scale: Scale,
}

/// A sum at `level` and `scale`, before its rescale.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub level: usize,
    pub scale: Scale,
    pub constant: Complex64,
    /// B_j with its factor.
    pub linear: Vec<(usize, Complex64)>,
    /// A quotient with the degree of its giant step.
    pub products: Vec<(Node, usize)>,
}

impl Polynomial {
    /// Plans the evaluation on ciphertexts at `level` and its canonical scale. Of all numbers of baby steps it takes
    /// the one with the least work, counted in number-theoretic transforms at the levels where they happen.
    ///
    /// # Errors
    /// `PolynomialDegree` for a constant, `CircuitDepth` when the result would be below the base level,
    /// `LevelRange`.
    pub fn plan(
        &self,
        params: &CkksParameters,
        level: usize,
        argument: Argument,
    ) -> Result<PolynomialPlan, CkksError> {
        const OP: &str = "polynomial";
        params.check_level(OP, level)?;
        if self.degree() == 0 {
            return Err(CkksError::PolynomialDegree {
                degree: 0,
                min: 1,
                max: super::polynomial::MAX_DEGREE,
            });
        }
        let (factor, shift) = self.affine_map();
        let free = factor == factor.round() && factor <= MAX_FREE_FACTOR;
        let pays = argument == Argument::Raw && !free;
        let depth = self.depth() + usize::from(pays);
        if level < params.base_level() + depth {
            return Err(CkksError::CircuitDepth {
                op: OP,
                depth,
                level,
                base: params.base_level(),
            });
        }
        let map = Map {
            factor: match argument {
                Argument::Raw if pays => {
                    Factor::Level(factor, params.product_scale(level, params.scale(level))?)
                }
                Argument::Raw if factor != 1.0 => Factor::Integer(factor),
                _ => Factor::One,
            },
            shift,
        };
        let first = level - usize::from(pays);
        let mut best: Option<(f64, PolynomialPlan)> = None;
        for log_babies in 1..=self.depth() {
            let shape = Shape::new(self, log_babies);
            let plan = shape.schedule(self, params, level, first, map)?;
            let work = plan.work();
            if best.as_ref().is_none_or(|(least, _)| work < *least) {
                best = Some((work, plan));
            }
        }
        match best {
            Some((_, plan)) => Ok(plan),
            None => Err(CkksError::Empty { op: OP }),
        }
    }
}

impl PolynomialPlan {
    /// The level of the argument.
    #[must_use]
    pub fn level(&self) -> usize {
        self.level
    }

    /// The level of the result; it has the canonical scale there.
    #[must_use]
    pub fn output_level(&self) -> usize {
        self.root.level - 1
    }

    /// Levels used, the affine map included.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.level - self.output_level()
    }

    /// What the evaluator will count for one ciphertext.
    #[must_use]
    pub fn counts(&self) -> HeCounts {
        self.counts
    }

    /// The degrees of the basis polynomials that are computed, ascending; 1 is the argument itself.
    pub fn powers(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::once(1).chain(self.powers.keys().copied())
    }

    /// Number-theoretic transforms of one ciphertext; a pointwise product of a limb counts as an eighth.
    fn work(&self) -> f64 {
        let powers: f64 = self
            .powers
            .values()
            .map(|p| self.product_work(p.level) + self.reduce_work(p.level, true))
            .sum();
        powers + self.node_work(&self.root)
    }

    fn node_work(&self, node: &Node) -> f64 {
        let limbs = (node.level + 1) as f64;
        let below: f64 = node
            .products
            .iter()
            .map(|(q, _)| self.node_work(q) + self.product_work(node.level))
            .sum();
        below
            + node.linear.len() as f64 * limbs * 0.5
            + self.reduce_work(node.level, !node.products.is_empty())
    }

    fn product_work(&self, level: usize) -> f64 {
        (level + 1) as f64 * 0.75
    }

    /// A rescale, with a relinearisation or without.
    fn reduce_work(&self, level: usize, relinearize: bool) -> f64 {
        let chain = self.params.chain();
        let limbs = (level + 1) as f64;
        if !relinearize {
            return 2.0 * (limbs + 1.0);
        }
        let (special, digits) = (chain.p().len() as f64, chain.digits(level).len() as f64);
        limbs + digits * (limbs + special) * 1.25 + 2.0 * (special + 1.0) + 2.0 * limbs
    }
}

/// The tree without levels and scales.
struct Shape {
    root: Tree,
    /// Degrees above 1, ascending, with everything that they need.
    powers: Vec<usize>,
}

struct Tree {
    constant: Complex64,
    linear: Vec<(usize, Complex64)>,
    products: Vec<(Tree, usize)>,
}

/// Levels from B_1 to B_j: `ceil(log2 j)`.
fn depth_of(j: usize) -> usize {
    (usize::BITS - (j.max(1) - 1).leading_zeros()) as usize
}

/// `j = high + low` with high the largest power of two below j (half of j, if j is one).
fn split_power(j: usize) -> (usize, usize) {
    let high = 1 << (depth_of(j) - 1);
    (high, j - high)
}

impl Shape {
    fn new(p: &Polynomial, log_babies: usize) -> Self {
        let coefficients = p.coefficients().to_vec();
        let root = tree(p.basis(), coefficients, p.depth(), 1 << log_babies);
        let mut needed = vec![false; p.degree() + 1];
        mark(&root, &mut needed);
        for j in (2..needed.len()).rev() {
            if needed[j] {
                let (high, low) = split_power(j);
                needed[high] = true;
                needed[low] = true;
                if p.basis() == PolynomialBasis::Chebyshev {
                    needed[high - low] = true;
                }
            }
        }
        let powers = (2..needed.len()).filter(|&j| needed[j]).collect();
        Self { root, powers }
    }

    fn schedule(
        &self,
        p: &Polynomial,
        params: &CkksParameters,
        level: usize,
        first: usize,
        map: Map,
    ) -> Result<PolynomialPlan, CkksError> {
        let q = |level: usize| Scale::prime(params.chain().q()[level]);
        let chebyshev = p.basis() == PolynomialBasis::Chebyshev;
        let mut counts = HeCounts::default();
        match map.factor {
            Factor::One => {}
            Factor::Integer(_) => counts.pt_ct += 1,
            Factor::Level(..) => {
                counts.pt_ct += 1;
                counts.rescales += 1;
            }
        }
        let mut powers: BTreeMap<usize, Power> = BTreeMap::new();
        for &j in &self.powers {
            let (high, low) = split_power(j);
            let scale_of = |k: usize| powers.get(&k).map_or(params.scale(first), |p| p.scale);
            let at = first + 1 - depth_of(j);
            let scale = scale_of(high).times(scale_of(low)).over(q(at));
            counts.ct_ct += 1;
            counts.relinearizations += 1;
            counts.rescales += 1;
            // 2 T_a T_b - T_(a-b): the last term is a product with a constant, or minus 1.
            counts.pt_ct += u64::from(chebyshev && high != low);
            powers.insert(
                j,
                Power {
                    high,
                    low,
                    level: at,
                    scale,
                },
            );
        }
        let level_root = first + 1 - p.depth();
        let scale_root = params.scale(level_root - 1).times(q(level_root));
        let scale_of = |k: usize| powers.get(&k).map_or(params.scale(first), |p| p.scale);
        let root = place(
            &self.root,
            level_root,
            scale_root,
            &q,
            &scale_of,
            &mut counts,
        );
        Ok(PolynomialPlan {
            params: params.clone(),
            level,
            basis: p.basis(),
            map,
            powers,
            root,
            counts,
        })
    }
}

fn mark(tree: &Tree, needed: &mut [bool]) {
    for &(j, _) in &tree.linear {
        needed[j] = true;
    }
    for (quotient, g) in &tree.products {
        needed[*g] = true;
        mark(quotient, needed);
    }
}

/// Splits until leaves have degree below `babies` and their powers are there in time: a node that must be
/// done `budget` levels below B_1, rescale included, can use what is `budget - 1` levels below.
fn tree(basis: PolynomialBasis, mut p: Vec<Complex64>, budget: usize, babies: usize) -> Tree {
    let mut out = Tree {
        constant: Complex64::ZERO,
        linear: vec![],
        products: vec![],
    };
    loop {
        let Some(d) = degree(&p) else { return out };
        let in_time = (1..=d).all(|j| p[j] == Complex64::ZERO || depth_of(j) < budget);
        if d == 0 || (d < babies && in_time) {
            out.constant = p[0];
            let terms = (1..=d).filter(|&j| p[j] != Complex64::ZERO);
            out.linear.extend(terms.map(|j| (j, p[j])));
            return out;
        }
        let g = 1 << d.ilog2();
        let quotient = divide(basis, &mut p, d, g);
        if quotient.len() == 1 {
            out.linear.push((g, quotient[0]));
        } else {
            let quotient = tree(basis, quotient, budget - 1, babies);
            out.products.push((quotient, g));
        }
    }
}

/// `p = q B_g + r` for g <= d < 2g: returns q and leaves r (below degree g) in p.
fn divide(basis: PolynomialBasis, p: &mut Vec<Complex64>, d: usize, g: usize) -> Vec<Complex64> {
    let mut q = p[g..=d].to_vec();
    p.truncate(g);
    if basis == PolynomialBasis::Chebyshev {
        // T_(g+i) = 2 T_i T_g - T_(g-i).
        for i in 1..q.len() {
            p[g - i] -= q[i];
            q[i] = q[i].scaled(2.0);
        }
    }
    q
}

fn place(
    tree: &Tree,
    level: usize,
    scale: Scale,
    q: &impl Fn(usize) -> Scale,
    scale_of: &impl Fn(usize) -> Scale,
    counts: &mut HeCounts,
) -> Node {
    counts.pt_ct += tree.linear.len() as u64;
    counts.ct_ct += tree.products.len() as u64;
    counts.relinearizations += u64::from(!tree.products.is_empty());
    counts.rescales += 1;
    let products = tree
        .products
        .iter()
        .map(|(quotient, g)| {
            let above = level + 1;
            let scale = scale.over(scale_of(*g)).times(q(above));
            (place(quotient, above, scale, q, scale_of, counts), *g)
        })
        .collect();
    Node {
        level,
        scale,
        constant: tree.constant,
        linear: tree.linear.clone(),
        products,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(basis: PolynomialBasis, tree: &Tree, u: f64) -> f64 {
        let b = |j: usize| match basis {
            PolynomialBasis::Monomial => u.powi(j as i32),
            PolynomialBasis::Chebyshev => (j as f64 * u.acos()).cos(),
        };
        let linear: f64 = tree.linear.iter().map(|(j, c)| c.re * b(*j)).sum();
        let products: f64 = tree
            .products
            .iter()
            .map(|(q, g)| value(basis, q, u) * b(*g))
            .sum();
        tree.constant.re + linear + products
    }

    fn check_budget(tree: &Tree, budget: usize) {
        for &(j, _) in &tree.linear {
            assert!(depth_of(j) < budget);
        }
        for (q, g) in &tree.products {
            assert!(depth_of(*g) < budget);
            check_budget(q, budget - 1);
        }
    }

    #[test]
    fn every_tree_has_the_value_of_the_polynomial_within_its_depth() {
        for basis in [PolynomialBasis::Monomial, PolynomialBasis::Chebyshev] {
            for degree in [1usize, 2, 3, 7, 8, 15, 16, 40, 63, 100] {
                for step in [1usize, 2] {
                    let c: Vec<Complex64> = (0..=degree)
                        .map(|k| {
                            let on = (degree - k).is_multiple_of(step);
                            (f64::from(on) * ((k * 7 + 3) % 11) as f64 - 5.0 * f64::from(on)).into()
                        })
                        .map(|v: Complex64| {
                            if v == Complex64::ZERO {
                                v
                            } else {
                                v + 0.5.into()
                            }
                        })
                        .collect();
                    let p = Polynomial::new(basis, &c, [-1.0, 1.0]).unwrap();
                    for babies in 1..=p.depth() {
                        let shape = Shape::new(&p, babies);
                        check_budget(&shape.root, p.depth());
                        for u in [-1.0, -0.7, 0.1, 0.95] {
                            let want = p.value_at(u.into()).re;
                            let got = value(basis, &shape.root, u);
                            assert!((got - want).abs() < 1e-9 * (1.0 + want.abs()), "{degree}");
                        }
                    }
                }
            }
        }
    }
}
