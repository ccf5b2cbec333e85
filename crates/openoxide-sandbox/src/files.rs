//! The one way in which files are opened on behalf of the model: by reading tools, for project documents, pictures,
//! searches, listings and the record of changes.
//!
//! What a path leads to is opened without reading it (`O_PATH`), judged on that descriptor, and only then opened for
//! reading through the descriptor, so that nothing can be exchanged in between. Regular files and directories are let
//! through; never what is hidden, what the kernel makes up (`/proc`, `/sys`), pipes, devices or sockets. Opening never
//! waits for a writer, and reading is bounded by whoever reads.
//!
//! Relative paths, and absolute ones that lie in the workspace, start from the descriptor that holds the workspace.

mod description;
mod look_up;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Dir, FileType, Mode, OFlags, Stat, fstat};
use rustix::io::Errno;

pub use self::description::ViewDescription;
use self::look_up::{PLACE, Reach, is_made_by_kernel, look_up, or_dot, real_path, reopen};
use crate::Workspace;
use crate::confinement::on_host;

/// Opens for the model; see the module.
#[derive(Debug, Clone)]
pub struct FileView {
    workspace: Arc<Workspace>,
    hidden: Arc<[PathBuf]>,
    private_tmp: Option<PrivateTmp>,
    /// Beneath which directories those above the workspace lie that may be opened; none means anywhere.
    above: Option<Arc<[PathBuf]>>,
}

/// What the thread's commands see as `/tmp`.
#[derive(Debug, Clone)]
struct PrivateTmp {
    directory: PathBuf,
    /// Further directories that they see under their own names.
    roots: Arc<[PathBuf]>,
}

/// Which links a look-up beneath a directory follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// None at all.
    Refused,
    /// Those that stay beneath the directory.
    Beneath,
}

/// What was opened.
#[derive(Debug)]
pub enum Opened {
    /// A regular file.
    File(OpenedFile),
    /// A directory.
    Directory(OpenedDirectory),
}

/// A regular file, open for reading.
#[derive(Debug)]
pub struct OpenedFile {
    file: File,
    stat: Stat,
}

/// A directory to start look-ups from.
#[derive(Debug)]
pub struct OpenedDirectory {
    directory: OwnedFd,
    path: PathBuf,
    device: u64,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, any bytes but `/` and NUL.
    pub name: OsString,
    /// What it is, itself and not where it links to.
    pub kind: EntryKind,
}

/// What an entry of a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, device or socket.
    Other,
}

/// Why something is not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is nothing of that name.
    #[error("there is no such file")]
    NotFound,
    /// It is hidden from the model: a credential, or the agent's own.
    #[error("it holds credentials or belongs to the agent itself")]
    Hidden,
    /// It lies above what may be looked at.
    #[error("it lies above the directories that the operator of this server allows")]
    Beyond,
    /// It is made up by the kernel.
    #[error("it is no file on disk but a part of `/proc` or `/sys`; run a command if it is needed")]
    Kernel,
    /// A file was wanted.
    #[error("it is a directory")]
    IsDirectory,
    /// A directory was wanted.
    #[error("it is not a directory")]
    NotDirectory,
    /// A pipe, device or socket, which might never end.
    #[error("it is {what}, not a regular file")]
    Special {
        /// What it is, with an article.
        what: &'static str,
    },
    /// A link that is not followed: it leads out of the place, to itself, or no links are allowed.
    #[error(
        "a symbolic link on the way is not followed: it leads out, to nothing that is allowed here, or in a circle"
    )]
    Link,
    /// What the system says.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for OpenError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::NotFound,
            Errno::NOTDIR => Self::NotDirectory,
            Errno::LOOP | Errno::XDEV => Self::Link,
            errno => Self::Io(errno.into()),
        }
    }
}

impl FileView {
    /// A view that starts at a workspace and does not show what is hidden (absolute paths without links).
    #[must_use]
    pub fn new(workspace: Arc<Workspace>, hidden: impl Into<Arc<[PathBuf]>>) -> Self {
        Self { workspace, hidden: hidden.into(), private_tmp: None, above: None }
    }

    /// The same with a directory in the place of `/tmp`, as the thread's commands see it. What lies in one of the `roots`,
    /// which they may write, is seen where it is.
    #[must_use]
    pub fn with_private_tmp(mut self, directory: Option<PathBuf>, roots: &[PathBuf]) -> Self {
        self.private_tmp = directory.map(|directory| PrivateTmp { directory, roots: roots.into() });
        self
    }

