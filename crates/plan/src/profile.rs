//! What the primitive operations cost on one machine: measured by `cipherloom measure`, used by [`crate::predict`].

use crate::PlanError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Value of [`MachineProfile::format`].
pub const FORMAT: &str = "cipherloom-machine-profile";
/// Version of the format that this release reads and writes.
pub const VERSION: u32 = 1;
/// Largest profile that is read, in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// Most CKKS points and protocols of a profile.
const MAX_ENTRIES: usize = 256;

/// Names of the two-party protocols that every profile has.
pub const PROTOCOLS: [&str; 11] = [
    "product",
    "square",
    "product_known",
    "compare17_one_threshold",
    "compare17_two_thresholds",
    "mux",
    "b2a",
    "truncate_known_sign",
    "truncate_faithful",
    "extend_64_88",
    "cot_softspoken4",
];

/// The machine that was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Processors that the program may use. All costs are those of one.
    pub cores: usize,
    /// Vector instructions of the ring arithmetic: `scalar`, `avx2`, `avx512ifma`.
    pub simd: String,
    /// Processor architecture.
    pub architecture: String,
    /// What was timed: processor time of one thread, or wall time where the system tells no better.
    pub clock: String,
}

/// CKKS operations at one parameter set and level, in seconds of processor time of one core.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CkksCosts {
    /// log2 of the ring degree.
    pub log_n: u32,
    /// Primes of the ciphertexts.
    pub limbs: usize,
    /// Primes of one key-switching digit.
    pub alpha: usize,
    /// Digits at this level.
    pub digits: usize,
    /// Special primes.
    pub special: usize,
    /// One rotation.
    pub rotate: f64,
    /// One more rotation of a ciphertext whose digits are already decomposed.
    pub rotate_hoisted: f64,
    /// One conjugation.
    pub conjugate: f64,
    /// Product of two ciphertexts, relinearised and rescaled.
    pub mul_relin_rescale: f64,
    /// One product with an encoded plaintext, added to a sum.
    pub mul_plain_accumulate: f64,
    /// One rescale.
    pub rescale: f64,
    /// One alignment to the next level.
    pub align: f64,
    /// Encoding one plaintext factor.
    pub encode: f64,
    /// Client, shares to CKKS: encoding and seeded encryption of one ciphertext.
    pub encrypt_seeded: f64,
    /// Server, shares to CKKS: expanding one ciphertext and adding the own shares.
    pub expand: f64,
    /// Server, CKKS to shares: mask, fresh zero and the own shares of one ciphertext.
    pub export: f64,
    /// Client, CKKS to shares: decrypting and decoding one ciphertext.
    pub decode: f64,
}

impl CkksCosts {
    /// NTTs of a key switch, but for a constant: digits times primes of the extended basis. Measured costs are scaled with it.
    #[must_use]
    pub fn switch_work(&self) -> f64 {
        ring_work(self.log_n) * (self.digits * (self.limbs + self.special)) as f64
    }

    /// Work of an operation that handles each prime once, but for a constant.
    #[must_use]
    pub fn limb_work(&self) -> f64 {
        ring_work(self.log_n) * self.limbs as f64
    }

    fn numbers(&self) -> [(&'static str, f64); 12] {
        [
            ("rotate", self.rotate),
            ("rotate_hoisted", self.rotate_hoisted),
            ("conjugate", self.conjugate),
            ("mul_relin_rescale", self.mul_relin_rescale),
            ("mul_plain_accumulate", self.mul_plain_accumulate),
            ("rescale", self.rescale),
            ("align", self.align),
            ("encode", self.encode),
            ("encrypt_seeded", self.encrypt_seeded),
            ("expand", self.expand),
            ("export", self.export),
            ("decode", self.decode),
        ]
    }
}

/// `N log N`: how an NTT grows with the ring.
pub(crate) fn ring_work(log_n: u32) -> f64 {
    f64::from(log_n) * f64::from(log_n).exp2()
}

/// One two-party protocol. Bytes, COTs and flights are exact counts of the channel; refills of the COT pool are included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProtocolCost {
    /// Bytes of both directions, frame headers included, for an element.
    pub bytes_per_element: f64,
    /// Flights of one call on few elements; long vectors go in pieces and take more.
    pub flights: u64,
    /// Correlated OTs of both directions for an element.
    pub cots: f64,
    /// Processor time of one party for an element, the mean of both parties, in nanoseconds.
    pub cpu_ns_per_element: f64,
    /// The client's, in nanoseconds.
    pub client_ns_per_element: f64,
    /// The server's, in nanoseconds.
    pub server_ns_per_element: f64,
}

