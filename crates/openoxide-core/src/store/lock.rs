//! The lock of a thread: a file of its own, `flock`ed by the process that uses the thread and removed when it is done.
//! It holds who that is. The lock ends with its process however that ends; the file that then stays behind locks nobody
//! out.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::json;
use crate::Holder;

/// The most bytes that are read of who holds a lock.
const MAX_HOLDER: u64 = 64 * 1024;

/// What a lock's file says.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Holder")]
struct HolderJson {
    pid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    commands: Vec<String>,
}

json::records! { HolderJson for Holder }

/// A lock that is held. Dropping it gives it up.
#[derive(Debug)]
pub(super) struct ThreadLock {
    file: File,
    path: PathBuf,
}

impl ThreadLock {
    /// Takes the lock; [`io::ErrorKind::WouldBlock`] while somebody holds it.
    pub(super) fn take(path: PathBuf) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        loop {
            let file =
                OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            // Whoever held it before may have removed the file in between: then this locks nothing that others see.
            let ours = file.metadata()?;
            match fs::symlink_metadata(&path) {
                Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => {
                    let lock = Self { file, path };
                    lock.note(&Holder { pid: std::process::id(), ..Holder::default() });
                    return Ok(lock);
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes down who holds it. The lock holds without this as well.
    pub(super) fn note(&self, holder: &Holder) {
        let written = json::to_vec::<HolderJson, _>(holder).map_err(io::Error::from).and_then(|bytes| {
            self.file.set_len(0)?;
            self.file.write_all_at(&bytes, 0)
        });
        if let Err(error) = written {
            tracing::debug!(path = %self.path.display(), %error, "who uses a thread was not written down");
        }
    }
}

impl Drop for ThreadLock {
    fn drop(&mut self) {
        // While it is held nobody else removes or replaces it.
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "a lock was not removed; it locks nobody out");
        }
    }
}

/// Who holds a lock that could not be taken, as far as that was written down. To be asked only then: what a process that
/// was killed leaves behind says the same.
pub(super) fn holder(path: &Path) -> Option<Holder> {
    use std::io::Read as _;
    let mut text = Vec::new();
    File::open(path).ok()?.take(MAX_HOLDER).read_to_end(&mut text).ok()?;
    json::from_slice::<HolderJson, _>(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_names_its_holder_and_leaves_nothing_behind() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("run/threads/x.lock");
        let lock = ThreadLock::take(path.clone()).unwrap();
        assert_eq!(ThreadLock::take(path.clone()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let holder = Holder { pid: 7, client: Some("zed".into()), commands: vec!["sleep 1".into()] };
        lock.note(&holder);
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            r#"{"pid":7,"client":"zed","commands":["sleep 1"]}"#,
            "other versions read it"
        );
        assert_eq!(super::holder(&path), Some(holder.clone()));
        assert_eq!(holder.to_string(), "process 7 for client zed, where the background command `sleep 1` runs");
        drop(lock);
        assert!(!path.exists() && super::holder(&path).is_none());
        // What a process that was killed leaves behind locks nobody out.
        fs::write(&path, "{\"pid\":1}").unwrap();
        drop(ThreadLock::take(path).unwrap());
    }

    #[test]
    fn of_many_who_want_it_at_once_one_has_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("x.lock");
        let inside = std::sync::atomic::AtomicUsize::new(0);
        let taken = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let Ok(_lock) = ThreadLock::take(path.clone()) else { continue };
                        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        taken.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(taken.into_inner() > 0);
    }
}
