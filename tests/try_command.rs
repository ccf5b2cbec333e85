//! `openoxide try` from end to end: the sample's failing test is mended over MCP, in both eras, and only with consent.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The policy under which every command is asked for.
const ASK_ALWAYS: &str = "-capproval_policy=\"untrusted\"";

/// Runs `try` with these lines at its standard input; the sample is copied below `place`.
fn run_try(place: &Path, arguments: &[&str], input: &str) -> Output {
    let home = place.join("home");
    std::fs::create_dir_all(&home).unwrap();
    let mut child = support::openoxide(&home)
        .arg("try")
        .args(arguments)
        .env("TMPDIR", place)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that needs no answer may end without reading them.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn sample_below(place: &Path) -> PathBuf {
    let entries = std::fs::read_dir(place).unwrap().flatten().map(|entry| entry.path());
    let mut samples: Vec<PathBuf> = entries.filter(|path| path.join("shop.py").exists()).collect();
    assert_eq!(samples.len(), 1, "{samples:?}");
    samples.remove(0)
}

fn sample_passes(sample: &Path) -> bool {
    let tests = Command::new("python3").args(["-B", "-m", "unittest", "-q"]).current_dir(sample).output().unwrap();
    tests.status.success()
}

fn mends_the_sample(era: &str) {
    let place = tempfile::tempdir().unwrap();
    let output = run_try(place.path(), &["--yes", "--era", era], "");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(sample_passes(&sample_below(place.path())), "{shown}");
    for expected in [
        &format!("({era} era)"),
        "* python3 -m unittest -q: exit code 1",
        "* python3 -m unittest -q: exit code 0",
        "-    return price * percent / 100\n+    return price * (100 - percent) / 100\n",
        "The last run of `python3 -m unittest -q` passed",
    ] {
        assert!(shown.contains(expected), "{expected:?} is not in:\n{shown}");
    }
    assert!(!shown.contains('\x1b'), "no colours and no live line outside a terminal");
}

#[test]
fn the_sample_is_mended_in_the_legacy_era() {
    mends_the_sample("legacy");
}

#[test]
fn the_sample_is_mended_in_the_modern_era() {
    mends_the_sample("modern");
}

#[test]
fn nothing_happens_without_an_answer() {
    for era in ["legacy", "modern"] {
        let place = tempfile::tempdir().unwrap();
        let output = run_try(place.path(), &["run `touch unasked.txt`", "--era", era, ASK_ALWAYS], "");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains("not done (cancelled)"), "{shown}");
        assert!(!sample_below(place.path()).join("unasked.txt").exists());
    }
}

#[test]
fn answers_are_read_from_standard_input() {
    let place = tempfile::tempdir().unwrap();
    let prompt = "run `touch one.txt`; run `touch two.txt`; run `touch three.txt`";
    let output = run_try(place.path(), &[prompt, ASK_ALWAYS], "a\nno\na\n");
    let shown = String::from_utf8_lossy(&output.stdout);
    let sample = sample_below(place.path());
    let made = ["one.txt", "two.txt", "three.txt"].map(|name| sample.join(name).exists());
    assert_eq!((made[0], made[1]), (true, false), "{shown}");
    assert!(shown.contains("not done (declined)"), "{shown}");
}

#[test]
fn the_trace_shows_both_ways_of_the_wire_on_standard_error() {
    let place = tempfile::tempdir().unwrap();
    let output = run_try(place.path(), &["--yes", "--trace", "run `true`"], "");
    let trace = String::from_utf8_lossy(&output.stderr);
    let said = |arrow: &str| -> Vec<Value> {
        trace
            .lines()
            .filter_map(|line| line.strip_prefix(arrow))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    assert_eq!(said("-> ")[0]["method"], "initialize", "{trace}");
    assert_eq!(said("<- ")[0]["result"]["serverInfo"]["name"], "openoxide", "{trace}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("\"jsonrpc\""));
}
