//! Runs both parties in one process, each in its own thread, over an in-memory channel, with the real protocols.
//! For a person who owns both sides: `demo`, tests, measurements.

use crate::cot_products::CotProducts;
use crate::{MpcConfig, MpcError, Party, ProductSource, Session, TwoParty};
use cipherloom_net::{Channel, ChannelConfig};
use cipherloom_ring::SecretPrg;
use std::time::Duration;

/// Makes one party's source of products; may talk to the other party.
pub type MakeProducts<'a> =
    &'a (dyn Fn(&mut Session) -> Result<Box<dyn ProductSource>, MpcError> + Sync);

/// Opens a session between two threads with products from OTs, runs both closures, returns both results.
///
/// # Errors
/// The first error of the client, else of the server.
pub fn run_pair<A: Send, B: Send>(
    config: MpcConfig,
    client: impl FnOnce(&mut TwoParty) -> Result<A, MpcError> + Send,
    server: impl FnOnce(&mut TwoParty) -> Result<B, MpcError> + Send,
) -> Result<(A, B), MpcError> {
    run_pair_with(
        config,
        &|_| Ok(Box::new(CotProducts) as Box<dyn ProductSource>),
        client,
        server,
    )
}

/// As [`run_pair`] with a chosen source of products.
///
/// # Errors
/// The first error of the client, else of the server.
pub fn run_pair_with<A: Send, B: Send>(
    config: MpcConfig,
    products: MakeProducts<'_>,
    client: impl FnOnce(&mut TwoParty) -> Result<A, MpcError> + Send,
    server: impl FnOnce(&mut TwoParty) -> Result<B, MpcError> + Send,
) -> Result<(A, B), MpcError> {
    let (a, b) = Channel::memory_pair(ChannelConfig {
        deadline: Duration::from_secs(60),
        ..ChannelConfig::default()
    })?;
    run_channels(config, a, b, products, client, server)
}

/// As [`run_pair_with`] over two given, joined channels (for example emulated links).
///
/// # Errors
/// The first error of the client, else of the server.
pub fn run_channels<A: Send, B: Send>(
    config: MpcConfig,
    client_channel: Channel,
    server_channel: Channel,
    products: MakeProducts<'_>,
    client: impl FnOnce(&mut TwoParty) -> Result<A, MpcError> + Send,
    server: impl FnOnce(&mut TwoParty) -> Result<B, MpcError> + Send,
) -> Result<(A, B), MpcError> {
    std::thread::scope(|scope| {
        let server = scope.spawn(move || {
            let mut p = open(config, server_channel, Party::Server, products)?;
            server(&mut p)
        });
        let client = (|| {
            let mut p = open(config, client_channel, Party::Client, products)?;
            client(&mut p)
        })();
        let server = match server.join() {
            Ok(r) => r,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        Ok((client?, server?))
    })
}

fn open(
    config: MpcConfig,
    channel: Channel,
    party: Party,
    products: MakeProducts<'_>,
) -> Result<TwoParty, MpcError> {
    let mut session = Session::open(channel, party, b"in-process pair", config)?;
    let products = products(&mut session)?;
    Ok(TwoParty::new(session, products))
}

/// Uniform additive shares of words modulo 2^64: the client's, then the server's.
pub fn share_words(words: &[u64], prg: &mut SecretPrg) -> (Vec<u64>, Vec<u64>) {
    let first: Vec<u64> = words.iter().map(|_| prg.next_u64()).collect();
    let second = words
        .iter()
        .zip(&first)
        .map(|(w, r)| w.wrapping_sub(*r))
        .collect();
    (first, second)
}

/// The words that two share vectors add up to.
#[must_use]
pub fn join_words(client: &[u64], server: &[u64]) -> Vec<u64> {
    client
        .iter()
        .zip(server)
        .map(|(a, b)| a.wrapping_add(*b))
        .collect()
}

/// The bits that two vectors of bit shares stand for.
#[must_use]
pub fn join_bits(client: &[u8], server: &[u8]) -> Vec<u8> {
    client.iter().zip(server).map(|(a, b)| a ^ b).collect()
}