/// All costs of one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineProfile {
    /// Always [`FORMAT`].
    pub format: String,
    /// Always [`VERSION`].
    pub version: u32,
    /// What this is, for people.
    pub description: String,
    /// The machine.
    pub machine: Machine,
    /// One forward NTT of 2^14 residues modulo a 50-bit prime, in nanoseconds: compares machines in one number.
    pub yardstick_ns: f64,
    /// CKKS operations.
    pub ckks: Vec<CkksCosts>,
    /// Two-party protocols by name, at least [`PROTOCOLS`].
    pub protocols: BTreeMap<String, ProtocolCost>,
}

impl MachineProfile {
    /// The profile that the program ships with, used where no measurement is at hand.
    ///
    /// # Errors
    /// `Profile`, in practice never: a test reads it.
    pub fn shipped() -> Result<Self, PlanError> {
        Self::from_json(
            "the shipped profile",
            include_bytes!("default_profile.json"),
        )
    }

    /// Reads and checks a profile; `source` names it in errors.
    ///
    /// # Errors
    /// `Profile` for too many bytes, malformed JSON, unknown fields, an unknown format or version, missing protocols,
    /// and numbers that are no costs.
    pub fn from_json(source: &str, bytes: &[u8]) -> Result<Self, PlanError> {
        let refuse = |detail: String| PlanError::Profile {
            source_name: source.to_string(),
            detail,
        };
        if bytes.len() > MAX_BYTES {
            return Err(refuse(format!(
                "{} bytes exceed the limit of {MAX_BYTES}",
                bytes.len()
            )));
        }
        // The version first: a later version may have other fields.
        let head: Head = serde_json::from_slice(bytes).map_err(|e| refuse(e.to_string()))?;
        if head.format != FORMAT || head.version != VERSION {
            return Err(refuse(format!(
                "{:?} version {}; this release reads {FORMAT:?} version {VERSION}",
                head.format, head.version
            )));
        }
        let profile: Self = serde_json::from_slice(bytes).map_err(|e| refuse(e.to_string()))?;
        profile.check().map_err(refuse)?;
        Ok(profile)
    }

    /// The profile as pretty JSON.
    ///
    /// # Errors
    /// `Profile` when a number is not finite.
    pub fn to_json(&self) -> Result<String, PlanError> {
        let refuse = |detail: String| PlanError::Profile {
            source_name: "the measured profile".into(),
            detail,
        };
        self.check().map_err(refuse)?;
        serde_json::to_string_pretty(self).map_err(|e| refuse(e.to_string()))
    }

