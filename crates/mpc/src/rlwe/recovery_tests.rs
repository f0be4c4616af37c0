//! What a key owner can compute from the answer to a product (protocols.md R1). Each attack must succeed when a part of
//! the export is missing and must fail when it is there; both halves run the same attack code.

use super::cipher::{encrypt, operand, weighted_sum, Uploaded};
use super::scaling::PlainModulus;
use super::*;
use crate::export::{export, weakened, ExportKey, PreparedExport, ReceivedExport};
use cipherloom_ring::{Basis, Coeff, Ntt, Poly, PublicSeed, SecretPrg, SecretSeed};
use num_bigint::BigInt;
use rand::{RngExt, SeedableRng};
use std::f64::consts::PI;

type Complex = (f64, f64);

fn times(a: Complex, b: Complex) -> Complex {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

/// Recursive radix-2 transform, sign -1 forward.
fn fft(v: &[Complex], sign: f64) -> Vec<Complex> {
    let n = v.len();
    if n == 1 {
        return v.to_vec();
    }
    let half = |odd: usize| v.iter().skip(odd).step_by(2).copied().collect::<Vec<_>>();
    let (e, o) = (fft(&half(0), sign), fft(&half(1), sign));
    let mut out = vec![(0.0, 0.0); n];
    for k in 0..n / 2 {
        let angle = sign * 2.0 * PI * k as f64 / n as f64;
        let t = times((angle.cos(), angle.sin()), o[k]);
        out[k] = (e[k].0 + t.0, e[k].1 + t.1);
        out[k + n / 2] = (e[k].0 - t.0, e[k].1 - t.1);
    }
    out
}

/// Values of a real polynomial at the odd 2N-th roots of unity: products there are negacyclic products.
fn values(p: &[f64]) -> Vec<Complex> {
    let n = p.len() as f64;
    let twisted: Vec<Complex> = p
        .iter()
        .enumerate()
        .map(|(k, x)| {
            let a = -PI * k as f64 / n;
            (x * a.cos(), x * a.sin())
        })
        .collect();
    fft(&twisted, -1.0)
}

fn coefficients(v: &[Complex]) -> Vec<f64> {
    let n = v.len() as f64;
    fft(v, 1.0)
        .into_iter()
        .enumerate()
        .map(|(k, x)| {
            let a = PI * k as f64 / n;
            times(x, (a.cos(), a.sin())).0 / n
        })
        .collect()
}

/// `|alpha got - want| / |want|` for the best factor `alpha`: an attack need not know the scale.
fn relative_error(got: &[f64], want: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let alpha = dot(got, want) / dot(got, got);
    let left: Vec<f64> = got.iter().zip(want).map(|(g, w)| alpha * g - w).collect();
    (dot(&left, &left) / dot(want, want)).sqrt()
}

/// Centred integers of a polynomial, by the Chinese remainder theorem.
fn centred(p: &Poly<Coeff>) -> (Vec<BigInt>, BigInt) {
    let q: BigInt = p.basis().primes().into_iter().map(BigInt::from).product();
    let weights: Vec<BigInt> = p
        .basis()
        .moduli()
        .map(|m| {
            let rest = &q / m.value();
            let r = u64::try_from(&rest % m.value()).unwrap();
            rest * m.inv(r).unwrap()
        })
        .collect();
    let lift = (0..p.n())
        .map(|j| {
            let x = weights
                .iter()
                .enumerate()
                .map(|(i, w)| w * p.limb(i)[j])
                .sum::<BigInt>()
                % &q;
            if &x * 2 > q {
                x - &q
            } else {
                x
            }
        })
        .collect();
    (lift, q)
}

fn float(x: &BigInt) -> f64 {
    x.to_string().parse().unwrap()
}

/// Client, server and one server operand for many replies (a weight vector).
struct Scene {
    params: RlweParameters,
    key: ProductKey,
    public: ExportKey,
    weights: Vec<u64>,
}

fn prg(label: &str, i: u64) -> SecretPrg {
    SecretSeed::from_bytes([9; 32]).derive(label, i)
}

/// How the server answers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Full,
    WithoutZero,
    /// The zero is there; the mask is uniform modulo `t` only, encoded as `round(q r / t)`.
    MaskModT,
}

