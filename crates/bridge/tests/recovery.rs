//! What the client could learn from the server's message: everything without the zero or without the mask, nothing with both.
//! The weakened messages are built here by hand; the library has no way to send them.
#![allow(clippy::unwrap_used, clippy::panic)]

use cipherloom_bridge::{CkksToShares, WideFft};
use cipherloom_ckks::Ciphertext;
use cipherloom_mpc::export::Exported;
use cipherloom_net::{Channel, ChannelConfig, FrameKind};
use cipherloom_ring::{Basis, Coeff, Ntt, Poly, SecretPrg};
use cipherloom_spec::{FracBits, Scale};
use cipherloom_testkit::fixture::test_values;
use cipherloom_testkit::{CkksFixture, INSECURE_TOY_10, INSECURE_TOY_9};
use std::sync::Arc;

/// The scale of the server's secret plaintext.
fn weight_scale() -> Scale {
    Scale::pow2(20)
}

struct Setting {
    fixture: CkksFixture,
    boundary: CkksToShares,
    x: Vec<f64>,
    weights: Vec<f64>,
    /// What the client sent.
    sent: Ciphertext,
    /// What the server computed: the product with its weights.
    computed: Ciphertext,
}

fn setting() -> Setting {
    let fixture = CkksFixture::insecure(INSECURE_TOY_10(), &[]);
    let n = fixture.params.slots();
    let base = fixture.params.base_level();
    let x: Vec<f64> = test_values(n, 1)
        .iter()
        .map(|v| v.re.signum() * (1.0 + v.re.abs()))
        .collect();
    let weights: Vec<f64> = test_values(n, 2).iter().map(|v| v.re).collect();
    let sent = fixture.encrypt_real(&x, base);
    let w = fixture
        .encoder
        .encode_real(&weights, base, weight_scale())
        .unwrap();
    let computed = fixture.evaluator.mul_plain(&sent, &w).unwrap();
    let fft = Arc::new(WideFft::new(10).unwrap());
    let boundary =
        CkksToShares::new(&fixture.params, &fft, computed.scale(), FracBits(19)).unwrap();
    Setting {
        fixture,
        boundary,
        x,
        weights,
        sent,
        computed,
    }
}

/// Runs the server and returns the raw messages as (c_0, c_1).
fn messages(
    fixture: &CkksFixture,
    boundary: &CkksToShares,
    cts: &[Ciphertext],
) -> Vec<(Poly<Coeff>, Poly<Ntt>)> {
    let (mut client, mut server) = Channel::memory_pair(ChannelConfig::default()).unwrap();
    let key = boundary.export_key(&fixture.public_key).unwrap();
    let mut prg = SecretPrg::from_os().unwrap();
    let prepared = boundary.prepare(&key, cts.len(), &mut prg).unwrap();
    boundary.server(cts, prepared, &mut server).unwrap();
    let basis = boundary.basis();
    let one = Exported::byte_len(basis, 1);
    let mut out = Vec::new();
    for batch in cts.chunks(16) {
        let bytes = client.recv(FrameKind::Exported, batch.len() * one).unwrap();
        for b in bytes.chunks_exact(one) {
            out.push((
                Poly::from_bytes(basis, &b[..one / 2]).unwrap(),
                Poly::from_bytes(basis, &b[one / 2..]).unwrap(),
            ));
        }
    }
    out
}

/// Root mean square error of a guess, relative to the weights, after clamping to their public range.
fn relative_error(guess: &[f64], weights: &[f64]) -> f64 {
    let square = |v: f64| v * v;
    let error: f64 = guess
        .iter()
        .zip(weights)
        .map(|(g, w)| square(g.clamp(-1.0, 1.0) - w))
        .sum();
    let size: f64 = weights.iter().map(|w| square(*w)).sum();
    (error / size).sqrt()
}

/// First attack: `c_1 = a w` with `a` known, divided point by point in the NTT domain.
fn divide(numerator: &Poly<Ntt>, denominator: &Poly<Ntt>) -> Poly<Coeff> {
    let basis: &Basis = numerator.basis();
    let mut out = numerator.clone();
    for (i, m) in basis.moduli().enumerate() {
        let d = denominator.limb(i).to_vec();
        for (o, d) in out.limb_mut(i).iter_mut().zip(d) {
            *o = m.mul(*o, m.inv(d).unwrap());
        }
    }
    out.into_coeff()
}

fn attack_c1(s: &Setting, c1: &Poly<Ntt>) -> f64 {
    let quotient = divide(c1, &s.sent.parts()[1]);
    let guess = s
        .fixture
        .encoder
        .decode_coeffs(&quotient, weight_scale())
        .unwrap();
    relative_error(&guess.iter().map(|v| v.re).collect::<Vec<_>>(), &s.weights)
}

/// Second attack: decrypts, reads the intermediate `x w` and divides by the known `x`.
fn attack_c0(s: &Setting, c0: &Poly<Ntt>, c1: &Poly<Ntt>) -> f64 {
    let ct = Ciphertext::from_parts(
        &s.fixture.params,
        vec![c0.clone(), c1.clone()],
        s.computed.scale(),
    )
    .unwrap();
    let guess: Vec<f64> = s
        .fixture
        .decrypt(&ct)
        .iter()
        .zip(&s.x)
        .map(|(v, x)| v.re / x)
        .collect();
    relative_error(&guess, &s.weights)
}

