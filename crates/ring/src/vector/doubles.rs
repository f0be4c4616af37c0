//! Buffers of doubles.

use zeroize::Zeroizing;

use crate::words::Words;

/// `len` zeros that start at a cache line and are wiped when dropped: a buffer for values in double precision.
pub struct Doubles(Zeroizing<Words>);

impl Doubles {
    /// `len` zeros.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        Self(Zeroizing::new(Words::zeroed(len)))
    }
}

impl std::ops::Deref for Doubles {
    type Target = [f64];
    fn deref(&self) -> &[f64] {
        bytemuck::cast_slice(&self.0)
    }
}

impl std::ops::DerefMut for Doubles {
    fn deref_mut(&mut self) -> &mut [f64] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

impl std::fmt::Debug for Doubles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Doubles({})", self.len())
    }
}
