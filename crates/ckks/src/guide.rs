//! Choosing parameters. Documentation only.
//!
//! A parameter set is a [`cipherloom_spec::CkksLiteral`]: the ring degree N, the sizes of the ciphertext primes and of the
//! special primes, the scale, and the number of digits of a key switch. Five questions in this order give them.
//!
//! # 1. How many levels
//!
//! Each product and its rescale take one level, of a ciphertext with a ciphertext or with a plaintext. Sums, rotations,
//! conjugations, products with i and products with small integers take none.
//!
//! | circuit | levels |
//! |---|---|
//! | matrix times vector ([`LinearPlan`](crate::circuits::LinearPlan)) | 1 |
//! | polynomial of degree d on [-1, 1] ([`PolynomialPlan::depth`](crate::circuits::PolynomialPlan::depth)) | `ceil(log2(d + 1))` |
//! | the same on [a, b] | one more, unless `2 / (b - a)` is an integer or is folded elsewhere |
//! | power 2^k | k |
//! | [`align`](crate::Evaluator::align) by any number of levels | 0 beyond the levels that it goes down |
//!
//! Fold constants into what is multiplied anyway: the factor of an interval into the matrix before it
//! ([`DiagonalMatrix::scaled`](crate::circuits::DiagonalMatrix::scaled)) or into the scale of the encryption
//! ([`Polynomial::encryption_scale`](crate::circuits::Polynomial::encryption_scale)).
//!
//! # 2. Which scale
//!
//! Rounding in a rescale or key switch leaves an error of about `0.24 N / scale` in the average slot, so values near 1 keep
//! `log_scale - log_n + 2` bits after the binary point; the largest error over all slots is two bits worse. A
//! product adds the errors of its factors, relative to the other factor; a polynomial multiplies the error by its derivative
//! (up to d^2 for the Chebyshev polynomial of degree d). [`crate::noise`] adds it up.
//!
//! The primes above the base have the size of the scale, so precision costs length: 20 to 50 bits are accepted.
//! Encryption under the public key is noisier by `sqrt(4N/3)`, about 8 bits at N = 2^15; under the secret key it is the
//! quietest, and half the bytes.
//!
//! # 3. Which base
//!
//! The base is what is left at the end: the first primes, those larger than the scale. It must hold the result:
//! `log2(base) >= log_scale + 1 + log2(largest value)`, with a bit or two of room. One prime of 50 bits with scale
//! 2^40 holds values up to 2^9. Two primes leave room for values up to 2^59, or for masks.
//!
//! # 4. How many special primes
//!
//! A key switch splits the ciphertext into digits of `ceil(primes / dnum)` primes; the special modulus P must be as large as
//! the largest digit. Few long digits: fewer transforms, smaller keys, more of the security budget for P. Many
//! short digits: the reverse.
//!
//! For more than about 8 primes three or four digits are usual. With the least P (equal to a digit) the key's noise
//! exceeds the rounding by a factor of four; with a P larger by two bits they are equal.
//!
//! # 5. How large a ring
//!
//! The smallest N whose row holds the sum of all sizes, special primes included. (Bossuat et al. 2024, ePrint
//! 2024/463, Table 5.2: 128 bits, classical, uniform ternary secret. [`cipherloom_spec::CkksLiteral::check`] enforces it.)
//!
//! | log N | slots | log2 QP | levels of 40 bits: one special prime, one prime a digit | levels of 40 bits: four digits |
//! |---|---|---|---|---|
//! | 13 | 4096 | 214 | 2 | 2 |
//! | 14 | 8192 | 430 | 8 | 7 |
//! | 15 | 16384 | 868 | 19 | 15 |
//! | 16 | 32768 | 1747 | 41 | 32 |
//! | 17 | 65536 | 3523 | 63 | 63 |
//!
//! ```
//! use cipherloom_spec::CkksLiteral;
//! let chain = |log_n, levels: usize, special, dnum| {
//!     let mut q_bits = vec![50];
//!     q_bits.resize(1 + levels, 40);
//!     CkksLiteral { log_n, q_bits, p_bits: vec![50; special], log_scale: 40, dnum }.check()
//! };
//! for (log_n, short, long, special, dnum) in
//!     [(13, 2, 2, 1, 3), (14, 8, 7, 2, 4), (15, 19, 15, 4, 4), (16, 41, 32, 8, 4), (17, 63, 63, 13, 5)]
//! {
//!     assert_eq!(chain(log_n, short, 1, short as u32 + 1)?.depth(), short);
//!     assert_eq!(chain(log_n, long, special, dnum)?.depth(), long);
//!     if log_n < 17 {
//!         assert!(chain(log_n, short + 1, 1, short as u32 + 2).is_err());
//!     }
//! }
//! # Ok::<(), cipherloom_spec::SpecError>(())
//! ```
//!
//! (A chain has at most 64 primes: those end the row of N = 2^17, not the security.)
//!
//! # Memory and keys
//!
//! With L primes at a ciphertext's level, k special primes and d digits, in bytes:
//!
//! | object | in memory | to send |
//! |---|---|---|
//! | ciphertext | 16 N L | N log2(Q) / 4; fresh and seeded: half |
//! | plaintext | 8 N L; in a [`PlaintextStore`](crate::circuits::PlaintextStore): about 5 N | |
//! | evaluation key | 16 N (L + k) d | N log2(QP) d / 8 |
//!
//! [`crate::size`] has exact functions. Keys that are used at low levels only are smaller: generate them up to the level
//! where they are used.
//!
//! # Worked example
//!
//! A layer `sigmoid(W x)` with a 256 x 256 matrix, `|W x| <= 8`, absolute error below 10^-5.
//!
//! 1. Levels. An interpolant of degree 31 is within 3.0e-6. The matrix takes one level, with the factor 1/8 of the
//!    interval folded in; the polynomial five. Six levels.
//! 2. Scale. 10^-5 is 17 bits, the largest slot and the polynomial take a few bits. At N = 2^14, 2^40 gives 28 bits: enough, and 2^35
//!    would do.
//! 3. Base. Values stay below 1: one prime of 50 bits.
//! 4. Seven primes, four digits of two: P of 80 bits or more, so two primes of 45.
//! 5. 50 + 6 * 40 + 90 = 380 bits: N = 2^14 (430). The room is not worth more levels; a smaller ring is out of reach
//!    (214).
//!
//! ```
//! use cipherloom_ckks::circuits::*;
//! use cipherloom_ckks::noise::NoiseModel;
//! use cipherloom_ckks::*;
//! use cipherloom_spec::CkksLiteral;
//!
//! # fn main() -> Result<(), CkksError> {
//! let literal = CkksLiteral {
//!     log_n: 14,
//!     q_bits: vec![50, 40, 40, 40, 40, 40, 40],
//!     p_bits: vec![45, 45],
//!     log_scale: 40,
//!     dnum: 4,
//! };
//! let params = CkksParameters::new(literal.check()?)?;
//! let (top, chain) = (params.top_level(), params.chain());
//! assert_eq!(chain.depth(), 6);
//!
//! // The circuit, planned.
//! let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
//! let function = Interpolation::new(sigmoid, 31, [-8.0, 8.0])?;
//! assert!(function.max_error < 3.1e-6);
//! let weights = DiagonalMatrix::from_real(256, 256, &vec![0.01; 65536])?.scaled((1.0 / 8.0).into());
//! let matrix = LinearPlan::new(&params, &weights, top, params.scale(top))?;
//! let polynomial = function.polynomial.plan(&params, top - 1, Argument::Mapped)?;
//! assert_eq!(polynomial.output_level(), params.base_level());
//! assert_eq!(matrix.counts().rotations, 30);
//! assert_eq!(polynomial.counts().relinearizations, 10);
//!
//! // Keys: the rotations act at the top, the relinearisations below it. In bytes, as sent.
//! let rotation = size::evaluation_key_bytes(chain, top);
//! let relinearisation = size::evaluation_key_bytes(chain, top - 1);
//! assert!((3_100_000..3_150_000).contains(&rotation));
//! assert!(relinearisation < rotation);
//! // All keys, in memory: 30 of 6.4 MB and one of 4.2 MB.
//! let memory = 30 * size::evaluation_key_memory_bytes(chain, top, true)
//!     + size::evaluation_key_memory_bytes(chain, top - 1, false);
//! assert!((193_000_000..199_000_000).contains(&memory));
//! // The weights: expanded 235 MB, in a store less than 1 MB, because a vector of period 256 has 512 coefficients.
//! assert_eq!(matrix.plaintext_bytes(&params), 256 * 7 * 8 * 16384);
//! // A ciphertext to send: 0.6 MB.
//! assert!(size::seeded_ciphertext_bytes(chain, top) < 620_000);
//!
//! // Precision after the matrix: each of 16 giant steps adds 16 products of a rotated x with weights of 0.01/8.
//! let model = NoiseModel::new(&params);
//! let x = model.encrypt_secret(&model.encode(top, params.scale(top), 1.0)?);
//! let weight = model.encode_repeated(256, top, params.product_scale(top, x.scale())?, 0.01 / 8.0)?;
//! let giant = model.key_switch(&model.mul_sum(&vec![(model.key_switch(&x)?, weight); 16])?)?;
//! let mut sum = giant;
//! for _ in 1..16 {
//!     sum = model.add(&sum, &giant)?;
//! }
//! let y = model.rescale(&sum)?;
//! assert!((27.5..28.5).contains(&y.precision_bits()), "{}", y.precision_bits());
//! # Ok(()) }
//! ```
