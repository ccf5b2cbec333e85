//! Where the directory is, and how it is made.

use std::io;
use std::path::{Path, PathBuf};

use openoxide_sandbox::HostPaths;
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;

use crate::ThreadId;

/// Where the directory of a thread is.
pub(crate) fn place(host_paths: &HostPaths, id: ThreadId) -> PathBuf {
    let parent = host_paths.tmpdir.as_deref().unwrap_or(Path::new("/tmp"));
    let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
    parent.join(format!("openoxide-{id}"))
}

/// Makes the directory, or sees that the one that is there is ours and nobody else's.
pub(crate) fn make(place: &Path) -> io::Result<()> {
    match rustix::fs::mkdir(place, Mode::from_raw_mode(0o700)) {
        Ok(()) => return Ok(()),
        Err(Errno::EXIST) if is_ours(place)? => return Ok(()),
        Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    Err(io::Error::other("something of that name is there which is not the user's own directory of mode 0700"))
}

/// Whether it is a directory of the user's that nobody else can enter.
pub(super) fn is_ours(place: &Path) -> io::Result<bool> {
    let stat = rustix::fs::lstat(place)?;
    let is_directory = FileType::from_raw_mode(stat.st_mode).is_dir();
    Ok(is_directory && stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o077 == 0)
}