impl Scene {
    fn new() -> Self {
        let params = RlweParameters::crt64().unwrap();
        let key = ProductKey::from_seed(&params, &SecretSeed::from_bytes([4; 32])).unwrap();
        // A public key over all of q: modulus switching is not the privacy argument, so the attacks see none.
        let mut p = prg("public", 0);
        let q = params.upload_basis();
        let a = p.uniform_poly::<Ntt>(q).expose().clone();
        let mut b = p.cbd21_poly(q).unwrap().expose().to_ntt();
        b.sub_assign(&a.mul(key.secret().expose()).unwrap())
            .unwrap();
        let mut r = rand_chacha::ChaCha20Rng::seed_from_u64(11);
        let weights = (0..params.slots()).map(|_| r.random()).collect();
        Self {
            public: ExportKey::new(b, a).unwrap(),
            params,
            key,
            weights,
        }
    }

    fn plain(&self) -> &PlainModulus {
        &self.params.plain()[0]
    }

    fn basis(&self) -> &Basis {
        self.params.upload_basis()
    }

    /// The weights as centred coefficients modulo t: what multiplies the client's ciphertext.
    fn weight_coefficients(&self) -> Vec<f64> {
        let mut w = self.plain().residues(&self.weights);
        self.plain().slots_to_coefficients(&mut w).unwrap();
        w.iter()
            .map(|&x| self.plain().modulus().center(x) as f64)
            .collect()
    }

    /// What the client knows of query `i`: the words, and the full error `e + round(q x / t) - q x / t` as reals.
    fn query(&self, i: u64) -> (Vec<u64>, Vec<f64>) {
        let mut r = rand_chacha::ChaCha20Rng::seed_from_u64(100 + i);
        let words: Vec<u64> = (0..self.params.slots()).map(|_| r.random()).collect();
        let mut p = prg("query", i);
        p.public_seed();
        let e = p.cbd21(self.params.slots());
        let t = *self.plain().modulus();
        let mut x = self.plain().residues(&words);
        self.plain().slots_to_coefficients(&mut x).unwrap();
        let q_mod_t = self
            .basis()
            .moduli()
            .fold(1, |acc, m| t.mul(acc, t.reduce(m.value())));
        let error = x
            .iter()
            .zip(e.iter())
            .map(|(&x, &e)| {
                // q x = t k + rho, so k - q x / t = -rho / t.
                f64::from(e) - t.center(t.mul(x, q_mod_t)) as f64 / t.value() as f64
            })
            .collect();
        (words, error)
    }

    /// The server's answer to query `i`, at modulus q, as the client receives it, with the uniform part that it sent.
    fn reply(&self, i: u64, answer: Answer) -> (ReceivedExport, Poly<Ntt>) {
        let (words, _) = self.query(i);
        let mut bytes = vec![];
        encrypt(
            &self.params,
            self.plain(),
            &self.key,
            &words,
            &mut prg("query", i),
            &mut bytes,
        )
        .unwrap();
        let up = Uploaded::from_bytes(&self.params, &bytes).unwrap();
        let w = operand(self.plain(), &self.weights).unwrap();
        let mut c0 = up.c0.mul(w.expose()).unwrap().into_coeff();
        let c1 = up.c1.mul(w.expose()).unwrap();
        let mut server = prg("server", i);
        let prepared = PreparedExport::new(&self.public, self.basis(), 1, &mut server).unwrap();
        let received = match answer {
            Answer::Full => weakened::received(export(c0, vec![c1], prepared).unwrap().0),
            Answer::WithoutZero => weakened::without_zero(c0, vec![c1], prepared),
            Answer::MaskModT => {
                let mut r = vec![0; self.params.slots()];
                server.uniform(self.plain().modulus(), &mut r);
                c0.add_assign(&self.plain().scale_up(&r).unwrap()).unwrap();
                weakened::without_mask(c0, vec![c1], prepared)
            }
        };
        (received, up.c1)
    }

    /// Attack on `c_1`: divide by the uniform part that the client sent.
    fn divide(&self, answer: Answer) -> Vec<f64> {
        let (received, a) = self.reply(0, answer);
        let mut w = received.rest()[0].clone();
        for i in 0..w.limbs() {
            let m = *w.basis().modulus(i);
            for (x, &a) in w.limb_mut(i).iter_mut().zip(a.limb(i)) {
                // A zero among the values of a would stop one slot only.
                *x = m.mul(*x, m.inv(a).unwrap_or(0));
            }
        }
        let (w, _) = centred(&w.into_coeff());
        w.iter().map(float).collect()
    }

