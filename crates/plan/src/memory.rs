//! Memory of both parties: what the plan knows, without the program itself.

use crate::describe::boundary::packed_poly_bytes;
use crate::document::{KeyRequest, MemoryEstimate};
use crate::layouts::{LinearLayouts, ScanChoice};
use crate::stage::{Stage, StageKind};
use cipherloom_spec::chain::CkksChain;

/// Bytes of one ciphertext of two polynomials at `level`.
fn ciphertext(chain: &CkksChain, level: usize) -> u64 {
    (2 * (level + 1) * chain.n() * 8) as u64
}

/// Bytes of the keys of a ring: two packed polynomials a digit over special primes and the level's primes; a
/// Galois key also holds its permutation tables, 8.5N bytes. Mirrors `ckks::size::evaluation_key_memory_bytes`.
fn keys(chain: &CkksChain, k: &KeyRequest) -> u64 {
    let n = chain.n() as u64;
    let one = |level: usize, galois: u64| -> u64 {
        let packed = packed_poly_bytes(chain.n(), chain.p())
            + packed_poly_bytes(chain.n(), &chain.q()[..=level]);
        // Whole words, and a register behind the last.
        let poly = 8 * (packed + 64).div_ceil(8);
        2 * chain.digits(level).len() as u64 * poly + galois * 17 * n / 2
    };
    let relin: u64 = k.relinearization.map_or(0, |l| one(l, 0));
    let galois: u64 = k
        .conjugation
        .into_iter()
        .chain(k.rotations.iter().map(|r| r.max_level))
        .map(|l| one(l, 1))
        .sum();
    relin + galois
}

/// Server and client.
#[must_use]
pub fn estimate(
    linear: &LinearLayouts,
    projection: &CkksChain,
    scan: &ScanChoice,
    requests: &[KeyRequest; 2],
    stages: &[Stage],
    layers: usize,
    taps: usize,
) -> (MemoryEstimate, MemoryEstimate) {
    let top = projection.top_level();
    let plain = |chain: &CkksChain, level: usize| ((level + 1) * chain.n() * 8) as u64;
    let per_layer = linear.input.products_per_pair() as u64 * plain(projection, top)
        + linear.output.products_per_pair() as u64 * plain(projection, top - 1)
        + (linear.convolved.blocks() * 3 * taps) as u64 * plain(projection, top - 1);
    let scan_top = scan.chain.top_level();
    let masks = 4 * scan.schedule.layout().rows() as u64 * plain(&scan.chain, scan_top) / 2;
    let peak = stages
        .iter()
        .map(|s| {
            let each = if s.kind == StageKind::ScanContract {
                ciphertext(&scan.chain, scan_top)
            } else {
                ciphertext(projection, top)
            };
            s.cost.peak_live_ciphertexts * each
        })
        .max()
        .unwrap_or(0);
    let server = MemoryEstimate {
        keys: keys(projection, &requests[0]) + keys(&scan.chain, &requests[1]),
        weights: layers as u64 * per_layer + masks,
        ciphertexts: peak,
    };
    // The client holds one key at a time, and one batch of ciphertexts.
    let client = MemoryEstimate {
        keys: 2
            * (scan.chain.digits(scan_top).len()
                * (scan_top + 1 + scan.chain.p().len())
                * scan.chain.n()
                * 8) as u64,
        weights: 0,
        ciphertexts: 16 * ciphertext(&scan.chain, scan_top),
    };
    (server, client)
}
