//! Going through a tree, entry by entry, sorted by name, by the rules of its ignore files. Links are never followed.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ignore::overrides::Override;

use super::rules::{Rules, Verdict};
use super::{EntryKind, FileView, OpenError, Opened, OpenedDirectory};

/// How deep a tree is gone through; each level holds a descriptor.
const MAX_DEPTH: usize = 100;

/// The most entries of one directory.
const MAX_ENTRIES: usize = 100_000;

/// What a walk leaves out beside what ignore files name.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    /// Leaves out names that begin with a dot, unless an ignore file keeps them.
    pub(crate) skips_dot_names: bool,
    /// Leaves out `.git`.
    pub(crate) skips_git: bool,
    /// Gives files that are left out by name as well, marked so; directories that are left out are not entered.
    pub(crate) gives_ignored: bool,
    /// Leaves out files that these patterns do not match.
    pub(crate) include: Option<Override>,
}

/// A walk under way; an iterator of regular files.
pub(crate) struct Walk<'a> {
    view: &'a FileView,
    choice: Choice,
    stack: Vec<Level>,
    /// Entries seen so far, of any kind.
    seen: usize,
    unused: Vec<PathBuf>,
    cut: Vec<PathBuf>,
}

struct Level {
    directory: Rc<OpenedDirectory>,
    rules: Rc<Rules>,
    entries: std::vec::IntoIter<openoxide_sandbox::Entry>,
}

/// A regular file that was found, and not opened.
#[derive(Debug)]
pub(crate) struct Found {
    directory: Rc<OpenedDirectory>,
    name: OsString,
    is_ignored: bool,
}

impl Found {
    /// Whether an ignore file leaves it out.
    pub(crate) fn is_ignored(&self) -> bool {
        self.is_ignored
    }

    /// Where it lies: absolute, without links.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join(&self.name)
    }

    /// Where a bare repository begins of which it is the HEAD; none where it is another file.
    pub(crate) fn bare_repository(&self) -> Option<&Path> {
        let is_directory = |name: &str| {
            let stat = self.directory.stat(OsStr::new(name)).ok().flatten();
            stat.is_some_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir())
        };
        (self.name == "HEAD" && is_directory("objects") && is_directory("refs")).then(|| self.directory.path())
    }

    /// Its state; none where it is gone.
    pub(crate) fn stat(&self) -> Option<rustix::fs::Stat> {
        self.directory.stat(&self.name).ok().flatten()
    }

    /// Opens it.
    pub(crate) fn open(&self, view: &FileView) -> Result<openoxide_sandbox::OpenedFile, OpenError> {
        match view.open_entry(&self.directory, &self.name)? {
            Opened::File(file) => Ok(file),
            Opened::Directory(_) => Err(OpenError::IsDirectory),
        }
    }
}

impl<'a> Walk<'a> {
    /// A walk through a directory. `above` are the directories whose ignore files hold there too, outermost first.
    pub(crate) fn new(view: &'a FileView, root: OpenedDirectory, above: &[OpenedDirectory], choice: Choice) -> Self {
        let mut unused = Vec::new();
        let mut rules = None;
        for directory in above.iter().filter(|above| above.path() != root.path()) {
            rules = Some(Rules::read(view, directory, rules, &mut unused));
        }
        let mut walk = Self { view, choice, stack: Vec::new(), seen: 0, unused, cut: Vec::new() };
        walk.enter(Rc::new(root), rules);
        walk
    }

    /// How many entries were looked at so far.
    pub(crate) fn seen(&self) -> usize {
        self.seen
    }

    /// Ignore files that could not be used, and directories that were gone through in part or not at all because they are
    /// too deep or too large.
    pub(crate) fn left_out(&self) -> (&[PathBuf], &[PathBuf]) {
        (&self.unused, &self.cut)
    }

    fn enter(&mut self, directory: Rc<OpenedDirectory>, above: Option<Rc<Rules>>) {
        if self.stack.len() == MAX_DEPTH {
            self.cut.push(directory.path().to_owned());
            return;
        }
        // What cannot be listed is passed over, as what cannot be read is.
        let Ok((entries, has_more)) = directory.entries(MAX_ENTRIES) else { return };
        if has_more {
            self.cut.push(directory.path().to_owned());
        }
        let rules = Rules::read(self.view, &directory, above, &mut self.unused);
        self.stack.push(Level { directory, rules, entries: entries.into_iter() });
    }

