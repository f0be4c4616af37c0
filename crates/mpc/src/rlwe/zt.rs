//! Shares modulo one prime.
