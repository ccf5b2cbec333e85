//! Which git directories a command may write that is nothing but git (`CommandSpec::git_from`), and what in them stays
//! held. Looks and reads only; the supervisor holds (`supervisor/confine/placeholders.rs`).
//!
//! A git directory is as good as its way there. What a command could have put on that way leads nowhere: a pointer file
//! counts only where its git directory names the same work tree back, a link never does. In the directory everything is
//! written but what makes git run programs or look elsewhere ([`HELD`]), and the parts of other work trees. A command
//! whose repository is not of this kind runs as every other one does.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};

use crate::confinement::{Confinement, WritableRoot};
use crate::git_config::{self, MAX_CONFIG, Setting};
use crate::hidden::check_against;
use crate::{Workspace, repository};

/// What stands, while a command runs, for a name that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Directory,
    /// A file with this in it, which changes nothing for git.
    File(&'static str),
}

/// What git takes orders from in its own directory: settings and programs, other directories to look in, and where it
/// fetches from. The shared directory of one that shares nothing is itself, which is what git finds in that file
/// meanwhile.
pub(crate) const HELD: [(&str, Missing); 10] = [
    ("branches", Missing::Directory),
    ("commondir", Missing::File(NOT_SHARED)),
    ("config", Missing::File("")),
    ("config.worktree", Missing::File("")),
    ("gitdir", Missing::File("")),
    ("hooks", Missing::Directory),
    ("info", Missing::Directory),
    ("modules", Missing::Directory),
    ("objects/info", Missing::Directory),
    ("remotes", Missing::Directory),
];

/// What stands for `commondir`.
const NOT_SHARED: &str = ".\n";

/// Directories that must be what they seem, so that what lies in them can be held and looked through.
const DIRECTORIES: [&str; 4] = ["logs", "objects", "refs", "worktrees"];

/// What a command of git may write.
#[derive(Debug, Default)]
pub(crate) struct WritableGit {
    /// Git directories.
    pub(crate) roots: Vec<WritableRoot>,
    /// Places in them that are other work trees'.
    pub(crate) sealed: Vec<PathBuf>,
}

impl WritableGit {
    /// Adds the git directories of the repository that a directory lies in, if they may be written.
    pub(crate) fn add(&mut self, start: &Path, confinement: &Confinement) {
        let Some(repository) = Repository::find(start) else { return };
        let is_of_workspace = |root: &WritableRoot| {
            root.is_workspace && (repository.root.starts_with(&root.path) || root.path.starts_with(&repository.root))
        };
        if !confinement.writable.iter().any(is_of_workspace) {
            return;
        }
        let directories = [Some(&repository.common), repository.own.as_ref()].into_iter().flatten();
        let checked: Option<Vec<Workspace>> = directories.map(|path| usable(path, confinement)).collect();
        let Some(checked) = checked else { return };
        for directory in checked {
            let (path, id) = (directory.path().to_owned(), Some(directory.id().clone()));
            if !self.roots.iter().any(|root| root.path == path) {
                self.roots.push(WritableRoot { path, is_workspace: true, is_git: true, id });
            }
        }
        let others = std::fs::read_dir(repository.common.join("worktrees")).into_iter().flatten().flatten();
        self.sealed.extend(others.map(|entry| entry.path()).filter(|path| Some(path) != repository.own.as_ref()));
    }

    /// Whether anything may be written.
    pub(crate) fn finish(mut self) -> Option<Self> {
        // Where a line works in two work trees of one repository.
        let Self { roots, sealed } = &mut self;
        sealed.retain(|path| !roots.iter().any(|root| root.path == *path));
        (!roots.is_empty()).then_some(self)
    }
}

/// A repository as git finds it. Paths are without links.
struct Repository {
    /// The directory that its `.git` stands in.
    root: PathBuf,
    common: PathBuf,
    /// That of a linked work tree.
    own: Option<PathBuf>,
}

