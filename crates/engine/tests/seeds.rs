//! Every decoder of bytes from a network or a file on every committed seed, its truncations and random changes of it: the
//! targets of `fuzz/`, without a fuzzer.
//!
//! `CIPHERLOOM_WRITE_SEEDS=1 cargo test --release -p cipherloom-engine --test seeds` makes the seeds again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unreachable_pub)]
#[path = "../../../fuzz/src/lib.rs"]
mod targets;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use targets::{Target, TARGETS};

/// Longest run of one input, on a loaded machine.
const HANG: Duration = Duration::from_secs(20);
/// Milliseconds that one target may take here, by its estimate.
const BUDGET: u32 = 1500;

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds"))
}

fn seeds(target: &Target) -> BTreeMap<String, Vec<u8>> {
    std::fs::read_dir(folder().join(target.name))
        .unwrap_or_else(|e| panic!("seeds of {}: {e}", target.name))
        .map(|f| {
            let f = f.unwrap();
            let name = f.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(f.path()).unwrap())
        })
        .collect()
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// One to four flips, overwrites, insertions, deletions and repetitions.
    fn change(&mut self, seed: &[u8]) -> Vec<u8> {
        let mut out = seed.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(out.len() + 1);
            match self.below(6) {
                0 if at < out.len() => out[at] ^= 1 << self.below(8),
                1 if at < out.len() => out[at] = self.next() as u8,
                2 => out.insert(at, self.next() as u8),
                3 if at < out.len() => {
                    let end = (at + 1 + self.below(8)).min(out.len());
                    out.drain(at..end);
                }
                4 => {
                    let end = (at + self.below(16)).min(out.len());
                    let part = out[at..end].to_vec();
                    out.splice(at..at, part);
                }
                _ => {
                    let special = [0, 1, 0x7f, 0x80, 0xff][self.below(5)];
                    let end = ((at + 1) << self.below(4)).min(out.len());
                    out[at.min(end)..end].fill(special);
                }
            }
        }
        out
    }
}

fn timed(target: &Target, what: &str, input: &[u8]) -> bool {
    let start = Instant::now();
    let accepted = (target.run)(input);
    let took = start.elapsed();
    assert!(took < HANG, "{} {what}: {took:?}", target.name);
    accepted
}

#[test]
fn every_decoder_accepts_or_refuses_without_a_panic() {
    if std::env::var_os("CIPHERLOOM_WRITE_SEEDS").is_some() {
        write();
    }
    for target in TARGETS {
        let start = Instant::now();
        let seeds = seeds(target);
        assert!(!seeds.is_empty(), "{}", target.name);
        let share = (BUDGET / target.cost / seeds.len() as u32).clamp(4, 300) as usize;
        let mut random = Random(42);
        for (name, seed) in &seeds {
            let accepted = timed(target, name, seed);
            assert!(
                accepted || !name.starts_with("ok"),
                "{}/{name} was refused",
                target.name
            );
            // All truncations of short seeds, as many of long ones as there is time for.
            let step = seed.len().div_ceil(share).max(1);
            for cut in (0..seed.len()).step_by(step) {
                timed(target, &format!("{name}, {cut} bytes"), &seed[..cut]);
            }
            for i in 0..share {
                let changed = random.change(seed);
                timed(target, &format!("{name}, change {i}"), &changed);
            }
        }
        eprintln!(
            "{:14} {:3} seeds, {:?}",
            target.name,
            seeds.len(),
            start.elapsed()
        );
    }
}

#[test]
fn the_seeds_are_small_and_belong_to_targets() {
    let mut total = 0;
    for f in std::fs::read_dir(folder()).unwrap() {
        let name = f.unwrap().file_name().to_string_lossy().into_owned();
        assert!(TARGETS.iter().any(|t| t.name == name), "no target {name}");
    }
    for t in TARGETS {
        for (name, bytes) in seeds(t) {
            assert!(
                bytes.len() <= 64 << 10,
                "{}/{name}: {}",
                t.name,
                bytes.len()
            );
            total += bytes.len();
        }
    }
    assert!(total <= 2 << 20, "{total} bytes");
}

fn write() {
    let folder = folder();
    let _ = std::fs::remove_dir_all(&folder);
    for (target, name, bytes) in targets::seeds() {
        std::fs::create_dir_all(folder.join(target)).unwrap();
        std::fs::write(folder.join(target).join(name), bytes).unwrap();
    }
}
