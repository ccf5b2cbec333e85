//! A directory as a thing and not as a path: opened once, held, and told from whatever takes its place.
//!
//! A path says where to look; what is found there can be another directory the next time. Whoever depends on its being the
//! same (a thread's directory, a directory that commands may write in) finds out once which one it is ([`Workspace`]),
//! keeps its [`DirectoryId`], and compares. The supervisor compares again before it gives a command the right to write.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// How a directory is opened to be held: to start from, not to be read.
#[cfg(target_os = "linux")]
const HELD: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const HELD: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Which directory something is: its device and inode, and what tells it from a later one that was given the same inode
/// (the file handle where the file system has one, else the time it was made). The text is one word of ASCII, the same in
/// every process; it is compared and never taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DirectoryId(String);

impl DirectoryId {
    /// The identity of an open directory.
    ///
    /// # Errors
    /// What the system says of the descriptor.
    pub fn of(directory: impl AsFd) -> io::Result<Self> {
        let directory = directory.as_fd();
        let stat = rustix::fs::fstat(directory)?;
        let mark = mark(directory);
        Ok(Self(format!("{:x}:{:x}:{mark}", stat.st_dev, stat.st_ino)))
    }

    /// The identity that [`DirectoryId::as_str`] gave.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The identity as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DirectoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What tells a directory from a later one of the same inode; empty where the system knows nothing of the kind.
#[cfg(target_os = "linux")]
fn mark(directory: BorrowedFd<'_>) -> String {
    if let Some(handle) = file_handle(directory) {
        return handle.iter().map(|byte| format!("{byte:02x}")).collect();
    }
    let flags = rustix::fs::AtFlags::EMPTY_PATH;
    match rustix::fs::statx(directory, c"", flags, rustix::fs::StatxFlags::BTIME) {
        Ok(stat) if stat.stx_mask & rustix::fs::StatxFlags::BTIME.bits() != 0 => {
            format!("b{:x}.{:x}", stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec)
        }
        _ => String::new(),
    }
}

#[cfg(not(target_os = "linux"))]
fn mark(_: BorrowedFd<'_>) -> String {
    String::new()
}

/// The kernel's handle of the file, with its type in front; none where the file system has none.
#[cfg(target_os = "linux")]
fn file_handle(directory: BorrowedFd<'_>) -> Option<Vec<u8>> {
    use std::os::fd::AsRawFd;

    /// The most bytes of a handle, as `name_to_handle_at(2)` has it.
    const MAX_HANDLE: usize = 128;

    #[repr(C)]
    struct Handle {
        bytes: libc::c_uint,
        kind: libc::c_int,
        handle: [u8; MAX_HANDLE],
    }
    let mut handle = Handle { bytes: MAX_HANDLE as libc::c_uint, kind: 0, handle: [0; MAX_HANDLE] };
    let mut mount: libc::c_int = 0;
    // SAFETY: the handle has the room that its first field tells, the path is an empty C string, the mount id is a number
    // of ours; all three outlive the call, which keeps none of them.
    #[allow(unsafe_code)]
    let done = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            directory.as_raw_fd(),
            c"".as_ptr(),
            &raw mut handle,
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    if done != 0 {
        return None;
    }
    let length = (handle.bytes as usize).min(MAX_HANDLE);
    let kind = handle.kind.to_be_bytes();
    Some(kind.iter().chain(&handle.handle[..length]).copied().collect())
}

/// A directory that is open. Moving or replacing what its path names does not change it.
#[derive(Debug)]
pub struct Workspace {
    directory: OwnedFd,
    path: PathBuf,
    id: DirectoryId,
}

/// Why a directory is not the one it was, or is none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// It cannot be opened.
    #[error("{} cannot be opened: {source}", path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// There is a symbolic link in a path that had none.
    #[error("{} was moved: a symbolic link stands on the way to it now", path.display())]
    Link {
        /// The directory.
        path: PathBuf,
    },
    /// The path leads to another directory than it did.
    #[error("{} was replaced: it is another directory than it was", path.display())]
    Replaced {
        /// The directory.
        path: PathBuf,
    },
}

impl Workspace {
    /// Opens the directory that a path leads to, through whatever links, and keeps where it lies.
    ///
    /// # Errors
    /// [`WorkspaceError::Unusable`]; [`WorkspaceError::Replaced`] where it is exchanged at this very moment.
    pub fn resolve(path: &Path) -> Result<Self, WorkspaceError> {
        let unusable = |source| WorkspaceError::Unusable { path: path.into(), source };
        let first = rustix::fs::open(path, HELD, Mode::empty()).map_err(|errno| unusable(errno.into()))?;
        let id = DirectoryId::of(&first).map_err(unusable)?;
        let real = path.canonicalize().map_err(unusable)?;
        Self::open(&real, Some(&id))
    }