    /// Whether an entry is wanted, and if so, whether an ignore file leaves it out.
    fn takes(&self, level: &Level, name: &OsStr, path: &Path, is_directory: bool) -> Option<bool> {
        if self.choice.skips_git && name == ".git" || self.view.hides(path) {
            return None;
        }
        if let Some(include) = &self.choice.include {
            match include.matched(path, is_directory) {
                ignore::Match::Ignore(_) => return None,
                ignore::Match::Whitelist(_) => return Some(false),
                ignore::Match::None => {}
            }
        }
        match level.rules.verdict(path, is_directory) {
            Verdict::Ignored => (self.choice.gives_ignored && !is_directory).then_some(true),
            Verdict::Kept => Some(false),
            Verdict::Unnamed if self.choice.skips_dot_names && name.as_encoded_bytes().starts_with(b".") => None,
            Verdict::Unnamed => Some(false),
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            let level = self.stack.last_mut()?;
            let Some(entry) = level.entries.next() else {
                self.stack.pop();
                continue;
            };
            self.seen += 1;
            let is_directory = entry.kind == EntryKind::Directory;
            if !is_directory && entry.kind != EntryKind::File {
                continue;
            }
            let Some(level) = self.stack.last() else { continue };
            let path = level.directory.path().join(&entry.name);
            let Some(is_ignored) = self.takes(level, &entry.name, &path, is_directory) else { continue };
            let (directory, rules) = (Rc::clone(&level.directory), Rc::clone(&level.rules));
            if !is_directory {
                return Some(Found { directory, name: entry.name, is_ignored });
            }
            if let Ok(Opened::Directory(inner)) = self.view.open_entry(&directory, &entry.name) {
                self.enter(Rc::new(inner), Some(rules));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;
    use std::sync::Arc;

    use openoxide_sandbox::Workspace;

    use super::*;

    struct Tree {
        _dir: tempfile::TempDir,
        path: PathBuf,
    }

    impl Tree {
        fn new(files: &[(&str, &str)]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().canonicalize().unwrap();
            let tree = Self { _dir: dir, path };
            for (name, text) in files {
                tree.write(name, text);
            }
            tree
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.path.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn view(&self) -> FileView {
            FileView::new(Arc::new(Workspace::resolve(&self.path).unwrap()), Vec::new())
        }

        fn names(&self, choice: Choice) -> (Vec<String>, Vec<PathBuf>) {
            let view = self.view();
            let mut walk = Walk::new(&view, view.open_workspace().unwrap(), &[], choice);
            let found: Vec<_> = walk.by_ref().map(|found| found.path()).collect();
            let names = found.iter().map(|path| path.strip_prefix(&self.path).unwrap().display().to_string());
            (names.collect(), walk.left_out().0.to_vec())
        }
    }

    #[test]
    fn ignore_files_hold_from_their_directory_down_and_the_nearest_wins() {
        let tree = Tree::new(&[
            (".gitignore", "*.log\n/build\n"),
            (".ignore", "secret.txt\n"),
            (".git/info/exclude", "mine\n"),
            ("a/.gitignore", "!keep.log\n"),
            ("a/keep.log", ""),
            ("a/drop.log", ""),
            ("a/build/x", ""),
            ("build/x", ""),
            ("mine", ""),
            ("secret.txt", ""),
            ("b.txt", ""),
            (".dot", ""),
        ]);
        let choice = || Choice { skips_git: true, ..Choice::default() };
        let all = [".dot", ".gitignore", ".ignore", "a/.gitignore", "a/build/x", "a/keep.log", "b.txt"];
        assert_eq!(tree.names(choice()).0, all);
        let shown = ["a/build/x", "a/keep.log", "b.txt"];
        assert_eq!(tree.names(Choice { skips_dot_names: true, ..choice() }).0, shown);
    }

    #[test]
    fn an_ignore_file_that_is_no_small_regular_file_counts_as_none_and_is_named() {
        let tree =
            Tree::new(&[("a/x.log", ""), ("b/x.log", ""), ("c/x.log", ""), ("d/x.log", ""), ("rules", "*.log\n")]);
        std::os::unix::fs::symlink("/dev/zero", tree.path.join("a/.gitignore")).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let pipe = tree.path.join("b/.ignore");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        tree.write("c/.gitignore", &"*.log\n".repeat(100_000));
        std::os::unix::fs::symlink("../rules", tree.path.join("d/.gitignore")).unwrap();
        let (names, unused) = tree.names(Choice { skips_dot_names: true, ..Choice::default() });
        assert_eq!(names, ["a/x.log", "b/x.log", "c/x.log", "d/x.log", "rules"]);
        let expected = ["a/.gitignore", "b/.ignore", "c/.gitignore", "d/.gitignore"].map(|name| tree.path.join(name));
        assert_eq!(unused, expected);
    }

    #[test]
    fn links_are_not_followed_and_special_files_are_passed_over() {
        let tree = Tree::new(&[("a/x", "")]);
        std::os::unix::fs::symlink("a", tree.path.join("b")).unwrap();
        std::os::unix::fs::symlink("..", tree.path.join("a/up")).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, tree.path.join("p"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        fs::write(tree.path.join(OsStr::from_bytes(b"\xff")), "").unwrap();
        let view = tree.view();
        let found: Vec<_> = Walk::new(&view, view.open_workspace().unwrap(), &[], Choice::default())
            .map(|found| found.path())
            .collect();
        assert_eq!(found, [tree.path.join("a/x"), tree.path.join(OsStr::from_bytes(b"\xff"))]);
    }

    #[test]
    fn a_tree_that_is_too_deep_is_cut_and_named() {
        let tree = Tree::new(&[]);
        let deep: PathBuf = std::iter::repeat_n("d", MAX_DEPTH + 5).collect();
        fs::create_dir_all(tree.path.join(&deep)).unwrap();
        fs::write(tree.path.join(&deep).join("x"), "").unwrap();
        let view = tree.view();
        let mut walk = Walk::new(&view, view.open_workspace().unwrap(), &[], Choice::default());
        assert_eq!(walk.by_ref().count(), 0);
        assert_eq!(walk.left_out().1.len(), 1);
    }
}
