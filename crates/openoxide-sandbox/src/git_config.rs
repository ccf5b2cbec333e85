//! A repository's configuration, as far as it must be known before a command may write beside it: which files of the
//! repository's own directory it has git read or run, and which directory is its work tree. Reads text only; git's own
//! reader decides what a setting does.

use std::path::{Component, Path, PathBuf};

/// The most of a configuration that is read.
pub(crate) const MAX_CONFIG: u64 = 1 << 20;

/// Sections whose values are addresses and names of branches, and run nothing.
const ADDRESSES: [&str; 4] = ["remote", "branch", "submodule", "url"];

/// Directories beneath a git directory that are held whenever it is written.
const HELD: [&str; 2] = ["hooks", "info"];

/// One setting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// In small letters, without what stands in quotes behind it.
    section: String,
    /// In small letters.
    key: String,
    value: String,
}

/// The settings of a text, in its order. A line that is none is passed over, as a strict reader would stop there.
pub(crate) fn settings(text: &str) -> Vec<Setting> {
    let joined = text.replace("\\\r\n", "").replace("\\\n", "");
    let (mut section, mut all) = (String::new(), Vec::new());
    for line in joined.lines() {
        let mut line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            let (name, rest) = header.split_once(']').unwrap_or((header, ""));
            section = name.split(['"', ' ', '\t', '.']).next().unwrap_or_default().to_ascii_lowercase();
            // A bracket may stand within the quotes of a header; what follows the last one is the setting.
            line = rest.rsplit_once(']').map_or(rest, |(_, rest)| rest).trim();
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        all.push(Setting { section: section.clone(), key: key.trim().to_ascii_lowercase(), value: plain(value) });
    }
    all
}

/// A value without quotes and what they hide.
fn plain(value: &str) -> String {
    let mut text = String::new();
    let mut rest = value.trim().chars();
    while let Some(c) = rest.next() {
        match c {
            '"' => {}
            '\\' => text.extend(rest.next()),
            c => text.push(c),
        }
    }
    text
}

/// The work tree that a configuration names, which is that of a submodule.
pub(crate) fn work_tree(settings: &[Setting], directory: &Path) -> Option<PathBuf> {
    let found = settings.iter().rfind(|setting| setting.section == "core" && setting.key == "worktree")?;
    Some(directory.join(&found.value))
}

/// The first setting that has git read or run something of the directory which stays writable while the rest is held.
pub(crate) fn points_within<'a>(settings: &'a [Setting], directory: &Path) -> Option<&'a str> {
    let within = |setting: &&Setting| {
        if setting.section.starts_with("include") && setting.key == "path" {
            return lies_within(&directory.join(&setting.value), directory);
        }
        !ADDRESSES.contains(&setting.section.as_str()) && names(&setting.value, directory)
    };
    settings.iter().find(within).map(|setting| setting.value.as_str())
}

/// Whether a path is one in the directory that is not held.
fn lies_within(path: &Path, directory: &Path) -> bool {
    let real = path.canonicalize().unwrap_or_else(|_| {
        path.components().fold(PathBuf::new(), |mut at, component| {
            match component {
                Component::ParentDir => drop(at.pop()),
                other => at.push(other),
            }
            at
        })
    });
    real.strip_prefix(directory).is_ok_and(|rest| !is_held(&rest.to_string_lossy()))
}

/// Whether a value has a path in it that leads into the directory, to something that is not held.
fn names(value: &str, directory: &Path) -> bool {
    let own = format!("{}/", directory.display());
    [".git/", own.as_str()]
        .iter()
        .any(|name| value.match_indices(name).any(|(at, _)| !is_held(&value[at + name.len()..])))
}

fn is_held(rest: &str) -> bool {
    let is_plain = !rest.split('/').any(|part| part == "..");
    is_plain
        && HELD.iter().any(|held| rest.strip_prefix(held).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_git_has_them() {
        let text = "; x\n[Core] Bare = false\n\tworktree = \"../../a b\" \n[remote \"a]b\"] url = x.git/y\n[alias]\n\
                    l = !f \\\n g\n# y\n";
        let shown: Vec<_> =
            settings(text).into_iter().map(|set| format!("{}.{}={}", set.section, set.key, set.value)).collect();
        assert_eq!(shown, ["core.bare=false", "core.worktree=../../a b", "remote.url=x.git/y", "alias.l=!f  g"]);
        assert_eq!(work_tree(&settings(text), Path::new("/g")), Some("/g/../../a b".into()));
    }

    #[test]
    fn what_git_would_run_beside_the_rest_is_found() {
        let found = |text: &str| points_within(&settings(text), Path::new("/w/.git")).is_some();
        for text in [
            "[include]\npath = more",
            "[includeIf \"onbranch:x\"] path = /w/.git/more",
            "[include]\npath = ../.git/more",
            "[core]\nhooksPath = .git/mine",
            "[core]\nhooksPath = .git/hooks/../mine",
            "[filter \"x\"]\nclean = sh /w/.git/run",
            "[core]\nfsmonitor = \".git/hooksy\"",
        ] {
            assert!(found(text), "{text}");
        }
        for text in [
            "[include]\npath = ../.gitconfig",
            "[core]\nhooksPath = .git/hooks",
            "[core]\nfsmonitor = .git/hooks/fsmonitor-watchman",
            "[remote \"o\"]\nurl = git@host:x.git/",
            "[core]\nhooksPath = .husky/_",
        ] {
            assert!(!found(text), "{text}");
        }
    }
}