    /// The same with [`FileView::open_parent`] held beneath some directories (absolute, without links).
    #[must_use]
    pub fn with_parents_beneath(mut self, directories: Option<Vec<PathBuf>>) -> Self {
        self.above = directories.map(Into::into);
        self
    }

    /// The workspace it starts from.
    #[must_use]
    pub fn workspace(&self) -> &Arc<Workspace> {
        &self.workspace
    }

    /// Opens what a path leads to, through links but not through those of `/proc`. A relative path starts in the
    /// workspace.
    ///
    /// # Errors
    /// Any [`OpenError`].
    pub fn open(&self, path: &Path) -> Result<Opened, OpenError> {
        let mapped = self.map(path);
        let path = mapped.as_deref().unwrap_or(path);
        let found = match path.strip_prefix(self.workspace.path()) {
            Ok(below) => look_up(self.workspace.as_fd(), or_dot(below), Reach::Anywhere)?,
            Err(_) => look_up(self.workspace.as_fd(), path, Reach::Anywhere)?,
        };
        self.judge(found)
    }

    /// Opens a regular file; see [`FileView::open`].
    ///
    /// # Errors
    /// Any [`OpenError`].
    pub fn open_file(&self, path: &Path) -> Result<OpenedFile, OpenError> {
        match self.open(path)? {
            Opened::File(file) => Ok(file),
            Opened::Directory(_) => Err(OpenError::IsDirectory),
        }
    }

    /// Opens a directory; see [`FileView::open`].
    ///
    /// # Errors
    /// Any [`OpenError`].
    pub fn open_directory(&self, path: &Path) -> Result<OpenedDirectory, OpenError> {
        match self.open(path)? {
            Opened::Directory(directory) => Ok(directory),
            Opened::File(_) => Err(OpenError::NotDirectory),
        }
    }

    /// The workspace itself.
    ///
    /// # Errors
    /// [`OpenError::Hidden`], [`OpenError::Io`].
    pub fn open_workspace(&self) -> Result<OpenedDirectory, OpenError> {
        self.open_directory(Path::new("."))
    }

    /// Opens what lies beneath a directory, never anything else. The path is relative.
    ///
    /// # Errors
    /// Any [`OpenError`].
    pub fn open_beneath(&self, directory: &OpenedDirectory, path: &Path, links: Links) -> Result<Opened, OpenError> {
        self.judge(look_up(directory.directory.as_fd(), or_dot(path), Reach::Beneath(links))?)
    }

    /// Opens a regular file beneath a directory; see [`FileView::open_beneath`].
    ///
    /// # Errors
    /// Any [`OpenError`].
    pub fn file_beneath(
        &self,
        directory: &OpenedDirectory,
        path: &Path,
        links: Links,
    ) -> Result<OpenedFile, OpenError> {
        match self.open_beneath(directory, path, links)? {
            Opened::File(file) => Ok(file),
            Opened::Directory(_) => Err(OpenError::IsDirectory),
        }
    }

    /// Opens a directory beneath another, through no link; see [`FileView::open_beneath`].
    ///
    /// # Errors
    /// Any [`OpenError`].
    pub fn directory_beneath(&self, directory: &OpenedDirectory, path: &Path) -> Result<OpenedDirectory, OpenError> {
        match self.open_beneath(directory, path, Links::Refused)? {
            Opened::Directory(directory) => Ok(directory),
            Opened::File(_) => Err(OpenError::NotDirectory),
        }
    }

    /// Opens an entry of a directory, through no link. Quicker than [`FileView::open_beneath`] where a whole tree is read.
    ///
    /// # Errors
    /// Any [`OpenError`].
    pub fn open_entry(&self, directory: &OpenedDirectory, name: &OsStr) -> Result<Opened, OpenError> {
        if name == ".." || name.as_bytes().contains(&b'/') {
            return Err(OpenError::Link);
        }
        let found = rustix::fs::openat(&directory.directory, name, PLACE | OFlags::NOFOLLOW, Mode::empty())?;
        let stat = fstat(&found)?;
        if device(&stat) != directory.device {
            // Something is mounted there, so that nothing is known of it yet.
            return self.judge(found);
        }
        self.admit(found, stat, directory.path.join(name))
    }