    /// Opens the directory of a path that has no links in it, and must be this one where one is named.
    ///
    /// # Errors
    /// Any [`WorkspaceError`].
    pub fn open(path: &Path, expected: Option<&DirectoryId>) -> Result<Self, WorkspaceError> {
        let directory = open_without_links(path).map_err(|errno| match errno {
            Errno::LOOP => WorkspaceError::Link { path: path.into() },
            errno => WorkspaceError::Unusable { path: path.into(), source: errno.into() },
        })?;
        let id =
            DirectoryId::of(&directory).map_err(|source| WorkspaceError::Unusable { path: path.into(), source })?;
        if expected.is_some_and(|expected| *expected != id) {
            return Err(WorkspaceError::Replaced { path: path.into() });
        }
        Ok(Self { directory, path: path.into(), id })
    }

    /// Whether its path still leads to it, and without a link.
    ///
    /// # Errors
    /// Any [`WorkspaceError`].
    pub fn check(&self) -> Result<(), WorkspaceError> {
        Self::open(&self.path, Some(&self.id)).map(drop)
    }

    /// Another descriptor of it.
    ///
    /// # Errors
    /// No more descriptors can be had.
    pub fn try_clone(&self) -> io::Result<OwnedFd> {
        self.directory.try_clone()
    }

    /// Where it lay when it was opened: absolute, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which directory it is.
    #[must_use]
    pub fn id(&self) -> &DirectoryId {
        &self.id
    }
}

impl From<Workspace> for OwnedFd {
    fn from(workspace: Workspace) -> Self {
        workspace.directory
    }
}

impl AsFd for Workspace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// Opens a directory by an absolute path, following no link anywhere on it. A link is told as `ELOOP`.
pub(crate) fn open_without_links(path: &Path) -> Result<OwnedFd, Errno> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(rustix::fs::CWD, path, HELD, Mode::empty(), resolve) {
            // No such call here, or a filter that does not know it.
            Err(Errno::NOSYS | Errno::PERM) => {}
            other => return other,
        }
    }
    let mut directory = rustix::fs::open(c"/", HELD, Mode::empty())?;
    for part in path.components() {
        match part {
            std::path::Component::Normal(name) => {
                let flags = HELD | OFlags::NOFOLLOW;
                directory = match rustix::fs::openat(&directory, name, flags, Mode::empty()) {
                    Err(Errno::NOTDIR) if is_link(&directory, name) => return Err(Errno::LOOP),
                    other => other?,
                };
            }
            std::path::Component::RootDir | std::path::Component::CurDir => {}
            _ => return Err(Errno::INVAL),
        }
    }
    Ok(directory)
}

fn is_link(directory: &OwnedFd, name: &std::ffi::OsStr) -> bool {
    let stat = rustix::fs::statat(directory, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_symlink())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn house() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(path.join("x/proj")).unwrap();
        (dir, path)
    }

    #[test]
    fn a_link_on_the_way_is_followed_once_and_never_again() {
        let (_dir, path) = house();
        std::os::unix::fs::symlink("x", path.join("link")).unwrap();
        let workspace = Workspace::resolve(&path.join("link/proj")).unwrap();
        assert_eq!(workspace.path(), path.join("x/proj"));
        workspace.check().unwrap();
        std::fs::rename(path.join("x"), path.join("y")).unwrap();
        std::fs::create_dir_all(path.join("other/proj")).unwrap();
        std::os::unix::fs::symlink("other", path.join("x")).unwrap();
        assert!(matches!(workspace.check(), Err(WorkspaceError::Link { .. })));
    }

    #[test]
    fn another_directory_of_the_same_path_is_told() {
        let (_dir, path) = house();
        let workspace = Workspace::resolve(&path.join("x/proj")).unwrap();
        std::fs::rename(path.join("x/proj"), path.join("x/old")).unwrap();
        assert!(matches!(workspace.check(), Err(WorkspaceError::Unusable { .. })));
        std::fs::create_dir(path.join("x/proj")).unwrap();
        assert!(matches!(workspace.check(), Err(WorkspaceError::Replaced { .. })));
        std::fs::remove_dir(path.join("x/proj")).unwrap();
        std::fs::rename(path.join("x/old"), path.join("x/proj")).unwrap();
        workspace.check().unwrap();
    }

    #[test]
    fn a_directory_that_is_made_anew_is_another_even_where_its_inode_is_used_again() {
        let (_dir, path) = house();
        let place = path.join("again");
        std::fs::create_dir(&place).unwrap();
        let first = Workspace::resolve(&place).unwrap().id().clone();
        std::fs::remove_dir(&place).unwrap();
        for _ in 0..100 {
            std::fs::create_dir(&place).unwrap();
            assert_ne!(Workspace::resolve(&place).unwrap().id(), &first);
            std::fs::remove_dir(&place).unwrap();
        }
    }

    #[test]
    fn an_identity_is_one_word_and_survives_as_text() {
        let (_dir, path) = house();
        let id = Workspace::resolve(&path).unwrap().id().clone();
        assert!(id.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b':' || byte == b'.'));
        assert_eq!(DirectoryId::from_text(id.as_str()), id);
    }
}
