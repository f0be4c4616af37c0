//! Times both crossings of 16 ciphertexts at N = 2^15 over an in-memory channel, both parties on one machine.

use cipherloom_bridge::{CkksToShares, ExportDecryptor, SharesToCkks, SlotWords, WideFft};
use cipherloom_ckks::{CkksParameters, Decryptor, KeyGenerator, SecretEncryptor};
use cipherloom_net::{Channel, ChannelConfig};
use cipherloom_ring::{PublicSeed, SecretPrg};
use cipherloom_spec::{CkksLiteral, FracBits};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

const COUNT: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let mut q_bits = vec![50, 50];
    q_bits.resize(10, 40);
    let literal = CkksLiteral {
        log_n: 15,
        q_bits,
        p_bits: vec![50; 4],
        log_scale: 40,
        dnum: 3,
    };
    let params = CkksParameters::new(literal.check()?)?;
    let keygen = KeyGenerator::from_os(&params)?;
    let secret = Arc::new(keygen.secret_key()?);
    let public = keygen.public_key(&secret, PublicSeed([1; 32]))?;
    let encryptor = SecretEncryptor::new(&params, secret.clone())?;
    let decryptor = ExportDecryptor::new(&params, &Decryptor::new(&params, secret)?)?;
    let fft = Arc::new(WideFft::new(15)?);
    let words = || -> Result<Vec<SlotWords>, Box<dyn Error>> {
        (0..COUNT)
            .map(|k| {
                let lane = (0..params.slots())
                    .map(|j| ((j * k) % 1000) as i128)
                    .collect();
                Ok(SlotWords::new(lane, Vec::new())?)
            })
            .collect()
    };
    let (mut client, mut server) = Channel::memory_pair(ChannelConfig::default())?;
    let time = |what: &str, start: Instant| {
        let ms = start.elapsed().as_secs_f64() * 1e3 / COUNT as f64;
        println!("{what:32} {ms:7.2} ms a ciphertext");
    };
    println!(
        "{} threads, level 4 up, base level down",
        rayon::current_num_threads()
    );
    let import = SharesToCkks::new(&params, &fft, 4, FracBits(19))?;
    let (client_words, server_words) = (words()?, words()?);
    let start = Instant::now();
    import.client(&client_words, &encryptor, &mut client)?;
    time("to ciphertexts, client", start);
    let start = Instant::now();
    let cts = import.server(&server_words, &mut server)?;
    time("to ciphertexts, server", start);
    let export = CkksToShares::new(&params, &fft, params.scale(4), FracBits(19))?;
    let key = export.export_key(&public)?;
    let mut prg = SecretPrg::from_os()?;
    let start = Instant::now();
    let prepared = export.prepare(&key, COUNT, &mut prg)?;
    time("to shares, server offline", start);
    let start = Instant::now();
    export.server(&cts, prepared, &mut server)?;
    time("to shares, server", start);
    let start = Instant::now();
    export.client(COUNT, &decryptor, &mut client)?;
    time("to shares, client", start);
    println!("{} bytes down", server.snapshot().total().sent.bytes);
    println!("{} bytes up", client.snapshot().total().sent.bytes);
    Ok(())
}
