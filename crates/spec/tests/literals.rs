//! Every field of a parameter literal, out of range on both sides: the error names field, value, range and a remedy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cipherloom_spec::primes::{MAX_PRIME_BITS, MIN_PRIME_BITS};
use cipherloom_spec::{CkksLiteral, SpecError};

/// Passes the security table: 50 + 50 + 4 x 40 + 2 x 50 = 360 of 430 bits.
fn good() -> CkksLiteral {
    CkksLiteral {
        log_n: 14,
        q_bits: vec![50, 50, 40, 40, 40, 40],
        p_bits: vec![50, 50],
        log_scale: 40,
        dnum: 3,
    }
}

fn changed(change: impl Fn(&mut CkksLiteral)) -> CkksLiteral {
    let mut literal = good();
    change(&mut literal);
    literal
}

/// The error of both constructors, which must agree.
#[track_caller]
fn refused(literal: CkksLiteral) -> SpecError {
    let checked = literal.clone().check().unwrap_err();
    assert_eq!(literal.insecure_build().unwrap_err(), checked);
    checked
}

#[track_caller]
fn says(e: &SpecError, parts: &[&str]) {
    let text = e.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

#[track_caller]
fn field(literal: CkksLiteral, name: &'static str, value: i64, (min, max): (i64, i64)) {
    let e = refused(literal);
    let want = SpecError::Field {
        field: name,
        value,
        min,
        max,
    };
    assert_eq!(e, want);
    says(
        &e,
        &[name, &format!("= {value} "), &format!("{min}..={max}")],
    );
    says(&e, &["choose a value in that range"]);
}

#[test]
fn the_good_literal_is_accepted() {
    let chain = good().check().unwrap();
    assert!(chain.is_secure() && !good().insecure_build().unwrap().is_secure());
    assert_eq!((chain.top_level(), chain.base_level()), (5, 1));
}

#[test]
fn ring_degrees_outside_the_table() {
    for log_n in [0, 10, 18, u32::MAX] {
        let e = changed(|l| l.log_n = log_n).check().unwrap_err();
        let want = SpecError::RingDegree {
            log_n,
            min: 11,
            max: 17,
        };
        assert_eq!(e, want);
        says(&e, &[&format!("2^{log_n} "), "use 2^11 to 2^17"]);
    }
    for log_n in [0, 3, 18, u32::MAX] {
        let e = changed(|l| l.log_n = log_n).insecure_build().unwrap_err();
        says(&e, &[&format!("2^{log_n} "), "use 2^4 to 2^17"]);
    }
    // The ends of both ranges are inside.
    assert!(changed(|l| l.log_n = 4).insecure_build().is_ok());
    assert!(changed(|l| l.log_n = 17).check().is_ok());
}

#[test]
fn lists_of_primes_that_are_empty_or_too_long() {
    field(changed(|l| l.q_bits.clear()), "q_bits.len()", 0, (1, 64));
    let long = changed(|l| l.q_bits.resize(65, 40));
    field(long, "q_bits.len()", 65, (1, 64));
    field(changed(|l| l.p_bits.clear()), "p_bits.len()", 0, (1, 16));
    let long = changed(|l| l.p_bits.resize(17, 50));
    field(long, "p_bits.len()", 17, (1, 16));
    let most = changed(|l| {
        l.log_n = 10;
        l.q_bits.resize(64, 40);
        l.p_bits.resize(16, 50);
        l.dnum = 8;
    });
    assert_eq!(most.insecure_build().unwrap().q().len(), 64);
}

#[test]
fn scales_and_digits_out_of_range() {
    for log_scale in [0, 19, 51, u32::MAX] {
        let literal = changed(|l| l.log_scale = log_scale);
        field(literal, "log_scale", i64::from(log_scale), (20, 50));
    }
    for dnum in [0, 7, u32::MAX] {
        field(changed(|l| l.dnum = dnum), "dnum", i64::from(dnum), (1, 6));
    }
    assert_eq!(changed(|l| l.dnum = 6).check().unwrap().alpha(), 1);
}

#[test]
fn primes_of_sizes_that_are_not_supported() {
    for bits in [0, MIN_PRIME_BITS - 1, MAX_PRIME_BITS + 1, u32::MAX] {
        for index in 0..6 {
            let e = refused(changed(|l| l.q_bits[index] = bits));
            let want = SpecError::PrimeBits {
                field: "q_bits",
                index,
                bits,
                min: MIN_PRIME_BITS,
                max: MAX_PRIME_BITS,
            };
            assert_eq!(e, want);
            says(&e, &[&format!("q_bits[{index}] = {bits} bits"), "20 to 50"]);
            says(&e, &["choose one of them"]);
        }
        let e = refused(changed(|l| l.p_bits[1] = bits));
        says(&e, &[&format!("p_bits[1] = {bits} bits"), "20 to 50"]);
    }
}

#[test]
fn more_primes_of_a_size_than_there_are() {
    // Of 24 bits and 1 modulo 2^18 there are few.
    let e = refused(changed(|l| {
        l.log_n = 17;
        (l.q_bits, l.p_bits) = (vec![24; 20], vec![24; 16]);
        (l.log_scale, l.dnum) = (21, 20);
    }));
    let want = SpecError::NoPrime {
        bits: 24,
        log_2n: 18,
    };
    assert_eq!(e, want);
    says(&e, &["24 bits", "2^18", "use another size"]);
    // After the base, primes are looked for near the scale: of 22 bits there are no sixty.
    let e = refused(changed(|l| {
        l.log_n = 17;
        l.q_bits = vec![50];
        l.q_bits.resize(61, 22);
        (l.log_scale, l.dnum) = (22, 30);
    }));
    assert!(matches!(e, SpecError::NoPrime { log_2n: 18, .. }), "{e}");
    says(&e, &["use another size"]);
}

#[test]
fn a_repeated_size_gives_distinct_primes() {
    let chain = good().check().unwrap();
    let mut all: Vec<u64> = chain.q().iter().chain(chain.p()).copied().collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 8);
}

