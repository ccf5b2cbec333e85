//! What source files look like: each opens with `//!`, none grows past its limit outside its tests, `unsafe` stays in
//! the sandbox crate, core opens files for the model through the view alone and has serde only where records and arguments
//! are, and every crate takes the workspace's lints.

use std::io;
use std::path::{Path, PathBuf};

/// Lines of a file that are not tests.
const LONGEST: usize = 500;
/// The only crate with `unsafe`.
const UNSAFE_CRATE: &str = "crates/openoxide-sandbox/";

/// Core reads what callers and models name through `FileView`, never by path.
const VIEWED_CRATE: &str = "crates/openoxide-core/src/";
/// Ways to open a file by its path.
const OPENINGS: [&str; 8] = [
    "File::open",
    "File::options",
    "File::create",
    "OpenOptions",
    "fs::read(",
    "fs::read_to_string",
    "fs::read_dir",
    "rustix::fs::open",
];
/// Core's own files, which no caller names.
const OWN_FILES: [&str; 2] = ["crates/openoxide-core/src/store", "crates/openoxide-core/src/thread/temporary/left.rs"];

/// Where core has serde: records of what is on disk, and arguments of tools. Its other types are nobody's wire or file.
const WITH_SERDE: [&str; 2] = ["crates/openoxide-core/src/store/", "crates/openoxide-core/src/tools/"];

/// What is wrong with the sources below `root`.
///
/// # Errors
/// Where a file or directory cannot be read.
pub(crate) fn check(root: &Path) -> io::Result<Vec<String>> {
    let mut findings = Vec::new();
    for directory in ["crates", "tests"] {
        for path in files_below(&root.join(directory))? {
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            if name.ends_with(".rs") {
                findings.extend(judge_source(&name, &std::fs::read_to_string(&path)?));
            } else if name.ends_with("Cargo.toml") && !takes_lints(&std::fs::read_to_string(&path)?) {
                findings.push(format!("{name}: does not take the workspace's lints; add [lints] workspace = true"));
            }
        }
    }
    Ok(findings)
}

/// All files below a directory, in a fixed order; none where it does not exist.
pub(crate) fn files_below(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut waiting = vec![directory.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        if !directory.is_dir() {
            continue;
        }
        for entry in std::fs::read_dir(&directory)? {
            let path = entry?.path();
            let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if path.is_dir() && !is_hidden && !path.ends_with("node_modules") && !path.ends_with("target") {
                waiting.push(path);
            } else if path.is_file() {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn judge_source(name: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    if !text.starts_with("//!") {
        findings
            .push(format!("{name}: does not open with //!; say what lives here, what must not, where the data goes"));
    }
    let lines = lines_outside_tests(name, text);
    if lines > LONGEST {
        findings.push(format!("{name}: {lines} lines outside its tests, at most {LONGEST}; split it by noun"));
    }
    if !name.starts_with(UNSAFE_CRATE)
        && let Some(number) = text.lines().position(has_unsafe)
    {
        findings.push(format!("{name}:{}: unsafe outside {UNSAFE_CRATE}", number + 1));
    }
    let is_viewed = name.starts_with(VIEWED_CRATE) && !OWN_FILES.iter().any(|own| name.starts_with(own));
    if is_viewed {
        let code = text.lines().take(lines).enumerate();
        let opens = code.filter(|(_, line)| OPENINGS.iter().any(|way| line.contains(way)));
        findings.extend(opens.map(|(at, line)| {
            format!("{name}:{}: opens a file by its path ({}); go through the thread's view", at + 1, line.trim())
        }));
    }
    if name.starts_with(VIEWED_CRATE) && !WITH_SERDE.iter().any(|with| name.starts_with(with)) {
        let code = text.lines().take(lines).enumerate();
        let named = code.filter(|(_, line)| has_word(line.split("//").next().unwrap_or_default(), "serde"));
        findings.extend(named.map(|(at, line)| {
            format!(
                "{name}:{}: uses serde ({}); in core only store and tools do, with records and arguments of their own",
                at + 1,
                line.trim()
            )
        }));
    }
    findings
}

/// Whether code has a word by itself: `serde`, and not `serde_json`.
fn has_word(code: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word)
        .any(|(at, _)| !code[..at].ends_with(is_part) && !code[at + word.len()..].starts_with(is_part))
}

/// A file of tests counts nothing; else the lines before its test module.
fn lines_outside_tests(name: &str, text: &str) -> usize {
    let file = name.rsplit('/').next().unwrap_or(name);
    let is_test_file = file.ends_with("_tests.rs") || file == "tests.rs";
    if is_test_file || name.starts_with("tests/") || name.contains("/tests/") {
        return 0;
    }
    let lines: Vec<&str> = text.lines().collect();
    let opens = |at: &usize| lines[*at] == "#[cfg(test)]" && lines.get(at + 1).is_some_and(|next| next.ends_with('{'));
    (0..lines.len()).find(opens).unwrap_or(lines.len())
}

/// Whether a line of code has the keyword where it opens something, or switches its lint off.
fn has_unsafe(line: &str) -> bool {
    const WORD: &str = "unsafe";
    let code = line.split("//").next().unwrap_or_default();
    code.match_indices(WORD).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = &code[at + WORD.len()..];
        let is_word = !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '"');
        let opens = ["{", "fn ", "impl ", "extern ", "trait ", "("];
        let is_keyword = opens.iter().any(|open| after.trim_start().starts_with(open));
        let switches_lint = after.starts_with("_code") && (code.contains("allow(") || code.contains("expect("));
        is_word && (is_keyword || switches_lint)
    })
}

