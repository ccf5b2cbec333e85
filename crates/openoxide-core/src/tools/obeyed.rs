//! Files that other programs take orders from: settings of editors and agents, what agents read as instructions, what a
//! repository's host runs. Which a turn made or changed is told first, whoever did it, because a person should look at
//! them before opening the directory.
//!
//! The names at the top of what commands may write are looked at before and after, beside the record of what commands
//! changed (`before.rs`), which is not to be had for every directory and leaves out what version control ignores.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use openoxide_display::quote_path;
use openoxide_sandbox::PROTECTED_NAMES;

/// What agents read as instructions.
const INSTRUCTIONS: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// Where a repository's host looks for what it runs.
const WORKFLOWS: &str = ".github/workflows";

/// The most that is looked at of the workflows.
const MAX_WORKFLOWS: usize = 200;

/// The most that one warning names.
const MAX_NAMED: usize = 20;

/// Why a file is told first; none for one that nothing obeys. `guarded` are the names of the configuration.
pub(crate) fn why(path: &Path, guarded: &[String]) -> Option<&'static str> {
    let is_one = |name: &OsStr, names: &[&str]| names.iter().any(|known| name.eq_ignore_ascii_case(known));
    if path.file_name().is_some_and(|name| is_one(name, &INSTRUCTIONS)) {
        return Some("agents read it as instructions");
    }
    let parts: Vec<&OsStr> = path.iter().collect();
    let workflows: Vec<&OsStr> = Path::new(WORKFLOWS).iter().collect();
    if parts.windows(workflows.len()).any(|parts| parts == workflows) {
        return Some("the repository's host runs it");
    }
    let names: Vec<&str> = PROTECTED_NAMES.into_iter().chain(guarded.iter().map(String::as_str)).collect();
    parts.iter().any(|name| is_one(name, &names)).then_some("editors, agents or shells obey it")
}

/// The warning of a result for the files among those it names that are obeyed.
pub(crate) fn warning(files: &[PathBuf], guarded: &[String]) -> Option<String> {
    let obeyed: Vec<_> = files.iter().filter_map(|path| Some((path, why(path, guarded)?))).collect();
    if obeyed.is_empty() {
        return None;
    }
    let mut text = String::from("other programs take orders from what this turn made or changed; look at it first: ");
    for (at, (path, why)) in obeyed.iter().take(MAX_NAMED).enumerate() {
        // Writing to a string does not fail.
        let _ = write!(text, "{}{} ({why})", if at == 0 { "" } else { ", " }, quote_path(path));
    }
    if obeyed.len() > MAX_NAMED {
        let _ = write!(text, " and {} more", obeyed.len() - MAX_NAMED);
    }
    Some(text)
}

/// What tells that something is another, or was written.
type Stamp = (u64, u64, u64, i64, i64, i64, i64);

/// The names at the top of directories at one moment.
#[derive(Debug)]
pub(crate) struct Obeyed {
    roots: Vec<PathBuf>,
    guarded: Vec<String>,
    found: BTreeMap<PathBuf, Stamp>,
}

/// One of them that is not as it was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Other {
    pub(crate) path: PathBuf,
    pub(crate) is_new: bool,
}

impl Obeyed {
    /// Looks at the tops of directories. Blocks on the disk.
    pub(crate) fn look(roots: Vec<PathBuf>, guarded: Vec<String>) -> Self {
        let found = found(&roots, &guarded);
        Self { roots, guarded, found }
    }

    /// What was made or changed since, in the order of paths. Blocks on the disk.
    pub(crate) fn others(self) -> Vec<Other> {
        let now = found(&self.roots, &self.guarded);
        let gone = self.found.keys().filter(|path| !now.contains_key(*path));
        let mut others: Vec<_> = gone.map(|path| Other { path: path.clone(), is_new: false }).collect();
        let changed = now.iter().filter(|(path, stamp)| self.found.get(*path) != Some(stamp));
        others.extend(changed.map(|(path, _)| Other { path: path.clone(), is_new: !self.found.contains_key(path) }));
        others.sort_by(|one, other| one.path.cmp(&other.path));
        others
    }
}

fn found(roots: &[PathBuf], guarded: &[String]) -> BTreeMap<PathBuf, Stamp> {
    let mut all = BTreeMap::new();
    for root in roots {
        let names = guarded.iter().map(String::as_str).chain(INSTRUCTIONS);
        let tops = names.map(|name| root.join(name));
        let directory = root.join(WORKFLOWS);
        // Through no link: what stands elsewhere is not run.
        let is_plain =
            directory.ancestors().take(2).all(|path| path.symlink_metadata().is_ok_and(|data| data.is_dir()));
        let workflows = is_plain.then(|| std::fs::read_dir(&directory).ok()).flatten();
        let workflows = workflows.into_iter().flatten().flatten().take(MAX_WORKFLOWS);
        for path in tops.chain(workflows.map(|entry| entry.path())) {
            if let Ok(data) = path.symlink_metadata() {
                let times = (data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec());
                all.insert(path, (data.dev(), data.ino(), data.size(), times.0, times.1, times.2, times.3));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guarded() -> Vec<String> {
        vec![".vscode".to_owned(), ".mcp.json".to_owned()]
    }

    #[test]
    fn what_others_obey_is_known_wherever_it_lies() {
        let is_obeyed = |path: &str| why(Path::new(path), &guarded()).is_some();
        for path in [
            ".vscode/tasks.json",
            "a/.VSCode",
            "AGENTS.md",
            "a/claude.md",
            ".github/workflows/ci.yml",
            "/w/b/.git/hooks/x",
            ".mcp.json",
        ] {
            assert!(is_obeyed(path), "{path}");
        }
        for path in ["vscode/x", ".github/CODEOWNERS", "AGENTS.md.txt", "workflows/ci.yml", ".envrc"] {
            assert!(!is_obeyed(path), "{path}");
        }
        let files: Vec<PathBuf> = (0..30).map(|n| format!(".vscode/{n}\n").into()).chain(["x".into()]).collect();
        let text = warning(&files, &guarded()).unwrap();
        assert!(text.ends_with("and 10 more") && !text.contains('\n'), "{text}");
        assert_eq!(warning(&["x".into()], &guarded()), None);
    }

    #[test]
    fn what_was_made_changed_or_removed_at_the_top_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_owned();
        std::fs::create_dir_all(root.join(".github/workflows")).unwrap();
        for name in ["AGENTS.md", "CLAUDE.md", ".mcp.json", ".github/workflows/a.yml"] {
            std::fs::write(root.join(name), "x").unwrap();
        }
        let before = Obeyed::look(vec![root.clone(), root.join("missing")], guarded());
        std::fs::write(root.join("AGENTS.md"), "more").unwrap();
        std::fs::write(root.join(".github/workflows/b.yml"), "x").unwrap();
        std::fs::remove_file(root.join(".mcp.json")).unwrap();
        std::fs::create_dir(root.join(".vscode")).unwrap();
        let told: Vec<_> = before.others().into_iter().map(|other| (other.path, other.is_new)).collect();
        let expected =
            [(".github/workflows/b.yml", true), (".mcp.json", false), (".vscode", true), ("AGENTS.md", false)];
        assert_eq!(told, expected.map(|(name, is_new)| (root.join(name), is_new)));
    }
}