#[test]
fn a_special_modulus_below_a_digit() {
    for (dnum, p_bits, need) in [
        (3, vec![50], 100.0),
        (3, vec![50, 45], 100.0),
        (2, vec![50, 50], 140.0),
        (1, vec![50; 5], 260.0),
        (6, vec![40], 50.0),
    ] {
        let e = refused(changed(|l| (l.dnum, l.p_bits) = (dnum, p_bits.clone())));
        let SpecError::SpecialPrimes {
            have,
            need: got,
            digit: 0,
            dnum: n,
        } = e
        else {
            panic!("{e}");
        };
        let sum: u32 = p_bits.iter().sum();
        assert_eq!(n, dnum as usize);
        assert!((have - f64::from(sum)).abs() < 0.1 && (got - need).abs() < 0.1);
        says(
            &e,
            &[&format!("{have:.1} bits"), &format!("{need:.1} bits")],
        );
        says(
            &e,
            &["add special primes or digits", &format!("dnum = {dnum}")],
        );
    }
    // A later digit may be the larger one.
    let e = refused(changed(|l| {
        l.q_bits = vec![45, 45, 50, 50];
        (l.p_bits, l.dnum) = (vec![46, 46], 2);
    }));
    assert!(
        matches!(e, SpecError::SpecialPrimes { digit: 1, .. }),
        "{e}"
    );
    assert!(changed(|l| {
        l.q_bits = vec![45, 45, 50, 50];
        (l.p_bits, l.dnum) = (vec![50, 50], 2);
    })
    .check()
    .is_ok());
}

