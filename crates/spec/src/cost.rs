//! The vocabulary of operations and costs. `plan` predicts these numbers, a run counts them, and they must be equal.

use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

macro_rules! counts {
    ($(#[$m:meta])* $name:ident { $($(#[$fm:meta])* $f:ident),+ $(,)? }) => {
        $(#[$m])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name { $($(#[$fm])* pub $f: u64),+ }
        impl AddAssign for $name {
            fn add_assign(&mut self, o: Self) { $(self.$f += o.$f;)+ }
        }
        impl std::iter::Sum for $name {
            fn sum<I: Iterator<Item = Self>>(it: I) -> Self {
                let mut s = Self::default();
                for v in it { s += v; }
                s
            }
        }
        impl $name {
            /// Field-wise difference `self - earlier`, saturating.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self { Self { $($f: self.$f.saturating_sub(earlier.$f)),+ } }
        }
    };
}

counts! {
    /// Homomorphic operations.
    HeCounts {
        /// Slot rotations (key switches), hoisted or not.
        rotations,
        /// Complex conjugations (key switches).
        conjugations,
        /// Relinearisations (key switches).
        relinearizations,
        /// Ciphertext times ciphertext products.
        ct_ct,
        /// Ciphertext times plaintext-vector products.
        pt_ct,
        /// Rescales by one prime.
        rescales,
        /// Scale alignments: a product with one constant and a rescale, used when a ciphertext drops levels.
        aligns,
    }
}

impl HeCounts {
    /// All key switches.
    #[must_use]
    pub fn key_switches(&self) -> u64 {
        self.rotations + self.conjugations + self.relinearizations
    }
}

counts! {
    /// Two-party operations, in elements.
    MpcCounts {
        /// Secure products of two shared values.
        products,
        /// Secure squares.
        squares,
        /// Products of a shared value with a value that one party knows.
        known_products,
        /// Comparisons with a public threshold.
        comparisons,
        /// Selections of a value by a shared bit.
        muxes,
        /// Boolean to arithmetic conversions.
        b2a,
        /// Truncations within one unit.
        truncations,
        /// Faithful truncations.
        faithful_truncations,
        /// Ring extensions 64 to 88 bits.
        extensions,
        /// Correlated OTs used, both directions.
        cots,
    }
}

counts! {
    /// What crossed the link: payload and frame headers, before TLS.
    Traffic {
        /// Bytes from client to server.
        client_to_server,
        /// Bytes from server to client.
        server_to_client,
        /// Flights: batches of messages that depend on a received one, both directions.
        flights,
    }
}