/// Third attack: decrypts, subtracts the known message times the candidate and keeps the noise `e w` of the client's own
/// ciphertext: what a mask that hides only the rounded value would leave.
fn attack_noise(s: &Setting, decrypted: &Poly<Coeff>) -> f64 {
    // e + m of the client's ciphertext is known to it exactly.
    let own = s.fixture.decryptor.decrypt_ntt(&s.sent).unwrap();
    let quotient = divide(&decrypted.to_ntt(), &own);
    let guess = s
        .fixture
        .encoder
        .decode_coeffs(&quotient, weight_scale())
        .unwrap();
    relative_error(&guess.iter().map(|v| v.re).collect::<Vec<_>>(), &s.weights)
}

#[test]
fn without_the_zero_the_second_component_gives_the_weights() {
    let s = setting();
    let error = attack_c1(&s, &s.computed.parts()[1]);
    assert!(error < 1e-3, "{error}");
}

#[test]
fn without_the_mask_the_decrypted_polynomial_gives_the_weights() {
    let s = setting();
    let (z0, z1) = s.fixture.encryptor.zero(s.computed.level()).unwrap();
    let parts = s.computed.parts();
    let (c0, c1) = (parts[0].add(&z0).unwrap(), parts[1].add(&z1).unwrap());
    let error = attack_c0(&s, &c0, &c1);
    assert!(error < 1e-3, "{error}");
    // The zero is there: the first attack is stopped by it alone.
    assert!(attack_c1(&s, &c1) > 0.1);
    // Without zero and mask the whole plaintext polynomial comes out, noise included.
    let bare = s.fixture.decryptor.decrypt_coeffs(&s.computed).unwrap();
    let error = attack_noise(&s, &bare);
    assert!(error < 1e-3, "{error}");
}

#[test]
fn with_zero_and_mask_the_same_attacks_fail() {
    let s = setting();
    for (c0, c1) in messages(
        &s.fixture,
        &s.boundary,
        &[s.computed.clone(), s.computed.clone()],
    ) {
        let c0 = c0.into_ntt();
        let ct = Ciphertext::from_parts(
            &s.fixture.params,
            vec![c0.clone(), c1.clone()],
            s.computed.scale(),
        )
        .unwrap();
        let decrypted = s.fixture.decryptor.decrypt_coeffs(&ct).unwrap();
        let errors = [
            attack_c1(&s, &c1),
            attack_c0(&s, &c0, &c1),
            attack_noise(&s, &decrypted),
        ];
        assert!(errors.iter().all(|&e| e > 0.1), "{errors:?}");
    }
}

/// Chi-square over 256 equal cells, in standard deviations from its mean.
fn chi_square(cells: &[u64; 256]) -> f64 {
    let total: u64 = cells.iter().sum();
    let mean = total as f64 / 256.0;
    let stat: f64 = cells
        .iter()
        .map(|&c| (c as f64 - mean).powi(2) / mean)
        .sum();
    (stat - 255.0) / (2.0f64 * 255.0).sqrt()
}

fn tally(cells: &mut [u64; 256], poly: &Poly<Coeff>) {
    for (i, m) in poly.basis().moduli().enumerate() {
        for &v in poly.limb(i) {
            cells[(u128::from(v) * 256 / u128::from(m.value())) as usize] += 1;
        }
    }
}

#[test]
fn a_million_residues_of_the_clients_view_are_uniform_and_unmasked_ones_are_not() {
    let fixture = CkksFixture::insecure(INSECURE_TOY_9(), &[]);
    let fft = Arc::new(WideFft::new(9).unwrap());
    let scale = fixture.params.scale(1);
    let boundary = CkksToShares::new(&fixture.params, &fft, scale, FracBits(19)).unwrap();
    // One ciphertext, sent 1024 times: 2^20 residues. The randomness must be fresh each time.
    let ct = fixture.encrypt_real(&vec![100.0; fixture.params.slots()], 1);
    let cts = vec![ct; 1024];
    let (mut c0_cells, mut view, mut unmasked) = ([0; 256], [0; 256], [0; 256]);
    let mut first: Vec<u64> = Vec::new();
    let mut seconds: Vec<u64> = Vec::new();
    for (c0, c1) in messages(&fixture, &boundary, &cts) {
        tally(&mut c0_cells, &c0);
        first.push(c0.limb(0)[0]);
        seconds.push(c1.limb(0)[0]);
        let ct = Ciphertext::from_parts(&fixture.params, vec![c0.into_ntt(), c1], scale).unwrap();
        tally(&mut view, &fixture.decryptor.decrypt_coeffs(&ct).unwrap());
    }
    for ct in &cts {
        // Re-randomised but not masked: what the client decrypts is small.
        let (z0, z1) = fixture.encryptor.zero(1).unwrap();
        let parts = vec![
            ct.parts()[0].add(&z0).unwrap(),
            ct.parts()[1].add(&z1).unwrap(),
        ];
        let ct = Ciphertext::from_parts(&fixture.params, parts, scale).unwrap();
        tally(
            &mut unmasked,
            &fixture.decryptor.decrypt_coeffs(&ct).unwrap(),
        );
    }
    assert_eq!(view.iter().sum::<u64>(), 1 << 20);
    // Six standard deviations: a false alarm once in 10^8 runs.
    assert!(
        chi_square(&c0_cells).abs() < 6.0,
        "c_0: {}",
        chi_square(&c0_cells)
    );
    assert!(
        chi_square(&view).abs() < 6.0,
        "decrypted: {}",
        chi_square(&view)
    );
    assert!(chi_square(&unmasked) > 1e5, "{}", chi_square(&unmasked));
    // No two messages share a residue of a 50-bit prime.
    for list in [&mut first, &mut seconds] {
        list.sort_unstable();
        assert!(list.windows(2).all(|w| w[0] != w[1]));
    }
}
