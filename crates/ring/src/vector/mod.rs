//! Kernels of encoding and decoding: in double precision, or between doubles, small integers and residues.
//!
//! Each is written once, as plain loops without fused multiply-add, and compiled for the instructions of
//! [`Width`]: the same operations in the same order everywhere, so results are equal bit for bit.
//!
//! This module has unsafe code for one reason: a function that was compiled for more instructions may be
//! called only on a processor that has them. A [`Width`] exists only after detection.
#![allow(unsafe_code)]

mod doubles;
mod fft;
mod lift;
mod roots;
mod round;

use crate::backend::Backend;

pub use doubles::Doubles;
pub use fft::SlotFft;
pub use lift::FloatLift;
pub use round::{largest_scaled, residues_of_bytes, residues_of_words, round_scaled, ROUND_LIMIT};

/// Which instructions the kernels of this module use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Width {
    /// Those that any processor has.
    pub const PORTABLE: Self = Self(Kind::Portable);

    /// Those that go with a backend, if this processor has them.
    #[must_use]
    pub fn of(backend: &dyn Backend) -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let avx512 = || {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            };
            match backend.name() {
                "avx512ifma" if avx512() => return Self(Kind::Avx512),
                "avx2" if is_x86_feature_detected!("avx2") => return Self(Kind::Avx2),
                _ => {}
            }
        }
        let _ = backend;
        Self::PORTABLE
    }

    pub(crate) fn kind(self) -> Kind {
        self.0
    }

    /// These, or those of 256 bits if these have more.
    #[must_use]
    pub(crate) fn half(self) -> Self {
        #[cfg(target_arch = "x86_64")]
        if self.0 == Kind::Avx512 && is_x86_feature_detected!("avx2") {
            return Self(Kind::Avx2);
        }
        self
    }

    /// All that this processor has, for tests and benchmarks.
    #[must_use]
    pub fn available() -> Vec<Self> {
        #[allow(unused_mut)]
        let mut all = vec![Self::PORTABLE];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                all.push(Self(Kind::Avx2));
            }
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
            {
                all.push(Self(Kind::Avx512));
            }
        }
        all
    }
}

/// Compiles a function for each [`Width`] and calls the one for its first argument.
macro_rules! for_each_width {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name(width: $crate::vector::Width, $($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn plain($($arg: $ty),*) $(-> $ret)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            fn avx2($($arg: $ty),*) $(-> $ret)? {
                plain($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
            fn avx512($($arg: $ty),*) $(-> $ret)? {
                plain($($arg),*)
            }
            match width.kind() {
                $crate::vector::Kind::Portable => plain($($arg),*),
                // SAFETY: the width was detected.
                #[cfg(target_arch = "x86_64")]
                #[allow(unsafe_code)]
                $crate::vector::Kind::Avx2 => unsafe { avx2($($arg),*) },
                // SAFETY: the width was detected.
                #[cfg(target_arch = "x86_64")]
                #[allow(unsafe_code)]
                $crate::vector::Kind::Avx512 => unsafe { avx512($($arg),*) },
            }
        }
    };
}
pub(crate) use for_each_width;