    fn check(&self) -> Result<(), String> {
        let positive = |what: &str, v: f64| {
            if v.is_finite() && v > 0.0 {
                Ok(())
            } else {
                Err(format!("{what} = {v}; it must be a positive number"))
            }
        };
        positive("yardstick_ns", self.yardstick_ns)?;
        if self.machine.cores == 0 {
            return Err("machine.cores = 0; at least 1".into());
        }
        for (what, n) in [
            ("ckks", self.ckks.len()),
            ("protocols", self.protocols.len()),
        ] {
            if !(1..=MAX_ENTRIES).contains(&n) {
                return Err(format!("{n} entries in {what}; 1 to {MAX_ENTRIES}"));
            }
        }
        for (i, c) in self.ckks.iter().enumerate() {
            for (what, v, max) in [
                ("log_n", c.log_n as usize, 20),
                ("limbs", c.limbs, 128),
                ("alpha", c.alpha, 128),
                ("digits", c.digits, 128),
                ("special", c.special, 128),
            ] {
                if !(1..=max).contains(&v) {
                    return Err(format!("ckks[{i}].{what} = {v}; 1 to {max}"));
                }
            }
            for (what, v) in c.numbers() {
                positive(&format!("ckks[{i}].{what}"), v)?;
            }
        }
        if let Some(name) = PROTOCOLS.iter().find(|n| !self.protocols.contains_key(**n)) {
            return Err(format!("protocol {name:?} is missing"));
        }
        for (name, p) in &self.protocols {
            for (what, v) in [
                ("bytes_per_element", p.bytes_per_element),
                ("cots", p.cots),
                ("cpu_ns_per_element", p.cpu_ns_per_element),
                ("client_ns_per_element", p.client_ns_per_element),
                ("server_ns_per_element", p.server_ns_per_element),
            ] {
                if !v.is_finite() || v < 0.0 {
                    return Err(format!(
                        "protocols.{name}.{what} = {v}; it must not be negative"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The measured point nearest to a ring and a number of primes: the same ring if there is one, then the nearest work.
    pub(crate) fn nearest(&self, log_n: u32, limbs: f64) -> Option<&CkksCosts> {
        self.ckks.iter().min_by(|a, b| {
            let key =
                |c: &CkksCosts| (c.log_n.abs_diff(log_n), (c.limbs as f64 / limbs).ln().abs());
            let ((na, wa), (nb, wb)) = (key(a), key(b));
            na.cmp(&nb).then(wa.total_cmp(&wb))
        })
    }

    /// Client's and server's nanoseconds for an element of a protocol; zero for an unknown name.
    pub(crate) fn protocol_ns(&self, name: &str) -> (f64, f64) {
        self.protocols.get(name).map_or((0.0, 0.0), |p| {
            (p.client_ns_per_element, p.server_ns_per_element)
        })
    }
}

/// What every version of a profile begins with.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json() -> serde_json::Value {
        serde_json::to_value(MachineProfile::shipped().unwrap()).unwrap()
    }

    fn refusal(v: &serde_json::Value) -> String {
        let bytes = serde_json::to_vec(v).unwrap();
        let e = MachineProfile::from_json("x.json", &bytes).unwrap_err();
        assert!(matches!(e, PlanError::Profile { .. }));
        let text = e.to_string();
        assert!(
            text.contains("x.json") && text.contains("cipherloom measure"),
            "{text}"
        );
        text
    }

    #[test]
    fn the_shipped_profile_is_valid_and_round_trips() {
        let p = MachineProfile::shipped().unwrap();
        assert!(p.description.contains("2-core"), "{}", p.description);
        let text = p.to_json().unwrap();
        assert_eq!(MachineProfile::from_json("t", text.as_bytes()).unwrap(), p);
        assert!(p.ckks.iter().any(|c| c.log_n == 14) && p.ckks.iter().any(|c| c.log_n == 15));
    }

    #[test]
    fn other_versions_unknown_fields_and_bad_numbers_are_refused_with_a_remedy() {
        let mut v = json();
        v["version"] = 2.into();
        // A later version may have other fields: the version is what is reported.
        v["later"] = 1.into();
        assert!(refusal(&v).contains("version 2"));
        let mut v = json();
        v["format"] = "cipherloom-plan".into();
        assert!(refusal(&v).contains("cipherloom-plan"));
        let mut v = json();
        v["machine"]["colour"] = "blue".into();
        assert!(refusal(&v).contains("colour"));
        let mut v = json();
        v["ckks"][0]["rotate"] = (-1.0).into();
        assert!(refusal(&v).contains("ckks[0].rotate = -1"));
        let mut v = json();
        v["ckks"] = serde_json::Value::Array(vec![]);
        assert!(refusal(&v).contains("0 entries in ckks"));
        let mut v = json();
        v["protocols"].as_object_mut().unwrap().remove("mux");
        assert!(refusal(&v).contains("\"mux\" is missing"));
    }

    #[test]
    fn corrupt_and_oversized_files_are_refused() {
        let text = MachineProfile::shipped().unwrap().to_json().unwrap();
        for cut in [0, 1, text.len() / 2, text.len() - 2] {
            let e = MachineProfile::from_json("cut", &text.as_bytes()[..cut]);
            assert!(matches!(e, Err(PlanError::Profile { .. })), "{cut}");
        }
        let long = vec![b' '; MAX_BYTES + 1];
        assert!(MachineProfile::from_json("long", &long)
            .unwrap_err()
            .to_string()
            .contains("exceed"));
    }

    #[test]
    fn the_nearest_point_is_of_the_same_ring_first() {
        let p = MachineProfile::shipped().unwrap();
        assert_eq!(p.nearest(14, 30.0).unwrap().log_n, 14);
        assert_eq!(p.nearest(15, 3.0).unwrap().log_n, 15);
        assert_eq!(p.nearest(16, 3.0).unwrap().log_n, 15);
    }
}
