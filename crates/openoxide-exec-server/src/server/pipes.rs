//! Where the named pipes to relays lie: in a directory that no command can list, change or write in, under names that cannot be
//! guessed, and only until the relay has its pipe open. Otherwise a command could tell another one's relay what to do.
//!
//! The directory lies outside of what commands may write, belongs to this user, and lets its names be used and not read. Commands
//! have this user's id and no privileges, so that this holds for them as well where the server is root.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use openoxide_sandbox::HostPaths;
use tokio::net::unix::pipe;

/// Names can be used, not read.
const MODE: u32 = 0o300;

/// The directory.
#[derive(Debug)]
pub(super) struct Pipes {
    directory: PathBuf,
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
                Ok(directory) => return Ok(Self { directory }),
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

/// One directory for all servers of a user, so that one that was killed leaves none behind.
fn make(directory: &Path) -> io::Result<PathBuf> {
    match std::fs::DirBuilder::new().mode(MODE).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = std::fs::symlink_metadata(directory)?;
    let is_ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if !is_ours || found.mode() & 0o777 != MODE {
        let why = format!("{} is not this user's with mode {MODE:o}; remove it", directory.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(directory.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_not_as_it_was_made_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("pipes");
        assert_eq!(make(&place).unwrap(), place);
        assert_eq!(make(&place).unwrap(), place, "it is used again");
        std::fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        assert!(make(&place).unwrap_err().to_string().contains("remove it"));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&place, &link).unwrap();
        assert!(make(&link).is_err());
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
