//! What counts as a git repository, and what its pointer files lead to. Looks and reads only: no link of a pointer is
//! trusted, nothing blocks, and nothing is read beyond a bound.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};

/// The most bytes that a pointer file is read of.
const MAX_POINTER: u64 = 4096;

/// Whether a repository begins in the directory: its `.git` is a git directory, or a file that points to one.
///
/// A git directory has a `HEAD`, as git has it. An empty `.git` and a link that leads nowhere are nothing, so that what
/// stands for a missing name while a command runs, and what other programs leave behind, is never taken for a repository.
#[must_use]
pub fn is_repository_root(directory: &Path) -> bool {
    let entry = directory.join(".git");
    match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => is_git_directory(&entry),
        Ok(metadata) if metadata.is_file() => own_directory(&entry).is_some_and(|own| is_git_directory(&own)),
        _ => false,
    }
}

/// Whether a directory above this one is the root of a repository.
pub(crate) fn lies_in_repository(directory: &Path) -> bool {
    directory.ancestors().skip(1).any(is_repository_root)
}

/// Whether git would take the directory for a repository's own.
pub(crate) fn is_git_directory(directory: &Path) -> bool {
    directory.join("HEAD").symlink_metadata().is_ok_and(|metadata| metadata.is_file() || metadata.is_symlink())
}

/// The git directories that a pointer file (of a worktree or a submodule) names, in its own words: its own, and the one that
/// it shares with others. They may not exist, and links may stand in them.
pub(crate) fn pointed_to(file: &Path) -> Vec<PathBuf> {
    let Some(own) = own_directory(file) else { return Vec::new() };
    let shared = read(&own.join("commondir")).map(|text| own.join(text.trim_end_matches(['\n', '\r'])));
    std::iter::once(own).chain(shared).collect()
}

/// The git directory that a pointer file names, in its own words.
pub(crate) fn own_directory(file: &Path) -> Option<PathBuf> {
    let text = read(file)?;
    let pointer = text.strip_prefix("gitdir:")?.trim();
    (!pointer.is_empty()).then(|| file.parent().unwrap_or(Path::new("/")).join(pointer))
}

/// The beginning of a small regular file; none for anything else, and where it is no text.
pub(crate) fn read(path: &Path) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let is_file = FileType::from_raw_mode(rustix::fs::fstat(&file).ok()?.st_mode).is_file();
    let mut text = String::new();
    (is_file && std::fs::File::from(file).take(MAX_POINTER).read_to_string(&mut text).is_ok()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        (dir, path)
    }

    fn git_directory(path: &Path) {
        std::fs::create_dir_all(path).unwrap();
        std::fs::write(path.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    }

    #[test]
    fn a_repository_has_a_head_or_points_to_one() {
        let (_dir, path) = place();
        for name in ["plain", "linked", "pointing", "empty", "dangling", "malformed", "nowhere", "fifo"] {
            std::fs::create_dir(path.join(name)).unwrap();
        }
        git_directory(&path.join("plain/.git"));
        std::os::unix::fs::symlink("../plain/.git", path.join("linked/.git")).unwrap();
        std::fs::write(path.join("pointing/.git"), "gitdir: ../plain/.git\n").unwrap();
        std::fs::create_dir(path.join("empty/.git")).unwrap();
        std::os::unix::fs::symlink("/proc/no/such", path.join("dangling/.git")).unwrap();
        std::fs::write(path.join("malformed/.git"), "gitdir: ..\n").unwrap();
        std::fs::write(path.join("nowhere/.git"), [0xff, 0xfe]).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path.join("fifo/.git"), Mode::RWXU).unwrap();
        for (name, expected) in [
            ("plain", true),
            ("linked", true),
            ("pointing", true),
            ("empty", false),
            ("dangling", false),
            ("malformed", false),
            ("nowhere", false),
            ("fifo", false),
            ("absent", false),
        ] {
            assert_eq!(is_repository_root(&path.join(name)), expected, "{name}");
        }
        assert!(lies_in_repository(&path.join("plain/a/b")) && !lies_in_repository(&path.join("plain")));
    }

    #[test]
    fn a_pointer_names_its_own_and_the_shared_directory() {
        let (_dir, path) = place();
        let own = path.join("main/.git/worktrees/w");
        git_directory(&own);
        std::fs::write(own.join("commondir"), "../..\n").unwrap();
        std::fs::create_dir(path.join("w")).unwrap();
        std::fs::write(path.join("w/.git"), format!("gitdir: {}\n", own.display())).unwrap();
        assert_eq!(pointed_to(&path.join("w/.git")), [own.clone(), own.join("../..")]);
        for other in ["something else", "gitdir:\n", ""] {
            std::fs::write(path.join("w/.git"), other).unwrap();
            assert!(pointed_to(&path.join("w/.git")).is_empty(), "{other:?}");
        }
    }
}
