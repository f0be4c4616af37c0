//! Cipherloom's worker: CKKS operations, NTTs, and the micro-benchmarks of the hardware limit.

mod limit;
mod ntt;
mod scheme;

use std::rc::Rc;

use cipherloom_spec::CkksLiteral;
use peers_protocol::{serve, Error, Operations};
use serde::Deserialize;
use serde_json::{json, Value};

/// What the driver asks for.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Point {
    /// A CKKS parameter set, with ciphertexts of `ct_limbs` limbs (default: all).
    Ckks {
        literal: CkksLiteral,
        ct_limbs: Option<usize>,
    },
    /// One NTT.
    Ntt { log_n: u32, modulus: u64 },
    /// Nothing but the yardstick.
    Yardstick {},
}

fn main() -> std::io::Result<()> {
    // Keys are made once for a chain, also when only the ciphertexts' level changes.
    let mut kept: Option<Rc<scheme::Scheme>> = None;
    serve(
        move |params: &Value| -> Result<(Value, Operations), Error> {
            let mut ops = Operations::new();
            ntt::add_yardstick(&mut ops)?;
            let info = match serde_json::from_value(params.clone())? {
                Point::Yardstick {} => json!({}),
                Point::Ntt { log_n, modulus } => ntt::add(&mut ops, 1 << log_n, modulus)?,
                Point::Ckks { literal, ct_limbs } => {
                    let scheme = match kept.take() {
                        Some(s) if *s.params().chain().literal() == literal => s,
                        other => {
                            drop(other);
                            Rc::new(scheme::Scheme::new(literal)?)
                        }
                    };
                    let limbs = ct_limbs.unwrap_or(scheme.params().top_level() + 1);
                    scheme.add_operations(&mut ops, limbs)?;
                    limit::add(&mut ops, scheme.params(), limbs)?;
                    let info = scheme.info(limbs);
                    kept = Some(scheme);
                    info
                }
            };
            Ok((info, ops))
        },
    )
}