    /// Attack on the noise: decrypt, take the distance to the lattice `(q/t) Z`, and solve `noise_k = error_k w` for
    /// `w` by least squares over all replies, at every complex root.
    fn solve_noise(&self, replies: u64, answer: Answer) -> Vec<f64> {
        let n = self.params.slots();
        let mut above = vec![(0.0, 0.0); n];
        let mut below = vec![0.0; n];
        for i in 0..replies {
            let (received, _) = self.reply(i, answer);
            let (phase, q) = centred(received.decrypt(self.key.secret()).unwrap().expose());
            let t = BigInt::from(self.plain().modulus().value());
            let noise: Vec<f64> = phase
                .iter()
                .map(|c| {
                    // t c = q m + rest with m = round(t c / q); the noise is rest / t.
                    let tc = c * &t;
                    let mut rest = ((&tc % &q) + &q) % &q;
                    if &rest * 2 > q {
                        rest -= &q;
                    }
                    float(&rest) / float(&t)
                })
                .collect();
            let (y, e) = (values(&noise), values(&self.query(i).1));
            for k in 0..n {
                let p = times((e[k].0, -e[k].1), y[k]);
                above[k].0 += p.0;
                above[k].1 += p.1;
                below[k] += e[k].0 * e[k].0 + e[k].1 * e[k].1;
            }
        }
        let w: Vec<Complex> = above
            .iter()
            .zip(&below)
            .map(|(a, b)| (a.0 / b, a.1 / b))
            .collect();
        coefficients(&w)
    }
}

#[test]
fn the_transform_of_the_attack_multiplies_negacyclically() {
    let (a, b) = ([1.0, 2.0, 0.0, -1.0], [3.0, 0.0, 1.0, 5.0]);
    let v: Vec<Complex> = values(&a)
        .into_iter()
        .zip(values(&b))
        .map(|(x, y)| times(x, y))
        .collect();
    let mut direct = [0.0; 4];
    for i in 0..4 {
        for j in 0..4 {
            let s = if i + j >= 4 { -1.0 } else { 1.0 };
            direct[(i + j) % 4] += s * a[i] * b[j];
        }
    }
    for (x, y) in coefficients(&v).iter().zip(direct) {
        assert!((x - y).abs() < 1e-9, "{x} {y}");
    }
}

#[test]
fn without_the_zero_one_reply_gives_the_weights_and_with_it_not() {
    let s = Scene::new();
    let w = s.weight_coefficients();
    let broken = relative_error(&s.divide(Answer::WithoutZero), &w);
    let whole = relative_error(&s.divide(Answer::Full), &w);
    println!("c_1 / a: without the zero {broken:.1e}, with it {whole:.1e}");
    assert!(broken < 1e-3, "{broken}");
    assert!(whole > 0.1, "{whole}");
    // The zero is what protects c_1: a mask modulo t instead of q does not change that.
    assert!(relative_error(&s.divide(Answer::MaskModT), &w) > 0.1);
}

#[test]
fn without_the_mask_modulo_q_the_noise_gives_the_weights_and_with_it_not() {
    let s = Scene::new();
    let w = s.weight_coefficients();
    let one = relative_error(&s.solve_noise(1, Answer::MaskModT), &w);
    let four = relative_error(&s.solve_noise(4, Answer::MaskModT), &w);
    let whole = relative_error(&s.solve_noise(4, Answer::Full), &w);
    println!("noise / e: masked modulo t {one:.1e} (1 reply), {four:.1e} (4); masked modulo q {whole:.1e}");
    assert!(four < 1e-3, "{four}");
    assert!(whole > 0.1, "{whole}");
}

