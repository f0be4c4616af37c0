//! What the server sends as the answer: uniform bytes, whatever the logits and the shares are; for a label, uniform given
//! the label.

#![allow(clippy::unwrap_used, clippy::panic)]

use cipherloom_mpc::harness::run_channels;
use cipherloom_mpc::{
    index_bits, CotProducts, Domain, MpcConfig, MpcError, ProductSource, Session, Shares, TwoParty,
};
use cipherloom_net::{
    Channel, ChannelConfig, FrameKind, Halves, LinkFault, MemoryTransport, SendHalf, Transport,
};
use cipherloom_spec::fixed::{OUTPUT_BITS, OUTPUT_FRAC};
use cipherloom_spec::FracBits;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Logits of one run; four bytes each, so 2^20 bytes of answer.
const LOGITS: usize = 1 << 18;
const F2: FracBits = FracBits(38);
const HEADER: usize = 16;
const KIND_AT: usize = 4;

/// A transport that keeps the payload of every answer frame that leaves.
struct Tapped {
    inner: MemoryTransport,
    seen: Arc<Mutex<Vec<u8>>>,
}

struct TappedSend {
    inner: Box<dyn SendHalf>,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl SendHalf for TappedSend {
    fn send(&mut self, bytes: Vec<u8>, wait: Duration) -> Result<(), LinkFault> {
        if bytes[KIND_AT] == FrameKind::Output.byte() {
            self.seen
                .lock()
                .unwrap()
                .extend_from_slice(&bytes[HEADER..]);
        }
        self.inner.send(bytes, wait)
    }
    fn flush(&mut self, wait: Duration) -> Result<(), LinkFault> {
        self.inner.flush(wait)
    }
}

impl Transport for Tapped {
    fn split(self: Box<Self>) -> Result<Halves, std::io::Error> {
        let (inner, recv) = (Box::new(self.inner) as Box<dyn Transport>).split()?;
        let seen = self.seen;
        Ok((Box::new(TappedSend { inner, seen }), recv))
    }
}

/// The words of the logits, at 38 fraction bits: few different values, as real logits are.
fn words() -> Vec<u64> {
    (0..LOGITS)
        .map(|j| F2.encode([-1.75, 0.0, 0.3, 2.5][j % 4]))
        .collect()
}

/// [`opened`] on the words of all logits.
fn answer(
    last: impl Fn(&mut TwoParty, &Shares) -> Result<Option<Vec<u64>>, MpcError> + Sync,
) -> (Vec<u8>, Vec<u64>) {
    let x = Shares {
        v: words(),
        frac: F2,
    };
    opened(&x, last)
}

/// Runs `last` at both parties on a sharing without any randomness: the client's share is zero, the server's is the value.
/// What masks the answer can then come from the protocol alone. Returns what the server sent and what the client got.
fn opened(
    x: &Shares,
    last: impl Fn(&mut TwoParty, &Shares) -> Result<Option<Vec<u64>>, MpcError> + Sync,
) -> (Vec<u8>, Vec<u64>) {
    let net = ChannelConfig::default();
    let (a, b) = MemoryTransport::pair();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tapped = Tapped {
        inner: b,
        seen: Arc::clone(&seen),
    };
    let (client, server) = (
        Channel::new(Box::new(a), net).unwrap(),
        Channel::new(Box::new(tapped), net).unwrap(),
    );
    let shares = [Shares::zeros(x.len(), x.frac), x.clone()];
    let cot = |_: &mut Session| Ok(Box::new(CotProducts) as Box<dyn ProductSource>);
    let (got, none) = run_channels(
        MpcConfig::default(),
        client,
        server,
        &cot,
        |p| last(p, &shares[0]),
        |p| last(p, &shares[1]),
    )
    .unwrap();
    assert!(none.is_none());
    let sent = std::mem::take(&mut *seen.lock().unwrap());
    (sent, got.unwrap())
}

/// Chi-square of the values of bytes against the uniform distribution: 255 degrees of freedom.
fn chi_square(bytes: impl Iterator<Item = u8>) -> f64 {
    let mut bins = [0u64; 256];
    bytes.for_each(|b| bins[usize::from(b)] += 1);
    let mean = bins.iter().sum::<u64>() as f64 / 256.0;
    bins.iter().map(|&b| (b as f64 - mean).powi(2) / mean).sum()
}

/// All bytes together, then each of the four bytes of a word, then the differences of words (as bytes), which a
/// mask shared by several words would leave small.
fn statistics(sent: &[u8]) -> Vec<f64> {
    assert_eq!(sent.len(), 1 << 20);
    let mut out = vec![chi_square(sent.iter().copied())];
    out.extend((0..4).map(|k| chi_square(sent.iter().skip(k).step_by(4).copied())));
    let words: Vec<u32> = sent
        .chunks_exact(4)
        .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    for step in [1, 4] {
        let differences = words
            .iter()
            .zip(&words[step..])
            .flat_map(|(a, b)| a.wrapping_sub(*b).to_le_bytes());
        out.push(chi_square(differences));
    }
    out
}

/// Mean 255, standard deviation 22.6: six deviations.
const LIMIT: f64 = 255.0 + 6.0 * 22.6;

#[test]
fn the_servers_share_of_the_answer_is_uniform_and_an_unmasked_one_is_not() {
    let drop = F2.0 - OUTPUT_FRAC.0;
    let (sent, got) = answer(|p, x| {
        let cut = p.truncate_reduce_faithful(x, drop, OUTPUT_BITS)?;
        p.open_to_client(&cut, OUTPUT_BITS)
    });
    let rounded = |w: u64| ((w as i64 + (1 << (drop - 1))) >> drop) as u32;
    for (w, got) in words().into_iter().zip(got) {
        assert_eq!(got, u64::from(rounded(w)));
    }
    let masked = statistics(&sent);
    println!("masked: {masked:.0?}");
    assert!(masked.iter().all(|&c| c < LIMIT), "{masked:.0?}");

    // The same message without the protocol's masks: the server's share is the rounded value itself.
    let (sent, got) = answer(|p, x| {
        let v = x.v.iter().map(|&w| u64::from(rounded(w))).collect();
        let frac = OUTPUT_FRAC;
        let plain = if p.session_ref().is_client() {
            Shares::zeros(LOGITS, frac)
        } else {
            Shares { v, frac }
        };
        p.open_to_client(&plain, OUTPUT_BITS)
    });
    assert_eq!(got[2], u64::from(rounded(words()[2])));
    let plain = statistics(&sent);
    println!("unmasked: {plain:.0?}");
    assert!(plain.iter().all(|&c| c > 100.0 * LIMIT), "{plain:.0?}");
}

/// Openings of one label each.
const LABELS: usize = 4096;

/// Chi-square of 3-bit messages and of the differences of neighbours: 7 degrees of freedom, deviation 3.7.
fn label_statistics(sent: &[u8]) -> [f64; 2] {
    let chi = |values: &mut dyn Iterator<Item = u8>| {
        let mut bins = [0u64; 8];
        values.for_each(|b| bins[usize::from(b)] += 1);
        let mean = bins.iter().sum::<u64>() as f64 / 8.0;
        bins.iter().map(|&b| (b as f64 - mean).powi(2) / mean).sum()
    };
    [
        chi(&mut sent.iter().copied()),
        chi(&mut sent.windows(2).map(|w| w[1].wrapping_sub(w[0]) & 7)),
    ]
}

#[test]
fn the_servers_share_of_the_label_is_uniform_given_the_label_and_an_unmasked_one_is_not() {
    const LIMIT: f64 = 7.0 + 6.0 * 3.75;
    // The same label, 3, from three vectors of logits that differ in everything else, one with a tie.
    for logits in [
        [-1.0, 0.5, 0.25, 0.75, 0.5],
        [-9.0, -9.0, -9.0, -8.5, -8.5],
        [3.0, -20.0, 1.5, 17.0, 16.75],
    ] {
        let x = Shares {
            v: logits
                .map(|v| OUTPUT_FRAC.encode(v) & u64::from(u32::MAX))
                .to_vec(),
            frac: OUTPUT_FRAC,
        };
        let bits = index_bits(x.len());
        let repeat = |p: &mut TwoParty, one: &dyn Fn(&mut TwoParty) -> Result<Shares, MpcError>| {
            let mut all = Vec::new();
            for _ in 0..LABELS {
                let index = one(p)?;
                all.extend(p.open_to_client(&index, bits)?.unwrap_or_default());
            }
            Ok(p.session_ref().is_client().then_some(all))
        };
        let (sent, got) = opened(&x, |p, x| repeat(p, &|p| p.argmax(x, 8)));
        assert!(
            got.len() == LABELS && got.iter().all(|&g| g == 3),
            "{logits:?}"
        );
        // One byte a label: the bits above the index are zero, so the client can recover nothing else.
        assert!(sent.len() == LABELS && sent.iter().all(|b| b >> bits == 0));
        let masked = label_statistics(&sent);
        println!("{logits:?}: {masked:.1?}");
        assert!(masked.iter().all(|&c| c < LIMIT), "{masked:.1?}");

        // Without the protocol's masks: the client's share is zero.
        let (sent, _) = opened(&x, |p, _| {
            repeat(p, &|p| {
                let own = if p.session_ref().is_client() { 0 } else { 3 };
                Ok(Shares {
                    v: vec![own],
                    frac: FracBits(0),
                })
            })
        });
        let plain = label_statistics(&sent);
        assert!(plain.iter().all(|&c| c > 100.0 * LIMIT), "{plain:.1?}");
    }
}
