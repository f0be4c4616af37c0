//! A scan in the clear: random factors, the sequential recurrence, slot vectors of the packet.

#![allow(dead_code, clippy::unwrap_used)]

use cipherloom_kernels::Complex64;
use cipherloom_spec::layout::{ScanLayout, ScanTensors, SlotMap};

/// SplitMix64, for test values only.
pub struct Values(pub u64);

impl Values {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    /// Uniform in [lo, hi).
    pub fn uniform(&mut self, lo: f64, hi: f64) -> f64 {
        lo + (hi - lo) * (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
    pub fn vector(&mut self, len: usize, lo: f64, hi: f64) -> Vec<f64> {
        (0..len).map(|_| self.uniform(lo, hi)).collect()
    }
}

/// Random factors and their scan.
pub struct Problem {
    pub tensors: ScanTensors,
    pub x: Vec<f64>,
    pub decay: Vec<f64>,
    pub b: Vec<f64>,
    pub c: Vec<f64>,
    /// `[tokens][inner]`, from the sequential recurrence.
    pub y: Vec<f64>,
}

impl Problem {
    pub fn new(
        layout: ScanLayout,
        tokens: usize,
        chunks: usize,
        heads: usize,
        groups: usize,
        seed: u64,
    ) -> Self {
        let inner = chunks * layout.channels();
        let tensors = ScanTensors::new(layout, tokens, inner, heads, groups).unwrap();
        let mut v = Values(seed);
        let ds = layout.d_state();
        let x = v.vector(tokens * inner, -1.0, 1.0);
        let decay: Vec<f64> = (0..tokens * heads)
            .map(|_| (-v.uniform(1e-3, 3.0)).exp())
            .collect();
        let b = v.vector(tokens * groups * ds, -0.7, 0.7);
        let c = v.vector(tokens * groups * ds, -0.7, 0.7);
        let mut y = vec![0.0; tokens * inner];
        for e in 0..inner {
            let group = e / (inner / groups);
            let mut h = vec![0.0; ds];
            for t in 0..tokens {
                let a = decay[t * heads + e / (inner / heads)];
                let at = (t * groups + group) * ds;
                for i in 0..ds {
                    h[i] = a * h[i] + x[t * inner + e] * b[at + i];
                    y[t * inner + e] += h[i] * c[at + i];
                }
            }
        }
        Self {
            tensors,
            x,
            decay,
            b,
            c,
            y,
        }
    }

    /// Slots of the packet of a chunk: x, decay, B, C tiles.
    pub fn packet(&self, chunk: usize) -> [Vec<Vec<Complex64>>; 4] {
        let t = &self.tensors;
        let group = t.group_of(chunk);
        let tiles = |map: &dyn Fn(usize) -> SlotMap, values: &[f64]| {
            (0..t.tiles()).map(|i| slots(&map(i), values)).collect()
        };
        [
            tiles(&|i| t.x(chunk, i).unwrap(), &self.x),
            tiles(&|i| t.decay(chunk, i).unwrap(), &self.decay),
            tiles(&|i| t.b(group, i).unwrap(), &self.b),
            tiles(&|i| t.c(group, i).unwrap(), &self.c),
        ]
    }

    /// Largest error of the output tiles of a chunk.
    pub fn error(&self, chunk: usize, tiles: &[Vec<Complex64>]) -> f64 {
        let mut got = vec![f64::NAN; self.y.len()];
        for (i, tile) in tiles.iter().enumerate() {
            let re: Vec<f64> = tile.iter().map(|v| v.re).collect();
            let map = self.tensors.output(chunk, i).unwrap();
            map.scatter_re(&re, &mut got).unwrap();
        }
        let width = self.tensors.layout().channels();
        let inner = width * self.tensors.chunks();
        let mut worst: f64 = 0.0;
        for (k, (g, y)) in got.iter().zip(&self.y).enumerate() {
            if k % inner / width == chunk {
                assert!(g.is_finite(), "value {k} was not written");
                worst = worst.max((g - y).abs());
            }
        }
        worst
    }
}

fn slots(map: &SlotMap, values: &[f64]) -> Vec<Complex64> {
    let lanes = map.gather(values, 0.0, |v| -v).unwrap();
    lanes
        .into_iter()
        .map(|(re, im)| Complex64::new(re, im))
        .collect()
}