impl Repository {
    /// The one that a directory lies in; none where there is none, or where the way to it is not to be trusted.
    fn find(start: &Path) -> Option<Self> {
        let start = start.canonicalize().ok()?;
        for root in start.ancestors() {
            let entry = root.join(".git");
            match kind_of(&entry) {
                Some(FileType::Directory) if repository::is_git_directory(&entry) => {
                    return is_whole(&entry).then(|| Self { root: root.into(), common: entry, own: None });
                }
                Some(FileType::RegularFile) => return Self::pointed_to(root, &entry),
                Some(FileType::Symlink) if entry.exists() => return None,
                _ => {}
            }
            // Git takes a directory that looks like a git directory for one.
            if repository::is_git_directory(root) && root.join("objects").is_dir() {
                return None;
            }
        }
        None
    }

    fn pointed_to(root: &Path, file: &Path) -> Option<Self> {
        is_own(file).then_some(())?;
        let own = repository::own_directory(file)?.canonicalize().ok()?;
        if !repository::is_git_directory(&own) {
            return None;
        }
        if is_whole(&own) {
            let work_tree = git_config::work_tree(&settings(&own)?, &own)?.canonicalize().ok()?;
            return (work_tree == root).then(|| Self { root: root.into(), common: own, own: None });
        }
        let common = own.join(repository::read(&own.join("commondir"))?.trim_end()).canonicalize().ok()?;
        let back = own.join(repository::read(&own.join("gitdir"))?.trim_end());
        let is_back = back.file_name() == file.file_name() && back.parent()?.canonicalize().ok()? == root;
        let is_in_common = own.parent() == Some(&common.join("worktrees")) && is_whole(&common);
        (is_back && is_in_common && repository::is_git_directory(&common)).then(|| Self {
            root: root.into(),
            common,
            own: Some(own),
        })
    }
}

/// Whether a git directory shares nothing with another.
fn is_whole(directory: &Path) -> bool {
    kind_of(&directory.join("commondir")).is_none()
        || repository::read(&directory.join("commondir")).is_some_and(|text| text == NOT_SHARED)
}

fn kind_of(path: &Path) -> Option<FileType> {
    let stat = rustix::fs::lstat(path).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode))
}

fn is_own(path: &Path) -> bool {
    rustix::fs::lstat(path).is_ok_and(|stat| stat.st_uid == rustix::process::geteuid().as_raw())
}

/// A git directory that is this user's, that nothing leads out of, and that no setting makes dangerous to write; opened.
fn usable(path: &Path, confinement: &Confinement) -> Option<Workspace> {
    let contains_a_root = confinement.writable.iter().any(|root| root.path.starts_with(path));
    if contains_a_root || path.parent().is_none() || check_against(&confinement.hidden, path).is_err() {
        return None;
    }
    let opened = Workspace::open(path, None).ok()?;
    let owner = rustix::fs::fstat(opened.as_fd()).ok()?.st_uid;
    let has_links = HELD
        .iter()
        .map(|(name, _)| name)
        .chain(&DIRECTORIES)
        .any(|name| kind_of(&path.join(name)) == Some(FileType::Symlink));
    if owner != rustix::process::geteuid().as_raw() || has_links {
        return None;
    }
    let is_plain = |name: &str| match kind_of(&path.join(name)) {
        None => true,
        Some(_) => read_settings(&path.join(name)).is_some_and(|all| git_config::points_within(&all, path).is_none()),
    };
    (is_plain("config") && is_plain("config.worktree")).then_some(opened)
}

fn settings(directory: &Path) -> Option<Vec<Setting>> {
    read_settings(&directory.join("config"))
}

/// The settings of a file; none where it cannot be read as a whole.
fn read_settings(path: &Path) -> Option<Vec<Setting>> {
    use std::io::Read as _;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let mut text = String::new();
    let is_file = FileType::from_raw_mode(stat.st_mode).is_file();
    let read = is_file.then(|| std::fs::File::from(file).take(MAX_CONFIG + 1).read_to_string(&mut text).ok())??;
    (u64::try_from(read).is_ok_and(|read| read <= MAX_CONFIG)).then(|| git_config::settings(&text))
}
