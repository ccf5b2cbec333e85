//! `cargo xtask ci`: the checks of the house. This file reads the arguments and runs the steps in order; `layers` judges
//! which crate uses which, `floors` which module of a crate, `deny` judges other people's crates, `shape` the files, `docs` what
//! the documents point at, `packages` what others may depend on.
//!
//! The steps are formatting, layers, dependencies, file shapes, document references, clippy, the documentation build and the
//! packages that others may depend on. The tests are `cargo test --workspace --locked`, which `.ci/run` runs beside this; `--with-tests` adds them here.

mod deny;
mod docs;
mod floors;
mod layers;
mod packages;
mod shape;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

const USAGE: &str = "usage: cargo xtask ci [--with-tests]   every check of the house
       cargo xtask layers              which crate and which module may use which
       cargo xtask deny                licences, versions that stand twice, bans and sources of dependencies
       cargo xtask shape               what files look like
       cargo xtask packages            what others may depend on is whole without the workspace";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let steps: Vec<Step> = match words[..] {
        ["ci"] => ci(false),
        ["ci", "--with-tests"] => ci(true),
        ["layers"] => vec![("layers", layers)],
        ["deny"] => vec![("dependencies", dependencies)],
        ["packages"] => vec![("packages", packages)],
        ["shape"] => vec![("file shapes", shapes), ("document references", references)],
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    run(&steps)
}

/// A name, and a check that returns what it found; empty is good.
type Step = (&'static str, fn(&Path) -> Findings);

/// What is wrong, each as a sentence that says what to do.
type Findings = Vec<String>;

fn ci(with_tests: bool) -> Vec<Step> {
    let mut steps: Vec<Step> = vec![
        ("format", |root| cargo(root, &["fmt", "--all", "--check"], &[])),
        ("layers", layers),
        ("dependencies", dependencies),
        ("file shapes", shapes),
        ("document references", references),
        ("clippy", |root| {
            cargo(
                root,
                &["clippy", "--workspace", "--all-targets", "--all-features", "--locked", "--", "-D", "warnings"],
                &[],
            )
        }),
        ("documentation", |root| {
            cargo(root, &["doc", "--workspace", "--no-deps", "--locked"], &[("RUSTDOCFLAGS", "-D warnings")])
        }),
        ("packages", packages),
    ];
    if with_tests {
        steps.push(("tests", |root| cargo(root, &["test", "--workspace", "--locked"], &[])));
    }
    steps
}

/// Runs every step even after one has failed, so that one run tells all.
fn run(steps: &[Step]) -> ExitCode {
    let root = root();
    let mut failed = Vec::new();
    for (name, check) in steps {
        let began = Instant::now();
        let findings = check(&root);
        let seconds = began.elapsed().as_secs_f32();
        if findings.is_empty() {
            eprintln!("ok      {name} ({seconds:.1} s)");
        } else {
            eprintln!("FAILED  {name} ({seconds:.1} s)");
            for finding in &findings {
                eprintln!("    {finding}");
            }
            failed.push(*name);
        }
    }
    if failed.is_empty() {
        eprintln!("all {} checks passed", steps.len());
        return ExitCode::SUCCESS;
    }
    eprintln!("{} of {} checks failed: {}", failed.len(), steps.len(), failed.join(", "));
    ExitCode::FAILURE
}

/// The workspace's directory: two above this crate's.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map(Path::to_path_buf).unwrap_or_default()
}

fn layers(root: &Path) -> Findings {
    #[allow(clippy::disallowed_methods, reason = "a build tool runs cargo; no agent is near")]
    let output =
        Command::new("cargo").args(["metadata", "--format-version", "1", "--locked"]).current_dir(root).output();
    let output = match output {
        Ok(output) if output.status.success() => output.stdout,
        Ok(output) => return vec![format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr))],
        Err(error) => return vec![format!("cannot run cargo metadata: {error}")],
    };
    match serde_json::from_slice(&output) {
        Ok(metadata) => {
            for line in layers::described().iter().chain(&floors::described()) {
                eprintln!("        {line}");
            }
            let mut findings = layers::check(&metadata);
            findings
                .extend(floors::check(root).unwrap_or_else(|error| vec![format!("cannot read the sources: {error}")]));
            findings
        }
        Err(error) => vec![format!("cargo metadata wrote what is not JSON: {error}")],
    }
}

fn dependencies(root: &Path) -> Findings {
    #[allow(clippy::disallowed_methods, reason = "cargo's own variable says where a build tool may write")]
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |named| root.join(named));
    deny::check(root, &target)
}

fn shapes(root: &Path) -> Findings {
    shape::check(root).unwrap_or_else(|error| vec![format!("cannot read the sources: {error}")])
}

fn references(root: &Path) -> Findings {
    docs::check(root).unwrap_or_else(|error| vec![format!("cannot read the documents: {error}")])
}

fn packages(root: &Path) -> Findings {
    #[allow(clippy::disallowed_methods, reason = "cargo's own variables say where it keeps what it unpacked")]
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cargo")))
        .unwrap_or_default();
    match packages::forget_unpacked(&home) {
        Ok(()) => cargo(root, &packages::arguments(), &[]),
        Err(finding) => vec![finding],
    }
}

/// Runs cargo with its output shown as it comes.
fn cargo(root: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Findings {
    #[allow(clippy::disallowed_methods, reason = "a build tool runs cargo; no agent is near")]
    let status = Command::new("cargo").args(arguments).envs(environment.iter().copied()).current_dir(root).status();
    match status {
        Ok(status) if status.success() => Vec::new(),
        Ok(status) => vec![format!("`cargo {}` ended with {status}", arguments.join(" "))],
        Err(error) => vec![format!("cannot run cargo: {error}")],
    }
}
