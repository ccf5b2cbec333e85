//! A unix socket at a path: who may take the path, and who may connect.
//!
//! Only the user of this process reaches the socket: its file is 0600 from the beginning, its directory is one that nobody
//! else can put a file into, and the user who connects is checked again (SO_PEERCRED, [`super::PeerUser::of_unix`]).
//!
//! **A path has one server.** A file that somebody answers at is never taken over; one that nobody answers at is what a server
//! left that was killed, and is replaced. Two that begin at the same moment are told apart by a lock on the directory, which
//! is held for no longer than that takes. It is no lock file, so that nothing has to be removed.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use tokio::net::{UnixListener, UnixStream};

/// Connections that wait to be taken.
const BACKLOG: i32 = 128;
/// How often the lock on the directory is asked for, and how long after each.
const TRIES: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(20);

/// A unix socket that is listened on. Its file is removed when this is dropped.
pub struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and number of its file.
    file: (u64, u64),
}

impl UnixSocket {
    /// Listens at `path`. A directory that does not exist is made, for this user alone.
    ///
    /// # Errors
    /// Somebody serves the path, something else is there, or others could replace the socket. The message says who and what
    /// to do.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn bind(path: &Path) -> io::Result<Self> {
        let address = address_of(path)?;
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        check_directory(directory)?;
        let _lock = lock_directory(directory).await?;
        make_way(path, &address)?;
        let listener = listen(path, &address).map_err(|error| failed(path, "cannot listen at", error))?;
        let metadata = std::fs::symlink_metadata(path)?;
        let file = (metadata.dev(), metadata.ino());
        let listener = StdListener::from(listener);
        listener.set_nonblocking(true)?;
        Ok(Self { listener: UnixListener::from_std(listener)?, path: path.to_owned(), file })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next connection. Cancel-safe.
    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept().await?.0)
    }
}

impl Drop for UnixSocket {
    /// The listener is still open here, so that nobody takes the path for one that was left before it is removed.
    fn drop(&mut self) {
        let is_ours = std::fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.file);
        if is_ours && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!("the socket {} stays behind: {error}", self.path.display());
        }
    }
}

fn failed(path: &Path, what: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what} {}: {error}", path.display()))
}

fn refused(kind: io::ErrorKind, message: String) -> io::Error {
    io::Error::new(kind, message)
}

fn address_of(path: &Path) -> io::Result<SocketAddrUnix> {
    SocketAddrUnix::new(path).map_err(|_| {
        let length = path.as_os_str().len();
        let message = format!(
            "the socket's path {} has {length} bytes, more than the system takes (107, and no zero byte); use a shorter one",
            path.display()
        );
        refused(io::ErrorKind::InvalidInput, message)
    })
}

/// Makes the directory where it is missing. Refuses one in which others could replace the socket by their own.
fn check_directory(directory: &Path) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(directory, "cannot make the socket's directory", error)),
    }
    let metadata = std::fs::metadata(directory)?;
    let (mode, owner, own) = (metadata.mode(), metadata.uid(), rustix::process::geteuid().as_raw());
    let is_sticky = mode & 0o1000 != 0;
    let others_write = mode & 0o022 != 0 && !is_sticky;
    if others_write || (owner != own && owner != 0) {
        let message = format!(
            "others may replace the socket in {} (mode {:o}, user {owner}); use a directory that only user {own} can write to",
            directory.display(),
            mode & 0o7777
        );
        return Err(refused(io::ErrorKind::PermissionDenied, message));
    }
    Ok(())
}

/// Waits for others that are about to begin in the same directory. Released when it is dropped.
async fn lock_directory(directory: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory, flags, Mode::empty());
    let opened = opened.map_err(|error| failed(directory, "cannot open the socket's directory", error.into()))?;
    for _ in 0..TRIES {
        match rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(opened),
            Err(Errno::WOULDBLOCK | Errno::INTR) => tokio::time::sleep(BETWEEN).await,
            Err(error) => return Err(failed(directory, "cannot lock the socket's directory", error.into())),
        }
    }
    let message = format!(
        "another process holds a lock on {} and does not let go; use a directory of its own for the socket",
        directory.display()
    );
    Err(refused(io::ErrorKind::WouldBlock, message))
}

/// Removes what a server that was killed has left at the path. Whatever else is there stays, and is an error.
fn make_way(path: &Path, address: &SocketAddrUnix) -> io::Result<()> {
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(path, "cannot look at", error)),
    };
    if !found.file_type().is_socket() {
        let message = format!("{} is there and is no socket; remove it, or use another path", path.display());
        return Err(refused(io::ErrorKind::AlreadyExists, message));
    }
    if let Some(who) = server_at(path, address)? {
        let message = format!("{who} serves {} already; connect to it, end it, or use another path", path.display());
        return Err(refused(io::ErrorKind::AddrInUse, message));
    }
    std::fs::remove_file(path).map_err(|error| failed(path, "cannot remove the socket that was left at", error))
}