    /// The directory above, whatever its path has become.
    ///
    /// # Errors
    /// Any [`OpenError`]; there is none above the root, which is [`OpenError::NotFound`].
    pub fn open_parent(&self, directory: &OpenedDirectory) -> Result<OpenedDirectory, OpenError> {
        if directory.path.parent().is_none() {
            return Err(OpenError::NotFound);
        }
        let flags = PLACE | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        match self.judge(rustix::fs::openat(&directory.directory, c"..", flags, Mode::empty())?)? {
            Opened::Directory(parent) => match &self.above {
                Some(above) if !above.iter().any(|root| parent.path.starts_with(root)) => Err(OpenError::Beyond),
                _ => Ok(parent),
            },
            Opened::File(_) => Err(OpenError::NotDirectory),
        }
    }

    /// Whether a path, absolute and without links, is one that is not shown.
    #[must_use]
    pub fn hides(&self, path: &Path) -> bool {
        self.hidden.iter().any(|hidden| path.starts_with(hidden))
    }

    /// Where a path of the thread's `/tmp` lies.
    fn map(&self, path: &Path) -> Option<PathBuf> {
        let PrivateTmp { directory, roots } = self.private_tmp.as_ref()?;
        let apart = roots.iter().map(PathBuf::as_path).chain([self.workspace.path()]);
        on_host(directory, apart, path)
    }

    /// Lets through what may be read, and opens it for reading.
    fn judge(&self, found: OwnedFd) -> Result<Opened, OpenError> {
        let stat = fstat(&found)?;
        let path = real_path(found.as_fd())?;
        if is_made_by_kernel(found.as_fd(), &path) {
            return Err(OpenError::Kernel);
        }
        self.admit(found, stat, path)
    }

    /// The same for what is known not to be the kernel's, and where it lies.
    fn admit(&self, found: OwnedFd, stat: Stat, path: PathBuf) -> Result<Opened, OpenError> {
        if self.hides(&path) {
            return Err(OpenError::Hidden);
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                Ok(Opened::Directory(OpenedDirectory { directory: found, path, device: device(&stat) }))
            }
            FileType::RegularFile => {
                let file = File::from(reopen(found.as_fd())?);
                Ok(Opened::File(OpenedFile { file, stat }))
            }
            FileType::Fifo => Err(OpenError::Special { what: "a pipe" }),
            FileType::Socket => Err(OpenError::Special { what: "a socket" }),
            FileType::Symlink => Err(OpenError::Link),
            _ => Err(OpenError::Special { what: "a device" }),
        }
    }
}

impl OpenedFile {
    /// The file, at its beginning.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its state as it was opened.
    #[must_use]
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Bytes it had as it was opened.
    #[must_use]
    pub fn len(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }

    /// Whether it was empty as it was opened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads all of it, or `None` where it has more than `limit` bytes. A file that grows meanwhile is read no further.
    ///
    /// # Errors
    /// What the system says.
    pub fn read_whole(&self, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let bytes = self.read_start(limit.saturating_add(1))?;
        Ok((bytes.len() as u64 <= limit).then_some(bytes))
    }

    /// Reads the first `limit` bytes.
    ///
    /// # Errors
    /// What the system says.
    pub fn read_start(&self, limit: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        (&self.file).take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl OpenedDirectory {
    /// Where it lay when it was opened: absolute, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its entries but `.` and `..`, sorted by name, at most `most` of them; the flag says that there are more.
    ///
    /// # Errors
    /// What the system says.
    pub fn entries(&self, most: usize) -> io::Result<(Vec<Entry>, bool)> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut entries = Vec::new();
        let mut has_more = false;
        for entry in Dir::new(rustix::fs::openat(&self.directory, c".", flags, Mode::empty())?)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if entries.len() == most {
                has_more = true;
                break;
            }
            let name = OsStr::from_bytes(name.to_bytes()).to_owned();
            let kind = match entry.file_type() {
                FileType::Unknown => self.kind_of(&name)?,
                kind => Some(kind),
            };
            // One that is gone by now is no entry any more.
            entries.extend(kind.map(|kind| Entry { name, kind: entry_kind(kind) }));
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((entries, has_more))
    }

    /// The state of an entry, itself and not where it links to; none where there is none.
    ///
    /// # Errors
    /// What the system says.
    pub fn stat(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.directory, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn kind_of(&self, name: &OsStr) -> io::Result<Option<FileType>> {
        Ok(self.stat(name)?.map(|stat| FileType::from_raw_mode(stat.st_mode)))
    }
}

/// The device of a file; the type's width differs between systems.
#[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, reason = "the type differs between systems")]
fn device(stat: &Stat) -> u64 {
    stat.st_dev as u64
}

fn entry_kind(kind: FileType) -> EntryKind {
    match kind {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    }
}

#[cfg(test)]
mod tests;