fn takes_lints(manifest: &str) -> bool {
    let mut lines = manifest.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
    lines.find(|line| !line.is_empty()).is_some_and(|line| line.replace(' ', "") == "workspace=true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_lives_in_it() {
        assert!(judge_source("crates/x/src/a.rs", "//! Nouns.\nfn a() {}\n").is_empty());
        assert_eq!(judge_source("crates/x/src/a.rs", "fn a() {}\n").len(), 1);
    }

    #[test]
    fn only_lines_outside_tests_count() {
        let code = format!("//! x\n{}", "fn a() {}\n".repeat(LONGEST - 1));
        let with_tests = format!("{code}#[cfg(test)]\nmod tests {{\n{}}}\n", "fn b() {}\n".repeat(100));
        assert!(judge_source("crates/x/src/a.rs", &with_tests).is_empty());
        let too_long = format!("{code}#[cfg(test)]\nmod a_tests;\nfn c() {{}}\n");
        assert!(judge_source("crates/x/src/a.rs", &too_long)[0].contains("503 lines"));
        for name in ["crates/x/src/a_tests.rs", "crates/x/src/tests.rs", "crates/x/tests/a.rs", "tests/a.rs"] {
            assert!(judge_source(name, &too_long).is_empty(), "{name}");
        }
    }

    #[test]
    fn core_has_serde_where_records_and_arguments_are() {
        let with = |line: &str| format!("//! x\n{line}\n");
        for line in [
            "use serde::Serialize;",
            "use serde as s;",
            "#[derive(Debug, serde::Deserialize)]",
            "    #[serde(default)]",
            "#[cfg_attr(test, serde(default))]",
        ] {
            let found = judge_source("crates/openoxide-core/src/api/ids.rs", &with(line));
            assert!(found.len() == 1 && found[0].contains("api/ids.rs:2: uses serde"), "{line}: {found:?}");
            for name in [
                "crates/openoxide-core/src/store/json/mod.rs",
                "crates/openoxide-core/src/tools/args.rs",
                "crates/openoxide-core/src/turn/state_tests.rs",
                "crates/openoxide-mcp-server/src/convert/data.rs",
            ] {
                assert!(judge_source(name, &with(line)).is_empty(), "{name}: {line}");
            }
        }
        for line in ["let value = serde_json::json!({});", "// as serde has it", "let my_serde = 1;"] {
            assert!(judge_source("crates/openoxide-core/src/api/ids.rs", &with(line)).is_empty(), "{line}");
        }
    }

    #[test]
    fn the_keyword_is_seen_where_it_opens_something() {
        let keyword = "unsafe";
        for line in [
            format!("let x = {keyword} {{ f() }};"),
            format!("pub {keyword} fn f() {{}}"),
            format!("{keyword} impl Send for X {{}}"),
            format!("#[allow({keyword}_code)]"),
        ] {
            assert!(has_unsafe(&line), "{line}");
            assert_eq!(judge_source("crates/x/src/a.rs", &format!("//! x\n{line}\n")).len(), 1);
            assert!(judge_source("crates/openoxide-sandbox/src/a.rs", &format!("//! x\n{line}\n")).is_empty());
        }
        for line in ["// unsafe { }", "/// An unsafe fn is not here", "let a = \"unsafe fn\";", "is_unsafe (x)"] {
            assert!(!has_unsafe(line), "{line}");
        }
    }

    #[test]
    fn lints_are_taken_from_the_workspace() {
        assert!(takes_lints("[package]\nname = \"x\"\n\n[lints]\nworkspace = true\n"));
        assert!(!takes_lints("[package]\nname = \"x\"\n[lints]\n[dependencies]\n"));
        assert!(!takes_lints("[package]\nname = \"x\"\n"));
    }

    #[test]
    fn core_opens_nothing_by_path_but_its_own_files() {
        let text =
            "//! x\nfn f() {\n    std::fs::read_to_string(p);\n}\n#[cfg(test)]\nmod tests {\n    fs::read(p);\n}\n";
        let findings = judge_source("crates/openoxide-core/src/tools/a.rs", text);
        assert!(findings.len() == 1 && findings[0].contains("a.rs:3"), "{findings:?}");
        assert!(judge_source("crates/openoxide-core/src/store/a.rs", text).is_empty());
        assert!(judge_source("crates/openoxide-cli/src/a.rs", text).is_empty());
    }
}