#[test]
fn measured_export_noise_stays_within_its_bound() {
    let s = Scene::new();
    let params = &s.params;
    let q = params.export_basis();
    let n = params.slots();
    let mut r = rand_chacha::ChaCha20Rng::seed_from_u64(21);
    let mut words = || -> Vec<u64> { (0..n).map(|_| r.random()).collect() };
    let (x, y, u, v) = (words(), words(), words(), words());
    let upload = |w: &[u64], i| {
        let mut bytes = vec![];
        let plain = s.plain();
        encrypt(params, plain, &s.key, w, &mut prg("noise", i), &mut bytes).unwrap();
        Uploaded::from_bytes(params, &bytes).unwrap()
    };
    let (ex, ey) = (upload(&x, 0), upload(&y, 1));
    let (pu, pv) = (
        operand(s.plain(), &u).unwrap(),
        operand(s.plain(), &v).unwrap(),
    );
    let (c0, c1) = weighted_sum(params, &[(&ex, &pu), (&ey, &pv)]).unwrap();
    let prepared = PreparedExport::new(&s.public, q, 1, &mut prg("noise", 2)).unwrap();
    let phase = weakened::without_mask(c0, vec![c1], prepared)
        .decrypt(s.key.secret())
        .unwrap();
    let (phase, modulus) = centred(phase.expose());
    let t = BigInt::from(s.plain().modulus().value());
    let noise: Vec<f64> = phase
        .iter()
        .map(|c| {
            let tc = c * &t;
            let mut rest = ((&tc % &modulus) + &modulus) % &modulus;
            if &rest * 2 > modulus {
                rest -= &modulus;
            }
            float(&rest) / float(&t)
        })
        .collect();
    let rms = (noise.iter().map(|e| e * e).sum::<f64>() / n as f64).sqrt();
    let mean = noise.iter().map(|e| e.abs()).sum::<f64>() / n as f64;
    let bound = params.noise(2);
    println!(
        "rms {rms:.1} of {:.1}, mean |e| {mean:.1} of {:.1}",
        bound.sigma(),
        bound.mean_abs()
    );
    assert!(
        rms < 1.05 * bound.sigma() && rms > 0.7 * bound.sigma(),
        "{rms}"
    );
    assert!(mean < 1.05 * bound.mean_abs(), "{mean}");
}

#[test]
fn the_failure_bound_predicts_how_many_coefficients_are_read_wrong() {
    // q' of 64 bits: about 2^-12 of the coefficients fail.
    let literal = RlweLiteral {
        export_bits: vec![32, 32],
        ..RlweLiteral::crt64()
    };
    let params = RlweParameters::insecure_failing(literal).unwrap();
    let n = 16 * params.slots();
    let mut r = rand_chacha::ChaCha20Rng::seed_from_u64(31);
    let v: [Vec<u64>; 4] = std::array::from_fn(|_| (0..n).map(|_| r.random()).collect());
    let (mut a, mut b) =
        cipherloom_net::Channel::memory_pair(cipherloom_net::ChannelConfig::default()).unwrap();
    let key = ProductKey::from_seed(&params, &SecretSeed::from_bytes([1; 32])).unwrap();
    let public = key.public_key(&params, PublicSeed([4; 32])).unwrap();
    let (x, y) = std::thread::scope(|s| {
        let client = s.spawn(|| {
            let mut c = ClientSums::new(params.clone(), key, SecretSeed::from_bytes([2; 32]));
            c.sums(&mut a, &[&v[0], &v[1]]).unwrap()
        });
        let seed = SecretSeed::from_bytes([3; 32]);
        let mut c = ServerSums::new(params.clone(), public, seed);
        let y = c.sums(&mut b, &[&v[2], &v[3]]).unwrap();
        (client.join().unwrap(), y)
    });
    let mut wrong = 0;
    for (i, plain) in params.plain().iter().enumerate() {
        let t = plain.modulus();
        for chunk in 0..16 {
            let mut d: Vec<u64> = (chunk * params.slots()..(chunk + 1) * params.slots())
                .map(|j| {
                    let want = t.add(
                        t.mul(t.reduce(v[0][j]), t.reduce(v[2][j])),
                        t.mul(t.reduce(v[1][j]), t.reduce(v[3][j])),
                    );
                    t.sub(t.add(x[i][j], y[i][j]), want)
                })
                .collect();
            plain.slots_to_coefficients(&mut d).unwrap();
            for e in d {
                assert!(t.center(e).abs() <= 1);
                wrong += usize::from(e != 0);
            }
        }
    }
    let predicted = params.log2_failure(2, 3.0 * n as f64).exp2();
    println!(
        "{wrong} wrong coefficients of {}, bound {predicted:.1}",
        3 * n
    );
    assert!((wrong as f64) < 1.4 * predicted && wrong as f64 > 0.6 * predicted);
}
