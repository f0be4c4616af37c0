//! The messages of a session's opening and of the client's input.

use super::boundary::{evaluation_key_bytes, public_key_bytes};
use super::ledger::{Ledger, ProductShape, Side};
use crate::document::KeyRequest;
use cipherloom_spec::CkksChain;

/// Mirrors `engine::handshake::HELLO_BYTES`.
pub const HELLO_BYTES: u64 = 128;

/// The client's hello, then the server's.
pub fn handshake(l: &mut Ledger) {
    l.message(Side::Client, HELLO_BYTES);
    l.message(Side::Server, HELLO_BYTES);
}

/// The client offers the fingerprint of its keys; the server says whether it has them.
pub fn offer(l: &mut Ledger) {
    l.message(Side::Client, 32);
    l.message(Side::Server, 1);
}

/// Public key and evaluation keys of one ring, one message each.
pub fn keys(l: &mut Ledger, chain: &CkksChain, request: &KeyRequest) {
    l.message(Side::Client, public_key_bytes(chain));
    for level in request.levels() {
        l.message(Side::Client, evaluation_key_bytes(chain, level));
    }
}

/// The public key of the products; none for products from OTs.
pub fn product_key(l: &mut Ledger) {
    let bytes = match l.product_shape() {
        ProductShape::Rlwe(r) => r.public_key_bytes(),
        ProductShape::Cot => return,
    };
    l.message(Side::Client, bytes);
}

/// The server's share of `n` input words.
pub fn input(l: &mut Ledger, n: usize) {
    l.message(Side::Client, 8 * n as u64);
}