#[test]
fn moduli_above_the_security_table() {
    // 440 bits, 430 are allowed; without the check the chain is built.
    let large = changed(|l| l.q_bits.extend([40, 40]));
    let large = CkksLiteral { dnum: 4, ..large };
    let e = large.clone().check().unwrap_err();
    let SpecError::Insecure { log_n, have, max } = e else {
        panic!("{e}");
    };
    assert_eq!((log_n, max), (14, 430));
    assert!((have - 440.0).abs() < 0.1, "{have}");
    says(&e, &["440.0 bits", "430 bits", "2^14"]);
    says(&e, &["fewer or smaller primes or a larger ring"]);
    assert!(!large.clone().insecure_build().unwrap().is_secure());
    // Special primes count as well.
    let special = changed(|l| l.p_bits.extend([50, 50]));
    assert!(matches!(special.check(), Err(SpecError::Insecure { .. })));
    // In the next ring it fits.
    assert!(CkksLiteral { log_n: 15, ..large }.check().is_ok());
}

/// Half the modulus of every level is above the scale that the level has, and the scale is above N.
#[test]
fn scales_that_a_level_cannot_hold() {
    for (log_scale, q_bits, have, max) in [
        // The base prime is no larger than the scale, or half of it is not.
        (40, vec![40, 40, 40], 40.0, 39.0),
        (40, vec![41, 40, 40], 40.0, 40.0),
        (40, vec![30, 40, 40], 40.0, 29.0),
        // A prime below the scale makes it grow: 2^80 / 2^30.
        (40, vec![50, 30], 50.0, 49.0),
        // One above makes it shrink: 2^40 / 2^30.
        (20, vec![20, 30], 10.0, 18.6),
    ] {
        let e = refused(changed(|l| {
            (l.q_bits, l.log_scale, l.dnum) = (q_bits.clone(), log_scale, 2);
        }));
        let SpecError::LevelScale {
            level: 0,
            log_scale,
            min: 14.0,
            max: limit,
        } = e
        else {
            panic!("{q_bits:?}: {e}");
        };
        assert!((log_scale - have).abs() < 0.1, "{q_bits:?}: {log_scale}");
        assert!((limit - max).abs() < 0.1, "{q_bits:?}: {limit}");
        says(&e, &["level 0 is", &format!("2^{log_scale:.1}")]);
        says(&e, &["2^14.0 to", &format!("2^{limit:.1},")]);
        says(&e, &["in q_bits make the first primes larger"]);
    }
    // Two bits above the scale are enough.
    let literal = changed(|l| (l.q_bits, l.dnum) = (vec![42, 40, 40], 2));
    assert!(literal.check().is_ok());
}

#[test]
fn json_with_unknown_missing_doubled_or_mistyped_fields() {
    let text = serde_json::to_string(&good()).unwrap();
    let parse = |text: &str| serde_json::from_str::<CkksLiteral>(text);
    assert_eq!(parse(&text).unwrap(), good());
    let says = |text: String, parts: &[&str]| {
        let e = parse(&text).unwrap_err().to_string();
        for part in parts {
            assert!(e.contains(part), "{part:?} is not in {e:?} of {text}");
        }
    };
    says(
        text.replace('{', "{\"sigma\":3.2,"),
        &["unknown field `sigma`", "log_n"],
    );
    for name in ["log_n", "q_bits", "p_bits", "log_scale", "dnum"] {
        let other = text.replace(&format!("\"{name}\""), "\"other\"");
        says(other, &["unknown field `other`", name]);
        let value = match name {
            "q_bits" | "p_bits" => "[50]",
            _ => "14",
        };
        let twice = text.replace('{', &format!("{{\"{name}\":{value},"));
        says(twice, &["duplicate field", name]);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let mut without = value.clone();
        without.as_object_mut().unwrap().remove(name);
        says(without.to_string(), &["missing field", name]);
        for bad in ["-1", "1.5", "4294967296", "\"40\"", "null", "[-1]", "[1.5]"] {
            let mut with = value.clone();
            with[name] = serde_json::from_str(bad).unwrap();
            says(with.to_string(), &["invalid"]);
        }
    }
}
