//! Conversion between CKKS ciphertexts and additive shares.
