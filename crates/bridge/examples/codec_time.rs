//! Times the boundary's local work: decoding and encoding one ciphertext's shares.

use cipherloom_bridge::{decode_shares, encode_shares, BridgeError, SlotFormat, WideFft};
use cipherloom_spec::{FracBits, Scale};
use std::time::Instant;

fn main() -> Result<(), BridgeError> {
    let format = SlotFormat::new(Scale::pow2(40), FracBits(19));
    println!("log_n  tables/ms  decode/ms  encode/ms");
    for log_n in 13..=16 {
        let start = Instant::now();
        let fft = WideFft::new(log_n)?;
        let tables = start.elapsed();
        let coeffs: Vec<i128> = (0..1i128 << log_n)
            .map(|k| (k * 0x9E37_79B9_7F4A_7C15_F39C_C060) % (1 << 99))
            .collect();
        let start = Instant::now();
        let mut words = decode_shares(&fft, &coeffs, 99, &format)?;
        for _ in 0..9 {
            words = decode_shares(&fft, &coeffs, 99, &format)?;
        }
        let decode = start.elapsed() / 10;
        let start = Instant::now();
        for _ in 0..10 {
            encode_shares(&fft, &words.re, &words.im, 88, &format)?;
        }
        let encode = start.elapsed() / 10;
        let ms = |d: std::time::Duration| d.as_secs_f64() * 1e3;
        println!(
            "{log_n:5}  {:9.2}  {:9.2}  {:9.2}",
            ms(tables),
            ms(decode),
            ms(encode)
        );
    }
    Ok(())
}
