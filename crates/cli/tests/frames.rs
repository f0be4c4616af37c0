//! Which source may send what, held by reading the sources: an exported ciphertext, the answer and the input share each
//! leave through one function, and no other file so much as names their frame kinds (protocols R1, R4, R5).

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};

/// Frame kind, and the one file that sends it.
const SENDERS: [(&str, &str); 3] = [
    ("Exported", "mpc/src/export.rs"),
    ("Output", "mpc/src/two_party.rs"),
    ("Input", "engine/src/stages.rs"),
];

/// Where the kinds are defined.
const DEFINITION: &str = "net/src/frame.rs";

/// The code without comments, white space and items for tests only. Sources are formatted, so an item ends at the first line
/// that is a brace at its own indentation, or at once with a semicolon. String literals stay; none in this workspace holds
/// `//` before code that sends.
fn squeezed(source: &str) -> String {
    let mut out = String::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            let indent = &line[..line.len() - line.trim_start().len()];
            let end = format!("{indent}}}");
            let header = lines
                .find(|l| !l.trim_start().starts_with("#["))
                .unwrap_or_default();
            if !header.ends_with(';') {
                lines.by_ref().find(|l| *l == end);
            }
            continue;
        }
        let code = line.split("//").next().unwrap_or_default();
        out.extend(code.chars().filter(|c| !c.is_whitespace()));
    }
    out
}

/// What a squeezed source does with a kind: how often it is named, and how often it is sent.
fn uses(code: &str, kind: &str) -> (usize, usize) {
    let path = format!("FrameKind::{kind}");
    let named = code
        .match_indices(&path)
        .filter(|(at, m)| {
            !code[at + m.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
        })
        .map(|(at, _)| at);
    let mut count = (0, 0);
    for at in named {
        count.0 += 1;
        let before = &code[..at];
        let before = before.strip_suffix("cipherloom_net::").unwrap_or(before);
        count.1 += usize::from(before.ends_with(".send("));
    }
    count
}

/// Ways to send a kind without naming it: a kind held in a variable or parameter, or an import of the variants.
fn hides_kinds(code: &str) -> Option<&'static str> {
    let import = ["FrameKind::{", "FrameKind::*", "FrameKindas"];
    if let Some(found) = import.into_iter().find(|p| code.contains(p)) {
        return Some(found);
    }
    let typed = code.replace("cipherloom_net::FrameKind", "FrameKind");
    [":FrameKind", "->FrameKind", "<FrameKind", "&FrameKind"]
        .into_iter()
        .find(|p| {
            typed
                .match_indices(p)
                .any(|(at, _)| !typed[..at].ends_with(':'))
        })
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn collect(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            collect(&path, out);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            out.push(path);
        }
    }
}

/// All sources that are compiled into the crates, tests apart: path below `crates/`, squeezed code.
fn sources() -> Vec<(String, String)> {
    let root = crates();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&root).unwrap() {
        let src = entry.unwrap().path().join("src");
        if src.is_dir() {
            collect(&src, &mut files);
        }
    }
    files
        .into_iter()
        .map(|f| {
            let code = squeezed(&std::fs::read_to_string(&f).unwrap());
            let name = f.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            (name, code)
        })
        .collect()
}

#[test]
fn exports_answers_and_inputs_have_one_sender_each() {
    let sources = sources();
    assert!(sources.len() > 100, "{} sources found", sources.len());
    for (kind, sender) in SENDERS {
        for (file, code) in sources.iter().filter(|(f, _)| f != DEFINITION) {
            let (named, sent) = uses(code, kind);
            if file == sender {
                assert_eq!(sent, 1, "{file} sends {kind} {sent} times");
                assert_eq!(named, 2, "{file} sends and receives {kind}");
            } else {
                assert_eq!(named, 0, "{file} names the frame kind {kind}");
            }
        }
    }
}

#[test]
fn no_kind_travels_in_a_variable_outside_of_net() {
    for (file, code) in sources() {
        if !file.starts_with("net/") {
            assert_eq!(hides_kinds(&code), None, "{file}");
        }
    }
}

#[test]
fn only_the_export_function_builds_an_exported_ciphertext() {
    let built: Vec<(String, usize)> = sources()
        .into_iter()
        .map(|(file, code)| {
            let literals = code
                .match_indices("Exported{")
                .filter(|(at, _)| {
                    let before = &code[..*at];
                    !["struct", "impl", "Received"]
                        .iter()
                        .any(|w| before.ends_with(w))
                })
                .count();
            (file, literals)
        })
        .filter(|(_, n)| *n > 0)
        .collect();
    assert_eq!(built, [("mpc/src/export.rs".to_owned(), 1)]);
}

#[test]
fn the_reader_of_sources_sees_what_it_must() {
    let code = squeezed(
        "c.send(FrameKind::Output, &w)?; // c.send(FrameKind::Output, &v)\n\
         c\n  .send(cipherloom_net::FrameKind::Output, &w)?;\n\
         c.recv(FrameKind::Output, 4)?; FrameKind::Outputs;\n\
         #[cfg(test)]\nmod tests {\n  c.send(FrameKind::Output, &w)\n}\n#[cfg(test)]\nmod more;\n\
         c.send(FrameKind::Output, &w)",
    );
    assert_eq!(uses(&code, "Output"), (4, 3));
    assert_eq!(uses(&code, "Input"), (0, 0));
    for hidden in [
        "use cipherloom_net::FrameKind::*;",
        "use cipherloom_net::FrameKind::{Output, Input};",
        "fn f(c: &mut Channel, kind: FrameKind) {}",
        "let k: cipherloom_net::FrameKind = kind();",
        "fn kind() -> cipherloom_net::FrameKind {}",
        "use cipherloom_net::FrameKind as K;",
        "let v: Vec<FrameKind> = vec![];",
    ] {
        assert!(hides_kinds(&squeezed(hidden)).is_some(), "{hidden}");
    }
    for open in [
        "use cipherloom_net::{Channel, FrameKind};",
        "c.send(cipherloom_net::FrameKind::Ot, &w)",
        "use cipherloom_net::FrameKind;",
    ] {
        assert_eq!(hides_kinds(&squeezed(open)), None, "{open}");
    }
}
