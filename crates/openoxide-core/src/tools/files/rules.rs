//! What ignore files say: `.ignore`, `.gitignore` and `.git/info/exclude`, from the root of the repository down.
//!
//! The files are read through the view and never by path, and never through a link, as git does. One that is no regular
//! file, or too large, counts as none and is named.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::{FileView, Links, OpenError, OpenedDirectory};

/// The most bytes, and lines, of one ignore file.
const MAX_BYTES: u64 = 256 << 10;
const MAX_LINES: usize = 8_000;

/// The rules that hold in one directory, and above them those of its parent.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Each kind of file, the strongest kind first.
    kinds: [Option<Gitignore>; KINDS.len()],
    parent: Option<Rc<Rules>>,
}

/// The kinds of ignore files, the strongest first.
const KINDS: [&str; 3] = [".ignore", ".gitignore", ".git/info/exclude"];

/// What the rules say of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Unnamed,
    /// It is left out.
    Ignored,
    /// It is named as one that is not left out.
    Kept,
}

impl Rules {
    /// Adds the rules of a directory to those above it. Files that could not be used are added to `unused`.
    pub(crate) fn read(
        view: &FileView,
        directory: &OpenedDirectory,
        parent: Option<Rc<Self>>,
        unused: &mut Vec<PathBuf>,
    ) -> Rc<Self> {
        let kinds = KINDS.map(|name| match read(view, directory, name) {
            Ok(rules) => rules,
            Err(()) => {
                unused.push(directory.path().join(name));
                None
            }
        });
        match parent {
            // Most directories have no rules of their own.
            Some(parent) if kinds.iter().all(Option::is_none) => parent,
            parent => Rc::new(Self { kinds, parent }),
        }
    }

    /// What is said of a path beneath the directory: the strongest kind that says something, and of one kind the
    /// innermost file.
    pub(crate) fn verdict(&self, path: &Path, is_directory: bool) -> Verdict {
        for kind in 0..KINDS.len() {
            let mut next = Some(self);
            while let Some(rules) = next {
                match rules.kinds[kind].as_ref().map(|rules| rules.matched(path, is_directory)) {
                    Some(Match::Ignore(_)) => return Verdict::Ignored,
                    Some(Match::Whitelist(_)) => return Verdict::Kept,
                    Some(Match::None) | None => next = rules.parent.as_deref(),
                }
            }
        }
        Verdict::Unnamed
    }
}

/// The rules of one file; none where there is no such file, an error where it cannot be used.
fn read(view: &FileView, directory: &OpenedDirectory, name: &str) -> Result<Option<Gitignore>, ()> {
    let bytes = match view.file_beneath(directory, Path::new(name), Links::Refused) {
        Ok(file) => file.read_whole(MAX_BYTES),
        Err(OpenError::NotFound | OpenError::NotDirectory) => return Ok(None),
        // A `.git` that is a link, as in some worktrees, has no rules of its own here.
        Err(OpenError::Link) if name.starts_with(".git/") => return Ok(None),
        Err(_) => return Err(()),
    };
    let text = String::from_utf8(bytes.map_err(|_| ())?.ok_or(())?).unwrap_or_else(|error| {
        // Rules that are no text match nothing; the others of the file count.
        String::from_utf8_lossy(error.as_bytes()).into_owned()
    });
    if text.lines().nth(MAX_LINES).is_some() {
        return Err(());
    }
    let mut builder = GitignoreBuilder::new(directory.path());
    for line in text.lines() {
        // A rule that cannot be understood is passed over, as git does.
        let _ = builder.add_line(None, line);
    }
    let rules = builder.build().map_err(|_| ())?;
    Ok((!rules.is_empty()).then_some(rules))
}