/// Who answers at the path; nobody where the socket was left behind.
fn server_at(path: &Path, address: &SocketAddrUnix) -> io::Result<Option<String>> {
    let socket = new_socket()?;
    match rustix::net::connect(&socket, address) {
        Ok(()) => Ok(Some(name_of(&socket))),
        // Its queue is full.
        Err(Errno::AGAIN) => Ok(Some("another process".to_owned())),
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(None),
        Err(error) => Err(failed(path, "cannot tell whether anybody serves", error.into())),
    }
}

#[cfg(target_os = "linux")]
fn name_of(socket: &OwnedFd) -> String {
    let peer = rustix::net::sockopt::socket_peercred(socket);
    peer.map_or_else(|_| "another process".to_owned(), |peer| format!("process {}", peer.pid.as_raw_nonzero()))
}

#[cfg(not(target_os = "linux"))]
fn name_of(_: &OwnedFd) -> String {
    "another process".to_owned()
}

fn new_socket() -> io::Result<OwnedFd> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(socket)
}

fn listen(path: &Path, address: &SocketAddrUnix) -> io::Result<OwnedFd> {
    let socket = new_socket()?;
    let only_user = Mode::RUSR | Mode::WUSR;
    // On Linux the file is made with this mode; where that is not so, others could connect for a moment, and are refused by
    // their user.
    let _ = rustix::fs::fchmod(&socket, only_user);
    rustix::net::bind(&socket, address)?;
    rustix::fs::chmod(path, only_user)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    async fn refusal(path: &Path) -> String {
        UnixSocket::bind(path).await.err().expect("refused").to_string()
    }

    #[tokio::test]
    async fn the_socket_is_its_users_alone_and_goes_with_its_server() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("made/control.sock");
        let socket = UnixSocket::bind(&path).await.unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_path_that_is_served_is_refused_by_name_and_goes_on_being_served() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let first = UnixSocket::bind(&path).await.unwrap();
        let refused = refusal(&path).await;
        let own = format!("process {} serves {}", std::process::id(), path.display());
        assert!(refused.contains(&own) && refused.contains("another path"), "{refused}");
        UnixStream::connect(&path).await.unwrap();
        drop(first);
        UnixSocket::bind(&path).await.unwrap();
    }

    #[tokio::test]
    async fn what_a_killed_server_left_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        // Nothing removes the file of this one, as after a kill.
        drop(StdListener::bind(&path).unwrap());
        assert!(path.exists());
        let socket = UnixSocket::bind(&path).await.unwrap();
        UnixStream::connect(&path).await.unwrap();
        socket.accept().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn of_many_that_begin_at_once_at_a_left_socket_one_serves() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        for _ in 0..20 {
            drop(StdListener::bind(&path).unwrap());
            let beginning: Vec<_> = (0..8)
                .map(|_| {
                    let path = path.clone();
                    tokio::spawn(async move { UnixSocket::bind(&path).await })
                })
                .collect();
            let mut serving = Vec::new();
            for one in beginning {
                serving.extend(one.await.unwrap().ok());
            }
            assert_eq!(serving.len(), 1);
            UnixStream::connect(&path).await.unwrap();
            serving[0].accept().await.unwrap();
        }
    }

    #[tokio::test]
    async fn one_that_begins_waits_for_another_that_is_about_to_listen() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        drop(StdListener::bind(&path).unwrap());
        let held = lock_directory(directory.path()).await.unwrap();
        let mut beginning = Box::pin(UnixSocket::bind(&path));
        assert!(futures_util::FutureExt::now_or_never(beginning.as_mut()).is_none(), "the path looks left, and is not");
        std::fs::remove_file(&path).unwrap();
        let _other = StdListener::bind(&path).unwrap();
        drop(held);
        assert!(beginning.await.err().unwrap().to_string().contains("serves"));
    }

    #[tokio::test]
    async fn what_is_no_socket_stays() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        std::fs::write(&file, "mine").unwrap();
        symlink(&file, &link).unwrap();
        for path in [&file, &link] {
            assert!(refusal(path).await.contains("is no socket; remove it"));
        }
        assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
    }

    #[tokio::test]
    async fn a_directory_that_others_write_to_is_refused_unless_it_is_sticky() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let set = |mode| std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        set(0o777);
        assert!(refusal(&path).await.contains("others may replace the socket"));
        set(0o1777);
        UnixSocket::bind(&path).await.unwrap();
        set(0o700);
        let long = directory.path().join("x".repeat(120));
        assert!(refusal(&long).await.contains("use a shorter one"));
    }

    #[tokio::test]
    async fn a_file_that_took_the_path_since_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let socket = UnixSocket::bind(&path).await.unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "another's").unwrap();
        drop(socket);
        assert!(path.exists());
    }
}
