//! Where the named pipes to relays lie: in a directory that no command can list, change or write in, under names that cannot be
//! guessed, and only until the relay has its pipe open. Otherwise a command could tell another one's relay what to do.
//!
//! The directory lies outside of what commands may write, belongs to this user, and lets its names be used and not read. Commands
//! have this user's id and no privileges, so that this holds for them as well where the server is root.
//!
//! Each server has one of its own, beside a file that it keeps locked. What a killed server left is taken away by the next one.

use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use openoxide_sandbox::HostPaths;
use rustix::fs::FlockOperation;
use tokio::net::unix::pipe;

/// Names can be used, not read.
const MODE: u32 = 0o300;
/// The mode of what holds the directories of all servers of a user.
const OUTER: u32 = 0o700;
/// What the locked file is called, after the name of the directory.
const LOCK: &str = "lock";

/// The directory, until it is dropped.
#[derive(Debug)]
pub(super) struct Pipes {
    directory: PathBuf,
    /// Locked for as long as it is open.
    _lock: File,
}

impl Drop for Pipes {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.directory);
        let _ = std::fs::remove_file(self.directory.with_extension(LOCK));
    }
}

/// The name of a pipe, until it is dropped.
pub(super) struct PipePlace(PathBuf);

impl PipePlace {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PipePlace {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Pipes {
    /// `writable` are the directories, without links, that commands may write in.
    ///
    /// # Errors
    /// There is no place for it outside of those.
    pub(super) fn new(host: &HostPaths, writable: &[PathBuf]) -> io::Result<Self> {
        let shared = ["/var/tmp", "/run", "/var/lib"].map(PathBuf::from);
        // What is written may lie beside it; it never lies in what is written.
        let is_apart = |place: &PathBuf| {
            place.canonicalize().is_ok_and(|real| !writable.iter().any(|root| real.starts_with(root)))
        };
        let mut why = None;
        for place in shared.iter().chain(&host.home).filter(|place| is_apart(place)) {
            match make(&place.join(format!("openoxide-exec-{}", rustix::process::geteuid().as_raw()))) {
                Ok(pipes) => return Ok(pipes),
                Err(error) => why = Some(error),
            }
        }
        let why = why.map_or_else(String::new, |why| format!(" ({why})"));
        Err(io::Error::other(format!(
            "there is no directory for pipes that commands cannot write in{why}; leave /var/tmp or your home out of \
             --allow-root and TMPDIR"
        )))
    }

    /// A pipe, which the relay opens by its name.
    #[cfg(target_os = "linux")]
    pub(super) fn make(&self) -> io::Result<(PipePlace, pipe::Sender)> {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let place = PipePlace(self.directory.join(uuid::Uuid::new_v4().simple().to_string()));
        mknodat(CWD, &place.0, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        // Both ends, so that neither waits for the other.
        let sender = pipe::OpenOptions::new().read_write(true).open_sender(&place.0)?;
        Ok((place, sender))
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn make(&self) -> io::Result<(PipePlace, pipe::Sender)> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "commands are served on Linux only"))
    }
}

/// A directory of this server's own below the one of its user.
fn make(outer: &Path) -> io::Result<Pipes> {
    match std::fs::DirBuilder::new().mode(OUTER).create(outer) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = std::fs::symlink_metadata(outer)?;
    let is_ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if !is_ours || found.mode() & 0o777 != OUTER {
        let why = format!("{} is not this user's with mode {OUTER:o}; remove it", outer.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    take_away_leftovers(outer)?;
    let directory = outer.join(uuid::Uuid::new_v4().simple().to_string());
    // Locked before there is anything that another server might take for left.
    let lock = File::options().write(true).create_new(true).mode(0o600).open(directory.with_extension(LOCK))?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    std::fs::DirBuilder::new().mode(MODE).create(&directory)?;
    Ok(Pipes { directory, _lock: lock })
}

/// Removes the directories of servers that are gone.
fn take_away_leftovers(outer: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(outer)?.flatten() {
        let lock = entry.path();
        if lock.extension().is_none_or(|extension| extension != LOCK) {
            continue;
        }
        let Ok(file) = File::open(&lock) else { continue };
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let left = lock.with_extension("");
        // What cannot be taken away now is there for the next one.
        if std::fs::set_permissions(&left, std::fs::Permissions::from_mode(OUTER)).is_ok() {
            let _ = std::fs::remove_dir_all(&left);
        }
        let _ = std::fs::remove_file(&lock);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_not_as_it_was_made_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("pipes");
        let pipes = make(&place).unwrap();
        assert_eq!(std::fs::metadata(&pipes.directory).unwrap().mode() & 0o777, MODE);
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(make(&place).unwrap_err().to_string().contains("remove it"));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&place, &link).unwrap();
        assert!(make(&link).is_err());
    }

    #[test]
    fn what_a_killed_server_left_goes_and_what_another_has_stays() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("pipes");
        let other = make(&place).unwrap();
        let left = place.join("left");
        std::fs::create_dir(&left).unwrap();
        std::fs::write(left.join("pipe"), "").unwrap();
        std::fs::set_permissions(&left, std::fs::Permissions::from_mode(MODE)).unwrap();
        std::fs::write(left.with_extension(LOCK), "").unwrap();
        let own = make(&place).unwrap();
        assert!(!left.exists() && !left.with_extension(LOCK).exists());
        assert!(other.directory.exists() && own.directory.exists());
        drop((other, own));
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0);
    }

    #[test]
    fn it_never_lies_where_commands_write() {
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        let home = dir.path().canonicalize().unwrap();
        let host = HostPaths { home: Some(home.clone()), ..HostPaths::default() };
        let writable: Vec<PathBuf> = ["/var", "/run", "/tmp"].map(PathBuf::from).into();
        assert!(Pipes::new(&host, &writable).is_err());
        let apart: Vec<PathBuf> = ["/var", "/run"].map(PathBuf::from).into();
        assert!(Pipes::new(&host, &apart).unwrap().directory.starts_with(&home));
    }
}
