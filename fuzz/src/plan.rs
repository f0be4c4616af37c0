//! Plans and machine profiles.

use super::model::{programs, tiny, LENGTH};
use super::support::json_input;
use cipherloom_model::Calibration;
use cipherloom_plan::{MachineProfile, Plan, PlanError, Request};
use cipherloom_spec::schedule::Carry;
use serde_json::Value;
use std::sync::OnceLock;

/// The plan of the tiny model.
pub fn tiny_plan() -> &'static Plan {
    static PLAN: OnceLock<Plan> = OnceLock::new();
    PLAN.get_or_init(|| {
        let t = tiny();
        let calibration: Calibration = serde_json::from_value(t.calibration.clone()).unwrap();
        let request =
            Request::for_model("tiny", &t.model, &calibration, LENGTH, None, Carry::Serial)
                .unwrap();
        Plan::build(request).unwrap()
    })
}

fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| serde_json::to_value(tiny_plan().document()).unwrap())
}

/// The request and two-party part of the document only: most of a whole one is derived.
fn asked() -> &'static Value {
    static ASKED: OnceLock<Value> = OnceLock::new();
    ASKED.get_or_init(|| {
        let d = document();
        serde_json::json!({"request": d["request"], "mpc": d["mpc"]})
    })
}

/// A plan document. What is accepted is what this release writes.
pub fn plan(data: &[u8]) -> bool {
    let bytes = json_input(document(), data);
    match Plan::from_json(&bytes) {
        Ok(p) => {
            let again = Plan::from_json(p.to_json().unwrap().as_bytes()).unwrap();
            assert_eq!(again.hash(), p.hash());
            true
        }
        Err(e) => {
            assert!(!e.to_string().is_empty());
            false
        }
    }
}

/// What a plan is asked to be: edits of the request and of the two-party parameters, in a document that is otherwise that
/// of the tiny model. Everything is derived from it before anything is compared.
pub fn plan_request(data: &[u8]) -> bool {
    let bytes = json_input(asked(), data);
    let Ok(Value::Object(part)) = serde_json::from_slice::<Value>(&bytes) else {
        return false;
    };
    let mut doc = document().clone();
    for (k, v) in part {
        doc[k] = v;
    }
    match Plan::from_json(&serde_json::to_vec(&doc).unwrap()) {
        Ok(_) => true,
        Err(PlanError::Mismatch { .. }) => true,
        Err(e) => {
            assert!(!e.to_string().is_empty());
            false
        }
    }
}

/// A profile of `measure`.
pub fn profile(data: &[u8]) -> bool {
    let bytes = json_input(profile_json(), data);
    match MachineProfile::from_json("profile", &bytes) {
        Ok(p) => {
            let text = p.to_json().unwrap();
            assert_eq!(
                MachineProfile::from_json("again", text.as_bytes()).unwrap(),
                p
            );
            true
        }
        Err(e) => {
            assert!(!e.to_string().is_empty());
            false
        }
    }
}

fn profile_json() -> &'static Value {
    static PROFILE: OnceLock<Value> = OnceLock::new();
    PROFILE.get_or_init(|| serde_json::to_value(MachineProfile::shipped().unwrap()).unwrap())
}

pub fn seeds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let raw = |v: &Value| [vec![0], serde_json::to_vec(v).unwrap()].concat();
    let mut out = vec![
        ("plan", "ok-document", raw(document())),
        ("plan_request", "ok-request", raw(asked())),
        ("profile", "ok-file", raw(profile_json())),
    ];
    for target in ["plan", "plan_request", "profile"] {
        out.extend(programs(0).into_iter().map(|(name, p)| (target, name, p)));
    }
    out
}
