//! Conformance: every backend of this processor gives the bits of the scalar reference, through every public operation.

// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod common;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use cipherloom_ckks::CkksParameters;
use cipherloom_ring::SimdChoice;
use cipherloom_spec::CkksLiteral;
use cipherloom_testkit::CkksFixture;
use common::{insecure_literal, keys_and_encryptions, operations, Inputs, Record, ROTATIONS};

fn run(literal: CkksLiteral, simd: SimdChoice) -> Record {
    let chain = literal.insecure_build().unwrap();
    let params = CkksParameters::insecure_for_tests_with(chain, simd).unwrap();
    let f = CkksFixture::with_params(params, &ROTATIONS);
    let mut record = keys_and_encryptions(&f);
    record.0.extend(operations(&f, &Inputs::new(&f)).0);
    record
}

/// Runs all on every backend. One that the processor lacks is named on the standard error output, past the capture of the
/// test harness.
fn check(literals: &[CkksLiteral]) {
    for literal in literals {
        let want = run(literal.clone(), SimdChoice::Scalar);
        for simd in [SimdChoice::Avx2, SimdChoice::Avx512Ifma, SimdChoice::Auto] {
            match simd.backend() {
                Ok(backend) => {
                    let what = format!("{} at 2^{}", backend.name(), literal.log_n);
                    run(literal.clone(), simd).assert_same(&want, &what);
                }
                // The harness captures what `eprintln` writes.
                #[allow(clippy::explicit_write)]
                Err(error) => writeln!(std::io::stderr(), "not tested here: {error}").unwrap(),
            }
        }
    }
}

#[test]
fn tiny_rings_agree_bit_for_bit() {
    check(&[
        insecure_literal(4, 3, 2, 3),
        insecure_literal(5, 2, 1, 4),
        insecure_literal(6, 5, 3, 3),
    ]);
}

#[test]
fn short_rings_agree_bit_for_bit() {
    check(&[
        insecure_literal(10, 5, 3, 3),
        insecure_literal(11, 12, 5, 3),
        insecure_literal(12, 3, 1, 5),
    ]);
}

#[test]
fn a_real_ring_of_eight_limbs_agrees_bit_for_bit() {
    check(&[insecure_literal(14, 6, 2, 4)]);
}

/// Public functions of a source file that are no accessors or constructors, as the record names them.
fn public_functions(file: &Path, prefix: &str) -> Vec<String> {
    const PLAIN: [&str; 11] = [
        "new",
        "from_os",
        "insecure_with_seed",
        "with_live_counter",
        "params",
        "encoder",
        "keys",
        "counts",
        "live",
        "track",
        "ciphertext",
    ];
    std::fs::read_to_string(file)
        .unwrap()
        .lines()
        .filter_map(|l| l.strip_prefix("    pub fn "))
        .filter_map(|l| l.split(['(', '<']).next())
        .filter(|name| !PLAIN.contains(name))
        .map(|name| format!("{prefix}.{name}"))
        .collect()
}

#[test]
fn every_public_operation_is_in_the_suite() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut want: BTreeSet<String> = ["encoder", "encrypt", "decrypt", "keygen"]
        .into_iter()
        .flat_map(|name| public_functions(&src.join(name).with_extension("rs"), name))
        .collect();
    for file in std::fs::read_dir(src.join("evaluator")).unwrap() {
        want.extend(public_functions(&file.unwrap().path(), "evaluator"));
    }
    let record = run(insecure_literal(4, 3, 2, 3), SimdChoice::Scalar);
    let got: BTreeSet<String> = record.0.iter().map(|(name, _)| (*name).into()).collect();
    assert_eq!(got, want);
}
