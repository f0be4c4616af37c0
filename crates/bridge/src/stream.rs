//! A deterministic stream of words for tests (SplitMix64).

pub(crate) struct Stream(u64);

impl Stream {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    /// Uniform in `[-2^bits, 2^bits)`.
    pub(crate) fn signed(&mut self, bits: u32) -> i128 {
        let w = (i128::from(self.next()) << 64) | i128::from(self.next());
        w >> (127 - bits)
    }
}
