//! What a command of git must not leave in a repository's own directory: links, which git writes through when the user
//! calls it next, and programs in the list of a rebase, which it runs when the user goes on with it. Neither is of use to
//! git, and what stood there before stays. Done by the supervisor when the command and all that it started are gone.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, readlinkat, statat, unlinkat};

use crate::protected::{each_entry, open_below};
use crate::writable_git::HELD;

/// Holds nothing but objects, by their names: only what stands at its top is looked at.
const OBJECTS: &str = "objects";

/// The list of a rebase, which git goes through line by line.
const LIST: &str = "rebase-merge/git-rebase-todo";

/// The most of a list that is read.
const MAX_LIST: u64 = 4 << 20;

/// What stood there before the command, in a form that can be written down: a letter, and what it is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Before(BTreeSet<Vec<u8>>);

const LINK: u8 = b'L';
const PROGRAM: u8 = b'X';

impl Before {
    /// Looks at a git directory.
    pub(super) fn look(directory: BorrowedFd<'_>) -> Self {
        let mut all = BTreeSet::new();
        each_link(directory, |_, _, path, target| {
            all.insert(link(path, target));
        });
        let text = list(directory).map(|(_, text)| text).unwrap_or_default();
        all.extend(text.split(|byte| *byte == b'\n').filter(|line| is_program(line)).map(program));
        Self(all)
    }

    /// What was written down.
    pub(super) fn of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        Self(lines.filter(|line| matches!(line.first(), Some(&LINK | &PROGRAM))).map(<[u8]>::to_vec).collect())
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }
}

/// Takes away what has come since.
pub(super) fn sweep(directory: BorrowedFd<'_>, before: &Before) {
    each_link(directory, |parent, name, path, target| {
        if !before.0.contains(&link(path, target)) {
            // What is left is the user's to find; nothing is in reach of the command any more.
            let _ = unlinkat(parent, name, AtFlags::empty());
        }
    });
    let Some((_, text)) = list(directory) else { return };
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    let is_new = |line: &&[u8]| {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        is_program(line) && !before.0.contains(&program(line))
    };
    if lines.clone().any(|line| is_new(&line)) {
        let kept: Vec<u8> = lines.filter(|line| !is_new(line)).flatten().copied().collect();
        let _ = rewrite(directory, &kept);
    }
}

fn link(path: &Path, target: &[u8]) -> Vec<u8> {
    [&[LINK], path.as_os_str().as_bytes(), b"\n-> ", target].concat()
}

fn program(line: &[u8]) -> Vec<u8> {
    [&[PROGRAM], line].concat()
}

/// Whether a line of a list runs a program: `exec` or `x`, as git reads it.
fn is_program(line: &[u8]) -> bool {
    let first = line.trim_ascii_start().split(u8::is_ascii_whitespace).next();
    matches!(first, Some(b"exec" | b"x"))
}

/// Calls back for each link with the directory that it stands in, its name there, its path and where it leads. What is
/// held is passed over: no command has written there.
fn each_link(directory: BorrowedFd<'_>, mut act: impl FnMut(BorrowedFd<'_>, &OsStr, &Path, &[u8])) {
    let mut waiting = vec![PathBuf::new()];
    while let Some(below) = waiting.pop() {
        // A path that is too long for this is too long for git.
        let Ok(opened) = open_below(directory, &below) else { continue };
        let mut names = Vec::new();
        let _ = each_entry(opened.as_fd(), |name, kind| {
            if name != c"."
                && name != c".."
                && matches!(kind, FileType::Symlink | FileType::Directory | FileType::Unknown)
            {
                names.push(OsStr::from_bytes(name.to_bytes()).to_owned());
            }
            true
        });
        for name in names {
            let path = below.join(&name);
            let stat = statat(&opened, &name, AtFlags::SYMLINK_NOFOLLOW);
            match stat.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
                Ok(FileType::Symlink) => {
                    let target = readlinkat(&opened, &name, Vec::new()).unwrap_or_default();
                    act(opened.as_fd(), &name, &path, target.as_bytes());
                }
                Ok(FileType::Directory) => {
                    let is_held = HELD.iter().any(|(held, _)| path == Path::new(held));
                    if !is_held && below != Path::new(OBJECTS) {
                        waiting.push(path);
                    }
                }
                _ => {}
            }
        }
    }
}

/// The list of a rebase, opened, where it is a plain file.
fn list(directory: BorrowedFd<'_>) -> Option<(OwnedFd, Vec<u8>)> {
    let path = Path::new(LIST);
    let parent = open_below(directory, path.parent()?).ok()?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(&parent, path.file_name()?, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&opened).ok()?;
    let mut text = Vec::new();
    let is_file = FileType::from_raw_mode(stat.st_mode).is_file();
    let file = std::fs::File::from(opened);
    (is_file && (&file).take(MAX_LIST).read_to_end(&mut text).is_ok()).then(|| (file.into(), text))
}

/// Replaces the list.
fn rewrite(directory: BorrowedFd<'_>, text: &[u8]) -> std::io::Result<()> {
    let path = Path::new(LIST);
    let parent = open_below(directory, path.parent().unwrap_or(path))?;
    let name = path.file_name().unwrap_or_default();
    // A new file: the old one may have another name elsewhere.
    unlinkat(&parent, name, AtFlags::empty())?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(&parent, name, flags, Mode::from_raw_mode(0o644))?;
    std::fs::File::from(opened).write_all(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_come_goes_and_what_was_there_stays() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for name in ["refs/heads", "logs", "hooks", "objects/ab", "rebase-merge", "worktrees/w"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        let link = |target: &str, path: &str| std::os::unix::fs::symlink(target, at(path)).unwrap();
        link("mine", "refs/mine");
        link("mine", "refs/changed");
        link("other", "hooks/kept");
        std::fs::write(at(LIST), "pick 1 one\nexec make\n").unwrap();
        let directory = std::fs::File::open(dir.path()).unwrap();
        let before = Before::look(directory.as_fd());
        let lines: Vec<Vec<u8>> = before.lines().map(<[u8]>::to_vec).collect();
        assert_eq!(Before::of(lines.iter().map(Vec::as_slice)), before);
        std::fs::remove_file(at("refs/changed")).unwrap();
        for path in ["refs/changed", "refs/heads/x", "logs/HEAD", "index", "worktrees/w/HEAD", "objects/cd"] {
            link("/etc/passwd", path);
        }
        link("..", "refs/circle");
        std::fs::write(at(LIST), "pick 1 one\nexec make\n x evil\nexecute 2\nexec\tevil").unwrap();
        sweep(directory.as_fd(), &before);
        for path in
            ["refs/changed", "refs/heads/x", "logs/HEAD", "index", "worktrees/w/HEAD", "objects/cd", "refs/circle"]
        {
            assert!(at(path).symlink_metadata().is_err(), "{path}");
        }
        assert!(at("refs/mine").is_symlink() && at("hooks/kept").is_symlink());
        assert_eq!(std::fs::read_to_string(at(LIST)).unwrap(), "pick 1 one\nexec make\nexecute 2\n");
    }
}
