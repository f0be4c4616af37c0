//! The dependency arrows of docs/architecture.md, held by `cargo metadata`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::{BTreeMap, BTreeSet};

/// Which workspace crates each crate may depend on, besides `spec`.
fn allowed() -> BTreeMap<&'static str, Vec<&'static str>> {
    let all = [
        "ring",
        "ckks",
        "net",
        "mpc",
        "bridge",
        "kernels",
        "nonlinear",
        "model",
        "plan",
    ];
    BTreeMap::from([
        ("spec", vec![]),
        ("ring", vec![]),
        ("ckks", vec!["ring"]),
        ("net", vec![]),
        ("mpc", vec!["net", "ring"]),
        ("kernels", vec!["ckks", "ring"]),
        ("bridge", vec!["ckks", "mpc", "net", "ring"]),
        ("nonlinear", vec!["mpc", "bridge"]),
        ("model", vec![]),
        ("plan", vec!["model"]),
        ("engine", all.to_vec()),
        ("cli", vec!["engine", "plan", "model"]),
        ("testkit", vec!["ckks", "ring"]),
    ])
}

#[test]
fn arrows_point_one_way() {
    let meta = MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .no_deps()
        .exec()
        .unwrap();
    let allowed = allowed();
    let mut seen = BTreeSet::new();
    for p in &meta.packages {
        let name = p.name.strip_prefix("cipherloom-").unwrap();
        let may = allowed.get(name).unwrap_or_else(|| {
            panic!("crate {name} is not on the map: add it to docs/architecture.md and here")
        });
        seen.insert(name.to_string());
        for d in &p.dependencies {
            let Some(to) = d.name.strip_prefix("cipherloom-") else {
                continue;
            };
            match d.kind {
                DependencyKind::Normal | DependencyKind::Build => {
                    assert_ne!(to, "testkit", "{name} ships testkit");
                    assert!(
                        to == "spec" || may.contains(&to),
                        "{name} may not depend on {to}"
                    );
                }
                _ => {}
            }
        }
        if name == "net" {
            assert!(
                p.dependencies
                    .iter()
                    .all(|d| d.kind != DependencyKind::Normal || !d.name.starts_with("cipherloom")),
                "net depends on nothing of ours"
            );
        }
    }
    assert_eq!(
        seen.len(),
        allowed.len(),
        "a crate of the map is missing: {seen:?}"
    );
}

#[test]
fn unsafe_code_is_forbidden_everywhere_but_in_ring() {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    for entry in std::fs::read_dir(root.join("crates")).unwrap() {
        let dir = entry.unwrap().path();
        let toml = std::fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        let inherits = toml.replace(' ', "").contains("[lints]\nworkspace=true");
        assert!(
            inherits || dir.ends_with("ring"),
            "{} does not inherit the workspace lints",
            dir.display()
        );
    }
}
