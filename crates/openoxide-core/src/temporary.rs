//! A thread's own directory for temporary files: `openoxide-<thread>` in the server's, for its user alone. It is made for
//! the first command, found again by the thread's id, and removed when the thread is closed or leaves memory otherwise, when
//! the server ends, and when the thread is deleted. What a killed server leaves is removed by the next start on the same home
//! (`temporary/left.rs`).

pub(crate) mod left;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use openoxide_sandbox::{SandboxMode, Surroundings};
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;

use crate::{CoreError, Thread, ThreadId};

impl Thread {
    /// Where commands of the thread put temporary files; none where they can write nothing. Blocks on the disk.
    ///
    /// # Errors
    /// It cannot be made, or something else stands in its place.
    pub(crate) fn temporary_directory(&self) -> Result<Option<PathBuf>, CoreError> {
        if self.config().sandbox == SandboxMode::ReadOnly {
            return Ok(None);
        }
        let place = place(self.core.config.launcher.surroundings(), self.id());
        // Before it is there: a kill in between leaves a note too many and no directory that nobody knows of.
        if !self.has_temporary.swap(true, Ordering::Relaxed) {
            left::note(self.core.config.launcher.surroundings(), self.id(), &place);
        }
        match make(&place) {
            Ok(()) => Ok(Some(place)),
            Err(source) => {
                // What stands there is not to be removed.
                self.has_temporary.store(false, Ordering::Relaxed);
                left::forget(self.core.config.launcher.surroundings(), self.id());
                Err(CoreError::Temporary { path: place, source })
            }
        }
    }

    /// Removes it with a thread that leaves memory, whichever way: closed, idle for long, or to make room.
    pub(crate) fn drop_temporary(&self) {
        if !self.has_temporary.load(Ordering::Relaxed) {
            return;
        }
        let (surroundings, id) = (self.core.config.launcher.surroundings().clone(), self.id());
        let manager = self.manager.clone();
        let remove = move || {
            // It may have been loaded again by now, and then goes on with what is there.
            if manager.upgrade().is_none_or(|manager| manager.in_memory(id).is_none()) {
                remove_temporary(&surroundings, id);
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

/// Where the directory of a thread is.
pub(crate) fn place(surroundings: &Surroundings, id: ThreadId) -> PathBuf {
    let parent = surroundings.tmpdir.as_deref().unwrap_or(Path::new("/tmp"));
    let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
    parent.join(format!("openoxide-{id}"))
}

/// Makes the directory, or sees that the one that is there is ours and nobody else's.
fn make(place: &Path) -> io::Result<()> {
    match rustix::fs::mkdir(place, Mode::from_raw_mode(0o700)) {
        Ok(()) => return Ok(()),
        Err(Errno::EXIST) if is_ours(place)? => return Ok(()),
        Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    Err(io::Error::other("something of that name is there which is not the user's own directory of mode 0700"))
}

/// Whether it is a directory of the user's that nobody else can enter.
fn is_ours(place: &Path) -> io::Result<bool> {
    let stat = rustix::fs::lstat(place)?;
    let is_directory = FileType::from_raw_mode(stat.st_mode).is_dir();
    Ok(is_directory && stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o077 == 0)
}

/// Removes what a thread has left in its own directory for temporary files. Links are removed and not followed. Blocks on
/// the disk.
pub fn remove_temporary(surroundings: &Surroundings, id: ThreadId) {
    let place = place(surroundings, id);
    match std::fs::remove_dir_all(&place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(place = %place.display(), %error, "a thread's temporary files were not removed");
        }
        Ok(()) | Err(_) => left::forget(surroundings, id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_users_own_or_it_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let surroundings = Surroundings { tmpdir: Some(dir.path().into()), ..Surroundings::default() };
        let id = ThreadId::new();
        let place = place(&surroundings, id);
        make(&place).unwrap();
        make(&place).unwrap();
        std::fs::create_dir(place.join("deep")).unwrap();
        std::fs::write(dir.path().join("kept"), "").unwrap();
        std::os::unix::fs::symlink(dir.path(), place.join("deep/link")).unwrap();
        remove_temporary(&surroundings, id);
        assert!(!place.exists() && dir.path().join("kept").exists());
        remove_temporary(&surroundings, id);
        std::os::unix::fs::symlink(dir.path(), &place).unwrap();
        assert!(make(&place).is_err(), "a link");
        std::fs::remove_file(&place).unwrap();
        std::fs::create_dir(&place).unwrap();
        std::fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert!(make(&place).is_err(), "open to others");
    }
}
