//! Where the levels and the time of an encrypted Transformer encoder layer go: an operation-level study in the manner
//! of "Optimizing Fully Homomorphic Encryption for Real-Time Transformer Inference", with this library.
//!
//! - usable depth of a chain, by running products until there is no level left;
//! - level-by-level traces of a softmax and of an encoder layer;
//! - operation counts of single-head attention (8 tokens, dimension 16) with one ciphertext for each value, as the
//!   paper counts, and with everything in one ciphertext;
//! - fidelity against plain double precision;
//! - a cost model from those counts, held against the measured time.
//!
//! `cargo run --release -p cipherloom-ckks --example characterise` prints tables, with `-- --json` one JSON object.

mod attention;
mod cost;
mod depth;
mod layer;
mod layout;
mod print;
mod rig;
mod scalar;
mod softmax;
mod trace;

use std::error::Error;

use serde::Serialize;

/// Result of everything here.
pub type Res<T> = Result<T, Box<dyn Error>>;

/// All results.
#[derive(Serialize)]
pub struct Report {
    threads: usize,
    depth: Vec<depth::Depth>,
    refused_chain: String,
    softmax: Vec<softmax::Softmax>,
    wall: Vec<softmax::Wall>,
    attention: Vec<attention::Attention>,
    copies: cost::Copies,
    layer: Vec<layer::Layer>,
}

fn main() -> Res<()> {
    let mut json = false;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--json" => json = true,
            other => return Err(format!("unknown option {other}; the only one is --json").into()),
        }
    }
    let (depth, refused_chain) = depth::run()?;
    let report = Report {
        threads: rayon::current_num_threads(),
        depth,
        refused_chain,
        softmax: softmax::run()?,
        wall: softmax::wall()?,
        attention: attention::run()?,
        copies: cost::copies()?,
        layer: layer::run()?,
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print::tables(&report);
    }
    Ok(())
}
