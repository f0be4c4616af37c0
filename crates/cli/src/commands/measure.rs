//! `measure`: this machine's primitive costs, kept as the profile that `plan` predicts with.

use crate::args::MeasureArgs;
use crate::error::{file_error, CliError};
use crate::format::table;
use crate::progress::Progress;
use cipherloom_engine::measure::{measure, MeasureOptions};
use cipherloom_plan::{profile, MachineProfile};
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Runs the command.
///
/// # Errors
/// `Argument` where there is no place to keep the profile; measurement and file errors.
pub fn run(args: &MeasureArgs) -> Result<(), CliError> {
    // Before the work, not after it.
    let out = match (&args.out, kept_path()) {
        (Some(path), _) => path.clone(),
        (None, Some(path)) => path,
        (None, None) => {
            return Err(CliError::Argument {
                argument: "--out",
                detail: "neither XDG_CONFIG_HOME nor HOME is set; name a file".into(),
            })
        }
    };
    let progress = Progress::new(false);
    let options = MeasureOptions {
        elements: args.elements,
        ..MeasureOptions::default()
    };
    let measured = measure(&options, &mut |what| progress.say(what))?;
    progress.done();
    let text = measured.to_json()?;
    write(&out, &text)?;
    if args.json {
        println!("{text}");
    } else {
        print(&measured);
    }
    eprintln!("kept in {}", out.display());
    Ok(())
}

/// Where the profile is kept: `cipherloom/profile.json` in `$XDG_CONFIG_HOME`, else in `~/.config`.
fn kept_path() -> Option<PathBuf> {
    path_in(
        std::env::var_os("XDG_CONFIG_HOME"),
        std::env::var_os("HOME"),
    )
}

fn path_in(config: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let set = |v: Option<OsString>| v.filter(|v| !v.is_empty()).map(PathBuf::from);
    // The specification of base directories ignores relative paths.
    let config = set(config).filter(|p| p.is_absolute());
    let dir = config.or_else(|| set(home).map(|h| h.join(".config")))?;
    Some(dir.join("cipherloom").join("profile.json"))
}

/// The profile to predict with: the given file, the kept one, or the shipped one.
///
/// # Errors
/// `File` for a file that cannot be read, the plan's `Profile` for one that is no profile of this release.
pub fn load_profile(given: Option<&Path>) -> Result<MachineProfile, CliError> {
    if let Some(path) = given {
        return read(path);
    }
    match kept_path() {
        Some(path) if path.is_file() => read(&path),
        _ => Ok(MachineProfile::shipped()?),
    }
}

fn read(path: &Path) -> Result<MachineProfile, CliError> {
    let mut bytes = Vec::new();
    // One byte more than allowed, so that a longer file is refused and not cut.
    std::fs::File::open(path)
        .and_then(|f| {
            f.take(profile::MAX_BYTES as u64 + 1)
                .read_to_end(&mut bytes)
        })
        .map_err(|e| file_error(path, e))?;
    let read = MachineProfile::from_json(&path.display().to_string(), &bytes)?;
    Ok(MachineProfile {
        description: format!("{}, {}", path.display(), read.description),
        ..read
    })
}

fn write(path: &Path, text: &str) -> Result<(), CliError> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(|e| file_error(dir, e))?;
    }
    std::fs::write(path, format!("{text}\n")).map_err(|e| file_error(path, e))
}

fn print(p: &MachineProfile) {
    println!("{}; {}\n", p.description, p.machine.clock);
    println!(
        "yardstick  {:.1} us, one NTT of 2^14\n",
        p.yardstick_ns / 1e3
    );
    let ms = |s: f64| format!("{:.3}", s * 1e3);
    let rows: Vec<Vec<String>> = p
        .ckks
        .iter()
        .map(|c| {
            let mut row = vec![
                format!("2^{}", c.log_n),
                format!("{} + {}", c.limbs, c.special),
                c.digits.to_string(),
            ];
            row.extend(
                [
                    c.rotate,
                    c.rotate_hoisted,
                    c.conjugate,
                    c.mul_relin_rescale,
                    c.mul_plain_accumulate,
                    c.rescale,
                    c.align,
                    c.encode,
                    c.encrypt_seeded,
                    c.expand,
                    c.export,
                    c.decode,
                ]
                .map(ms),
            );
            row
        })
        .collect();
    let head = [
        "N",
        "primes",
        "digits",
        "rotate",
        "hoisted",
        "conjugate",
        "multiply",
        "plain",
        "rescale",
        "align",
        "encode",
        "encrypt",
        "expand",
        "export",
        "decode",
    ];
    println!("CKKS, milliseconds of one core");
    print!("{}", table(&head, &rows));
    println!("\ntwo-party protocols, for an element");
    let rows: Vec<Vec<String>> = p
        .protocols
        .iter()
        .map(|(name, c)| {
            vec![
                name.clone(),
                format!("{:.1} B", c.bytes_per_element),
                c.flights.to_string(),
                c.cots.to_string(),
                format!("{:.0}", c.cpu_ns_per_element),
                format!("{:.0}", c.client_ns_per_element),
                format!("{:.0}", c.server_ns_per_element),
            ]
        })
        .collect();
    let head = [
        "protocol",
        "bytes",
        "flights",
        "COTs",
        "ns a party",
        "client",
        "server",
    ];
    print!("{}", table(&head, &rows));
}

#[cfg(test)]
mod tests {
    use super::*;
    use cipherloom_plan::PlanError;

    #[test]
    fn the_profile_is_kept_in_the_configuration_folder() {
        let os = |s: &str| Some(OsString::from(s));
        let p = |s: &str| Some(PathBuf::from(s));
        assert_eq!(path_in(os("/c"), os("/h")), p("/c/cipherloom/profile.json"));
        for unset in [None, os(""), os("relative")] {
            assert_eq!(
                path_in(unset, os("/h")),
                p("/h/.config/cipherloom/profile.json")
            );
        }
        assert_eq!(path_in(None, None), None);
    }

    #[test]
    fn a_written_profile_is_read_and_a_broken_one_is_refused_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new folder/profile.json");
        let shipped = MachineProfile::shipped().unwrap();
        let text = shipped.to_json().unwrap();
        write(&path, &text).unwrap();
        let back = load_profile(Some(&path)).unwrap();
        assert_eq!(
            (&back.ckks, &back.protocols),
            (&shipped.ckks, &shipped.protocols)
        );
        assert!(back.description.starts_with(&path.display().to_string()));
        write(&path, &text[..text.len() / 2]).unwrap();
        let e = load_profile(Some(&path)).unwrap_err();
        assert!(
            matches!(e, CliError::Plan(PlanError::Profile { .. })),
            "{e}"
        );
        assert!(
            e.to_string().contains("profile.json") && e.to_string().contains("cipherloom measure")
        );
        let none = dir.path().join("none.json");
        assert!(matches!(
            load_profile(Some(&none)),
            Err(CliError::File { .. })
        ));
    }
}
