//! Semi-honest two-party computation on additive shares over Z_2^64.
