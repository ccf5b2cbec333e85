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
use rustix::fs::Stat;

use super::files::FileView;

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
    /// The thread's, for its workflows.
    view: Option<FileView>,
    found: BTreeMap<PathBuf, Stamp>,
}

/// One of them that is not as it was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Other {
    pub(crate) path: PathBuf,
    pub(crate) is_new: bool,
}

impl Obeyed {
    /// Looks at the tops of directories, and at the workflows in the view's workspace. Blocks on the disk.
    pub(crate) fn look(roots: Vec<PathBuf>, guarded: Vec<String>, view: Option<FileView>) -> Self {
        let found = found(&roots, &guarded, view.as_ref());
        Self { roots, guarded, view, found }
    }

    /// What was made or changed since, in the order of paths. Blocks on the disk.
    pub(crate) fn others(self) -> Vec<Other> {
        let now = found(&self.roots, &self.guarded, self.view.as_ref());
        let gone = self.found.keys().filter(|path| !now.contains_key(*path));
        let mut others: Vec<_> = gone.map(|path| Other { path: path.clone(), is_new: false }).collect();
        let changed = now.iter().filter(|(path, stamp)| self.found.get(*path) != Some(stamp));
        others.extend(changed.map(|(path, _)| Other { path: path.clone(), is_new: !self.found.contains_key(path) }));
        others.sort_by(|one, other| one.path.cmp(&other.path));
        others
    }
}

fn found(roots: &[PathBuf], guarded: &[String], view: Option<&FileView>) -> BTreeMap<PathBuf, Stamp> {
    let mut all = BTreeMap::new();
    for root in roots {
        let names = guarded.iter().map(String::as_str).chain(INSTRUCTIONS);
        for path in names.map(|name| root.join(name)) {
            if let Ok(data) = path.symlink_metadata() {
                let times = (data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec());
                all.insert(path, (data.dev(), data.ino(), data.size(), times.0, times.1, times.2, times.3));
            }
        }
    }
    let workflows =
        view.and_then(|view| view.directory_beneath(&view.open_workspace().ok()?, Path::new(WORKFLOWS)).ok());
    let Some(workflows) = workflows else { return all };
    let entries = workflows.entries(MAX_WORKFLOWS).map(|(entries, _)| entries).unwrap_or_default();
    for entry in entries {
        if let Ok(Some(stat)) = workflows.stat(&entry.name) {
            all.insert(workflows.path().join(&entry.name), stamp(&stat));
        }
    }
    all
}

#[allow(
    clippy::unnecessary_cast,
    clippy::cast_lossless,
    clippy::cast_sign_loss,
    reason = "the types differ between systems"
)]
fn stamp(stat: &Stat) -> Stamp {
    let times = (stat.st_mtime as i64, stat.st_mtime_nsec as i64, stat.st_ctime as i64, stat.st_ctime_nsec as i64);
    let (device, inode, size) = (stat.st_dev as u64, stat.st_ino as u64, stat.st_size as u64);
    (device, inode, size, times.0, times.1, times.2, times.3)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use openoxide_sandbox::Workspace;

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
        let root = dir.path().canonicalize().unwrap();
        let workspace = Arc::new(Workspace::resolve(&root).unwrap());
        std::fs::create_dir_all(root.join(".github/workflows")).unwrap();
        for name in ["AGENTS.md", "CLAUDE.md", ".mcp.json", ".github/workflows/a.yml"] {
            std::fs::write(root.join(name), "x").unwrap();
        }
        let before = Obeyed::look(
            vec![root.clone(), root.join("missing")],
            guarded(),
            Some(FileView::new(workspace, Vec::new())),
        );
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
